"""What broke for users of other implementations, as small inputs; each test names its thread.

Rows whose fault another test already walks into:
- feed sizes that lose frames (mlx-audio, voxtral.c) and short clips (FluidVoice 278):
  test_stream_equals_offline
- the context limit, the position wall, always-on silence, no token cap (vllm 38233, 39996, 45833,
  petal 10): test_session; decoder window below the prompt (vllm 45022): test_stream_equals_offline
- commit without audio, idle gaps, interleaving (vllm 34862, 44461): test_session
- 44.1 kHz stereo read as 16 kHz mono (transformers.js 1726) and a resampler that aliases
  (voxtral.c): test_audio, test_resampling
- delays that no model was trained for (mistral client 376): test_schedule, test_session
"""

from collections.abc import Iterator

import numpy as np
import psutil
import pytest
import torch
from small_models import noise, pieces, random_weights, small_config, stream
from torch import Tensor, nn

from vrt.voxtral.config import DecoderConfig, EncoderConfig
from vrt.voxtral.encoder import Encoder, EncoderState
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.session import StreamingSession

PAD, HEARD, EOS = 32, 34, 2
DELAY = 6


class ScriptedState:
    def __init__(self) -> None:
        self.reset()

    def reset(self, position: int = 0) -> None:
        self.loudness: list[float] = []


class ScriptedDecoder(nn.Module):
    """Puts out, at every position, what `say` makes of the loudness of the positions so far."""

    def __init__(self, say) -> None:
        super().__init__()
        self.say = say
        self.norm = nn.LayerNorm(1)

    def state(self, delay: int, capacity: int | None = None) -> ScriptedState:
        return ScriptedState()

    def forward(self, tokens: Tensor, audio: Tensor, state: ScriptedState) -> Tensor:
        state.loudness += audio.abs().amax(dim=-1).tolist()
        logits = torch.zeros(64)
        logits[self.say(state.loudness)] = 1
        return logits


class LetThrough(Encoder):
    """Keeps the loudness that an RMS norm would take away."""

    def forward(self, x: Tensor, state: EncoderState | None = None, start: int = 0) -> Tensor:
        return x


def heard_delay_ago(loudness: list[float]) -> int:
    """A model as trained: the word is put out D tokens after the 80 ms that it was heard in."""
    past = len(loudness) - 1 - DELAY
    return HEARD if past >= 0 and loudness[past] > 1.0 else PAD


def scripted(say) -> VoxtralRealtime:
    """The real front end, wired to pass loudness on, and a scripted decoder."""
    config = small_config(
        EncoderConfig(16, 1, 1, 16, 32, window=1),
        DecoderConfig(16, 1, 1, 1, 16, 32, window=9, vocab=64),
    )
    model = random_weights(config)
    # Loud frames have large mel values: let one channel carry their sum through the encoder.
    for conv in (model.stem.conv1, model.stem.conv2):
        conv.weight.fill_(0.02)
        conv.bias.zero_()
    model.encoder = LetThrough(config.encoder)
    model.projector.linear1.weight.fill_(0.1)
    model.projector.linear2.weight.fill_(0.1)
    model.decoder = ScriptedDecoder(say)
    return model


def click(at: float, seconds: float = 2.0) -> np.ndarray:
    samples = np.zeros(round(seconds * 16_000), np.float32)
    start = round(at * 16_000)
    samples[start : start + 200] = noise(1, level=3)[1000:1200]
    return samples


@pytest.mark.parametrize("at", [0.0, 0.3, 1.0, 1.5])
def test_a_click_is_dated_when_it_was_heard(at: float) -> None:
    """voxtral.c 19: word timestamps. Forgetting the left pad dates them 2.56 s late."""
    tokens = stream(scripted(heard_delay_ago), click(at)).tokens
    heard = [token for token in tokens if token.id == HEARD]
    assert heard and abs(heard[0].start - at) <= 0.08
    assert heard[0].start <= at + 0.0125 < heard[-1].end + 0.08


@pytest.mark.parametrize("samples", [31_000, 32_000, 32_001])
def test_the_last_syllable_is_not_lost(samples: int) -> None:
    """sokuji 360: no right pad, so the last token of every utterance never came."""
    clip = click(samples / 16_000 - 0.02, samples / 16_000)[:samples]
    session = StreamingSession(scripted(heard_delay_ago))
    session.begin()
    for piece in pieces(clip, 512):
        update = session.feed(piece)
        assert HEARD not in [token.id for token in update.tokens], "it cannot be known yet"
    transcript = session.finalize()
    assert HEARD in transcript.ids
    session.begin()
    session.feed(clip)
    assert session.finalize().ids == transcript.ids, "finishing twice gives the same"


def test_nothing_is_decoded_after_the_last_audio() -> None:
    """executorch 18339: a tail repeated by text-only steps after the audio had ended."""
    steps: list[int] = []
    model = scripted(lambda loudness: steps.append(len(loudness)) or PAD)
    stream(model, click(1.0))
    positions = 32 + 25 + (DELAY + 1 + 10)
    assert steps == list(range(32 + DELAY + 1, positions + 1))


def test_eos_does_not_end_a_stream() -> None:
    """audio.cpp 112, 116: words after EOS are kept; stopping at it is a choice."""

    def says(loudness: list[float]) -> int:
        step = len(loudness) - (32 + DELAY + 1)
        return {5: EOS}.get(step, HEARD if step > 5 else PAD)

    model = scripted(says)
    clip = click(1.0)
    going_on = stream(model, clip).ids
    assert going_on[:6] == [PAD] * 5 + [EOS] and set(going_on[6:]) == {HEARD}
    session = StreamingSession(model, stop_at_eos=True)
    session.begin()
    updates = [session.feed(piece) for piece in pieces(clip, 1000)]
    assert session.finalize().ids == [PAD] * 5 + [EOS]
    assert updates[-1].ended and updates[-1].tokens == () and not updates[0].ended
    assert transcribe(model, clip, stop_at_eos=True).ids == [PAD] * 5 + [EOS]


def test_the_first_partial_comes_before_the_audio_ends() -> None:
    """mlx-audio-swift 205: a "realtime" model that ran offline. The clock is the samples fed."""
    session = StreamingSession(random_weights(small_config()))
    session.begin()
    clip = noise(10)
    first = next(
        number for number, piece in enumerate(pieces(clip, 160)) if session.feed(piece).tokens
    )
    assert (first + 1) * 160 <= (DELAY + 1) * 1280 + 160


@pytest.mark.parametrize("window", [24, 750])
def test_forty_seconds_through_every_compaction(window: int) -> None:
    """voxmlx 7: words garbled on long clips, after the first compaction of the ring."""
    config = small_config(EncoderConfig(32, 2, 2, 16, 64, window=window))
    model, clip = random_weights(config), noise(40)
    session = StreamingSession(model)
    session.begin()
    for piece in pieces(clip, 1280):
        session.feed(piece)
    assert session._encoder.rings[0].compactions >= 1
    assert session.finalize().tokens == transcribe(model, clip).tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_stage_widens_the_dtype(dtype: torch.dtype) -> None:
    """mlx-audio 661: an fp32 mel pulled the whole path to fp32, three times as slow."""
    seen: dict[str, torch.dtype] = {}
    model = random_weights(small_config()).to(dtype)
    stream(model, noise(1), observer=lambda stage, output, _: seen.update({stage: output.dtype}))
    assert seen.pop("mel") == torch.float32
    assert set(seen.values()) == {dtype}


@pytest.mark.parametrize("level", [0.0, 1e-3])
def test_what_is_said_on_silence_is_counted(level: float) -> None:
    """mlx-audio-swift 178, livekit 4754: text invented on silence. 30 s of zeros and of noise at
    -60 dB: a model that hears nothing says nothing, one that makes things up is shown to.
    """
    quiet = (np.random.default_rng(0).normal(size=480_000) * level).astype(np.float32)
    assert stream(scripted(heard_delay_ago), quiet).said_share(PAD) == 0.0
    inventing = stream(scripted(lambda loudness: HEARD if len(loudness) % 4 else PAD), quiet)
    assert inventing.said_share(PAD) == pytest.approx(0.75, abs=0.01)
    assert inventing.said_share(PAD, HEARD) == 0.0
    heard = stream(scripted(heard_delay_ago), click(1.0))
    assert 0 < heard.said_share(PAD) < 0.2


def phrase_repeated() -> Iterator[np.ndarray]:
    phrase = noise(1.7, seed=3, level=0.4)
    for _ in range(10):
        yield phrase


def test_no_seam_between_chunks() -> None:
    """FluidAudio 758, 855, 787 and Handy 2125: text lost, deduplicated or silent after a chunk."""
    model = random_weights(small_config())
    session = StreamingSession(model)
    session.begin()
    per_chunk = [len(session.feed(phrase).tokens) for phrase in phrase_repeated()]
    assert min(per_chunk[1:]) >= 21 and max(per_chunk) <= 22
    whole = np.concatenate(list(phrase_repeated()))
    assert session.finalize().tokens == transcribe(model, whole).tokens


@pytest.mark.slow
def test_an_hour_in_one_call() -> None:
    """voxtral.cpp 6: a 51 minute file gave its first chunk, then span. Memory stays bounded."""
    model = random_weights(
        small_config(
            EncoderConfig(16, 1, 1, 16, 32, window=40),
            DecoderConfig(16, 1, 1, 1, 16, 32, window=33, vocab=40),
        )
    )
    session = StreamingSession(model)
    session.begin()
    samples = np.zeros(3600 * 16_000, np.float32)
    before = psutil.Process().memory_info().rss
    assert len(session.feed(samples).tokens) == 3600 * 16_000 // 1280 - (DELAY + 1)
    # The checked copy of the samples (230 MB) and 45,000 tokens; nothing else grows.
    assert psutil.Process().memory_info().rss - before < samples.nbytes + 60e6
