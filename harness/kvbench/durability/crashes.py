"""Measures what a crash costs: the time to open the store again, and the acknowledged writes lost;
and, for comparison, the time to open a store that was closed properly.

A store is loaded and written to disk. Each crash starts from a copy of it. A process alternates
between updating a loaded record and inserting a new one, as fast as it can, until it is killed,
loses power, or closes the store. A new process then opens the store and reads every record. Run as

    python -m kvbench.durability.crashes FOLDER STORE ROLE LOADED COUNT SIZE MORE [NAME=VALUE ...]

where ROLE is load, write, close or check. MORE is the file for the trace of the writes, for `close`
after the seconds of writing and a space; for `check`, the number of acknowledged writes.
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
from kvbench.cell.filesystem import allocated
from kvbench.cell.loop import PythonLoop, make_loop
from kvbench.cell.plan import Plan, Records, make_pool
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.durability import evidence
from kvbench.durability.evidence import STORE, Stopped, Times, Write
from kvbench.durability.operations import plan_of, run_into
from kvbench.stores.known import named
from kvbench.stores.opened import OpenStore, open_store

STORES = ("flat", "leveldb", "rocksdb", "lmdb", "sqlite", "bdb", "redb", "fjall")
KILL, POWER, CLEAN = "SIGKILL", "power loss", "clean close"
KINDS = {  # by durability: a crash that may cost acknowledged writes
    "none": KILL, "process": POWER, "recoverable": POWER
}  # fmt: skip
WRITTEN, LOADED = 512 << 20, 1 << 30  # most bytes of values, written and loaded
IMAGE = 6 << 30  # bytes of the disk image, which is sparse
LEAST_SIZE, MOST_SIZE = 16, 1 << 20  # bytes of a value: shorter values may coincide
VERSIONS = 127  # versions of a record, which then repeat
LOAD_LIMIT = 600  # seconds
LEAST_SHARE = 0.25  # earliest crash, as a share of the seconds of writing
UNREAD = "opened, but not read"
TRIED = 100  # most records to try for the first correct get
Numbers = npt.NDArray[np.int64]
Row = dict[str, Any]
COLUMNS = (
    "writing_s", "acknowledged_writes", "store_bytes", "open_ms", "first_get_ms", "lost_writes",
    "kept_writes", "damaged_records", "window_writes", "window_ms",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Steady:
    """The workload: `loaded` records, then `count` writes that alternate between an update of a
    loaded record and an insert of a new one. Each loaded record is updated once before any is
    updated again. Values have `size` bytes."""

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
        """The numbers of all records in random order; the first `loaded` are those that are
        loaded."""
        return np.random.default_rng(1).permutation(self.loaded + self.count // 2)

    def numbers(self) -> Numbers:
        """The numbers of the loaded records, in key order."""
        return np.sort(self._mixed()[: self.loaded])

    def writes(self) -> tuple[Numbers, Numbers]:
        """The record number of each write, and the version it writes; version 0 is an insert."""
        mixed, pair = self._mixed(), np.arange(self.count) // 2
        updates = np.arange(self.count) % 2 == 0
        number = np.where(updates, mixed[pair % self.loaded], mixed[self.loaded + pair])
        return number, np.where(updates, pair // self.loaded + 1, 0)

    def records(self) -> Records:
        """All records of the workload, for plans that list operations."""
        size, count = RecordSize(self.size, self.size), self.loaded + self.count // 2
        return Records(Cell("null", "null", size, count, "incompressible", (), 1, 1))

    def pool(self) -> npt.NDArray[np.uint8]:
        return make_pool("incompressible", self.size, 1)


def _plan(own: Records, operations: Iterable[str], numbers: Numbers, versions: Numbers) -> Plan:
    return plan_of(own, operations, numbers.tolist(), versions.tolist())


def _load(store: Store, folder: Path, steady: Steady, options: dict[str, str]) -> None:
    own, numbers = steady.records(), steady.numbers()
    loop = make_loop(store, own, steady.pool())
    loop.open(folder, options)
    loop.load(_plan(own, ["insert"] * len(numbers), numbers, np.zeros_like(numbers)))
    loop.close()


def _write(
    store: Store, folder: Path, steady: Steady, trace: str, options: dict[str, str], longest: float
) -> None:
    """Write until all is written; with `longest`, for at most this many seconds, and close."""
    own, (numbers, versions) = steady.records(), steady.writes()
    loop = make_loop(store, own, steady.pool())
    plan = _plan(own, ["update", "insert"] * (steady.count // 2), numbers, versions)
    loop.open(folder, options)
    run_into(loop, plan, np.memmap(trace, np.uint64, "w+", shape=steady.count), longest)
    if longest:
        loop.close()


class _Reader:
    """Finds out which versions of records an open store holds."""

    def __init__(self, steady: Steady) -> None:
        self._own = steady.records()
        self._loop = PythonLoop(Store("null", "null"), self._own, steady.pool())

    def pairs(self, numbers: Numbers, versions: Numbers) -> Iterator[tuple[bytes, bytes]]:
        """The key and value of each record in the given version."""
        plan = _plan(self._own, ["update"] * len(numbers), numbers, versions)
        return ((key, value) for _, _, key, value in self._loop.taken(plan))

    def found(self, opened: OpenStore, numbers: Numbers, latest: Numbers) -> Numbers:
        """The version of each record in the store, at most its latest version; -1 if the record is
        missing, cannot be read or matches no version."""
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
    """1 if the store holds the value, 0 if it holds another one, -1 if it holds none or fails."""
    try:
        found = opened.get(key)
    except StoreError:
        return -1
    return -1 if found is None else int(found == value)


def check(
    store: Store, folder: Path, steady: Steady, acknowledged: int, options: dict[str, str]
) -> Row:
    """Open the store, and compare it with what the acknowledged writes must have left. Returns
    columns of a row. The record of the interrupted write is not checked, since both states are
    allowed. Raises StoreError."""
    reader, (numbers, versions) = _Reader(steady), steady.writes()
    under_way = numbers[acknowledged] if acknowledged < steady.count else -1
    numbers, versions = numbers[:acknowledged], versions[:acknowledged]
    latest = np.full(steady.loaded + steady.count // 2, -1)
    loaded = steady.numbers()
    latest[loaded] = 0
    latest[numbers] = versions  # the last write of a record counts
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
        store.driver()  # load the library before the clock starts
    start = time.perf_counter_ns()
    try:
        opened = open_store(store, folder, **options)
    except Exception as error:  # each binding has its own exceptions
        raise StoreError(str(error)) from error
    ready = time.perf_counter_ns()
    os.write(1, f"{UNREAD}\n".encode())  # the reason if the engine crashes from here on
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


def _writer(
    steady: Steady, seconds: float, kind: str, command: Callable[[Path, Path], list[str]]
) -> Write:
    """A function that writes until `seconds` have passed, or most of the writes are done. A writer
    that is to close the store ends by itself."""

    def due(returned: Times) -> bool:
        if kind == CLEAN:
            return False
        late = time.monotonic_ns() - int(returned[0]) >= seconds * 1e9
        return bool(returned[0] and (late or returned[steady.count * 9 // 10 - 1]))

    def write(folder: Path, stop: signal.Signals) -> Stopped:
        with tempfile.TemporaryDirectory() as aside:
            trace = Path(aside) / "returned"
            return evidence.interrupt(command(folder, trace), trace, steady.count, due, stop)

    return write


def _crash(kind: str, own: Path, write: Write, checked: Callable[[Path, int], list[str]]) -> Row:
    """The row of one crash, or clean close, of a copy of the loaded store."""
    row: Row = dict.fromkeys(COLUMNS) | {"reason": ""}

    def look(folder: Path) -> None:
        row["store_bytes"] = allocated(folder)

    end = {KILL: evidence.killed, POWER: evidence.cut_off, CLEAN: evidence.closed}[kind]
    try:
        with end(own, write, look) as (folder, stopped):
            count = len(stopped.returned)
            at = int(stopped.returned[-1]) if kind == CLEAN and count else stopped.at
            began = int(stopped.returned[0]) if count else at
            row |= {"writing_s": (at - began) / 1e9, "acknowledged_writes": count}
            row |= json.loads(evidence.run_apart(checked(folder, count), reboot=kind != KILL))
    except StoreError as error:
        step = "not written" if row["acknowledged_writes"] is None else "not opened"
        return row | {"reason": f"{error}" if UNREAD in str(error) else f"{step}: {error}"}
    first = row.pop("first")
    lasted = at - int(stopped.returned[first]) if first < count else 0
    row |= {"window_writes": count - first, "window_ms": lasted / 1e6}
    return row if row["first_get_ms"] else row | {"reason": f"{UNREAD}: no correct get in {TRIED}"}


def crashes(
    store: Store, level: str, kind: str, place: Path, steady: Steady, seconds: float, count: int
) -> Iterator[Row]:
    """A row for each of `count` crashes, or clean ends, of one kind at one durability level of a
    store. `place` is any folder. Raises StoreError if the store cannot be loaded."""
    options = {"durability": level}
    choose = random.Random(f"{store.full_name} {level}")  # the same times for each kind
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
        if kind != KILL:
            evidence.make_image(loaded, IMAGE)
            with evidence.mounted(loaded, Path(name) / "mounted") as root:
                (root / STORE).mkdir()
                evidence.run_apart(command(root / STORE, "load", ""), LOAD_LIMIT)
        else:
            loaded.mkdir()
            evidence.run_apart(command(loaded, "load", ""), LOAD_LIMIT)
        for number in range(1, count + 1):
            lasting = choose.uniform(LEAST_SHARE * seconds, seconds)

            def writes(folder: Path, trace: Path, lasting: float = lasting) -> list[str]:
                if kind == CLEAN:
                    return command(folder, "close", f"{lasting} {trace}")
                return command(folder, "write", trace)

            write = _writer(steady, lasting, kind, writes)
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
        elif role in ("write", "close"):
            longest, _, trace = more.rpartition(" ") if role == "close" else ("", "", more)
            _write(store, place, steady, trace, options, float(longest or 0))
        else:
            print(json.dumps(check(store, place, steady, int(more), options)), flush=True)
    except StoreError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)  # skip the engine's threads and exit handlers: closing may sync


if __name__ == "__main__":
    main()
