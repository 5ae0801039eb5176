"""Measures one cell, in a process of its own: a task as JSON in, an answer as JSON out.

floor -> load -> rounds of insert, get, update, remove, or the steps of a workload
      -> close -> space -> open again -> check of every record
"""

import contextlib
import itertools
import json
import os
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt

from kvbench import die_with_parent
from kvbench.cache import cached_share, evict, sync_file_system
from kvbench.contract import StoreError
from kvbench.factors import Cell
from kvbench.filesystem import Mounted
from kvbench.histogram import Histogram
from kvbench.loop import END, NAMES, ShimLoop, Traffic, make_loop, make_pool
from kvbench.meter import Board, Meter, open_meter
from kvbench.plan import CHUNK, Plan, Population
from kvbench.steps import Records
from kvbench.stores import Store
from kvbench.workload import FILLS, ROUNDS, SCANS, TRAFFIC, YCSB, Step

RATIO_BLOCK = 4096  # bytes: about what an engine compresses at once
COMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "zlib": lambda block: zlib.compress(block, 6),
    "snappy": cramjam.snappy.compress_raw,
}
FLOOR_RUNS = 5


class Phase:
    """What one operation cost over all its calls."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.latency = Histogram()
        self.usage: dict[str, float | None] = {}
        self.items = 0  # records that were read or written
        self.wall_s: float | None = None
        self.disk_bytes: int | None = None  # allocated when the phase ended
        self.timeline: list[int] = []

    @contextlib.contextmanager
    def watched(self, items: int) -> Iterator[Histogram]:
        """Processor time, bytes moved and time of what is done within."""
        before, start = self.meter.read(), time.monotonic()
        yield self.latency
        self.wall_s = (self.wall_s or 0) + time.monotonic() - start
        for name, value in self.meter.read().items():
            first, so_far = before[name], self.usage.get(name) or 0
            self.usage[name] = None if value is None or first is None else so_far + value - first
        self.items += items

    def row(self, operation: str) -> dict[str, Any]:
        bins, counts = self.latency.sparse()
        empty = self.latency.n == 0  # the row of readers and writer together: both have their own
        quantiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
        return {
            "operation": operation,
            "n": self.latency.n,
            "items": self.items,
            "sum_ns": self.latency.sum,
            "min_ns": self.latency.min,
            "max_ns": self.latency.max,
            **{n: None if empty else self.latency.quantile(q) for n, q in quantiles.items()},
            "histogram_bin": bins,
            "histogram_count": counts,
            "wall_s": self.wall_s,
            "disk_bytes": self.disk_bytes,
            "timeline": self.timeline,
            **self.usage,
        }


def compressed_share(pool: Any, compressor: str) -> float:
    """Bytes after per byte before, over blocks spread through the pool."""
    blocks = [pool[start : start + RATIO_BLOCK].tobytes() for start in range(0, len(pool), 1 << 18)]
    return sum(len(COMPRESSORS[compressor](block)) for block in blocks) / sum(map(len, blocks))


def allocated(folder: Path) -> int:
    """Bytes of the blocks that a folder and all below it occupy. What an engine removes while we
    look counts as gone."""
    total = folder.lstat().st_blocks
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks
    return total * 512


def floor(store: Store, population: Population, pool: npt.NDArray[np.uint8], folder: Path) -> float:
    """Nanoseconds that the harness reports for a get that does nothing: the median of the means of
    FLOOR_RUNS runs."""
    loop = make_loop(Store("null", "null" if store.binding else ""), population, pool)
    plan = next(population.live("get"))
    loop.open(folder, {})
    means = [float(loop.run(plan).mean()) for _ in range(FLOOR_RUNS)]
    loop.close()
    return float(np.median(means))


class Stopwatch:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        lap, self.last = now - self.last, now
        return lap


def join(members: str) -> None:
    """Enter the control group that caps this cell, if there is one."""
    if members:
        Path(members).write_text(str(os.getpid()))


class Measurement:
    """One cell, from the open store on."""

    def __init__(self, cell: Cell, store: Store, folder: Path, mounted: Mounted | None) -> None:
        self.cell, self.store, self.folder, self.mounted = cell, store, folder, mounted
        self.keys = Population(cell) if cell.workload == ROUNDS else Records(cell)
        self.pool = make_pool(cell.compressibility, cell.record_size.high, cell.plan_seed)
        self.loop = make_loop(store, self.keys, self.pool)
        self.meter = open_meter(folder, mounted.stat if mounted else None)
        self.phases: dict[str, Phase] = defaultdict(lambda: Phase(self.meter))
        self.cached: list[float] = []
        self.eviction = ""

    def load(self) -> None:
        if isinstance(self.keys, Records) and self.keys.fills:
            return
        self.timed("load", self.keys.live("insert"), self.loop.load)

    def timed(
        self, name: str, plans: Iterable[Plan], run: Callable[[Plan], npt.NDArray[np.uint64]]
    ) -> None:
        """Run plans as parts of one phase."""
        for plan in plans:
            with self.phases[name].watched(len(plan)) as latency:
                latency.add(run(plan))

    def rounds(self, population: Population) -> None:
        for steps in population.rounds(self.cell.timed):
            for operation, plan in steps:
                if self.cell.cache == "cold":
                    self.loop.close()
                    self.eviction = evict(self.folder, self.mounted)
                    self.loop.open(self.folder, self.cell.settings())
                self.timed(operation, [plan], self.loop.run)

    def steps(self, records: Records) -> None:
        loop = self.loop
        assert isinstance(loop, ShimLoop)
        if "load" in self.phases:
            self.phases["load"].disk_bytes = allocated(self.folder)
        for i, step in enumerate(records.steps):
            # The same step may come twice.
            seen = sum(before.name == step.name for before in records.steps[:i])
            name = step.name + (f" {seen + 1}" if seen else "")
            loop.pace(step.get("rate", 0))
            if step.name == TRAFFIC:
                self._traffic(name, step, records, loop)
            elif step.name == "compact":
                with self.phases[name].watched(records.records) as latency:
                    start = time.monotonic_ns()
                    loop.compact()
                    latency.add(np.array([time.monotonic_ns() - start], np.uint64))
            elif step.name in SCANS:
                backwards = step.name == "readreverse"
                ends = zip(*records.limits(backwards), strict=True)
                for plan, (first, end) in zip(records.live("get", backwards), ends, strict=True):
                    scan = partial(loop.scan, first=first, end=end, backwards=backwards)
                    self.timed(name, [plan], scan)
            elif step.name in (*FILLS, "overwrite"):
                make = records.overwrite if step.name == "overwrite" else records.fill
                batch = step.get("batch", 1)
                plans = records.batched(make(step), batch)
                self.timed(name, plans, partial(loop.load, batch_records=batch))
            elif step.name in YCSB:
                self._mix(name, step, records)
            else:
                make = records.delete if step.name == "deleterandom" else records.read
                self.timed(name, make(step), loop.run)
            self.phases[name].disk_bytes = allocated(self.folder)
        loop.pace(0)

    def _mix(self, name: str, step: Step, records: Records) -> None:
        """A row for all operations, and one for those of each kind."""
        for plan in records.mix(step):
            with self.phases[name].watched(len(plan)) as latency:
                nanoseconds = self.loop.run(plan)
                latency.add(nanoseconds)
            for code in np.unique(plan.operation).tolist():
                kind = self.phases[f"{name} {NAMES[code]}"]
                kind.latency.add(nanoseconds[plan.operation == code])
                kind.items = kind.latency.n

    def _traffic(self, name: str, step: Step, records: Records, loop: ShimLoop) -> None:
        traffic = Traffic(
            readers=step.get("readers", 4),
            reads=step.get("reads", records.records),
            writes=step.get("writes", 10_000),
            seconds=step.get("seconds", 0),
            seed=self.cell.plan_seed,
        )
        versions = records.start_traffic()
        with self.phases[name].watched(0):
            read, write, seconds = loop.traffic(traffic, versions)
        self.phases[name].wall_s = seconds
        for side, found in (("read", read), ("write", write)):
            phase = self.phases[f"{name} {side}"]
            phase.latency, phase.timeline = found.latency, found.timeline
            phase.items, phase.wall_s = found.latency.n, seconds
            self.phases[name].items += found.latency.n

    def check(self) -> dict[str, int]:
        """Check that the store refuses what it must, and holds the live records as they were
        written, and no others. Returns their number and bytes."""
        for plan in self.keys.refused():
            self.loop.refuse(plan)
        live = {"live_records": 0, "live_bytes": 0}
        for first, plan in zip(itertools.count(0, CHUNK), self.keys.live("get"), strict=False):
            end = first + CHUNK
            self.loop.check(plan, first, end if end < self.keys.universe else END)
            live["live_records"] += len(plan)
            live["live_bytes"] += self.keys.bytes_of(plan)
        return live


def measure(
    cell: Cell,
    store: Store,
    folder: Path,
    members: str = "",
    mounted: Mounted | None = None,
    board: Board | None = None,
) -> dict[str, Any]:
    """The columns of a cell that its worker measures, and the rows of its operations. `members` is
    the file by which a process joins the cell's control group, `mounted` the file system of its
    own."""
    work = Measurement(cell, store, folder, mounted)
    answer: dict[str, Any] = {
        "compressed_share": compressed_share(work.pool, "zlib"),
        "snappy_share": compressed_share(work.pool, "snappy"),
        # Measured first, so that planning's own memory is part of the baseline.
        "floor_ns": floor(store, Population(cell), work.pool, folder),
    }
    cached_share(Path(__file__).parent / "bindings")  # and that of looking at the page cache
    join(members)
    if board:
        board.start()
    watch = Stopwatch()

    work.loop.open(folder, cell.settings())
    answer["open_s"] = watch.lap()
    work.load()
    answer["load_s"] = watch.lap()
    if cell.cache == "warm" and cell.place == "disk":
        work.cached.append(cached_share(folder))
    if isinstance(work.keys, Records):
        work.steps(work.keys)
    else:
        work.rounds(work.keys)
    answer["cached_share"] = max(work.cached, default=None if work.eviction else 1.0)
    answer["eviction"] = work.eviction
    answer["rounds_s"] = watch.lap()
    answer["ended_disk_bytes"] = allocated(folder)
    answer |= work.meter.settle(2 if answer["rounds_s"] > 10 else 0.2)
    answer["debt_disk_bytes"] = allocated(folder)
    answer["cached_end"] = answer["cached_share"]
    if board:
        board.stop()

    answer["effective_options"] = work.loop.effective_options()
    work.loop.close()
    answer["close_s"] = watch.lap()
    sync_file_system(folder)  # some file systems allocate only then
    answer["disk_bytes"] = allocated(folder)
    watch.lap()
    work.loop.open(folder, cell.settings())  # what was kept in the open store alone is gone
    answer |= work.check()
    work.loop.close()
    answer["check_s"] = watch.lap()
    timed = {"load", *cell.timed}  # rounds do the other operations too, but do not report them
    reported = [name for name in work.phases if cell.workload != ROUNDS or name in timed]
    answer["operations"] = [work.phases[name].row(name) for name in reported]
    return answer


def main() -> None:
    task = json.load(sys.stdin)
    die_with_parent(task["parent"])
    # The answer has an output of its own: engines print to the standard output.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        cell = Cell.from_factors(task["cell"])
        store = Store(cell.store, cell.binding)
        mounted = Mounted(**task["mounted"]) if task["mounted"] else None
        answer: dict[str, Any] = {"status": "ok", "reason": ""}
        try:
            board, members = Board(task["board"]), task["members"]
            answer |= measure(cell, store, Path(task["folder"]), members, mounted, board)
        except (StoreError, OSError) as error:
            answer = {"status": "failed", "reason": str(error)}
        json.dump(answer, out)
    # Engines may leave threads and exit handlers behind; nothing here is left to tidy.
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
