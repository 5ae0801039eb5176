"""Measure files and embedded key-value stores under equal conditions."""

import contextlib
import ctypes
import difflib
import errno
import functools
import os
import re
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

PROBES = "kvbench-probe-"  # with the number of a process, a folder in which it asks an engine

_library = ctypes.CDLL(None)

MOST_READ = 64 << 20  # bytes of a file that a user names
MOST_LISTED = 56  # characters of what is allowed in a message: a line of it is to be read at once


def one_line(text: str) -> str:
    """A message as one printable line, whatever it quotes: file names, for example."""
    unfit = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
    return re.sub(unfit, lambda found: found[0].encode("unicode_escape").decode(), text)


def listed(names: Iterable[object], given: object = "", where: str = "") -> str:
    """What is allowed, in a message: all names if they are few, else those most like the given one,
    or the first, with the number of the others and `where` they are listed."""
    found = list(map(str, names))
    text = ", ".join(found)
    if len(text) <= MOST_LISTED:
        return text
    begun = str(given).lower()
    close = [name for name in found if begun and name.startswith(begun)]
    close = close or difflib.get_close_matches(begun, found, 3)
    shown: list[str] = []
    for name in close or found:
        if shown and len(", ".join([*shown, name])) > MOST_LISTED:
            break
        shown.append(name)
    more = f" and {len(found) - len(shown)} more" if len(shown) < len(found) else ""
    return f"{', '.join(shown)}{more}{f': see {where}' if more and where else ''}"


class BadInput(Exception):  # noqa: N818 - it names what was given, not what went wrong here
    """Input that cannot be used. One line names the value, the place and what is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the line alone."""
        return [f"{type(self).__name__}: {self}"]


def brief(text: str, most: int = 60) -> str:
    """A text of the user's for a message, its middle left out where it is long: a path's end says
    most."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def say(text: str) -> None:
    """Print a line on standard error. A closed terminal or pipe must not end a sweep."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have each OSError name a path: the kernel's does not when a write fails, only when an open
    does."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def why_not(error: OSError) -> str:
    """Its reason. A disk is full, too, if it has room but no inode for a new file."""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC and error.filename:
        with contextlib.suppress(OSError):
            state = os.statvfs(os.path.dirname(os.path.abspath(error.filename)))
            if state.f_files and not state.f_favail:
                return f"{reason}: no inode is left for a new file"
    return reason


def read_whole(path: str | os.PathLike[str], most: int = MOST_READ) -> bytes:
    """The bytes of a file. Raises OSError, also for what is no regular file, whose reading might
    never end, and for one of more than `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a file", os.fspath(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"more than {most:,} B", os.fspath(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: after a crash it is complete, or as it was before."""
    path = os.fspath(path)
    with naming(path):
        _write_whole(path, data)


def _write_whole(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of a process that was killed, or a link to a file of somebody else
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # that end a command, which clears up


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
