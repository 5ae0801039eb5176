"""Latency at fractions of each store's own rate, and what the paced loop itself adds to it."""

import copy
from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.histogram import enough
from kvbench.cell.workload import parse
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from study.common import figures, formats
from study.common.fields import each, over_trials, where
from study.common.results import Results
from study.common.stores import colour, marker

PACER = "null"  # the store that does nothing
PERCENTILES = {"p50_ns": ("median", 0.5), "p99_ns": ("P99", 0.99), "p999_ns": ("P99.9", 0.999)}
LATE = ("p50", "p99", "max")
BEHIND = 0.95  # a loop that reaches less than this share of the rate asked for fell behind
FIELD = ["durability", "reads"]
TOO_FEW = "too few"


def steps(data: Results) -> pd.DataFrame:
    """Return one row per step of a mix and trial, with the further columns `reads`, the gets in
    percent, and `load`, the rate in percent of the closed loop's (0: the closed loop itself). A
    percentile is missing if fewer than ten operations lie beyond it, and if the machine's host
    disturbed the cell, because its stalls would count as the store's. Raises BadInput if no rate
    was asked for."""
    rows = data.operations[data.operations.reached_rate.notna()]
    data.require(rows[rows.asked_rate.notna()], "latency at a rate that was asked for")
    load = (100 * rows.asked_rate / rows.closed_rate).fillna(0).round().astype(int)
    mixes: pd.DataFrame = rows.assign(
        reads=rows.workload.map(lambda text: parse(text)[0].reads), load=load
    )
    for column, (_, share) in PERCENTILES.items():
        known = np.array([enough(n, share) for n in mixes.n]) & ~mixes.disturbed
        mixes[column] = mixes[column].where(known)
    return mixes


def bounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what the open loop measures of a store that does nothing: one row per mix and rate,
    with medians over the trials. The columns `late_..._ns`, by how much operations began late, have
    the greatest instead. `busy` is the share of the time in which the loop used a processor."""
    paced = rows[(rows.store == PACER) & rows.asked_rate.notna()]
    paced = paced.assign(busy=(paced.user_s + paced.system_s) / paced.wall_s)
    columns = dict.fromkeys(["asked_rate", *PERCENTILES, "busy"], "median")
    columns |= dict.fromkeys([f"late_{name}_ns" for name in LATE], "max")
    by_rate: pd.DataFrame = paced.groupby(["reads", "operation"], as_index=False).agg(columns)
    return by_rate.sort_values(["reads", "asked_rate"])


def bound(paced: pd.DataFrame, reads: int, rate: float, column: str) -> float:
    """Return the loop's own percentile at a rate, in ns: the larger of the two at the nearest
    measured rates below and above."""
    mix = where(paced, reads=reads)
    below, above = mix[mix.asked_rate <= rate].tail(1), mix[mix.asked_rate >= rate].head(1)
    return float(pd.concat([below, above])[column].max())


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the over_trials() summary of each `percentile` in ns, by field, store and load.
    `bound` is the loop's own percentile in ns, and `rate` the median of the rates asked for, in the
    closed loop of those reached."""
    stores, below = rows[rows.store != PACER], bounds(rows)
    by = [*FIELD, "store", "load"]
    rates = stores.asked_rate.fillna(stores.reached_rate)
    rate = stores.assign(rate=rates).groupby(by).rate.median()
    parts = [over_trials(stores, column, by).assign(percentile=column) for column in PERCENTILES]
    percentiles = pd.concat(parts).join(rate, on=by)
    at = zip(percentiles.reads, percentiles.rate, percentiles.percentile, strict=True)
    floors = pd.Series([bound(below, *place) for place in at], percentiles.index)
    return percentiles.assign(
        bound=floors.where(percentiles.load > 0)
    )  # a closed loop is not paced


def behind(rows: pd.DataFrame) -> list[str]:
    """Return the stores whose loop fell behind the rate asked for, each with the loads at which it
    did."""
    late = rows[(rows.store != PACER) & (rows.reached_rate < BEHIND * rows.asked_rate)]
    return [
        f"{store} at {', '.join(f'{load}%' for load in sorted(set(loads)))}"
        for store, loads in late.groupby("store").load
    ]


def draw(rows: pd.DataFrame, data: Results) -> Figure:
    """Draw one row per field and one column per percentile: the latency of each store over the rate
    at which operations were due. A grey band shows what the loop itself adds."""
    percentiles, below = curves(rows), bounds(rows)
    opened = percentiles[percentiles.load > 0]
    data.require(opened, "step under load that the machine's host did not disturb")
    fields = list(opened.groupby(FIELD).groups)
    figure, axes = figures.grid(len(fields), len(PERCENTILES), 1.35)
    handles: dict[str, Any] = {}
    rates = np.geomspace(opened.rate.min() / 1.5, opened.rate.max() * 1.5, 100)
    for (i, (level, reads)), (j, column) in figures.pairs(fields, list(PERCENTILES)):
        axis, name = axes[i, j], f"{level}\n{reads}% gets"
        figures.name_times(axes, i, j, name, PERCENTILES[column][0], "operations due a second")
        band = [bound(below, reads, rate, column) / 1000 for rate in rates]
        axis.fill_between(rates, 1e-3, band, color="#cccccc", linewidth=0)
        panel = where(opened, durability=level, reads=reads, percentile=column)
        for store in data.stores():
            points = where(panel, store=store).sort_values("load")
            if len(points):
                look: Any = {"color": colour(store), "marker": marker(store), "markersize": 3}
                handles[store] = figures.draw_points(
                    axis, points.rate, points, unit=1000, linewidth=0.8, elinewidth=0.7, **look
                )
                figures.ring(axis, points.rate, points["median"] / 1000, points.cooled)
        axis.yaxis.set_minor_formatter(NullFormatter())
    least, most = opened.low.min() / 1000, opened.high.max() / 1000
    for axis in axes.flat:
        axis.set_ylim(least / 2, most * 2)
        axis.set_xlim(rates[0], rates[-1])
    figures.legend(figure, handles)
    counts = f"{max(data.counts()):,} records of {', '.join(data.sizes())}, one thread."
    slow = "; ".join(behind(rows))
    told = [counts, pacer_note(below, data), slow and f"Fell behind the rate asked for: {slow}."]
    of_stores = copy.copy(data)  # without the null store: its times are the harness's floor
    of_stores.operations = data.operations[data.operations.store != PACER]
    figures.foot(figure, of_stores, *filter(None, told), settings=False)
    return figure


def pacer_note(below: pd.DataFrame, data: Results) -> str:
    """Return the loop's own cost, in words."""
    median, p99, most = (formats.time(below[f"late_{name}_ns"].max()) for name in LATE)
    return (
        "Grey: no more than the same loop measures of a store that does nothing. "
        f"There it began operations {median} late in the median, {p99} at P99 and about "
        f"{most} in the worst case, at the worst rate, and kept "
        f"{formats.share(below.busy.median())} of a processor busy, of {data.facts()['cores']}: "
        "an engine's own threads have the others."
    )


def time(nanoseconds: float) -> str:
    return TOO_FEW if np.isnan(nanoseconds) else formats.time(nanoseconds)


def pacer_table(below: pd.DataFrame) -> pd.DataFrame:
    """Return bounds() as text."""
    times = {
        "late_p50_ns": "late: median", "late_p99_ns": "late: P99", "late_max_ns": "late: most",
        **{column: f"latency: {name}" for column, (name, _) in PERCENTILES.items()},
    }  # fmt: skip
    return pd.DataFrame(
        {
            "gets": below.reads.map("{}%".format),
            "due a second": below.asked_rate.map(formats.rate),
            **{name: below[column].map(time) for column, name in times.items()},
            "processor used": below.busy.map(formats.share),
        }
    )


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rates of the closed loop, and P99.9 in both loops, as text: one row per field and
    store. A ° marks values below the loop's own; TOO_FEW stands for a percentile with too few
    operations."""
    rows = where(found, percentile="p999_ns")
    shown = rows.assign(
        text=[time(row.median) + ("°" if row.median < row.bound else "") for row in each(rows)]
    )
    wide = shown.pivot(index=[*FIELD, "store"], columns="load", values="text")
    wide.columns = [f"P99.9 at {load}%" if load else "P99.9, closed" for load in wide.columns]
    rate = where(rows, load=0).set_index([*FIELD, "store"]).rate.map(formats.rate)
    wide.insert(0, "operations a second, closed", rate)
    return wide.reset_index().rename(columns={"reads": "gets in %"})
