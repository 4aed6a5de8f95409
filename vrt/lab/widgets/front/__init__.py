"""The widgets' front end: plain files, joined as they are; no build step."""

from pathlib import Path

FOLDER = Path(__file__).parent


def module(*names: str) -> str:
    """One ES module of these files, in this order."""
    return "\n".join(_text(f"{name}.js") for name in names)


def style() -> str:
    return _text("vrt.css")


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
