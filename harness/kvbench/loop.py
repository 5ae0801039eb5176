"""The timed loop of bench.c: plans in, nanoseconds out."""

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvbench.plan import CHUNK, POOL_SIZE, Plan, Population
from kvbench.stores import Driver, Session, Status, Store, StoreError, loop_library

BATCH_RECORDS = 1000
BATCH_BYTES = 4 << 20  # of values; a larger value is a batch of its own

Nanoseconds = npt.NDArray[np.uint64]


class _Plan(ctypes.Structure):
    """struct bench_plan"""

    _fields_ = (
        ("count", ctypes.c_size_t),
        ("operation", ctypes.c_void_p),
        ("number", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
        ("size", ctypes.c_void_p),
    )


class _Bench(ctypes.Structure):
    """struct bench"""

    _fields_ = (
        ("driver", ctypes.POINTER(Driver)),
        ("kv", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("stride", ctypes.c_uint64),
        ("buffer", ctypes.c_void_p),
        ("capacity", ctypes.c_size_t),
        ("error", ctypes.c_char * 768),
    )


def make_pool(compressibility: str, largest_value: int, seed: int) -> npt.NDArray[np.uint8]:
    """What values are cut from."""
    pool = np.empty(POOL_SIZE + largest_value, np.uint8)
    fill = loop_library()[f"records_fill_{compressibility}"]
    fill(ctypes.c_void_p(pool.ctypes.data), ctypes.c_size_t(len(pool)), ctypes.c_uint64(seed))
    return pool


class Loop:
    """Runs plans on one store and notes the nanoseconds of each operation."""

    def __init__(self, store: Store, population: Population, pool: npt.NDArray[np.uint8]) -> None:
        self._library = loop_library()
        self._store = store
        self._pool = pool  # kept alive
        self._nanoseconds = np.zeros(CHUNK, np.uint64)
        self._bench = _Bench(
            pool=pool.ctypes.data, stride=population.stride, capacity=population.size.high
        )

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._library[function](ctypes.byref(self._bench), *arguments)
        if status != Status.OK:
            raise StoreError(self._bench.error.decode(errors="replace"))

    def _plan(self, plan: Plan) -> _Plan:
        columns = (plan.operation, plan.number, plan.offset, plan.size)
        return _Plan(len(plan), *(column.ctypes.data for column in columns))

    def open(self, folder: Path) -> None:
        self._bench.driver = ctypes.pointer(self._store.driver())
        self._call("bench_open", os.fsencode(folder), None, ctypes.c_size_t(0))

    def close(self) -> None:
        self._call("bench_close")

    def load(self, plan: Plan) -> Nanoseconds:
        """Write the plan's records in batches. Returns the time of each batch."""
        batches = ctypes.c_size_t()
        self._call(
            "bench_load",
            ctypes.byref(self._plan(plan)),
            ctypes.c_size_t(BATCH_RECORDS),
            ctypes.c_size_t(BATCH_BYTES),
            ctypes.c_void_p(self._nanoseconds.ctypes.data),
            ctypes.byref(batches),
        )
        return self._nanoseconds[: batches.value].copy()

    def run(self, plan: Plan) -> Nanoseconds:
        """Returns the time of each operation. A wrong answer is a StoreError."""
        nanoseconds = ctypes.c_void_p(self._nanoseconds.ctypes.data)
        self._call("bench_run", ctypes.byref(self._plan(plan)), nanoseconds)
        return self._nanoseconds[: len(plan)].copy()

    def effective_options(self) -> dict[str, str]:
        return Session(self._bench.driver.contents, self._bench.kv).effective_options()
