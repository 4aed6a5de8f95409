"""What an experiment refuses to begin with."""

from importlib.util import find_spec

TOOLS = {"jiwer": "word error rates", "scipy": "intervals"}


class QualityError(ValueError):
    """An experiment that cannot be run as asked; says what and the way out."""


def need_tools() -> None:
    """Before any work.

    Raises:
        QualityError: jiwer or scipy is not installed.
    """
    for name, what in TOOLS.items():
        if find_spec(name) is None:
            raise QualityError(f"{what} need {name}: pip install 'vrt[quality]'")


def at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise QualityError(f"{name} must be at least {least}, got {value}")
