"""Writes records in a known order, at the speed of a sweep, and marks each write that returned. The
durability tests trace this program, kill it, or copy its disk. Run as

    python -m kvbench.durability.writer FOLDER STORE COUNT SIZE TRACE [NAME=VALUE ...]

TRACE becomes a file of COUNT 64-bit numbers. Number i is not 0 once write i has returned. The
numbers are the times that the loop takes anyway, in shared memory that outlives the process.
"""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kvbench.cell.factors import Cell, RecordSize
from kvbench.cell.loop import PythonLoop, make_loop
from kvbench.cell.plan import CODES, Plan, Records, make_pool
from kvbench.cell.store import Store
from kvbench.durability.operations import plan_of, run_into
from kvbench.stores.known import named

RECORDS = 10**6  # more than are ever written
CYCLE = ("insert", "insert", "update", "remove")  # of records 2k, 2k + 1, 2k and 2k + 1


def records(size: int) -> Records:
    """Records with values of 1 to `size` bytes."""
    sizes = RecordSize(1, size)
    return Records(Cell("null", "null", sizes, RECORDS, "incompressible", (), 1, 1))


def writes(population: Records, count: int) -> Plan:
    """A plan that repeats: two inserts, an update of the first record, a remove of the second. A
    longer plan begins like a shorter one."""
    operations = itertools.islice(itertools.cycle(CYCLE), count)
    numbers = [i // 4 * 2 + i % 2 for i in range(count)]
    versions = [int(i % 4 == CYCLE.index("update")) for i in range(count)]
    return plan_of(population, operations, numbers, versions)


def replay(count: int, size: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the key and value of each write; the value is None for a remove."""
    population = records(size)
    loop = PythonLoop(Store("null", "null"), population, make_pool("incompressible", size, 1))
    for code, _, key, value in loop.taken(writes(population, count)):
        yield key, None if code == CODES["remove"] else value


def main() -> None:
    folder, name, count, size, trace, *pairs = sys.argv[1:]
    population = records(int(size))
    loop = make_loop(named(name), population, make_pool("incompressible", int(size), 1))
    loop.open(Path(folder), dict(pair.split("=", 1) for pair in pairs))
    returned = np.memmap(trace, np.uint64, "w+", shape=int(count))
    run_into(loop, writes(population, int(count)), returned)
    os._exit(0)  # do not close: closing may sync, and the test is about the writes


if __name__ == "__main__":
    main()
