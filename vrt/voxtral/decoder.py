"""The delay-conditioned decoder: one token a position, keys and values in a ring of its own.

n positions (80 ms), R rows (n and the padding that `row_unit` asks for), D width, H heads,
G key-value heads, K head width, V vocabulary, L layers.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from vrt.voxtral.cache import KVRing
from vrt.voxtral.config import DecoderConfig
from vrt.voxtral.layers import ROW_UNIT, RMSNorm, Rotary, SwiGLU, pad_rows, rotate

TIME_THETA = 1e4  # of the delay's sinusoidal embedding; the rotary theta is another number
RING_SPARE = 512  # slots beyond the window: at the released window, one compaction every 41 s


class DecoderState:
    """One KVRing a layer, the next absolute position, and the gains of one transcription delay."""

    def __init__(
        self,
        config: DecoderConfig,
        gains: Float[Tensor, "L D"],
        capacity: int | None = None,
    ):
        if capacity is None:
            capacity = config.window + RING_SPARE
        max_chunk = capacity - config.window + 1
        self.gains = gains
        self.rings = [
            KVRing(
                config.kv_heads,
                config.head_dim,
                config.window,
                max_chunk,
                gains.dtype,
                gains.device,
                capacity,
            )
            for _ in range(config.layers)
        ]
        self.position = 0

    def reset(self, position: int = 0) -> None:
        for ring in self.rings:
            ring.reset()
        self.position = position

    @property
    def nbytes(self) -> int:
        return sum(ring.nbytes for ring in self.rings)


def time_embedding(
    delay: int, width: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "D"]:
    """Cosines, then sines, of the delay in tokens (not ms) at width / 2 frequencies.

    The reference rounds the frequencies to the model's dtype before the product, so a bf16
    session is conditioned by bf16 angles.
    """
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device="cpu")
    inv = torch.exp(steps * (-math.log(TIME_THETA) / half))
    angles = torch.tensor(float(delay), dtype=dtype, device="cpu") * inv.to(dtype)
    return torch.cat([angles.cos(), angles.sin()])


def causal_mask(
    n: int, keys: int, window: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "n keys"] | None:
    """Query i of n is key number keys - n + i and sees its window; None where all see all."""
    if n == 1:
        return None
    query = torch.arange(keys - n, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)
    seen = (key <= query) & (key > query - window)
    return torch.zeros(n, keys, dtype=dtype, device=device).masked_fill_(~seen, float("-inf"))


def row_unit(n: int, dtype: torch.dtype) -> int:
    """Rows that n positions are padded to a multiple of.

    4, as everywhere; but a single fp32 step takes one row. It is the same call in a stream and
    offline, and torch's fp32 matrix-vector product reads weights at 19 GB/s where 4 rows reach 6
    (an AVX-512 core, weights out of cache). In bf16 4 rows beat one.
    """
    return 1 if n == 1 and dtype != torch.bfloat16 else ROW_UNIT


class TiedHead(nn.Module):
    """Logits by the embedding matrix itself."""

    def forward(self, x: Float[Tensor, "R D"], embedding: Float[Tensor, "V D"]) -> Tensor:
        return F.linear(x, embedding)


class DecoderAttention(nn.Module):
    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.head_dim, self.window = config.head_dim, config.window
        inner, kv_inner = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q = nn.Linear(config.width, inner, bias=False)
        self.k = nn.Linear(config.width, kv_inner, bias=False)
        self.v = nn.Linear(config.width, kv_inner, bias=False)
        self.o = nn.Linear(inner, config.width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "R D"],
        n: int,
        table: tuple[Float[Tensor, "n half"], Float[Tensor, "n half"]],
        ring: KVRing,
    ) -> Float[Tensor, "R D"]:
        """Rows from `n` on are padding: they meet the weights and nothing else."""
        q = rotate(self.q(x)[:n].view(n, self.heads, self.head_dim), *table)
        k = rotate(self.k(x)[:n].view(n, self.kv_heads, self.head_dim), *table)
        v = self.v(x)[:n].view(n, self.kv_heads, self.head_dim)
        ring.append(k.transpose(0, 1), v.transpose(0, 1))
        keys, values = ring.last(min(ring.seen, self.window - 1 + n))
        mask = causal_mask(n, keys.shape[1], self.window, x.dtype, x.device)
        return self.o(pad_rows(self._mix(q, keys, values, mask), len(x)))

    def _mix(
        self,
        q: Float[Tensor, "n H K"],
        keys: Float[Tensor, "G keys K"],
        values: Float[Tensor, "G keys K"],
        mask: Float[Tensor, "n keys"] | None,
    ) -> Float[Tensor, "n inner"]:
        """Query heads that share a key-value head are rows of one product: keys are read once."""
        n, shared = len(q), self.heads // self.kv_heads
        rows = q.view(n, self.kv_heads, shared, -1).permute(1, 2, 0, 3)  # [G, shared, n, K]
        rows = rows.reshape(self.kv_heads, shared * n, -1)
        # Head by head: over a slice of the ring, the batched product copies all keys (4.5 times
        # the time at context 8192 in bf16).
        scores = torch.stack([row @ key.T for row, key in zip(rows, keys, strict=True)])
        scores = scores.float() * self.head_dim**-0.5
        if mask is not None:
            scores = scores + mask.repeat(shared, 1)
        mixed = torch.softmax(scores, dim=-1).to(q.dtype) @ values  # [G, shared * n, K]
        return mixed.view(self.kv_heads, shared, n, -1).permute(2, 0, 1, 3).reshape(n, -1)


class AdaMLP(nn.Module):
    """From the delay's embedding to a layer's scale: a constant of the session."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.linear1 = nn.Linear(config.width, config.ada_dim, bias=False)
        self.linear2 = nn.Linear(config.ada_dim, config.width, bias=False)

    def forward(self, t: Float[Tensor, "D"]) -> Float[Tensor, "D"]:
        return self.linear2(F.gelu(self.linear1(t)))


class DecoderLayer(nn.Module):
    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.attention_norm = RMSNorm(config.width, config.eps)
        self.attention = DecoderAttention(config)
        self.mlp_norm = RMSNorm(config.width, config.eps)
        self.ada = AdaMLP(config)
        self.mlp = SwiGLU(config.width, config.ff, bias=False)

    def forward(
        self,
        x: Float[Tensor, "R D"],
        n: int,
        table: tuple[Float[Tensor, "n half"], Float[Tensor, "n half"]],
        gain: Float[Tensor, "D"],
        ring: KVRing,
    ) -> Float[Tensor, "R D"]:
        x = x + self.attention(self.attention_norm(x), n, table, ring)
        return x + self.mlp(self.mlp_norm(x) * gain)


class Decoder(nn.Module):
    """Input at a position: embedding of the previous token plus the audio's embedding."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config = config
        self.rotary = Rotary(config.theta, config.head_dim)
        self.embed = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)
        self.head = TiedHead()

    def ada_scale(self, delay: int) -> Float[Tensor, "L D"]:
        """What each layer adds to 1 to get the gain of its normed MLP input."""
        weight = self.norm.weight
        t = time_embedding(delay, self.config.width, weight.dtype).to(weight.device)
        return torch.stack([layer.ada(t) for layer in self.layers])

    def state(self, delay: int, capacity: int | None = None) -> DecoderState:
        """Fresh state of a stream with `delay` tokens of transcription delay."""
        return DecoderState(self.config, 1 + self.ada_scale(delay), capacity)

    def forward(
        self, tokens: Int[Tensor, "n"], audio: Float[Tensor, "n D"], state: DecoderState
    ) -> Float[Tensor, "V"]:
        """Logits after the last of the next n positions (the prompt at once, then one by one)."""
        x = self.hidden(tokens, audio, state)
        last = pad_rows(self.norm(x[-1:]), row_unit(1, x.dtype))
        return self.head(last, self.embed.weight)[0]

    def hidden(
        self, tokens: Int[Tensor, "n"], audio: Float[Tensor, "n D"], state: DecoderState
    ) -> Float[Tensor, "n D"]:
        """What the layers make of the next n positions, before the last norm and the head."""
        n = len(tokens)
        if len(audio) != n:
            raise ValueError(f"Decoder takes one audio embedding a token, got {len(audio)} for {n}")
        table = self.rotary.table(state.position, n, like=audio)
        x = pad_rows(self.embed(tokens) + audio, row_unit(n, audio.dtype))
        for layer, gain, ring in zip(self.layers, state.gains, state.rings, strict=True):
            x = layer(x, n, table, gain, ring)
        state.position += n
        return x[:n]
