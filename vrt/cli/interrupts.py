"""Ctrl-C: what one press is, which code it may not cut in two, and when it is no longer heard."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MOMENT = 0.3  # seconds in which further presses belong to the first: fingers and terminals bounce


class GiveUp(KeyboardInterrupt):
    """A second Ctrl-C while the first one still waited."""


class Presses:
    """A handler of SIGINT: `KeyboardInterrupt` for each press, however often it bounces."""

    def __init__(self) -> None:
        self._last = -MOMENT

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.is_new():
            raise KeyboardInterrupt

    def is_new(self) -> bool:
        now = time.monotonic()
        new = now - self._last >= MOMENT
        if new:
            self._last = now
        return new


def hear_presses() -> None:
    """From now on; where Ctrl-C is ignored or has another handler, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Presses())


def hear_no_more() -> None:
    """What follows is the orderly end that a press asked for, or that of the process."""
    if isinstance(signal.getsignal(signal.SIGINT), Presses):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, so that nothing of it is lost; a second one does not.

    Does nothing outside the main thread, and where Ctrl-C is ignored or has another handler.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def hold(number: int, frame: FrameType | None) -> None:
        if isinstance(before, Presses) and not before.is_new():
            return
        if came:
            raise GiveUp
        came.append(number)

    main = threading.current_thread() is threading.main_thread()
    heard = before is signal.default_int_handler or isinstance(before, Presses)
    if not main or not heard:
        yield
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
