"""Something that was noticed about a package by reading it.

An `error` makes wrong numbers, a `warning` did so on some devices or versions, a `note` is worth
knowing.
"""

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """`where` names the function and the operation or port."""

    level: Level
    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.rule}: {self.where}: {self.text}"
