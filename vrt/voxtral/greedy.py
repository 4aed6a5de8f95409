"""Greedy decoding of audio embeddings: the prompt at once, then one position after another.

n new positions, E decoder width, V vocabulary.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.observe import Observer, observed
from vrt.voxtral.schedule import Schedule


class ModelOutputError(RuntimeError):
    """The model put out something that no transcript can be made of."""


class GreedyDecoder:
    """The decoder's side of one stream: its state, the token to feed next, what waits for a prompt.

    Position p takes the prompt's token while p < L, then the token put out at p - 1; the output of
    the prompt's last position is the first token. `stop` is the id that ends the stream, or None.
    """

    def __init__(
        self,
        model: VoxtralRealtime,
        schedule: Schedule,
        stop: int | None = None,
        observer: Observer | None = None,
        capacity: int | None = None,
    ):
        self.model, self.schedule, self.stop, self.observer = model, schedule, stop, observer
        self.state = model.decoder.state(schedule.delay, capacity)
        self.reset()

    def reset(self, position: int = 0) -> None:
        self.state.reset(position)
        self.done = 0  # positions decoded
        self.ended = False
        self._last = -1
        self._waiting: list[Tensor] = []  # embeddings of a prompt that is not complete yet

    def push(self, audio: Float[Tensor, "n E"]) -> Iterator[int]:
        """Tokens of the positions that `audio` completes, one by one, the stopping one included.

        Each is final when it is yielded: who is interrupted keeps what came before.
        """
        if self.done == 0:
            self._waiting.append(audio)
            if sum(map(len, self._waiting)) < self.schedule.prompt_len:
                return
            audio, self._waiting = torch.cat(self._waiting), []
            yield self._advance(self.schedule.prompt, audio[: self.schedule.prompt_len])
            audio = audio[self.schedule.prompt_len :]
        for row in range(len(audio)):
            if self.ended:
                return
            yield self._advance([self._last], audio[row : row + 1])

    def _advance(self, tokens: list[int], audio: Float[Tensor, "n E"]) -> int:
        ids = torch.tensor(tokens, device=audio.device)
        logits = observed(self.observer, "logits", self.model.decoder, ids, audio, self.state)
        best, index = logits.max(dim=-1)
        if not torch.isfinite(best):
            raise ModelOutputError(
                f"logits at position {self.done + len(tokens) - 1} are not finite (maximum"
                f" {best.item()}): a weight is not a number, or the dtype is too narrow; try"
                " dtype=torch.float32"
            )
        self.done += len(tokens)
        self._last = int(index)
        self.ended = self._last == self.stop
        return self._last
