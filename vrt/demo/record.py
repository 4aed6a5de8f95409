"""What the demo is set to, and what its receipt keeps: numbers, and rows for the charts."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vrt.audio import Clip
from vrt.demo.parity import Parity
from vrt.demo.stream import Streamed
from vrt.lab.streamed import timeline
from vrt.paths import data_dir
from vrt.voxtral.config import SAMPLES_PER_TOKEN


@dataclass(frozen=True)
class Settings:
    """`recording` is a name in data/MANIFEST.json; feeds are in samples.

    The feeds to check by: a token, a mel frame, and a size that fits neither. `words` are trained
    models, which hear `heard`: digits, and a sentence without one.
    """

    words: tuple[str, ...] = ("digits-voxtral", "digits-rnnt")
    heard: tuple[str, ...] = ("audio/five_five.flac", "audio/sense_and_sensibility_0880.flac")
    model: str = "random-tiny"
    recording: str = "audio/sense_and_sensibility_0870.flac"
    delay_ms: int = 480
    feed: int = SAMPLES_PER_TOKEN
    checked_feeds: tuple[int, ...] = (SAMPLES_PER_TOKEN, 160, 4096)


DEFAULTS = Settings()


def numbers_of(streamed: Streamed, found: Parity, clip: Clip, settings: Settings) -> dict[str, Any]:
    return {
        "stream_equals_offline": found.exact,
        "tokens_equal": found.tokens_equal,
        "comparisons": [asdict(comparison) for comparison in found.comparisons],
        "stages": [asdict(row) for row in streamed.table],
        "timeline": timeline(
            clip,
            said(settings.recording),
            settings.feed,
            settings.delay_ms,
            [token.start for token in streamed.transcript.tokens],
            streamed.emitted,
        ),
        "audio_s": clip.seconds,
        "work_s": streamed.work_seconds,
        "real_time_factor": streamed.work_seconds / clip.seconds,
        "tokens": len(streamed.emitted),
        "first_token_s": streamed.emitted[0],
        "token_latency_p50_ms": float(np.percentile(streamed.latency_ms, 50)),
        "token_latency_p95_ms": float(np.percentile(streamed.latency_ms, 95)),
    }


def said(recording: str) -> str:
    """The words of a shipped recording."""
    listed = json.loads((data_dir() / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    return next(entry["transcript"] for entry in listed if entry["name"] == recording)
