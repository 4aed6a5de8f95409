"""The public names, nothing else: `model = vrt.load(...)`, then `vrt.StreamingSession(model)`."""

from vrt.voxtral.config import DecoderConfig, EncoderConfig, VoxtralConfig
from vrt.voxtral.config_files import CheckpointError
from vrt.voxtral.model import VoxtralRealtime
from vrt.voxtral.offline import transcribe
from vrt.voxtral.schedule import DelayError
from vrt.voxtral.session import SessionError, StreamingSession
from vrt.voxtral.tokenizer import Tokenizer, TokenizerError
from vrt.voxtral.transcript import Token, Transcript, Update, Word
from vrt.voxtral.weights import load

__version__ = "0.1.0"

__all__ = [
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
    "Update",
    "VoxtralConfig",
    "VoxtralRealtime",
    "Word",
    "load",
    "transcribe",
]
