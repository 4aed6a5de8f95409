"""The loop of a live stream: audio in, text out, and an orderly end by EOF, EOS or Ctrl-C."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vrt.cli.interrupts import GiveUp, hear_no_more, interrupts_held
from vrt.cli.models import OpenModel
from vrt.cli.options import Format
from vrt.cli.output import remark
from vrt.cli.screens import Ending, Moment, Screen, screen_for
from vrt.cli.sources import Source
from vrt.voxtral.config import SAMPLE_RATE
from vrt.voxtral.session import StreamingSession


@dataclass(frozen=True)
class Settings:
    """What the command line says about a stream."""

    delay_ms: int | None  # None: the model's own
    decode_every: int
    stop_at_eos: bool
    realtime: bool


class Pace:
    """Holds audio back until a speaker would have said it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._clock, self._sleep = clock, sleep
        self._start = clock()

    def behind(self, audio_seconds: float) -> float:
        """Seconds that the clock is past this moment of the audio; negative before it."""
        return self._clock() - self._start - audio_seconds

    def wait(self, audio_seconds: float) -> None:
        """Until the audio up to `audio_seconds` exists."""
        ahead = -self.behind(audio_seconds)
        if ahead > 0:
            self._sleep(ahead)


class Live:
    """One stream from its source to its screen, and what is counted on the way."""

    def __init__(
        self, session: StreamingSession, screen: Screen, pace: Pace | None, stop_at_eos: bool
    ):
        self.session, self.screen, self.pace = session, screen, pace
        self.stop_at_eos = stop_at_eos
        self.audio_seconds = self.busy_seconds = 0.0
        self.behind: float | None = None  # at most, seconds
        self.at_eos = False

    def feed(self, pieces: Iterator) -> bool:
        """Until the audio ends, EOS or Ctrl-C; True for the latter."""
        fed = 0
        try:
            for piece in pieces:
                fed += len(piece)
                if self.pace:
                    self.pace.wait(fed / SAMPLE_RATE)
                with interrupts_held():
                    self._step(piece)
                if self.at_eos:
                    break
        except GiveUp:
            raise
        except KeyboardInterrupt:
            remark("\nbringing out the last words; Ctrl-C again stops at once")
            return True
        return False

    def finish(self) -> None:
        start = time.perf_counter()
        last = self.session.finalize().ids[-1:]
        self.busy_seconds += time.perf_counter() - start
        self.at_eos |= self.stop_at_eos and last == [self.session.model.config.eos]

    def show_rest(self) -> None:
        """What no feed has shown: the last words, or what an interrupted call got done."""
        self.screen.show(self.session.drain(), Moment(self.audio_seconds, 0.0, self.behind))

    def _step(self, piece: object) -> None:
        start = time.perf_counter()
        update = self.session.feed(piece)
        self.busy_seconds += time.perf_counter() - start
        self.audio_seconds, self.at_eos = update.audio_seconds, update.ended
        now = self.pace.behind(self.audio_seconds) if self.pace else None
        if now is not None:
            self.behind = max(self.behind or 0.0, now)
        # Drained after every feed: the stream may be endless.
        self.screen.show(self.session.drain(), Moment(self.audio_seconds, update.lag_seconds, now))


def run(
    model: OpenModel, source: Source, settings: Settings, format: Format | None, lines: bool
) -> bool:
    """Stream `source` to stdout; returns whether Ctrl-C ended it. `lines`: JSON line by line."""
    chosen = Format.JSON if lines else format or Format.TEXT
    model.check_format(chosen)
    for change in source.changes:
        remark(f"{source.name}: {change}")
    session = StreamingSession(
        model.weights,
        settings.delay_ms,
        decode_every=settings.decode_every,
        stop_at_eos=settings.stop_at_eos,
    )
    screen = screen_for(chosen, lines, model, source, session.delay_ms)
    session.begin()
    pace = Pace() if settings.realtime else None
    live = Live(session, screen, pace, settings.stop_at_eos)
    ending: Ending | None = None
    try:
        interrupted = _until_the_end(live, source)
        live.show_rest()
        ending = Ending(
            live.audio_seconds, live.busy_seconds, interrupted, live.at_eos, live.behind
        )
    finally:
        screen.end(ending)
    _summary(ending)
    return interrupted


def _until_the_end(live: Live, source: Source) -> bool:
    try:
        interrupted = live.feed(source.pieces)
        live.finish()
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        hear_no_more()
    return interrupted


def _summary(ending: Ending) -> None:
    if ending.stopped_at_eos:
        remark(f"stopped at EOS after {ending.audio_seconds:.2f} s of audio")
    if ending.behind_seconds is not None:
        remark(f"at most {ending.behind_seconds:.2f} s behind the speaker")
    if sys.stderr.isatty() and ending.real_time_factor is not None:
        factor = f"real-time factor {ending.real_time_factor:.3g}"
        remark(f"{ending.audio_seconds:.2f} s of audio, {factor}")
