"""The public names, nothing else: `model = vrt.load(...)`, then `vrt.StreamingSession(model)`.

A name's module is imported when the name is first used, so that `vrt --version` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrt.loading import load
    from vrt.rnnt.config import BeamConfig
    from vrt.rnnt.speech import TransducerSession
    from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
    from vrt.voxtral.model import VoxtralRealtime
    from vrt.voxtral.offline import transcribe
    from vrt.voxtral.packed import pack
    from vrt.voxtral.schedule import DelayError
    from vrt.voxtral.session import SessionError, StreamingSession
    from vrt.voxtral.tokenizer import Tokenizer, TokenizerError
    from vrt.voxtral.transcript import Token, Transcript, Update, Word
    from vrt.voxtral.weights.config_files import CheckpointError

__version__ = "0.1.0"

__all__ = [
    "BeamConfig",
    "CheckpointError",
    "DecoderConfig",
    "DelayError",
    "EncoderConfig",
    "SessionError",
    "StreamingSession",
    "Token",
    "Tokenizer",
    "TokenizerError",
    "Transcript",
    "TransducerSession",
    "Update",
    "VoxtralConfig",
    "VoxtralRealtime",
    "Word",
    "load",
    "pack",
    "transcribe",
]

_HOMES = {
    "loading": ("load",),
    "rnnt.config": ("BeamConfig",),
    "rnnt.speech": ("TransducerSession",),
    "voxtral.config": ("DecoderConfig", "EncoderConfig", "VoxtralConfig"),
    "voxtral.model": ("VoxtralRealtime",),
    "voxtral.offline": ("transcribe",),
    "voxtral.packed": ("pack",),
    "voxtral.schedule": ("DelayError",),
    "voxtral.session": ("SessionError", "StreamingSession"),
    "voxtral.tokenizer": ("Tokenizer", "TokenizerError"),
    "voxtral.transcript": ("Token", "Transcript", "Update", "Word"),
    "voxtral.weights.config_files": ("CheckpointError",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"vrt.{home}"), name)
            return value
    raise AttributeError(f"module 'vrt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
