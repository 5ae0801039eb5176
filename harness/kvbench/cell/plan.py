"""Plans: which operations a cell does, in their order. C makes them while the loop runs (plan.c);
this says what each step asks for.

A cell of rounds has `records` live records at rest. Its key numbers run from 0 to
`records + churn` - 1, so `churn` of them are dead; a round inserts these, so that for a while
`churn` more live, and later removes as many others.
"""

import ctypes
import dataclasses
import itertools
import mmap
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kvbench.cell.factors import Cell
from kvbench.cell.library import Operation, Order, Source, address, filled, loop_library, structure
from kvbench.cell.workload import (
    CHURN,
    CHURN_DEAD,
    CHURN_SHARES,
    FILLS,
    GROWING,
    MIX,
    NEWEST_FIRST,
    REWRITES,
    TRAFFIC,
    Step,
    parse,
)

CODES = {operation.name.lower(): operation.value for operation in Operation}
NAMES = {code: name for name, code in CODES.items()}
ORDERS = {order.name.lower(): order for order in Order}
SAMPLES = 1000  # of each operation, at least
EVICTIONS, PER_EVICTION = 100, 10  # of each operation in a cold cell; operations after each
CHURN_SHARE, CHURN_LIMIT = 10, 250  # a round replaces a tenth of the records, but at most 250
# Inserts of existing keys that the check tries: it finds a store that accepts 1 in 2,000 with 95%.
TRIED, TRIED_BYTES = 6000, 256 << 20
POOL_SIZE = 8 << 20  # bytes; values are slices that begin anywhere in it
NO_LIMIT = 2**64 - 1
PAGE = mmap.PAGESIZE
NORESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python 3.11 does not name
SHARES = 2**32  # what the shares of a mix add up to


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan of C, with the arrays that it points to."""

    c: ctypes.Structure
    kept: tuple[Any, ...] = ()


class Records:
    """The records of a cell: which of them exist, and with which version. C keeps both up to date
    while it makes a plan. They take a byte for each record that may be rewritten; of a billion that
    are only loaded and read, they take none."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.size, self.key_size = cell, cell.record_size, cell.key_size
        self.steps = parse(cell.workload)
        self.churn = 0 if self.steps else max(1, min(cell.records // CHURN_SHARE, CHURN_LIMIT))
        # Some records are dead at first: those of rounds, and those that GROWING inserts. A mix
        # inserts its own beyond them.
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
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
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
        changing = {*REWRITES, TRAFFIC, "deleterandom"}
        if missing or any(step.name in changing for step in self.steps):
            self._pages[:] = 0  # so that they count as memory of the harness from the beginning
        if missing:
            loop_library().plan_bury(ctypes.byref(self.c), ctypes.c_uint64(missing))

    @property
    def fills(self) -> bool:
        """Whether the first step writes all records into the empty store."""
        return bool(self.steps) and self.steps[0].name in FILLS

    def _plan(self, source: Source, operation: str, left: int, **more: Any) -> Plan:
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
        """An operation on every live record, in the order of their keys."""
        return self._plan(Source.ALL, operation, NO_LIMIT, end=self.universe, backward=backward)

    def drawn(self, operation: str, count: int, order: str = "uniform", length: int = 0) -> Plan:
        """An operation on live records, one of them perhaps many times; a scan reads `length`."""
        return self._plan(Source.DRAWN, operation, count, order=ORDERS[order], length=length)

    def added(self, count: int) -> Plan:
        """Inserts of so many records that are missing, in random order. They are spread evenly over
        the key space."""
        return self._plan(Source.DEAD_ONES, "insert", count)

    def burst(self, operation: str, count: int) -> Plan:
        """Operations of one kind within rounds: what loop_burst does in C."""
        order = self.cell.key_order
        if operation == "insert":
            return self._plan(Source.DEAD_ONES, operation, count, order=ORDERS[order])
        once = operation == "remove" and order == "zipfian"  # a record is removed but once
        return self.drawn(operation, count, "uniform" if once else order)

    def shuffled(self, operation: str, count: int) -> Plan:
        """An operation on so many records, each at most once, in random order."""
        return self._plan(Source.SHUFFLED, operation, min(count, self.cell.records))

    def mixed(self, step: Step) -> Plan:
        """A mix, or one of YCSB's. New records come at the end of the key space."""
        shares = step.shares()
        kinds = ("get", "update", "insert", "scan")
        sums = itertools.accumulate(round(shares.get(kind, 0) * SHARES) for kind in kinds)
        usual = ORDERS[self.cell.key_order] if step.name == MIX else Order.ZIPFIAN
        order = Order.NEWEST if step.name in NEWEST_FIRST else usual
        limits = dict(zip(("gets", "updates", "inserts", "scans"), sums, strict=True))
        return self._plan(Source.MIXED, "get", self.ops(step), order=order, **limits)

    def churned(self, step: Step) -> Plan:
        """Updates and removes by popularity, and inserts of what was removed."""
        updates = round(CHURN_SHARES["update"] * SHARES)
        removes = round(CHURN_SHARES["remove"] * SHARES)
        return self._plan(
            Source.CHURNED,
            "update",
            self.ops(step),
            order=Order.ZIPFIAN,
            end=self._most_dead,
            updates=updates,
            inserts=updates + removes,
        )

    def listed(
        self, operations: Sequence[int], numbers: Sequence[int], versions: Sequence[int]
    ) -> Plan:
        """These operations, whatever was done before."""
        operation, number = np.array(operations, np.uint8), np.array(numbers, np.uint64)
        version = np.array(versions, np.uint8)
        plan = self._plan(
            Source.LISTED,
            "get",
            len(number),
            listed_operation=operation.ctypes.data,
            listed_number=number.ctypes.data,
            listed_version=version.ctypes.data,
        )
        return dataclasses.replace(plan, kept=(self, operation, number, version))

    def refused(self) -> Iterator[Plan]:
        """What a store must refuse: inserts of records that exist, and gets of all that do not;
        updates and removes are tried on some of these."""
        if self.any_live():
            tried = min(TRIED, max(SAMPLES, int(TRIED_BYTES / self.size.mean)))
            yield self._plan(Source.DRAWN, "insert", tried, refused=True)
        for operation, most in (("get", NO_LIMIT), ("update", SAMPLES), ("remove", SAMPLES)):
            yield self._plan(Source.MISSING, operation, most, end=self.universe, refused=True)

    def picked(self) -> Plan:
        """Gets of some live records, no more than there are."""
        return self.drawn("get", min(SAMPLES, self.cell.records) if self.any_live() else 0)

    def any_live(self) -> bool:
        """Whether a record exists."""
        return next(self.taken(self.live("get")), None) is not None

    def ops(self, step: Step) -> int:
        """How many operations a step does, at least."""
        if step.name == CHURN:
            return ceil(step.get("times", 3) * self.cell.records / (1 - CHURN_SHARES["remove"]))
        timed = step.name == MIX and step.get("seconds", 0)
        return step.get("ops", 0 if timed else self.cell.records)

    def taken(self, plan: Plan) -> Iterator[tuple[str, int, int, int]]:
        """Run through a plan without a store: operation, number, version and length of each."""
        item, take = structure("plan_item")(), loop_library().plan_next
        take.restype = ctypes.c_bool
        while take(ctypes.byref(plan.c), ctypes.byref(item)):
            yield NAMES[item.operation], item.number, item.version, item.length

    def total(self) -> dict[str, int]:
        """The live records: their number, and the bytes of their keys and values."""
        count, values = ctypes.c_uint64(), ctypes.c_uint64()
        plan, rule = self.live("get"), ctypes.byref(self.values)
        run = loop_library().plan_total
        run(ctypes.byref(plan.c), rule, ctypes.byref(count), ctypes.byref(values))
        live_bytes = values.value + self.key_size * count.value
        return {"live_records": count.value, "live_bytes": live_bytes}

    def save(self, file: BinaryIO) -> None:
        """Write what became of the records, for `restore`."""
        touched = np.flatnonzero(self._pages.any(axis=1))
        for part in (bytes(self.c), np.uint64(len(touched)).tobytes(), touched.tobytes()):
            file.write(part)
        for page in touched:
            file.write(self._pages[page].tobytes())

    def restore(self, file: BinaryIO) -> None:
        """Take over what another process, of which this one is a fork, has saved."""
        size = ctypes.sizeof(self.c)
        if len(data := file.read(size)) < size:
            raise OSError("the process that measures is gone")
        ctypes.memmove(ctypes.byref(self.c), data, size)
        (count,) = np.frombuffer(file.read(8), np.uint64)
        for page in np.frombuffer(file.read(8 * int(count)), np.int64):
            self._pages[page] = np.frombuffer(file.read(PAGE), np.uint8)


def make_pool(compressibility: str, largest_value: int, seed: int) -> npt.NDArray[np.uint8]:
    """The bytes that values are slices of."""
    pool = np.empty(POOL_SIZE + largest_value, np.uint8)
    fill = loop_library()[f"records_fill_{compressibility}"]
    fill(address(pool), ctypes.c_size_t(len(pool)), ctypes.c_uint64(seed))
    return pool
