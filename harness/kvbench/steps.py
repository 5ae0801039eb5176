"""Plans for the steps of a workload."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kvbench.factors import Cell
from kvbench.library import Constant, mix
from kvbench.plan import CHUNK, CODES, Keyspace, Plan, UInt64Array, zipf
from kvbench.workload import FILLS, NEWEST_FIRST, YCSB, Step, parse

SCAN_LONGEST = Constant.LOOP_SCAN_MAX  # records, as in YCSB


class Permutation:
    """0 to count - 1 in an order that looks random, without a table: a Feistel network over the
    next power of four, walked on from what lies beyond the count."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = np.uint64(count)
        self._half = np.uint64(max(1, -(-(count - 1).bit_length() // 2)))
        self._low = (np.uint64(1) << self._half) - np.uint64(1)
        self._keys = mix(np.arange(4, dtype=np.uint64) + np.uint64(seed))

    def _walk(self, x: UInt64Array, keys: UInt64Array, swap: bool) -> UInt64Array:
        x = x.copy()
        todo = np.arange(len(x))
        while len(todo):
            left, right = x[todo] >> self._half, x[todo] & self._low
            if swap:
                left, right = right, left
            for key in keys:
                left, right = right, left ^ (mix(right ^ key) & self._low)
            if swap:
                left, right = right, left
            x[todo] = (left << self._half) | right
            todo = todo[x[todo] >= self.count]
        return x

    def __call__(self, places: UInt64Array) -> UInt64Array:
        return self._walk(places, self._keys, False)

    def places(self, numbers: UInt64Array) -> UInt64Array:
        """The inverse: where each number comes."""
        return self._walk(numbers, self._keys[::-1], True)


def chunks(count: int) -> Iterator[UInt64Array]:
    for start in range(0, count, CHUNK):
        yield np.arange(start, min(start + CHUNK, count), dtype=np.uint64)


class Records(Keyspace):
    """Which records live, and the version of each, known by rule instead of by table: a billion of
    them take no more memory than a thousand, unless a mix or a writer beside readers rewrites them.
    """

    def __init__(self, cell: Cell) -> None:
        self.steps = parse(cell.workload)
        added = sum(
            self._ops(step, cell) for step in self.steps if "insert" in YCSB.get(step.name, {})
        )
        super().__init__(cell, cell.records + added)
        self.records = cell.records
        self.alive_to = cell.records  # numbers from here on are not inserted yet
        self._overwritten: list[tuple[Permutation, int]] = []
        self._deleted: list[tuple[Permutation, int]] = []
        self._rewritten: dict[int, int] = {}
        self._popular = Permutation(cell.records, cell.plan_seed)
        self.table: npt.NDArray[np.uint32] | None = None  # versions, once there is traffic

    @staticmethod
    def _ops(step: Step, cell: Cell) -> int:
        return step.get("ops", cell.records)

    def _permutation(self) -> Permutation:
        return Permutation(self.records, int(self.random.integers(2**62)))

    def versions(self, numbers: UInt64Array) -> UInt64Array:
        if self.table is not None:
            return self.table[numbers.astype(np.intp)].astype(np.uint64)
        found = np.zeros(len(numbers), np.uint64)
        for order, count in self._overwritten:
            # What a mix inserted has no place in the order, and was not overwritten.
            known = numbers < np.uint64(self.records)
            found[known] += order.places(numbers[known]) < np.uint64(count)
        if self._rewritten:
            found += np.array([self._rewritten.get(n, 0) for n in numbers.tolist()], np.uint64)
        return found

    def _lives(self, numbers: UInt64Array) -> npt.NDArray[np.bool_]:
        alive = numbers < np.uint64(self.alive_to)
        for order, count in self._deleted:
            alive &= order.places(numbers) >= np.uint64(count)
        return alive

    def alive(self, numbers: UInt64Array) -> UInt64Array:
        return numbers[self._lives(numbers)]

    def get(self, numbers: UInt64Array) -> Plan:
        return self.plan("get", numbers, self.versions(numbers))

    def live(self, operation: str, backwards: bool = False) -> Iterator[Plan]:
        """An operation on every live record in key order, a chunk of numbers at a time."""
        for numbers in self._chunks(backwards):
            found = self.alive(numbers)
            yield self.plan(operation, found, self.versions(found))

    def _chunks(self, backwards: bool) -> Iterator[UInt64Array]:
        if not backwards:
            yield from chunks(self.universe)
            return
        for start in reversed(range(0, self.universe, CHUNK)):
            yield np.arange(start, min(start + CHUNK, self.universe), dtype=np.uint64)[::-1]

    def dead_ones(self) -> UInt64Array:
        return np.concatenate(
            [order(np.arange(count, dtype=np.uint64)) for order, count in self._deleted]
            + [np.arange(self.alive_to, self.universe, dtype=np.uint64)]
        )

    @property
    def fills(self) -> bool:
        return self.steps[0].name in FILLS

    def limits(self, backwards: bool) -> tuple[list[int], list[int]]:
        """The first number of each chunk of `live`, and the one after its last."""
        first = list(range(0, self.universe, CHUNK))
        end = [min(start + CHUNK, self.universe) for start in first]
        return (first[::-1], end[::-1]) if backwards else (first, end)

    @staticmethod
    def batched(plans: Iterator[Plan], batch: int) -> Iterator[Plan]:
        """The same, in plans of whole batches: a batch must not end where a chunk does."""
        if batch == 1:
            yield from plans
            return
        room = CHUNK // batch * batch
        held: Plan | None = None
        for plan in plans:
            held = plan if held is None else held.followed_by(plan)
            while len(held) >= room:
                yield held[:room]
                held = held[room:]
        if held is not None and len(held):
            yield held

    def fill(self, step: Step) -> Iterator[Plan]:
        order = self._permutation() if step.name == "fillrandom" else None
        for places in chunks(self.records):
            numbers = order(places) if order else places
            yield self.plan("insert", numbers, np.zeros(len(numbers), np.uint64))

    def overwrite(self, step: Step) -> Iterator[Plan]:
        """Every record once at most, in random order."""
        order, ops = self._permutation(), min(step.get("ops", self.records), self.records)
        self._overwritten.append((order, 0))
        for places in chunks(ops):
            numbers = order(places)
            self._overwritten[-1] = (order, int(places[-1]) + 1)
            yield self.plan("insert", numbers, self.versions(numbers))

    def delete(self, step: Step) -> Iterator[Plan]:
        order, ops = self._permutation(), min(step.get("ops", self.records), self.records)
        self._deleted.append((order, 0))
        for places in chunks(ops):
            numbers = order(places)
            yield self.plan("remove", numbers, self.versions(numbers))
            self._deleted[-1] = (order, int(places[-1]) + 1)

    def read(self, step: Step) -> Iterator[Plan]:
        """Live records at random, one of them perhaps many times."""
        left = step.get("ops", self.records)
        while left > 0:
            numbers = self.random.integers(self.alive_to, size=CHUNK, dtype=np.uint64)
            numbers = self.alive(numbers)[:left]
            left -= len(numbers)
            yield self.get(numbers)

    def mix(self, step: Step) -> Iterator[Plan]:
        """One of YCSB's mixes. New records come at the end of the key space."""
        kinds, shares = zip(*YCSB[step.name].items(), strict=True)
        for places in chunks(step.get("ops", self.records)):
            chosen = self.random.choice(len(kinds), len(places), p=shares)
            ranks = zipf(self.random, self.records, len(places))
            lengths = self.random.integers(1, SCAN_LONGEST + 1, len(places))
            popular = self._popular(ranks.astype(np.uint64))
            rows: list[tuple[str, int, int, int]] = []
            for i, kind in enumerate(chosen.tolist()):
                newest = self.alive_to - 1 - int(ranks[i])
                number = newest if step.name in NEWEST_FIRST else int(popular[i])
                rows += self._one(kinds[kind], number, int(lengths[i]))
            plan = self._plan_of(rows)  # a read-modify-write is two operations
            yield from (part for part in (plan[:CHUNK], plan[CHUNK:]) if len(part))

    def _one(self, kind: str, number: int, length: int) -> Iterator[tuple[str, int, int, int]]:
        """Operation, number, version and records of one operation of a mix."""
        if kind == "insert":
            number = self.alive_to
            self.alive_to += 1
            yield "insert", number, 0, 1
            return
        if kind == "scan":
            yield "scan", number, 0, min(length, self.alive_to - number)
            return
        version = (
            int(self.versions(np.array([number], np.uint64))[0])
            if self._overwritten
            else (self._rewritten.get(number, 0))
        )
        if kind != "update":
            yield "get", number, version, 1
        if kind != "get":
            self._rewritten[number] = self._rewritten.get(number, 0) + 1
            yield "update", number, version + 1, 1

    def _plan_of(self, rows: list[tuple[str, int, int, int]]) -> Plan:
        operations, numbers, versions, lengths = zip(*rows, strict=True)
        plan = self.plan("get", np.array(numbers, np.uint64), np.array(versions, np.uint64))
        codes = np.array([CODES[operation] for operation in operations], np.uint8)
        scans = codes == CODES["scan"]
        return dataclasses.replace(
            plan,
            operation=codes,
            offset=np.where(scans, np.uint32(0), plan.offset).astype(np.uint32),
            size=np.where(scans, np.array(lengths), plan.size).astype(np.uint32),
        )

    def start_traffic(self) -> npt.NDArray[np.uint32]:
        """The version of every record, as a table that a writer keeps."""
        self.table = np.concatenate(
            [self.versions(numbers).astype(np.uint32) for numbers in chunks(self.alive_to)]
        )
        return self.table
