"""Which stores of a field are best, how sure that is, and what it costs to choose another.

A field is one combination of factor levels and an operation. The regret of a store is how many
times as slow, or as large, it is as the best of its field: 1 is the best. Its interval holds
together with those of all other stores of the field in at least 95 % of experiments.

The datum is the log of a trial's mean. Trials are paired over stores, since a trial has the same
records and random numbers for each. The bounds are those of multiple comparisons with the best
(J. C. Hsu, Annals of Statistics 12:3, 1984; D. G. Edwards and J. C. Hsu, JASA 78:384, 1983): a
store's difference from the unknown best lies between the least and the greatest of its differences
from all stores that may be it, so that only the k - 1 differences from the true best must be
covered at once. Each is covered by Student's t for paired data, at a k - 1st of the error
(Bonferroni): stores differ in their spread, so none is assumed alike.

A sweep may look at a field at 7, 10 and 15 trials and stop once it is decided. Each look spends a
part of the 5 % (K. K. G. Lan and D. L. DeMets, Biometrika 70:3, 1983), most of it the last.
"""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

ERROR = 0.05  # of all statements on a field
LOOKS = {7: 0.005, 10: 0.01, 15: 0.035}  # what a look after so many trials spends of it
IN = 1.10  # a store with less regret is as good as the best
RECOMMENDED = 1.25  # a store whose regret is surely less may be recommended
Floats = npt.NDArray[np.float64]


class Regret(NamedTuple):
    """The regret of a store: an estimate, the bounds of its interval, the trials it stands on."""

    estimate: float
    low: float
    high: float
    trials: int

    @property
    def verdict(self) -> str:
        """Whether the store is among the best of its field."""
        if self.high < IN:
            return "in"
        return "out" if self.low > IN else "undecided"

    @property
    def recommended(self) -> bool:
        return self.high < RECOMMENDED


class Ranking(NamedTuple):
    """The regret of each store of a field, the best estimate first, and `tellable`: the least
    regret that these trials could have told from none, in the median over the other stores."""

    regrets: dict[str, Regret]
    tellable: float

    @property
    def decided(self) -> bool:
        """Whether it is known of every store if it is among the best."""
        return all(found.verdict != "undecided" for found in self.regrets.values())


def look(trials: int) -> tuple[int, float]:
    """Of so many trials those that count, and the error that may be spent on them. Fewer than the
    first look has are a number fixed ahead, which spends all at once."""
    done = [number for number in LOOKS if number <= trials]
    return (done[-1], LOOKS[done[-1]]) if done else (trials, ERROR)


def rank(values: Mapping[str, Mapping[int, float]], largest: bool = False) -> Ranking:
    """The ranking of a field from the value of each store's trials, by their numbers. The least is
    best, or the largest. Values are positive; a trial that a store lacks is left out wherever that
    store is compared, and a store without any has no regret."""
    logs = {
        store: {trial: np.log(value) for trial, value in sorted(own.items()) if value > 0}
        for store, own in values.items()
    }
    stores = [store for store, own in logs.items() if own]
    if not stores:
        return Ranking({}, math.nan)
    numbers = sorted(set(itertools.chain.from_iterable(logs.values())))
    trials, error = look(len(numbers))
    table = np.array(
        [[logs[store].get(trial, np.nan) for trial in numbers[:trials]] for store in stores]
    )
    return _rank(stores, -table if largest else table, error)


def _rank(stores: list[str], table: Floats, error: float) -> Ranking:
    """From a table of logs, a row a store and a column a trial, NaN where one is missing."""
    mean, half = _differences(table, error / max(1, len(stores) - 1))
    low, high = mean - half, mean + half
    maybe = ~(low > 0).any(axis=1)  # the best of all
    others = maybe & ~np.eye(len(stores), dtype=bool)
    least = np.where(maybe, 0, np.min(low, axis=1, where=maybe, initial=np.inf))
    most = np.max(high, axis=1, where=others, initial=0)
    estimate = mean.max(axis=1)  # at least 0, the difference from itself
    trials = np.isfinite(table).sum(axis=1).tolist()
    columns = [*(np.exp(found).tolist() for found in (estimate, least.clip(0), most)), trials]
    bounds = zip(*columns, strict=True)
    regrets = {store: Regret(*found) for store, found in zip(stores, bounds, strict=True)}
    order = np.argsort(estimate, kind="stable")
    tellable = np.exp(np.median(half[order[0], order[1:]])) if len(stores) > 1 else math.nan
    return Ranking({stores[i]: regrets[stores[i]] for i in order}, float(tellable))


def _differences(table: Floats, error: float) -> tuple[Floats, Floats]:
    """For each pair of stores the mean difference over the trials that both have, and the half
    width of its interval, which is infinite with fewer than two."""
    each = table[:, None, :] - table[None, :, :]
    known = np.isfinite(each)
    n = known.sum(axis=2)
    mean = np.sum(each, axis=2, where=known) / np.maximum(n, 1)
    square = np.sum((each - mean[:, :, None]) ** 2, axis=2, where=known)
    degrees = np.maximum(n - 1, 1)
    half = stdtrit(degrees, 1 - error / 2) * np.sqrt(square / degrees / np.maximum(n, 1))
    half[n < 2] = np.inf
    np.fill_diagonal(half, 0)
    return mean, half
