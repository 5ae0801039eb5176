"""The page cache: how much of a store is in it, and how to put it out."""

import ctypes
import itertools
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kvbench.meter import PAGE, sync_file_system

FILES = 1000  # that are looked at; of more, so many spread evenly
DROP = Path("/proc/sys/vm/drop_caches")

_MMAP_FAILED = ctypes.c_void_p(-1).value

_library = ctypes.CDLL(None, use_errno=True)
_library.mmap.restype = ctypes.c_void_p
_library.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
)  # fmt: skip
_library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def _files(folder: str) -> Iterator[str]:
    """One after the other: a list of a million names would count as memory of the store."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.path


def _mincore(descriptor: int, size: int) -> int:
    """How many pages of a file are resident."""
    address = _library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MMAP_FAILED:
        raise OSError(ctypes.get_errno(), f"mmap: {os.strerror(ctypes.get_errno())}")
    pages = np.zeros(-(-size // PAGE), np.uint8)
    try:
        if _library.mincore(address, size, pages.ctypes.data) != 0:
            raise OSError(ctypes.get_errno(), f"mincore: {os.strerror(ctypes.get_errno())}")
    finally:
        _library.munmap(address, size)
    return int((pages & 1).sum())


def _looked_at(folder: Path) -> Iterator[int]:
    """Descriptors of the files that stand for all."""
    every = -(-sum(1 for _ in _files(os.fspath(folder))) // FILES)
    for path in itertools.islice(_files(os.fspath(folder)), None, None, max(every, 1)):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # an engine may remove files at any time
            continue
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _pages_of_data(descriptor: int) -> int:
    """Those that hold something: not the holes, and not what was only set aside for later."""
    pages = end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # none from there on
            return pages
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        pages += -(-end // PAGE) - start // PAGE


def cached_share(folder: Path) -> float:
    """Of the pages of data in the folder's files, the share in the page cache, by mincore(2)."""
    resident = pages = 0
    for descriptor in _looked_at(folder):
        size = os.fstat(descriptor).st_size
        if size > 0:
            data = _pages_of_data(descriptor)
            resident, pages = resident + min(_mincore(descriptor, size), data), pages + data
    return resident / pages if pages else 1.0


def evict(folder: Path) -> str:
    """Put the files of a closed store out of the page cache. Returns how it was done.

    As root the kernel drops the cache with all dentries and inodes. Elsewhere files are evicted one
    by one by posix_fadvise, which leaves the names and inodes of a folder warm.
    """
    sync_file_system(folder)
    try:
        DROP.write_text("3")
        return "drop_caches"
    except OSError:
        for path in _files(os.fspath(folder)):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        return "fadvise"
