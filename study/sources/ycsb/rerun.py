"""YCSB's core workloads."""

import pandas as pd
from kvbench.cell.workload import parse

from study.common import formats
from study.common.fields import over_trials, regrets, where
from study.common.results import Results

COLUMNS = {"p50_ns": "P50", "p99_ns": "P99", "p999_ns": "P99.9", "max_ns": "longest"}
CLOSED, OPEN = "closed loop", "open loop"


def _closed(data: Results) -> pd.DataFrame:
    rows = where(data.operations, label=CLOSED)
    rows = rows[rows.workload == rows.operation]
    data.require(rows, f"workload of YCSB in a {CLOSED}")
    return rows


def throughput(data: Results) -> pd.DataFrame:
    """Return the over_trials() summary of each workload and store in the closed loop, in thousand
    operations per second."""
    rows = _closed(data)
    speed = rows.n / rows.sum_ns * 1e9 / 1000
    return over_trials(rows.assign(speed=speed), "speed", ["operation", "store"])


def best(data: Results) -> dict[str, str]:
    """Return the stores that are or may be the best at each workload, as text, the best first."""
    found = regrets(_closed(data), "mean_ns", ["operation"])
    maybe = found[found.verdict.isin(["in", "undecided"])]
    return {str(name): formats.some(own.store, 2) for name, own in maybe.groupby("operation")}


def waits(data: Results, operation: str = "ycsb-a") -> pd.DataFrame:
    """Return percentiles of an operation in the closed and in the open loop, in ns: one row per
    store of the open loop, medians over the trials."""
    rows = where(data.operations, operation=operation)
    closed, opened = (
        where(rows, label=loop).groupby("store")[list(COLUMNS)].median().rename(columns=COLUMNS)
        for loop in (CLOSED, OPEN)
    )
    found = closed.add_prefix("closed: ").join(opened.add_prefix("open: "), how="inner")
    return found.loc[[store for store in data.stores() if store in found.index]]


def rate(data: Results) -> int:
    """Return the rate of the open loop; 0 if none was measured."""
    workloads = where(data.operations, label=OPEN).workload
    return int(parse(workloads.iloc[0])[0].get("rate", 0)) if len(workloads) else 0
