"""What a worker shares with the sweep that samples its memory."""

import mmap
import os


def resident(statm: int) -> list[int]:
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
        self._numbers[at], self._numbers[at + 1] = resident(statm)
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
