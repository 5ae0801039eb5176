"""Rules on the columns of tables: the first value that lies outside its limits, as a sentence."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from kvbench.common.messages import brief

ROUNDING = 1e-9  # relative: a value at its limit is allowed, however it was rounded


def number(value: Any) -> str:
    """A number for a message."""
    whole = isinstance(value, int | np.integer) or float(value).is_integer()
    return f"{int(value):,}" if whole and abs(value) < 1e15 else f"{value:.6g}"


def place(row: Mapping[Any, Any]) -> str:
    """The cell and operation, or the machine, of a row for a message."""
    where = row["cell"] if "cell" in row else f"machine {row['machine']}"
    return f"{brief(str(where), 40)} {brief(str(row.get('operation', '')), 20)}".rstrip()


def refusal(row: Mapping[Any, Any], column: str, value: str, allowed: str) -> str:
    """A sentence that names a row, one of its values and what is allowed."""
    return f"{place(row)}: {column}: {value} is not allowed; allowed: {allowed}"


def outside(
    rows: pd.DataFrame,
    column: str,
    least: "pd.Series[Any] | float | None" = None,
    most: "pd.Series[Any] | float | None" = None,
    why: str = "",
    values: "pd.Series[Any] | None" = None,
) -> Iterator[str]:
    """A sentence on the first row whose value in a column is less than `least` or more than `most`,
    if any. `why` says what the limit is. Missing values and limits are allowed. `values` replaces
    those of the column."""
    found = rows[column] if values is None else values
    for limit, word, sign in ((least, "or more", 1), (most, "or less", -1)):
        if limit is None:
            continue
        limits: Any = limit if isinstance(limit, pd.Series) else pd.Series(limit, rows.index)
        short = sign * (limits - found)
        bad = (short > 0) & (short > ROUNDING * limits.abs())
        for at in np.flatnonzero(np.asarray(bad, bool))[:1]:
            allowed = f"{number(limits.iloc[at])} {word}{why and ', '}{why}"
            yield refusal(rows.iloc[at].to_dict(), column, number(found.iloc[at]), allowed)
