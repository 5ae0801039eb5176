"""Makes processes end with their parent, and delays signals until work is complete."""

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

_library = ctypes.CDLL(None, use_errno=True)
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # these end a command, after clean-up


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, even if it is stopped, when its parent is killed."""
    _library.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def begin_worker(parent: int) -> None:
    """Prepare a forked process that works for its parent, which alone ends it: a terminal's Ctrl-C
    does not reach it, and it handles no signal as its parent does."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_DFL)
    os.setsid()
    die_with_parent(parent)


def dying(reboot: bool = False) -> dict[str, Any]:
    """Arguments of subprocess for a program that is killed with this process, and that a terminal's
    Ctrl-C does not reach: this process ends the program when it is interrupted. With `reboot`, the
    program cannot see that the machine has not restarted."""
    parent = os.getpid()

    def prepare() -> None:
        die_with_parent(parent)
        if reboot:
            hide_boot_id()

    return {"preexec_fn": prepare, "start_new_session": True}


NEW_MOUNTS, _BIND, _SLAVES = 0x20000, 0x1000, 0x84000  # of sched.h and sys/mount.h


def hide_boot_id() -> None:
    """Give this process mounts of its own, without the machine's boot ID. By it libmdbx would see
    that the machine has not restarted, and trust data that it had not synced, of which a power
    failure leaves only some. Needs root. Raises OSError."""
    steps: tuple[tuple[Any, ...], ...] = (
        (_library.unshare, NEW_MOUNTS),
        (_library.mount, b"none", b"/", None, _SLAVES, None),
        (_library.mount, b"/dev/null", b"/proc/sys/kernel/random/boot_id", None, _BIND, None),
    )
    for call, *arguments in steps:
        if call(*arguments) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"the boot ID cannot be hidden: {os.strerror(code)}")


@contextlib.contextmanager
def uninterrupted(done: bool = False) -> Iterator[None]:
    """Delay the signals of STOPS until the block ends, because it cleans up or completes something.
    With `done`, the command's work is complete then, and the signal is ignored."""
    came: list[int] = []
    handled: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():  # others cannot handle signals
        handled = [stop for stop in STOPS if signal.getsignal(stop) != signal.SIG_IGN]
    # A signal mask does not suffice: another thread would receive the signal.
    before = {stop: signal.signal(stop, lambda number, _: came.append(number)) for stop in handled}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
        if came and not done:
            signal.raise_signal(came[0])


def readable(files: Iterable[int], seconds: float) -> list[int]:
    """Wait until a file can be read, or the writers of a pipe have ended, for `seconds` at most.
    Returns these files. Unlike select(2) it takes descriptors of any number."""
    waiting = select.poll()
    for file in files:
        waiting.register(file, select.POLLIN)
    return [file for file, _ in waiting.poll(1000 * max(0.0, seconds))]


def how_it_ended(code: int) -> str:
    """How a process ended, in words, from its return code in subprocess."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"
