"""By how much the machine's host slowed operations, from the processor time that it withheld.

On a shared host, the trials of a cell scatter with the time for which the hypervisor withheld
processors. No store decides that time, so it is a covariate: within a store and a field, the log of
a trial's mean time rises with the share of time withheld. A mean time is therefore adjusted to no
time withheld (analysis of covariance: W. G. Cochran, Biometrics 13:3, 1957). The slope is estimated
from the deviations of trials within their stores and fields alone, so differences between stores do
not enter it. Each store has its own slope for an access, a durability level and an operation, moved
towards the mean slope of all stores by as much as its own is uncertain (R. DerSimonian, N. Laird,
Controlled Clinical Trials 7:3, 1986). Where nothing was withheld, or where trials are too few to
tell the mean slope from none, nothing is adjusted.
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
    groups = keys.groupby(SAME, dropna=False).ngroup()
    inside = known - known.groupby(groups).transform("mean")
    inside = inside.assign(group=groups, store=keys.full_name)
    factor = pd.Series(1.0, rows.index)
    for _, part in inside.groupby([keys[name] for name in ALIKE], dropna=False):
        slopes = part.store.map(_slopes(part))
        factor[part.index] = np.exp(slopes * known.stolen[part.index])
    return factor


def _slopes(inside: pd.DataFrame) -> dict[str, float]:
    """The slope of each store from deviations; 0 for all if their mean is not surely more."""
    stores = inside.store.unique()
    none = dict.fromkeys(stores, 0.0)
    freedom = len(inside) - inside.group.nunique()
    products = (inside.stolen * inside.log).groupby(inside.store).sum()
    squares = (inside.stolen**2).groupby(inside.store).sum()
    if freedom <= FEWEST or not squares.sum() > 0:
        return none
    mean = products.sum() / squares.sum()
    if not mean > SURELY * (_rest(inside, mean) / freedom / squares.sum()) ** 0.5:
        return none
    known = squares[squares > 0].index
    own = products[known] / squares[known]
    left = _rest(inside, inside.store.map(own).fillna(mean)) / max(freedom - len(known), 1)
    if len(known) < 2 or not left:
        return {store: float(own.get(store, mean)) for store in stores}
    weights = squares[known] / left  # the inverse of the variance of each slope
    apart = float((weights * (own - mean) ** 2).sum()) - (len(known) - 1)
    between = apart / float(weights.sum() - (weights**2).sum() / weights.sum())
    trust = (1 / (1 + 1 / (weights * between))) if between > 0 else weights * 0
    moved = (mean + trust * (own - mean)).clip(lower=0)
    return {store: float(moved.get(store, mean)) for store in stores}


def _rest(inside: pd.DataFrame, slope: "float | pd.Series[float]") -> float:
    """The sum of squares that slopes leave."""
    return float(((inside.log - slope * inside.stolen) ** 2).sum())
