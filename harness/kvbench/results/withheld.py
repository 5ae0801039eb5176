"""By how much the machine's host slowed operations, from the processor time that it withheld.

On a shared host, the trials of a cell scatter with the time for which the hypervisor withheld
processors. No store decides that time, so it is a covariate: within a store and a field, the log of
a trial's mean time rises with the share of time withheld, at nearly the same slope for all stores.
A mean time is therefore adjusted to no time withheld, by the slope of its access, durability level
and operation (analysis of covariance: W. G. Cochran, Biometrics 13:3, 1957). The slope is estimated
from the deviations of trials within their stores and fields alone, so differences between stores do
not enter it. Where nothing was withheld, or where trials are too few to tell a slope from none,
nothing is adjusted.
"""

import numpy as np
import pandas as pd

from kvbench.experiment.factors import CONDITION

FEWEST = 30  # deviations, beyond one for each store and field, that tell a slope
SURELY = 4.0  # standard errors by which a slope must exceed 0
ALIKE = ["access", "durability", "operation"]  # that share a slope
SAME = [
    "full_name",
    "machine",
    *ALIKE,
    *(name for name in CONDITION if name not in ("durability", "store")),
]


def slowed(rows: pd.DataFrame) -> "pd.Series[float]":
    """The times as long (1) that the operations of each row took because of the time withheld, at
    least 1. `rows` has a row for each trial and operation with the columns SAME, `mean_ns` and
    `stolen`, the share of time withheld (1); 1 where one of these is missing."""
    logs = np.log(rows.mean_ns.where(rows.mean_ns > 0))
    known = pd.DataFrame({"log": logs, "stolen": rows.stolen}).dropna()
    keys = rows.loc[known.index, SAME]
    inside = known - known.groupby([keys[name] for name in SAME], dropna=False).transform("mean")
    groups = keys.groupby(SAME, dropna=False).ngroup()
    factor = pd.Series(1.0, rows.index)
    for _, part in inside.groupby([keys[name] for name in ALIKE], dropna=False):
        slope = _slope(part, len(part) - groups[part.index].nunique())
        factor[part.index] = np.exp(slope * known.stolen[part.index])
    return factor


def _slope(inside: pd.DataFrame, freedom: int) -> float:
    """The slope of deviations; 0 if it is not surely more."""
    squares = float((inside.stolen**2).sum())
    if freedom <= FEWEST or not squares:
        return 0.0
    slope = float((inside.stolen * inside.log).sum()) / squares
    rest = float(((inside.log - slope * inside.stolen) ** 2).sum()) / (freedom - 1)
    return slope if slope > SURELY * (rest / squares) ** 0.5 else 0.0
