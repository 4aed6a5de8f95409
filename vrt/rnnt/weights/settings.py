"""`model_config.yaml` of a NeMo model: values by dotted name, references among them followed."""

import re
from dataclasses import dataclass
from typing import Any

from vrt.rnnt.weights.members import WeightsError

REFERENCE = re.compile(r"\$\{(?P<dots>\.*)(?P<name>[^${}:]+)\}")
DEEPEST = 16  # references that lead to references
ABSENT = object()


@dataclass(frozen=True)
class Settings:
    """A value `${model_defaults.joint_hidden}` is looked up; one with a resolver, `${oc.env:X}`,
    stays as it is written."""

    content: dict[str, Any]
    where: str = "model_config.yaml"

    @classmethod
    def parse(cls, text: bytes, where: str) -> "Settings":
        """Raises `WeightsError` for what is no YAML mapping."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            content = yaml.load(text, loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise WeightsError(
                f"{where} is no readable YAML ({reason}); mend it, or give config=TransducerConfig"
                "(...) and the weights file alone"
            ) from error
        if not isinstance(content, dict):
            raise WeightsError(f"{where} holds a {type(content).__name__}, not a mapping")
        # A training configuration has the model's below `model`.
        inner = content.get("model")
        return cls(inner if isinstance(inner, dict) else content, where)

    def get(self, name: str, default: Any = None) -> Any:
        """The value at `decoder.prednet.dropout`; null counts as absent."""
        value = self._at(name.split("."), DEEPEST)
        return default if value is ABSENT or value is None else value

    def number(self, name: str, default: float) -> float:
        value = self.get(name, default)
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise WeightsError(f"{self.where}: {name} is {value!r}, not a number") from error

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; none where it is absent."""
        return tuple(self._list(name, str, "a string; put it in quotes"))

    def frames(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers; none where it is absent."""
        return tuple(self._list(name, int, "a whole number"))

    def _list(self, name: str, kind: type, wanted: str) -> list[Any]:
        values = self.get(name, [])
        if not isinstance(values, list):
            raise WeightsError(f"{self.where}: {name} is {values!r}, not a list")
        for value in values:
            if not isinstance(value, kind) or isinstance(value, bool):
                raise WeightsError(f"{self.where}: {value!r} in {name} is not {wanted}")
        return values

    def _at(self, keys: list[str], left: int) -> Any:
        value: Any = self.content
        for depth, key in enumerate(keys):
            if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                return ABSENT
            value = self._followed(value, keys[: depth + 1], left)
        return value

    def _followed(self, value: Any, here: list[str], left: int) -> Any:
        found = REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        if not left:
            raise WeightsError(f"{self.where}: {'.'.join(here)} refers to itself, by {value}")
        keys, up = found["name"].split("."), len(found["dots"])
        if up:  # relative: one dot is the mapping that the value lies in
            return self._at([*here[: max(0, len(here) - up)], *keys], left - 1)
        there = self._at(keys, left - 1)
        if there is ABSENT and keys[0] == "model":
            return self._at(keys[1:], left - 1)
        return there
