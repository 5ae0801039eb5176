"""Runs exactly the operations that it is given, and notes when each returned."""

import dataclasses
import itertools
import time
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from kvbench.cell.library import Source
from kvbench.cell.loop import Loop, ShimLoop
from kvbench.cell.plan import CODES, Plan, Records


def plan_of(
    records: Records, operations: Iterable[str], numbers: Sequence[int], versions: Sequence[int]
) -> Plan:
    """A plan of these operations, whatever records exist."""
    operation = np.array([CODES[name] for name in operations], np.uint8)
    number, version = np.array(numbers, np.uint64), np.array(versions, np.uint8)
    plan = records.plan(
        Source.LISTED,
        "get",
        len(number),
        listed_operation=operation.ctypes.data,
        listed_number=number.ctypes.data,
        listed_version=version.ctypes.data,
    )
    return dataclasses.replace(plan, kept=(*plan.kept, operation, number, version))


def run_into(
    loop: Loop, plan: Plan, returned: npt.NDArray[np.uint64], longest_s: float = 0
) -> None:
    """Run a plan, and store in `returned` when each operation returned, as soon as it has, in ns of
    the monotonic clock. A shim's run ends after `longest_s` seconds (0: no limit)."""
    if isinstance(loop, ShimLoop):
        loop.c.times = returned.ctypes.data
        try:
            loop.run(plan, longest_s=longest_s)
        finally:
            loop.c.times = None
    else:
        place, now = itertools.count(), time.perf_counter_ns
        loop.run_each(plan, lambda _: returned.__setitem__(next(place), now()))
