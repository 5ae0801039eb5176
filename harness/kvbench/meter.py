"""What the operating system counts of a process: processor time, bytes moved, syncs, memory."""

import contextlib
import ctypes
import functools
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvbench.filesystem import allocated
from kvbench.library import loop_library, structure

INTERVAL = 0.01  # seconds between two samples of the memory
DISK_INTERVAL = 0.1  # of the disk
SECOND = 10**9  # nanoseconds
SECTOR, WRITTEN_SECTORS = 512, 6  # bytes; which number of a device's counters has them
MOST_FILES = 1000  # of a folder whose space is sampled
PROCESS = ("read_bytes", "write_bytes", "rchar", "wchar", "read_calls", "write_calls")
DEVICE = ("device_read_bytes", "device_write_bytes")


class Meter:
    """The counters of this process; `struct` is a `struct meter` of meter.h."""

    def __init__(self, folder: Path, device_stat: Path | None) -> None:
        self.struct = structure("meter")()
        path = os.fsencode(device_stat) if device_stat else None
        loop_library().meter_open(ctypes.byref(self.struct), path)
        counted = {name: self.struct.io >= 0 for name in PROCESS}
        counted |= {name: self.struct.device >= 0 for name in DEVICE}
        counted |= {"instructions": self.struct.instructions >= 0, "syncs": self._sees_sync(folder)}
        self._missing = {name for name, known in counted.items() if not known}

    def _counts(self) -> ctypes.Structure:
        counts = structure("meter_counts")()
        loop_library().meter_read(ctypes.byref(self.struct), ctypes.byref(counts))
        return counts

    def _sees_sync(self, folder: Path) -> bool:
        """Whether a sync of this folder is counted: not every file system has a tracepoint."""
        before = self._counts().syncs
        descriptor = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
        os.close(descriptor)
        return bool(self._counts().syncs > before)

    def columns(self, counts: ctypes.Structure) -> dict[str, float | None]:
        """A `struct meter_counts`, of the process or of an operation, as columns of the operations;
        None is what cannot be counted here."""
        values = {name: getattr(counts, name) for name, *_ in counts._fields_}
        seconds = {f"{side}_s": values.pop(f"{side}_ns") / SECOND for side in ("user", "system")}
        return seconds | {n: None if n in self._missing else v for n, v in values.items()}

    def read(self) -> dict[str, float | None]:
        """All that was counted so far."""
        return self.columns(self._counts())

    def settle(self, quiet_s: float, limit_s: float = 60) -> dict[str, str | float]:
        """Wait until the engine is quiet; see meter.h. Returns columns of the cell."""
        debt = structure("meter_debt")()
        times = (ctypes.c_uint64(round(seconds * SECOND)) for seconds in (quiet_s, limit_s))
        loop_library().meter_settle(ctypes.byref(self.struct), *times, ctypes.byref(debt))
        return {
            "settled": "yes" if debt.settled else "no",
            "debt_s": debt.ns / SECOND,
            "debt_cpu_s": debt.cpu_ns / SECOND,
            "debt_bytes": debt.bytes,
        }


def open_meter(folder: Path, device_stat: Path | None) -> Meter:
    """The counters of this process, before it opens the store in `folder`. `device_stat` is the
    file "stat" of the folder's own device in /sys/block, if it has one."""
    return Meter(folder, device_stat)


@functools.cache
def _counting_program() -> tuple[int, "ctypes._Pointer[ctypes.c_uint64]"]:
    """Its file descriptor, or -1, and where it counts."""
    count = ctypes.POINTER(ctypes.c_uint64)()
    return loop_library().meter_program(ctypes.byref(count)), count


@contextlib.contextmanager
def count_system_calls() -> Iterator[Callable[[], int | None]]:
    """Yield a function that returns how many system calls this process made since; None where they
    cannot be counted. Meanwhile each takes 0.2 us longer, in all processes of the machine."""
    program, count = _counting_program()
    link = loop_library().meter_attach(program, b"sys_enter")
    if link < 0:
        yield lambda: None
        return
    before = count[0]
    try:
        yield lambda: count[0] - before
    finally:
        os.close(link)


def _resident(statm: int) -> list[int]:
    """Bytes of anonymous and of file-backed memory, from an open /proc/PID/statm."""
    _, resident, shared, *_ = map(int, os.pread(statm, 256, 0).split())
    return [(resident - shared) * mmap.PAGESIZE, shared * mmap.PAGESIZE]


class Board:
    """What a worker shares with its sweep: whether its memory is to be watched, and what was
    resident when that began and ended. `descriptor` is that of a file in memory."""

    def __init__(self, descriptor: int) -> None:
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self._numbers = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("Q")

    def _note(self, at: int) -> None:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
        self._numbers[at], self._numbers[at + 1] = _resident(statm)
        os.close(statm)

    def start(self) -> None:
        self._note(1)
        self._numbers[0] = True

    def stop(self) -> None:
        self._note(3)
        self._numbers[0] = False

    @property
    def watched(self) -> bool:
        return bool(self._numbers[0])

    @property
    def ends(self) -> tuple[list[int], list[int]]:
        """Anonymous and file-backed bytes at the beginning and at the end; 0 where it was never
        watched."""
        return self._numbers[1:3].tolist(), self._numbers[3:5].tolist()


class Disk:
    """What the device of a folder wrote, and the space that the store in it took, at the times that
    were sampled. It is made while the folder is empty."""

    def __init__(self, folder: Path, own: bool) -> None:
        """`own` says whether the folder is on a file system of the stores' own."""
        number = os.stat(folder).st_dev
        self._stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
        self._folder, self._own, self._walks = folder, own, not own
        self._before = self._used()
        self._written: list[tuple[int, int]] = []
        self._space: list[tuple[int, int]] = []

    def _used(self) -> int:
        """Bytes used on a file system of its own."""
        state = os.statvfs(self._folder)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def _taken(self) -> int | None:
        if self._own:
            return max(0, self._used() - self._before)
        found = allocated(self._folder, MOST_FILES) if self._walks else None
        self._walks = found is not None  # a folder of many files takes long to walk
        return found

    def sample(self) -> None:
        """Note what the device wrote, and once a second the space."""
        now = time.monotonic_ns()
        if self._written and now - self._written[-1][0] < DISK_INTERVAL * SECOND:
            return
        with contextlib.suppress(OSError):  # a file system in memory has no device
            sectors = int(self._stat.read_text().split()[WRITTEN_SECTORS])
            self._written.append((now, sectors * SECTOR))
        if not self._space or now - self._space[-1][0] >= SECOND:
            with contextlib.suppress(OSError):
                taken = self._taken()
                if taken is not None:
                    self._space.append((now, taken))

    def join(self, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of a timeline with the bytes that the device wrote from `start_ns` to `end_ns`, and
        the space at the end; without them where they are not known."""
        joined = []
        for row in rows:
            start, end = row["start_ns"], row["end_ns"]
            more: dict[str, int] = {}
            if self._written:
                times, sums = zip(*self._written, strict=True)
                first, last = np.interp((start, end), times, sums)
                more["device_bytes"] = round(last - first)
            near = [taken for time, taken in self._space if start <= time <= end + SECOND // 2]
            if near:
                more["space_bytes"] = near[-1]
            joined.append(row | more)
        return joined


class Memory:
    """The peaks of a worker's resident memory, sampled by a thread of the sweep, which also samples
    the disk. A thread of the worker would take the interpreter's lock from a binding."""

    def __init__(self, board: Board, disk: Disk | None = None) -> None:
        self._board, self._disk = board, disk
        self._peaks = [0, 0]
        self._ended = threading.Event()
        self._thread = threading.Thread()

    def follow(self, worker: int) -> None:
        """Sample a process whenever its board says so, until `columns` is called."""
        self._thread = threading.Thread(target=self._follow, args=(worker,), daemon=True)
        self._thread.start()

    def _follow(self, worker: int) -> None:
        # It may have ended: before the file is opened, or after.
        gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
        with gone, open(f"/proc/{worker}/statm") as statm:
            while not self._ended.wait(INTERVAL):
                if self._board.watched:
                    self._peaks = list(map(max, self._peaks, _resident(statm.fileno())))
                    if self._disk:
                        self._disk.sample()

    def columns(self) -> dict[str, int]:
        """Of a cell: the peaks above what was resident before, anonymous and file-backed, in bytes.
        Empty if the worker was never watched."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        first, last = self._board.ends
        peaks = (max(each) - base for base, *each in zip(first, last, self._peaks, strict=True))
        names = ("memory_anonymous_bytes", "memory_file_bytes")
        found = dict(zip(names, (max(peak, 0) for peak in peaks), strict=True))
        return found if any(first) else {}
