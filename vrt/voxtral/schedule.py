"""When a token can be emitted, and which moment of the audio it speaks about.

n samples of audio, D delay tokens, L = left pad + D prompt tokens + BOS, p decoder positions.
Padded stream: left pad | audio | alignment to a whole token | D + 11 tokens of zeros.
Source: mistral_common `AudioEncoder` (paddings, prompt) and the model card (delays 80..2400 ms).
"""

import math
from collections import deque
from dataclasses import dataclass
from numbers import Real
from typing import Any

from vrt.voxtral.config import SAMPLE_RATE, SAMPLES_PER_TOKEN, TOKEN_MS, VoxtralConfig

MAX_DELAY_TOKENS = 30  # 2400 ms
LONGEST_WORD_TOKENS = 10  # zeros after the delay, for the last word to end in
BOS_TOKENS = 1


class DelayError(ValueError):
    """A transcription delay that no model of this family was trained for."""


def delay_tokens(delay_ms: Any) -> int:
    """Delay in tokens of 80 ms. Raises `DelayError` unless 80..2400 in steps of 80."""
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, Real):
        raise DelayError(f"delay_ms must be a number of milliseconds, got {delay_ms!r}")
    tokens = min(max(delay_ms, -1), 10**6) / TOKEN_MS if delay_ms == delay_ms else math.nan
    if tokens != tokens or tokens != int(min(max(tokens, 1), MAX_DELAY_TOKENS)):
        raise DelayError(f"delay_ms={delay_ms} is not allowed; nearest allowed: {_nearest(tokens)}")
    return int(tokens)


def _nearest(tokens: float) -> str:
    if tokens != tokens:
        return f"{TOKEN_MS}..{MAX_DELAY_TOKENS * TOKEN_MS} in steps of {TOKEN_MS}"
    inside = min(max(tokens, 1), MAX_DELAY_TOKENS)
    nearest = sorted({math.floor(inside), math.ceil(inside)})
    return " or ".join(f"{t * TOKEN_MS}" for t in nearest) + " ms"


@dataclass(frozen=True)
class Schedule:
    """The paddings and the prompt of one stream."""

    delay: int  # D, tokens
    left_pad: int  # tokens
    bos: int
    streaming_pad: int

    @classmethod
    def of(cls, config: VoxtralConfig, delay: int) -> "Schedule":
        """`delay` in tokens."""
        return cls(delay, config.left_pad_tokens, config.bos, config.streaming_pad)

    @classmethod
    def for_delay_ms(cls, config: VoxtralConfig, delay_ms: Any) -> "Schedule":
        """`delay_ms` as a user gives it; None is the model's own. Raises `DelayError`."""
        return cls.of(config, config.delay_tokens if delay_ms is None else delay_tokens(delay_ms))

    @property
    def prompt(self) -> list[int]:
        return [self.bos] + [self.streaming_pad] * (self.left_pad + self.delay)

    @property
    def prompt_len(self) -> int:
        return BOS_TOKENS + self.left_pad + self.delay

    @property
    def tail(self) -> int:
        """Tokens of zeros after the aligned audio: delay, BOS, the longest word."""
        return self.delay + BOS_TOKENS + LONGEST_WORD_TOKENS

    def right_pad_samples(self, n: int) -> int:
        """Zeros to append after `n` samples: up to the token's edge, then the tail."""
        return -n % SAMPLES_PER_TOKEN + self.tail * SAMPLES_PER_TOKEN

    def positions(self, n: int) -> int:
        """Decoder positions of a whole stream of `n` samples."""
        return self.left_pad + (n + self.right_pad_samples(n)) // SAMPLES_PER_TOKEN

    def audio_start(self, position: int) -> int:
        """Stream sample (left pad taken off) at which the 80 ms that `position` speaks about start.

        A token put out at position p was trained to speak about the audio D tokens earlier.
        """
        return (position - self.left_pad - self.delay) * SAMPLES_PER_TOKEN


class AudioClock:
    """Maps stream samples to the caller's seconds: zeros that a flush inserted do not count.

    Asked in ascending order only, so that it forgets insertions already passed.
    """

    def __init__(self) -> None:
        self._insertions: deque[tuple[int, int]] = deque()  # (stream sample, length)
        self._passed = 0

    def insert(self, at: int, length: int) -> None:
        self._insertions.append((at, length))

    def seconds(self, sample: int) -> float:
        while self._insertions and sum(self._insertions[0]) <= sample:
            self._passed += self._insertions.popleft()[1]
        if self._insertions:
            sample = min(sample, self._insertions[0][0])
        return (sample - self._passed) / SAMPLE_RATE
