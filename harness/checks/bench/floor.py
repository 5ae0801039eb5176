"""Compares the timed loop on the store that does nothing with two bare clock reads."""

import ctypes
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kvbench import stores
from kvbench.factors import OPERATIONS
from kvbench.library import loop_library
from kvbench.loop import ShimLoop, make_pool
from kvbench.plan import POOL_SIZE
from loops import VALUE, plan
from measures import Line, Rounds, Scale, Timer, in_fresh_process


def _threads(count: int, work: Callable[[int], None]) -> float:
    """Seconds until all threads are done. The C loop releases the interpreter's lock."""
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
        for operation in OPERATIONS:
            own = plan(operation, numbers, offsets)
            taken = _threads(threads, lambda i, own=own: loops[i].run_into(own, times[i]))  # type: ignore[misc]
            found[operation] = taken / operations * 1e9
        found["told"] = float(np.mean([own.mean() for own in times]))
        for loop in loops:
            loop.close()
    clock = loop_library().loop_clock

    def read_clock(i: int) -> None:
        clock(ctypes.c_size_t(operations), ctypes.c_void_p(times[i].ctypes.data))

    found["clock"] = _threads(threads, read_clock) / operations * 1e9
    return found


def floor(scale: Scale) -> dict[str, Rounds]:
    return {"floor": _floor(scale)}


def _floor(scale: Scale) -> Rounds:
    whole = "whole loop, an operation: key, value, check, clock and call"
    while True:
        found: dict[Line, float] = {}
        for threads in (1, 4):
            run = in_fresh_process(_null_loops, threads, scale.clock_pairs)
            where = f"{threads} thread{'s' if threads > 1 else ''}"
            loop, clock = float(np.mean([run[name] for name in OPERATIONS])), run["clock"]
            found[Line("floor", f"two clock reads, {where}", "ns")] = clock
            found[Line("floor", f"timed loop on the null store, {where}", "ns")] = loop
            over = f"timed loop over two clock reads, {where}"
            found[Line("floor", over, high=1.3, note=whole)] = loop / clock
            if threads == 1:
                told, made = run["told"], run["update"] - run["remove"]
                found[Line("floor", "time that a null operation is told to take", "ns")] = told
                value = f"making a value of {VALUE} B over the time that a null operation takes"
                found[Line("floor", value, high=1, note="outside the timed part")] = made / told
        yield found
