"""Finds warm cells that were not warm: a kernel may evict a store's files from the page cache."""

from collections.abc import Sequence

import pandas as pd

from kvbench.cell.factors import UNCAPPED

WARM = 0.95  # least share of a store's files in the page cache for a warm cell to be ranked
SELDOM = 0.25  # largest share of trials that were not warm for a store to be ranked


def resident(cells: pd.DataFrame) -> "pd.Series[float]":
    """The smaller of the shares of its files that a warm cell had in the page cache when timing
    began and ended. Missing where it is unknown, or where the cell's memory was capped."""
    free = (cells.cache == "warm") & (cells.memory_max == UNCAPPED)
    share: pd.Series[float] = cells[["cached_share", "cached_end"]].min(axis=1)
    return share.where(free)


def warm(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The rows that count for ranking, by the column `cooled`, which marks the rows of cells that
    were not warm. A store whose share of such trials in a field exceeds SELDOM is left out.
    Otherwise such a trial is left out for all stores of the field. `by` has the columns of a field.
    Without the column `cooled`, all rows are returned. The columns stay the same."""
    if "cooled" not in rows:
        return rows

    def cooled(rows: pd.DataFrame, name: str) -> "pd.Series[float]":
        each = rows.groupby([*by, name], observed=True, dropna=False)
        share: pd.Series[float] = each.cooled.transform("mean")
        return share

    rows = rows[cooled(rows, "store") <= SELDOM]
    return rows[cooled(rows, "trial") == 0]
