"""When a stream puts out its tokens: the audio's moment against the moment of emission.

All times are seconds since the first sample of the audio.
"""

from collections.abc import Mapping, Sequence
from math import atan, degrees
from statistics import median
from textwrap import shorten
from typing import Any

import altair as alt

from vrt.lab.theme import OKABE_ITO, SOFT

PLOT_WIDTH, WAVE_HEIGHT, STAIRS_HEIGHT = 496, 60, 230
FIRST_WIDTH, FIRST_TOKENS, LEGEND_HEIGHT = 246, 7, 58
SAID_LENGTH = 74  # characters that fit above the waveform
MS = 1000


def delay_timeline(timeline: Mapping[str, Any]) -> alt.VConcatChart:
    """Waveform, staircase of all tokens, and the first tokens one by one.

    `timeline` holds seconds: `clip_s`, `feed_s`, `delay_s`, `look_ahead_s`, `token_s`,
    `envelope_step_s`, and for every token `starts` and `emitted`; also `envelope` (peaks 0..1)
    and `said`, the words of the clip. Raises ValueError where no token speaks about the clip.
    """
    tokens = token_rows(timeline)
    if not tokens:
        raise ValueError(f"no token speaks about the {timeline['clip_s']} s of the clip")
    whole = alt.vconcat(waveform(timeline), staircase(timeline, tokens), spacing=6)
    both = alt.hconcat(whole, first_tokens(timeline, tokens), spacing=34)
    both = both.resolve_legend(color="independent").resolve_scale(color="independent")
    return alt.vconcat(both, title=_title(timeline, tokens))


def token_rows(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tokens that speak about the clip, and not about the silence after it.

    A token could come once its 80 ms, the delay and the look-ahead have passed; at the end of the
    audio it comes earlier.
    """
    rows = []
    pairs = zip(timeline["starts"], timeline["emitted"], strict=True)
    for number, (start, emitted) in enumerate(pairs, start=1):
        end = start + timeline["token_s"]
        delayed = min(end + timeline["delay_s"], emitted)
        possible = min(delayed + timeline["look_ahead_s"], emitted)
        if start < timeline["clip_s"]:
            row = {"start": start, "end": end, "delayed": delayed, "possible": possible}
            rows.append({"number": number, **row, "emitted": emitted})
    return rows


def _title(timeline: Mapping[str, Any], tokens: Sequence[Mapping[str, Any]]) -> alt.Title:
    length, delay, ahead, feed = (
        timeline[name] * MS for name in ("token_s", "delay_s", "look_ahead_s", "feed_s")
    )
    late = median(t["emitted"] - t["end"] for t in tokens) * MS
    return alt.Title(
        f"Every {length:.0f} ms one token, about what was said {late:.0f} ms before",
        subtitle=[
            f"{delay:.0f} ms of transcription delay, {ahead:g} ms of look-ahead, and"
            f" what is left of a feed of {feed:.0f} ms"
        ],
    )


def waveform(timeline: Mapping[str, Any]) -> alt.Chart:
    step = timeline["envelope_step_s"]
    rows = [
        {"at": (i + 0.5) * step, "up": peak, "down": -peak}
        for i, peak in enumerate(timeline["envelope"])
    ]
    said = shorten(timeline["said"], SAID_LENGTH, placeholder=" …")
    top = max(timeline["envelope"], default=0) or 1
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_area(color="#8A8F98", interpolate="monotone")
        .encode(
            _time_axis(timeline, None),
            alt.Y(
                "down:Q", title="audio", axis=alt.Axis(labels=False, ticks=False, grid=False)
            ).scale(domain=[-top, top]),
            alt.Y2("up:Q"),
        )
        .properties(width=PLOT_WIDTH, height=WAVE_HEIGHT, title=_caption(f"The clip: “{said}”"))
    )


def _caption(text: str) -> alt.Title:
    """The small heading of one panel."""
    return alt.Title(text, fontSize=12.5, fontWeight="normal", offset=6)


def _time_axis(timeline: Mapping[str, Any], title: str | None) -> alt.X:
    axis = alt.Axis(labels=title is not None, ticks=title is not None, tickCount=8)
    return alt.X("at:Q", title=title, axis=axis).scale(domain=[0, _end(timeline)], nice=False)


def _end(timeline: Mapping[str, Any]) -> float:
    return timeline["clip_s"] + timeline["feed_s"]


def staircase(timeline: Mapping[str, Any], tokens: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """Which moment of the audio the newest token speaks about, as audio comes in."""
    received = _time_axis(timeline, "audio received (s)")
    said = alt.Y("said:Q", title="the newest token speaks about (s)").scale(
        domain=[0, _end(timeline)], nice=False
    )
    steps = [{"at": token["emitted"], "said": token["end"]} for token in tokens]
    line = alt.Chart(alt.Data(values=[{**steps[0], "said": 0.0}, *steps])).mark_line(
        color=OKABE_ITO["blue"], strokeWidth=1.8, interpolate="step-after"
    )
    ends = alt.Chart(alt.Data(values=[steps[0], steps[-1]])).mark_point(
        color=OKABE_ITO["vermilion"], shape="diamond", filled=True, size=90, opacity=1
    )
    over = alt.Chart(alt.Data(values=[{"at": timeline["clip_s"]}])).mark_rule(
        color=SOFT, strokeDash=[2, 3]
    )
    return alt.layer(
        *_band(timeline, received, said),
        over.encode(received),
        line.encode(received, said),
        ends.encode(received, said),
        *_remarks(timeline, tokens),
    ).properties(width=PLOT_WIDTH, height=STAIRS_HEIGHT)


def _band(timeline: Mapping[str, Any], received: alt.X, said: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """What is being said, and below it what no token can speak about yet."""
    wait = timeline["delay_s"] + timeline["look_ahead_s"]
    rows = [
        {"at": at, "said": at, "late": max(at - wait, 0.0)} for at in (0.0, wait, _end(timeline))
    ]
    base = alt.Chart(alt.Data(values=rows))
    shade = base.mark_area(color=OKABE_ITO["sky"], opacity=0.3, clip=True)
    now = base.mark_line(color=SOFT, strokeDash=[5, 4], strokeWidth=1.2, clip=True)
    return shade.encode(received, said, alt.Y2("late:Q")), now.encode(received, said)


def _remarks(timeline: Mapping[str, Any], tokens: Sequence[Mapping[str, Any]]) -> list[alt.Chart]:
    clip, first = timeline["clip_s"], tokens[0]["emitted"]
    at_end = sum(t["emitted"] >= clip for t in tokens)
    slope = 360 - degrees(atan(STAIRS_HEIGHT / PLOT_WIDTH))
    middle, delay, letter = clip * 0.5, timeline["delay_s"], clip / 30
    below = 0.54 * clip - delay - timeline["look_ahead_s"] - timeline["token_s"]  # the stairs
    blue = OKABE_ITO["blue"]
    return [
        _text(
            middle - 2.5 * letter,
            middle + 0.4 * letter,
            "what is said at this moment",
            angle=slope,
            color=SOFT,
        ),
        _text(middle, middle - delay / 2, "transcription delay", angle=slope, color=blue),
        _text(first + 2 * letter, 0.9 * letter, f"the first token, at {first:.2f} s", align="left"),
        _text(
            clip - 0.4 * letter,
            min(clip * 0.42, max(below, 0.0)),
            ["at the end of the audio", f"the last {at_end} at once"],
            align="right",
        ),
    ]


def _text(at: float, said: float, text: str | list[str], **mark: Any) -> alt.Chart:
    """A remark inside the staircase, at its own coordinates."""
    return (
        alt.Chart(alt.Data(values=[{"at": at, "said": said}]))
        .mark_text(text=text, **mark)
        .encode(alt.X("at:Q"), alt.Y("said:Q"))
    )


# The way of a token: from and to which moment, and the colour.
PARTS = {
    "its 80 ms of audio": ("start", "end", "#8A8F98"),
    "transcription delay": ("end", "delayed", OKABE_ITO["sky"]),
    "look-ahead": ("delayed", "possible", OKABE_ITO["vermilion"]),
    "rest of the feed": ("possible", "emitted", OKABE_ITO["yellow"]),
}
PUT_OUT = "put out"


def first_tokens(
    timeline: Mapping[str, Any], tokens: Sequence[Mapping[str, Any]]
) -> alt.LayerChart:
    """The way of the first tokens, from their audio to the moment they are put out (ms)."""
    shown = tokens[:FIRST_TOKENS]
    bars = [
        {"number": t["number"], "part": part, "from": t[a] * MS, "to": t[b] * MS}
        for t in shown
        for part, (a, b, _) in PARTS.items()
    ]
    points = [{"number": t["number"], "part": PUT_OUT, "from": t["emitted"] * MS} for t in shown]
    colours = [*(colour for _, _, colour in PARTS.values()), OKABE_ITO["blue"]]
    part = alt.Color(
        "part:N",
        scale=alt.Scale(domain=[*PARTS, PUT_OUT], range=colours),
        legend=alt.Legend(title=None, orient="bottom", columns=2, symbolType="square", offset=4),
    )
    at = alt.X("from:Q", title="time (ms)").scale(domain=[0, points[-1]["from"] + 40], nice=False)
    row = alt.Y("number:O", title="token", axis=alt.Axis(domain=False, ticks=False))
    drawn = (
        alt.Chart(alt.Data(values=bars)).mark_bar(height=15).encode(at, row, alt.X2("to:Q"), part)
    )
    ahead = (  # thinner than a pixel at this scale: drawn as a tick
        alt.Chart(alt.Data(values=[b for b in bars if b["part"] == "look-ahead"]))
        .mark_tick(thickness=2.5, height=21, opacity=1)
        .encode(at, row, part)
    )
    dots = (
        alt.Chart(alt.Data(values=points))
        .mark_point(shape="diamond", filled=True, size=90, opacity=1)
        .encode(at, row, part)
    )
    height = WAVE_HEIGHT + STAIRS_HEIGHT - LEGEND_HEIGHT
    return alt.layer(drawn, ahead, dots).properties(
        width=FIRST_WIDTH, height=height, title=_caption(f"The first {len(shown)} tokens")
    )
