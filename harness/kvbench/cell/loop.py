"""The timed loops, in C (loop.c) and in Python: plans in, phases out."""

import contextlib
import ctypes
import dataclasses
import gc
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kvbench.cell.bindings import Binding, load, open_binding
from kvbench.cell.cache import PAGE
from kvbench.cell.contract import Capability, StoreError
from kvbench.cell.factors import Cell
from kvbench.cell.histogram import Histogram, enough
from kvbench.cell.library import Constant, Status, address, filled, loop_library, structure
from kvbench.cell.meter import SECOND, Meter
from kvbench.cell.phase import BINS, QUANTILES, Phase, Phases
from kvbench.cell.plan import CODES, NAMES, NO_LIMIT, ORDERS, SAMPLES, Plan, Records
from kvbench.cell.shim import option_array, read_effective_options
from kvbench.cell.store import Store
from kvbench.cell.workload import Step

BATCH_RECORDS = 1000
BATCH_BYTES = 4 << 20  # most bytes of values in a batch; a larger value is its own batch
RECORD_BYTES = 1 << 10  # buffer bytes per record of a larger batch
WHOLE = Constant.PLAN_OPERATIONS  # the phase of all operations
TICK = SECOND // 10  # ns per entry of a timeline
LONGEST_RUN = 3600  # seconds
LATE = ("p50_ns", "p99_ns")  # quantiles of the lateness of operations
CHURNING = ("insert", "remove")
WALL, CHURN = 4, 8  # LOOP_WALL and LOOP_CHURN of loop.h


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Readers and writers that run concurrently: see traffic.h. 0 means no limit."""

    readers: int
    writers: int
    reads: int  # by each reader
    writes: int  # at most, per second, by all writers together
    seconds: float
    seed: int
    # Of several processes with a writer each: which one writes, and how many there are.
    first: int = 0
    among: int = 0
    backup: Path | None = None  # the empty folder for a backup, which the one reader makes

    @classmethod
    def of(cls, step: Step, cell: Cell, backup: Path | None = None) -> Self:
        """The traffic that a step of a workload specifies."""
        readers, writers = step.threads()
        return cls(
            readers=readers,
            writers=writers,
            reads=step.gets(cell.records),
            writes=step.get("writes", 10_000),
            seconds=step.get("seconds", 0),
            seed=cell.plan_seed,
            backup=backup,
        )


def shares(done: Sequence[int]) -> dict[str, Any]:
    """The columns that describe how threads shared the operations that each has done."""
    total = sum(done)
    return {
        "threads": len(done), "least_share": min(done) / total, "most_share": max(done) / total
    } if total else {}  # fmt: skip


def page_buffers(*sizes: int) -> tuple[list[npt.NDArray[np.uint8]], list[int]]:
    """Buffers for values, and in each the address of the first whole page (loop.h says why). They
    are filled here, so that their pages count as the harness's memory, not the store's."""
    pages = [np.full(size + 2 * PAGE, 0xA5, np.uint8) for size in sizes]
    return pages, [-(-page.ctypes.data // PAGE) * PAGE for page in pages]


class ShimLoop:
    """The loop of loop.c: it runs plans on a store in C and records what the operations took."""

    def __init__(self, store: Store, records: Records, pool: npt.NDArray[np.uint8]) -> None:
        self._library, self._store, self._records = loop_library(), store, records
        self._pool = pool  # kept alive
        self.meter: Meter | None = None
        capacity = records.size.high
        batch = max((step.get("batch", 1) for step in records.steps), default=1)
        whole = records.cell.batch * capacity
        room = max(BATCH_BYTES, capacity, batch * min(capacity, RECORD_BYTES), whole)
        self._pages, (buffer, value) = page_buffers(capacity, room)
        records.values.pool = pool.ctypes.data
        self.c = filled(
            "loop",
            records.cell,
            stride=records.stride,
            values=records.values,
            buffer=buffer,
            value=value,
            capacity=capacity,
            room=room,
            meter=structure("meter")(io=-1, device=-1, instructions=-1),
        )

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._library[function](ctypes.byref(self.c), *arguments)
        if status != Status.OK:
            raise StoreError(self.c.error.decode(errors="replace"))

    def open(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._driver = self._store.driver()
        self.c.driver = ctypes.addressof(self._driver)
        if self.meter:
            self.c.meter = self.meter.struct
        _refuse_forgetful(self._store, Capability(self._driver.capabilities))
        options = option_array(settings)
        self._call("loop_open", os.fsencode(folder), options, ctypes.c_size_t(len(options)))

    def close(self) -> None:
        self._call("loop_close")

    def load(self, plan: Plan, batch_records: int = BATCH_RECORDS) -> Phase:
        """Write the plan's records in batches. Returns the phase, whose latencies are those of
        batches."""
        phases = Phases(1).note_seconds(0)
        size = ctypes.c_size_t(batch_records)
        self._call("loop_load", ctypes.byref(plan.c), size, phases.at(0))
        return phases.phase(0, self.meter)

    def run(self, plan: Plan, least_s: float = 0, longest_s: float = 0) -> dict[str, Phase]:
        """Run a plan; a plan of drawn records continues until `least_s` seconds have passed.
        Returns the phase of each operation by name, and under "" that of all operations. Raises
        StoreError at a wrong answer."""
        phases = Phases(WHOLE + 1).note_seconds(WHOLE, *range(WHOLE))
        least = ctypes.c_uint64(round(least_s * SECOND))
        self.c.longest = round(longest_s * SECOND)
        self._call("loop_run", ctypes.byref(plan.c), least, phases.c)
        self.c.longest = 0
        return {"": phases.phase(WHOLE, self.meter)} | self._kinds(phases)

    def _kinds(self, phases: Phases) -> dict[str, Phase]:
        """The phase of each operation that was executed, by name."""
        found = {name: phases.phase(code, self.meter) for name, code in CODES.items()}
        return {name: phase for name, phase in found.items() if phase.latency.n}

    def _rounds(self, timed: tuple[str, ...], samples: int, least_s: float) -> Any:
        return structure("loop_rounds")(
            records=ctypes.addressof(self._records.c),
            timed=sum(1 << CODES[name] for name in timed),
            order=ORDERS[self._records.cell.key_order],
            burst=self._records.churn,
            samples=samples,
            least=round(least_s * SECOND),
            batch=self._records.cell.batch,
        )

    def rounds(self, timed: tuple[str, ...], samples: int, least_s: float) -> dict[str, Phase]:
        """Run rounds of these operations until each had `samples` records and took `least_s`
        seconds: see loop_rounds. Returns the phase of each operation by name."""
        phases, rounds = Phases(WHOLE), self._rounds(timed, samples, least_s)
        self._call("loop_rounds", ctypes.byref(rounds), phases.c)
        return self._kinds(phases)

    def burst(self, operation: str, count: int) -> Phase:
        """Run `count` gets or updates as rounds do. Returns their phase."""
        phases, rounds = Phases(WHOLE), self._rounds((operation,), 1, 0)
        code = CODES[operation]
        self._call("loop_burst", ctypes.byref(rounds), code, ctypes.c_uint64(count), phases.c)
        return phases.phase(code, self.meter)

    def refuse(self, plan: Plan) -> None:
        """Try operations that the store must refuse: see loop_refuse. Raises StoreError if one
        succeeds."""
        self._call("loop_refuse", ctypes.byref(plan.c))

    def check(self) -> None:
        """Check that the store holds every live record with its value. A store that scans is
        checked by a scan, which also finds records that should not exist, and by some gets; any
        other by a get of each record. Raises StoreError."""
        if self._driver.capabilities & Capability.SCAN:
            self._call("loop_scan", ctypes.byref(self._records.live("get").c), None)
            self.run(self._records.picked())
        else:
            self.run(self._records.live("get"))

    def pace(self, rate: int, exponential: bool = False, seed: int = 0) -> None:
        """From now on, run an open loop of `rate` operations per second with constant or
        exponential gaps, or with rate 0 a closed loop. A batch counts as many operations as it has
        records."""
        self._late = np.zeros(BINS, np.uint64)
        late = structure("tally")(bins=self._late.ctypes.data, bin_count=BINS)
        self.c.pace = structure("loop_pace")(
            rate=rate, exponential=exponential, random=seed, late=late
        )

    @property
    def elapsed(self) -> float:
        """When the next operation of the open loop is due, in ns after the first."""
        return float(self.c.pace.elapsed)

    def paced(self) -> dict[str, Any]:
        """The columns that describe the open loop since its pace was set; empty for a closed
        loop."""
        pace = self.c.pace
        if not pace.rate:
            return {}
        late = Histogram.of(
            self._late, *(getattr(pace.late, f) for f in ("n", "sum", "min", "max"))
        )
        return {
            "asked_rate": pace.rate,
            "waited_s": pace.waited / SECOND,
            **{
                f"late_{name}": late.quantile(share) if enough(late.n, share) else None
                for name, share in QUANTILES.items()
                if name in LATE
            },
            "late_max_ns": late.max if late.n else None,
        }

    def scan(self, plan: Plan) -> Phase:
        """Scan the records of a plan, and return the phase, with the time of each record: see
        loop_scan."""
        phases = Phases(1).note_seconds(0)
        self._call("loop_scan", ctypes.byref(plan.c), phases.at(0))
        return phases.phase(0, self.meter)

    def find(self) -> None:
        """Find out which version of each record the open store has, a backup: see traffic_find.
        Raises StoreError if a version is none that the record had during the backup."""
        self._call("traffic_find", ctypes.byref(self._records.c), address(self._records.before))

    def compact(self) -> Phase:
        phases = Phases(1)
        self._call("loop_compact", phases.at(0))
        return phases.phase(0, self.meter)

    def traffic(self, traffic: Traffic) -> dict[str, Phase]:
        """Run readers and writers. Returns the phase of the readers as "read", that of the writers
        as "write", and as "" what both used together."""
        ticks = round((traffic.seconds or LONGEST_RUN) * SECOND) // TICK + 1
        phases = Phases(3, ticks, TICK).note_seconds(0).note_seconds(1)
        pointers = {
            name: ctypes.addressof(phases.c[i]) for i, name in enumerate(("read", "write", "both"))
        }
        done = np.zeros(traffic.readers + traffic.writers, np.uint64)
        run = structure("traffic")(
            readers=traffic.readers,
            writers=traffic.writers,
            reads=traffic.reads,
            duration=round(traffic.seconds * SECOND),
            interval=traffic.writers * SECOND // traffic.writes if traffic.writes else 0,
            seed=traffic.seed,
            first=traffic.first,
            among=traffic.among or traffic.writers,
            backup=os.fsencode(traffic.backup) if traffic.backup else None,
            records=ctypes.addressof(self._records.c),
            done=done.ctypes.data,
            **pointers,
        )
        self._call("traffic_run", ctypes.byref(run))
        read, write, both = (phases.phase(i, self.meter) for i in range(3))
        both.paused_s = None
        assert both.wall_s is not None
        sides = {"read": (read, done[: traffic.readers]), "write": (write, done[traffic.readers :])}
        for i, (side, each) in enumerate(sides.values()):
            side.wall_s, side.items = both.wall_s, side.latency.n
            side.seconds = phases.seconds(i, round(both.wall_s * SECOND))
            side.timeline = phases.line(i, -(-int(both.wall_s * SECOND) // TICK))
            side.more = shares(each.tolist())
        both.items = read.items + write.items
        return {"": both} | {name: side for name, (side, each) in sides.items() if len(each)}

    def effective_options(self) -> dict[str, str]:
        return read_effective_options(self._driver, self.c.kv)


def _refuse_forgetful(store: Store, capabilities: Capability) -> None:
    """Let only the null store declare that it keeps nothing, since the answers of such a store are
    not checked."""
    if Capability.FORGETS in capabilities and store.name != "null":
        raise StoreError("says that it keeps nothing, which only the null store may")


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Turn any exception of an engine into a StoreError that names what failed."""
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
    """The loop in Python, on a binding. Its methods correspond to those of ShimLoop."""

    def __init__(self, store: Store, records: Records, pool: npt.NDArray[np.uint8]) -> None:
        self._store, self._records = store, records
        self.meter: Meter | None = None
        self._pool = pool  # kept alive
        self._pages, (value,) = page_buffers(records.size.high)
        self._value = value
        whole = ctypes.create_string_buffer(Constant.RECORDS_KEY_MAX)
        self._key = (ctypes.c_char * records.key_size).from_buffer(whole)  # C may write past it
        records.values.pool = pool.ctypes.data
        self.c = filled(
            "loop", records.cell, stride=records.stride, values=records.values, value=value
        )

    def open(self, folder: Path, settings: Mapping[str, str]) -> None:
        binding = self._store.binding
        capabilities = load(binding).capabilities
        _refuse_forgetful(self._store, capabilities)
        self._checked = Capability.FORGETS not in capabilities
        self._scans = Capability.SCAN in capabilities
        gc.collect()
        gc.freeze()  # what is there now takes no time of later collections
        with _named("open"):
            self._open: Binding = open_binding(binding, folder, **settings)

    def taken(self, plan: Plan) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Yield the operation, record number, key and value of each operation of a plan."""
        item, size = structure("plan_item")(), ctypes.c_uint64()
        arguments = (
            ctypes.byref(self.c), ctypes.byref(plan.c), ctypes.byref(item), self._key,
            ctypes.byref(size),
        )  # fmt: skip
        take, value = loop_library().loop_take, self._value
        while take(*arguments) == Status.OK:
            yield item.operation, item.number, self._key.raw, ctypes.string_at(value, size.value)

    @contextlib.contextmanager
    def _timed(self, phase: Phase) -> Iterator[list[int]]:
        """Add to a phase the times that are appended to the list. Garbage collection is off
        meanwhile."""
        times: list[int] = []
        gc.disable()
        before, start = self.meter.read() if self.meter else {}, time.perf_counter_ns()
        try:
            yield times
        finally:
            gc.enable()
        seconds = (time.perf_counter_ns() - start) / SECOND
        phase.use(before, self.meter.read() if self.meter else {}, seconds)
        phase.latency.add(np.array(times, np.uint64))

    def _write_batch(self, batch: list[tuple[bytes, bytes]]) -> int:
        with _named("load"):
            start = time.perf_counter_ns()
            self._open.write_batch(batch)
            return time.perf_counter_ns() - start

    def load(self, plan: Plan, batch_records: int = BATCH_RECORDS) -> Phase:
        phase = Phase()
        batch: list[tuple[bytes, bytes]] = []
        room = 0
        with self._timed(phase) as times:
            for _, _, key, value in self.taken(plan):
                if batch and (len(batch) == batch_records or len(value) > room):
                    times.append(self._write_batch(batch))
                    batch = []
                room = (room if batch else BATCH_BYTES) - len(value)
                batch.append((key, value))
                phase.items += 1
            if batch:
                times.append(self._write_batch(batch))
        return phase

    def _run(self, plan: Plan, phase: Phase) -> None:
        with self._timed(phase) as times:
            self.run_each(plan, times.append)
        phase.items = phase.latency.n

    def run_each(self, plan: Plan, note: Callable[[int], object]) -> None:
        """Run a plan, and call `note` after each operation with its time in ns. Raises StoreError
        at a wrong answer."""
        now, store = time.perf_counter_ns, self._open
        by_key = {CODES["get"]: store.get, CODES["remove"]: store.remove}
        by_record = {CODES["insert"]: store.insert, CODES["update"]: store.update}
        for code, number, key, value in self.taken(plan):
            answer: object = None
            try:
                if code in by_record:
                    write = by_record[code]
                    start = now()
                    answer = write(key, value)
                    stop = now()
                else:
                    call = by_key[code]
                    start = now()
                    answer = call(key)
                    stop = now()
            except Exception as error:  # each engine has its own
                what = f"{NAMES[code]} of record {number}"
                raise StoreError(f"{what}: {type(error).__name__}: {error}") from error
            note(stop - start)
            if self._checked and (wrong := _wrong(NAMES[code], answer, value)):
                raise StoreError(f"{NAMES[code]} of record {number}: {wrong}")

    def run(self, plan: Plan, least_s: float = 0) -> dict[str, Phase]:
        phase = Phase()
        self._run(plan, phase)
        while (phase.wall_s or 0) < least_s:
            plan.c.left = SAMPLES
            self._run(plan, phase)
        return {"": phase}

    def _burst(self, operation: str, count: int, phase: Phase) -> None:
        if operation == "update" and (size := self._records.cell.batch):
            self._put(count // size, size, phase)
        else:
            self._run(self._records.burst(operation, count), phase)

    def _put(self, count: int, size: int, phase: Phase) -> None:
        """Write `count` batches of `size` distinct records."""
        batch: dict[bytes, bytes] = {}
        with self._timed(phase) as times:
            for _, _, key, value in self.taken(self._records.burst("update", NO_LIMIT)):
                batch[key] = value
                if len(batch) == size:
                    times.append(self._write_batch(list(batch.items())))
                    batch.clear()
                if len(times) == count:
                    break
        phase.items += count * size

    def rounds(self, timed: tuple[str, ...], samples: int, least_s: float) -> dict[str, Phase]:
        burst, least = self._records.churn, least_s * SECOND
        phases = {name: Phase() for name in ("insert", "get", "update", "remove")}

        def walls(*names: str) -> float:
            return sum(phases[name].wall_s or 0 for name in names)

        def lacks(name: str) -> bool:
            latency, wall = phases[name].latency, walls(name)
            both = walls(*CHURNING) if name in CHURNING else 0
            enough = latency.sum >= least or wall >= WALL * least_s or both >= CHURN * least_s
            return name in timed and (phases[name].items < samples or not enough)

        while any(map(lacks, phases)):
            churns = any(map(lacks, CHURNING))
            for name, phase in phases.items():
                if churns if name in CHURNING else lacks(name):
                    end = phase.latency.sum + least * burst / samples
                    self._burst(name, burst, phase)
                    while name not in CHURNING and phase.latency.sum < end:
                        self._burst(name, burst, phase)
        return {name: phase for name, phase in phases.items() if phase.latency.n}

    def burst(self, operation: str, count: int) -> Phase:
        phase = Phase()
        self._burst(operation, count, phase)
        return phase

    def refuse(self, plan: Plan) -> None:
        store = self._open
        refusals: dict[str, Callable[[bytes, bytes], bool]] = {
            "insert": lambda key, value: not store.insert(key, value),
            "get": lambda key, _: store.get(key) is None,
            "update": lambda key, value: not store.update(key, value),
            "remove": lambda key, _: not store.remove(key),
        }
        for code, number, key, value in self.taken(plan) if self._checked else ():
            what = f"{NAMES[code]} of record {number}"
            with _named(what):
                refused = refusals[NAMES[code]](key, value)
            if not refused:
                exists = "exists" if NAMES[code] == "insert" else "does not exist"
                raise StoreError(f"wrong answer: {what}: done, though its key {exists}")

    def check(self) -> None:
        if not self._scans:
            self.run_each(self._records.live("get"), lambda _: None)
            return
        with _named("scan"), contextlib.closing(self._open.scan(b"")) as scan:
            pairs = itertools.zip_longest(scan, self.taken(self._records.live("get")))
            wrong = next((pair for pair in pairs if not pair[1] or pair[0] != pair[1][2:]), None)
        if wrong:
            record, planned = wrong
            what = f"record {planned[1]}" if planned else "the end"
            key = f"the key {record[0]!r:.60}" if record else "nothing"
            raise StoreError(f"wrong answer: scan: {key} at the place of {what}")
        self.run_each(self._records.picked(), lambda _: None)

    def effective_options(self) -> dict[str, str]:
        with _named("effective options"):
            return self._open.effective_options()

    def close(self) -> None:
        with _named("close"):
            self._open.close()


Loop = ShimLoop | PythonLoop


def make_loop(store: Store, records: Records, pool: npt.NDArray[np.uint8]) -> Loop:
    return PythonLoop(store, records, pool) if store.binding else ShimLoop(store, records, pool)
