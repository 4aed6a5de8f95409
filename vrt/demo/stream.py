"""One recording through one session, fed as a microphone would, with every token's moment."""

from dataclasses import dataclass

from vrt.audio import Clip
from vrt.demo.screen import PlainScreen, TerminalScreen
from vrt.voxtral.measure.meter import StageMeter
from vrt.voxtral.measure.stage_table import StageRow
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.session import StreamingSession
from vrt.voxtral.transcript import Transcript

MS = 1000


@dataclass(frozen=True)
class Streamed:
    """What a run gave. `emitted` and `latency_ms` have one entry a token: the seconds of audio
    received when it came out, and how long the call took that brought it out.
    """

    transcript: Transcript
    emitted: list[float]
    latency_ms: list[float]
    table: list[StageRow]
    work_seconds: float


def stream(
    model: VoxtralRealtime,
    clip: Clip,
    delay_ms: int,
    feed_samples: int,
    screen: TerminalScreen | PlainScreen,
) -> Streamed:
    """Feed the clip in pieces of `feed_samples`, as fast as the machine goes."""
    meter = StageMeter()
    session = StreamingSession(model, delay_ms, observer=meter)
    emitted: list[float] = []
    latency: list[float] = []
    meter.timed(session.begin)
    for at in range(0, len(clip.samples), feed_samples):
        before = meter.seconds
        update = meter.timed(session.feed, clip.samples[at : at + feed_samples])
        emitted += [update.audio_seconds] * len(update.tokens)
        latency += [(meter.seconds - before) * MS] * len(update.tokens)
        screen.show(update.audio_seconds, text_of(session.transcript, model))
    before = meter.seconds
    transcript = meter.timed(session.finalize)
    rest = len(transcript.tokens) - len(emitted)  # what the end of the audio brought out
    emitted += [clip.seconds] * rest
    latency += [(meter.seconds - before) * MS] * rest
    screen.show(clip.seconds, text_of(transcript, model))
    return Streamed(transcript, emitted, latency, meter.table(session), meter.seconds)


def text_of(transcript: Transcript, model: VoxtralRealtime) -> str:
    """The text, or token ids where the model has no vocabulary."""
    return transcript.text if model.tokenizer else " ".join(map(str, transcript.ids))
