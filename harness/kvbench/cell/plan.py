"""Plans: the operations of a cell, in order. This module says what each step needs; C (plan.c)
generates the operations while the loop runs.

A cell of rounds has `records` live records between rounds. Its key numbers run from 0 to `records +
churn` - 1, so `churn` of them are dead. A round inserts these, so that for a while `churn` more
records are live, and later removes as many others.
"""

import ctypes
import dataclasses
import itertools
import mmap
from collections.abc import Iterator
from math import ceil
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kvbench.cell.factors import Cell
from kvbench.cell.library import Operation, Order, Source, address, filled, loop_library, structure
from kvbench.cell.workload import (
    BACKUP,
    CHURN,
    CHURN_DEAD,
    CHURN_SHARES,
    CONCURRENT,
    FILLS,
    GROWING,
    MIX,
    NEWEST_FIRST,
    PROCESSES,
    REWRITES,
    Step,
    parse,
)

CODES = {operation.name.lower(): operation.value for operation in Operation}
NAMES = {code: name for name, code in CODES.items()}
ORDERS = {order.name.lower(): order for order in Order}
SAMPLES = 1000  # of each operation, at least
EVICTIONS, PER_EVICTION = 100, 10  # of each operation in a cold cell; operations after each
CHURN_SHARE, CHURN_LIMIT = 10, 250  # a round replaces a tenth of the records, but at most 250
LEAST_BATCHES = 30  # of a cell with batches
# Inserts of existing keys in the check: with 95% it detects a store that accepts 1 in 2,000.
TRIED, TRIED_BYTES = 6000, 256 << 20
POOL_SIZE = 8 << 20  # bytes; values are slices that begin anywhere in it
NO_LIMIT = 2**64 - 1
PAGE = mmap.PAGESIZE
NORESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python 3.11 does not name
SHARES = 2**32  # the sum of a mix's shares


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan in C. `kept` keeps the arrays that it points to alive."""

    c: ctypes.Structure
    kept: tuple[Any, ...] = ()


class Records:
    """The records of a cell: which of them exist, and in which version. C updates both while it
    generates a plan. They take one byte for each record that may be rewritten, and no memory for
    records that are only loaded and read, even a billion."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.size, self.key_size = cell, cell.record_size, cell.key_size
        self.steps = parse(cell.workload)
        self.churn = 0 if self.steps else max(1, min(cell.records // CHURN_SHARE, CHURN_LIMIT))
        if cell.batch:
            self.churn = -(-self.churn // cell.batch) * cell.batch  # whole batches
        # The records that rounds and GROWING insert are dead at first. The numbers that a mix
        # inserts come after all of these.
        missing = self.churn + sum(self.ops(step) for step in self.steps if step.name == GROWING)
        there = cell.records + missing
        mixes = (step for step in self.steps if "insert" in step.shares())
        self.universe = there + sum(map(self.ops, mixes))
        self.stride = (2**64 - 1) // self.universe
        self.values = filled(
            "records_values",
            None,
            seed=cell.plan_seed,
            starts=POOL_SIZE,
            low=self.size.low,
            span=self.size.high - self.size.low + 1,
        )
        shared = any(step.name == PROCESSES for step in self.steps)
        flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        flags |= mmap.MAP_ANONYMOUS | NORESERVE
        self._pages = np.frombuffer(
            mmap.mmap(-1, -(-self.universe // PAGE) * PAGE, flags), np.uint8
        ).reshape(-1, PAGE)
        churns = any(step.name == CHURN for step in self.steps)
        self._most_dead = cell.records // CHURN_DEAD if churns else missing
        self._arrays = np.zeros(max(self._most_dead, 1), np.uint64), np.zeros(4, np.uint64)
        dead, following = (array.ctypes.data for array in self._arrays)
        self.c = structure("plan_records")(
            universe=self.universe,
            born=there,
            loaded=there,
            state=self._pages.ctypes.data,
            dead=dead if self._most_dead else None,
            seed=cell.plan_seed,
            random=cell.plan_seed,
            next=following,
        )
        changing = {*REWRITES, *CONCURRENT, BACKUP, "deleterandom"}
        if missing or any(step.name in changing for step in self.steps):
            self._pages[:] = 0  # so that they count as the harness's memory from the start
        # The states before a backup. The map is shared with the process that checks the copy.
        backs_up = any(step.name == BACKUP for step in self.steps)
        self.before = np.frombuffer(mmap.mmap(-1, self.universe if backs_up else 1), np.uint8)
        self.before[:] = 0
        if missing:
            loop_library().plan_bury(ctypes.byref(self.c), ctypes.c_uint64(missing))

    @property
    def fills(self) -> bool:
        """Whether the first step writes all records into the empty store."""
        return bool(self.steps) and self.steps[0].name in FILLS

    def mark(self) -> None:
        """Note the states before a backup."""
        self.before[:] = self._pages.reshape(-1)[: self.universe]

    def plan(self, source: Source, operation: str, left: int, **more: Any) -> Plan:
        """A plan with these fields of the structure in plan.h."""
        plan = structure("plan")(
            records=ctypes.addressof(self.c),
            source=source,
            operation=CODES[operation],
            left=left,
            **more,
        )
        loop_library().plan_begin(ctypes.byref(plan))
        return Plan(plan, (self,))

    def live(self, operation: str, backward: bool = False) -> Plan:
        """One operation on every live record, in key order."""
        return self.plan(Source.ALL, operation, NO_LIMIT, end=self.universe, backward=backward)

    def drawn(self, operation: str, count: int, order: str = "uniform", length: int = 0) -> Plan:
        """`count` operations on live records, drawn with replacement; a scan reads `length`
        records."""
        return self.plan(Source.DRAWN, operation, count, order=ORDERS[order], length=length)

    def added(self, count: int) -> Plan:
        """Inserts of `count` missing records in random order, spread evenly over the key space."""
        return self.plan(Source.DEAD_ONES, "insert", count)

    def burst(self, operation: str, count: int) -> Plan:
        """`count` operations of one kind within rounds, as loop_burst does in C."""
        order = self.cell.key_order
        if operation == "insert":
            return self.plan(Source.DEAD_ONES, operation, count, order=ORDERS[order])
        once = operation == "remove" and order == "zipfian"  # a record can be removed only once
        return self.drawn(operation, count, "uniform" if once else order)

    def shuffled(self, operation: str, count: int) -> Plan:
        """One operation on `count` records in random order, each at most once."""
        return self.plan(Source.SHUFFLED, operation, min(count, self.cell.records))

    def mixed(self, step: Step) -> Plan:
        """The step mix, or a workload of YCSB. New records come at the end of the key space."""
        shares = step.shares()
        kinds = ("get", "update", "insert", "scan")
        sums = itertools.accumulate(round(shares.get(kind, 0) * SHARES) for kind in kinds)
        usual = ORDERS[self.cell.key_order] if step.name == MIX else Order.ZIPFIAN
        order = Order.NEWEST if step.name in NEWEST_FIRST else usual
        limits = dict(zip(("gets", "updates", "inserts", "scans"), sums, strict=True))
        return self.plan(Source.MIXED, "get", self.ops(step), order=order, **limits)

    def churned(self, step: Step) -> Plan:
        """Updates and removes by popularity, and inserts of removed records."""
        updates = round(CHURN_SHARES["update"] * SHARES)
        removes = round(CHURN_SHARES["remove"] * SHARES)
        return self.plan(
            Source.CHURNED,
            "update",
            self.ops(step),
            order=Order.ZIPFIAN,
            end=self._most_dead,
            updates=updates,
            inserts=updates + removes,
        )

    def refused(self) -> Iterator[Plan]:
        """Plans that a store must refuse: inserts of existing records, gets of all missing records,
        and updates and removes of some missing records."""
        if self.any_live():
            tried = min(TRIED, max(SAMPLES, int(TRIED_BYTES / self.size.mean)))
            yield self.plan(Source.DRAWN, "insert", tried, refused=True)
        for operation, most in (("get", NO_LIMIT), ("update", SAMPLES), ("remove", SAMPLES)):
            yield self.plan(Source.MISSING, operation, most, end=self.universe, refused=True)

    def picked(self) -> Plan:
        """Gets of some live records, at most as many as the cell has."""
        return self.drawn("get", min(SAMPLES, self.cell.records) if self.any_live() else 0)

    def any_live(self) -> bool:
        """Whether any record is live."""
        return next(self.taken(self.live("get")), None) is not None

    def ops(self, step: Step) -> int:
        """The least number of operations that a step executes."""
        if step.name == CHURN:
            return ceil(step.get("times", 3) * self.cell.records / (1 - CHURN_SHARES["remove"]))
        timed = step.name == MIX and step.get("seconds", 0)
        return step.get("ops", 0 if timed else self.cell.records)

    def taken(self, plan: Plan) -> Iterator[tuple[str, int, int, int]]:
        """Run through a plan without a store. Yields the operation, number, version and length of
        each."""
        item, take = structure("plan_item")(), loop_library().plan_next
        take.restype = ctypes.c_bool
        while take(ctypes.byref(plan.c), ctypes.byref(item)):
            yield NAMES[item.operation], item.number, item.version, item.length

    def total(self) -> dict[str, int]:
        """The number of live records, and the bytes of their keys and values."""
        count, values = ctypes.c_uint64(), ctypes.c_uint64()
        plan, rule = self.live("get"), ctypes.byref(self.values)
        run = loop_library().plan_total
        run(ctypes.byref(plan.c), rule, ctypes.byref(count), ctypes.byref(values))
        live_bytes = values.value + self.key_size * count.value
        return {"live_records": count.value, "live_bytes": live_bytes}

    def save(self, file: BinaryIO) -> None:
        """Write the state of the records, for `restore`."""
        touched = np.flatnonzero(self._pages.any(axis=1))
        for part in (bytes(self.c), np.uint64(len(touched)).tobytes(), touched.tobytes()):
            file.write(part)
        for page in touched:
            file.write(self._pages[page].tobytes())

    def restore(self, file: BinaryIO) -> None:
        """Read the state that another process has saved, of which this one is a fork. Raises
        OSError if that process has died."""
        size = ctypes.sizeof(self.c)
        if len(data := file.read(size)) < size:
            raise OSError("the process that measures is gone")
        ctypes.memmove(ctypes.byref(self.c), data, size)
        (count,) = np.frombuffer(file.read(8), np.uint64)
        for page in np.frombuffer(file.read(8 * int(count)), np.int64):
            self._pages[page] = np.frombuffer(file.read(PAGE), np.uint8)


def make_pool(compressibility: str, largest_value: int, seed: int) -> npt.NDArray[np.uint8]:
    """The pool of bytes from which values are slices."""
    pool = np.empty(POOL_SIZE + largest_value, np.uint8)
    fill = loop_library()[f"records_fill_{compressibility}"]
    fill(address(pool), ctypes.c_size_t(len(pool)), ctypes.c_uint64(seed))
    return pool
