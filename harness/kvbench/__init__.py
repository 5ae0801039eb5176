"""Measure files and embedded key-value stores under equal conditions."""

import ctypes
import os
import re
import signal
import sys


def one_line(text: str) -> str:
    """A message as one printable line, whatever it quotes: file names, for example."""
    unfit = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
    return re.sub(unfit, lambda found: found[0].encode("unicode_escape").decode(), text)


class BadInput(Exception):  # noqa: N818 - it names what was given, not what went wrong here
    """Input that cannot be used. One line names the value, the place and what is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def say(text: str) -> None:
    """Print a line on standard error. A closed terminal or pipe must not end a sweep."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: after a crash it is complete, or as it was before."""
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
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
    """Have the kernel kill this process when its parent, a sweep, is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def how_it_ended(code: int) -> str:
    """How a process ended, by its return code as subprocess gives it."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-code}"
