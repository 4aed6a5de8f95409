"""Charts, checks and runs of notebooks; a name's module is imported when the name is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrt.lab.checks import check
    from vrt.lab.prose import say
    from vrt.lab.shipped import golden, receipt
    from vrt.lab.show import begin
    from vrt.lab.values import record
    from vrt.lab.widgets.beam_view import beam_explorer
    from vrt.lab.widgets.live_view import live
    from vrt.lab.widgets.ring_view import ring_explorer

__all__ = [
    "beam_explorer",
    "begin",
    "check",
    "golden",
    "live",
    "receipt",
    "record",
    "ring_explorer",
    "say",
]

_HOMES = {
    "checks": ("check",),
    "prose": ("say",),
    "shipped": ("golden", "receipt"),
    "show": ("begin",),
    "values": ("record",),
    "widgets.beam_view": ("beam_explorer",),
    "widgets.live_view": ("live",),
    "widgets.ring_view": ("ring_explorer",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"vrt.lab.{home}"), name)
            return value
    raise AttributeError(f"module 'vrt.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
