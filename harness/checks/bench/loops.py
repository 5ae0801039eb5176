"""Compares the harness with loops written by hand on the engines' own interfaces (bare.h)."""

import ctypes
import dataclasses
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from kvbench import stores
from kvbench.loop import BATCH_RECORDS, ShimLoop, as_struct, make_pool, page_buffers
from kvbench.plan import CHUNK, CODES, POOL_SIZE, Plan
from measures import Line, Rounds, Scale, Timer, in_folder, interleaved

# Two B-trees, an LSM tree and files. All but the files lack an update that reports a missing key.
LOOKING_UP = ("leveldb", "lmdb", "bdb")
ENGINES = (*LOOKING_UP, "flat")
VALUE = 100  # bytes
DURABILITY = {"durability": "process"}


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
    written, updated = random.integers(0, records, records), random.integers(0, POOL_SIZE, records)
    found = {
        "fill": plan("insert", np.arange(records), offsets),
        "update": plan("update", written, updated),
    }
    offsets[written] = updated  # of a record that was updated twice the last one counts
    read = random.integers(0, records, records)
    return found | {"get": plan("get", read, offsets[read])}


def chunks(whole: Plan) -> Iterator[Plan]:
    """Parts that the harness takes at once, none of which ends within a batch."""
    most = CHUNK // BATCH_RECORDS * BATCH_RECORDS
    for start in range(0, len(whole), most):
        part = slice(start, start + most)
        yield Plan(*(getattr(whole, field.name)[part] for field in dataclasses.fields(Plan)))


class HarnessLoop:
    """The harness on an engine's shim. Each method returns the sum of the reported nanoseconds."""

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
    """The same work in a loop written by hand; see bare.h."""

    def __init__(self, library: str, records: int, seed: int) -> None:
        self._code = ctypes.CDLL(library)
        self._pool = make_pool("incompressible", VALUE, seed)
        self._pages, (buffer, value) = page_buffers(VALUE)
        self._bare = _Bare(self._pool.ctypes.data, stride(records), buffer, value, VALUE)
        self._nanoseconds = np.zeros(records, np.uint64)

    def _call(self, function: str, work: Plan, *arguments: Any) -> float:
        self._nanoseconds[:] = 0
        times = ctypes.c_void_p(self._nanoseconds.ctypes.data)
        passed = (ctypes.byref(self._bare), ctypes.byref(as_struct(work)), *arguments, times)
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
    found |= {"update": loop.update(work["update"], look_up), "get": loop.get(work["get"])}
    loop.close()
    return found


def bare(scale: Scale, libraries: Path, place: Path) -> dict[str, Rounds]:
    """For each engine, the throughput of the harness over that of the bare loop."""
    known = stores.known()
    return {
        f"bare loop, {engine}": _bare(scale, engine, libraries / f"{engine}.so", place)
        for engine in ENGINES
        if (libraries / f"{engine}.so").exists() and known[engine].available
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
        "bare": functools.partial(run, BareLoop, str(library), True, records),
        "harness": functools.partial(run, HarnessLoop, engine, True, records),
    }
    if engine in LOOKING_UP:
        sides["blind"] = functools.partial(run, BareLoop, str(library), False, records)
    for found in interleaved(**sides):
        own, by_hand = found["harness"], found["bare"]
        ratios = {line: by_hand[name] / own[name] for name, line in lines.items()}
        ratios[load] = own["load"] / by_hand["load"]
        if "blind" in found:
            ratios[blind] = found["blind"]["update"] / own["update"]
        yield ratios
