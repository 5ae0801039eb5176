"""Reads and writes whole files, and names the file in errors."""

import contextlib
import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from typing import Any

from kvbench.common.messages import BadInput

PROBES = "kvbench-probe-"  # with a process ID: a folder in which the process probes an engine
MOST_READ = 64 << 20  # most bytes of a file that a user names


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make every OSError raised inside name `path`: the kernel names the file only when opening
    fails, not when writing does."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def why_not(error: OSError) -> str:
    """The reason of an error. A file system without free inodes counts as full, even if it has
    space."""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC and error.filename:
        with contextlib.suppress(OSError):
            state = os.statvfs(os.path.dirname(os.path.abspath(error.filename)))
            if state.f_files and not state.f_favail:
                return f"{reason}: no inode is left for a new file"
    return reason


def read_whole(path: str | os.PathLike[str], most: int = MOST_READ) -> bytes:
    """The bytes of a file. Raises OSError, also if the path is not a regular file, whose reading
    might never end, or if it has more than `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
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
    """The values of a TOML file. Raises BadInput, whose message does not name the file."""
    try:
        values = tomllib.loads(read_whole(path, most).decode())
        repr(values)  # raises if too long or deep for a message
        return values
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not a readable TOML file: {error}") from None


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: after a crash it is either complete or unchanged. Raises OSError."""
    path = os.fspath(path)
    with naming(path):
        _write_whole(path, data)


def _write_whole(path: str, data: bytes) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # left by a killed process, or someone's link to another file
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
