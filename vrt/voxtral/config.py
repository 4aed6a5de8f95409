"""The sizes of a Voxtral Realtime model and the clock that all of its stages share.

One token is 80 ms = 1280 samples = 8 mel frames (10 ms) = 4 encoder frames (20 ms).
"""

from dataclasses import dataclass

SAMPLE_RATE = 16_000  # Hz, mono
N_FFT = 400  # samples: the 25 ms analysis window
HOP = 160  # samples: one mel frame, 10 ms
MEL_BINS = 128
MEL_PER_TOKEN = 8
FRAMES_PER_TOKEN = 4  # encoder frames, 20 ms: the stem's second convolution has stride 2
SAMPLES_PER_TOKEN = MEL_PER_TOKEN * HOP  # 1280
TOKEN_SECONDS = SAMPLES_PER_TOKEN / SAMPLE_RATE  # 0.08
TOKEN_MS = SAMPLES_PER_TOKEN * 1000 // SAMPLE_RATE  # 80

# Mel frame t covers the padded stream's samples [160 t - 200, 160 t + 200): the last frame of a
# token reaches 40 samples (2.5 ms) past the token's end. Nothing in the model looks further ahead.
LOOK_BACK = N_FFT // 2  # samples
LOOK_AHEAD = N_FFT // 2 - HOP  # samples

# The largest sizes that are taken, far above those of any released model: a number in a damaged
# file must not become an allocation.
LARGEST = {
    "width": 100_000,
    "layers": 1000,
    "heads": 1000,
    "kv_heads": 1000,
    "head_dim": 10_000,
    "ff": 1_000_000,
    "window": 131_072,  # 44 minutes of encoder frames, 2.9 hours of tokens
    "vocab": 10_000_000,
    "ada_dim": 100_000,
}
MOST_MEL_BINS = 1000
MOST_LEFT_PAD = 480  # tokens: pad, longest delay and BOS fit the decoder's 512 spare slots


@dataclass(frozen=True)
class EncoderConfig:
    """The causal audio encoder. `window` counts encoder frames (20 ms) with the query's own."""

    width: int = 1280
    layers: int = 32
    heads: int = 32
    head_dim: int = 64
    ff: int = 5120
    window: int = 750
    theta: float = 1e6  # the class default of transformers is 1e4, the released config says 1e6
    eps: float = 1e-5


@dataclass(frozen=True)
class DecoderConfig:
    """The delay-conditioned decoder. `window` counts tokens (80 ms) with the query's own."""

    width: int = 3072
    layers: int = 26
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    ff: int = 9216
    window: int = 8192
    vocab: int = 131_072
    ada_dim: int = 32  # hidden width of the delay-conditioning MLP
    theta: float = 1e6
    eps: float = 1e-5


@dataclass(frozen=True)
class VoxtralConfig:
    """A whole model; the defaults are the released Voxtral-Mini-4B-Realtime."""

    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    mel_bins: int = MEL_BINS
    bos: int = 1
    eos: int | None = 2
    streaming_pad: int = 32
    streaming_word: int = 33
    left_pad_tokens: int = 32
    delay_tokens: int = 6  # used where a session does not say otherwise: 480 ms

    def __post_init__(self) -> None:
        dec = self.decoder
        for side, part in (("encoder", self.encoder), ("decoder", dec)):
            for name, value in vars(part).items():
                if name in LARGEST:
                    _check_whole(f"{side} {name}", value, 1, LARGEST[name])
            if part.head_dim % 2:
                raise ValueError(f"{side} head_dim {part.head_dim} is odd: rotary needs pairs")
        _check_whole("mel_bins", self.mel_bins, 1, MOST_MEL_BINS)
        _check_whole("left_pad_tokens", self.left_pad_tokens, 0, MOST_LEFT_PAD)
        if dec.width % 2:
            raise ValueError(f"decoder width {dec.width} is odd: the delay is embedded in pairs")
        if dec.heads % dec.kv_heads:
            raise ValueError(f"{dec.heads} query heads do not divide into {dec.kv_heads} kv heads")
        if not all(0 <= id < dec.vocab for id in (self.bos, self.streaming_pad)):
            raise ValueError(
                f"prompt ids {self.bos} and {self.streaming_pad} need a vocabulary larger than"
                f" {dec.vocab}"
            )


def _check_whole(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, not a whole number of {least}..{most:,}")
