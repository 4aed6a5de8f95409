"""A private JupyterLab and Debian's chromium, for tests that use notebooks as a person would."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import soundfile

START_S, RUN_S = 120, 240  # seconds at most, on a machine that does other things too
MS = 1000
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}
STRANGE = "lab.example"  # a name of this machine that is not localhost: no secure context
HOSTS = [f"{kind}://{host}:" for kind in ("http", "ws") for host in ("127.0.0.1", STRANGE)]
LOOPBACK = (*HOSTS, "blob:", "data:")
# Every microphone that a page opened, so that a test can see whether it was freed.
TRACKS = """
window.vrtTracks = [];
if (navigator.mediaDevices) {
  const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    const stream = await open(wanted);
    window.vrtTracks.push(...stream.getTracks());
    return stream;
  };
}
"""


def missing() -> str | None:
    """What is not installed, or None."""
    for module in ("jupyterlab", "playwright", "anywidget"):
        if find_spec(module) is None:
            return f"{module} is not installed"
    return None if shutil.which("chromium") else "chromium is not installed"


def require() -> None:
    """Skip with the reason; fail instead where VRT_BROWSER says that these tests must run."""
    why = missing()
    if why and os.environ.get("VRT_BROWSER"):
        pytest.fail(f"VRT_BROWSER is set and {why}")
    if why:
        pytest.skip(f"{why}; a browser test")


@dataclass
class Lab:
    """A server of its own: `folder` holds its notebooks, `shots` the pictures."""

    url: str
    token: str
    folder: Path
    shots: Path
    process: subprocess.Popen

    def write(self, name: str, *cells: str) -> str:
        """A notebook of these code cells."""
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(book, self.folder / name)
        return name

    def copy(self, notebook: Path) -> str:
        shutil.copy(notebook, self.folder)
        return notebook.name

    def shut_kernels(self) -> None:
        """So that one test's kernel does not weigh on the next."""
        for session in json.loads(self._ask("GET", "api/sessions")):
            self._ask("DELETE", f"api/sessions/{session['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(
            f"{self.url}/{path}", method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()


def start_lab(folder: Path, repo_root: Path) -> Lab:
    notebooks, shots = folder / "notebooks", folder / "shots"
    for path in (notebooks, shots):
        path.mkdir()
    for name, value in SETTINGS.items():
        path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    private = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    environment = os.environ | {name: str(folder / value) for name, value in private.items()}
    environment |= {"PYTHONPATH": str(repo_root), "OMP_NUM_THREADS": "1"}
    environment.pop("JPY_SESSION_NAME", None)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={notebooks}"),
        *("--LabApp.expose_app_in_browser=True", "--ServerApp.allow_remote_access=True"),
    ]
    log = (folder / "jupyterlab.log").open("wb")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    lab = Lab(f"http://127.0.0.1:{port}", token, notebooks, shots, process)
    _await_server(lab, folder / "jupyterlab.log")
    return lab


def _await_server(lab: Lab, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{lab.url}/api?token={lab.token}", timeout=5).close()
            return
        except OSError:
            if lab.process.poll() is not None:
                break
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-2000:]}")


def stop_lab(lab: Lab) -> None:
    lab.process.terminate()
    try:
        lab.process.wait(20)
    except subprocess.TimeoutExpired:
        lab.process.kill()


def spoken_wav(path: Path, samples: Any, rate: int = 44_100) -> Path:
    """What a fake microphone says: half a second of silence, then `samples` (16 kHz)."""
    from vrt.audio import resample

    quiet = np.zeros(rate // 2, np.float32)
    said = np.concatenate([quiet, resample(samples, 16_000, rate), quiet])
    soundfile.write(path, said, rate, subtype="PCM_16")
    return path


@dataclass
class Sheet:
    """One open notebook, and all that its page complained about or asked of strangers."""

    lab: Lab
    page: Any
    strangers: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, name: str, host: str = "127.0.0.1") -> None:
        url = self.lab.url.replace("127.0.0.1", host)
        self.page.goto(f"{url}/lab/tree/{name}?token={self.lab.token}&reset", timeout=START_S * MS)
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'",
            timeout=START_S * MS,
        )

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args)",
            [name, arguments or {}],
        )

    def run_all(self) -> None:
        """Every cell, and none with an error."""
        assert self.command("notebook:run-all-cells") is True, self.errors()
        assert self.errors() == ""

    def start_all(self) -> None:
        """As `run_all`, without waiting for the end."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")

    def open_microphones(self) -> int:
        return self.page.evaluate(
            "() => window.vrtTracks.filter((track) => track.readyState === 'live').length"
        )

    def errors(self) -> str:
        found = self.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]')
        return "\n".join(found.all_inner_texts())

    def shot(self, name: str, locator: Any = None) -> Path:
        path = self.lab.shots / f"{name}.png"
        (self.page if locator is None else locator).screenshot(path=path)
        return path

    def dark(self) -> None:
        self.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
        self.page.wait_for_selector(
            '[data-jp-theme-light="false"]', state="attached", timeout=START_S * MS
        )

    def check_clean(self) -> None:
        assert self.strangers == [] and self.complaints == []


def new_sheet(lab: Lab, browser: Any, microphone: bool) -> Sheet:
    permissions = ["microphone"] if microphone else []
    context = browser.new_context(permissions=permissions, viewport={"width": 1280, "height": 1100})
    context.set_default_timeout(60 * MS)
    context.add_init_script(TRACKS)
    page = context.new_page()
    sheet = Sheet(lab, page)

    def route(route: Any) -> None:
        if route.request.url.startswith(LOOPBACK):
            route.continue_()
        else:
            sheet.strangers.append(route.request.url)
            route.abort()

    context.route("**/*", route)
    page.on("pageerror", lambda error: sheet.complaints.append(f"page: {error}"))
    page.on(
        "console",
        lambda said: sheet.complaints.append(said.text) if said.type == "error" else None,
    )
    return sheet


def browser_with(wav: Path) -> Iterator[Any]:
    """Chromium whose microphone plays `wav` once."""
    from playwright.sync_api import sync_playwright

    arguments = [
        *("--no-sandbox", "--disable-gpu", "--use-fake-device-for-media-stream"),
        f"--use-file-for-fake-audio-capture={wav}%noloop",
        f"--host-resolver-rules=MAP {STRANGE} 127.0.0.1",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        yield browser
        browser.close()
