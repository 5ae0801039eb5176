"""What else the machine did while a cell was measured, and whose trials disagree."""

import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from kvbench.grid import LEVELS

PRESSURE = Path("/proc/pressure/memory")
TRIAL = re.compile(r"_t\d+_[0-9a-f]{16}$")  # ends the name of a cell
SPREAD = 2.0  # the slowest trial's mean time over the fastest's, from which on a cell is unsteady
ADVICE = (
    "see what else ran (load_before, steal_s, memory_stall_s); to measure them again on a quieter "
    "machine, remove these files and sweep again"
)
CONDITION = [
    "machine", "store", "access", "binding", "record_size", "records", "compressibility", *LEVELS
]  # fmt: skip


def _memory_stall() -> float | None:
    """Seconds in which a process waited for memory, since boot; None where the kernel keeps no
    account of it."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rsplit("=", 1)[1]) / 1e6


def _frequency() -> float | None:
    """Of the processors, in MHz; None where it can't be read."""
    try:
        found = psutil.cpu_freq()
    except (NotImplementedError, OSError):
        return None
    return float(found.current) if found else None


class Watch:
    """From its making on."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._steal = psutil.cpu_times().steal
        self._stall = _memory_stall()

    def row(self) -> dict[str, Any]:
        """The columns of a cell: processes that ran or waited for a processor or a disk in the
        minute before, seconds in which the hypervisor had other work for a processor, in which a
        process waited for memory, and the processors' frequency now, where it can be read."""
        stall = _memory_stall()
        return {
            "load_before": self._load,
            "steal_s": max(0.0, psutil.cpu_times().steal - self._steal),
            "memory_stall_s": None if stall is None or self._stall is None else stall - self._stall,
            "frequency_mhz": _frequency(),
        }


def unsteady(cells: pd.DataFrame, operations: pd.DataFrame) -> pd.DataFrame:
    """A row a cell and operation whose trials' mean times differ by more than SPREAD, with their
    number, `spread` and `files`, a pattern for the names of their cells; of operations nearer to
    the clock's own cost than that can be told, too."""
    measured = cells[cells.status == "ok"]
    rows = measured[["cell", *CONDITION]].merge(operations, on="cell")
    means = rows.assign(mean_ns=rows.sum_ns / rows.n)
    by = means.groupby([*CONDITION, "operation"], dropna=False)
    found = by.agg(
        trials=("mean_ns", "count"),
        least=("mean_ns", "min"),
        most=("mean_ns", "max"),
        files=("cell", lambda names: TRIAL.sub("_t*", names.iloc[0])),
    ).reset_index()
    found["spread"] = found.most / found.least
    return found[found.spread > SPREAD].sort_values("spread", ascending=False)
