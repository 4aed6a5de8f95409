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
        enc, dec = self.encoder, self.decoder
        for side, part in (("encoder", enc), ("decoder", dec)):
            if part.window < 1:
                raise ValueError(f"{side} window {part.window} must be at least 1")
            if part.head_dim % 2:
                raise ValueError(f"{side} head_dim {part.head_dim} is odd: rotary needs pairs")
        if dec.heads % dec.kv_heads:
            raise ValueError(f"{dec.heads} query heads do not divide into {dec.kv_heads} kv heads")
        if max(self.bos, self.streaming_pad) >= dec.vocab:
            raise ValueError(
                f"prompt ids {self.bos} and {self.streaming_pad} need a vocabulary larger than"
                f" {dec.vocab}"
            )
