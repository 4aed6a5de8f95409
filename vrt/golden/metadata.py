"""The JSON object inside a Voxtral golden file: sizes, schedule, and where the answer came from.

D delay tokens, L prompt tokens, N positions (80 ms), n samples. Source: the golden format.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from vrt.golden.errors import GoldenError
from vrt.voxtral.config import TOKEN_MS, DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.schedule import DelayError, Schedule, delay_tokens

FORMAT = 1

# Keys of the `encoder` and `decoder` objects, and our names for them.
SIZES = {"W": "window", "L": "layers", "d": "width", "h": "heads", "hd": "head_dim", "ff": "ff"}
REALS = {"th": "theta", "eps": "eps"}


@dataclass(frozen=True)
class Metadata:
    """What the format names; `more` is everything else that the file says about itself."""

    name: str
    num_delay_tokens: int
    n_audio_tokens: int
    config: VoxtralConfig
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, config: VoxtralConfig, delay: int, samples: int, more: dict[str, Any]
    ) -> "Metadata":
        positions = Schedule.of(config, delay).positions(samples)
        return cls(name, delay, positions, config, more)

    @property
    def schedule(self) -> Schedule:
        return Schedule.of(self.config, self.num_delay_tokens)

    @property
    def delay_ms(self) -> int:
        return self.num_delay_tokens * TOKEN_MS

    @property
    def rows(self) -> int:
        """Rows of logits: one for the prompt's last position and for each one after it."""
        return self.n_audio_tokens - self.schedule.prompt_len + 1

    def to_json(self) -> dict[str, Any]:
        config, schedule = self.config, self.schedule
        return {
            "format": FORMAT,
            "name": self.name,
            "num_delay_tokens": self.num_delay_tokens,
            "left_pad_tokens": schedule.left_pad,
            "right_pad_tokens": schedule.tail,
            "n_audio_tokens": self.n_audio_tokens,
            "prompt_len": schedule.prompt_len,
            "bos": config.bos,
            "streaming_pad": config.streaming_pad,
            "eos": config.eos,
            "vocab": config.decoder.vocab,
            "encoder": {**_sizes(config.encoder), "kv": config.encoder.heads},
            "decoder": {**_sizes(config.decoder), "kv": config.decoder.kv_heads},
            **self.more,
        }


def parse(found: Any, where: str) -> Metadata:
    """Metadata of a file. Raises `GoldenError` for what is missing, of a wrong type or at odds."""
    if not isinstance(found, dict):
        raise GoldenError(f"{where}: the metadata `json` is no JSON object")
    if found.get("format", FORMAT) != FORMAT:
        raise GoldenError(f"{where}: format {found['format']!r}; this vrt reads format {FORMAT}")
    get = _Reader(found, where, "")
    try:
        config = VoxtralConfig(
            encoder=_encoder(get.part("encoder")),
            decoder=_decoder(get.part("decoder"), get.count("vocab")),
            bos=get.integer("bos"),
            eos=None if get.value("eos") is None else get.integer("eos"),
            streaming_pad=get.integer("streaming_pad"),
            left_pad_tokens=get.integer("left_pad_tokens"),
        )
    except GoldenError:
        raise
    except ValueError as error:  # sizes that do not fit together
        raise GoldenError(f"{where}: metadata: {error}") from error
    delay = get.delay("num_delay_tokens")
    schedule = Schedule.of(config, delay)
    get.agrees("prompt_len", schedule.prompt_len, "left_pad_tokens + num_delay_tokens + 1")
    get.agrees("right_pad_tokens", schedule.tail, "num_delay_tokens + 11")
    name, positions = str(get.value("name")), get.count("n_audio_tokens")
    known = Metadata(name, delay, positions, config)
    return Metadata(name, delay, positions, config, _without(found, known.to_json()))


def _without(found: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in known}


def _sizes(part: EncoderConfig | DecoderConfig) -> dict[str, int | float]:
    return {key: getattr(part, ours) for key, ours in (SIZES | REALS).items()}


def _encoder(get: "_Reader") -> EncoderConfig:
    sizes = {ours: get.count(key) for key, ours in SIZES.items()}
    if "kv" in get.found:
        get.agrees("kv", sizes["heads"], "h: the encoder has no shared key-value heads")
    return EncoderConfig(**sizes, **{ours: get.real(key) for key, ours in REALS.items()})


def _decoder(get: "_Reader", vocab: int) -> DecoderConfig:
    sizes = {ours: get.count(key) for key, ours in SIZES.items()}
    reals = {ours: get.real(key) for key, ours in REALS.items()}
    return DecoderConfig(**sizes, **reals, kv_heads=get.count("kv"), vocab=vocab)


@dataclass(frozen=True)
class _Reader:
    """Typed values of one JSON object; errors name the file and the key."""

    found: dict[str, Any]
    where: str
    prefix: str

    def value(self, key: str) -> Any:
        if key not in self.found:
            raise GoldenError(f"{self.where}: metadata lacks {self.prefix}{key}")
        return self.found[key]

    def integer(self, key: str) -> int:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise GoldenError(
                f"{self.where}: metadata {self.prefix}{key} must be a whole number, got {value!r}"
            )
        return value

    def count(self, key: str) -> int:
        if self.integer(key) == 0:
            raise GoldenError(f"{self.where}: metadata {self.prefix}{key} must be at least 1")
        return self.integer(key)

    def real(self, key: str) -> float:
        value = self.value(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= sys.float_info.max:
            raise GoldenError(
                f"{self.where}: metadata {self.prefix}{key} must be a positive number, got"
                f" {value!r}"
            )
        return float(value)

    def delay(self, key: str) -> int:
        try:
            return delay_tokens(self.integer(key) * TOKEN_MS)
        except DelayError as error:
            raise GoldenError(
                f"{self.where}: metadata {self.prefix}{key} is {self.found[key]}: {error}"
            ) from error

    def part(self, key: str) -> "_Reader":
        value = self.value(key)
        if not isinstance(value, dict):
            raise GoldenError(f"{self.where}: metadata {key} must be an object, got {value!r}")
        return _Reader(value, self.where, f"{key}.")

    def agrees(self, key: str, expected: int, reason: str) -> None:
        if self.integer(key) != expected:
            raise GoldenError(
                f"{self.where}: metadata {self.prefix}{key} is {self.found[key]}, must be"
                f" {expected} ({reason})"
            )
