"""Files that are read and written whole, and errors that name them."""

import contextlib
import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from typing import Any

from kvbench.common.messages import BadInput

PROBES = "kvbench-probe-"  # with the number of a process, a folder in which it asks an engine
MOST_READ = 64 << 20  # bytes of a file that a user names


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


def read_toml(path: str | os.PathLike[str], most: int = MOST_READ) -> dict[str, Any]:
    """The values of a TOML file. Raises BadInput, which does not name the file."""
    try:
        values = tomllib.loads(read_whole(path, most).decode())
        repr(values)  # raises what no message could show: too long a number, too deep a list
        return values
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"not a readable TOML file: {reason}") from None


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
