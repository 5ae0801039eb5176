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
from measures import Measure, Scale, Timer, in_folder, interleaved, quotients

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


def bare(scale: Scale, libraries: Path, place: Path) -> Iterator[Measure]:
    """Throughput of the harness over that of the bare loop: nanoseconds the other way round."""
    known = stores.known()
    for engine in ENGINES:
        library = libraries / f"{engine}.so"
        if not library.exists() or not known[engine].available:
            continue
        records = scale.files if engine == "flat" else scale.records
        for look_up in (True, False) if engine in LOOKING_UP else (True,):
            run = functools.partial(in_folder, place)
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
                size = f"{records:,} records of {VALUE} B"
                yield Measure("bare loop", name, "1", quotient(operation), low=0.97, note=size)
            load = quotients(found["harness"], found["bare"], "load")
            yield Measure("load", f"{engine}: wall time of loading", "1", load, high=1.1)
