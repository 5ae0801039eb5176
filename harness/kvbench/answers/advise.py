"""Ranks the stores for given records and a mix of operations, from measured results.

Each observation is the log of a trial's mean time. It is interpolated linearly in the logs of the
number of records and the record size, between the measured fields of a durability level. Beyond
them an answer is that of the nearest fields, and its grade says so. The time of a mix is the mean
of its operations' times, weighted by their shares. Stores are then ranked trial by trial, as in a
field; see kvbench.stats.regret.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvbench.answers.needs import Needs
from kvbench.cell.bindings import full_name
from kvbench.cell.factors import DEFAULT, DURABILITY, OPERATIONS
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.measured import FLOOR, Measured, Point
from kvbench.stats.regret import GOOD, Ranking, by_trial, rank
from kvbench.stores.about import reuses
from kvbench.stores.bindings import BINDINGS

STEP = 10.24  # largest ratio of a measured size to the query's: 1 KiB / 100 B
NOT_WHOLE = "not measured, or not warm, in a field that the answer rests on"
SYNCS = "it syncs at level process, too, so what another device would take is not known"
SELDOM_SYNCS = 0.1  # syncs per write: level process allows syncs when a buffer is flushed
MEASURED, INTERPOLATED, EXTRAPOLATED = "measured", "interpolated", "extrapolated"  # grades
GROWS = "its file only grows with updates and removes; --may-grow ranks it, too"
NO_NEEDS = Needs()
PLAIN = {"process", "sync"}  # the difference of their times is a write's wait for the device
Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Query:
    """What an application does, and what it requires of a store.

    `size` is the bytes of a value, `records` the number of records, and `mix` the share of each
    operation. `sync_ns` is the time of a sync on the application's device; None means the measured
    device's. If the mix overwrites or removes records, stores whose file only grows are ranked only
    with `may_grow`. Stores that do not meet the `needs` are not ranked. Of stores as shipped, only
    those that provide the durability level `guarantee` are ranked; see interpretations().
    """

    size: int
    records: int
    mix: Mapping[str, float]
    durability: str = DEFAULT
    memory: str = DEFAULT
    sync_ns: float | None = None
    may_grow: bool = False
    needs: Needs = NO_NEEDS
    guarantee: str = ""

    @property
    def level(self) -> str:
        """The durability level that the ranked stores provide."""
        return self.guarantee or self.durability

    def refuses(self, store: str) -> str:
        """The reason why a store does not meet the query's requirements; empty if it does."""
        engine = store.partition("/")[0]
        if not self.may_grow and not reuses(engine):
            return GROWS
        return self.needs.refuses(store, self.durability)


@dataclass(frozen=True)
class Advice:
    """The answer to a query: the ranking, the mean time of each store, the fields it was
    interpolated from with their weights, and the stores left out with the reason. `grade` is
    EXTRAPOLATED if the query lies beyond the measured fields; then the answer is that of the
    nearest ones. `space` is each store's disk space over its live bytes after equal work; empty
    where that was not measured around the query."""

    query: Query
    ranking: Ranking
    times: Mapping[str, float]  # by store, the mean time of an operation of the mix in ns
    rests_on: Mapping[Point, float]
    left_out: Mapping[str, str]
    space: Mapping[str, float]
    grade: str

    @property
    def trials(self) -> int:
        return max((regret.trials for regret in self.ranking.regrets.values()), default=0)

    @property
    def candidates(self) -> list[str]:
        """The stores that are good enough or may be. If times were computed for another device,
        whose error is unknown, stores that are slightly slower are candidates, too."""
        computed = self.query.sync_ns is not None
        return [
            store
            for store, regret in self.ranking.regrets.items()
            if regret.verdict in ("in", "undecided") or (computed and regret.estimate < GOOD)
        ]


def interpretations(data: Measured, query: Query) -> list[Query]:
    """The queries at which these data can answer a query. If stores were set to its durability
    level, that is the query itself. If they were measured as shipped, it is one query for each
    level that they provide, from the requested level upwards, since their times are not comparable.
    Raises BadInput if there is none."""
    known, shipped = data.known("durability"), data.guarantees()
    wanted = query.durability
    if wanted == DEFAULT and shipped:
        levels = shipped
    elif wanted in known:
        return [query]
    else:
        levels = [level for level in shipped if _survives(level, wanted)]
    if not levels:
        allowed = [*known, *(level for level in shipped if level not in known)]
        raise BadInput(
            f"--durability: {wanted!r:.60} was not measured in {data.name}; "
            f"allowed: {listed(allowed, wanted)}"
        )
    return [replace(query, durability=DEFAULT, guarantee=level) for level in levels]


def answers(data: Measured, query: Query) -> list[Advice]:
    """The advice for each interpretation of a query. An empty durability or memory means the usual
    level, or NOT_STATED if the data state none. The first advice also lists stores left out of all.
    Raises BadInput."""

    def usual(known: list[str], level: str) -> str:
        return NOT_STATED if known == [NOT_STATED] else level

    durability = query.durability or usual(data.known("durability"), "process")
    memory = query.memory or usual(data.known("memory"), DEFAULT)
    asked = interpretations(data, replace(query, durability=durability, memory=memory))
    first, *others = (advise(data, one) for one in asked)
    left_out = {**first.left_out, **weaker(data, first.query), **unmeasured(data)}
    return [replace(first, left_out=left_out), *others]


def _survives(level: str, wanted: str) -> bool:
    """Whether a store at `level` survives all that level `wanted` survives."""
    order = DURABILITY
    return level in order and wanted in order and order.index(level) >= order.index(wanted)


def check(data: Measured, query: Query) -> None:
    """Raise BadInput if the data lack a level, an operation or a time that the query needs."""
    if query.memory not in (known := data.known("memory")):
        raise BadInput(
            f"--memory: {query.memory!r:.60} was not measured in {data.name}; "
            f"allowed: {listed(known, query.memory)}"
        )
    if query.needs.stores:
        engines = sorted({name.partition("/")[0] for name in set(data.rows.store)})
        for store in query.needs.stores:
            if store not in engines:
                raise BadInput(
                    f"--stores: {store!r:.60} was not measured in {data.name}; "
                    f"allowed: {listed(engines, store)}"
                )
    timed = [name for name in OPERATIONS if name in set(data.rows.operation)]
    for operation in query.mix:
        if operation not in timed:
            raise BadInput(
                f"--mix: {operation} was not measured in {data.name}; allowed: {listed(timed)}"
            )
    if query.sync_ns is not None:
        if query.durability != "sync" or not set(data.rows.durability) >= PLAIN:
            raise BadInput("--sync-time: allowed with --durability sync, of data with process")
        if pd.isna(data.machine.sync_p50_us):
            raise BadInput(f"--sync-time: {data.name} has no time of its own device's sync")


def _elsewhere(plain: Floats, synced: Floats, scale: float) -> Floats:
    """The time of a synced write on another device: the difference from the same write at level
    process is the device's, and is scaled."""
    times: Floats = plain + np.maximum(synced - plain, 0) * scale
    return times


def common(tables: Iterable[pd.DataFrame]) -> list[Point]:
    """The points that all tables have as columns, sorted."""
    points: list[Any] = sorted(set.intersection(*(set(table.columns) for table in tables)))
    return points


def nearest(points: Iterable[Point], size: int, records: int) -> Point | None:
    """The measured field nearest to these records: by size first, then by number."""

    def distance(point: Point) -> tuple[float, float]:
        return abs(math.log(point[0] / size)), abs(math.log(point[1] / records))

    return min(points, key=distance, default=None)


def around(points: Iterable[Point], size: int, records: int) -> dict[Point, float]:
    """The measured fields around these records, with their interpolation weights; empty if there
    are none. Of the sizes whose measured numbers of records include `records`, the two nearest to
    `size` count, if neither differs by more than a factor of STEP; within each, the two nearest
    numbers."""
    numbers = _numbers(points)
    sizes = [own for own, counts in numbers.items() if counts[0] <= records <= counts[-1]]
    near = [own for own in sizes if 1 / STEP <= own / size <= STEP]
    return {
        (own, count): share * part
        for own, share in _between(near, size)
        for count, part in _between(numbers[own], records)
    }


def edge(points: Iterable[Point], size: int, records: int) -> dict[Point, float]:
    """The same for records that are beyond the measured fields: those around the nearest size,
    which is `size` itself if it lies between two, and of each size the nearest number."""
    numbers = _numbers(points)
    if not numbers:
        return {}
    near = [own for own in numbers if 1 / STEP <= own / size <= STEP]
    near = near or [min(numbers, key=lambda own: abs(math.log(own / size)))]
    return {
        (own, count): share * part
        for own, share in _between(near, _within(near, size))
        for count, part in _between(numbers[own], _within(numbers[own], records))
    }


def heaviest(fields: Mapping[Point, float]) -> Point:
    """The field with the largest weight."""
    return max(fields, key=lambda point: fields[point])


def _numbers(points: Iterable[Point]) -> dict[int, list[int]]:
    """The numbers of records of each size, both in order."""
    numbers: dict[int, list[int]] = {}
    for own, count in sorted(points):
        numbers.setdefault(own, []).append(count)
    return numbers


def _within(levels: Sequence[int], value: int) -> int:
    """The value or, if it is outside sorted levels, the one next to it."""
    return min(max(value, levels[0]), levels[-1])


def _between(levels: Sequence[int], value: int) -> list[tuple[int, float]]:
    """The two sorted levels around a value with their weights, or the level that is the value;
    empty if the value is outside. The weights are linear in the logs."""
    low = max((level for level in levels if level <= value), default=None)
    high = min((level for level in levels if level >= value), default=None)
    if low is None or high is None:
        return []
    if low == high:
        return [(low, 1.0)]
    share = math.log(value / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]


def advise(data: Measured, query: Query, without: Point | None = None) -> Advice:
    """The advice for one interpretation of a query. `without` is a field to leave out, so that its
    interpolation can be compared with its measurement. Raises BadInput if no field has all that the
    query needs."""
    check(data, query)
    level = query.durability, query.memory, query.guarantee
    tables = {name: data.logs(level[0], level[1], name, level[2]) for name in query.mix}
    plain = {}  # times at level process of the writes, for another device's sync
    if query.sync_ns is not None:
        plain = {name: data.logs("process", query.memory, name) for name in tables if name != "get"}
    measured = [p for p in common([*tables.values(), *plain.values()]) if p != without]
    chosen, grade = basis(measured, query)
    scale = (query.sync_ns or 0) / (1000 * float(data.machine.sync_p50_us or 1))
    parts = []
    for operation, share in query.mix.items():
        times = interpolated(tables[operation], chosen)
        if operation in plain:
            quick = interpolated(plain[operation], chosen).reindex(times.index)
            times = pd.Series(_elsewhere(quick.to_numpy(), times.to_numpy(), scale), times.index)
        parts.append(times * share)
    sums = pd.concat(parts, axis=1).sum(axis=1, skipna=False) / sum(query.mix.values())
    every = by_trial(sums.dropna())
    writes = set(query.mix) - {"get"}
    waiting = data.syncing(query.memory, writes, chosen, SELDOM_SYNCS) if plain else set()

    memory = data.memory(*level, heaviest(chosen))

    def left(store: str) -> str:
        large = query.needs.exceeds(memory.get(store))
        return query.refuses(store) or large or (SYNCS if store in waiting else "")

    values = {store: trials for store, trials in every.items() if not left(store)}
    last = max((trial for trials in every.values() for trial in trials), default=0)
    ranking = rank(values, range(1, last + 1), sittings=data.sittings)
    times_of = {
        store: math.exp(np.mean(np.log(list(trials.values())))) for store, trials in values.items()
    }
    left_out = data.absent(chosen, query.durability, query.memory)
    for store in sorted(set(data.at(data.rows, *level).store) - set(values)):
        left_out[store] = left(store) or NOT_WHOLE
    return Advice(query, ranking, times_of, chosen, left_out, _space(data, query), grade)


def basis(measured: list[Point], query: Query) -> tuple[dict[Point, float], str]:
    """The fields on which an answer rests, with their weights, and its grade. Raises BadInput if
    there is no field."""
    if chosen := around(measured, query.size, query.records):
        return chosen, INTERPOLATED if len(chosen) > 1 else MEASURED
    if not (chosen := edge(measured, query.size, query.records)):
        raise BadInput(
            f"--mix: no field has {listed(query.mix)} of all stores; leave an operation out, or "
            "sweep them"
        )
    return chosen, EXTRAPOLATED


def unmeasured(data: Measured) -> dict[str, str]:
    """The Python packages of which the data have no cell, with the reason."""
    if data.access != "python":
        return {}
    measured = {*data.rows.store, *data.lost.store}
    packages = (full_name(entry.store, name) for name, entry in BINDINGS.items())
    return {
        store: f"not measured in {data.name}"
        for store in packages
        if store not in measured and store.partition("/")[0] != FLOOR
    }


def weaker(data: Measured, query: Query) -> dict[str, str]:
    """The stores that, as shipped, survive less than the query requires, with what they survive."""
    rows = data.rows[data.rows.durability == DEFAULT]
    guarantees = dict(zip(rows.store, rows.guarantee, strict=True))
    return {
        store: f"as shipped, its writes survive less: {guarantee}"
        for store, guarantee in sorted(guarantees.items())
        if query.guarantee and not _survives(guarantee, query.guarantee)
    }


def _space(data: Measured, query: Query) -> dict[str, float]:
    """The disk space of each store over its live bytes, after equal work."""
    table = data.space(query.durability, query.memory)
    points: list[Any] = list(table.columns)
    chosen = around(points, query.size, query.records)
    if not chosen:
        return {}
    ratios = interpolated(pd.DataFrame(np.log(table)), chosen).dropna()
    return {str(store): float(value) for store, value in ratios.items()}


def interpolated(table: pd.DataFrame, chosen: Mapping[Point, float]) -> "pd.Series[float]":
    """The interpolated times in ns by store and trial; missing where one of the points is
    missing."""
    logs = sum(table[point] * weight for point, weight in chosen.items())
    return pd.Series(np.exp(logs))
