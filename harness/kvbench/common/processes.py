"""Processes that end with their parent, and signals that wait until work is whole."""

import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

_library = ctypes.CDLL(None)
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # that end a command, which clears up


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, stopped or not, when its parent is killed."""
    _library.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def dying() -> dict[str, Any]:
    """Arguments of subprocess for a program that ends with this process, whatever kills this one,
    and that a terminal's Ctrl-C does not reach: the process that it interrupts ends the program."""
    ends = functools.partial(die_with_parent, os.getpid())
    return {"preexec_fn": ends, "start_new_session": True}


@contextlib.contextmanager
def uninterrupted(done: bool = False) -> Iterator[None]:
    """Put off what would stop the command until the end: it clears up, or makes something whole. If
    the command's work is `done` then, who would have stopped it finds it so."""
    came: list[int] = []
    handled: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():  # no other may handle signals
        handled = [stop for stop in STOPS if signal.getsignal(stop) != signal.SIG_IGN]
    # Not by a mask: another thread of the process would take the signal.
    before = {stop: signal.signal(stop, lambda number, _: came.append(number)) for stop in handled}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
        if came and not done:
            signal.raise_signal(came[0])


def how_it_ended(code: int) -> str:
    """How a process ended, by its return code as subprocess gives it."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"
