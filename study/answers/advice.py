"""How good is the advice of `kvbench advise`? Each measured field is left out in turn and predicted
from the others, and the advised store is compared with the best one of the field."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from kvbench.answers.advise import EXTRAPOLATED, Query, advise, common, nearest
from kvbench.cell.factors import format_bytes
from kvbench.results.measured import Measured, Point

from study.answers.decision import LEVELS, Need, over_fields
from study.common import formats
from study.common.results import Results

MIXES: Mapping[str, Mapping[str, float]] = {
    "gets": {"get": 1.0},
    "inserts": {"insert": 1.0},
    "95% gets, 5% updates": {"get": 0.95, "update": 0.05},
    "half gets, half updates": {"get": 0.5, "update": 0.5},
}
ALWAYS = ("sqlite", "lmdb")  # stores that people choose without looking at data
CLOSE = 1.10  # a store with less regret is close to the best
SUMMARY = ["fields", "good", "mean", "most"]


class Case(NamedTuple):
    """A measured field with a mix of operations: the mean time of each store in ns, the store that
    is advised from the other fields, the grade of that advice, and the best of the nearest field.
    """

    durability: str
    mix: str
    point: Point
    times: Mapping[str, float]
    advised: str
    grade: str
    nearest: str

    def regret(self, store: str) -> float:
        """Return how many times as slow a store is as the best; NaN if it was not measured."""
        return self.times.get(store, float("nan")) / min(self.times.values())


def _times(data: Measured, query: Query) -> Mapping[str, float]:
    """Return the times of the stores that were measured completely in a field."""
    found = advise(data, query)
    whole = [store for store, own in found.ranking.regrets.items() if own.verdict != "not ranked"]
    return {store: found.times[store] for store in whole}


def cases(data: Measured, levels: Iterable[str] = LEVELS) -> Iterator[Case]:
    """Iterate over the fields, with each mix. The advice is extrapolated for those that do not lie
    between others."""
    for level in levels:
        for name, mix in MIXES.items():
            points = common(data.logs(level, "default", operation) for operation in mix)
            for point in points:
                query = Query(point[0], point[1], mix, level)
                others = [other for other in points if other != point]
                if not others:
                    continue
                told = advise(data, query, without=point)
                times = _times(data, query)
                size, records = nearest(others, *point) or point
                close = _times(data, Query(size, records, mix, level))
                known = [store for store in told.ranking.regrets if store in times]
                if known and len(times) > 1:
                    near = min((store for store in close if store in times), key=close.__getitem__)
                    yield Case(level, name, point, times, known[0], told.grade, near)


def validation(data: Measured) -> pd.DataFrame:
    """Return one row per `rule`: the number of `fields` in which it names a store, the share of
    them in which this store is within CLOSE of the best (`good`), and the geometric `mean` and the
    greatest (`most`) of its regret. All rules but the one that extrapolates are tried in the fields
    that lie between others."""
    found = list(cases(data))
    between = [case for case in found if case.grade != EXTRAPOLATED]
    beyond = [case for case in found if case.grade == EXTRAPOLATED]
    rules: dict[str, tuple[Callable[[Case], str], list[Case]]] = {
        "advise, from the fields around": (lambda case: case.advised, between),
        "best store of the nearest field": (lambda case: case.nearest, between),
    }
    for store in ALWAYS:
        rules[f"always {store}"] = (lambda case, store=store: store, between)  # type: ignore[misc]
    rules["advise, beyond the other fields"] = (lambda case: case.advised, beyond)
    rows = []
    for name, (rule, of) in rules.items():
        if not of:
            continue
        regrets = [regret for case in of if not math.isnan(regret := case.regret(rule(case)))]
        rows.append((name, *_summary(regrets)))
    return pd.DataFrame(rows, columns=["rule", *SUMMARY])


def _summary(regrets: Sequence[float]) -> tuple[int, float, float, float]:
    """Return SUMMARY of the regrets of advised stores, of which there is at least one."""
    good, mean = np.mean(np.array(regrets) < CLOSE), np.exp(np.mean(np.log(regrets)))
    return len(regrets), float(good), float(mean), max(regrets)


def texts(found: pd.DataFrame) -> pd.DataFrame:
    """Return a table that has SUMMARY as text, with the names that its readers see."""
    shown = found.assign(good=found.good.map("{:.0%}".format))
    for column in {"beyond", "mean", "most"} & set(found):
        shown[column] = found[column].map(formats.number)
    return shown.rename(columns={"good": f"within {CLOSE - 1:.0%}", "fields": "cases"})


class Followed(NamedTuple):
    """Advice followed in a field of another place, with a mix and a level: the advised store, the
    fastest one there with its mean time in ns, and the regret there of the advised one. `beyond`
    is how many times as many records the field has as the measured ones on which the advice rests;
    1 if it lies between them."""

    level: str
    mix: str
    point: Point
    advised: str
    fastest: str
    time_ns: float
    regret: float
    beyond: float


def followed(data: Measured, place: Measured) -> Iterator[Followed]:
    """Iterate over the fields of a place that measured the same levels, with each mix. The advised
    store is the first that the place measured, too."""
    levels = set(place.known("durability")) & set(data.known("durability"))
    for level, (name, mix) in itertools.product(sorted(levels, key=LEVELS.index), MIXES.items()):
        for size, records in common(place.logs(level, "default", one) for one in mix):
            query = Query(size, records, mix, level)
            times, told = _times(place, query), advise(data, query)
            known = [store for store in told.ranking.regrets if store in times]
            if known and len(times) > 1:
                best = min(times, key=times.__getitem__)
                most = max(count for _, count in told.rests_on)
                yield Followed(
                    level, name, (size, records), known[0], best, times[best],
                    times[known[0]] / times[best], max(records / most, 1.0),
                )  # fmt: skip


def elsewhere(data: Measured, places: Mapping[str, Measured]) -> pd.DataFrame:
    """Return how good the advice from `data` is on other machines and file systems: one row per
    `place` that measured fields at the same levels, with SUMMARY over these fields and the mixes.
    """
    found = {name: [one.regret for one in followed(data, own)] for name, own in places.items()}
    rows = [(name, *_summary(regrets)) for name, regrets in found.items() if regrets]
    return pd.DataFrame(rows, columns=["place", *SUMMARY])


def by_distance(cases: Iterable[Followed]) -> pd.DataFrame:
    """Return how good advice is the further it is extrapolated: one row per `beyond`, the number of
    records over the largest on which the advice rests, with SUMMARY."""
    regrets: dict[float, list[float]] = {}
    for one in cases:
        regrets.setdefault(one.beyond, []).append(one.regret)
    rows = [(beyond, *_summary(regrets[beyond])) for beyond in sorted(regrets)]
    return pd.DataFrame(rows, columns=["beyond", *SUMMARY])


def shown(cases: Iterable[Followed], mix: str) -> pd.DataFrame:
    """Return the cases of a mix as text, one row per level and field."""
    rows = [
        (
            one.level, format_bytes(one.point[0]), formats.count(one.point[1]), one.advised,
            one.fastest, formats.time(one.time_ns), formats.number(one.regret),
        )
        for one in cases
        if one.mix == mix
    ]  # fmt: skip
    columns = ["level", "values", "records", "advised", "fastest", "its time", "regret"]
    return pd.DataFrame(rows, columns=columns)


def repeats(data: Results) -> dict[str, str]:
    """Return, for the text, in which share of cases the best store of one of the first two trials
    is within CLOSE of the best in the other one, the most that advice can reach there. Empty if
    there is one trial."""
    found = []
    for level, mix in itertools.product(LEVELS, MIXES.values()):
        for size, count in itertools.product(data.sizes(), data.counts()):
            costs = over_fields(data, Need("", level, (size,), (count,), mix)).unstack("trial")
            times = costs.dropna().to_numpy()
            if times.shape[1] > 1 and len(times) > 1:
                first, second = times[:, 0], times[:, 1]
                for one, other in ((first, second), (second, first)):
                    found.append(one[other.argmin()] < CLOSE * one.min())
    return {"again": f"{np.mean(found):.0%}"} if found else {}
