"""Tests kvbench.stats.regret on simulated fields, whose true regrets are known."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvbench.stats.regret import IN, LOOKS, Ranking, rank

Logs = npt.NDArray[np.float64]

# Logs of regrets: many at the edge of being in, which are hard to tell; or as measured,
# exponential with this mean.
HARD = (0, 0.03, math.log(IN), 0.2, 0.4, 0.7, 1.6)
USUAL = 2.0
SHARED = 0.2  # deviation of the noise that all stores of a trial share, which pairing removes
SPREAD = 0.5  # deviation, over the stores, of the log of their noise
SPIKES = 0.05  # share of trials with a spike, in half of the stores
SPIKE = math.log(2)
SITTING = 7  # trials of the first sitting; the others belong to a second one


class Field(NamedTuple):
    """A simulated field: `truth` has the log of each store's regret; `logs` has a row per trial and
    a column per store."""

    truth: Logs
    logs: Logs

    def ranking(self, trials: int) -> Ranking:
        values = {
            f"s{store}": dict(enumerate(np.exp(column[:trials]).tolist(), 1))
            for store, column in enumerate(self.logs.T)
        }
        return rank(values)

    def rankings(self) -> Iterator[Ranking]:
        """The ranking at each look of a sweep."""
        return map(self.ranking, LOOKS)

    def wrong(self, ranking: Ranking) -> bool:
        """Whether a store has the wrong verdict. For a regret exactly at the limit, both verdicts
        are wrong."""
        edge = math.log(IN)
        true = {"in": self.truth < edge - 1e-9, "out": self.truth > edge + 1e-9}
        return any(
            not true[own.verdict][int(store[1:])]
            for store, own in ranking.regrets.items()
            if own.verdict in true
        )

    def missed(self, ranking: Ranking) -> bool:
        """Whether the interval of any store misses its true regret."""
        return any(
            not own.low - 1e-9 <= math.exp(self.truth[int(store[1:])]) <= own.high + 1e-9
            for store, own in ranking.regrets.items()
        )


def fields(
    count: int,
    deviation: float,
    stores: int = 13,
    trials: int = 15,
    *,
    spikes: bool = False,
    usual: bool = False,
    between: float = 0.0,
) -> Iterator[Field]:
    """Yield `count` simulated fields. `deviation` is the standard deviation of the differences
    between two stores from trial to trial, in the median over stores. With `spikes`, a few trials
    of some stores take twice the time. `between` is the deviation of these differences from sitting
    to sitting, which all trials of a sitting share."""
    random = np.random.default_rng(1)
    for _ in range(count):
        truth = random.exponential(USUAL, stores) if usual else random.choice(HARD, stores)
        truth[0] = 0
        own = deviation / math.sqrt(2) * np.exp(SPREAD * random.standard_normal(stores))
        noise = own * random.standard_normal((trials, stores))
        if spikes:
            hit = random.random((trials, stores)) < SPIKES
            noise[:, ::2] += SPIKE * hit[:, ::2]
        if between:
            sitting = (np.arange(trials) >= SITTING).astype(int)
            noise += between / math.sqrt(2) * random.standard_normal((2, stores))[sitting]
        yield Field(truth, truth + random.normal(0, SHARED, (trials, 1)) + noise)


def until_decided(rankings: Iterable[Ranking]) -> Ranking:
    """The ranking of the look after which a sweep stops."""
    for found in rankings:
        if found.decided:
            break
    return found


def table(
    count: int,
    deviations: Sequence[float] = (0.08, 0.16, 0.30),
    betweens: Sequence[float] = (0.05, 0.10),
) -> pd.DataFrame:
    """Error rates in `count` fields of 13 stores that are hard to distinguish, and how often usual
    fields are decided: a row for each noise and number of trials. Columns: deviation, between
    sittings and trials (texts), then as shares (1): a store called wrong, an interval missed,
    stores decided, fields decided. With a deviation between sittings, the true regrets are those
    over all sittings."""
    found = []
    noises = [(one, False, 0.0) for one in deviations] + [(deviations[1], True, 0.0)]
    for deviation, spikes, between in noises + [(deviations[0], False, one) for one in betweens]:
        hard, usual = (
            [
                (field, list(field.rankings()))
                for field in fields(count, deviation, spikes=spikes, usual=how, between=between)
            ]
            for how in (False, True)
        )
        for at, trials in enumerate((*LOOKS, "until decided")):

            def chosen(rankings: list[Ranking], at: int = at) -> Ranking:
                return rankings[at] if at < len(LOOKS) else until_decided(rankings)

            errors = [(own, chosen(rankings)) for own, rankings in hard]
            answers = [chosen(rankings) for _, rankings in usual]
            verdicts = [own.verdict for one in answers for own in one.regrets.values()]
            found.append(
                {
                    "deviation": f"{deviation:.0%}{', spikes' if spikes else ''}",
                    "between sittings": f"{between:.0%}",
                    "trials": str(trials),
                    "a store called wrong": np.mean([own.wrong(one) for own, one in errors]),
                    "an interval missed": np.mean([own.missed(one) for own, one in errors]),
                    "stores decided": np.mean([verdict != "undecided" for verdict in verdicts]),
                    "fields decided": np.mean([one.decided for one in answers]),
                }
            )
    return pd.DataFrame(found)


def missed(errors: pd.DataFrame) -> dict[str, str]:
    """From table(), for the text: the greatest share of fields in which an interval is missed, by
    the deviation between sittings, at the last look."""
    last = errors[errors.trials == f"{max(LOOKS)}"].set_index("between sittings")
    shares = last["an interval missed"].groupby(level=0).max()
    return {f"at_{str(name).rstrip('%')}": f"{share:.0%}" for name, share in shares.items()}
