"""Stores that grow old: their rate while most records are overwritten, the space that they take,
the work they leave for later, and the time to open them again."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from kvbench.cell.factors import UNCAPPED, parse_bytes
from kvbench.cell.workload import CHURN, parse
from kvbench.stats.intervals import WINDOWS, Steadiness, steadiness
from matplotlib.figure import Figure

from study.common import figures, formats
from study.common.fields import each, where
from study.common.results import Results

WINDOW, LEAST_WINDOW = 30, 3  # seconds; windows shorter than 3 s miss a slow decline
SHARE = 8  # in short runs, a window is at most an eighth of the run
COLUMNS = 4  # of small charts
BY = ["store", "records"]
WRITES = [f"{CHURN} update", f"{CHURN} insert"]


def window(data: Results) -> int:
    """Return the length of a window in seconds, which depends on how long the grid lets the stores
    churn."""
    steps = (step for text in data.cells.workload.unique() for step in parse(text))
    least = min(step.get("seconds", 0) for step in steps if step.name == CHURN)
    return max(LEAST_WINDOW, min(WINDOW, least // SHARE))


def seconds(data: Results) -> pd.DataFrame:
    """Return the complete seconds of churn, one row per second, with the further column `space`:
    bytes on disk per live byte. Raises BadInput if there are none."""
    rows = data.timeline[data.timeline.operation == CHURN]
    data.require(rows, f"second of {CHURN}")
    rows = rows[rows.second < rows.groupby("cell").second.transform("max")]
    live = data.cells.set_index("cell").live_bytes
    churn: pd.DataFrame = rows.assign(space=rows.space_bytes / rows.cell.map(live))
    return churn


def steady(rows: pd.DataFrame, each_window: int) -> dict[tuple[str, int], list[Steadiness]]:
    """Return the steadiness of each trial, by store and record count."""
    by_key: dict[tuple[str, int], list[Steadiness]] = {}
    for _, trial in rows.groupby([*BY, "trial"]):
        key = str(trial.store.iloc[0]), int(trial.records.iloc[0])
        counts = trial.sort_values("second").n
        by_key.setdefault(key, []).append(steadiness(counts, each_window))
    return by_key


def verdict(trials: list[Steadiness], lasted: int) -> str:
    """Return the rate as text if it was steady in every trial; otherwise how long it was
    observed."""
    if all(trial.steady for trial in trials):
        return f"{formats.rate(float(np.median([trial.rate for trial in trials])))} a second"
    return f"not steady after {lasted / 60:.1f} minutes"


def verdicts(rows: pd.DataFrame, each_window: int) -> dict[tuple[str, int], str]:
    """Return the verdict() on each store and record count."""
    lasted = rows.groupby(BY).second.max() + 1
    trials_by_key = steady(rows, each_window)
    return {key: verdict(trials, lasted[key]) for key, trials in trials_by_key.items()}


def names(data: Results) -> dict[int, str]:
    """Return what each record count stands for: the size of the data, and its ratio to the cap."""
    live = data.cells.groupby("records").live_bytes.median()
    caps = [cap for cap in data.level("memory_max") if cap != UNCAPPED]
    if not caps:
        return {count: formats.size(size) for count, size in zip(live.index, live, strict=True)}
    cap = parse_bytes(caps[0])
    return {
        count: f"{formats.size(size)}, {formats.number(round(size / cap, 2))} times the cap"
        for count, size in zip(live.index, live, strict=True)
    }


def _charts(data: Results, label: str) -> tuple[Figure, dict[str, Any]]:
    """Return a figure with one chart per store. Each has its own time axis, because slow stores
    take longer."""
    stores = data.stores()
    columns = min(COLUMNS, len(stores))
    depth = -(-len(stores) // columns)
    size = (7, 0.5 + 1.6 * depth)
    figure, axes = plt.subplots(
        depth, columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(stores) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel(label)
    charts = dict(zip(stores, axes.flat, strict=False))
    for store, axis in charts.items():
        axis.set(title=store, xlabel="time [s]")
    return figure, charts


def _look(data: Results) -> dict[int, dict[str, Any]]:
    styles = zip(data.counts(), figures.LEVEL_STYLES[1:], strict=False)
    return {count: {"color": ink, "linewidth": 0.7} for count, (ink, _) in styles}


def draw_rates(data: Results, rows: pd.DataFrame, each_window: int) -> Figure:
    """Draw one chart per store with the operations in each second, one line per trial and record
    count. A thick line is the rate of the last windows, where it was steady in every trial."""
    figure, charts = _charts(data, "operations a second")
    by_key, handles = steady(rows, each_window), {}
    texts = verdicts(rows, each_window)
    for at, (count, look) in enumerate(_look(data).items()):
        for store, axis in charts.items():
            part = where(rows, store=store, records=count)
            for _, trial in part.groupby("trial"):
                # A logarithmic axis cannot show a second in which no operation ended.
                shown = axis.plot(trial.second, trial.n.where(trial.n > 0), alpha=0.7, **look)
                handles[names(data)[count]] = shown[0]
            if part.empty:
                continue
            trials = by_key[store, count]
            if all(trial.steady for trial in trials):
                last = part.second.max() + 1
                rate = float(np.median([trial.rate for trial in trials]))
                span = [last - WINDOWS * each_window, last]
                axis.plot(span, [rate, rate], color=look["color"], linewidth=2.5, alpha=0.6)
            axis.text(
                0.98, 0.13 - 0.1 * at, texts[store, count], transform=axis.transAxes, ha="right",
                fontsize=5.5, color=look["color"],
            )  # fmt: skip
    seen = rows.n[rows.n > 0]
    next(iter(charts.values())).set(yscale="log", ylim=(seen.min() / 10, seen.max() * 2))
    figures.legend(figure, handles)
    figures.foot(figure, data)
    return figure


def draw_space(data: Results, rows: pd.DataFrame) -> Figure:
    """Draw one chart per store with its space per live byte, while it churns and at its end."""
    figure, charts = _charts(data, "space / live bytes")
    handles = {}
    ends = where(data.operations, operation=CHURN).merge(data.cells[["cell", "live_bytes"]])
    for count, look in _look(data).items():
        for store, axis in charts.items():
            for _, trial in where(rows, store=store, records=count).groupby("trial"):
                axis.plot(trial.second, trial.space, alpha=0.7, **look)
            part = where(ends, store=store, records=count)
            if not part.empty:
                ink = {"color": look["color"], "markersize": 3, "linestyle": "none"}
                shown = axis.plot(part.wall_s, part.disk_bytes / part.live_bytes, "o", **ink)
                handles[names(data)[count]] = shown[0]
    next(iter(charts.values())).set_ylim(bottom=0)
    figures.legend(figure, handles)
    figures.foot(figure, data)
    return figure


def peaks(data: Results) -> "pd.Series[float]":
    """Return, by cell, the greatest observed space over the live bytes, while the store was filled,
    churned and settled."""
    cells = data.cells.set_index("cell")
    seen = pd.concat(
        [
            data.timeline.groupby("cell").space_bytes.max(),
            data.operations.groupby("cell").disk_bytes.max(),
            cells[["ended_disk_bytes", "debt_disk_bytes", "disk_bytes"]].max(axis=1),
        ],
        axis=1,
    )
    peak: pd.Series[float] = (seen.max(axis=1) / cells.live_bytes).rename("peak")
    return peak


def times(data: Results) -> "pd.Series[float]":
    """Return, by cell, how many times its data were written during the churn."""
    written = data.operations[data.operations.operation.isin(WRITES)].groupby("cell").n.sum()
    ratio: pd.Series[float] = written / data.cells.set_index("cell").records
    return ratio


def ends(data: Results) -> pd.DataFrame:
    """Return the final state of each store: one row per store and record count, medians over the
    trials as text."""
    cells = data.cells.merge(peaks(data), left_on="cell", right_index=True)
    cells["times"] = cells.cell.map(times(data))
    columns = ["times", "debt_s", "debt_bytes", "peak", "reopen_s"]
    medians = cells.groupby(BY)[columns].median().reset_index()
    order = {store: at for at, store in enumerate(data.stores())}
    medians = medians.sort_values(BY, key=lambda column: column.map(order).fillna(column))
    return pd.DataFrame(
        {
            "store": row.store,
            "data": names(data)[row.records],
            "written / data": formats.number(round(row.times, 1)),
            "debt": f"{formats.time(row.debt_s * 1e9)}, {formats.size(row.debt_bytes)}",
            "peak space / live bytes": f"{row.peak:.2f}",
            "time to open again": formats.time(row.reopen_s * 1e9),
        }
        for row in each(medians)
    )


def lost(data: Results) -> str:
    """Return a sentence on the cells that failed, with the reasons; empty if none did."""
    failed = where(data.all_cells, status="failed")
    reasons = {f"{row.store} with {row.records:,} records: {row.reason}" for row in each(failed)}
    return f"Failed: {'; '.join(sorted(reasons))}." if reasons else ""
