"""What a sweep measures, checked before anything long starts."""

from dataclasses import dataclass

from vrt.coreml.bench.devices import COREML, backend_of
from vrt.coreml.errors import CoreMLError

SOAK = 1000  # calls: packages are known to die after 100 to 200, and to leak slowly


@dataclass(frozen=True)
class SweepSettings:
    """`calls` of each function in a process of its own, on each device, `rounds` times over.

    A process that has not ended after `timeout_s` is killed: the first compilation for the Neural
    Engine alone can take minutes. `threads` are torch's. `source` is the model that torch runs, by
    name; None is the one that the package names.

    Raises:
        CoreMLError: a device that is not there or named twice, or numbers below 1.
    """

    devices: tuple[str, ...] = COREML
    calls: int = SOAK
    rounds: int = 2
    timeout_s: float = 900.0
    threads: int = 1
    source: str | None = None

    def __post_init__(self) -> None:
        if not self.devices:
            raise CoreMLError("no device to measure on: name one")
        for device in self.devices:
            backend_of(device)
        if len(set(self.devices)) < len(self.devices):
            raise CoreMLError(f"devices {', '.join(self.devices)}: name each once")
        for name in ("calls", "rounds", "threads"):
            if getattr(self, name) < 1:
                raise CoreMLError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.timeout_s > 0:
            raise CoreMLError(f"timeout_s must be above 0, got {self.timeout_s:g}")
