"""A program that goes on when the disk fails, what it was told, and whether that was true.

The program opens a store that holds a base load, and inserts, updates and removes records in a
seeded order. In between it syncs once, and on demand compacts once. After an error it goes on with
the next operation. At the end it reads all records and closes the store.
"""

import mmap
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.cell.store import Store
from kvbench.faults.apart import LIMIT, Beside, apart
from kvbench.faults.left import Value, digest, load, values, why
from kvbench.stores.opened import OpenStore, open_store

BASE, OPERATIONS = 60, 80  # records that are there before; operations of the program
SIZES = (20, 100, 1000, 5000, 20_000)  # bytes of a value: some cross pages
KINDS, WEIGHTS = ("insert", "update", "remove"), (4, 4, 2)
SYNC, COMPACT = "sync", "compact"
SYNC_AT, COMPACT_AT = 30, 55  # operations before these calls

UNTRIED, BEGUN, DONE, REFUSED, FAILED = range(5)  # states of an operation
LOST, WRONG, UNREAD = "lost", "wrong", "unreadable"


class Operation(NamedTuple):
    """A call of the program. The key is empty if the call concerns the whole store."""

    kind: str
    key: bytes = b""
    value: bytes | None = None  # None for a removed record


class Plan(NamedTuple):
    """What a program does. Its base has been closed before the program begins."""

    base: tuple[Operation, ...]
    operations: tuple[Operation, ...]

    @property
    def keys(self) -> tuple[bytes, ...]:
        """All keys, in the order of their first use."""
        return tuple(dict.fromkeys(o.key for o in (*self.base, *self.operations) if o.key))


def plan(store: Store, seed: int, compacts: bool = False) -> Plan:
    """The plan of a seed for a store, which may limit the values."""
    choose = random.Random(seed)
    writes = tuple(_writes(choose, store.max_value or SIZES[-1]))
    base, own = writes[:BASE], list(writes[BASE:])
    own.insert(SYNC_AT, Operation(SYNC))
    if compacts:
        own.insert(COMPACT_AT, Operation(COMPACT))
    return Plan(base, tuple(own))


def _writes(choose: random.Random, most: int) -> Iterator[Operation]:
    live: list[bytes] = []
    for number in range(BASE + OPERATIONS):
        kind = choose.choices(KINDS, WEIGHTS)[0] if number >= BASE else "insert"
        key = choose.randbytes(16)
        value = None if kind == "remove" else choose.randbytes(min(most, choose.choice(SIZES)))
        if kind == "insert":
            live.append(key)
        else:
            key = choose.choice(live)
        if kind == "remove":
            live.remove(key)
        yield Operation(kind, key, value)


def do(opened: OpenStore, operation: Operation) -> bool:
    """Call the store. Returns False if it answers that a key exists, or is missing."""
    kind, key, value = operation
    if kind in (SYNC, COMPACT):
        getattr(opened, kind)()
        return True
    return bool(opened.remove(key) if value is None else getattr(opened, kind)(key, value))


class Told(NamedTuple):
    """What a program was told. Without `seen`, it ended early, or the store did not open."""

    states: bytes  # of each operation
    ended: str = ""  # how it ended, if not by itself
    refused: str = ""  # the error of opening
    errors: tuple[tuple[int, str], ...] = ()  # of operations, by number
    seen: tuple[Value, ...] | None = None  # what it read before closing
    closing: str = ""  # the error of closing

    @property
    def reported(self) -> bool:
        """Whether any call failed."""
        return bool(self.refused or self.closing or FAILED in self.states)


def make_base(store: Store, folder: Path, planned: Plan, options: dict[str, str]) -> str:
    """Fill an empty folder with the base of a plan. Returns why that failed."""

    def work() -> str:
        try:
            opened = open_store(store, folder, **options)
            for operation in planned.base:
                do(opened, operation)
            opened.close()
        except Exception as error:  # a binding raises its engine's own exceptions
            return why(error)
        return ""

    load(store)
    answer = apart(work)
    return f"{answer.ended} {answer.said}" if answer.ended else str(answer.value)


class Session:
    """An open store, and the state of each operation of a plan."""

    def __init__(self, opened: OpenStore, planned: Plan, states: mmap.mmap) -> None:
        self._opened, self.planned, self.states = opened, planned, states
        self.errors: list[tuple[int, str]] = []

    def run(self, numbers: Iterable[int], most: int = 0) -> None:
        """Do the operations of these numbers; with `most`, until so many in a row failed."""
        failed = 0
        for number in numbers:
            self.states[number] = BEGUN
            try:
                done = do(self._opened, self.planned.operations[number])
                self.states[number], failed = DONE if done else REFUSED, 0
            except Exception as error:  # a binding raises its engine's own exceptions
                self.states[number], failed = FAILED, failed + 1
                self.errors.append((number, why(error)))
            if most and failed == most:
                return

    def run_all(self, compacting: Callable[[], None] = lambda: None) -> tuple[Value, ...]:
        """Do all operations, then read. `compacting` is called before the store compacts."""
        for number, operation in enumerate(self.planned.operations):
            if operation.kind == COMPACT:
                compacting()
            self.run([number])
        return self.read()

    def read(self) -> tuple[Value, ...]:
        """The digest of each record of the plan."""
        return values(self._opened, self.planned.keys)


def attempt(
    store: Store,
    folder: Path,
    planned: Plan,
    options: dict[str, str],
    program: Callable[[Session], tuple[Value, ...] | None],
    beside: Beside | None = None,
    limit: float = LIMIT,
) -> Told:
    """Open a store in a child, run a program with it, which returns what it read, and close it."""
    load(store)
    with mmap.mmap(-1, len(planned.operations)) as states:  # outlives a crash

        def work() -> Told:
            try:
                opened = open_store(store, folder, **options)
            except Exception as error:
                return Told(b"", refused=why(error))
            session, closing = Session(opened, planned, states), ""
            seen = program(session)
            try:
                opened.close()
            except Exception as error:
                closing = why(error)
            return Told(b"", "", "", tuple(session.errors), seen, closing)

        answer = apart(work, limit, beside)
        last = answer.said.splitlines()[-1:]
        told: Told = answer.value or Told(b"", ended=": ".join([answer.ended, *last]))
        return told._replace(states=states[:])


class Expected:
    """What a store may hold after a program, given what the program was told."""

    def __init__(self, planned: Plan, states: bytes, tears: bool) -> None:
        """With `tears`, a failed write may leave anything in its own record."""
        self._tears = tears
        self._possible: dict[bytes, set[Value]] = {key: {None} for key in planned.keys}
        self._ever: dict[bytes, set[Value]] = defaultdict(lambda: {None})
        self._torn: set[bytes] = set()
        self.contradictions: list[int] = []  # operations whose answer shows that a write is lost
        for operation in planned.base:
            self._take(operation, DONE)
        for number, (operation, state) in enumerate(zip(planned.operations, states, strict=True)):
            if operation.key and state != UNTRIED and not self._take(operation, state):
                self.contradictions.append(number)

    def _take(self, operation: Operation, state: int) -> bool:
        """Take an operation into account. Returns False if its answer contradicts earlier ones."""
        key, new = operation.key, digest(operation.value)
        before = self._possible[key]
        missing = (operation.kind == "insert") == (state != REFUSED)  # what the answer implies
        fits = {value for value in before if (value is None) == missing}
        if state != REFUSED:
            self._ever[key].add(new)
        if state == DONE:
            self._possible[key] = {new}
        elif state != REFUSED:  # a refusal leaves open what earlier failed writes left
            self._possible[key] = before | {new}
            if self._tears and operation.value is not None:
                self._torn.add(key)
        unsure = key in self._torn or state in (BEGUN, FAILED)
        if state == DONE:
            self._torn.discard(key)
        return bool(fits) or unsure

    def differs(self, keys: Sequence[bytes], found: Sequence[Value]) -> Counter[str]:
        """How many records are LOST, WRONG or UNREAD, of those that were found: of the first keys
        only, if the reader ended early. A lost one is missing, or holds a value that was written to
        its key before an acknowledged write."""
        wrong: Counter[str] = Counter()
        for key, value in zip(keys, found, strict=False):
            if value in self._possible[key] or key in self._torn:
                continue
            if isinstance(value, str):
                wrong[UNREAD] += 1
            else:
                wrong[LOST if value in self._ever[key] else WRONG] += 1
        return wrong
