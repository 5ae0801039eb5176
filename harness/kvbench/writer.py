"""Writes records in a known order at the speed of C, and marks each write that has returned.
The evidence for durability traces this program, kills it, or copies its disk. Run as

    python -m kvbench.writer FOLDER STORE COUNT SIZE TRACE [NAME=VALUE ...]

TRACE becomes a file of COUNT 64-bit numbers, of which the i-th is not 0 once write i has returned:
the times that the loop of loop.c takes anyhow, in memory that outlives the process.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvbench.factors import KEY_SIZE
from kvbench.library import make_keys
from kvbench.loop import ShimLoop
from kvbench.plan import CODES, POOL_SIZE, Plan
from kvbench.stores import Store

STRIDE = 1 << 40  # between two keys
CYCLE = ("insert", "insert", "update", "remove")  # of records 2k, 2k + 1, 2k and 2k + 1


def writes(count: int, size: int) -> Plan:
    """Two inserts, an update of the first, a remove of the second; and again. Values are of 1 to
    `size` bytes. A longer plan begins as a shorter one does."""
    offsets, sizes = (np.random.default_rng((size, part)) for part in range(2))
    position = np.arange(count)
    return Plan(
        operation=np.array([CODES[name] for name in CYCLE], np.uint8)[position % 4],
        number=(position // 4 * 2 + position % 2).astype(np.uint64),
        offset=offsets.integers(POOL_SIZE, size=count, dtype=np.uint32),
        size=sizes.integers(1, size + 1, size=count, dtype=np.uint32),
    )


def pool(size: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(1).integers(256, size=POOL_SIZE + size, dtype=np.uint8)


def replay(count: int, size: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of each write; None where it removes."""
    plan, values = writes(count, size), pool(size).tobytes()
    keys, columns = make_keys(plan.number, STRIDE), (plan.operation, plan.offset, plan.size)
    for i, (code, offset, length) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        value = None if code == CODES["remove"] else values[offset : offset + length]
        yield keys[KEY_SIZE * i : KEY_SIZE * (i + 1)], value


def main() -> None:
    folder, name, count, size, trace, *pairs = sys.argv[1:]
    loop = ShimLoop(Store(name), STRIDE, int(size), pool(int(size)))
    loop.open(Path(folder), dict(pair.split("=", 1) for pair in pairs))
    loop.run_into(
        writes(int(count), int(size)), np.memmap(trace, np.uint64, "w+", shape=int(count))
    )
    os._exit(0)  # closing may sync what is left; it is the writes that count


if __name__ == "__main__":
    main()
