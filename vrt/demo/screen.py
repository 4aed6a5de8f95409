"""How a running stream looks: a bar above growing text on a terminal, plain lines elsewhere."""

import shutil
import unicodedata
from io import TextIOBase

from tqdm import tqdm

LINE_SECONDS = 1.0  # of audio, between two lines where there is no terminal
BAR = "{l_bar}{bar}| {n:.2f} of {total:.2f} s"
WIDE = "WF"  # East Asian widths that take two columns


def printable(text: str, encoding: str | None) -> str:
    """`text` on one line: what would steer a terminal, or cannot be encoded, becomes a dot."""
    known = encoding or "utf-8"
    harmless = "".join(c if c.isprintable() else "·" for c in text)
    return harmless.encode(known, "replace").decode(known)


def last_columns(text: str, columns: int) -> str:
    """As much of the end of `text` as `columns` of a terminal hold."""
    used = 0
    for cut in range(len(text), 0, -1):
        used += 2 if unicodedata.east_asian_width(text[cut - 1]) in WIDE else 1
        if used > columns:
            return text[cut:]
    return text


class TerminalScreen:
    """Two lines that are written over: a bar of audio seconds, and the end of the text."""

    def __init__(self, seconds: float, out: TextIOBase):
        self.out = out
        often = {"mininterval": 0, "miniters": 0}  # show every feed
        self._bar = tqdm(total=seconds, bar_format=BAR, file=out, dynamic_ncols=True, **often)
        self._line = tqdm(total=0, bar_format="{desc}", file=out, position=1, leave=False, **often)

    def show(self, audio_seconds: float, text: str, tentative: str = "") -> None:
        """`tentative` text may still change: it stands in brackets."""
        columns = shutil.get_terminal_size().columns - 1
        harmless = printable(f"{text}[{tentative}]" if tentative else text, self.out.encoding)
        self._line.set_description_str(last_columns(harmless, columns))
        self._bar.update(audio_seconds - self._bar.n)

    def close(self) -> None:
        self._line.close()
        self._bar.close()


class PlainScreen:
    """A line a second of audio, with what the text grew by: for a log or a pipe."""

    def __init__(self, seconds: float, out: TextIOBase):
        self.seconds, self.out = seconds, out
        self._next, self._written = LINE_SECONDS, 0

    def show(self, audio_seconds: float, text: str, tentative: str = "") -> None:
        """Committed text alone: what is written cannot be taken back."""
        if audio_seconds < min(self._next, self.seconds) or len(text) == self._written:
            return
        grown = printable(text[self._written :], self.out.encoding)
        print(f"{audio_seconds:6.2f} s {audio_seconds / self.seconds:4.0%}  {grown}", file=self.out)
        self._next, self._written = audio_seconds + LINE_SECONDS, len(text)

    def close(self) -> None:
        self.out.flush()


def screen_for(seconds: float, out: TextIOBase) -> TerminalScreen | PlainScreen:
    return (TerminalScreen if out.isatty() else PlainScreen)(seconds, out)
