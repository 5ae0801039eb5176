"""Gets and updates with a cold page cache. The first operation after each eviction is a row of its
own; in imported data it may be part of the mean with those that it warms the cache for."""

from collections.abc import Sequence

import pandas as pd

from study.common import formats, levels
from study.common.fields import quantiles, where

LATER = " later"  # ends the name of the operations that are not the first after an eviction


def apart(rows: pd.DataFrame) -> bool:
    """Whether the first operations are apart from the later ones."""
    return bool(rows.per_eviction.notna().any())


def times(rows: pd.DataFrame, operations: Sequence[str]) -> pd.DataFrame:
    """The points of the times of each operation in µs: of the medians, cold those of the first
    operations; or of the means."""
    own = rows[rows.operation.isin(operations)]
    return levels.times(own, own.operation, "cache", "p50_ns" if apart(rows) else "mean_ns")


def said(rows: pd.DataFrame) -> str:
    """Which operations the cold times are of, as a sentence."""
    if not (rows.cache == "cold").any():
        return ""
    if not apart(rows):
        return "Cold: mean of the first operation after each eviction and of the later ones."
    counts = sorted({f"{count:,.0f}" for count in rows.per_eviction.dropna()})
    return (
        f"Cold: the first of {' or '.join(counts)} operations after each eviction alone; medians."
    )


def first_gets(rows: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """The distribution of the first gets, beside the median of the later ones, as text: a row a
    store, medians over the trials; empty where the two are not apart."""
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
