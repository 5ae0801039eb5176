"""A disk that records what reaches it, and that fails on demand.

A loop device makes a disk of the file that served.py shows, without the page cache in between. The
file system of the image is mounted from there:

    with recorded(image, "ext4", scratch_folder, operations) as device:
        ...                                    # a program writes below device.folder, and sets
                                               # number i of device.acknowledged when operation i
                                               # has returned
        device.flushes.fail(nth=3)             # the third flush from now on fails with EIO
        device.writes.fail(nth=1, once=False)  # and so do all writes from the next one on
        device.flushes.heal()
    for entry in entries(device.log): ...      # afterwards, or meanwhile: every write and flush

The image holds all writes, also afterwards. A write that failed is neither in it nor in the log.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvbench.cell.filesystem import unmount
from kvbench.common.processes import uninterrupted
from kvbench.machine import loopback, served

FLUSH_BUFFERS = 0x1261  # BLKFLSBUF of linux/fs.h
FREEING = 10.0  # seconds until an unmounted device must be free
ENTRY = struct.Struct("=5Q")  # struct entry of recorder.c
WRITE, FLUSH = 1, 2  # its kinds
FOREVER = (1 << 64) - 1
SEEN, BEGIN, END, FAILED = range(4)  # the numbers of struct kind_control
KINDS, BROKEN = 2, 8  # struct control: two of these, then the error of an incomplete recording
OPTIONS = {"xfs": b"nouuid"}  # two copies of one disk may be mounted at once
Numbers = npt.NDArray[np.uint64]

_library = ctypes.CDLL(None, use_errno=True)


class Entry(NamedTuple):
    """A request that reached the disk."""

    kind: int  # WRITE or FLUSH
    offset: int  # bytes
    size: int  # bytes
    acknowledged: int  # operations that had returned when the request arrived
    time: int  # of arrival, in ns, as time.monotonic_ns
    place: int  # in the log, where the bytes of a write begin


class Requests:
    """The requests of one kind, write or flush, that reach a disk."""

    def __init__(self, control: Numbers) -> None:
        self._control = control

    @property
    def seen(self) -> int:
        """How many have arrived."""
        return int(self._control[SEEN])

    @property
    def failed(self) -> int:
        """How many have failed on demand."""
        return int(self._control[FAILED])

    def fail(self, nth: int, *, once: bool = True) -> None:
        """Let the nth request from now on fail with EIO; the next one is the first. Unless `once`,
        all later ones fail too. Call it while the disk is idle."""
        begin = self.seen + nth - 1
        self._control[END] = begin + 1 if once else FOREVER
        self._control[BEGIN] = begin

    def heal(self) -> None:
        """Let all later requests succeed."""
        self._control[END] = 0


class Device:
    """A file system on a recording disk: where it is mounted, the log of the disk, the numbers that
    a program sets as its operations return, and the requests that can be made to fail."""

    def __init__(self, folder: Path, log: Path, acknowledged: Path, control: Numbers) -> None:
        self.folder, self.log, self.acknowledged = folder, log, acknowledged
        self.writes, self.flushes = (Requests(control[4 * i : 4 * i + 4]) for i in range(KINDS))
        self._control = control

    def check(self) -> None:
        """Raise OSError if the log or the image is incomplete, because its own disk is full."""
        if broken := int(self._control[BROKEN]):
            raise OSError(broken, os.strerror(broken), os.fspath(self.log))


def check(kind: str) -> None:
    """Raise BadInput if no recording disk with a file system of this kind can be made here."""
    loopback.check_kind(kind)
    served.check(served.RECORDER)


def _file(path: Path, size: int) -> Path:
    with open(path, "xb") as file:
        file.truncate(size)
    return path


def mount(device: str, folder: Path, kind: str) -> None:
    """Mount the file system of a device. Raises OSError."""
    paths = [os.fsencode(path) for path in (device, folder, kind)]
    if _library.mount(*paths, ctypes.c_ulong(0), OPTIONS.get(kind)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot be mounted: {os.strerror(code)}", os.fspath(folder))


def forget(device: str) -> None:
    """Drop what the kernel has cached of a device on which nothing is mounted. Raises OSError if it
    is still in use, as while another process holds the file system."""
    begun = time.monotonic()
    while True:
        try:
            file = os.open(device, os.O_RDWR | os.O_EXCL)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() - begun > FREEING:
                raise
            time.sleep(0.001)
            continue
        try:
            fcntl.ioctl(file, FLUSH_BUFFERS)
        finally:
            os.close(file)
        return


@contextlib.contextmanager
def attached(file: Path, folder: Path, kind: str, *, direct: bool = True) -> Iterator[Path]:
    """Mount the file system of a file at a new folder, which is removed at the end. The loop device
    is freed with it, also if this process is killed and another one unmounts it. Without `direct`,
    the page cache may be used in between."""
    folder.mkdir()
    try:
        with uninterrupted():
            device = loopback.connect(file, direct=direct)
            try:
                mount(device, folder, kind)
            finally:
                loopback.disconnect(device)  # takes effect when it is unmounted
        yield folder
    finally:
        with uninterrupted():
            if folder.is_mount():
                unmount(os.fspath(folder))
            folder.rmdir()


@contextlib.contextmanager
def recorded(image: Path, kind: str, own: Path, operations: int = 0) -> Iterator[Device]:
    """Mount an image that holds a file system of this kind from a recording disk. `own` becomes a
    folder for what belongs to it: the log, the mount, and the file of `operations` numbers. The log
    and the image stay. Raises BadInput if the disk cannot be made, and OSError if the file system
    cannot be mounted or the log is incomplete."""
    own.mkdir()
    control = _file(own / "control", mmap.PAGESIZE)
    log = _file(own / "log", 0)
    acknowledged = _file(own / "acknowledged", 8 * operations)
    numbers = np.memmap(control, np.uint64, "r+")
    device = Device(own / "mounted", log, acknowledged, numbers)
    try:
        with served.served(
            served.RECORDER, image, own, log=log, acknowledged=acknowledged, control=control
        ) as disk, attached(disk, device.folder, kind):  # fmt: skip
            yield device
    finally:  # else what fails because of it would look like the program's failure
        device.check()


def entries(log: Path) -> Iterator[Entry]:
    """Yield the requests in the log of a disk, in the order of their arrival."""
    with open(log, "rb") as file:
        place = 0
        while len(head := file.read(ENTRY.size)) == ENTRY.size:
            kind, offset, size, acknowledged, when = ENTRY.unpack(head)
            place += ENTRY.size
            yield Entry(kind, offset, size, acknowledged, when, place)
            place = file.seek(place + size)
