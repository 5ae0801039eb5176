"""Compares the harness with loops written by hand on the engines' own interfaces (bare.h)."""

import ctypes
import functools
from pathlib import Path
from typing import Any

from kvbench.cell.factors import OPERATIONS, Cell, RecordSize
from kvbench.cell.loop import BATCH_RECORDS, ShimLoop
from kvbench.cell.plan import Records, make_pool
from kvbench.cell.store import Store
from kvbench.stores import about, catalogue
from measures import Line, Rounds, Scale, Timer, in_folder, interleaved

# Two B-trees, an LSM tree and files. Only files have an update that reports a missing key.
LOOKING_UP = ("leveldb", "lmdb", "bdb")
ENGINES = (*LOOKING_UP, "flat")
VALUE = 100  # bytes
DURABILITY = {"durability": "process"}


def make_records(count: int, seed: int) -> Records:
    """Records that all exist and may be rewritten."""
    size, work = RecordSize(VALUE, VALUE), "fillseq, overwrite"
    cell = Cell("null", "", size, count, "incompressible", OPERATIONS, 1, seed, workload=work)
    return Records(cell)


class BareLoop(ShimLoop):
    """A loop written by hand: a library that implements functions of loop.h."""

    def __init__(self, library: str, records: Records) -> None:
        super().__init__(Store("null"), records, pool(records))
        self._library = ctypes.CDLL(library)


def pool(records: Records) -> Any:
    return make_pool("incompressible", VALUE, records.cell.seed)


def packaged(engine: str) -> str:
    """The store that uses the same library as bare loops and peers: the distribution's."""
    second = engine + about.DISTRIBUTED
    return second if second in catalogue.names() else engine


def make_loop(what: str, records: Records) -> ShimLoop:
    """The harness's loop on an engine's shim, or a bare loop if `what` is the path of its
    library."""
    if what.endswith(".so"):
        return BareLoop(what, records)
    return ShimLoop(Store(what), records, pool(records))


def run_loop(what: str, count: int, seed: int, folder: str) -> dict[str, float]:
    """The nanoseconds of each part as the loop reports them, and the wall-clock seconds of the
    load: fill in key order, update at random, get at random."""
    records = make_records(count, seed)
    loop = make_loop(what, records)
    loop.open(Path(folder), DURABILITY)
    with Timer() as timer:
        fill = loop.load(records.live("insert"), BATCH_RECORDS)
    found = {"fill": float(fill.latency.sum), "load": timer.seconds}
    for operation in ("update", "get"):
        found[operation] = float(loop.run(records.drawn(operation, count))[""].latency.sum)
    loop.close()
    return found


def bare(scale: Scale, libraries: Path, place: Path) -> dict[str, Rounds]:
    """For each engine, the ratio of the harness's throughput to the bare loop's."""
    known = catalogue.known()
    return {
        f"bare loop, {engine}": _bare(scale, engine, libraries / f"{engine}.so", place)
        for engine in ENGINES
        if (libraries / f"{engine}.so").exists() and known[packaged(engine)].available
    }


def _bare(scale: Scale, engine: str, library: Path, place: Path) -> Rounds:
    records = scale.files if engine == "flat" else scale.records
    note = f"{records:,} records of {VALUE} B"
    lines = {
        name: Line("bare loop", f"{engine}: {name}", low=0.97, note=note)
        for name in ("fill", "update", "get")
    }
    load = Line("load", f"{engine}: wall time of loading", high=1.1)
    told = "the contract's update tells whether the key existed"
    blind = Line("bare loop", f"{engine}: update without the look-up", low=0.97, note=told)
    run = functools.partial(in_folder, place, run_loop)
    sides = {
        "bare": functools.partial(run, str(library), records),
        "harness": functools.partial(run, packaged(engine), records),
    }
    if engine in LOOKING_UP:
        blindly = library.with_stem(f"{engine}-blind")
        sides["blind"] = functools.partial(run, str(blindly), records)
    for found in interleaved(**sides):
        own, by_hand = found["harness"], found["bare"]
        ratios = {line: by_hand[name] / own[name] for name, line in lines.items()}
        ratios[load] = own["load"] / by_hand["load"]
        if "blind" in found:
            ratios[blind] = found["blind"]["update"] / own["update"]
        yield ratios
