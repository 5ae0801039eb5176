"""Which stores of a field are good enough, how sure that is, and what choosing another one costs.

A field is one combination of factor levels and an operation. The regret of a store is its time, or
size, over that of the best store of its field; the best has regret 1. The intervals of all stores
of a field hold simultaneously in at least 95% of experiments.

Each observation is the log of a trial's mean. Trials are paired over stores, since a trial has the
same records and random numbers for each store. The bounds are those of multiple comparisons with
the best (J. C. Hsu, Annals of Statistics 12:3, 1984; D. G. Edwards and J. C. Hsu, JASA 78:384,
1983). A store's difference from the unknown best lies between the least and the greatest of its
differences from all stores that may be the best, so only the k - 1 differences from the true best
must be covered simultaneously. Each is covered by Student's t for paired data, at 1/(k - 1) of the
error (Bonferroni). Equal variances are not assumed. But a few observations tell little about the
variance of a pair, so it is moderated by that of the field's usual pair, as if PRIOR further
observations had shown that (G. K. Smyth, Statistical Applications in Genetics and Molecular Biology
3:1, 2004). PRIOR is fixed, because a field has too few stores to estimate it: the more alike pairs
are, the larger it may be. kvbench.stats.simulated tests it on pairs that differ widely.

Trials of one sitting share what differs from day to day, and their intervals hold for that sitting
alone. So with ENOUGH sittings or more, each is one observation: the mean over its trials. The
intervals then hold for any sitting, whose deviations the spread between sittings shows. Repeating
what varies most, at the top of the hierarchy, is what narrows them (T. Kalibera and R. Jones,
Rigorous Benchmarking in Reasonable Time, ISMM 2013).

A sweep may look at a field at 7, 10 and 15 trials, and a study at 5, 7 and 10 sittings, and stop
once it is decided. Each look spends a fixed part of the 5%, which the sum of the looks does not
exceed (Bonferroni). The first look spends most, because machines are often no longer available for
later ones.

A store that lacks a trial that others have is not ranked: it failed, or was given fewer trials. Its
regret is estimated without an interval, and no other store is compared with it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, stdtrit

if TYPE_CHECKING:
    import pandas as pd  # slow to import

ERROR = 0.05  # the error probability of all statements about a field
LOOKS = {7: 0.03, 10: 0.01, 15: 0.01}  # by number of trials, the part of ERROR that a look spends
SITTINGS = {5: 0.03, 7: 0.01, 10: 0.01}  # the same by number of sittings
ENOUGH = 3  # sittings, each of which is then one observation
GOOD = 1.25  # a store with less regret is good enough
PRIOR = 4  # degrees of freedom that a variance gains from the other pairs of its field
FEWEST = 5  # stores of a field whose pairs tell what is usual
EXACT = 1e-12  # less variance is that of values that repeat exactly, as sizes may
Floats = npt.NDArray[np.float64]


class Regret(NamedTuple):
    """The regret of a store: its estimate (1), the bounds of its interval, which are NaN if the
    store is not ranked, and its number of trials and of sittings. With less than ENOUGH
    sittings, the interval holds for these sittings alone."""

    estimate: float
    low: float
    high: float
    trials: int
    sittings: int = 1

    @property
    def verdict(self) -> str:
        """Whether the store is good enough: "in" if it surely is, "out" if it surely is not,
        "undecided" or "not ranked"."""
        if math.isnan(self.high):
            return "not ranked"
        if self.high < GOOD:
            return "in"
        return "out" if self.low > GOOD else "undecided"

    @property
    def recommended(self) -> bool:
        return self.verdict == "in"


class Ranking(NamedTuple):
    """The regret of each store of a field: first the ranked stores from the best estimate, then the
    others. `tellable` is the regret that these trials would detect with a probability of one half:
    the median over the ranked stores but the first."""

    regrets: dict[str, Regret]
    tellable: float

    @property
    def decided(self) -> bool:
        """Whether no ranked store is undecided."""
        return all(found.verdict != "undecided" for found in self.regrets.values())


def look(number: int, looks: Mapping[int, float] = LOOKS) -> tuple[int, float]:
    """The number of trials, or sittings, that count, and the error that may be spent on them. A
    number below that of the first look is taken as fixed in advance, and spends the whole error."""
    done = [one for one in looks if one <= number]
    return (done[-1], looks[done[-1]]) if done else (number, ERROR)


def counted(sittings: Mapping[int, int]) -> int:
    """How many of these sittings, by trial, a ranking counts: of ENOUGH or more, those up to the
    last look."""
    number = len(set(sittings.values()))
    return look(number, SITTINGS)[0] if number >= ENOUGH else number


def by_trial(series: "pd.Series[float]") -> dict[str, dict[int, float]]:
    """The values for `rank`, from a series indexed by store and trial."""
    values: dict[str, dict[int, float]] = {}
    key: Any
    for key, value in series.items():
        store, trial = key
        values.setdefault(str(store), {})[int(trial)] = float(value)
    return values


def rank(
    values: Mapping[str, Mapping[int, float]],
    planned: Iterable[int] = (),
    largest: bool = False,
    sittings: Mapping[int, int] | None = None,
    share: float = 1.0,
) -> Ranking:
    """The ranking of a field. `values` has for each store the value of each trial, by trial number.
    `planned` are the numbers of further trials that were to be measured. The least value is the
    best, or with `largest` the largest. Values that are not positive and finite count as
    missing, and a store without any value has no regret. A single store is not ranked.
    `sittings` has the sitting of each trial; without it there was one. `share` is that of the
    error that may be spent on this field, where statements on several fields are to hold
    together."""
    sign = -1 if largest else 1
    logs = {
        store: {
            trial: sign * math.log(value) for trial, value in own.items() if 0 < value < math.inf
        }
        for store, own in values.items()
    }
    known = set().union(*logs.values())
    sitting = sittings or {}
    blocks, error = _blocks(sorted(known.union(planned)), sitting)
    parts = [part for block in blocks if (part := [one for one in block if one in known])]
    counted = [trial for part in parts for trial in part]
    number = len({sitting.get(trial, 1) for trial in counted})
    whole = [store for store, own in logs.items() if own and own.keys() >= set(counted)]
    table = np.array(
        [[sum(map(logs[store].__getitem__, part)) / len(part) for part in parts] for store in whole]
    )
    if len(whole) > 1:
        found, tellable = _rank(whole, table, error * share)
    else:
        found, tellable = dict.fromkeys(whole, (1.0, math.nan, math.nan)), math.nan
    regrets = {store: Regret(*own, len(counted), number) for store, own in found.items()}
    best = logs[next(iter(regrets))] if regrets else {}
    for store, own in logs.items():
        if own and store not in regrets:
            both = [own[trial] - best[trial] for trial in own if trial in best]
            estimate = math.exp(np.mean(both)) if both else math.nan
            regrets[store] = Regret(estimate, math.nan, math.nan, len(own), number)
    return Ranking(regrets, tellable)


def _blocks(trials: list[int], sittings: Mapping[int, int]) -> tuple[list[list[int]], float]:
    """The trials that count, in the blocks of which each is one observation, and the error that may
    be spent on them: each sitting is a block if there are enough, otherwise each trial."""
    by: dict[int, list[int]] = {}
    for trial in trials:
        by.setdefault(sittings.get(trial, 1), []).append(trial)
    if len(by) < ENOUGH:
        number, error = look(len(trials))
        return [[trial] for trial in trials[:number]], error
    number, error = look(len(by), SITTINGS)
    return [by[sitting] for sitting in sorted(by)[:number]], error


def _rank(
    stores: list[str], table: Floats, error: float
) -> tuple[dict[str, tuple[float, float, float]], float]:
    """The estimates with their bounds, and `tellable`, from a table of logs, with a row per store
    and a column per observation."""
    mean, half = _differences(table, error)
    low, high = mean - half, mean + half
    maybe = ~(low > 0).any(axis=1)  # which may be best; the one of the best mean may
    others = maybe & ~np.eye(len(stores), dtype=bool)
    least = np.where(maybe, 0, np.min(low, axis=1, where=maybe, initial=np.inf))
    most = np.max(high, axis=1, where=others, initial=0)
    estimate = mean.max(axis=1)  # at least 0: includes the difference from itself
    regrets = {
        stores[at]: tuple(np.exp([estimate[at], max(least[at], 0), most[at]]).tolist())
        for at in np.argsort(estimate, kind="stable")
    }
    best = np.argmin(estimate)
    return regrets, math.exp(np.median(np.delete(half[best], best)))


def _differences(table: Floats, error: float) -> tuple[Floats, Floats]:
    """For each pair of stores, the mean difference over the observations and the half width of its
    interval, which is infinite for one observation."""
    each = table[:, None, :] - table[None, :, :]
    stores, n = table.shape
    half = np.full(each.shape[:2], np.inf)
    if n > 1:
        variance = _moderated(each.var(axis=2, ddof=1), n)
        half = quantile(n, stores, error) * np.sqrt(variance / n)
    np.fill_diagonal(half, 0)
    return each.mean(axis=2), half


def quantile(observations: int, stores: int, error: float) -> float:
    """The quantile of Student's t for the differences of a field's stores, from their number and
    that of their observations."""
    freedom = observations - 1 + (PRIOR if stores >= FEWEST else 0)
    return float(stdtrit(freedom, 1 - error / (stores - 1) / 2))


def bias(freedom: float) -> float:
    """By how much the mean log of a sample's variance is below the log of the true variance."""
    return float(digamma(freedom / 2) - math.log(freedom / 2))


def _moderated(variance: Floats, observations: int) -> Floats:
    """The variances of all pairs of stores, moved towards the usual one of those that vary."""
    pairs = variance[np.triu_indices(len(variance), 1)]
    varying = pairs[pairs > EXACT]
    if len(variance) < FEWEST or not len(varying):
        return variance
    freedom = observations - 1
    usual = math.exp(np.log(varying).mean() - bias(freedom) + bias(PRIOR))
    moved = (PRIOR * usual + freedom * variance) / (PRIOR + freedom)
    return np.where(variance > EXACT, moved, variance)
