"""The states in which a power failure may leave a disk, from the log of a recording disk.

The model: a sector of 512 bytes is written entirely or not at all. A flush makes all writes before
it durable. Of the writes since the last flush any subset may survive, and of each any sectors.

The writes between two flushes are an epoch. A state is an epoch and the sectors of its writes that
survive, after all writes of earlier epochs. Its power failed when the flush that ends the epoch had
arrived and nothing of it was done, so what had been acknowledged by then must be there.
"""

import hashlib
import mmap
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvbench.machine.device import WRITE, Entry

SECTOR, BLOCK = 512, 8  # bytes; sectors
CHUNK = 1 << 16  # bytes of an image that are copied at once if one of them is not 0
TRIES = 20  # draws for each state that is wanted, since a draw may repeat one
BOUNDARIES = 0.3  # the share of states that hold whole epochs
Pieces = tuple[tuple[int, int, int], ...]
Parts = list[tuple[int, int, int]]
Bytes = npt.NDArray[np.uint8]


class Epoch(NamedTuple):
    """The writes between two flushes."""

    writes: tuple[Entry, ...]
    acknowledged: int  # operations, when the flush at its end arrived
    time: int  # of that arrival, in ns


class State(NamedTuple):
    """A crash state: the number of its epoch, and the parts of that epoch's writes that survive: a
    write's place in the epoch, its first sector, and the sector after its last."""

    epoch: int
    kept: Pieces
    how: str = ""  # the kind of choice that found it

    @property
    def name(self) -> str:
        """A name that stands for the epoch and the parts."""
        return (
            f"{self.epoch}-{hashlib.blake2b(repr(self.kept).encode(), digest_size=5).hexdigest()}"
        )


def epochs(entries: Sequence[Entry], last: int, end: int) -> list[Epoch]:
    """The epochs of a log, without those that have no writes. `last` and `end` are the acknowledged
    operations and the time at the end of the log, where one more epoch without writes follows."""
    found, own = [], list[Entry]()
    for entry in entries:
        if entry.kind == WRITE:
            own.append(entry)
            continue
        if own:
            found.append(Epoch(tuple(own), entry.acknowledged, entry.time))
            own = []
    if own:
        found.append(Epoch(tuple(own), last, end))
    return [*found, Epoch((), last, end)]


def sectors(write: Entry) -> int:
    return -(-write.size // SECTOR)


def whole(epoch: Epoch) -> Parts:
    """All of an epoch's writes."""
    return [(at, 0, sectors(write)) for at, write in enumerate(epoch.writes)]


def others(epoch: Epoch, pieces: Pieces) -> Pieces:
    """The parts of an epoch's writes that are not among the given ones."""
    found = []
    for at, write in enumerate(epoch.writes):
        begin = 0
        for first, end in [part[1:] for part in pieces if part[0] == at]:
            if begin < first:
                found.append((at, begin, first))
            begin = end
        if begin < sectors(write):
            found.append((at, begin, sectors(write)))
    return tuple(found)


def tears(epoch: Epoch, pieces: Pieces) -> bool:
    """Whether a block of 4 KiB survives in part. Some engines rely on file systems and disks that
    write a block entirely or not at all."""
    for at, first, end in pieces:
        write = epoch.writes[at]
        cuts = {first, end} - {0, sectors(write)}
        if any((write.offset // SECTOR + cut) % BLOCK for cut in cuts):
            return True
    return False


def _subset(choose: random.Random, parts: Parts) -> Parts:
    """Some of the parts: all but one, one, half or most of them."""
    one, kind = choose.randrange(len(parts)), choose.randrange(4)
    if kind == 0:
        return parts[:one] + parts[one + 1 :]
    if kind == 1:
        return [parts[one]]
    return [part for part in parts if choose.random() < (0.5 if kind == 2 else 0.9)]


def _prefix(choose: random.Random, parts: Parts) -> Parts:
    return parts[: choose.randrange(1, len(parts))] if len(parts) > 1 else []


def _torn(choose: random.Random, parts: Parts) -> Parts:
    """Parts of which one lacks some of its sectors: its end, its begin, or some in the middle; half
    of the time only whole blocks of 4 KiB, if it has several."""
    long = [at for at, (_, _, end) in enumerate(parts) if end > 1]
    if not long:
        return []
    at = choose.choice(long)
    write, _, end = parts[at]
    step = choose.choice((1, BLOCK))
    cuts = range(step, end, step) or range(1, end)
    cut, again, kind = choose.choice(cuts), choose.choice(cuts), choose.randrange(3)
    own = [[(write, 0, cut)], [(write, cut, end)]]
    own.append([(write, 0, min(cut, again)), (write, max(cut, again), end)])
    others = choose.randrange(3)
    before, behind = parts[:at], parts[at + 1 :]
    if others == 0:
        behind = []
    elif others == 1 and before + behind:
        some = _subset(choose, before + behind)
        before = [part for part in some if part[0] < write]
        behind = [part for part in some if part[0] > write]
    return before + own[kind] + behind


CHOICES = {"subset": _subset, "prefix": _prefix, "torn": _torn}
WEIGHTS = (40, 25, 35)  # percent


def chosen(found: Sequence[Epoch], count: int, choose: random.Random) -> list[State]:
    """Up to `count` different states, in the order of their epochs."""
    at_flush = sorted(
        choose.sample(range(len(found)), min(len(found), int(count * BOUNDARIES) + 1))
    )
    states: dict[tuple[int, Pieces], State] = {
        (epoch, ()): State(epoch, (), "flush") for epoch in at_flush
    }
    busy = [at for at, epoch in enumerate(found) if epoch.writes]
    sizes = [len(found[at].writes) for at in busy]
    for _ in range(count * TRIES if busy else 0):
        if len(states) >= count:
            break
        (epoch,) = choose.choices(busy, sizes) if choose.random() < 0.5 else [choose.choice(busy)]
        (how,) = choose.choices([*CHOICES], WEIGHTS)
        kept = tuple(CHOICES[how](choose, whole(found[epoch])))
        lost = others(found[epoch], kept)
        kept = others(found[epoch], lost)  # in one way, if two parts of a write touch
        if kept and lost:  # else these are whole epochs
            states[epoch, kept] = State(epoch, kept, how)
    return sorted(states.values())[:count]


class Disk:
    """The bytes of a disk in memory, which follow its log."""

    def __init__(self, image: Path) -> None:
        self.size = image.stat().st_size
        self._memory = mmap.mmap(-1, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        self._used = np.zeros(-(-self.size // CHUNK), bool)
        with open(image, "rb") as file:
            for begin, end in _data(file.fileno(), self.size):
                self._memory[begin:end] = os.pread(file.fileno(), end - begin, begin)
                self._used[begin // CHUNK : -(-end // CHUNK)] = True

    def write(self, offset: int, data: Bytes) -> None:
        self._memory[offset : offset + len(data)] = bytes(data)
        self._used[offset // CHUNK : (offset + len(data) - 1) // CHUNK + 1] = True

    def copy(self, image: int) -> None:
        """Make an open file equal to the disk, as a sparse one."""
        os.ftruncate(image, 0)
        os.ftruncate(image, self.size)
        view = memoryview(self._memory)
        for at in np.flatnonzero(self._used).tolist():
            os.pwrite(image, view[at * CHUNK : (at + 1) * CHUNK], at * CHUNK)


def _data(file: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a sparse file that are no holes."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(file, end, os.SEEK_DATA)
        except OSError:  # no data beyond this offset
            return
        end = os.lseek(file, begin, os.SEEK_HOLE)
        yield begin, end


def packed(image: int) -> tuple[list[int], bytes]:
    """The chunks of an open image that are not all 0: their numbers, and their bytes."""
    parts, size = {}, os.fstat(image).st_size
    for begin, end in _data(image, size):
        for at in range(begin // CHUNK, -(-end // CHUNK)):
            parts[at] = os.pread(image, CHUNK, at * CHUNK).ljust(CHUNK, b"\0")
    used = [at for at, part in parts.items() if part.strip(b"\0")]
    return used, b"".join(parts[at] for at in used)


def unpack(size: int, used: Sequence[int], data: bytes, image: int) -> None:
    """Make an open file an image of `size` bytes from the result of packed()."""
    os.ftruncate(image, 0)
    os.ftruncate(image, size)
    for number, at in enumerate(used):
        os.pwrite(image, data[number * CHUNK : (number + 1) * CHUNK], at * CHUNK)


class Replayed:
    """A recording whose states can be made into images, fastest in the order of their epochs."""

    def __init__(self, base: Path, log: Path, found: Sequence[Epoch]) -> None:
        self._base, self._epochs = base, found
        self._log = np.memmap(log, np.uint8, "r")
        self._disk, self._done = Disk(base), 0  # whole epochs

    def _bytes(self, write: Entry, first: int, end: int) -> tuple[int, Bytes]:
        begin, size = first * SECTOR, min(end * SECTOR, write.size)
        return write.offset + begin, self._log[write.place + begin : write.place + size]

    def image(self, state: State, image: int) -> None:
        """Make an open file what the disk holds in a state."""
        if state.epoch < self._done:
            self._disk, self._done = Disk(self._base), 0
        for epoch in self._epochs[self._done : state.epoch]:
            for write in epoch.writes:
                self._disk.write(*self._bytes(write, 0, sectors(write)))
        self._done = state.epoch
        self._disk.copy(image)
        for at, first, end in state.kept:
            offset, data = self._bytes(self._epochs[state.epoch].writes[at], first, end)
            os.pwrite(image, data.data, offset)
