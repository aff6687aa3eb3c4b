"""Ctrl-C where nothing handles it yet: the plain end of any program, without a word.

Loading what a command needs takes up to a second, and an exception in the middle of an
import is a traceback for people. A shell sees 130 either way. Where the signal is
ignored (a job behind a shell without terminal), it stays so while a command is loaded.

What must not be torn by the exception defers it: the write of a record and the note
that it was written.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def end_at_interrupt() -> None:
    """From now on ctrl-C ends the process, until a loop handles it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_interrupt() -> None:
    """From now on it is Python's exception, for a command that has to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupt_deferred() -> Iterator[None]:
    """Ctrl-C is noted inside, and raised behind it; a second one ends the process, for
    what is inside may wait for a reader that takes nothing.

    Nothing changes where ctrl-C is not Python's exception (it is ignored, say), nor in
    a thread, which gets none.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not is_main or handler is not signal.default_int_handler:
        yield
        return
    noted: list[int] = []

    def note(number: int, _frame: Any) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if noted:
        raise KeyboardInterrupt
