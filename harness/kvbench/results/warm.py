"""Which warm cells were warm: a kernel may take a store's files out of the page cache unasked."""

from collections.abc import Sequence

import pandas as pd

from kvbench.cell.factors import UNCAPPED

WARM = 0.95  # of a store's files in the page cache: a warm cell with less is shown, but not ranked
SELDOM = 0.25  # of the trials: a store that is not warm in more of them is not ranked


def resident(cells: pd.DataFrame) -> "pd.Series[float]":
    """The share of its files that a warm cell kept in the page cache, when timing began or ended;
    missing where it is not known, and where a cap on memory is there to make it small."""
    free = (cells.cache == "warm") & (cells.memory_max == UNCAPPED)
    share: pd.Series[float] = cells[["cached_share", "cached_end"]].min(axis=1)
    return share.where(free)


def warm(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The rows without the stores that were not warm in more than SELDOM of a field's trials, and,
    where another was not warm once, without that trial of all stores of the field. A column
    `cooled` says which rows are of a cell that was not; without it all rows count."""
    if "cooled" not in rows:
        return rows

    def cooled(rows: pd.DataFrame, name: str) -> "pd.Series[float]":
        each = rows.groupby([*by, name], observed=True, dropna=False)
        share: pd.Series[float] = each.cooled.transform("mean")
        return share

    rows = rows[cooled(rows, "store") <= SELDOM]
    return rows[cooled(rows, "trial") == 0]
