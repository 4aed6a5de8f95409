"""The host's side of a Voxtral stream over four graphs: caches, angles, prompt, greedy tokens.

M mel bins, D encoder width, L layers, H heads of keys and values, K head width, P cached positions,
n new ones; a step is 80 ms: 8 mel frames, 4 encoder frames, 1 token.

All that it knows of the model stands in the packages' contracts, so a Swift host needs no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from vrt.coreml.contract import Contract, Kind
from vrt.coreml.scorer import Runner


def angles(
    frequencies: Sequence[float], start: int, count: int
) -> dict[str, Float32[ndarray, "n half"]]:
    """The inputs `cos` and `sin` of `count` positions from `start` on.

    Frequencies are the contract's, rounded to FP32 as the weights were trained with them; their
    product with the position is taken in float64, so that it is right after days of stream.
    """
    positions = np.arange(start, start + count, dtype=np.float64)[:, None]
    turned = positions * np.array(frequencies, dtype=np.float64)
    return {"cos": np.cos(turned).astype(np.float32), "sin": np.sin(turned).astype(np.float32)}


class KVCache:
    """The P newest keys and values, oldest first; zeros stand for what was before the stream."""

    def __init__(self, shape: tuple[int, int, int, int]):
        self.keys = np.zeros(shape, np.float32)
        self.values = np.zeros(shape, np.float32)

    def append(
        self, keys: Float32[ndarray, "L H n K"], values: Float32[ndarray, "L H n K"]
    ) -> None:
        self.keys = _newest(self.keys, keys)
        self.values = _newest(self.values, values)


def _newest(
    kept: Float32[ndarray, "L H P K"], new: Float32[ndarray, "L H n K"]
) -> Float32[ndarray, "L H P K"]:
    both = np.concatenate([kept, new], axis=2)
    return both[:, :, both.shape[2] - kept.shape[2] :]


class CachedGraph:
    """A graph with keys and values: position, angles, `past` and, where explicit, the cache."""

    def __init__(self, contract: Contract, runner: Runner):
        self.contract, self.runner = contract, runner
        self.facts, self.sizes = contract.facts, contract.sizes
        self.position = 0  # of the next frame or token
        ports = {port.name: port for port in contract.functions[0].inputs}
        self.count = ports["cos"].shape[0]
        self.cache = KVCache(ports["keys"].shape) if "keys" in ports else None

    def feeds(self, given: Mapping[str, ndarray]) -> dict[str, ndarray]:
        """All inputs of the next step."""
        past = np.array([min(self.position, self.sizes["P"])], np.int32)
        turned = angles(self.facts["rotary_frequencies"], self.position, self.count)
        kept = {} if self.cache is None else {"keys": self.cache.keys, "values": self.cache.values}
        return {**given, **turned, "past": past, **kept}

    def took(self, answer: Mapping[str, ndarray]) -> None:
        """The step is over; what it added is remembered."""
        self.position += self.count
        if self.cache is not None:
            self.cache.append(answer["keys_new"], answer["values_new"])

    def step(self, given: Mapping[str, ndarray]) -> dict[str, ndarray]:
        answer = self.runner(self.feeds(given))
        self.took(answer)
        return answer


@dataclass(frozen=True)
class HostStep:
    """Every stage's output of one step; `token` is None inside the prompt."""

    x: Float32[ndarray, "4 D"]
    frames: Float32[ndarray, "4 D"]
    audio: Float32[ndarray, "1 E"]
    logits: Float32[ndarray, "1 V"]
    token: int | None


class VoxtralHost:
    """One stream from its first mel frame, those of the left pad, on."""

    def __init__(self, contracts: Mapping[Kind, Contract], runners: Mapping[Kind, Runner]):
        stem = contracts["voxtral-conv-stem"].functions[0].inputs
        self.tails = {p.name: np.zeros(p.shape, np.float32) for p in stem if p.name != "mel"}
        self.stem, self.projector = runners["voxtral-conv-stem"], runners["voxtral-projector"]
        self.encoder, self.decoder = (
            CachedGraph(contracts[kind], runners[kind])
            for kind in ("voxtral-encoder-chunk", "voxtral-decoder-step")
        )
        facts = self.decoder.facts
        pads = facts["left_pad_tokens"] + facts["delay_tokens"]
        self.prompt = [facts["bos"]] + [facts["streaming_pad"]] * pads
        self.last = -1

    def step(self, mel: Float32[ndarray, "8 M"]) -> HostStep:
        """The token of the prompt's last position is the first that is put out."""
        stem = self.stem({"mel": mel, **self.tails})
        self.tails = {name: stem[f"{name}_out"] for name in self.tails}
        frames = self.encoder.step({"x": stem["x"]})["frames"]
        audio = self.projector({"frames": frames})["audio"]
        position = self.decoder.position
        token = self.prompt[position] if position < len(self.prompt) else self.last
        logits = self.decoder.step({"token": np.array([token], np.int32), "audio": audio})["logits"]
        put_out = position >= len(self.prompt) - 1
        self.last = int(logits.argmax()) if put_out else -1
        return HostStep(stem["x"], frames, audio, logits, self.last if put_out else None)
