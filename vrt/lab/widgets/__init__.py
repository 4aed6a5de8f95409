"""Views for JupyterLab, and the same without a browser; each name is imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrt.lab.widgets.beam_view import beam_explorer
    from vrt.lab.widgets.beam_words import beam_text
    from vrt.lab.widgets.capture import cut
    from vrt.lab.widgets.headless import live_rows, offline_text
    from vrt.lab.widgets.live_view import live
    from vrt.lab.widgets.recording import Limits
    from vrt.lab.widgets.ring_slots import ring_rows
    from vrt.lab.widgets.ring_view import ring_explorer
    from vrt.lab.widgets.stream import LiveStream, Snapshot

__all__ = [
    "Limits",
    "LiveStream",
    "Snapshot",
    "beam_explorer",
    "beam_text",
    "cut",
    "live",
    "live_rows",
    "offline_text",
    "ring_explorer",
    "ring_rows",
]

_HOMES = {
    "beam_words": ("beam_text",),
    "beam_view": ("beam_explorer",),
    "capture": ("cut",),
    "headless": ("live_rows", "offline_text"),
    "live_view": ("live",),
    "recording": ("Limits",),
    "ring_slots": ("ring_rows",),
    "ring_view": ("ring_explorer",),
    "stream": ("LiveStream", "Snapshot"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"vrt.lab.widgets.{home}"), name)
            return value
    raise AttributeError(f"module 'vrt.lab.widgets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
