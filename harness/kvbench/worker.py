"""Measures one cell, in a process of its own: a task as JSON in, an answer as JSON out.

floor -> load -> rounds of insert, get, update, remove -> check of every record -> close -> space
"""

import contextlib
import ctypes
import itertools
import json
import os
import signal
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt

from kvbench.cache import cached_share, evict
from kvbench.contract import StoreError
from kvbench.grid import Cell
from kvbench.histogram import Histogram
from kvbench.loop import Nanoseconds, make_loop, make_pool
from kvbench.meter import Memory, sync_file_system, usage
from kvbench.plan import CHUNK, Population, bytes_of
from kvbench.stores import Store

RATIO_BLOCK = 4096  # bytes: about what an engine compresses at once
COMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "zlib": lambda block: zlib.compress(block, 6),
    "snappy": cramjam.snappy.compress_raw,
}
FLOOR_RUNS = 5


class Phase:
    """What one operation cost over all its calls."""

    def __init__(self) -> None:
        self.latency = Histogram()
        self.usage: dict[str, float] = defaultdict(float)

    def add(self, nanoseconds: Nanoseconds, before: dict[str, float]) -> None:
        for name, value in usage().items():
            self.usage[name] += value - before[name]
        self.latency.add(nanoseconds)

    def row(self, operation: str) -> dict[str, Any]:
        bins, counts = self.latency.sparse()
        quantiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
        return {
            "operation": operation,
            "n": self.latency.n,
            "sum_ns": self.latency.sum,
            "min_ns": self.latency.min,
            "max_ns": self.latency.max,
            **{name: self.latency.quantile(share) for name, share in quantiles.items()},
            "histogram_bin": bins,
            "histogram_count": counts,
            **self.usage,
        }


def compressed_share(pool: Any, compressor: str) -> float:
    """Bytes after per byte before, over blocks spread through the pool."""
    blocks = [pool[start : start + RATIO_BLOCK].tobytes() for start in range(0, len(pool), 1 << 18)]
    return sum(len(COMPRESSORS[compressor](block)) for block in blocks) / sum(map(len, blocks))


def allocated(folder: Path) -> int:
    """Bytes of the blocks that a folder and all below it occupy."""
    total = folder.lstat().st_blocks
    for parent, folders, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(parent, name)).st_blocks for name in folders + files)
    return total * 512


def floor(store: Store, population: Population, pool: npt.NDArray[np.uint8], folder: Path) -> float:
    """Nanoseconds that the harness reports of a get that does nothing: mean of a run, median of
    FLOOR_RUNS of them."""
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


def measure(cell: Cell, store: Store, folder: Path, members: str = "") -> dict[str, Any]:
    """`members` is the file by which a process joins the cell's control group."""
    population = Population(cell)
    pool = make_pool(cell.compressibility, cell.record_size.high, cell.plan_seed)
    loop = make_loop(store, population, pool)
    settings = cell.settings()
    answer: dict[str, Any] = {
        "compressed_share": compressed_share(pool, "zlib"),
        "snappy_share": compressed_share(pool, "snappy"),
        "eviction": "",
        # Measured first, so that planning's own memory is part of the baseline.
        "floor_ns": floor(store, Population(cell), pool, folder),
    }
    cached_share(Path(__file__).parent / "bindings")  # and that of looking at the page cache
    phases: dict[str, Phase] = defaultdict(Phase)
    memory = Memory()
    join(members)
    watch = Stopwatch()

    loop.open(folder, settings)
    answer["open_s"] = watch.lap()
    for plan in population.live("insert"):
        before = usage()
        phases["load"].add(loop.load(plan), before)
    answer["load_s"] = watch.lap()
    shares = [cached_share(folder)] if cell.cache == "warm" else []
    for steps in population.rounds(cell.timed):
        for operation, plan in steps:
            if cell.cache == "cold":
                loop.close()
                answer["eviction"] = evict(folder)
                shares.append(cached_share(folder))
                loop.open(folder, settings)
            before = usage()
            phases[operation].add(loop.run(plan), before)
    answer["cached_share"] = max(shares)
    answer["rounds_s"] = watch.lap()
    memory.stop()
    answer["memory_anonymous_bytes"] = memory.anonymous
    answer["memory_file_bytes"] = memory.file

    answer["live_records"] = answer["live_bytes"] = 0
    for first, plan in zip(itertools.count(0, CHUNK), population.live("get"), strict=False):
        loop.check(plan, first, min(first + CHUNK, population.universe))
        answer["live_records"] += len(plan)
        answer["live_bytes"] += bytes_of(plan)
    loop.run(population.absent())
    answer["check_s"] = watch.lap()
    answer["effective_options"] = loop.effective_options()
    loop.close()
    answer["close_s"] = watch.lap()
    sync_file_system(folder)  # some file systems allocate only then
    answer["disk_bytes"] = allocated(folder)
    timed = ("load", *cell.timed)
    answer["operations"] = [phases[operation].row(operation) for operation in timed]
    return answer


def die_with_parent(parent: int) -> None:
    """A killed sweep leaves no worker behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    task = json.load(sys.stdin)
    die_with_parent(task["parent"])
    # The answer has its own way out: an engine may print what it likes.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        cell = Cell.from_factors(task["cell"])
        store = Store(cell.store, cell.binding)
        answer: dict[str, Any] = {"status": "ok", "reason": ""}
        try:
            answer |= measure(cell, store, Path(task["folder"]), task["members"])
        except (StoreError, OSError) as error:
            answer = {"status": "failed", "reason": str(error)}
        json.dump(answer, out)
    # Engines may leave threads and exit handlers behind; nothing here is left to tidy.
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
