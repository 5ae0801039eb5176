"""The timed loops, in C (loop.c) and in Python: plans in, nanoseconds out."""

import contextlib
import ctypes
import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kvbench.bindings import Binding, load, open_binding
from kvbench.cache import PAGE
from kvbench.contract import Capability, StoreError
from kvbench.factors import KEY_SIZE
from kvbench.histogram import LOG_WIDTH, Histogram
from kvbench.library import (
    Constant,
    Direction,
    Status,
    address,
    filled,
    loop_library,
    make_keys,
    structure,
)
from kvbench.plan import CHUNK, CODES, POOL_SIZE, Keyspace, Plan
from kvbench.shim import option_array, read_effective_options
from kvbench.stores import Store

BATCH_RECORDS = 1000
BATCH_BYTES = 4 << 20  # of values; a larger value is a batch of its own

NAMES = {code: name for name, code in CODES.items()}

Nanoseconds = npt.NDArray[np.uint64]


SECOND = 1_000_000_000  # ns
END = int(Constant.LOOP_END)
TICK = SECOND // 10  # of a timeline
LONGEST_LATENCY, LONGEST_RUN = 3600, 3600  # seconds that a tally tells apart


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Readers beside a writer: see traffic.h. Rates a second; 0: no limit."""

    readers: int
    reads: int  # of each reader
    writes: int  # a second, at most
    seconds: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Side:
    """What the readers did, or the writer: latencies, and operations in each tenth of a second."""

    latency: Histogram
    timeline: list[int]


def make_pool(compressibility: str, largest_value: int, seed: int) -> npt.NDArray[np.uint8]:
    """The bytes that values are slices of."""
    pool = np.empty(POOL_SIZE + largest_value, np.uint8)
    fill = loop_library()[f"records_fill_{compressibility}"]
    fill(address(pool), ctypes.c_size_t(len(pool)), ctypes.c_uint64(seed))
    return pool


def page_buffers(capacity: int) -> tuple[list[npt.NDArray[np.uint8]], tuple[int, int]]:
    """Two buffers for values, and the addresses in them that begin a page (loop.h says why). They
    are written once, so that their pages count as the harness's memory, not a store's."""
    pages = [np.full(capacity + 2 * PAGE, 0xA5, np.uint8) for _ in range(2)]
    first, second = (-(-page.ctypes.data // PAGE) * PAGE for page in pages)
    return pages, (first, second)


def as_struct(plan: Plan) -> ctypes.Structure:
    """For C; it points into the plan's arrays."""
    columns = (plan.operation, plan.number, plan.offset, plan.size)
    return structure("loop_plan")(len(plan), *(column.ctypes.data for column in columns))


class Loop(Protocol):
    """Runs plans on one store and notes the nanoseconds of each operation."""

    def open(self, folder: Path, settings: Mapping[str, str]) -> None: ...

    def load(self, plan: Plan) -> Nanoseconds:
        """Write the plan's records in batches. Returns the time of each batch."""

    def run(self, plan: Plan) -> Nanoseconds:
        """Returns the time of each operation. A wrong answer is a StoreError."""

    def refuse(self, plan: Plan) -> None:
        """Try what the store must refuse: see loop_refuse. An operation that succeeds is a
        StoreError."""

    def check(self, plan: Plan, first: int, end: int) -> None:
        """Whether the records from number `first` to below `end` are those of the plan, a get of
        each in the order of their numbers; and by a scan, where the store has one, that there are
        no others: before the first number 0, and at END after the last, none at all. Anything
        else is a StoreError."""

    def effective_options(self) -> dict[str, str]: ...

    def close(self) -> None: ...


class ShimLoop:
    """The loop of loop.c, on a store in C."""

    def __init__(
        self,
        store: Store,
        stride: int,
        capacity: int,
        pool: npt.NDArray[np.uint8],
        keys: Keyspace | None = None,
    ) -> None:
        """`stride` is that of the keys, `capacity` the largest value in bytes. Scans in a mix and
        readers beside a writer need the `keys`."""
        self._library = loop_library()
        self._store = store
        self._pool = pool  # kept alive
        self._nanoseconds = np.zeros(CHUNK, np.uint64)
        self._pages, (buffer, value) = page_buffers(capacity)
        values: dict[str, Any] = {"values": keys.values} if keys else {"key_size": KEY_SIZE}
        self._loop = filled(
            "loop",
            keys.cell if keys else None,
            pool=pool.ctypes.data,
            stride=stride,
            buffer=buffer,
            value=value,
            capacity=capacity,
            **values,
        )

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._library[function](ctypes.byref(self._loop), *arguments)
        if status != Status.OK:
            raise StoreError(self._loop.error.decode(errors="replace"))

    def open(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._driver = self._store.driver()
        self._loop.driver = ctypes.addressof(self._driver)
        _refuse_forgetful(self._store, Capability(self._driver.capabilities))
        options = option_array(settings)
        self._call("loop_open", os.fsencode(folder), options, ctypes.c_size_t(len(options)))

    def close(self) -> None:
        self._call("loop_close")

    def load(self, plan: Plan, batch_records: int = BATCH_RECORDS) -> Nanoseconds:
        batches = ctypes.c_size_t()
        self._call(
            "loop_load",
            ctypes.byref(as_struct(plan)),
            ctypes.c_size_t(batch_records),
            ctypes.c_size_t(BATCH_BYTES),
            address(self._nanoseconds),
            ctypes.byref(batches),
        )
        return self._nanoseconds[: batches.value].copy()

    def run(self, plan: Plan) -> Nanoseconds:
        assert len(plan) <= CHUNK
        self.run_into(plan, self._nanoseconds)
        return self._nanoseconds[: len(plan)].copy()

    def run_into(self, plan: Plan, nanoseconds: Nanoseconds) -> None:
        """Run a plan of any length. Each time is stored as soon as its operation returns."""
        self._call("loop_run", ctypes.byref(as_struct(plan)), address(nanoseconds))

    def refuse(self, plan: Plan) -> None:
        self._call("loop_refuse", ctypes.byref(as_struct(plan)))

    def check(self, plan: Plan, first: int, end: int) -> None:
        if self._driver.capabilities & Capability.SCAN:
            limits = (ctypes.c_uint64(first), ctypes.c_uint64(end))
            self._call("loop_check", ctypes.byref(as_struct(plan)), *limits)
        self.run_into(plan, self._nanoseconds)

    def pace(self, rate: int) -> None:
        """From now on, an open loop of so many operations per second, where a batch counts as its
        records; with 0 a closed loop."""
        self._loop.pace = structure("loop_pace")(rate=rate)

    def scan(self, plan: Plan, first: int, end: int, backwards: bool) -> Nanoseconds:
        """The time of each record: see loop_scan."""
        direction = Direction.BACKWARD if backwards else Direction.FORWARD
        self._call(
            "loop_scan",
            ctypes.byref(as_struct(plan)),
            ctypes.c_uint64(first),
            ctypes.c_uint64(end),
            direction,
            address(self._nanoseconds),
        )
        return self._nanoseconds[: len(plan)].copy()

    def compact(self) -> None:
        self._call("loop_compact")

    def traffic(
        self, traffic: Traffic, version: npt.NDArray[np.uint32]
    ) -> tuple[Side, Side, float]:
        """Readers and the writer, and the seconds of the run. `version`: of each record, kept up to
        date."""
        bins = [
            np.zeros(int(np.log(LONGEST_LATENCY * SECOND) / LOG_WIDTH) + 1, np.uint64)
            for _ in range(2)
        ]
        length = traffic.seconds or LONGEST_RUN
        ticks = [np.zeros(length * SECOND // TICK + 1, np.uint64) for _ in range(2)]
        read, write = (
            structure("traffic_tally")(
                bins=b.ctypes.data, ticks=t.ctypes.data, bin_count=len(b), tick_count=len(t)
            )
            for b, t in zip(bins, ticks, strict=True)
        )
        run = filled(
            "traffic",
            None,
            readers=traffic.readers,
            reads=traffic.reads,
            duration=traffic.seconds * SECOND,
            interval=SECOND // traffic.writes if traffic.writes else 0,
            tick=TICK,
            records=len(version),
            seed=traffic.seed,
            version=version.ctypes.data,
            read=read,
            write=write,
        )
        self._call("traffic_run", ctypes.byref(run))
        used = -(-run.elapsed // TICK)
        sides = [
            Side(Histogram.of(b, t.n, t.sum, t.min, t.max), line[:used].astype(int).tolist())
            for b, t, line in zip(bins, (run.read, run.write), ticks, strict=True)
        ]
        return sides[0], sides[1], run.elapsed / SECOND

    def effective_options(self) -> dict[str, str]:
        return read_effective_options(self._driver, self._loop.kv)


def _refuse_forgetful(store: Store, capabilities: Capability) -> None:
    """Only the null store may say that it keeps nothing, since its answers are not checked."""
    if Capability.FORGETS in capabilities and store.name != "null":
        raise StoreError("says that it keeps nothing, which only the null store may")


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Any engine's exception becomes a StoreError that says what failed."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"{what}: {type(error).__name__}: {error}") from error


def _wrong(operation: str, answer: object, value: bytes) -> str:
    """What is wrong with an answer; empty when it is the expected one."""
    if operation == "get" and isinstance(answer, bytes) and answer != value:
        return f"wrong answer: {len(answer)} bytes, not the {len(value)} that were written"
    if answer == (value if operation == "get" else True):
        return ""
    return "key exists" if operation == "insert" else "key not found"


class PythonLoop:
    """The same in Python, on a binding."""

    def __init__(self, store: Store, stride: int, pool: npt.NDArray[np.uint8]) -> None:
        self._store = store
        self._stride = stride
        self._pool = pool

    def open(self, folder: Path, settings: Mapping[str, str]) -> None:
        binding = self._store.binding
        capabilities = load(binding).capabilities
        _refuse_forgetful(self._store, capabilities)
        self._checked = Capability.FORGETS not in capabilities
        self._scans = Capability.SCAN in capabilities
        with _named("open"):
            self._open: Binding = open_binding(binding, folder, **settings)

    def _records(self, plan: Plan) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Operation, number, key and value of each."""
        key = make_keys(plan.number, self._stride)
        columns = (plan.operation, plan.number, plan.offset, plan.size)
        for i, (operation, number, offset, size) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            value = self._pool[offset : offset + size].tobytes()
            yield operation, number, key[KEY_SIZE * i : KEY_SIZE * (i + 1)], value

    def _write_batch(self, batch: list[tuple[bytes, bytes]]) -> int:
        with _named("load"):
            start = time.perf_counter_ns()
            self._open.write_batch(batch)
            return time.perf_counter_ns() - start

    def load(self, plan: Plan) -> Nanoseconds:
        nanoseconds: list[int] = []
        batch: list[tuple[bytes, bytes]] = []
        room = 0
        for _, _, key, value in self._records(plan):
            if batch and (len(batch) == BATCH_RECORDS or len(value) > room):
                nanoseconds.append(self._write_batch(batch))
                batch = []
            room = (room if batch else BATCH_BYTES) - len(value)
            batch.append((key, value))
        if batch:
            nanoseconds.append(self._write_batch(batch))
        return np.array(nanoseconds, np.uint64)

    def run(self, plan: Plan) -> Nanoseconds:
        now, nanoseconds = time.perf_counter_ns, np.zeros(len(plan), np.uint64)
        store = self._open
        by_key = {"get": store.get, "remove": store.remove}
        by_record = {"insert": store.insert, "update": store.update}
        for i, (code, number, key, value) in enumerate(self._records(plan)):
            operation = NAMES[code]
            answer: object = None
            try:
                if operation in by_record:
                    write = by_record[operation]
                    start = now()
                    answer = write(key, value)
                    stop = now()
                else:
                    call = by_key[operation]
                    start = now()
                    answer = call(key)
                    stop = now()
            except Exception as error:  # each engine has its own
                what = f"{operation} of record {number}"
                raise StoreError(f"{what}: {type(error).__name__}: {error}") from error
            nanoseconds[i] = stop - start
            if self._checked and (wrong := _wrong(operation, answer, value)):
                raise StoreError(f"{operation} of record {number}: {wrong}")
        return nanoseconds

    def refuse(self, plan: Plan) -> None:
        store = self._open
        refusals: dict[str, Callable[[bytes, bytes], bool]] = {
            "insert": lambda key, value: not store.insert(key, value),
            "get": lambda key, _: store.get(key) is None,
            "update": lambda key, value: not store.update(key, value),
            "remove": lambda key, _: not store.remove(key),
        }
        for code, number, key, value in self._records(plan) if self._checked else ():
            what = f"{NAMES[code]} of record {number}"
            with _named(what):
                refused = refusals[NAMES[code]](key, value)
            if not refused:
                exists = "exists" if NAMES[code] == "insert" else "does not exist"
                raise StoreError(f"wrong answer: {what}: done, though its key {exists}")

    def check(self, plan: Plan, first: int, end: int) -> None:
        self.run(plan)
        if not self._scans:
            return
        start = self._key(first) if first else b""
        limit = None if end == END else self._key(end)
        with _named("scan"), contextlib.closing(self._open.scan(start)) as scan:
            found = itertools.takewhile(lambda record: limit is None or record[0] < limit, scan)
            pairs = itertools.zip_longest(found, self._records(plan))
            wrong = next((pair for pair in pairs if not pair[1] or pair[0] != pair[1][2:]), None)
        if wrong:
            record, planned = wrong
            what = f"record {planned[1]}" if planned else "the end"
            key = f"the key {record[0]!r:.60}" if record else "nothing"
            raise StoreError(f"wrong answer: scan: {key} at the place of {what}")

    def _key(self, number: int) -> bytes:
        return make_keys(np.array([number], np.uint64), self._stride)

    def effective_options(self) -> dict[str, str]:
        with _named("effective options"):
            return self._open.effective_options()

    def close(self) -> None:
        with _named("close"):
            self._open.close()


def make_loop(store: Store, keys: Keyspace, pool: npt.NDArray[np.uint8]) -> Loop:
    if store.binding:
        return PythonLoop(store, keys.stride, pool)
    return ShimLoop(store, keys.stride, keys.size.high, pool, keys)
