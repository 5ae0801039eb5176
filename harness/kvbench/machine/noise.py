"""What else the machine did while a cell was measured, and which cells' trials disagree."""

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

from kvbench.experiment.factors import CONDITION

PRESSURE = Path("/proc/pressure/memory")
STOPPED = 0.1  # seconds in which a cell's worker was stopped, or lacked processors: reported above
STOLEN = 0.05  # share of a cell's wall time that the host withheld, from which on it is disturbed
TRIAL = re.compile(r"_t\d+_[0-9a-f]{16}$")  # ends the name of a cell
SPREAD = 2.0  # the slowest trial's mean time over the fastest's, from which on a cell is unsteady
ADVICE = "to measure them again, remove these files and sweep again on an otherwise idle machine"
SYNCED, WRITES = ("sync", "atomic"), ("insert", "update", "remove")
UNSYNCED = "see what `kvbench evidence` says of it"
CELL = ["machine", *CONDITION]  # what the trials of a cell share


def _memory_stall() -> float | None:
    """Seconds since boot in which a process waited for memory; None where the kernel does not
    count them."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rsplit("=", 1)[1]) / 1e6


def _frequency() -> float | None:
    """Of the processors, in MHz; None where it cannot be read."""
    try:
        found = psutil.cpu_freq()
    except (NotImplementedError, OSError):
        return None
    return float(found.current) if found else None


def _suspended() -> float:
    """Seconds for which the machine was suspended since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Watch:
    """What else the machine does from now on, and how long a worker is stopped."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._steal = psutil.cpu_times().steal
        self._stall = _memory_stall()
        self._suspended = _suspended()
        self._stopped = 0.0
        self._thread = threading.Thread()

    def follow(self, child: int) -> None:
        """Add up how long a child process is stopped by signals, until it ends. The thread sleeps
        in the kernel meanwhile."""
        self._thread = threading.Thread(target=self._follow, args=(child,), daemon=True)
        self._thread.start()

    def _follow(self, child: int) -> None:
        since: float | None = None
        with contextlib.suppress(ChildProcessError):  # it has ended and was waited for
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
        """The columns of a cell, when its worker has ended: processes that ran or waited for a
        processor or a disk in the minute before; seconds in which the hypervisor gave processors to
        others, in which a process waited for memory, and in which the worker was stopped or the
        machine suspended; the processors' frequency now. None is what cannot be read."""
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
    """The flag of a cell whose store promises that a write survives a loss of power, though it made
    fewer syncs than single writes in the rounds; else, and where syncs were not counted, empty. A
    batch may be synced by other calls, and threads may share a sync."""
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
    STOPPED seconds, longest first. Older results do not say."""
    return cells[(cells.status == "ok") & (cells.stopped_s > STOPPED)].sort_values(
        "stopped_s", ascending=False
    )


def stolen_share(cells: pd.DataFrame) -> "pd.Series[float]":
    """The processor time that the hypervisor gave to others during each cell, summed over the
    processors, over the cell's wall time; missing where either is not known."""
    share: pd.Series[float] = cells.steal_s / cells.wall_s
    return share


def disturbed(cells: pd.DataFrame) -> pd.DataFrame:
    """The measured cells with a stolen share above STOLEN, largest first, with that share as
    `stolen`: their times are the host's as much as the store's. The kernel counts in steps of
    10 ms, so a short cell needs STOPPED seconds, too."""
    found = cells.assign(stolen=stolen_share(cells))
    chosen = (found.status == "ok") & (found.stolen > STOLEN) & (found.steal_s > STOPPED)
    return found[chosen].sort_values("stolen", ascending=False)


def unsteady(operations: pd.DataFrame) -> pd.DataFrame:
    """Of the operations of results.frames, a row for each operation of a cell whose slowest trial
    took more than SPREAD times the mean time of its fastest. Its columns: CELL, operation, trials
    (their number), least and most (ns), spread (most / least, 1), and files (a pattern for the
    names of their cells). Operations that take hardly longer than reading the clock may appear."""
    by = operations.groupby([*CELL, "operation"], dropna=False)
    found = by.agg(
        trials=("mean_ns", "count"),
        least=("mean_ns", "min"),
        most=("mean_ns", "max"),
        files=("cell", lambda names: TRIAL.sub("_t*", names.iloc[0])),
    ).reset_index()
    found["spread"] = found.most / found.least
    return found[found.spread > SPREAD].sort_values("spread", ascending=False)
