"""Fields: medians and ranges over the trials, the best store of each, and how often it is best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from kvbench.histogram import quantile
from kvbench.stats import Points, best, points

from study import formats

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
    found = [quantile(*histogram, share) for histogram in zip(*columns, strict=True)]
    return pd.Series(found, index=rows.index, dtype=float)


def over_trials(rows: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """The points of a value over the trials of each group, and for times, whether most of the
    trials lie near the harness's floor."""
    grouped = rows.groupby(list(by), observed=True)
    found = [(*key, *points(own)) for key, own in grouped[value]]
    summary = pd.DataFrame(found, columns=[*by, *Points._fields])
    if "near_floor" in rows:
        summary["near_floor"] = (grouped.near_floor.mean() >= 0.5).to_numpy()
    return summary


def best_of(
    rows: pd.DataFrame, value: str, by: Sequence[str], largest: bool = False
) -> pd.DataFrame:
    """The best store of each group with its median over the trials, and the stores that tie."""
    summary = over_trials(rows, value, [*by, "store"])
    found = []
    for key, group in summary.groupby(list(by), observed=True):
        own = group.set_index("store")
        stores = {store: Points(*own.loc[store, list(Points._fields)]) for store in own.index}
        first, ties = best(stores, largest)
        near = "near_floor" in own and bool(own.near_floor[first])
        found.append((*key, first, stores[first].median, ties, near))
    return pd.DataFrame(found, columns=[*by, "store", "value", "ties", "near_floor"])


def worst_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """For each store the row whose slowest call took the largest `share` of its trial's time."""
    stalls = rows.assign(share=rows.max_ns / rows.sum_ns)
    return stalls.sort_values("share", ascending=False).groupby("store", sort=False).head(1)


def shares(found: pd.DataFrame, stores: Iterable[str]) -> dict[str, dict[str, Any]]:
    """For each store: in how many fields it is best or ties, and as a share of all fields."""
    counts = {
        store: int((found.store == store).sum() + sum(store in ties for ties in found.ties))
        for store in stores
    }
    return {store: {"fields": n, "share": f"{n / len(found):.0%}"} for store, n in counts.items()}


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
            found = (*cells, row.store, show(row.value), ", ".join(row.ties))
            lines.append("| " + " | ".join(map(formats.escape, found)) + " |")
    return "\n".join(lines)
