"""How good is the advice of `kvbench advise`? Each measured field is left out in turn and predicted
from the others, and the advised store is compared with the best one of the field."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from kvbench.answers.advise import Query, advise, common, nearest
from kvbench.common.messages import BadInput
from kvbench.results.measured import Measured, Point
from kvbench.stats.regret import IN

MIXES: Mapping[str, Mapping[str, float]] = {
    "gets": {"get": 1.0},
    "inserts": {"insert": 1.0},
    "95% gets, 5% updates": {"get": 0.95, "update": 0.05},
    "half gets, half updates": {"get": 0.5, "update": 0.5},
}
ALWAYS = ("sqlite", "lmdb")  # stores that people choose without looking at data


class Case(NamedTuple):
    """A measured field with a mix of operations: the mean time of each store in ns, and the order
    of the stores that the neighbouring fields predict."""

    durability: str
    mix: str
    point: Point
    times: Mapping[str, float]
    advised: str
    nearest: str

    def regret(self, store: str) -> float:
        """Return how many times as slow a store is as the best; NaN if it was not measured."""
        return self.times.get(store, float("nan")) / min(self.times.values())


def _times(data: Measured, query: Query) -> Mapping[str, float]:
    """Return the times of the stores that were measured completely in a field."""
    found = advise(data, query)
    whole = [store for store, own in found.ranking.regrets.items() if own.verdict != "not ranked"]
    return {store: found.times[store] for store in whole}


def cases(data: Measured, levels: Iterable[str] = ("process", "sync")) -> Iterator[Case]:
    """Iterate over the fields that lie between others, with each mix."""
    for level in levels:
        for name, mix in MIXES.items():
            points = common(data.logs(level, "default", operation) for operation in mix)
            for point in points:
                query = Query(point[0], point[1], mix, level)
                try:
                    told = advise(data, query, without=point)
                except BadInput:  # a corner: not between other fields
                    continue
                times = _times(data, query)
                others = [other for other in points if other != point]
                size, records = nearest(others, *point) or point
                close = _times(data, Query(size, records, mix, level))
                known = [store for store in told.ranking.regrets if store in times]
                if known and len(times) > 1:
                    near = min((store for store in close if store in times), key=close.__getitem__)
                    yield Case(level, name, point, times, known[0], near)


def validation(data: Measured) -> pd.DataFrame:
    """Return one row per `rule`: the number of `fields` in which it names a store, the share of
    them in which this store is within 10% of the best (`good`), and the geometric `mean` and the
    greatest (`most`) of its regret."""
    found = list(cases(data))
    rules: dict[str, Callable[[Case], str]] = {
        "advise, from the fields around": lambda case: case.advised,
        "best store of the nearest field": lambda case: case.nearest,
    }
    rules |= {f"always {store}": lambda case, store=store: store for store in ALWAYS}  # type: ignore[misc]
    rows = []
    for name, rule in rules.items() if found else ():
        regrets = np.array([case.regret(rule(case)) for case in found])
        regrets = regrets[~np.isnan(regrets)]
        good, mean = float(np.mean(regrets < IN)), float(np.exp(np.mean(np.log(regrets))))
        rows.append((name, len(regrets), good, mean, float(regrets.max())))
    return pd.DataFrame(rows, columns=["rule", "fields", "good", "mean", "most"])
