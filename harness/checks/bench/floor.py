"""Compares the timed loop on the store that does nothing with two bare clock reads."""

import ctypes
import math
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kvbench.cell.library import address, loop_library
from kvbench.cell.plan import Plan, Records
from loops import VALUE, make_loop, make_records
from measures import Line, Rounds, Scale, Timer, in_fresh_process


def _threads(count: int, work: Callable[[int], None]) -> float:
    """The seconds until all threads are done. The C loop releases the interpreter's lock."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    with Timer() as timer:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return timer.seconds


def _null_loops(threads: int, count: int) -> dict[str, float]:
    """The nanoseconds per operation of the loop on the null store, and per pair of clock reads."""
    own = [make_records(count, seed) for seed in range(threads)]
    loops = [make_loop("null", records) for records in own]
    plans: dict[str, Callable[[Records], Plan]] = {
        "insert": lambda records: records.live("insert"),
        "get": lambda records: records.drawn("get", count),
        "update": lambda records: records.drawn("update", count),
        "remove": lambda records: records.shuffled("remove", count),
    }
    found, told = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for loop in loops:
            loop.open(Path(folder), {})
        for operation, make in plans.items():
            todo = [make(records) for records in own]

            def run(i: int, todo: list[Plan] = todo) -> None:
                latency = loops[i].run(todo[i])[""].latency
                told.append(latency.sum / latency.n)

            found[operation] = _threads(threads, run) / count * 1e9
        for loop in loops:
            loop.close()
    times = np.zeros((threads, count), np.uint64)

    def read_clock(i: int) -> None:
        loop_library().loop_clock(ctypes.c_size_t(count), address(times[i]))

    clock = _threads(threads, read_clock) / count * 1e9
    loop_ns = float(np.mean(list(found.values())))
    made = found["update"] - found["get"]
    return {"loop": loop_ns, "told": float(np.mean(told)), "made": made, "clock": clock}


# Nanoseconds between two operations, at most: a twentieth of a pause (LOOP_PAUSE of loop.h).
GAP = 250


def floor(scale: Scale) -> dict[str, Rounds]:
    return {"floor": _floor(scale)}


def _floor(scale: Scale) -> Rounds:
    whole = "an operation: plan, key, value, clock and call"
    while True:
        found: dict[Line, float] = {}
        for threads in (1, 4):
            run = in_fresh_process(_null_loops, threads, scale.clock_pairs)
            where = f"{threads} thread{'s' if threads > 1 else ''}"
            loop, clock = run["loop"], run["clock"]
            found[Line("floor", f"two clock reads, {where}", "ns")] = clock
            # Several threads share the processors, so only one is held to a goal.
            most = GAP if threads == 1 else math.inf
            name = f"timed loop on the null store, {where}"
            found[Line("floor", name, "ns", high=most, note=whole)] = loop
            if threads == 1:
                told, made = run["told"], run["made"]
                found[Line("floor", "time that a null operation is told to take", "ns")] = told
                value = f"making a value of {VALUE} B, outside the timed part"
                found[Line("floor", value, "ns", high=GAP)] = made
        yield found
