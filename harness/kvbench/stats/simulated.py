"""Tests kvbench.stats.regret on simulated fields, whose true regrets are known."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvbench.stats.regret import ENOUGH, GOOD, LOOKS, SITTINGS, Ranking, rank

Logs = npt.NDArray[np.float64]

# Logs of regrets: many at the edge of being good, which are hard to tell; or as measured,
# exponential with this mean.
HARD = (0, 0.1, 0.15, math.log(GOOD), 0.4, 0.7, 1.6)
USUAL = 2.0
SHARED = 0.2  # deviation of the noise that all stores of a trial share, which pairing removes
SPREAD = 0.5  # deviation, over the stores, of the log of their noise
SPIKES = 0.05  # share of trials with a spike, in half of the stores
SPIKE = math.log(2)
FIRST = 7  # trials of the first sitting, if trials are the observations; the others are of a second
EACH = 2  # trials of each sitting, if sittings are
UNTIL = "until decided"  # in place of a number of observations
MACHINES = 2  # that measure the sittings in turn


class Field(NamedTuple):
    """A simulated field: `truth` has the log of each store's regret; `logs` has a row per trial and
    a column per store. With `each`, so many trials at a time are a sitting, and sittings are the
    observations; otherwise trials are."""

    truth: Logs
    logs: Logs
    each: int = 0

    def ranking(self, number: int) -> Ranking:
        """The ranking after a number of trials, or of sittings."""
        trials = number * (self.each or 1)
        values = {
            f"s{store}": dict(enumerate(np.exp(column[:trials]).tolist(), 1))
            for store, column in enumerate(self.logs.T)
        }
        sittings = {t + 1: t // self.each for t in range(trials)} if self.each else None
        return rank(values, sittings=sittings)

    def rankings(self) -> Iterator[Ranking]:
        """The ranking at each look."""
        return map(self.ranking, looks(self.each))

    def wrong(self, ranking: Ranking) -> bool:
        """Whether a store has the wrong verdict. For a regret exactly at the limit, both verdicts
        are wrong."""
        edge = math.log(GOOD)
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
    each: int = 0,
    machines: float = 0.0,
) -> Iterator[Field]:
    """Yield `count` simulated fields. `deviation` is the standard deviation of the differences
    between two stores from trial to trial, in the median over stores. With `spikes`, a few trials
    of some stores take twice the time. `between` is the deviation of these differences from sitting
    to sitting, which all trials of a sitting share; a sitting has `each` trials, or without it the
    first has FIRST of them and a second one the others. `machines` is the deviation of these
    differences from machine to machine, of which MACHINES measure the sittings in turn. The true
    regrets are those over all sittings and machines."""
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
            number = np.arange(trials)
            sitting = number // each if each else (number >= FIRST).astype(int)
            shift = between / math.sqrt(2) * random.standard_normal((sitting[-1] + 1, stores))
            noise += shift[sitting]
            if machines:
                shift = machines / math.sqrt(2) * random.standard_normal((MACHINES, stores))
                noise += shift[sitting % MACHINES]
        yield Field(truth, truth + random.normal(0, SHARED, (trials, 1)) + noise, each)


def looks(each: int) -> tuple[int, ...]:
    """The numbers of trials, or with `each` of sittings, at which a field is looked at."""
    return tuple(SITTINGS if each else LOOKS)


def until_decided(rankings: Iterable[Ranking]) -> Ranking:
    """The ranking of the look after which a sweep stops."""
    for found in rankings:
        if found.decided:
            break
    return found


class Noise(NamedTuple):
    """The noise of simulated fields: see fields()."""

    deviation: float
    spikes: bool = False
    between: float = 0.0
    each: int = 0
    machines: float = 0.0

    def fields(self, count: int, usual: bool) -> list[Field]:
        most = max(looks(self.each)) * (self.each or 1)
        found = fields(
            count, self.deviation, trials=most, spikes=self.spikes, usual=usual,
            between=self.between, each=self.each, machines=self.machines,
        )  # fmt: skip
        return list(found)


DEVIATIONS, BETWEENS = (0.08, 0.16, 0.30), (0.05, 0.10, 0.15)
OF_TRIALS = (
    *(Noise(deviation) for deviation in DEVIATIONS),
    Noise(DEVIATIONS[1], spikes=True),
    *(Noise(DEVIATIONS[0], between=between) for between in BETWEENS[:2]),
)
OF_SITTINGS = tuple(
    Noise(DEVIATIONS[0], spikes, between, EACH) for between in BETWEENS for spikes in (False, True)
)
OF_MACHINES = tuple(
    Noise(DEVIATIONS[0], between=BETWEENS[1], each=EACH, machines=apart) for apart in (0.1, 0.2)
)


def table(count: int, noises: Sequence[Noise] = OF_TRIALS) -> pd.DataFrame:
    """Error rates in `count` fields of 13 stores that are hard to distinguish, and how often usual
    fields are decided: a row for each noise and number of observations. Columns: deviation,
    between sittings, for OF_MACHINES between machines, trials or sittings (texts), then as shares
    (1): a store called wrong, an interval missed, stores decided, fields decided."""
    found = []
    for noise in noises:
        fewest = (ENOUGH,) if noise.each else ()  # fixed in advance, with the whole error
        numbers = (*fewest, *looks(noise.each))
        hard, usual = (
            [(field, [field.ranking(number) for number in numbers]) for field in simulated]
            for simulated in (noise.fields(count, how) for how in (False, True))
        )
        for at, number in enumerate((*numbers, UNTIL)):

            def chosen(rankings: list[Ranking], at: int = at, few: int = len(fewest)) -> Ranking:
                return rankings[at] if at < len(rankings) else until_decided(rankings[few:])

            errors = [(own, chosen(rankings)) for own, rankings in hard]
            answers = [chosen(rankings) for _, rankings in usual]
            verdicts = [own.verdict for one in answers for own in one.regrets.values()]
            found.append(
                {
                    "deviation": f"{noise.deviation:.0%}{', spikes' if noise.spikes else ''}",
                    "between sittings": f"{noise.between:.0%}",
                    **({"between machines": f"{noise.machines:.0%}"} if noise.machines else {}),
                    "sittings" if noise.each else "trials": str(number),
                    "a store called wrong": np.mean([own.wrong(one) for own, one in errors]),
                    "an interval missed": np.mean([own.missed(one) for own, one in errors]),
                    "stores decided": np.mean([verdict != "undecided" for verdict in verdicts]),
                    "fields decided": np.mean([one.decided for one in answers]),
                }
            )
    return pd.DataFrame(found)


def missed(errors: pd.DataFrame) -> dict[str, str]:
    """From table(), for the text: the greatest share of fields in which an interval is missed, by
    the deviation between sittings, at the first look."""
    first = errors[errors.trials == f"{min(LOOKS)}"].set_index("between sittings")
    shares = first["an interval missed"].groupby(level=0).max()
    return {f"at_{str(name).rstrip('%')}": f"{share:.0%}" for name, share in shares.items()}


def apart(errors: pd.DataFrame, number: int) -> dict[str, str]:
    """From table() of OF_MACHINES, for the text: the share of fields in which an interval is missed
    after a number of sittings, by the deviation between machines. Empty for other numbers than
    those of looks."""
    rows = errors[errors.sittings == f"{number}"].set_index("between machines")
    shares = rows["an interval missed"].items()
    return {f"at_{str(name).rstrip('%')}": f"{share:.1%}" for name, share in shares}


def greatest(errors: pd.DataFrame) -> dict[str, str]:
    """From table(), for the text: the greatest shares of fields with a wrong verdict, `wrong`, and
    with a missed interval, `missed`; and the number of sittings that are `needed`."""
    columns = {"wrong": "a store called wrong", "missed": "an interval missed"}
    shares = {name: f"{errors[column].max():.1%}" for name, column in columns.items()}
    return shares | {"needed": str(ENOUGH)}
