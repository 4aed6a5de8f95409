"""What a sweep runs on: Core ML's compute units, torch's devices, and vrt's own interpreter."""

import platform
from collections.abc import Iterable
from typing import Literal

from vrt.coreml.errors import CoreMLError

COREML = ("CPU_ONLY", "CPU_AND_NE", "CPU_AND_GPU", "ALL")  # of coremltools.ComputeUnit
TORCH = ("cpu", "cuda", "mps")
INTERPRETER = "interpreter"  # a rehearsal: its times say nothing of any runtime
DEVICES = (*COREML, *TORCH, INTERPRETER)

Backend = Literal["coreml", "torch", "reference-interpreter"]
REHEARSAL: Backend = "reference-interpreter"


class NotHere(CoreMLError):
    """A device was asked for that this machine does not have, so nothing was measured."""


def backend_of(device: str) -> Backend:
    """Raises `CoreMLError` for a device that is not there."""
    if device in COREML:
        return "coreml"
    if device in TORCH:
        return "torch"
    if device == INTERPRETER:
        return REHEARSAL
    raise CoreMLError(
        f"no device {device!r}; Core ML has {', '.join(COREML)}, torch {', '.join(TORCH)}"
    )


def refuse_absent(devices: Iterable[str]) -> None:
    """Before any work. Raises `NotHere` where one of them cannot be used on this machine."""
    devices, system = list(devices), platform.system()
    apple = [device for device in devices if backend_of(device) == "coreml"]
    if apple and system != "Darwin":
        raise NotHere(
            f"Core ML runs on macOS only, this is {system}: {', '.join(apple)} cannot be measured"
            " here. Nothing was measured, no receipt was written. `vrt coreml export` and `vrt"
            " coreml check` work here; `--device cpu` measures torch"
        )
    for device in ("cuda", "mps"):
        if device in devices and not _torch_has(device):
            raise NotHere(
                f"torch finds no {device} on this machine. Nothing was measured, no receipt was"
                f" written; leave {device} out of --device"
            )


def _torch_has(device: str) -> bool:
    import torch

    here = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    return here[device]()
