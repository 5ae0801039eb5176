"""The memory that a worker shares with the sweep, which samples how much of it is resident."""

import mmap
import os


def resident(statm: int) -> list[int]:
    """The bytes of resident memory, anonymous and file-backed, from an open /proc/PID/statm."""
    _, resident, shared, *_ = map(int, os.pread(statm, 256, 0).split())
    return [(resident - shared) * mmap.PAGESIZE, shared * mmap.PAGESIZE]


class Board:
    """A page that a worker shares with its sweep. It states whether the worker's memory is to be
    sampled, and how much was resident when sampling began and ended. `descriptor` is that of a file
    in memory (memfd)."""

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
        """The resident bytes, anonymous and file-backed, when sampling began and when it ended;
        zeros if the worker was never sampled."""
        return self._numbers[1:3].tolist(), self._numbers[3:5].tolist()
