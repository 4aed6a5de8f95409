"""One live stream through a model: begin, feed, flush, finalize, reset.

    session = StreamingSession(model, delay_ms=480)
    session.begin()
    for samples in microphone:            # float32, 16 kHz, mono, any number of samples
        print(session.feed(samples).text, end="")
    print(session.finalize().text)        # the whole transcript

S samples, n positions (80 ms), E decoder width.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.audio import as_samples
from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import (
    FRAMES_PER_TOKEN,
    LOOK_AHEAD,
    SAMPLE_RATE,
    SAMPLES_PER_TOKEN,
    TOKEN_MS,
)
from vrt.voxtral.encoder import MAX_CHUNK
from vrt.voxtral.greedy import GreedyDecoder
from vrt.voxtral.mel import LogMelStream, silence
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import Observer, observed
from vrt.voxtral.schedule import Schedule
from vrt.voxtral.stem import StemState
from vrt.voxtral.transcript import Token, Transcript, Update, Word
from vrt.voxtral.writer import TranscriptWriter

LAST_START = 10**9  # tokens, 2.5 years: there an angle in float64 is right to 5e-7 rad
MAX_FEED = MAX_CHUNK // FRAMES_PER_TOKEN * SAMPLES_PER_TOKEN  # samples through the encoder at once


class SessionError(RuntimeError):
    """A call in the wrong order, or on a session that an earlier failure has ended."""


class SettingError(ValueError):
    """A setting of a session that cannot be."""


class StreamingSession:
    """All that one stream remembers; the model is only read, so many sessions may share it.

    `delay_ms`: 80..2400 in steps of 80; None is the model's own, 480 for the released one.
    `decode_every`: tokens are decoded in groups of so many positions (same tokens, later and with
    less overhead). `stop_at_eos`: end at EOS as the reference does; otherwise EOS is one more
    token. `observer` sees every stage's output.
    """

    def __init__(
        self,
        model: VoxtralRealtime,
        delay_ms: int | float | None = None,
        *,
        decode_every: int = 1,
        stop_at_eos: bool = False,
        observer: Observer | None = None,
    ):
        self.schedule = self.validate(model, delay_ms, decode_every)
        self.model, self.decode_every = model, decode_every
        self.delay_ms = self.schedule.delay * TOKEN_MS
        self.observer = observer
        stop = model.config.eos if stop_at_eos else None
        # Not as inference tensors: a session may outlive the mode it was made in.
        with torch.inference_mode(False), torch.no_grad():
            self._mel = LogMelStream(model.log_mel)
            self._stem = StemState(model.stem)
            self._encoder = model.encoder.state()
            self._greedy = GreedyDecoder(model, self.schedule, stop, observer)
        self._clear(0)
        self._phase = "idle"

    @staticmethod
    def validate(
        model: VoxtralRealtime, delay_ms: int | float | None = None, decode_every: int = 1
    ) -> Schedule:
        """Check the settings and change nothing. Raises `DelayError` or `SettingError`."""
        if isinstance(decode_every, bool) or not isinstance(decode_every, Integral):
            raise SettingError(f"decode_every must be a whole number, got {decode_every!r}")
        if decode_every < 1:
            raise SettingError(f"decode_every must be at least 1, got {decode_every}")
        return Schedule.for_delay_ms(model.config, delay_ms)

    @property
    def transcript(self) -> Transcript:
        """What is committed so far; readable in every phase, also after a failure."""
        return self._writer.transcript

    @property
    def state_bytes(self) -> dict[str, int]:
        """What each stage remembers, in bytes; constant in the length of the stream."""
        return {
            "mel": self._mel.pending.nbytes,
            "conv_stem": self._stem.nbytes,
            "encoder": self._encoder.nbytes,
            "projector": 0,
            "decoder": self._greedy.state.nbytes,
        }

    @property
    def rings(self) -> dict[str, KVRing]:
        """The first layer's ring of both sides, to look at: those of the other layers go alike."""
        return {"encoder": self._encoder.rings[0], "decoder": self._greedy.state.rings[0]}

    def begin(self, first_position: int = 0) -> None:
        """Open the stream and encode its left pad.

        `first_position` is the absolute position that the stream starts at: 0 but for checks of
        what happens after days, which need not wait that long.
        """
        self._require("begin", "idle", "finished")
        if not isinstance(first_position, Integral) or not 0 <= first_position <= LAST_START:
            raise SettingError(
                f"first_position must be a whole number from 0 to {LAST_START}, got"
                f" {first_position!r}"
            )
        if self._phase == "finished" or first_position:
            self._clear(first_position)
        self._phase = "open"
        self._guarded(self._push, silence(self.schedule.left_pad * SAMPLES_PER_TOKEN))

    def feed(self, samples: Any) -> Update:
        """Take the next samples (mono, 16 kHz; float32, float64 or int16) of any number.

        Emits every token that they make possible. Refused input (`vrt.audio.AudioError`) and a
        wrong order of calls (`SessionError`) leave the session as it was.
        """
        self._require("feed", "open")
        checked = torch.from_numpy(as_samples(samples))
        self._audio += len(checked)
        return self._update(*self._guarded(self._push, checked))

    def flush(self) -> Update:
        """Bring out what was said so far and go on: zeros are inserted as if they were audio.

        Up to the token's edge, then delay + 11 tokens, as `finalize` does; the last word is closed.
        Times in the transcript stay those of the caller's audio.
        """
        self._require("flush", "open")
        tokens, words = self._guarded(self._push_silence, 0)
        return self._update(tokens, words + self._writer.close_word())

    def finalize(self) -> Transcript:
        """End the stream: right pad, last tokens, last word. Returns the whole transcript."""
        self._require("finalize", "open")
        self._guarded(self._push_silence, LOOK_AHEAD)
        self._writer.finish()
        self._phase = "finished"
        return self.transcript

    def drain(self) -> Transcript:
        """Hand over what is committed and forget it, so that an endless stream stays small."""
        return self._writer.drain()

    def reset(self) -> None:
        """Back to before `begin`, from any phase; the rings are zeroed and stay allocated."""
        self._clear(0)
        self._phase = "idle"

    def _clear(self, first_position: int) -> None:
        self._mel.reset()
        self._stem.reset()
        self._encoder.reset(first_position * FRAMES_PER_TOKEN)
        self._greedy.reset(first_position)
        self._writer = TranscriptWriter(self.model, self.schedule)
        self._embeds: list[Tensor] = []  # audio embeddings not decoded yet
        self._audio = 0  # the caller's samples
        self._inserted = 0  # zeros that flushes put between them

    def _require(self, call: str, *phases: str) -> None:
        if self._phase in phases:
            return
        way_out = {
            "idle": "call begin() first",
            "open": "finalize() or reset() it first",
            "finished": "its transcript is in .transcript; begin() starts a new stream",
        }
        raise SessionError(
            f"{call}() on a session that is {self._phase}:"
            f" {way_out.get(self._phase, 'committed text is in .transcript; reset() it')}"
        )

    @torch.no_grad()
    def _guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        """A failure half way through a stage leaves its state unusable: end the session clearly."""
        try:
            return work(*args)
        except BaseException as error:
            self._phase = f"ended by {type(error).__name__}"
            raise

    def _push(self, samples: Float[Tensor, "S"]) -> tuple[list[Token], list[Word]]:
        """Samples through all stages, in slices that bound the memory of a huge feed."""
        tokens: list[Token] = []
        words: list[Word] = []
        for piece in samples.split(MAX_FEED):
            if self._greedy.ended:
                break
            self._encode(piece)
            new_tokens, new_words = self._decode(self.decode_every)
            tokens, words = tokens + new_tokens, words + new_words
        return tokens, words

    def _push_silence(self, more: int) -> tuple[list[Token], list[Word]]:
        """The right pad and `more` zeros, all decoded; for the clock they are no audio."""
        at = self._audio + self._inserted
        zeros = self.schedule.right_pad_samples(at)
        self._writer.clock.insert(at, zeros)
        self._inserted += zeros
        tokens, words = self._push(silence(zeros + more))
        last_tokens, last_words = self._decode(1)
        return tokens + last_tokens, words + last_words

    def _encode(self, samples: Float[Tensor, "S"]) -> None:
        watch, model = self.observer, self.model
        mel = observed(watch, "mel", self._mel.feed, samples)
        if not len(mel):
            return
        x = observed(watch, "conv_stem", model.stem, mel, self._stem)
        frames = observed(watch, "encoder", model.encoder, x, self._encoder)
        self._embeds.append(observed(watch, "projector", model.projector, frames))

    def _decode(self, at_least: int) -> tuple[list[Token], list[Word]]:
        """Decode what is encoded once `at_least` positions wait; each needs the token before it."""
        if sum(map(len, self._embeds)) < at_least:
            return [], []
        audio, self._embeds = torch.cat(self._embeds), []
        return self._writer.write(self._greedy.push(audio))

    def _update(self, tokens: list[Token], words: list[Word]) -> Update:
        decoded = (self._greedy.done - self.schedule.left_pad) * SAMPLES_PER_TOKEN
        received = self._audio + self._inserted
        return Update(
            text="".join(token.text for token in tokens),
            tokens=tuple(tokens),
            words=tuple(words),
            audio_seconds=self._audio / SAMPLE_RATE,
            lag_seconds=(received - max(decoded, 0)) / SAMPLE_RATE,
            ended=self._greedy.ended,
        )
