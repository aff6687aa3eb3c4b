"""Ctrl-C where nothing handles it yet: the plain end of any program, without a word.

Loading what a command needs takes up to a second, and an exception in the middle of an
import is a traceback for people. A shell sees 130 either way. Where the signal is
ignored (a job behind a shell without terminal), it stays so while a command is loaded.
"""

import signal


def end_at_interrupt() -> None:
    """From now on ctrl-C ends the process, until a loop handles it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_interrupt() -> None:
    """From now on it is Python's exception, for a command that has to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
