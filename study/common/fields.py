"""Statistics of a field, which is one operation, record size, record count and kind of data:
medians and ranges over the trials, the best stores, and the regret of the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.histogram import quantile
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.frames import sitting_of
from kvbench.results.warm import warm
from kvbench.stats.intervals import Points, points
from kvbench.stats.regret import rank

from study.common import formats

NOT_WARM, ALONE = "not warm", "no store to compare"  # reasons why a field has no ranked store
NOT_RANKED = "not ranked"  # the verdict on a store that lacks trials; see kvbench.stats.regret

WRITTEN = {
    "device": "device_write_bytes", "write calls": "wchar", "storage layer": "write_bytes"
}  # fmt: skip
SPACE = {"ended_disk_bytes": "space at the end", "debt_disk_bytes": "space once quiet"}

# A result of best_of(), and the function that formats its values.
Panel = tuple[pd.DataFrame, Callable[[float], str]]


def each(rows: pd.DataFrame) -> Iterable[Any]:
    """Iterate over the rows of a table as named tuples."""
    return rows.itertuples()


def where(rows: pd.DataFrame, **levels: Any) -> pd.DataFrame:
    """Return the rows whose factors have these levels, with the same columns."""
    for factor, level in levels.items():
        rows = rows[rows[factor] == level]
    return rows


def quantiles(rows: pd.DataFrame, share: float) -> "pd.Series[float]":
    """Return the quantile `share` of the operation times of each row, in ns, from its histogram.
    NaN where the histogram is empty."""
    columns = (rows.histogram_bin, rows.histogram_count, rows.min_ns, rows.max_ns)
    found = [
        quantile(bins, counts, least, most, share) if len(bins) else float("nan")
        for bins, counts, least, most in zip(*columns, strict=True)
    ]
    return pd.Series(found, index=rows.index, dtype=float)


def longest_share(rows: pd.DataFrame, of: int = 1000) -> "pd.Series[float]":
    """Return the share of time that the longest operation of each row would take among `of`
    operations, the others taking the mean of the rest. The number is fixed because a run does as
    many operations as it has time for, so the share of its whole time would shrink as the run gets
    longer. NaN for a single operation."""
    rest = (rows.sum_ns - rows.max_ns) / (rows.n - 1)
    found: pd.Series[float] = rows.max_ns / (rows.max_ns + (of - 1) * rest)
    return found


def written(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with two more columns: `written`, the bytes that the operations wrote (B),
    and `written_by`, who counted them. The device counts if the store had it to itself. Otherwise
    write calls count, which miss writes through a memory map. The storage layer comes last because
    it counts whole folios of the page cache."""
    counted = rows.assign(written=float("nan"), written_by="")
    for name, column in WRITTEN.items():
        first = counted.written.isna() & rows[column].notna()
        counted["written"] = counted.written.where(~first, rows[column])
        counted["written_by"] = counted.written_by.where(~first, name)
    return counted


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, or groups of over_trials(), by which stores are ranked, with the
    same columns. Warm cells whose files left the page cache are excluded."""
    return rows[~rows.cooled] if "cooled" in rows else rows


def over_trials(rows: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Return one row per group: the columns `by`, then the `median`, `low` (least), `high`
    (greatest) and number `n` of the values over the trials, in the unit of the value. `near_floor`
    says whether at least half of the trials lie near the harness's floor, and `cooled` whether any
    cell was not warm, where the rows have these columns."""
    grouped = rows.groupby(list(by), observed=True)
    groups = [(*key, *points(values)) for key, values in grouped[value]]
    summary = pd.DataFrame(groups, columns=[*by, *Points._fields])
    if "near_floor" in rows:
        summary["near_floor"] = (grouped.near_floor.mean() >= 0.5).to_numpy()
    if "cooled" in rows:
        summary["cooled"] = grouped.cooled.any().to_numpy()
    return summary


def regrets(
    rows: pd.DataFrame, value: str, by: Sequence[str], largest: bool = False
) -> pd.DataFrame:
    """Return the regret of each store in each field: how many times as slow, or as large, it is as
    the best store. One row per store, the best first, with the columns `by`, `store`, `mean`
    (geometric, in the unit of the value), `regret` with its bounds `low` and `high`, `trials`,
    `verdict` (see kvbench.stats.regret.Regret) and `tellable`, which is the field's. `largest`
    ranks the largest value first. Raises ValueError if a store has two values in one trial, because
    `by` then lacks a factor."""
    measured = warm(rows[rows[value].notna()], by)
    regret_rows = []
    for key, field in measured.groupby(list(by), observed=True):
        numbered = field.assign(trial=field.trial.fillna(1))
        if numbered.duplicated(["store", "trial"]).any():
            raise ValueError(f"{key}: more than one value of a store in a trial")
        values = {
            str(store): dict(zip(trials.trial, trials[value], strict=True))
            for store, trials in numbered.sort_values("trial").groupby("store", observed=True)
        }
        sittings = sitting_of(numbered) if "sitting" in numbered else None
        planned = range(1, int(numbered.trial.max()) + 1)
        ranking = rank(values, planned, largest, sittings)
        for store, regret in ranking.regrets.items():
            counted = list(values[store].values())[: regret.trials]
            mean = np.exp(np.mean(np.log(counted))) if counted else float("nan")
            shown = (regret.estimate, regret.low, regret.high, regret.trials, regret.verdict)
            regret_rows.append((*key, store, mean, *shown, ranking.tellable))
    columns = ["store", "mean", "regret", "low", "high", "trials", "verdict", "tellable"]
    return pd.DataFrame(regret_rows, columns=[*by, *columns])


def best_of(
    rows: pd.DataFrame, value: str, by: Sequence[str], largest: bool = False
) -> pd.DataFrame:
    """Return one row per field with the columns `by`; `store`, the one with the best geometric mean
    over the trials, and this mean as `value`; `among`, the other stores that are surely among the
    best; `undecided`, those that may be, which can include the first; `margin`, by how many times
    the next store is surely slower or larger; `tellable`; and `near_floor`. Where no store can be
    ranked, `store` is empty and `reason` says why."""
    compared = dict(iter(regrets(rows, value, by, largest).groupby(list(by), observed=True)))
    best = []
    for key, field in rows.groupby(list(by), observed=True):
        table = compared.get(key, pd.DataFrame({"store": [], "verdict": []})).set_index("store")
        alone = not table.empty
        table = table[table.verdict != NOT_RANKED]
        if table.empty:
            known = field[value].notna().any()
            reason = ALONE if alone else NOT_WARM if known else NOT_STATED
            nan = float("nan")
            best.append((*key, "", nan, (), (), nan, nan, False, reason))
            continue
        first = table.index[0]
        among, undecided = (
            tuple(table.index[table.verdict == verdict]) for verdict in ("in", "undecided")
        )
        near = "near_floor" in field and field[field.store == first].near_floor.mean() >= 0.5
        others = tuple(store for store in among if store != first)
        shown = (first, table["mean"].iloc[0], others, undecided)
        best.append((*key, *shown, table.low.iloc[1], table.tellable.iloc[0], bool(near), ""))
    columns = ["store", "value", "among", "undecided", "margin", "tellable", "near_floor", "reason"]
    return pd.DataFrame(best, columns=[*by, *columns])


def mixed(rows: pd.DataFrame, mix: Mapping[str, float]) -> pd.DataFrame:
    """Return the mean time of an operation of a mix, which has the share of each operation: one row
    per store, trial and field, of the rows of operations at one durability level, with the columns
    of best_of(), `mean_ns` (ns), `sitting`, `cooled` and `near_floor`. Trials that lack an
    operation of the mix are left out."""
    chosen = rows[rows.operation.isin(list(mix)) & rows.mean_ns.notna()]
    weighted = chosen.assign(mean_ns=chosen.mean_ns * chosen.operation.map(dict(mix)).astype(float))
    key = ["record_size", "compressibility", "records", "store", "trial"]
    by = weighted.groupby(key, observed=True)
    found = by.agg(
        mean_ns=("mean_ns", "sum"),
        sitting=("sitting", "first"),
        cooled=("cooled", "any"),
        near_floor=("near_floor", "all"),
        operations=("operation", "nunique"),
    )
    return found[found.operations == len(mix)].drop(columns="operations").reset_index()


def whole(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with one record count for each record size and kind of data: the count at
    which the most stores were measured, and of several the largest."""
    by = ["compressibility", "record_size"]
    counts = cells.groupby([*by, "records"]).store.nunique().rename("stores").reset_index()
    best = counts.sort_values(["stores", "records"]).drop_duplicates(by, keep="last")
    return cells.merge(best[[*by, "records"]], on=[*by, "records"])


def debts(cells: pd.DataFrame, stores: Sequence[str], sizes: Sequence[str]) -> pd.DataFrame:
    """Return what the engines still did after their last operation: one row per store and record
    size, with medians over the trials as text. Empty if the data do not state it."""
    stated = cells[cells.debt_s.notna()]
    by = stated.assign(settled=stated.settled == "yes").groupby(["store", "record_size"])
    middle = by[["debt_s", "debt_cpu_s", "debt_bytes", *SPACE]].median()
    texts = pd.DataFrame(
        {
            "time until quiet": (middle.debt_s * 1e9).map(formats.time),
            "processor time": (middle.debt_cpu_s * 1e9).map(formats.time),
            "written": middle.debt_bytes.map(formats.size),
            **{name: middle[column].map(formats.size) for column, name in SPACE.items()},
            "trials that settled": by.settled.sum().astype(str) + " of " + by.size().astype(str),
        }
    )
    order = [(store, size) for store in stores for size in sizes]
    return texts.loc[[key for key in order if key in texts.index]].reset_index()


def worst_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, for each store, the row whose slowest call took the largest share of its trial's
    time, with this share as the column `share`."""
    stalls = rows.assign(share=rows.max_ns / rows.sum_ns)
    return stalls.sort_values("share", ascending=False).groupby("store", sort=False).head(1)


def best_table(panels: Mapping[str, Panel], sizes: Sequence[str]) -> str:
    """Return what figures.best_figure() shows, as a Markdown table."""
    lines = [
        "| measure | record size | records | data | best | value | as good | may be as good |",
        "|---|---|--:|---|---|--:|---|---|",
    ]
    for title, (rows, show) in panels.items():
        order = rows.assign(size=rows.record_size.map(sizes.index))
        for row in each(order.sort_values(["size", "records", "compressibility"])):
            cells = (title.split(":")[0], row.record_size, f"{row.records:,}", row.compressibility)
            value = show(row.value) if row.store else row.reason
            others = (store for store in row.undecided if store != row.store)
            found = (*cells, row.store, value, ", ".join(row.among), ", ".join(others))
            lines.append("| " + " | ".join(map(formats.escape, found)) + " |")
    return "\n".join(lines)
