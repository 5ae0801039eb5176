"""Records what else the machine did while a cell was measured, and finds cells whose trials
disagree."""

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

from kvbench.cell.factors import SYNCED
from kvbench.experiment.factors import CONDITION

PRESSURE = Path("/proc/pressure/memory")
STOPPED = 0.1  # seconds of a worker stopped, or without processors, to report
STOLEN = 0.05  # share of wall time withheld by the host that makes a cell disturbed
TRIAL = re.compile(r"_t\d+_[0-9a-f]{16}$")  # the end of a cell's name
SPREAD = 2.0  # a cell is unsteady if its slowest trial took more than this multiple of its fastest
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


def _suspended() -> float:
    """The seconds since boot for which the machine was suspended."""
    clocks = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
    readings = ([time.clock_gettime(clock) for clock in clocks] for _ in range(3))
    return max(boot - running for boot, running in readings)  # less if interrupted in between


class Watch:
    """Records from now on what else the machine does, and for how long a worker is stopped."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._steal = psutil.cpu_times().steal
        self._stall = _memory_stall()
        self._suspended = _suspended()
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
        and in which the worker was stopped or the machine suspended; and the processors' present
        frequency. A value that cannot be read is None."""
        if self._thread.ident is not None:
            self._thread.join()
        stall = _memory_stall()
        return {
            "load_before": self._load,
            "steal_s": max(0.0, psutil.cpu_times().steal - self._steal),
            "memory_stall_s": None if stall is None or self._stall is None else stall - self._stall,
            "stopped_s": self._stopped + max(0.0, _suspended() - self._suspended),
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


def stopped(cells: pd.DataFrame) -> pd.DataFrame:
    """The measured cells whose worker was stopped, or whose machine was suspended, for more than
    STOPPED seconds, longest first. Results of older versions lack this information."""
    return cells[(cells.status == "ok") & (cells.stopped_s > STOPPED)].sort_values(
        "stopped_s", ascending=False
    )


def stolen_share(cells: pd.DataFrame) -> "pd.Series[float]":
    """The processor time that the hypervisor withheld during each cell, summed over the processors,
    over the cell's wall time (1). Missing where either is unknown."""
    share: pd.Series[float] = cells.steal_s / cells.wall_s
    return share


def disturbed(cells: pd.DataFrame) -> pd.DataFrame:
    """The measured cells with a stolen share above STOLEN, largest first, with that share as
    `stolen`. Their times depend on the host as much as on the store. The kernel counts in steps of
    10 ms, so the stolen time must also exceed STOPPED seconds."""
    found = cells.assign(stolen=stolen_share(cells))
    chosen = (found.status == "ok") & (found.stolen > STOLEN) & (found.steal_s > STOPPED)
    return found[chosen].sort_values("stolen", ascending=False)


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
