"""Gets and updates with a cold page cache. The first operation after each eviction has a row of its
own. In imported data its mean may include the operations for which it warms the cache."""

from collections.abc import Sequence

import pandas as pd

from study.common import formats, levels
from study.common.fields import quantiles, where

LATER = " later"  # suffix of the operations that are not the first after an eviction


def apart(rows: pd.DataFrame) -> bool:
    """Return whether the first operations have rows of their own."""
    return bool(rows.per_eviction.notna().any())


def times(rows: pd.DataFrame, operations: Sequence[str]) -> pd.DataFrame:
    """Return the over_trials() summary of the time of each operation in µs: of the medians, if the
    first operations have rows of their own, and these for the cold cache; otherwise of the means.
    """
    own = rows[rows.operation.isin(operations)]
    return levels.times(own, own.operation, "cache", "p50_ns" if apart(rows) else "mean_ns")


def times_shown(rows: pd.DataFrame) -> str:
    """Return a sentence that says which operations the cold times cover."""
    if not (rows.cache == "cold").any():
        return ""
    if not apart(rows):
        return "Cold: mean of the first operation after each eviction and of the later ones."
    counts = sorted({f"{count:,.0f}" for count in rows.per_eviction.dropna()})
    return (
        f"Cold: the first of {' or '.join(counts)} operations after each eviction alone; medians."
    )


def first_gets(rows: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """Return the distribution of the first gets and the median of the later ones, as text: one row
    per store, medians over the trials. Empty if the first operations have no rows of their own."""
    if not apart(rows):
        return pd.DataFrame()
    cold = where(rows, cache="cold")
    first, later = (where(cold, operation=f"get{which}") for which in ("", LATER))
    own = first.assign(p10_ns=quantiles(first, 0.1)).groupby("store")
    names = {
        "p10_ns": "P10", "p50_ns": "median", "p90_ns": "P90", "p99_ns": "P99", "max_ns": "longest"
    }  # fmt: skip
    found = own[list(names)].median().rename(columns=names)
    found["later: median"] = later.groupby("store").p50_ns.median()
    found = found.map(formats.time)
    found.insert(0, "first gets a trial", own.n.median().map("{:,.0f}".format))
    found.insert(1, "gets an eviction", own.per_eviction.median().map("{:,.0f}".format))
    return found.loc[[store for store in stores if store in found.index]].reset_index()
