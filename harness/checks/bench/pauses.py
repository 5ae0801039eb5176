"""Measures the time that the harness adds between operations and after the last one."""

import ctypes
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvbench.cell.factors import OPERATIONS, Cell, RecordSize
from kvbench.cell.library import loop_library, structure
from kvbench.cell.meter import Meter
from kvbench.cell.worker import QUIET_S
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import title
from kvbench.sweep.sweep import run_cell
from loops import DURABILITY, VALUE, make_loop, make_records
from measures import Line, Rounds, Scale, Timer, in_folder

# What is timed, the goal, and the levels of its cells. A cell's load is one batch.
TIMED: dict[str, tuple[float, dict[str, Any]]] = {
    "rounds": (0.01, {}),
    "fillseq": (0.01, {"workload": "fillseq"}),
    "fillrandom": (0.01, {"workload": "fillrandom"}),
    "ycsb-a": (0.02, {"workload": "ycsb-a"}),
    "zipfian rounds": (0.02, {"key_order": "zipfian"}),
}
PAUSED = ("leveldb", "lmdb")
CHECKED, CHECKED_RECORDS = ("flat", "leveldb", "lmdb", "sqlite"), 10_000  # of the quick grid
READINGS = 10_000


def make_cell(store: str, records: int, seed: int, **levels: Any) -> Cell:
    size = RecordSize(VALUE, VALUE)
    return Cell(store, "", size, records, "incompressible", OPERATIONS, 1, seed, **levels)


def run_whole(cell: Cell, folder: str) -> dict[str, Any]:
    """The worker's answer for a cell, with the seconds of the whole process as `wall_s`."""
    with Timer() as timer:
        answer = run_cell(cell, Path(folder), time_limit=3600)
    if answer["status"] != "ok":
        raise BadInput(f"{title(cell)}: {answer['reason']}")
    return answer | {"wall_s": timer.seconds}


def pauses(scale: Scale, place: Path) -> dict[str, Rounds]:
    found = {f"pauses of {store}": _pauses(scale, store, place) for store in PAUSED}
    found |= {f"check of {store}": _check(scale, store, place) for store in CHECKED}
    settle = Line("rest", "lmdb: settling, though it owes nothing", "s", high=0.3)
    counters = Line("rest", "reading the counters between two operations", "us", high=5)
    found["settle"] = _each(settle, lambda: in_folder(place, _settle, scale.records))
    return found | {"counters": _each(counters, lambda: in_folder(place, _read_counters))}


def _each(line: Line, run: Callable[[], float]) -> Rounds:
    while True:
        yield {line: run()}


def _pauses(scale: Scale, store: str, place: Path) -> Rounds:
    """The largest paused share of a cell's rows."""
    line = functools.partial(Line, "pauses", note=f"{scale.records:,} records of {VALUE} B")
    for seed in itertools.count():
        found = {}
        for name, (most, levels) in TIMED.items():
            shared = {**DURABILITY, "least_ms": scale.least_ms}
            cell = make_cell(store, scale.records, seed, **shared, **levels)
            rows = in_folder(place, run_whole, cell)["operations"]
            shares = {row["operation"]: row["paused_share"] or 0.0 for row in rows}
            loading = shares.pop("load", 0.0)
            found[line(f"{store}: {name}", high=most)] = max(shares.values())
            if name == "rounds":
                found[line(f"{store}: load, making 1,000 records between batches")] = loading
        yield found


def _check(scale: Scale, store: str, place: Path) -> Rounds:
    note = f"{CHECKED_RECORDS:,} records of {VALUE} B"
    line = Line("rest", f"{store}: check, share of the cell's wall time", high=0.15, note=note)
    for seed in itertools.count():
        cell = make_cell(store, CHECKED_RECORDS, seed, least_ms=scale.least_ms)
        answer = in_folder(place, run_whole, cell)
        yield {line: answer["check_s"] / answer["wall_s"]}


def _settle(count: int, folder: str) -> float:
    """The seconds until the harness finds LMDB idle, which has no background threads."""
    records = make_records(count, 1)
    loop, meter = make_loop("lmdb", records), Meter(Path(folder), None)
    loop.open(Path(folder), DURABILITY)
    loop.load(records.live("insert"))
    loop.run(records.drawn("update", count))
    with Timer() as timer:
        meter.settle(QUIET_S)
    loop.close()
    return timer.seconds


def _read_counters(folder: str) -> float:
    """The microseconds to read the counters, without the overhead of the call from Python."""
    meter, counts = Meter(Path(folder), None), structure("meter_counts")()
    arguments = ctypes.byref(meter.struct), ctypes.byref(counts)
    library, seconds = loop_library(), []
    for function, given in ((library.meter_read, arguments), (library.loop_clock, (0, None))):
        with Timer() as timer:
            for _ in range(READINGS):
                function(*given)
        seconds.append(timer.seconds)
    return (seconds[0] - seconds[1]) / READINGS * 1e6
