"""Fields: medians and ranges over the trials, the best store of each, and how often it is best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from kvbench.factors import UNCAPPED
from kvbench.histogram import quantile
from kvbench.stats import Points, best, points

from study import formats
from study.formats import NOT_STATED

WARM = 0.95  # of a store's files in the page cache: a warm cell with less is shown, but not ranked
NOT_WARM = "not warm"  # why no store of a field is ranked

WRITTEN = {
    "device": "device_write_bytes", "write calls": "wchar", "storage layer": "write_bytes"
}  # fmt: skip
SPACE = {"ended_disk_bytes": "space at the end", "debt_disk_bytes": "space once quiet"}

# What best() found, and how its values are shown.
Panel = tuple[pd.DataFrame, Callable[[float], str]]


def each(rows: pd.DataFrame) -> Iterable[Any]:
    """The rows of a table, as tuples with its columns for names."""
    return rows.itertuples()


def where(rows: pd.DataFrame, **levels: Any) -> pd.DataFrame:
    """The rows with these levels."""
    for factor, level in levels.items():
        rows = rows[rows[factor] == level]
    return rows


def quantiles(rows: pd.DataFrame, share: float) -> "pd.Series[float]":
    """The time in ns that a share of each row's operations do not exceed, from its histogram."""
    columns = (rows.histogram_bin, rows.histogram_count, rows.min_ns, rows.max_ns)
    found = [
        quantile(bins, counts, least, most, share) if len(bins) else float("nan")
        for bins, counts, least, most in zip(*columns, strict=True)
    ]
    return pd.Series(found, index=rows.index, dtype=float)


def written(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the bytes that their operations wrote, and `written_by`, who counted them: the
    device, if it was the store's alone; else write calls, which miss what is written through a map.
    The storage layer counts a page cache's whole folios, so it comes last."""
    found = rows.assign(written=float("nan"), written_by="")
    for name, column in WRITTEN.items():
        first = found.written.isna() & rows[column].notna()
        found["written"] = found.written.where(~first, rows[column])
        found["written_by"] = found.written_by.where(~first, name)
    return found


def resident(cells: pd.DataFrame) -> "pd.Series[float]":
    """The share of its files that a warm cell kept in the page cache, when timing began or ended;
    missing where it is not known, and where a cap on memory is there to make it small."""
    free = (cells.cache == "warm") & (cells.memory_max == UNCAPPED)
    share: pd.Series[float] = cells[["cached_share", "cached_end"]].min(axis=1)
    return share.where(free)


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, or groups of over_trials(), by which stores are ranked: no warm cell whose files
    left the page cache is among them."""
    return rows[~rows.cooled] if "cooled" in rows else rows


def over_trials(rows: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """The points of a value over the trials of each group; for times also whether most of the
    trials lie near the harness's floor, and whether a cell among them was not warm (see ranked)."""
    grouped = rows.groupby(list(by), observed=True)
    found = [(*key, *points(own)) for key, own in grouped[value]]
    summary = pd.DataFrame(found, columns=[*by, *Points._fields])
    if "near_floor" in rows:
        summary["near_floor"] = (grouped.near_floor.mean() >= 0.5).to_numpy()
    if "cooled" in rows:
        summary["cooled"] = grouped.cooled.any().to_numpy()
    return summary


def best_of(
    rows: pd.DataFrame, value: str, by: Sequence[str], largest: bool = False
) -> pd.DataFrame:
    """The best store of each group with its median over the trials, and the stores that tie. Where
    no store can be ranked, `store` is empty and `reason` says why."""
    summary = ranked(over_trials(rows, value, [*by, "store"])).dropna(subset="median")
    own = dict(iter(summary.groupby(list(by), observed=True)))
    found = []
    for key, group in rows.groupby(list(by), observed=True):
        if key not in own:
            reason = NOT_WARM if group[value].notna().any() else NOT_STATED
            found.append((*key, "", float("nan"), (), False, reason))
            continue
        table = own[key].set_index("store")
        stores = {store: Points(*table.loc[store, list(Points._fields)]) for store in table.index}
        first, ties = best(stores, largest)
        near = "near_floor" in table and bool(table.near_floor[first])
        found.append((*key, first, stores[first].median, ties, near, ""))
    return pd.DataFrame(found, columns=[*by, "store", "value", "ties", "near_floor", "reason"])


def decided(found: pd.DataFrame) -> pd.DataFrame:
    """The fields that have a best store."""
    return found[found.store != ""]


def debts(cells: pd.DataFrame, stores: Sequence[str], sizes: Sequence[str]) -> pd.DataFrame:
    """What the engines still did after their last operation, as text: a row a store and record
    size, medians over the trials; empty for data that do not know."""
    own = cells[cells.debt_s.notna()]
    by = own.assign(settled=own.settled == "yes").groupby(["store", "record_size"])
    middle = by[["debt_s", "debt_cpu_s", "debt_bytes", *SPACE]].median()
    found = pd.DataFrame(
        {
            "time until quiet": (middle.debt_s * 1e9).map(formats.time),
            "processor time": (middle.debt_cpu_s * 1e9).map(formats.time),
            "written": middle.debt_bytes.map(formats.size),
            **{name: middle[column].map(formats.size) for column, name in SPACE.items()},
            "trials that settled": by.settled.sum().astype(str) + " of " + by.size().astype(str),
        }
    )
    order = [(store, size) for store in stores for size in sizes]
    return found.loc[[key for key in order if key in found.index]].reset_index()


def worst_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """For each store the row whose slowest call took the largest `share` of its trial's time."""
    stalls = rows.assign(share=rows.max_ns / rows.sum_ns)
    return stalls.sort_values("share", ascending=False).groupby("store", sort=False).head(1)


def shares(found: pd.DataFrame, stores: Iterable[str]) -> dict[str, dict[str, Any]]:
    """For each store: in how many fields it is best or ties, and as a share of all fields."""
    found = decided(found)
    counts = {
        store: int((found.store == store).sum() + sum(store in ties for ties in found.ties))
        for store in stores
    }
    return {
        store: {"fields": n, "share": f"{n / max(1, len(found)):.0%}"}
        for store, n in counts.items()
    }


def leaders(panels: Mapping[str, Panel], stores: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each operation the store that is best or ties most often, and how often."""
    found = {}
    for title, (rows, _) in panels.items():
        counts = shares(rows, stores)
        store = max(counts, key=lambda name: counts[name]["fields"])
        found[title.split(":")[0]] = {"store": store, "share": counts[store]["share"]}
    return found


def best_table(panels: Mapping[str, Panel], sizes: Sequence[str]) -> str:
    """What figures.best_figure() shows, as a Markdown table."""
    lines = [
        "| measure | record size | records | data | best | value | ties |",
        "|---|---|--:|---|---|--:|---|",
    ]
    for title, (rows, show) in panels.items():
        order = rows.assign(size=rows.record_size.map(sizes.index))
        for row in each(order.sort_values(["size", "records", "compressibility"])):
            cells = (title.split(":")[0], row.record_size, f"{row.records:,}", row.compressibility)
            value = show(row.value) if row.store else row.reason
            found = (*cells, row.store, value, ", ".join(row.ties))
            lines.append("| " + " | ".join(map(formats.escape, found)) + " |")
    return "\n".join(lines)
