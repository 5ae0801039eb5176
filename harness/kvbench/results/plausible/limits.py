"""Rules on what a machine can do: copies, syncs, time, processors and space.

A rule holds for any honest sweep, so its margin is wide.
"""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from kvbench.cell.factors import SYNCED, UNCAPPED, parse_bytes
from kvbench.cell.workload import ROUNDS
from kvbench.results.plausible.evidence import Evidence
from kvbench.results.plausible.outside import outside

COPIES = 4  # times the measured rate of memcpy: what it may be on a better day
CACHED = 2  # times that: what the first cache may do for a single value
FASTEST = 1e12  # B/s: more than a processor copies in one thread
LEAST_RATE = 1e6  # B/s
SYNC = 0.2  # of the measured time of a sync: what a device may take on a better day
APPEND = 0.1  # the same of a sync after an append, which may write more than the data
TICK = 0.1  # seconds by which clocks that are read one after the other may differ
SECOND = 1e9  # ns
MOVING = (  # operations that copy each value: the last word of their names
    "insert", "get", "update", "load", "fillseq", "fillrandom", "overwrite", "readrandom", "read",
    "write",
)  # fmt: skip
WRITING = (
    "insert", "update", "remove", "load", "fillseq", "fillrandom", "overwrite", "deleterandom",
)  # fmt: skip
PARTS = ("open_s", "load_s", "rounds_s", "debt_s", "close_s", "check_s")  # of a cell's wall time
LADDERS = (
    ("sync_p50_us", "sync_p90_us", "sync_p99_us", "sync_max_us"),
    ("random_read_us", "random_read_p90_us", "random_read_p99_us"),
)
SHARES = ("cached_share", "cached_end")
TIMED_SHARES = ("paused_share", "least_share", "most_share")


def _last_word(rows: pd.DataFrame) -> "pd.Series[str]":
    """The last word of each operation: its kind, or the step without its number."""
    found: pd.Series[str] = rows.operation.str.replace(r" \d+$", "", regex=True).str.split().str[-1]
    return found


def machine(own: Evidence) -> Iterator[str]:
    """The machine's own limits."""
    rows = own.machines
    yield from outside(rows, "cores", 1, 1 << 16)
    yield from outside(rows, "memory_bytes", 1 << 20, 1 << 50)
    for column in ("memory_rate", "write_rate", "read_rate"):
        yield from outside(rows, column, LEAST_RATE, FASTEST, "in B/s")
    yield from outside(rows, "clock_ns", 1, 1e5)
    for ladder in LADDERS:
        for below, above in pairwise(ladder):
            yield from outside(rows, above, rows[below], why=below)


def copies(own: Evidence) -> Iterator[str]:
    """No value is read or written faster than memory is copied. The null store keeps nothing."""
    rows = own.operations
    rows = rows[(rows.store != "null") & _last_word(rows).isin(MOVING) & (rows.n > 0)]
    rate = rows.memory_rate.fillna(FASTEST / COPIES) / SECOND
    why = "to copy the values"
    least = rows["items"] * rows.record_size_min / rate / COPIES
    yield from outside(rows, "sum_ns", least, why=why)
    single = rows["items"] == rows.n
    least = rows.record_size_min / rate / COPIES / CACHED
    yield from outside(rows[single], "min_ns", least[single], why=why)


def syncs(own: Evidence) -> Iterator[str]:
    """A call that syncs what it wrote takes as long as a sync of the device. Threads may share
    one."""
    rows = own.operations
    rows = rows[
        _last_word(rows).isin(WRITING) & rows.guarantee.isin(SYNCED) & (rows.place == "disk")
        & rows.threads.isna() & (rows.n > 0)
    ]  # fmt: skip
    uncounted = rows.syncs.isna() & (rows.reason == "") & (rows.workload == ROUNDS)
    rows = rows[(rows.syncs >= rows.n) | uncounted]
    mean = rows.sum_ns / rows.n
    asked = 1000 * rows.asked_sync_us
    yield from outside(rows, "mean of sum_ns", asked, why="as --device asked", values=mean)
    known = (1000 * SYNC * rows.sync_p50_us).fillna(1e6 * APPEND * rows.fsync_ms)
    yield from outside(rows, "mean of sum_ns", known, why="to sync", values=mean)


def time(own: Evidence) -> Iterator[str]:
    """Operations take no more than the time that passed, and their parts no more than the cell."""
    rows = own.operations
    closed = rows[rows.asked_rate.isna()]  # in an open loop a time begins when it is due
    passed = closed.wall_s * closed.threads.fillna(1).clip(lower=1)
    yield from outside(closed, "sum_ns", most=(passed + TICK / 1000) * SECOND, why="the wall time")
    cells = own.cells
    parts = cells[list(PARTS)].sum(axis=1)
    yield from outside(cells, "wall_s", parts - TICK, why="the sum of its parts")
    rounds = rows[(rows.operation != "load") & (rows.workload == ROUNDS)]
    spent = rounds.groupby("cell").wall_s.sum().reindex(cells.cell).to_numpy()
    yield from outside(cells, "rounds_s", pd.Series(spent, cells.index) - TICK, why="its rounds")
    load = rows[rows.operation == "load"]
    yield from outside(load, "wall_s", most=load.load_s + TICK, why="load_s")
    used = rows.user_s + rows.system_s
    most = (rows.wall_s + TICK) * rows.cores
    yield from outside(rows, "user_s + system_s", most=most, why="all processors", values=used)
    most = (cells.debt_s + TICK) * cells.cores
    yield from outside(cells, "debt_cpu_s", most=most, why="all processors")
    most = (cells.wall_s + TICK) * cells.cores
    yield from outside(cells, "steal_s", most=most, why="all processors")


def space(own: Evidence) -> Iterator[str]:
    """Records take space in memory and on disk, and only once."""
    cells = own.cells
    keys = cells.live_records * cells.key_size
    for edge, column in (("least", "record_size_min"), ("most", "record_size_max")):
        limit = keys + cells.live_records * cells[column]
        yield from outside(cells, "live_bytes", **{edge: limit}, why="live_records and their sizes")
    kept = cells[(cells.compressibility == "incompressible") & (cells.store != "null")]
    values = kept.live_bytes - kept.live_records * kept.key_size
    yield from outside(kept, "disk_bytes", values, why="the bytes of incompressible values")
    cells = cells.assign(memory=cells.memory_anonymous_bytes)
    yield from outside(cells, "memory_anonymous_bytes", most=cells.memory_bytes, why="the memory")
    capped = cells[cells.memory_max != UNCAPPED]
    cap = pd.Series(map(parse_bytes, capped.memory_max), capped.index, dtype=float)
    yield from outside(capped, "memory_anonymous_bytes", most=cap, why="the cap")
    for column in SHARES:
        yield from outside(cells, column, most=1)
    for column in TIMED_SHARES:
        yield from outside(own.operations, column, most=1)
    yield from outside(kept, "compressed_share", 0.9, why="of incompressible values")


RULES = (machine, copies, syncs, time, space)
