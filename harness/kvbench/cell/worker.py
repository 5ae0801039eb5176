"""Measures one cell, in a process of its own: a task as JSON in, an answer as JSON out.

floor -> load -> rounds of insert, get, update, remove, or the steps of a workload
      -> the engine settles -> close -> space -> check of every record in another process
"""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import cramjam
import numpy as np
import numpy.typing as npt

from kvbench.cell.board import Board
from kvbench.cell.cache import cached_share, evict, sync_file_system, warm
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import UNCAPPED, Cell
from kvbench.cell.filesystem import Mounted, allocated
from kvbench.cell.loop import PythonLoop, ShimLoop, Traffic, make_loop
from kvbench.cell.meter import Meter, count_system_calls
from kvbench.cell.phase import Phase
from kvbench.cell.plan import (
    EVICTIONS,
    LEAST_BATCHES,
    PER_EVICTION,
    SAMPLES,
    Records,
    make_pool,
)
from kvbench.cell.processes import run_processes
from kvbench.cell.protocol import Answer, Task
from kvbench.cell.store import Store
from kvbench.cell.workload import (
    BACKUP,
    CHURN,
    GROWING,
    MIX,
    PERCENT,
    PROCESSES,
    RANDOM_READS,
    ROUNDS,
    TRAFFIC,
    Step,
)
from kvbench.common.processes import die_with_parent, how_it_ended

RATIO_BLOCK = 4096  # bytes: about the block size that engines compress
RATIO_BLOCKS = 32
COMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "zlib": lambda block: zlib.compress(block, 6),
    "snappy": cramjam.snappy.compress_raw,
}
FLOOR_RUNS, FLOOR_GETS = 5, 4096
COUNTED = 100  # operations of each kind for counting system calls
QUIET_S, QUIET_LONG_S, LONG_S = 0.2, 2.0, 10.0  # idle time to wait for, by step length


def compressed_share(records: Records, pool: npt.NDArray[np.uint8], compressor: str) -> float:
    """The compressed size of values over their original size, in blocks of RATIO_BLOCK bytes as
    they are written."""
    values = bytearray()
    for *_, value in PythonLoop(Store("null", "null"), records, pool).taken(records.live("get")):
        values += value
        if len(values) >= RATIO_BLOCKS * RATIO_BLOCK:
            break
    blocks = [bytes(values[i : i + RATIO_BLOCK]) for i in range(0, len(values), RATIO_BLOCK)]
    return sum(len(COMPRESSORS[compressor](block)) for block in blocks) / len(values)


def floor(store: Store, cell: Cell, pool: npt.NDArray[np.uint8], folder: Path) -> float:
    """The time in ns that the harness reports for a get that does nothing: the median, over
    FLOOR_RUNS runs, of the mean."""
    records = Records(cell)
    loop = make_loop(Store("null", "null" if store.binding else ""), records, pool)
    loop.open(folder, {})
    runs = [loop.run(records.drawn("get", FLOOR_GETS))[""].latency for _ in range(FLOOR_RUNS)]
    loop.close()
    return float(np.median([latency.sum / latency.n for latency in runs]))


class Stopwatch:
    """Measures the seconds since the last call of `lap`."""

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


class Checker:
    """A process that checks the store after it was closed. It is forked before the store is opened,
    so it does not inherit what an engine keeps in memory after close."""

    def __init__(self, work: "Measurement") -> None:
        (below, self._to), (self._from, above) = os.pipe(), os.pipe()
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self._to)
                die_with_parent(parent)
                with os.fdopen(below, "rb") as state, os.fdopen(above, "w") as out:
                    json.dump(self._answer(work, state), out)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        os.close(below)
        os.close(above)

    @staticmethod
    def _answer(work: "Measurement", state: BinaryIO) -> dict[str, Any]:
        try:
            work.records.restore(state)
            found = work.check()
            work.check_backup()
            return found
        except (StoreError, OSError) as error:
            return {"reason": str(error)}

    def check(self, records: Records) -> dict[str, float]:
        """The result of Measurement.check in that process. Raises StoreError."""
        with os.fdopen(self._to, "wb") as state, contextlib.suppress(BrokenPipeError):
            records.save(state)
        with os.fdopen(self._from) as out:
            output = out.read()
        _, status = os.waitpid(self._process, 0)
        if not output:
            how = how_it_ended(os.waitstatus_to_exitcode(status))
            raise StoreError(f"check: its process ended without an answer: {how}")
        answer: dict[str, Any] = json.loads(output)
        if "reason" in answer:
            raise StoreError(answer["reason"])
        return answer


class Measurement:
    """The measurement of one cell, step by step."""

    def __init__(self, cell: Cell, store: Store, folder: Path, mounted: Mounted | None) -> None:
        self.cell, self.store, self.folder, self.mounted = cell, store, folder, mounted
        self.records = Records(cell)
        self.pool = make_pool(cell.compressibility, cell.record_size.high, cell.plan_seed)
        self.phases: dict[str, Phase] = {}
        self.eviction = ""
        # A name that a sweep knows as its own: see shelf.py.
        self.copy = folder.with_name(f"copy_{folder.name[-16:]}")

    def begin(self) -> Meter:
        """Make the loop and open the counters of this process."""
        self.loop = make_loop(self.store, self.records, self.pool)
        self.loop.meter = Meter(self.folder, self.mounted.stat if self.mounted else None)
        return self.loop.meter

    def open(self) -> None:
        self.loop.open(self.folder, self.cell.settings())

    def load(self) -> None:
        if not self.records.fills:
            self.phases["load"] = self.loop.load(self.records.live("insert"))

    def rounds(self) -> None:
        least = self.cell.least_ms / 1000
        if self.cell.cache == "cold":
            for operation in self.cell.timed:
                self._cold(operation)
        else:
            # Rounds pair inserts with removes, but only timed operations are reported.
            samples = max(SAMPLES, LEAST_BATCHES * self.cell.batch)
            found = self.loop.rounds(self.cell.timed, samples, least)
            self.phases |= {name: found[name] for name in self.cell.timed}

    def _cold(self, operation: str) -> None:
        """Measure the first operation after each eviction, and as a separate row the operations
        after it."""
        first, later = (
            self.phases.setdefault(operation + part, Phase()) for part in ("", " later")
        )
        for phase in (first, later):
            phase.more["per_eviction"] = PER_EVICTION
        for _ in range(EVICTIONS):
            self.loop.close()
            self.eviction = evict(self.folder, self.mounted)
            self.open()
            first.add(self.loop.burst(operation, 1))
            later.add(self.loop.burst(operation, PER_EVICTION - 1))

    def count_system_calls(self) -> None:
        """Count the system calls of further, untimed operations."""
        batch = self.cell.batch
        count = max(min(self.records.churn, COUNTED), batch)
        with count_system_calls() as calls:  # attach once: it takes up to 30 ms
            for name in ("insert", "get", "update", "remove"):
                marks = [calls()]
                for times in (0, count):  # zero operations: counts the harness's own calls
                    self.loop.burst(name, times)
                    marks.append(calls())
                start, own, end = (mark or 0 for mark in marks)
                if end and name in self.phases:
                    found = max(0, end - own - (own - start))  # background threads make calls, too
                    calls_of = count // batch if batch and name == "update" else count
                    self.phases[name].more |= {"counted": calls_of, "system_calls": found}

    def steps(self) -> None:
        loop, records = self.loop, self.records
        assert isinstance(loop, ShimLoop)
        if "load" in self.phases:
            self._space("load")
        closed: dict[int, float] = {}  # the rate of each mix in a closed loop
        for i, step in enumerate(records.steps):
            # The same step may come twice.
            seen = sum(before.name == step.name for before in records.steps[:i])
            name = step.name + (f" {seen + 1}" if seen else "")
            share = step.get("load", 0) / PERCENT
            rate = max(1, round(share * closed[step.reads])) if share else step.get("rate", 0)
            # A seed whose random numbers do not overlap with those of the plan.
            loop.pace(rate, step.exponential, -self.cell.plan_seed - (i << 40))
            for kind, phase in self.step(step, loop).items():
                self.phases[f"{name} {kind}".rstrip()] = phase
            whole = self.phases[name]
            whole.more |= loop.paced()
            if step.open or step.name == MIX:
                whole.more["reached_rate"] = whole.speed
            if step.name == MIX:
                if not step.open:
                    closed[step.reads] = whole.speed
                whole.more["closed_rate"] = closed.get(step.reads)
            self._space(name)
        loop.pace(0)

    def step(self, step: Step, loop: ShimLoop) -> dict[str, Phase]:
        """Run a step. Returns its phase as "", and the phases of its parts by name."""
        records, ops = self.records, self.records.ops(step)
        usual = 0 if "ops" in dict(step.given) else self.cell.least_ms / 1000
        least = step.get("seconds", 0) or usual
        load = functools.partial(loop.load, batch_records=step.get("batch", 1))
        ranges = step.name == "rangerandom"
        length = step.get("length", 10) if ranges else 0
        drawn = (
            records.drawn("scan" if ranges else "get", ops, length=length)
            if records.any_live()
            else records.live("get")
        )
        simple: dict[str, Callable[[], Phase]] = {
            "fillseq": lambda: load(records.live("insert")),
            "fillrandom": lambda: load(records.shuffled("insert", ops)),
            "overwrite": lambda: load(records.shuffled("update", ops)),
            GROWING: lambda: load(records.added(ops)),
            "deleterandom": lambda: loop.run(records.shuffled("remove", ops))[""],
            **dict.fromkeys(RANDOM_READS, lambda: loop.run(drawn, least)[""]),
            "readseq": lambda: loop.scan(records.live("get")),
            "readreverse": lambda: loop.scan(records.live("get", backward=True)),
            "compact": loop.compact,
        }
        if step.name in simple:
            return {"": simple[step.name]()}
        if step.name == TRAFFIC:
            return loop.traffic(Traffic.of(step, records.cell))
        if step.name == PROCESSES:
            loop.close()
            found = run_processes(loop, self.open, Traffic.of(step, records.cell))
            self.open()
            return dict(found)
        if step.name == BACKUP:
            return self._back_up(step, loop)
        if step.name == CHURN:
            return loop.run(records.churned(step), least, step.get("most", 0))
        growing = "insert" in step.shares()
        return loop.run(records.mixed(step), 0 if growing else least)

    def _back_up(self, step: Step, loop: ShimLoop) -> dict[str, Phase]:
        """Make a backup. What it and the writer used is part of the backup's phase."""
        self.copy.mkdir()
        self.records.mark()
        sync_file_system(self.copy)  # so that the backup does not write back what came before it
        found = loop.traffic(Traffic.of(step, self.cell, self.copy))
        whole, backup = found.pop(""), found.pop("read")
        whole.latency, whole.items = backup.latency, backup.items
        whole.more["disk_bytes"] = allocated(self.copy)
        return {"": whole} | found

    def _space(self, name: str) -> None:
        self.phases[name].more.setdefault("disk_bytes", allocated(self.folder))

    def warm(self) -> None:
        """Read evicted files back into the page cache, unless the cell's memory is capped to evict
        them."""
        cell = self.cell
        if cell.cache == "warm" and cell.place == "disk" and cell.memory_max == UNCAPPED:
            warm(self.folder)

    def cached(self) -> float | None:
        """The share of the store's files in the page cache; None with a cold cache, which examining
        would warm."""
        if self.cell.cache == "cold":
            return None
        return cached_share(self.folder) if self.cell.place == "disk" else 1.0

    def longest(self) -> float:
        """The duration of the longest step in seconds."""
        return max((phase.wall_s or 0 for phase in self.phases.values()), default=0)

    def check(self) -> dict[str, float]:
        """Open the store, and check that it refuses what it must, and holds exactly the live
        records. Returns their number, their bytes, and the time to open the store in seconds.
        Raises StoreError."""
        self.begin()
        watch = Stopwatch()
        self.open()
        reopened = watch.lap()
        for plan in self.records.refused():
            self.loop.refuse(plan)
        self.loop.check()
        self.loop.close()
        return self.records.total() | {"reopen_s": reopened}

    def check_backup(self) -> None:
        """Check that the backup, if one was made, holds each record with a value that it had
        meanwhile, and remove it. Raises StoreError."""
        if not self.copy.exists():
            return
        try:
            self.begin()
            self.folder = self.copy
            self.open()
            assert isinstance(self.loop, ShimLoop)
            self.loop.find()
            self.loop.check()
            self.loop.close()
        except StoreError as error:
            raise StoreError(f"backup: {error}") from None
        finally:
            shutil.rmtree(self.copy)

    def refuse_hollow(self, disk_bytes: int) -> None:
        """Raise StoreError if the store occupies less space than its values, when these are
        incompressible."""
        total = self.records.total()
        values = total["live_bytes"] - total["live_records"] * self.cell.key_size
        keeps = self.store.name != "null"  # the only store that may keep nothing
        if keeps and self.cell.compressibility == "incompressible" and disk_bytes < values:
            raise StoreError(
                f"wrong answer: after close and sync the store occupies {disk_bytes:,} B, less "
                f"than the {values:,} B of its incompressible values"
            )


def measure(
    cell: Cell,
    store: Store,
    folder: Path,
    members: str = "",
    mounted: Mounted | None = None,
    board: Board | None = None,
) -> Answer:
    """Measure a cell. `members` is the file through which a process joins the cell's control group,
    `mounted` the file system made for the stores, and `board` tells the sweep when to sample the
    memory. Raises StoreError if the store fails or answers wrongly, and OSError."""
    work = Measurement(cell, store, folder, mounted)
    found: dict[str, Any] = {
        "compressed_share": compressed_share(work.records, work.pool, "zlib"),
        "snappy_share": compressed_share(work.records, work.pool, "snappy"),
        # Measured first, so that the loop's own memory is part of the baseline.
        "floor_ns": floor(store, cell, work.pool, folder),
    }
    cached_share(Path(__file__).parent / "bindings")  # and so is this memory
    warm(Path(__file__).parent / "bindings")
    checker = Checker(work)
    meter = work.begin()
    join(members)
    if board:
        board.start()
    watch = Stopwatch()

    work.open()
    found["open_s"] = watch.lap()
    work.load()
    found["load_s"] = watch.lap()
    work.warm()
    found["cached_share"] = work.cached()
    if cell.workload == ROUNDS:
        work.rounds()
    else:
        work.steps()
    found["rounds_s"] = watch.lap()
    if board:
        board.stop()
    found["ended_disk_bytes"] = found["debt_disk_bytes"] = allocated(folder)
    found |= meter.settle(QUIET_LONG_S if work.longest() > LONG_S else QUIET_S)
    if found["debt_bytes"]:
        found["debt_disk_bytes"] = allocated(folder)
    found["cached_end"] = work.cached()
    found["eviction"] = work.eviction
    if cell.workload == ROUNDS and cell.cache == "warm":
        work.count_system_calls()

    found["effective_options"] = work.loop.effective_options()
    watch.lap()
    work.loop.close()
    found["close_s"] = watch.lap()
    sync_file_system(folder)  # some file systems allocate blocks only on write-back
    found["disk_bytes"] = allocated(folder)
    work.refuse_hollow(found["disk_bytes"])
    watch.lap()
    found |= checker.check(work.records)
    found["check_s"] = watch.lap()
    return Answer(
        **found,
        operations=[phase.row(name) for name, phase in work.phases.items()],
        timeline=[
            {"operation": name, **row}
            for name, phase in work.phases.items()
            for row in phase.seconds
            if cell.workload != ROUNDS
        ],
    )


def main() -> None:
    task = Task.decode(sys.stdin.buffer.read())
    die_with_parent(task.parent)
    # Keep a separate output for the answer: engines print to the standard output.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        try:
            answer = measure(
                task.cell, task.store, Path(task.folder), task.members, task.mounted,
                Board(task.board),
            )  # fmt: skip
            values = {"status": "ok", "reason": ""} | dataclasses.asdict(answer)
        except (StoreError, OSError) as error:
            values = {"status": "failed", "reason": str(error)}
        json.dump(values, out)
    # Skip exit handlers and threads that engines leave behind; nothing else needs clean-up.
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
