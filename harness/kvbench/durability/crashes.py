"""What a crash costs: how long a store takes to open again, and which acknowledged writes are lost.

A store is loaded and written to disk. Each crash starts from a copy of it: a process updates the
loaded records and inserts new ones in turn, as fast as it can, until it is killed or loses power. A
fresh process then opens the store and reads every record. Run as

    python -m kvbench.durability.crashes FOLDER STORE load|write|check LOADED COUNT SIZE MORE \\
        [NAME=VALUE ...]

where MORE is the trace of the writes, or how many of them were acknowledged.
"""

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import Cell, RecordSize, format_bytes, parse_bytes
from kvbench.cell.loop import PythonLoop, make_loop
from kvbench.cell.plan import CODES, Plan, Records, make_pool
from kvbench.cell.store import Store, named
from kvbench.common.messages import BadInput
from kvbench.durability import evidence
from kvbench.durability.evidence import STORE, Stopped, Times, Write
from kvbench.stores.opened import OpenStore, open_store

STORES = ("flat", "leveldb", "rocksdb", "lmdb", "sqlite", "bdb", "redb", "fjall")
KILL, POWER = "SIGKILL", "power loss"
KINDS = {"none": KILL, "process": POWER}  # by durability: one that the level may not survive
WRITTEN, LOADED = 512 << 20, 1 << 30  # bytes of values at most
IMAGE = 6 << 30  # bytes of the disk, of which only those written take space
LEAST_SIZE, MOST_SIZE = 16, 1 << 20  # bytes of a value: shorter ones may be alike
VERSIONS = 127  # of a record, after which they repeat
LOAD_LIMIT = 600  # seconds
LEAST_SHARE = 0.25  # of the seconds of writing
UNREAD = "opened, but not read"
TRIED = 100  # records that are tried for a first correct get
Numbers = npt.NDArray[np.int64]
Row = dict[str, Any]
COLUMNS = (
    "writing_s", "acknowledged_writes", "open_ms", "first_get_ms", "lost_writes", "kept_writes",
    "damaged_records", "window_writes", "window_ms",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Steady:
    """So many records that are loaded, and the writes after that: an update of a loaded record and
    an insert of a new one in turn. Each record is updated once before any is updated again."""

    loaded: int
    count: int
    size: int

    @classmethod
    def of(cls, loaded: int, value_size: str) -> Self:
        try:
            size = parse_bytes(value_size)
        except BadInput as error:
            raise BadInput(f"--value-size: {error}") from None
        if not LEAST_SIZE <= size <= MOST_SIZE:
            allowed = f"{format_bytes(LEAST_SIZE)} to {format_bytes(MOST_SIZE)}"
            raise BadInput(f"--value-size: {value_size!r:.60} is not allowed; allowed: {allowed}")
        if loaded * size > LOADED:
            raise BadInput(
                f"--records: {loaded:,} of {format_bytes(size)} are more than "
                f"{format_bytes(LOADED)}; allowed: {LOADED // size:,} at most"
            )
        return cls(loaded, max(1, min(WRITTEN // size // 2, VERSIONS * loaded)) * 2, size)

    def _mixed(self) -> Numbers:
        """The numbers of all records: first those that are loaded."""
        return np.random.default_rng(1).permutation(self.loaded + self.count // 2)

    def numbers(self) -> Numbers:
        """Of the records that are loaded, in the order of their keys."""
        return np.sort(self._mixed()[: self.loaded])

    def writes(self) -> tuple[Numbers, Numbers]:
        """The record of each write, and the version that it writes: 0 is an insert."""
        mixed, pair = self._mixed(), np.arange(self.count) // 2
        updates = np.arange(self.count) % 2 == 0
        number = np.where(updates, mixed[pair % self.loaded], mixed[self.loaded + pair])
        return number, np.where(updates, pair // self.loaded + 1, 0)

    def records(self) -> Records:
        """The population, of which a plan lists what it needs."""
        size, count = RecordSize(self.size, self.size), self.loaded + self.count // 2
        return Records(Cell("null", "null", size, count, "incompressible", (), 1, 1))

    def pool(self) -> npt.NDArray[np.uint8]:
        return make_pool("incompressible", self.size, 1)


def _plan(own: Records, operations: Iterable[str], numbers: Numbers, versions: Numbers) -> Plan:
    codes = [CODES[name] for name in operations]
    return own.listed(codes, numbers.tolist(), versions.tolist())


def _load(store: Store, folder: Path, steady: Steady, options: dict[str, str]) -> None:
    own, numbers = steady.records(), steady.numbers()
    loop = make_loop(store, own, steady.pool())
    loop.open(folder, options)
    loop.load(_plan(own, ["insert"] * len(numbers), numbers, np.zeros_like(numbers)))
    loop.close()


def _write(store: Store, folder: Path, steady: Steady, trace: str, options: dict[str, str]) -> None:
    own, (numbers, versions) = steady.records(), steady.writes()
    loop = make_loop(store, own, steady.pool())
    plan = _plan(own, ["update", "insert"] * (steady.count // 2), numbers, versions)
    loop.open(folder, options)
    loop.run_into(plan, np.memmap(trace, np.uint64, "w+", shape=steady.count))


class _Reader:
    """Says which version of a record an open store has."""

    def __init__(self, steady: Steady) -> None:
        self._own = steady.records()
        self._loop = PythonLoop(Store("null", "null"), self._own, steady.pool())

    def pairs(self, numbers: Numbers, versions: Numbers) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of these versions."""
        plan = _plan(self._own, ["update"] * len(numbers), numbers, versions)
        return ((key, value) for _, _, key, value in self._loop.taken(plan))

    def found(self, opened: OpenStore, numbers: Numbers, latest: Numbers) -> Numbers:
        """The version of each record, which is not above its latest; -1 if it is missing, cannot be
        read or holds no version."""
        found = np.full(len(numbers), -1)
        left = np.arange(len(numbers))
        versions = latest.copy()
        while left.size:
            pairs = self.pairs(numbers[left], versions[left])
            same = np.array([_answer(opened, key, value) for key, value in pairs])
            found[left[same == 1]] = versions[left[same == 1]]
            left = left[(same == 0) & (versions[left] > 0)]
            versions[left] -= 1
        return found


def _answer(opened: OpenStore, key: bytes, value: bytes) -> int:
    """1: the value is there; 0: another one; -1: none."""
    try:
        found = opened.get(key)
    except StoreError:
        return -1
    return -1 if found is None else int(found == value)


def check(
    store: Store, folder: Path, steady: Steady, acknowledged: int, options: dict[str, str]
) -> Row:
    """Open the store and compare it with what so many writes must have left. The record of the
    write that was under way is not looked at: it may be in either state."""
    reader, (numbers, versions) = _Reader(steady), steady.writes()
    under_way = numbers[acknowledged] if acknowledged < steady.count else -1
    numbers, versions = numbers[:acknowledged], versions[:acknowledged]
    latest = np.full(steady.loaded + steady.count // 2, -1)
    loaded = steady.numbers()
    latest[loaded] = 0
    latest[numbers] = versions  # of a record that is there more than once, the last
    there = np.flatnonzero(latest >= 0)
    there = there[there != under_way]

    chosen = random.Random(acknowledged).sample(range(steady.loaded), min(TRIED, steady.loaded))
    tried = [int(number) for number in loaded[chosen] if number != under_way]
    allowed: list[tuple[bytes, set[bytes]]] = []
    for number in tried:
        each = np.arange(latest[number] + 1)
        own = list(reader.pairs(np.full(len(each), number), each))
        allowed.append((own[0][0], {value for _, value in own}))

    if not store.binding:
        store.driver()  # a program has loaded its library before
    start = time.perf_counter_ns()
    try:
        opened = open_store(store, folder, **options)
    except Exception as error:  # bindings have their own
        raise StoreError(str(error)) from error
    ready = time.perf_counter_ns()
    os.write(1, f"{UNREAD}\n".encode())  # the last line if the engine crashes from here on
    first_get = None
    for key, values in allowed:
        with contextlib.suppress(StoreError):
            right = opened.get(key) in values
            first_get = (time.perf_counter_ns() - start) / 1e6 if right else None
        if first_get is not None:
            break

    found = np.full(len(latest), -1)
    found[there] = reader.found(opened, there, latest[there])
    counted = numbers != under_way
    lost = counted & (found[numbers] < versions)
    first = int(np.argmax(lost)) if lost.any() else acknowledged
    return {
        "open_ms": (ready - start) / 1e6,
        "first_get_ms": first_get,
        "lost_writes": int(lost.sum()),
        "kept_writes": int((counted & ~lost)[first:].sum()),
        "damaged_records": int((found[loaded[loaded != under_way]] < 0).sum()),
        "first": first,
    }


def _writer(steady: Steady, seconds: float, command: Callable[[Path, Path], list[str]]) -> Write:
    """Writes that are stopped after so many seconds, or when few are left."""

    def due(returned: Times) -> bool:
        late = time.monotonic_ns() - int(returned[0]) >= seconds * 1e9
        return bool(returned[0] and (late or returned[steady.count * 9 // 10 - 1]))

    def write(folder: Path, stop: signal.Signals) -> Stopped:
        with tempfile.TemporaryDirectory() as aside:
            trace = Path(aside) / "returned"
            return evidence.interrupt(command(folder, trace), trace, steady.count, due, stop)

    return write


def _crash(kind: str, own: Path, write: Write, checked: Callable[[Path, int], list[str]]) -> Row:
    """What one crash of a copy of the loaded store cost."""
    row: Row = dict.fromkeys(COLUMNS) | {"reason": ""}
    try:
        with (evidence.killed if kind == KILL else evidence.cut_off)(own, write) as (
            folder,
            stopped,
        ):
            count = len(stopped.returned)
            began = int(stopped.returned[0]) if count else stopped.at
            row |= {"writing_s": (stopped.at - began) / 1e9, "acknowledged_writes": count}
            row |= json.loads(evidence.run_apart(checked(folder, count)))
    except StoreError as error:
        step = "not written" if row["acknowledged_writes"] is None else "not opened"
        return row | {"reason": f"{error}" if UNREAD in str(error) else f"{step}: {error}"}
    first = row.pop("first")
    lasted = stopped.at - int(stopped.returned[first]) if first < count else 0
    row |= {"window_writes": count - first, "window_ms": lasted / 1e6}
    return row if row["first_get_ms"] else row | {"reason": f"{UNREAD}: no correct get in {TRIED}"}


def crashes(
    store: Store, level: str, kind: str, place: Path, steady: Steady, seconds: float, count: int
) -> Iterator[Row]:
    """A row for each of `count` crashes of one kind of a store at a durability level. `place` is
    any folder. Raises StoreError if the store cannot be loaded."""
    options = {"durability": level}
    choose = random.Random(f"{store.full_name} {level}")
    about = {
        "store": store.full_name, "engine_version": store.version, "durability": level,
        "crash": kind, "records": steady.loaded, "value_bytes": steady.size,
    }  # fmt: skip

    def command(folder: Path, role: str, more: object) -> list[str]:
        arguments = (role, *dataclasses.astuple(steady), more)
        return evidence.command_of(
            "kvbench.durability.crashes", store, folder, *arguments, **options
        )

    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        loaded, own = Path(name) / "loaded", Path(name) / "own"
        if kind == POWER:
            evidence.make_image(loaded, IMAGE)
            with evidence.mounted(loaded, Path(name) / "mounted") as root:
                (root / STORE).mkdir()
                evidence.run_apart(command(root / STORE, "load", ""), LOAD_LIMIT)
        else:
            loaded.mkdir()
            evidence.run_apart(command(loaded, "load", ""), LOAD_LIMIT)
        for number in range(1, count + 1):
            lasting = choose.uniform(LEAST_SHARE * seconds, seconds)
            write = _writer(steady, lasting, lambda folder, trace: command(folder, "write", trace))
            evidence.copy_of(loaded, own)
            found = _crash(kind, own, write, lambda folder, n: command(folder, "check", n))
            shutil.rmtree(own) if own.is_dir() else own.unlink()
            yield about | {"number": number} | found


def main() -> None:
    folder, name, role, loaded, count, size, more, *pairs = sys.argv[1:]
    steady = Steady(int(loaded), int(count), int(size))
    options = dict(pair.split("=", 1) for pair in pairs)
    store, place = named(name), Path(folder)
    try:
        if role == "load":
            _load(store, place, steady, options)
        elif role == "write":
            _write(store, place, steady, more, options)
        else:
            print(json.dumps(check(store, place, steady, int(more), options)), flush=True)
    except StoreError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)  # engines may leave threads behind; closing may sync what is left


if __name__ == "__main__":
    main()
