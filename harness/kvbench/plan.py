"""Plans: the operations of a cell as arrays, which the C loop runs.

A population of records has `records` live ones at rest. Its key numbers run from 0 to
`records + churn` - 1, so `churn` of them are dead; a round inserts these, so that for a while
`churn` more live, and later removes as many others.
"""

import ctypes
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from kvbench.factors import Cell
from kvbench.library import Operation, address, filled, loop_library

CODES = {operation.name.lower(): operation.value for operation in Operation}
SAMPLES = 1000  # of each operation, at least
CHURN_SHARE, CHURN_LIMIT = 10, 100  # a round replaces a tenth of the records, but at most 100
SKEW = 0.99  # of the zipfian order, as in YCSB
CHUNK = 4096  # operations that are planned at once
POOL_SIZE = 8 << 20  # bytes; values are slices that begin anywhere in it

UInt64Array = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class Plan:
    """One operation on each of `number`; see loop_plan in loop.h."""

    operation: npt.NDArray[np.uint8]
    number: UInt64Array
    offset: npt.NDArray[np.uint32]
    size: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.number)

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self.operation, self.number, self.offset, self.size

    def __getitem__(self, part: slice) -> "Plan":
        return Plan(*(column[part] for column in self._columns()))

    def followed_by(self, other: "Plan") -> "Plan":
        both = zip(self._columns(), other._columns(), strict=True)
        return Plan(*(np.concatenate(columns) for columns in both))


def coprime(count: int) -> int:
    """A step that visits all of `count` places, each once, and scatters neighbours."""
    golden = int(count * 0.6180339887)
    return next(step for step in range(max(golden, 1), 2 * count + 2) if gcd(step, count) == 1)


def zipf(random: np.random.Generator, count: int, draws: int) -> npt.NDArray[np.int64]:
    """Ranks from 0 to `count` - 1, the k-th drawn in proportion to (k + 1)^-SKEW.

    By rejection-inversion (Hoermann and Derflinger, 1996), which needs no table of `count` sums.
    """
    power = 1 - SKEW

    def integral(x: Any) -> Any:
        return (x**power - 1) / power

    def inverse(y: Any) -> Any:
        return (1 + y * power) ** (1 / power)

    low, high = integral(1.5) - 1, integral(count + 0.5)
    certain = 2 - inverse(integral(2.5) - 2**-SKEW)
    found = np.array([], np.int64)
    while len(found) < draws:
        y = high + random.random(draws) * (low - high)
        x = inverse(y)
        rank = np.clip(np.rint(x), 1, count)
        kept = (rank - x <= certain) | (y >= integral(rank + 0.5) - rank**-SKEW)
        found = np.concatenate([found, rank[kept].astype(np.int64) - 1])
    return found[:draws]


class Keyspace(ABC):
    """The keys of the numbers 0 to `universe` - 1, and the value of each version of each."""

    def __init__(self, cell: Cell, universe: int) -> None:
        self.cell = cell
        self.universe = universe
        self.stride = (2**64 - 1) // universe
        self.key_size = cell.key_size
        self.size = cell.record_size
        self.values = filled(
            "records_values",
            cell,
            seed=cell.plan_seed,
            starts=POOL_SIZE,
            low=self.size.low,
            span=self.size.high - self.size.low + 1,
        )
        self.random = np.random.default_rng(cell.plan_seed)

    def plan(self, operation: str, numbers: UInt64Array, versions: UInt64Array) -> Plan:
        """An operation on each number, with the value of that version: see records.h."""
        count, number = len(numbers), np.ascontiguousarray(numbers)
        version = versions.astype(np.uint32)
        offset, size = np.empty(count, np.uint32), np.empty(count, np.uint32)
        loop_library().records_value_each(
            ctypes.byref(self.values),
            ctypes.c_size_t(count),
            *(address(column) for column in (number, version, offset, size)),
        )
        return Plan(np.full(count, CODES[operation], np.uint8), number, offset, size)

    @abstractmethod
    def dead_ones(self) -> UInt64Array:
        """The numbers of records that do not exist."""

    @abstractmethod
    def alive(self, numbers: UInt64Array) -> UInt64Array:
        """Those of them that live."""

    @abstractmethod
    def versions(self, numbers: UInt64Array) -> UInt64Array:
        """How often each was rewritten."""

    def refused(self) -> Iterator[Plan]:
        """What a store must refuse: inserts of SAMPLES records that exist, and gets of all that do
        not exist; updates and removes are tried on one chunk of the latter."""
        tried = np.unique(self.random.integers(self.universe, size=SAMPLES, dtype=np.uint64))
        living, dead = self.alive(tried), self.dead_ones()
        yield self.plan("insert", living, self.versions(living) + np.uint64(1))
        for start in range(0, len(dead), CHUNK):
            part = dead[start : start + CHUNK]
            for operation in ("get", "update", "remove") if start == 0 else ("get",):
                yield self.plan(operation, part, np.zeros(len(part), np.uint64))

    def bytes_of(self, plan: Plan) -> int:
        """Bytes of the keys and values of a plan."""
        return int(plan.size.sum(dtype=np.uint64)) + self.key_size * len(plan)


class Population(Keyspace):
    """Which records live, and which version of its value each has."""

    def __init__(self, cell: Cell) -> None:
        self.churn = max(1, min(cell.records // CHURN_SHARE, CHURN_LIMIT))
        super().__init__(cell, cell.records + self.churn)
        self.dead = np.array([], np.uint64)
        self.dead = self._choose()
        self._scatter = coprime(self.universe)
        self.version: dict[int, int] = {}  # of the records that were ever rewritten
        self.key_order = cell.key_order
        self._next = {"get": 0, "update": 0, "remove": 0}  # where a sequence goes on

    def dead_ones(self) -> UInt64Array:
        return self.dead

    def _choose(self) -> UInt64Array:
        """As many distinct live numbers as the churn, uniformly, in random order."""
        dead = np.sort(self.dead)
        ranks = self.random.choice(self.universe - len(dead), self.churn, replace=False)
        # The dead below the number of rank r are those with dead[i] - i <= r.
        below = np.searchsorted(dead - np.arange(len(dead), dtype=np.uint64), ranks, "right")
        return (ranks + below).astype(np.uint64)

    def alive(self, numbers: UInt64Array) -> UInt64Array:
        return numbers[~np.isin(numbers, self.dead)]

    def _sequence(self, operation: str) -> UInt64Array:
        """As many live numbers as the churn, upwards from where the last ones ended, around."""
        start = self._next[operation]
        count = min(self.universe, 2 * self.churn)  # no more than the churn of them are dead
        numbers = (np.arange(start, start + count) % self.universe).astype(np.uint64)
        found = self.alive(numbers)[: self.churn]
        self._next[operation] = int(found[-1] + np.uint64(1)) % self.universe
        return found

    def _popular(self) -> UInt64Array:
        """As many live numbers as the churn, the same one perhaps several times."""
        found = np.array([], np.uint64)
        while len(found) < self.churn:
            ranks = zipf(self.random, self.universe, self.churn)
            # Popular records lie scattered over the keys, not side by side.
            numbers = (ranks * self._scatter % self.universe).astype(np.uint64)
            found = np.concatenate([found, self.alive(numbers)])
        return found[: self.churn]

    def _targets(self, operation: str) -> UInt64Array:
        if self.key_order == "sequential":
            return self._sequence(operation)
        if self.key_order == "zipfian" and operation != "remove":
            return self._popular()
        return self._choose()

    def versions(self, numbers: UInt64Array) -> UInt64Array:
        return np.array([self.version.get(number, 0) for number in numbers.tolist()], np.uint64)

    def _rewrite(self, operation: str, numbers: UInt64Array) -> Plan:
        versions = np.empty(len(numbers), np.uint64)
        for i, number in enumerate(numbers.tolist()):  # the same one may come twice
            versions[i] = self.version[number] = self.version.get(number, 0) + 1
        return self.plan(operation, numbers, versions)

    def live(self, operation: str) -> Iterator[Plan]:
        """An operation on every live record, in key order: `insert` to load, `get` to check."""
        dead = np.sort(self.dead)
        rewritten = np.array(sorted(self.version), np.uint64)
        for start in range(0, self.universe, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, self.universe), dtype=np.uint64)
            versions = np.zeros(len(numbers), np.uint64)
            low, high = np.searchsorted(rewritten, [start, start + CHUNK])
            touched = rewritten[low:high]
            versions[(touched - np.uint64(start)).astype(np.intp)] = self.versions(touched)
            low, high = np.searchsorted(dead, [start, start + CHUNK])
            alive = np.ones(len(numbers), bool)
            alive[(dead[low:high] - np.uint64(start)).astype(np.intp)] = False
            yield self.plan(operation, numbers[alive], versions[alive])

    def rounds(self, operations: tuple[str, ...]) -> Iterator[list[tuple[str, Plan]]]:
        """Rounds of operations, until each was done SAMPLES times, on keys in the cell's order:
        uniform, every live record alike; sequential, in the order of the keys; zipfian, gets and
        updates by popularity, the others uniform, since a record is removed but once.

        Inserts and removes go together, whichever of the two is timed.
        """
        churns = "insert" in operations or "remove" in operations
        for _ in range(-(-SAMPLES // self.churn)):
            steps: list[tuple[str, Plan]] = []
            if churns:
                sequential = self.key_order == "sequential"
                inserted = np.sort(self.dead) if sequential else self.random.permutation(self.dead)
                self.dead = np.array([], np.uint64)
                steps.append(("insert", self._rewrite("insert", inserted)))
            if "get" in operations:
                numbers = self._targets("get")
                steps.append(("get", self.plan("get", numbers, self.versions(numbers))))
            if "update" in operations:
                steps.append(("update", self._rewrite("update", self._targets("update"))))
            if churns:
                removed = self._targets("remove")
                self.dead = removed
                steps.append(("remove", self.plan("remove", removed, self.versions(removed))))
            yield steps
