"""Which store to choose for some records and a mix of operations, by what was measured.

The datum is the log of a trial's mean. Between measured fields it is interpolated: the fields of a
durability level are points in the plane of the logs of record size and number, whose triangles
(B. Delaunay, 1934) cover what was measured. In a triangle the log of a time is linear in both.
Beyond them nothing is said. A mix takes the mean of its operations' times, by their shares. Stores
are then ranked trial by trial, as in a field; see kvbench.stats.regret.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.spatial import Delaunay, QhullError

from kvbench.cell.bindings import full_name
from kvbench.cell.factors import DEFAULT, DURABILITY, OPERATIONS, format_bytes
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.measured import FLOOR, Measured, Point
from kvbench.stats.regret import RECOMMENDED, Ranking, by_trial, rank
from kvbench.stores.about import has_c_interface, reuses
from kvbench.stores.bindings import BINDINGS

STEP = 10.24  # between the sizes that a field rests on and its own: 100 B to 1 KiB is the longest
NOT_WHOLE = "not measured, or not warm, in a field that the answer rests on"
SYNCS = "it syncs at level process, too, so what another device would take is not known"
SELDOM_SYNCS = 0.1  # a write: flushes of a buffer, which level process allows
RUST = "its library has no interface for C"
GROWS = "its file only grows with updates and removes; --may-grow ranks it, too"
MOST_SIZES = 3  # that a message lists
PLAIN = {"process", "sync"}  # by their difference, a write's wait for the device is told
Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Query:
    """What an application does: bytes of a value, number of records, and the share of each
    operation. `sync_ns` is the time of its device's sync; None: of the one that was measured. Where
    the mix overwrites or removes records, stores whose file then only grows are ranked only if it
    `may_grow`, and with `c_interface` only stores that C can call. Of stores as shipped only those
    are ranked that amount to one `guarantee`; see interpretations()."""

    size: int
    records: int
    mix: Mapping[str, float]
    durability: str = DEFAULT
    memory: str = DEFAULT
    sync_ns: float | None = None
    may_grow: bool = False
    c_interface: bool = False
    guarantee: str = ""

    @property
    def level(self) -> str:
        """The durability level that the stores amount to."""
        return self.guarantee or self.durability

    def refuses(self, store: str) -> str:
        """Why a store does not suit; empty if it does."""
        engine = store.partition("/")[0]
        if not self.may_grow and not reuses(engine):
            return GROWS
        return RUST if self.c_interface and not has_c_interface(engine) else ""


@dataclass(frozen=True)
class Advice:
    """The ranking for a query, the fields that it rests on with the weight of each, and by the
    names of the stores that are not in it why not. `space` is that of each store after equal work,
    over its live bytes; empty where that was not measured around the query."""

    query: Query
    ranking: Ranking
    times: Mapping[str, float]  # of an operation of the mix, in ns
    rests_on: Mapping[Point, float]
    left_out: Mapping[str, str]
    space: Mapping[str, float]

    @property
    def trials(self) -> int:
        return max((own.trials for own in self.ranking.regrets.values()), default=0)

    @property
    def candidates(self) -> list[str]:
        """The stores that are or may be among the best. Of times that were computed, whose error is
        not known, also those that are not much slower."""
        computed = self.query.sync_ns is not None
        return [
            store
            for store, own in self.ranking.regrets.items()
            if own.verdict in ("in", "undecided") or (computed and own.estimate < RECOMMENDED)
        ]


def interpretations(data: Measured, query: Query) -> list[Query]:
    """What a query asks of these data: itself, where stores were set to its durability level. Of
    stores as shipped, one query for each level that they amount to, the asked one and those above
    it, as their times do not compare. Raises BadInput where there is none."""
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
    """The advice for each interpretation of a query, of which an empty level means the usual one,
    or that of data that state none. The first says what else was left out."""

    def usual(known: list[str], level: str) -> str:
        return NOT_STATED if known == [NOT_STATED] else level

    durability = query.durability or usual(data.known("durability"), "process")
    memory = query.memory or usual(data.known("memory"), DEFAULT)
    asked = interpretations(data, replace(query, durability=durability, memory=memory))
    first, *others = (advise(data, one) for one in asked)
    left_out = {**first.left_out, **weaker(data, first.query), **unmeasured(data)}
    return [replace(first, left_out=left_out), *others]


def _survives(level: str, wanted: str) -> bool:
    """Whether stores of a level survive what is wanted, too."""
    order = DURABILITY
    return level in order and wanted in order and order.index(level) >= order.index(wanted)


def check(data: Measured, query: Query) -> None:
    """Refuse what was not measured."""
    if query.memory not in (known := data.known("memory")):
        raise BadInput(
            f"--memory: {query.memory!r:.60} was not measured in {data.name}; "
            f"allowed: {listed(known, query.memory)}"
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


def weights(points: Floats, target: Floats) -> dict[int, float]:
    """The points around a target in the plane, by their places, with weights whose mean is the
    target: those of a triangle, or of a line where all points are on one. Empty where the target
    is not between them."""
    exact = np.flatnonzero(np.isclose(points, target).all(axis=1))
    if len(exact):
        return {int(exact[0]): 1.0}
    try:
        mesh = Delaunay(points)
    except (QhullError, ValueError):  # fewer than three points, or all of them on a line
        return _between(points, target)
    at = int(mesh.find_simplex(target, tol=1e-9))
    if at < 0:
        return {}
    change = mesh.transform[at]
    first = change[:2] @ (target - change[2])
    found = zip(mesh.simplices[at], [*first, 1 - first.sum()], strict=True)
    return {int(place): float(weight) for place, weight in found if weight > 1e-9}


def _between(points: Floats, target: Floats) -> dict[int, float]:
    """The same for sorted points that are all on a line."""
    way = points[-1] - points[0]
    if not way.any():
        return {}
    along, share = ((place - points[0]) @ way / (way @ way) for place in (points, target))
    if not 0 < share < 1 or not np.allclose(points[0] + share * way, target):
        return {}
    to = int(np.searchsorted(along, share))
    weight = float((share - along[to - 1]) / (along[to] - along[to - 1]))
    return {to - 1: 1 - weight, to: weight}


def _elsewhere(plain: Floats, synced: Floats, scale: float) -> Floats:
    """The time of a synced write on another device: what it takes beyond the same write at level
    process is the device's."""
    found: Floats = plain + np.maximum(synced - plain, 0) * scale
    return found


def common(tables: Iterable[pd.DataFrame]) -> list[Point]:
    """The points that all tables of logs have."""
    found: list[Any] = sorted(set.intersection(*(set(table.columns) for table in tables)))
    return found


def nearest(points: Iterable[Point], size: int, records: int) -> Point | None:
    """The measured field that is nearest to these records: size comes first, then their number."""

    def distance(point: Point) -> tuple[float, float]:
        return abs(math.log(point[0] / size)), abs(math.log(point[1] / records))

    return min(points, key=distance, default=None)


def around(points: Iterable[Point], size: int, records: int) -> dict[Point, float]:
    """The measured fields around these records, with their weights; empty where there are none. A
    size of more than a step away says nothing of this one, however many records there were."""
    near = [point for point in points if 1 / STEP <= point[0] / size <= STEP]
    if not near:
        return {}
    plane = np.log(np.array(near, dtype=float)).reshape(-1, 2)
    found = weights(plane, np.log(np.array([size, records], dtype=float)))
    return {near[at]: weight for at, weight in found.items()}


def advise(data: Measured, query: Query, without: Point | None = None) -> Advice:
    """The stores for a query, which is one of its interpretations(). `without` is a field to leave
    out, to see how well the others tell it. Raises BadInput where the query is beyond what was
    measured."""
    check(data, query)
    level = query.durability, query.memory, query.guarantee
    tables = {name: data.logs(level[0], level[1], name, level[2]) for name in query.mix}
    plain = {}  # of the operations that wait for the device, where it is another one
    if query.sync_ns is not None:
        plain = {name: data.logs("process", query.memory, name) for name in tables if name != "get"}
    measured = [p for p in common([*tables.values(), *plain.values()]) if p != without]
    chosen = around(measured, query.size, query.records)
    if not chosen:
        near = nearest(measured, query.size, query.records)
        found = near and f"; the nearest field is {format_bytes(near[0])} x {near[1]:,}"
        raise BadInput(
            f"--record-size, --records: {format_bytes(query.size)} x {query.records:,} is beyond "
            f"what was measured; allowed: {_shown(measured)}{found or ''}"
        )
    scale = (query.sync_ns or 0) / (1000 * float(data.machine.sync_p50_us or 1))
    parts = []
    for operation, share in query.mix.items():
        times = _interpolated(tables[operation], chosen)
        if operation in plain:
            quick = _interpolated(plain[operation], chosen).reindex(times.index)
            times = pd.Series(_elsewhere(quick.to_numpy(), times.to_numpy(), scale), times.index)
        parts.append(times * share)
    sums = pd.concat(parts, axis=1).sum(axis=1, skipna=False) / sum(query.mix.values())
    every = by_trial(sums.dropna())
    writes = set(query.mix) - {"get"}
    waiting = data.syncing(query.memory, writes, chosen, SELDOM_SYNCS) if plain else set()

    def left(store: str) -> str:
        return query.refuses(store) or (SYNCS if store in waiting else "")

    values = {store: own for store, own in every.items() if not left(store)}
    last = max((trial for own in every.values() for trial in own), default=0)
    ranking = rank(values, range(1, last + 1))
    times_of = {
        store: math.exp(np.mean(np.log(list(own.values())))) for store, own in values.items()
    }
    left_out = data.absent(chosen, query.durability, query.memory)
    for store in sorted(set(data.at(data.rows, *level).store) - set(values)):
        left_out[store] = left(store) or NOT_WHOLE
    return Advice(query, ranking, times_of, chosen, left_out, _space(data, query))


def unmeasured(data: Measured) -> dict[str, str]:
    """The packages for Python of which the data have no cell."""
    if data.access != "python":
        return {}
    found = {*data.rows.store, *data.lost.store}
    packages = (full_name(entry.store, name) for name, entry in BINDINGS.items())
    return {
        store: f"not measured in {data.name}"
        for store in packages
        if store not in found and store.partition("/")[0] != FLOOR
    }


def weaker(data: Measured, query: Query) -> dict[str, str]:
    """The stores that as shipped survive less than a query asks for, and what."""
    rows = data.rows[data.rows.durability == DEFAULT]
    guarantees = dict(zip(rows.store, rows.guarantee, strict=True))
    return {
        store: f"as shipped, its writes survive less: {guarantee}"
        for store, guarantee in sorted(guarantees.items())
        if query.guarantee and not _survives(guarantee, query.guarantee)
    }


def _space(data: Measured, query: Query) -> dict[str, float]:
    """The space of each store after equal work, over its live bytes."""
    table = data.space(query.durability, query.memory)
    points: list[Any] = list(table.columns)
    chosen = around(points, query.size, query.records)
    if not chosen:
        return {}
    found = _interpolated(pd.DataFrame(np.log(table)), chosen).dropna()
    return {str(store): float(value) for store, value in found.items()}


def _shown(points: Iterable[Point]) -> str:
    """The least and the greatest number of records of each size, in words."""
    counts: dict[int, list[int]] = {}
    for size, records in points:
        counts.setdefault(size, []).append(records)
    found = [
        f"{format_bytes(size)} x {' to '.join(f'{n:,}' for n in sorted({min(own), max(own)}))}"
        for size, own in counts.items()
    ]
    if len(found) > MOST_SIZES:
        found[1:-1] = ["..."]
    return f"between {', '.join(found)}" if found else "nothing that all stores have"


def _interpolated(table: pd.DataFrame, chosen: Mapping[Point, float]) -> "pd.Series[float]":
    """Times by store and trial; missing where one of the points is."""
    logs = sum(table[point] * weight for point, weight in chosen.items())
    return pd.Series(np.exp(logs))
