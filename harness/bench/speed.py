"""How much of each number is the harness's own? `make bench` writes the answer as a table.

Every comparison is made of pairs, run one after the other in fresh processes, in an order that
alternates; the quotient of a pair is one value. A measure is missed when the whole interval of its
values lies outside its goal.
"""

import ctypes
import dataclasses
import functools
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
from kvbench import BadInput, machine, stores, write_whole
from kvbench.estimate import seconds
from kvbench.grid import Cell, Grid, RecordSize
from kvbench.loop import BATCH_RECORDS, ShimLoop, as_struct, make_pool
from kvbench.meter import PAGE
from kvbench.plan import CHUNK, CODES, POOL_SIZE, Plan
from kvbench.results import TABLES, Folder
from kvbench.sweep import BAR, ENVIRONMENT, Sweep, run_cell
from tabulate import tabulate
from tqdm import tqdm

ROOT = Path(__file__).parents[2]
CONFIDENCE = 0.95  # of the interval of a median, at least, where there are values enough
ENGINES = ("leveldb", "rocksdb", "lmdb", "sqlite", "bdb", "flat")
LOOKING_UP = (
    "leveldb",
    "rocksdb",
    "lmdb",
    "bdb",
)  # have no update that tells of a missing key
VALUE = 100  # bytes
DURABILITY = {"durability": "process"}
# What the engines' own benchmarks set otherwise than the engine as shipped, set back.
PEER_OPTIONS = {
    "rocksdb": (
        "--enable_pipelined_write=false",
        "--dump_malloc_stats=false",
        "--table_cache_numshardbits=6",
        "--delayed_write_rate=16777216",
        "--hard_pending_compaction_bytes_limit=274877906944",
        "--pin_top_level_index_and_filter=true",
        "--index_shortening_mode=1",
        "--perf_level=2",
    ),
    "lmdb": ("--writemap=0",),
}
DB_BENCH = ("fillrandom", "fillseq", "readrandom", "overwrite")
NOTEBOOKS = ("best-option", "latency", "space")

Values = Sequence[float]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much is measured. The defaults are those of the paper."""

    pairs: int = 9
    records: int = 100_000
    files: int = 10_000  # records of the flat folder
    peer_records: int = 200_000
    clock_pairs: int = 1_000_000
    many_operations: int = 100_000_000
    cell_files: int = 50_000
    repeats: int = 3  # of what takes long


@dataclasses.dataclass(frozen=True)
class Measure:
    """One line of the table. `low` and `high` are what is allowed."""

    group: str
    name: str
    unit: str
    values: Values
    low: float = -math.inf
    high: float = math.inf
    note: str = ""

    def row(self) -> dict[str, Any]:
        least, greatest = interval(self.values)
        goal = {
            (True, True): "",
            (True, False): f"at most {self.high:g}",
            (False, True): f"at least {self.low:g}",
            (False, False): f"{self.low:g} to {self.high:g}",
        }[self.low == -math.inf, self.high == math.inf]
        outside = greatest < self.low or least > self.high
        return {
            "group": self.group,
            "measure": self.name,
            "unit": self.unit,
            "value": float(np.median(self.values)),
            "low": least,
            "high": greatest,
            "n": len(self.values),
            "goal": goal,
            "met": "" if not goal else "missed" if outside else "met",
            "note": self.note,
        }


def interval(values: Values) -> tuple[float, float]:
    """Of the median: the narrowest pair of order statistics that holds it with CONFIDENCE; the
    least and the greatest value where there are too few for that."""
    n, order = len(values), sorted(values)
    beyond, tail = 0, 0.0
    while 2 * (tail + math.comb(n, beyond) / 2**n) <= 1 - CONFIDENCE:
        tail += math.comb(n, beyond) / 2**n
        beyond += 1
    k = max(beyond - 1, 0)
    return order[k], order[n - 1 - k]


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise BadInput(f"{function.__name__}{arguments}: its process died") from None


def interleaved(
    rounds: int, **runs: Callable[[int], dict[str, float]]
) -> dict[str, list[dict[str, float]]]:
    """What each of the runs returned, round by round; each round begins with another of them. A
    run is given the round's number, for its seed."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    names = list(runs)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            found[name].append(runs[name](i))
    return found


def quotients(
    ones: Sequence[dict[str, float]], others: Sequence[dict[str, float]], name: str
) -> list[float]:
    return [one[name] / other[name] for one, other in zip(ones, others, strict=True)]


# Plans


def plan(operation: str, numbers: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Plan:
    return Plan(
        np.full(len(numbers), CODES[operation], np.uint8),
        np.ascontiguousarray(numbers, np.uint64),
        np.ascontiguousarray(offsets, np.uint32),
        np.full(len(numbers), VALUE, np.uint32),
    )


def plans(records: int, seed: int) -> dict[str, Plan]:
    """Fill in the order of the keys, update at random, get at random: as many as the records."""
    random = np.random.default_rng(seed)
    offsets = random.integers(0, POOL_SIZE, records)
    written, updated = (
        random.integers(0, records, records),
        random.integers(0, POOL_SIZE, records),
    )
    found = {
        "fill": plan("insert", np.arange(records), offsets),
        "update": plan("update", written, updated),
    }
    offsets[written] = updated  # of a record that was updated twice the last one counts
    read = random.integers(0, records, records)
    return found | {"get": plan("get", read, offsets[read])}


def chunks(whole: Plan) -> Iterator[Plan]:
    """In parts that the harness takes at once, without a batch that is cut short."""
    most = CHUNK // BATCH_RECORDS * BATCH_RECORDS
    for start in range(0, len(whole), most):
        part = slice(start, start + most)
        yield Plan(*(getattr(whole, field.name)[part] for field in dataclasses.fields(Plan)))


class Timer:
    """Seconds of a block, on the clock of the wall."""

    def __enter__(self) -> "Timer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start


# The floor


def _threads(count: int, work: Callable[[int], None]) -> float:
    """Seconds until all are done. The C loop lets go of the interpreter's lock."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    with Timer() as timer:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return timer.seconds


def _null_loops(threads: int, operations: int) -> dict[str, float]:
    """Nanoseconds an operation of the loop on the null store, and a pair of clock reads."""
    pool = make_pool("incompressible", VALUE, 1)
    found: dict[str, float] = {}
    times = [np.zeros(operations, np.uint64) for _ in range(threads)]
    random = np.random.default_rng(1)
    offsets = random.integers(0, POOL_SIZE, operations)
    numbers = random.permutation(operations)
    with tempfile.TemporaryDirectory() as folder:
        loops = [ShimLoop(stores.Store("null"), 1, VALUE, pool) for _ in range(threads)]
        for loop in loops:
            loop.open(Path(folder), {})
        for operation in ("insert", "get", "update", "remove"):
            own = plan(operation, numbers, offsets)
            taken = _threads(threads, lambda i, own=own: loops[i].run_into(own, times[i]))  # type: ignore[misc]
            found[operation] = taken / operations * 1e9
        found["told"] = float(np.mean([own.mean() for own in times]))
        for loop in loops:
            loop.close()
    clock = stores.loop_library().bench_clock

    def read_clock(i: int) -> None:
        clock(ctypes.c_size_t(operations), ctypes.c_void_p(times[i].ctypes.data))

    found["clock"] = _threads(threads, read_clock) / operations * 1e9
    return found


def floor(scale: Scale) -> Iterator[Measure]:
    for threads in (1, 4):
        runs = [
            in_fresh_process(_null_loops, threads, scale.clock_pairs) for _ in range(scale.pairs)
        ]
        where = f"{threads} thread{'s' if threads > 1 else ''}"
        kinds = ("insert", "get", "update", "remove")
        loop = [float(np.mean([run[kind] for kind in kinds])) for run in runs]
        clock = [run["clock"] for run in runs]
        yield Measure("floor", f"two clock reads, {where}", "ns", clock)
        yield Measure("floor", f"timed loop on the null store, {where}", "ns", loop)
        yield Measure(
            "floor",
            f"timed loop over two clock reads, {where}",
            "1",
            [a / b for a, b in zip(loop, clock, strict=True)],
            high=1.3,
            note="whole loop, an operation: key, value, check, clock and call",
        )
        if threads == 1:
            told = [run["told"] for run in runs]
            yield Measure("floor", "time that a null operation is told to take", "ns", told)
            made = [run["update"] - run["remove"] for run in runs]
            yield Measure(
                "floor",
                f"making a value of {VALUE} B, outside the timed part",
                "ns",
                made,
                high=float(np.median(told)),
                note="a copy from the pool; goal: no more than the floor",
            )


# The loops: the harness's own, and those written by hand


class HarnessLoop:
    """The harness on an engine's shim. Each method returns the sum of the nanoseconds told."""

    def __init__(self, engine: str, records: int, seed: int) -> None:
        pool = make_pool("incompressible", VALUE, seed)
        self._loop = ShimLoop(stores.Store(engine), stride(records), VALUE, pool)
        self._nanoseconds = np.zeros(records, np.uint64)

    def open(self, folder: Path) -> None:
        self._loop.open(folder, DURABILITY)

    def fill(self, work: Plan, batch: int) -> float:
        return float(sum(int(self._loop.load(part, batch).sum()) for part in chunks(work)))

    def update(self, work: Plan, look_up: bool = True) -> float:
        return self.get(work)  # the plan says what to do; updates look up, as the contract asks

    def get(self, work: Plan) -> float:
        self._loop.run_into(work, self._nanoseconds)
        return float(self._nanoseconds.sum())

    def close(self) -> None:
        self._loop.close()


class _Bare(ctypes.Structure):
    """struct bare"""

    _fields_ = (
        ("pool", ctypes.c_void_p),
        ("stride", ctypes.c_uint64),
        ("buffer", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("capacity", ctypes.c_size_t),
    )


class BareLoop:
    """The same by hand; see bare.h."""

    def __init__(self, library: str, records: int, seed: int) -> None:
        self._code = ctypes.CDLL(library)
        self._pool = make_pool("incompressible", VALUE, seed)
        self._pages = [np.full(VALUE + 2 * PAGE, 0xA5, np.uint8) for _ in range(2)]
        buffer, value = (-(-page.ctypes.data // PAGE) * PAGE for page in self._pages)
        self._bare = _Bare(self._pool.ctypes.data, stride(records), buffer, value, VALUE)
        self._nanoseconds = np.zeros(records, np.uint64)

    def _call(self, function: str, work: Plan, *arguments: Any) -> float:
        self._nanoseconds[:] = 0
        times = ctypes.c_void_p(self._nanoseconds.ctypes.data)
        passed = (
            ctypes.byref(self._bare),
            ctypes.byref(as_struct(work)),
            *arguments,
            times,
        )
        self._code[function](*passed)
        return float(self._nanoseconds.sum())

    def open(self, folder: Path) -> None:
        self._code.bare_open(os.fsencode(folder))

    def fill(self, work: Plan, batch: int) -> float:
        return self._call("bare_fill", work, ctypes.c_size_t(batch))

    def update(self, work: Plan, look_up: bool = True) -> float:
        return self._call("bare_update", work, ctypes.c_bool(look_up))

    def get(self, work: Plan) -> float:
        return self._call("bare_get", work)

    def close(self) -> None:
        self._code.bare_close()


Loop = type[HarnessLoop] | type[BareLoop]


def stride(records: int) -> int:
    return (2**64 - 1) // records


def run_loop(
    kind: Loop, what: str, look_up: bool, records: int, seed: int, folder: str
) -> dict[str, float]:
    """Nanoseconds of each part as the loop tells them, and seconds of the load by the wall. `what`
    is the engine of the harness, or the library of a bare loop."""
    work, loop = plans(records, seed), kind(what, records, seed)
    loop.open(Path(folder))
    with Timer() as timer:
        fill = loop.fill(work["fill"], BATCH_RECORDS)
    found = {"fill": fill, "load": timer.seconds}
    found |= {
        "update": loop.update(work["update"], look_up),
        "get": loop.get(work["get"]),
    }
    loop.close()
    return found


def _in_folder(place: Path, run: Callable[..., Any], *arguments: Any) -> Any:
    """In a fresh process, in a folder of its own that is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return in_fresh_process(run, *arguments, folder)


def bare(scale: Scale, libraries: Path, place: Path) -> Iterator[Measure]:
    """Throughput of the harness over that of the bare loop: nanoseconds the other way round."""
    known = stores.known()
    for engine in ENGINES:
        library = libraries / f"{engine}.so"
        if not library.exists() or not known[engine].available:
            continue
        records = scale.files if engine == "flat" else scale.records
        for look_up in (True, False) if engine in LOOKING_UP else (True,):
            run = functools.partial(_in_folder, place)
            found = interleaved(
                scale.pairs,
                bare=functools.partial(run, run_loop, BareLoop, str(library), look_up, records),
                harness=functools.partial(run, run_loop, HarnessLoop, engine, True, records),
            )
            quotient = functools.partial(quotients, found["bare"], found["harness"])
            if not look_up:
                yield Measure(
                    "bare loop",
                    f"{engine}: update without the look-up",
                    "1",
                    quotient("update"),
                    low=0.97,
                    note="the contract's update tells whether the key existed",
                )
                continue
            for operation in ("fill", "update", "get"):
                name = f"{engine}: {operation}"
                yield Measure("bare loop", name, "1", quotient(operation), low=0.97)
            load = quotients(found["harness"], found["bare"], "load")
            yield Measure("load", f"{engine}: wall time of loading", "1", load, high=1.1)


# The peers: the engines' own benchmarks, and ioarena


def _run_program(command: Sequence[str], folder: str) -> str:
    place = {
        **os.environ,
        "TEST_TMPDIR": folder,
    }  # each db_bench knows it; LMDB's no other
    done = subprocess.run(
        command, env=place, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _run_db_bench(
    program: str, engine: str, records: int, _round: int, folder: str
) -> dict[str, float]:
    """Nanoseconds an operation, as the program tells them. Not all of them take a seed."""
    names = ",".join(DB_BENCH)
    own = (f"--num={records}", f"--value_size={VALUE}", "--compression_ratio=1")
    command = [program, f"--benchmarks={names}", *own, *PEER_OPTIONS.get(engine, ())]
    told = re.findall(r"^(\w+)\s*:\s*([0-9.]+) micros/op", _run_program(command, folder), re.M)
    return {name: float(value) * 1000 for name, value in told}


def _run_ioarena(
    program: str, engine: str, records: int, _round: int, folder: str
) -> dict[str, float]:
    """The same of ioarena: from operations a second."""
    own = (
        "-n",
        str(records),
        "-k",
        "16",
        "-v",
        str(VALUE),
        "-m",
        "lazy",
        "-p",
        "stores",
    )
    text = _run_program([program, "-D", engine, "-B", "set,get", *own], folder)
    units = {"": 1e9, "K": 1e6, "M": 1e3}
    told = re.findall(r">> (set|get)\(.*?throughput:\s*([0-9.]+)([KM]?)ops/s", text, re.S)
    return {name: units[unit] / float(value) for name, value, unit in told}


def _db_bench_work(records: int, seed: int) -> dict[str, Plan]:
    """As db_bench does it; fillrandom and overwrite may draw a record again."""
    random = np.random.default_rng(seed)
    one, read, other = random.integers(0, records, (3, records))
    first, filled, last = random.integers(0, POOL_SIZE, (3, records))
    return {
        "fillrandom": plan("insert", one, first),
        "fillseq": plan("insert", np.arange(records), filled),
        "readrandom": plan("get", read, filled[read]),
        "overwrite": plan("insert", other, last),
    }


def _ioarena_work(records: int, seed: int) -> dict[str, Plan]:
    """As ioarena does it: every record once, scattered; then gets in the same order."""
    random = np.random.default_rng(seed)
    numbers, offsets = (
        random.permutation(records),
        random.integers(0, POOL_SIZE, records),
    )
    return {
        "set": plan("insert", numbers, offsets),
        "get": plan("get", numbers, offsets),
    }


def _like_peer(
    kind: Loop,
    what: str,
    make_work: Callable[[int, int], dict[str, Plan]],
    records: int,
    seed: int,
    folder: str,
) -> dict[str, float]:
    """Nanoseconds an operation by the wall, since a peer's figure has everything in it, too. Each
    write is a batch of one, so that nothing is looked up. What fills begins a store."""
    loop, found, opened = kind(what, records, seed), {}, False
    for name, work in make_work(records, seed).items():
        if name in ("fillrandom", "fillseq", "set"):
            if opened:
                loop.close()
            (Path(folder) / name).mkdir()
            loop.open(Path(folder) / name)
            opened = True
        reads = work.operation[0] == CODES["get"]
        with Timer() as timer:
            if reads:
                loop.get(work)
            else:
                loop.fill(work, 1)
        found[name] = timer.seconds / records * 1e9
    loop.close()
    return found


def peers(
    scale: Scale, programs: Sequence[tuple[str, str]], libraries: Path, place: Path
) -> Iterator[Measure]:
    """Throughput of the harness, and of the bare loop, over that of each peer."""
    records = scale.peer_records
    run = functools.partial(_in_folder, place)
    for engine, program in programs:
        ioarena = Path(program).name == "ioarena"
        run_peer = _run_ioarena if ioarena else _run_db_bench
        work = _ioarena_work if ioarena else _db_bench_work
        library = str(libraries / f"{engine}.so")
        found = interleaved(
            scale.pairs,
            peer=functools.partial(run, run_peer, program, engine, records),
            harness=functools.partial(run, _like_peer, HarnessLoop, engine, work, records),
            bare=functools.partial(run, _like_peer, BareLoop, library, work, records),
        )
        for name in found["harness"][0]:
            ours = quotients(found["peer"], found["harness"], name)
            by_hand = quotients(found["peer"], found["bare"], name)
            title = f"{engine}: {name} of {'ioarena' if ioarena else 'db_bench'}"
            note = " ".join((Path(program).name, *PEER_OPTIONS.get(engine, ())))
            yield Measure("peer", title, "1", ours, 0.95, 1.05, note)
            yield Measure("peer", f"{title} by the bare loop", "1", by_hand)


# Cells


def _worker_alone(cell: Cell, folder: str) -> tuple[float, int]:
    """Seconds of a cell's process outside of its phases, and its peak of memory in bytes."""
    with Timer() as timer:
        answer = run_cell(cell, Path(folder), time_limit=3600)
    if answer["status"] != "ok":
        raise BadInput(f"{cell}: {answer['reason']}")
    phases = sum(answer[f"{phase}_s"] for phase in ("open", "load", "rounds", "check", "close"))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return timer.seconds - phases, peak


def _null_cell(records: int) -> Cell:
    every = ("insert", "get", "update", "remove")
    return Cell("null", "", RecordSize.parse("100 B"), records, "incompressible", every, 1, 1)


def cells(scale: Scale, place: Path, quick: Path) -> Iterator[Measure]:
    alone = [_in_folder(place, _worker_alone, _null_cell(100))[0] for _ in range(scale.pairs)]
    yield Measure(
        "cell",
        "start, import and end of a cell's process",
        "ms",
        [value * 1000 for value in alone],
        high=150,
    )
    rows = Folder(quick).collect()["cells"].to_pandas()
    rows = rows[rows.status == "ok"]
    shares = rows.check_s / rows.wall_s
    yield Measure(
        "cell",
        "checking, share of a cell's wall time: the largest of the quick grid",
        "1",
        [float(shares.max())],
        high=0.15,
        note=", ".join(map(str, rows.loc[shares.idxmax(), ["store", "record_size", "records"]])),
    )
    yield Measure(
        "cell",
        "checking, share of all wall time of the quick grid",
        "1",
        [float(rows.check_s.sum() / rows.wall_s.sum())],
        high=0.15,
    )
    job = Sweep(Grid.read(ROOT / "harness/grids/quick.toml", stores.names(), {}), quick)
    fsync = machine.fsync_milliseconds(quick)
    planned = sum(
        seconds(cell, fsync)
        for cell, why in job.plan()
        if not why and job.stores[cell.label].available
    )
    truth = float((rows.wall_s + rows.settle_s).sum())
    yield Measure(
        "cell",
        "estimate of the dry run over the truth, quick grid",
        "1",
        [planned / truth],
        0.7,
        1.3,
    )


def memory(scale: Scale, place: Path) -> Iterator[Measure]:
    few, many = (
        _in_folder(place, _worker_alone, _null_cell(records))[1]
        for records in (1000, scale.many_operations)
    )
    yield Measure(
        "scale",
        f"peak memory of the harness, {scale.many_operations:,} operations over 1,000",
        "1",
        [many / few],
        0.95,
        1.05,
    )


# Analysis


def _command(command: Sequence[str]) -> tuple[float, float]:
    """Seconds, and GiB at the peak of its largest process."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    with Timer() as timer:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return timer.seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def _ten_times(source: Path, target: Path) -> None:
    """Results with ten times the trials."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for name, schema in TABLES.items():
        frame = pd.read_parquet(source / f"{name}.parquet")
        if name != "machines":
            copies = [frame.assign(cell=frame.cell + f"-{i}") for i in range(10)]
            if name == "cells":
                copies = [copy.assign(trial=copy.trial + 100 * i) for i, copy in enumerate(copies)]
            frame = pd.concat(copies)
        pq.write_table(
            pa.Table.from_pandas(frame, schema, preserve_index=False),
            target / f"{name}.parquet",
        )


def analysis(scale: Scale, place: Path, quick: Path) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _ten_times(ROOT / "data/pilot", Path(folder))
        ratios, peaks = [], []
        for _ in range(scale.repeats):
            taken = []
            for results in ("data/pilot", folder):
                runs = [
                    in_fresh_process(_command, ["papermill", "--no-progress-bar", "-k", "python3",
                        f"notebooks/{name}.ipynb", os.devnull, "-p", "results", results])
                    for name in NOTEBOOKS
                ]  # fmt: skip
                taken.append(sum(seconds for seconds, _ in runs))
            ratios.append(taken[1] / taken[0])
            peaks.append(max(peak for _, peak in runs))
    names = ", ".join(NOTEBOOKS)
    yield Measure(
        "analysis",
        "time of the notebooks on ten times the rows",
        "1",
        ratios,
        high=2,
        note=names,
    )
    yield Measure("analysis", "their peak memory", "GiB", peaks, high=1)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _many_cells(quick, Path(folder), scale.cell_files)
        command = [sys.executable, "-m", "kvbench.cli", "collect", folder]
        taken = [in_fresh_process(_command, command)[0] for _ in range(scale.repeats)]
    yield Measure("analysis", f"collecting {scale.cell_files:,} cells", "s", taken, high=30)
    taken = [in_fresh_process(_command, ["make", "render"])[0] for _ in range(scale.repeats)]
    yield Measure("analysis", "make render", "s", taken, high=60)


def _many_cells(source: Path, target: Path, count: int) -> None:
    """A results folder of so many cells: those of another, again and again as other trials."""
    Folder.make(target)
    shutil.copytree(source / "machines", target / "machines", dirs_exist_ok=True)
    found = [json.loads(path.read_text()) for path in sorted((source / "cells").glob("*.json"))]
    for i in range(count):
        result = found[i % len(found)]
        result["cell"]["trial"] = 1 + i
        (target / "cells" / f"{i:08}.json").write_text(json.dumps(result))


# The command


def _conditions(out: Path) -> dict[str, Any]:
    found = machine.describe(out, stores.known())
    names = ("machine", "cpu", "cores", "kernel", "file_system", "compiler", "revision")
    return {name: found[name] for name in names}


# The groups of measures, and about how many seconds each takes.
GROUPS = {
    "floor": 40,
    "bare": 240,
    "peers": 120,
    "cells": 5,
    "scale": 30,
    "analysis": 240,
}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder.")
@click.option(
    "--only",
    type=click.Choice(list(GROUPS)),
    multiple=True,
    help="Some groups of measures.",
)
@click.option(
    "--bare-loops",
    type=click.Path(path_type=Path),
    required=True,
    help="Their libraries.",
)
@click.option("--quick", type=click.Path(path_type=Path), help="Results of the quick grid.")
@click.option("--place", type=click.Path(path_type=Path), help="Where the stores compared lie.")
@click.option("--peer", metavar="ENGINE=PROGRAM", multiple=True, help="An engine's own benchmark.")
@click.option("--small", is_flag=True, help="Too small to mean anything: does it work?")
def main(
    out: Path,
    only: Sequence[str],
    bare_loops: Path,
    quick: Path | None,
    place: Path | None,
    peer: Sequence[str],
    small: bool,
) -> None:
    """Measure the harness: OUT/speed.csv."""
    programs = [_peer(text) for text in peer]
    chosen = only or tuple(GROUPS)
    if quick is None and {"cells", "analysis"} & set(chosen):
        raise BadInput("cells and analysis need --quick, the results of harness/grids/quick.toml")
    scale = Scale(2, 1000, 1000, 1000, 1000, 10_000, 200, 1) if small else Scale()
    memory_disk = Path("/dev/shm")
    where = place or (memory_disk if memory_disk.is_dir() else out)
    if packaged := shutil.which("db_bench"):
        programs.append(("rocksdb", packaged))
    out.mkdir(parents=True, exist_ok=True)
    todo: dict[str, Callable[[], Iterable[Measure]]] = {
        "floor": lambda: floor(scale),
        "bare": lambda: bare(scale, bare_loops, where),
        "peers": lambda: peers(scale, programs, bare_loops, where),
        "cells": lambda: cells(scale, where, quick or Path()),
        "scale": lambda: memory(scale, where),
        "analysis": lambda: analysis(scale, where, quick or Path()),
    }
    rows = []
    with tqdm(total=sum(GROUPS[name] for name in chosen), bar_format=BAR) as bar:
        for name in chosen:
            bar.set_description_str(name)
            rows += [measure.row() for measure in todo[name]()]
            bar.update(GROUPS[name])
    table = pd.DataFrame(rows).assign(**_conditions(out))
    write_whole(out / "speed.csv", table.to_csv(index=False).encode())
    shown = table[["group", "measure", "value", "low", "high", "unit", "goal", "met"]]
    click.echo(tabulate(shown, headers="keys", showindex=False, floatfmt=".3f"))
    if not packaged:
        click.echo("peer: no db_bench here; install the package rocksdb-tools to have it compared")


def _peer(text: str) -> tuple[str, str]:
    engine, _, program = text.partition("=")
    if engine not in ENGINES or shutil.which(program) is None:
        raise BadInput(f"--peer {text}: no such program, or none of {', '.join(ENGINES)}")
    return engine, program


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (BadInput, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"speed: {text}", file=sys.stderr)
        sys.exit(2)
