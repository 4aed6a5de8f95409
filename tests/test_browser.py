"""Notebooks and widgets as a person uses them: JupyterLab in chromium, a microphone that speaks.

The pictures that each test takes lie in pytest's folder of the run, `lab*/shots`.
"""

import re
from pathlib import Path

import lab_browser
import pytest
from lab_browser import MS, RUN_S, STRANGE, Sheet

from vrt.audio import read

ANSWER = 120 * MS  # for what is waited for on a machine that does other things too
LIVE = "from vrt.lab import live\nlive('digits-rnnt', {clip!r})"

# Sleeps eight seconds, then sixteen when it is run again.
BUSY = """import time
seconds = 90 if "seconds" in globals() else 8
time.sleep(seconds)"""


@pytest.fixture(scope="module")
def clip(repo_root) -> Path:
    return repo_root / "data" / "audio" / "five_five.flac"


@pytest.fixture(scope="module")
def lab(tmp_path_factory, repo_root):
    lab_browser.require()
    lab = lab_browser.start_lab(tmp_path_factory.mktemp("lab"), repo_root)
    yield lab
    lab_browser.stop_lab(lab)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory, clip):
    lab_browser.require()
    wav = tmp_path_factory.mktemp("said") / "five_five.wav"
    yield from lab_browser.browser_with(lab_browser.spoken_wav(wav, read(clip).samples))


@pytest.fixture
def sheet(lab, chromium, request):
    """An empty page; parametrised with False it may not use the microphone."""
    sheet = lab_browser.new_sheet(lab, chromium, microphone=getattr(request, "param", True))
    yield sheet
    sheet.shot(f"end-{request.node.name}")
    sheet.page.context.close()
    lab.shut_kernels()
    sheet.check_clean()


class View:
    """The live view of a page."""

    def __init__(self, sheet: Sheet) -> None:
        self.node = sheet.page.locator(".vrt-live")

    def button(self, name: str):
        return self.node.get_by_role("button", name=name)

    def press(self, name: str) -> None:
        self.node.locator(f".vrt-button:not([disabled]):has-text('{name}')").click(timeout=ANSWER)

    def finish(self) -> None:
        """Stop; on a machine that cannot keep up the view has stopped itself."""
        if self.button("Stop").is_enabled():
            self.button("Stop").click(timeout=ANSWER)
        self.await_phase("finished")

    def await_phase(self, phase: str) -> None:
        self.node.locator(f'.vrt-status[data-phase="{phase}"]').wait_for(timeout=ANSWER)

    def await_text(self, text: str) -> None:
        self.node.locator(".vrt-text", has_text=text).wait_for(timeout=ANSWER)

    def await_message(self, text: str) -> None:
        self.node.locator(".vrt-message", has_text=text).wait_for(timeout=ANSWER)

    @property
    def committed(self) -> str:
        return self.node.locator(".vrt-text .vrt-committed").inner_text()

    @property
    def seconds(self) -> float:
        """Of audio that the model heard, below a minute."""
        return float(self.node.locator(".vrt-time").inner_text().removeprefix("00:"))

    @property
    def counts(self) -> str:
        return self.node.locator(".vrt-counts").inner_text()

    def lost_no_block(self) -> None:
        """Of what the page sent; chromium's audio thread may skip samples on a busy machine."""
        assert "0 late" in self.counts and "0 malformed" in self.counts
        assert "0 samples lost" in self.counts or ", 0 whole blocks" in self.counts

    @property
    def dots(self) -> int:
        """80 ms pieces in the chart of computing times."""
        paths = self.node.locator(".vrt-charts .vrt-dots, .vrt-charts .vrt-over")
        drawn = [path.get_attribute("d") or "" for path in paths.all()]
        return sum(d.count("M") for d in drawn)

    def meter(self, name: str) -> float:
        """The number of one of the four meters."""
        value = self.node.locator(".vrt-meters > div", has_text=name).locator(".vrt-value")
        return float(re.match(r"[\d.]+", value.inner_text()).group())


def test_start_notebook_runs_and_shows_its_pictures(sheet, lab, repo_root):
    notebooks = sorted((repo_root / "notebooks").glob("00-*.ipynb"))
    notebook = notebooks[0] if notebooks else repo_root / "notebooks" / "30-live.ipynb"
    sheet.page.set_default_timeout(RUN_S * MS)
    sheet.open(lab.copy(notebook))
    sheet.command("notebook:clear-all-cell-outputs")
    sheet.run_all()
    page = sheet.page
    assert page.locator(".jp-OutputArea-output :text('✓ holds')").count() > 0
    assert page.locator(".jp-OutputArea-output :text('✗ FAILS')").count() == 0
    drawn = ".jp-RenderedImage img, .vega-embed svg, .vega-embed canvas"
    assert page.locator(drawn).count() > 0
    page.locator(drawn).first.scroll_into_view_if_needed()
    sheet.shot("start")


def test_live_notebook_hears_the_microphone_and_a_file(sheet, lab, repo_root):
    sheet.open(lab.copy(repo_root / "notebooks" / "30-live.ipynb"))
    sheet.run_all()
    view = View(sheet)
    view.press("Record")
    view.await_text("five")
    assert view.dots > 0 and sheet.open_microphones() == 1
    sheet.shot("live-recording", view.node)
    view.await_text("five five")
    assert view.meter("Computing") > 0 and view.meter("Transport") > 0
    view.finish()
    sheet.page.wait_for_function("() => window.vrtTracks.every((t) => t.readyState === 'ended')")
    view.lost_no_block()
    # What chromium's audio thread lost under load is counted, and may cost a word.
    assert view.committed == "five five" or ", 0 whole blocks" in view.counts
    sheet.shot("live-finished", view.node)

    # By keyboard: to the next button and on it; the notebook's own commands must not take the key.
    view.button("Record").focus()
    sheet.page.keyboard.press("Tab")
    sheet.page.keyboard.press("Enter")
    view.node.locator(".vrt-time", has_text="00:01.6").wait_for(timeout=ANSWER)
    view.await_phase("finished")
    assert view.committed == "five five" and "0 samples lost" in view.counts
    assert view.dots == 20
    steps_by_keyboard(sheet)

    sheet.dark()
    view.node.scroll_into_view_if_needed()
    for name in ("live", "beam-explorer", "ring"):
        node = sheet.page.locator(f".vrt-{name}")
        ink, ground = (
            node.evaluate(f"e => getComputedStyle(e).{p}") for p in ("color", "backgroundColor")
        )
        assert contrast(ink, ground) > 7, (name, ink, ground)
        sheet.shot(f"dark-{name}", node)


def steps_by_keyboard(sheet: Sheet) -> None:
    beam, ring = (sheet.page.locator(f".vrt-{name}") for name in ("beam-explorer", "ring"))
    place = beam.locator(".vrt-step output")
    beam.get_by_label("Iteration", exact=True).focus()
    for key, shown in (("Home", "0 of 14"), ("ArrowRight", "1 of 14"), ("ArrowRight", "2 of 14")):
        sheet.page.keyboard.press(key)
        place.get_by_text(shown, exact=True).wait_for()
    assert "Slot 2 spells the same as slot 1" in beam.locator(".vrt-says").inner_text()
    assert beam.locator("tbody tr").nth(2).locator("td").last.inner_text() == "merged into 1"
    sheet.shot("beam", beam)
    ring.get_by_label("Chunk number", exact=True).focus()
    sheet.page.keyboard.press("Home")
    ring.get_by_text("Frames 0 to 3 were written").wait_for()
    sheet.page.keyboard.press("ArrowRight")
    ring.get_by_text("Frames 4 to 7 were written").wait_for()
    ring.get_by_label("Capacity, frames", exact=True).press("Home")
    ring.get_by_text("KVRing capacity 1 is below window + max_chunk - 1 = 15").wait_for()
    sheet.shot("ring", ring)


def contrast(ink: str, ground: str) -> float:
    """The ratio that WCAG 2.1 defines, of two CSS colours; ink may be translucent."""
    front, back = ([float(n) for n in re.findall(r"[\d.]+", colour)] for colour in (ink, ground))
    alpha = front[3] if len(front) > 3 else 1.0
    mixed = [alpha * f + (1 - alpha) * b for f, b in zip(front[:3], back[:3], strict=True)]
    light, dark = sorted((luminance(mixed), luminance(back[:3])), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(rgb: list[float]) -> float:
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_of_known_colours():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


def test_a_busy_kernel_is_said_and_order_is_kept(sheet, lab, clip):
    name = lab.write("busy.ipynb", LIVE.format(clip=str(clip)), BUSY)
    sheet.open(name)
    sheet.start_all()
    view = View(sheet)
    view.await_message("The kernel is busy with another cell")
    assert view.button("Record").is_disabled()
    sheet.shot("busy", view.node)
    view.press("Record")  # as soon as it can be
    view.await_text("five")
    # The cell that sleeps once more: messages go past it on another thread, and none gets lost.
    sheet.page.locator(".jp-CodeCell").nth(1).locator(".cm-content").click()
    sheet.page.keyboard.press("Control+Enter")
    running = sheet.page.locator(".jp-InputPrompt:has-text('[*]')")
    running.wait_for()
    heard = view.seconds
    sheet.page.wait_for_function(
        "([since, seconds]) => Number(document.querySelector('.vrt-time').innerText.slice(3))"
        " > since + seconds",
        arg=[heard, 1],
    )
    assert running.count() == 1  # it sleeps still
    view.finish()
    view.lost_no_block()
    assert sheet.open_microphones() == 0


@pytest.mark.parametrize("sheet", [False], indirect=True, ids=["no-permission"])
def test_refused_permission_and_an_insecure_page_are_told(sheet, lab, clip):
    sheet.open(lab.write("refused.ipynb", LIVE.format(clip=str(clip))))
    sheet.run_all()
    view = View(sheet)
    view.press("Record")
    view.await_message("did not give permission for the microphone")
    sheet.shot("refused", view.node)
    view.press("Play five_five.flac")  # the way out that is left
    view.await_phase("finished")
    assert view.committed == "five five"

    sheet.open("refused.ipynb", host=STRANGE)
    sheet.run_all()
    view.press("Record")
    view.await_message(f"this page is http://{STRANGE}")
    sheet.shot("insecure", view.node)


def test_a_kernel_restart_frees_the_microphone(sheet, lab, clip):
    sheet.open(lab.write("restart.ipynb", LIVE.format(clip=str(clip))))
    sheet.run_all()
    view = View(sheet)
    view.press("Record")
    view.await_phase("listening")
    sheet.page.wait_for_function("() => window.vrtTracks.length === 1")
    sheet.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    view.await_message("The kernel is gone or was restarted")
    assert sheet.open_microphones() == 0
    assert view.button("Record").is_disabled()
    sheet.shot("restart", view.node)
