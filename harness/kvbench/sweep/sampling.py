"""Samples the memory of a worker and the disk of its store. The sweep does this while the worker
runs."""

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kvbench.cell.board import Board, resident
from kvbench.cell.filesystem import allocated
from kvbench.cell.meter import SECOND

INTERVAL = 0.01  # seconds between two samples of the memory
DISK_INTERVAL = 0.1  # seconds between two samples of the disk
SECTOR, WRITTEN_SECTORS = 512, 6  # bytes; index of the counter in the file stat
MOST_FILES = 1000  # in a folder; the space of one with more is not sampled


class Disk:
    """Samples of the bytes that a folder's device wrote, and of the space that the store took.
    Create it while the folder is empty."""

    def __init__(self, folder: Path, own: bool) -> None:
        """`own` says whether the folder is on a file system made for the stores."""
        number = os.stat(folder).st_dev
        self._stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
        self._folder, self._own, self._walks = folder, own, not own
        self._before = self._used()
        self._written: list[tuple[int, int]] = []
        self._space: list[tuple[int, int]] = []

    def _used(self) -> int:
        """The used bytes of a file system made for the stores."""
        state = os.statvfs(self._folder)
        return (state.f_blocks - state.f_bfree) * state.f_frsize

    def _taken(self) -> int | None:
        if self._own:
            return max(0, self._used() - self._before)
        found = allocated(self._folder, MOST_FILES) if self._walks else None
        self._walks = found is not None  # walking a folder of many files takes long
        return found

    def sample(self) -> None:
        """Sample the bytes written by the device, and once a second the space."""
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
        """Add to rows of a timeline the bytes that the device wrote from `start_ns` to `end_ns`,
        and the space at the end, where they are known."""
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
    the disk. A thread inside the worker would compete with a binding for the interpreter's lock."""

    def __init__(self, board: Board, disk: Disk | None = None) -> None:
        self._board, self._disk = board, disk
        self._peaks = [0, 0]
        self._ended = threading.Event()
        self._thread = threading.Thread()

    def follow(self, worker: int) -> None:
        """Sample a worker while its board asks for it, until `columns` is called."""
        self._thread = threading.Thread(target=self._follow, args=(worker,), daemon=True)
        self._thread.start()

    def _follow(self, worker: int) -> None:
        # The worker may end before the file is opened, or after.
        gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
        with gone, open(f"/proc/{worker}/statm") as statm:
            while not self._ended.wait(INTERVAL):
                if self._board.watched:
                    self._peaks = list(map(max, self._peaks, resident(statm.fileno())))
                    if self._disk:
                        self._disk.sample()

    def columns(self) -> dict[str, int]:
        """Columns of the cell: the peaks of anonymous and file-backed resident memory in bytes,
        above the baseline. Empty if the worker was never sampled."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        first, last = self._board.ends
        peaks = (max(each) - base for base, *each in zip(first, last, self._peaks, strict=True))
        names = ("memory_anonymous_bytes", "memory_file_bytes")
        found = dict(zip(names, (max(peak, 0) for peak in peaks), strict=True))
        return found if any(first) else {}
