"""Which stores of a field are best, how sure that is, and what it costs to choose another.

A field is one combination of factor levels and an operation. The regret of a store is how many
times as slow, or as large, it is as the best of its field: 1 is the best. Its interval holds
together with those of all other stores of the field in at least 95% of experiments.

The datum is the log of a trial's mean. Trials are paired over stores, since a trial has the same
records and random numbers for each. The bounds are those of multiple comparisons with the best
(J. C. Hsu, Annals of Statistics 12:3, 1984; D. G. Edwards and J. C. Hsu, JASA 78:384, 1983): a
store's difference from the unknown best lies between the least and the greatest of its differences
from all stores that may be it, so that only the k - 1 differences from the true best must be
covered at once. Each is covered by Student's t for paired data, at a k - 1st of the error
(Bonferroni): stores differ in their spread, so none is assumed alike.

A sweep may look at a field at 7, 10 and 15 trials and stop once it is decided. Each look spends a
part of the 5% (K. K. G. Lan and D. L. DeMets, Biometrika 70:3, 1983), most of it the first, after
which a machine is often no longer there.

A store that lacks a trial that the others have is not ranked: it failed, or was given fewer. Its
regret is estimated, but has no interval, and no other store is compared with it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

if TYPE_CHECKING:
    import pandas as pd  # slow to import

ERROR = 0.05  # of all statements on a field
LOOKS = {7: 0.03, 10: 0.01, 15: 0.01}  # what a look after so many trials spends of it
IN = 1.10  # a store with less regret is as good as the best
RECOMMENDED = 1.25  # a store whose regret is surely less may be recommended
Floats = npt.NDArray[np.float64]


class Regret(NamedTuple):
    """The regret of a store: an estimate, the bounds of its interval, which are NaN if it is not
    ranked, and the trials it stands on."""

    estimate: float
    low: float
    high: float
    trials: int

    @property
    def verdict(self) -> str:
        """Whether the store is among the best of its field."""
        if math.isnan(self.high):
            return "not ranked"
        if self.high < IN:
            return "in"
        return "out" if self.low > IN else "undecided"

    @property
    def recommended(self) -> bool:
        return self.high < RECOMMENDED


class Ranking(NamedTuple):
    """The regret of each store of a field: of those that are ranked, the best estimate first, then
    of the others. `tellable` is the regret that these trials tell from none in half of all
    experiments, in the median over the ranked stores besides the first."""

    regrets: dict[str, Regret]
    tellable: float

    @property
    def decided(self) -> bool:
        """Whether it is known of every ranked store if it is among the best."""
        return all(found.verdict != "undecided" for found in self.regrets.values())


def look(trials: int) -> tuple[int, float]:
    """Of so many trials those that count, and the error that may be spent on them. Fewer than the
    first look has are a number fixed ahead, which spends all at once."""
    done = [number for number in LOOKS if number <= trials]
    return (done[-1], LOOKS[done[-1]]) if done else (trials, ERROR)


def by_trial(found: "pd.Series[float]") -> dict[str, dict[int, float]]:
    """What `rank` takes, from values that are indexed by store and trial."""
    values: dict[str, dict[int, float]] = {}
    key: Any
    for key, value in found.items():
        store, trial = key
        values.setdefault(str(store), {})[int(trial)] = float(value)
    return values


def rank(
    values: Mapping[str, Mapping[int, float]],
    planned: Iterable[int] = (),
    largest: bool = False,
    shared: float = 0.0,
) -> Ranking:
    """The ranking of a field from the value of each store's trials, by their numbers; `planned` are
    the numbers of the trials that were to be measured, besides those that some store has. The least
    is best, or the largest. A value that is not positive and finite counts as missing, and a store
    without any has no regret. One store alone is not ranked. `shared` widens the intervals by what
    the trials can't show: the deviation of a difference of logs that all of them have in common."""
    sign = -1 if largest else 1
    logs = {
        store: {
            trial: sign * math.log(value) for trial, value in own.items() if 0 < value < math.inf
        }
        for store, own in values.items()
    }
    known = set().union(*logs.values())
    numbers = sorted(known.union(planned))
    trials, error = look(len(numbers))
    counted = [trial for trial in numbers[:trials] if trial in known]
    whole = [store for store, own in logs.items() if own and own.keys() >= set(counted)]
    table = np.array([[logs[store][trial] for trial in counted] for store in whole])
    if len(whole) > 1:
        regrets, tellable = _rank(whole, table, error, shared)
    else:
        regrets = {store: Regret(1.0, math.nan, math.nan, len(counted)) for store in whole}
        tellable = math.nan
    best = logs[next(iter(regrets))] if regrets else {}
    for store, own in logs.items():
        if own and store not in regrets:
            both = [own[trial] - best[trial] for trial in own if trial in best]
            estimate = math.exp(np.mean(both)) if both else math.nan
            regrets[store] = Regret(estimate, math.nan, math.nan, len(own))
    return Ranking(regrets, tellable)


def _rank(
    stores: list[str], table: Floats, error: float, shared: float
) -> tuple[dict[str, Regret], float]:
    """From a table of logs, a row a store and a column a trial."""
    mean, half = _differences(table, error / (len(stores) - 1), shared)
    low, high = mean - half, mean + half
    maybe = ~(low > 0).any(axis=1)  # the best of all; the best by its mean always is
    others = maybe & ~np.eye(len(stores), dtype=bool)
    least = np.where(maybe, 0, np.min(low, axis=1, where=maybe, initial=np.inf))
    most = np.max(high, axis=1, where=others, initial=0)
    estimate = mean.max(axis=1)  # at least 0, the difference from itself
    regrets = {}
    for at in np.argsort(estimate, kind="stable"):
        found, lower, upper = np.exp([estimate[at], max(least[at], 0), most[at]]).tolist()
        regrets[stores[at]] = Regret(found, lower, upper, table.shape[1])
    best = np.argmin(estimate)
    return regrets, math.exp(np.median(np.delete(half[best], best)))


def _differences(table: Floats, error: float, shared: float) -> tuple[Floats, Floats]:
    """For each pair of stores the mean difference over the trials, and the half width of its
    interval, which is infinite with one trial."""
    each = table[:, None, :] - table[None, :, :]
    n = table.shape[1]
    half = np.full(each.shape[:2], np.inf)
    if n > 1:
        deviation = np.sqrt(each.var(axis=2, ddof=1) / n + shared**2)
        half = stdtrit(n - 1, 1 - error / 2) * deviation
    np.fill_diagonal(half, 0)
    return each.mean(axis=2), half
