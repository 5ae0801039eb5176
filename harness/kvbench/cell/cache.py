"""The page cache: the share of a store that is cached, and how to write back, warm and evict it."""

import ctypes
import itertools
import mmap
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kvbench.cell.contract import StoreError
from kvbench.cell.filesystem import Found, Mounted, walk

PAGE = mmap.PAGESIZE
FILES = 1000  # most files to examine; of more, a systematic sample of about as many
WARM_S = 10.0  # seconds, at most, of reading files before a warm cell is timed
DROP = Path("/proc/sys/vm/drop_caches")

# Fixed in size and touched at import, so that warming is not counted as memory of the store.
_buffer = bytearray(b"\1" * (256 << 10))
_library = ctypes.CDLL(None, use_errno=True)
_library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def _error(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")


def sync_file_system(folder: Path) -> None:
    """Write back all dirty pages of the file system that `folder` is on."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _library.syncfs(descriptor) != 0:
            raise _error(f"{folder}: syncfs")
    finally:
        os.close(descriptor)


def _files(folder: Path) -> Iterator[Found]:
    """Yield the regular files below a folder one by one: a list of a million names would count as
    memory of the store."""
    for found in walk(folder):
        if found.entry is not None and found.entry.is_file(follow_symlinks=False):
            yield found


def _opened(folder: Path, every: int = 1) -> Iterator[int]:
    """Yield a descriptor of every regular file below a folder, or of each `every`-th one."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    for above, name, _ in itertools.islice(_files(folder), None, None, every):
        try:  # an engine may remove a file, or replace it by a pipe, at any time
            descriptor = os.open(name, flags, dir_fd=above)
        except FileNotFoundError:
            continue
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                yield descriptor
        finally:
            os.close(descriptor)


def cached_pages(descriptor: int) -> int:
    """The number of a file's pages that are in the page cache, by mincore(2)."""
    try:
        view = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    except ValueError:  # an empty file
        return 0
    with view:
        pages = np.zeros(-(-len(view) // PAGE), np.uint8)
        address = np.frombuffer(view, np.uint8).ctypes.data
        if _library.mincore(address, len(view), pages.ctypes.data) != 0:
            raise _error("mincore")
    return int((pages & 1).sum())


def _data_pages(descriptor: int) -> int:
    """The number of a file's pages that hold data, without holes and preallocated space."""
    pages = end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # no data beyond this offset
            return pages
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        pages += -(-end // PAGE) - start // PAGE


def cached_share(folder: Path) -> float:
    """The share (0 to 1) of the data pages of a folder's files that are in the page cache; 1 if the
    files hold no data."""
    every = -(-sum(1 for _ in _files(folder)) // FILES)
    cached = pages = 0
    for descriptor in _opened(folder, max(every, 1)):
        data = _data_pages(descriptor)
        cached, pages = cached + min(cached_pages(descriptor), data), pages + data
    return cached / pages if pages else 1.0


def warm(folder: Path, seconds: float = WARM_S) -> None:
    """Read those of a folder's files that are not wholly in the page cache, for at most `seconds`.
    A kernel that reclaims idle pages may evict the first records before the last are loaded."""
    end = time.monotonic() + seconds
    for descriptor in _opened(folder):
        if time.monotonic() > end:
            return
        if cached_pages(descriptor) < _data_pages(descriptor):
            at = 0
            while found := os.preadv(descriptor, [_buffer], at):
                at += found


def evict(folder: Path, mounted: Mounted | None = None) -> str:
    """Evict the files of a closed store from the page cache, and open none of them afterwards.
    Returns the method that was used:

    - "remount", if the folder is on a file system of its own. It is unmounted, the kernel's cache
      is dropped, and it is mounted again, so that none of its names, inodes and tables stay in
      memory.
    - "drop_caches", otherwise, as root: the kernel drops its whole cache, with unused names and
      inodes.
    - "fadvise", otherwise: posix_fadvise evicts file by file, and leaves names and inodes cached.

    Raises StoreError if the file system cannot be unmounted, as when the engine keeps a file open.
    """
    if mounted:
        try:
            mounted.detach()
        except OSError as error:
            raise StoreError(f"no cold cache: after close, {error.strerror}") from None
        DROP.write_text("3")
        mounted.attach()
        return "remount"
    sync_file_system(folder)
    try:
        DROP.write_text("3")
        return "drop_caches"
    except OSError:
        for descriptor in _opened(folder):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return "fadvise"
