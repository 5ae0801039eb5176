"""Records what else the machine did while a cell was measured, and finds cells that this disturbed
and cells whose trials disagree."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from kvbench.cell.factors import SYNCED, UNCAPPED
from kvbench.experiment.factors import CONDITION

PRESSURE = Path("/proc/pressure/memory")
LEAST = 0.1  # seconds of a disturbance that counts; the kernel counts stolen time in steps of 10 ms
SHARE = 0.05  # of the wall time: more time without processors or memory disturbs a cell
TRIAL = re.compile(r"_t\d+_[0-9a-f]{16}$")  # the end of a cell's name
SPREAD = 2.0  # a cell is unsteady if its slowest trial took more than this multiple of its fastest
JUDGED = (  # the columns that say whether a cell was disturbed
    "status", "memory_max", "wall_s", "steal_s", "memory_stall_s", "stopped_s", "clock_jump_s",
)  # fmt: skip
ADVICE = "to measure them again, remove these files and sweep again on an otherwise idle machine"
WRITES = ("insert", "update", "remove")
UNSYNCED = "see what `kvbench evidence` says of it"
CELL = ["machine", *CONDITION]  # the columns that all trials of a cell share


def _memory_stall() -> float | None:
    """The seconds since boot in which a process waited for memory; None if the kernel does not
    count them."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rsplit("=", 1)[1]) / 1e6


def _frequency() -> float | None:
    """The frequency of the processors in MHz; None if it cannot be read."""
    try:
        found = psutil.cpu_freq()
    except (NotImplementedError, OSError):
        return None
    return float(found.current) if found else None


def _ahead(clock: int) -> float:
    """The seconds by which a clock is ahead of the monotonic one. CLOCK_BOOTTIME is ahead by the
    time for which the machine was suspended."""
    clocks = clock, time.CLOCK_MONOTONIC
    readings = ([time.clock_gettime(clock) for clock in clocks] for _ in range(3))
    return max(one - running for one, running in readings)  # less if interrupted in between


class Watch:
    """Records from now on what else the machine does, and for how long a worker is stopped."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._steal = psutil.cpu_times().steal
        self._stall = _memory_stall()
        self._suspended, self._date = map(_ahead, (time.CLOCK_BOOTTIME, time.CLOCK_REALTIME))
        self._stopped = 0.0
        self._thread = threading.Thread()

    def follow(self, child: int) -> None:
        """Add up, until the process ends, for how long signals stop it. A thread does this, asleep
        in the kernel."""
        self._thread = threading.Thread(target=self._follow, args=(child,), daemon=True)
        self._thread.start()

    def _follow(self, child: int) -> None:
        since: float | None = None
        with contextlib.suppress(ChildProcessError):  # it has ended and was reaped
            while True:
                wanted = os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOWAIT
                seen = os.waitid(os.P_PID, child, wanted)
                if seen is None or seen.si_code not in (os.CLD_STOPPED, os.CLD_CONTINUED):
                    break
                self._stopped += 0.0 if since is None else time.monotonic() - since
                stopped = seen.si_code == os.CLD_STOPPED
                since = time.monotonic() if stopped else None
                # Take this change of state, so that the next wait returns at the next one.
                os.waitid(os.P_PID, child, os.WNOHANG | (os.WSTOPPED if stopped else os.WCONTINUED))
        self._stopped += 0.0 if since is None else time.monotonic() - since

    def row(self) -> dict[str, Any]:
        """The columns of the cell, once its worker has ended: the load of the minute before; the
        seconds in which the hypervisor withheld processors, in which a process waited for memory,
        and in which the worker was stopped or the machine suspended; by how many seconds somebody
        set the clock; and the processors' present frequency. A value that cannot be read is
        None."""
        if self._thread.ident is not None:
            self._thread.join()
        stall = _memory_stall()
        suspended = _ahead(time.CLOCK_BOOTTIME) - self._suspended
        return {
            "load_before": self._load,
            "steal_s": max(0.0, psutil.cpu_times().steal - self._steal),
            "memory_stall_s": None if stall is None or self._stall is None else stall - self._stall,
            "stopped_s": self._stopped + max(0.0, suspended),
            "clock_jump_s": abs(_ahead(time.CLOCK_REALTIME) - self._date - suspended),
            "frequency_mhz": _frequency(),
        }


def unsynced(guarantee: str, operations: Iterable[Mapping[str, Any]]) -> str:
    """The flag of a cell whose store guarantees that writes survive a power failure, but that
    issued fewer syncs than single writes in the rounds. Empty for other cells, and if syncs were
    not counted. Batches are ignored because other calls may sync them, and threads because they may
    share a sync."""
    if guarantee not in SYNCED:
        return ""
    short = [
        row["operation"]
        for row in operations
        if row["operation"] in WRITES and row.get("syncs") is not None and row["syncs"] < row["n"]
    ]
    return f"promises {guarantee}, but syncs less often than it writes: {UNSYNCED}" if short else ""


def stolen_share(cells: pd.DataFrame) -> "pd.Series[float]":
    """The processor time that the hypervisor withheld during each cell, summed over the processors,
    over the cell's wall time (1). Missing where either is unknown."""
    share: pd.Series[float] = cells.steal_s / cells.wall_s
    return share


def disturbances(cell: Mapping[str, Any]) -> dict[str, str]:
    """What disturbed a cell, and by how much, in words; empty if nothing did, or if the cell was
    not measured. `cell` has the columns JUDGED of its row in the table `cells`, as far as they are
    known. Memory that a cap withholds from a cell is no disturbance."""
    if cell["status"] != "ok":
        return {}
    lost = {name: cell.get(name) or 0.0 for name in JUDGED if name.endswith("_s")}
    wall = lost["wall_s"]
    shares = {"processors withheld": "steal_s"}
    if cell.get("memory_max") == UNCAPPED:
        shares["memory stalls"] = "memory_stall_s"
    whole = {"stopped or suspended": "stopped_s", "clock set": "clock_jump_s"}
    return {
        what: f"{lost[name] / wall:.0%}"
        for what, name in shares.items()
        if lost[name] > LEAST and lost[name] > SHARE * wall > 0
    } | {what: f"{lost[name]:.1f} s" for what, name in whole.items() if lost[name] > LEAST}


def disturbed(cells: pd.DataFrame) -> "pd.Series[str]":
    """What disturbed each cell, in words; empty if nothing did. Times of a disturbed cell depend on
    the machine's host as much as on the store."""
    rows = zip(*(cells[name] for name in JUDGED), strict=True)
    each = (disturbances(dict(zip(JUDGED, row, strict=True))) for row in rows)
    found = (", ".join(map(" ".join, own.items())) for own in each)
    return pd.Series(list(found), cells.index, dtype=object)


def unsteady(operations: pd.DataFrame) -> pd.DataFrame:
    """A row for each operation of a cell whose slowest trial took more than SPREAD times as long as
    its fastest; `operations` is that of results.frames. Columns: CELL, operation, trials (their
    number), least and most (ns, mean times), spread (1, most / least) and files (a pattern for the
    names of the cells). Operations that take little longer than a clock reading may appear."""
    by = operations.groupby([*CELL, "operation"], dropna=False)
    found = by.agg(
        trials=("mean_ns", "count"),
        least=("mean_ns", "min"),
        most=("mean_ns", "max"),
        files=("cell", lambda names: TRIAL.sub("_t*", names.iloc[0])),
    ).reset_index()
    found["spread"] = found.most / found.least
    return found[found.spread > SPREAD].sort_values("spread", ascending=False)
