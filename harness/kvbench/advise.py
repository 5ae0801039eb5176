"""Which store to choose for some records and a mix of operations, by what was measured.

The datum is the log of a trial's mean. Between measured fields it is interpolated: the fields of a
durability level are points in the plane of the logs of record size and number, whose triangles
(B. Delaunay, 1934) cover what was measured. In a triangle the log of a time is linear in both.
Beyond them nothing is said. A mix takes the mean of its operations' times, by their shares. Stores
are then ranked trial by trial, as in a field; see kvbench.regret.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from scipy.spatial import Delaunay, QhullError
from tabulate import tabulate

from kvbench import BadInput, stores
from kvbench.about import about, has_c_interface, reuses
from kvbench.factors import DEFAULT, OPERATIONS, UNCAPPED, format_bytes
from kvbench.grid import Grid
from kvbench.regret import IN, RECOMMENDED, Ranking, by_trial, rank
from kvbench.tables import read_tables
from kvbench.warm import WARM, resident, warm
from kvbench.workload import ROUNDS

POINT = ["record_size", "records"]
MOST_REGRET = 1000  # above it a bound tells nothing
STEP = 10.24  # between the sizes that a field rests on and its own: 100 B to 1 KiB is the longest
MOST_SHOWN = 5  # stores whose settings are printed
NOT_WHOLE = "not measured, or not warm, in a field that the answer rests on"
SYNCS = "it syncs at level process, too, so what another device would take is not known"
SELDOM_SYNCS = 0.1  # a write: flushes of a buffer, which level process allows
RUST = "its library has no interface for C"
GROWS = "its file only grows with this mix; --may-grow ranks it, too"
LEGEND = (
    f"in: surely less than {IN - 1:.0%} slower than the best; out: surely more; undecided: not "
    f"known. Use: surely less than {RECOMMENDED - 1:.0%} slower."
)
CAUTIONS = {  # what a level leaves open
    "none": "At level none a crash of the process may cost the last writes, in some engines more.",
    "process": "At level process a loss of power may cost more than the last writes: LMDB and "
    "libmdbx without syncs and SQLite with synchronous=OFF may lose the whole store, by their "
    "documentation. Settings between process and sync, such as a sync each second, were not "
    "measured.",
    "sync": "Files are overwritten in place: a crash in an update may leave neither value. Level "
    "atomic avoids that, and makes updates slower. Kyoto Cabinet's hash tears updates, too.",
    DEFAULT: "As shipped, stores survive different things: see the paper's table of levels.",
}
PLAIN = {"process", "sync"}  # by their difference, a write's wait for the device is told
Floats = npt.NDArray[Any]
Point = tuple[int, int]  # bytes of a value, number of records


@dataclass(frozen=True)
class Query:
    """What an application does: bytes of a value, number of records, and the share of each
    operation. `sync_ns` is the time of its device's sync; None: of the one that was measured. Where
    the mix overwrites or removes records, stores whose file then only grows are ranked only if it
    `may_grow`, and with `c_interface` only stores that C can call."""

    size: int
    records: int
    mix: Mapping[str, float]
    durability: str = DEFAULT
    memory: str = DEFAULT
    sync_ns: float | None = None
    may_grow: bool = False
    c_interface: bool = False

    def refuses(self, store: str) -> str:
        """Why a store does not suit; empty if it does."""
        overwrites = {"update", "remove"} & set(self.mix)
        if overwrites and not self.may_grow and not reuses(store):
            return GROWS
        return RUST if self.c_interface and not has_c_interface(store) else ""


@dataclass(frozen=True)
class Advice:
    """The ranking for a query, the fields that it rests on with the weight of each, and by the
    names of the stores that are not in it why not."""

    query: Query
    ranking: Ranking
    times: Mapping[str, float]  # of an operation of the mix, in ns
    rests_on: Mapping[Point, float]
    left_out: Mapping[str, str]

    @property
    def trials(self) -> int:
        return max((own.trials for own in self.ranking.regrets.values()), default=0)


class Measured:
    """The tables of a results folder, as advice needs them: `rows` has the mean time of each
    operation of each trial, `cells` the rest."""

    def __init__(self, tables: Mapping[str, pa.Table], name: object) -> None:
        frames = {table: found.to_pandas() for table, found in tables.items()}
        self.name = name
        cells = frames["cells"]
        plain = {
            "status": "ok", "access": "c", "cache": "warm", "memory_max": UNCAPPED,
            "workload": ROUNDS, "options": "", "compressibility": "incompressible",
            "key_order": "uniform", "compression": DEFAULT, "place": "disk",
        }  # fmt: skip
        for column, level in plain.items():
            cells = cells[cells[column].isna() | (cells[column] == level)]  # or not stated
        cells = cells[cells.record_size_min == cells.record_size_max]
        if cells.empty:
            raise BadInput(f"{name}: no store was measured from C with a warm page cache")
        if cells.machine.nunique() > 1:
            raise BadInput(f"{name}: results of several machines; collect each by itself")
        self.machine = frames["machines"].set_index("machine").loc[cells.machine.iloc[0]]
        cells = cells.assign(
            record_size=cells.record_size_min,
            cooled=resident(cells) < WARM,
            memory_bytes=cells.memory_anonymous_bytes + cells.memory_file_bytes,
        )
        operations = frames["operations"]
        operations = operations[operations.operation.isin(OPERATIONS)]
        factors = ["cell", "store", *POINT, "durability", "memory", "trial", "cooled"]
        rows = cells[factors].merge(operations, on="cell")
        self.cells, self.rows = cells, rows.assign(mean_ns=rows.sum_ns / rows.n)

    @classmethod
    def of(cls, folder: Path) -> "Measured":
        return cls(read_tables(folder), folder)

    def logs(self, durability: str, memory: str, operation: str) -> pd.DataFrame:
        """The log of a mean time by store and trial (rows) and by record size and number
        (columns), of the stores that were warm."""
        rows = self.rows[
            (self.rows.durability == durability)
            & (self.rows.memory == memory)
            & (self.rows.operation == operation)
        ]
        rows = warm(rows, POINT)
        means = rows.pivot_table(index=["store", "trial"], columns=POINT, values="mean_ns")
        return pd.DataFrame(np.log(means))

    def syncing(self, query: Query, points: Iterable[Point]) -> set[str]:
        """The stores whose writes of the mix sync at level process, too, in one of these points."""
        rows = self.rows[
            (self.rows.durability == "process")
            & (self.rows.memory == query.memory)
            & self.rows.operation.isin(set(query.mix) - {"get"})
        ]
        chosen = set(points)
        rows = rows[[point in chosen for point in zip(*(rows[p] for p in POINT), strict=True)]]
        each = (rows.syncs / rows.n).groupby(
            [rows[name] for name in ["store", "operation", *POINT]]
        )
        often = each.median() > SELDOM_SYNCS
        return set(often.index.get_level_values("store")[often])

    def check(self, query: Query) -> None:
        """Refuse a level that was not measured."""
        for name in ("durability", "memory"):
            level, known = getattr(query, name), sorted(self.rows[name].unique())
            if level not in known:
                raise BadInput(
                    f"--{name}: {level!r} was not measured in {self.name}; "
                    f"allowed: {', '.join(known)}"
                )
        for operation in query.mix:
            if operation not in set(self.rows.operation):
                raise BadInput(f"--mix: {operation} was not measured in {self.name}")
        if query.sync_ns is not None:
            if query.durability != "sync" or not set(self.rows.durability) >= PLAIN:
                raise BadInput("--sync-time: allowed with --durability sync, of data with process")
            if pd.isna(self.machine.sync_p50_us):
                raise BadInput(f"--sync-time: {self.name} has no time of its own device's sync")


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


def advise(data: Measured, query: Query, without: Point | None = None) -> Advice:
    """The stores for a query. `without` is a field to leave out, to see how well the others tell
    it. Raises BadInput where the query is beyond what was measured."""
    data.check(query)
    tables = {name: data.logs(query.durability, query.memory, name) for name in query.mix}
    plain = {}  # of the operations that wait for the device, where it is another one
    if query.sync_ns is not None:
        plain = {name: data.logs("process", query.memory, name) for name in tables if name != "get"}
    measured = [p for p in common([*tables.values(), *plain.values()]) if p != without]
    points = [point for point in measured if not _far(point[0], query.size)]
    plane = np.log(np.array(points, dtype=float)).reshape(-1, 2)
    found = weights(plane, np.log(np.array([query.size, query.records], dtype=float)))
    if not found:
        near = min(measured, key=lambda point: _distance(point, query), default=None)
        nearest = near and f"; the nearest field is {format_bytes(near[0])} x {near[1]:,}"
        raise BadInput(
            f"--record-size, --records: {format_bytes(query.size)} x {query.records:,} is beyond "
            f"what was measured; allowed: between {_shown(measured)}{nearest or ''}"
        )
    chosen = {points[at]: weight for at, weight in found.items()}
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
    waiting = data.syncing(query, chosen) if plain else set()

    def left(store: str) -> str:
        return query.refuses(store) or (SYNCS if store in waiting else "")

    values = {store: own for store, own in every.items() if not left(store)}
    last = max((trial for own in every.values() for trial in own), default=0)
    ranking = rank(values, range(1, last + 1))
    times_of = {
        store: math.exp(np.mean(np.log(list(own.values())))) for store, own in values.items()
    }
    level = (data.rows.durability == query.durability) & (data.rows.memory == query.memory)
    left_out = {
        str(store): left(str(store)) or NOT_WHOLE
        for store in sorted(set(data.rows[level].store) - set(values))
    }
    return Advice(query, ranking, times_of, chosen, left_out)


def _far(size: int, wanted: int) -> bool:
    """Whether a measured size is more than a step of sizes away: records of a hundred times the
    size say nothing of these, however many there were."""
    return not 1 / STEP <= size / wanted <= STEP


def _distance(point: Point, query: Query) -> float:
    """In the plane of the logs."""
    ratios = point[0] / query.size, point[1] / query.records
    return math.hypot(*map(math.log, ratios))


def _shown(points: Iterable[Point]) -> str:
    """The least and the greatest number of records of each size, in words."""
    counts: dict[int, list[int]] = {}
    for size, records in points:
        counts.setdefault(size, []).append(records)
    return (
        ", ".join(
            f"{format_bytes(size)} x {min(own):,} to {max(own):,}" for size, own in counts.items()
        )
        or "nothing that all stores have"
    )


def _interpolated(table: pd.DataFrame, chosen: Mapping[Point, float]) -> "pd.Series[float]":
    """Times by store and trial; missing where one of the points is."""
    logs = sum(table[point] * weight for point, weight in chosen.items())
    return pd.Series(np.exp(logs))


def _facts(data: Measured, advice: Advice, store: str) -> dict[str, Any]:
    """What else was measured of a store in the field that weighs most, and what is known of it."""
    query = advice.query
    size, records = max(advice.rests_on, key=lambda point: advice.rests_on[point])
    level = {"store": store, "record_size": size, "records": records}
    level |= {"durability": query.durability, "memory": query.memory}

    def own(table: pd.DataFrame) -> pd.DataFrame:
        for name, value in level.items():
            table = table[table[name] == value]
        return table

    cells, rows = own(data.cells), own(data.rows)
    writes = rows[rows.operation != "get"]
    shares = [share for name, share in query.mix.items() if name != "get"]
    names = [name for name in query.mix if name != "get"]
    syncs = (writes.syncs / writes.n).groupby(writes.operation).median().reindex(names)
    heaviest = max(query.mix, key=lambda name: query.mix[name])
    found = {
        # A percentile of a write on another device is not known.
        "p99_ns": math.nan
        if query.sync_ns is not None and heaviest != "get"
        else float(rows[rows.operation == heaviest].p99_ns.median()),
        "space": float((cells.disk_bytes / cells.live_bytes).median()),
        "memory_bytes": float(cells.memory_bytes.median()),
        "syncs_per_write": float(np.average(syncs, weights=shares)) if shares else math.nan,
    }
    known, facts = stores.known().get(store), about(store)
    means = [
        setting.means
        for setting in (known.settings if known else ())
        if (setting.name, setting.value) == ("durability", query.durability)
    ]
    shipped = "as shipped" if query.durability == DEFAULT else ""
    version = next(iter(cells.engine_version.dropna()), "")
    texts = {"settings": means[0] if means else shipped, "measured": str(version)}
    for name in ("language", "licence", "latest", "maintained_by", "processes", "known"):
        texts[name] = getattr(facts, name) if facts else ""
    plain = {name: None if math.isnan(value) else value for name, value in found.items()}
    return plain | texts


def report(data: Measured, advice: Advice) -> dict[str, Any]:
    """The advice as plain values, the best store first."""
    query = advice.query
    rows = []
    for store, own in advice.ranking.regrets.items():
        bounds = {"low": own.low, "high": own.high}
        rows.append(
            {
                "store": store,
                "verdict": own.verdict,
                "recommended": own.recommended,
                "time_ns": advice.times[store],
                "regret": own.estimate,
                **{name: value if math.isfinite(value) else None for name, value in bounds.items()},
                **_facts(data, advice, store),
            }
        )
    return {
        "query": {
            "record_size": format_bytes(query.size), "records": query.records,
            "mix": dict(query.mix), "durability": query.durability, "memory": query.memory,
            "sync_ns": query.sync_ns, "may_grow": query.may_grow,
            "c_interface": query.c_interface,
        },
        "trials": advice.trials,
        "rests_on": [
            {"record_size": format_bytes(size), "records": records, "weight": round(weight, 3)}
            for (size, records), weight in advice.rests_on.items()
        ],
        "stores": rows,
        "left_out": dict(advice.left_out),
        "machine": str(data.machine.cpu),
    }  # fmt: skip


def _time(ns: float | None) -> str:
    if ns is None:
        return ""
    unit, scale = next(
        (unit, scale) for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1))
        if ns >= scale or unit == "ns"
    )  # fmt: skip
    return f"{ns / scale:.3g} {unit}"


def _number(value: float | None, pattern: str = "{:.3g}") -> str:
    return "" if value is None else pattern.format(value)


def _interval(low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    known = high is not None and high < MOST_REGRET
    return f"{_number(low)} to {_number(high)}" if known else f"{_number(low)} or more"


def text(found: Mapping[str, Any]) -> str:
    """The report as text."""
    rows = found["stores"]
    sure = [row["store"] for row in rows if row["recommended"]]
    maybe = [row["store"] for row in rows if row["verdict"] in ("in", "undecided")]
    lines = []
    if sure:
        lines.append(f"use {' or '.join(sure)}")
    elif maybe:
        lines.append(f"not told apart: {', '.join(maybe)}")
    else:
        lines.append("no two stores were measured whole here, so none is ranked")
    if others := [store for store in maybe if sure and store not in sure]:
        lines.append(f"may be as good: {', '.join(others)}")
    heaviest = max(found["query"]["mix"], key=found["query"]["mix"].get)
    headers = ("store", "verdict", "time", "regret", "95% interval", f"P99 of {heaviest}", "space",
               "memory", "syncs a write")  # fmt: skip
    table = [
        (
            row["store"], row["verdict"], _time(row["time_ns"]), _number(row["regret"]),
            _interval(row["low"], row["high"]),
            _time(row["p99_ns"]), _number(row["space"], "{:.2f} x"),
            _number(row["memory_bytes"] and row["memory_bytes"] / 2**20, "{:.0f} MiB"),
            _number(row["syncs_per_write"]),
        )
        for row in rows
    ]  # fmt: skip
    lines.append(tabulate(table, headers=headers, disable_numparse=True))
    chosen = [row for row in rows if row["store"] in (sure or maybe)][:MOST_SHOWN]
    if chosen:
        facts = ("store", "settings", "language", "licence", "measured", "latest", "maintained_by",
                 "processes")  # fmt: skip
        heads = ("store", "settings", "language", "licence", "measured", "latest release",
                 "maintained by", "processes")  # fmt: skip
        width = [None, 36, None, 20, 16, 20, 24, 30]
        cells = [tuple(row[name] for name in facts) for row in chosen]
        lines.append(tabulate(cells, headers=heads, maxcolwidths=width, disable_numparse=True))
        lines.append("\n".join(f"{row['store']}: {row['known']}" for row in chosen if row["known"]))
        lines.append(CAUTIONS.get(found["query"]["durability"], ""))
    fields = [
        f"{at['record_size']} x {at['records']:,} ({at['weight']:.0%})" for at in found["rests_on"]
    ]
    lines.append(LEGEND)
    if len(fields) > 1:
        heaviest_field = max(found["rests_on"], key=lambda at: at["weight"])
        at = f"{heaviest_field['record_size']} x {heaviest_field['records']:,}"
        lines.append(f"P99, space, memory and syncs are those of {at}")
    some = "s" if found["trials"] != 1 else ""
    how = "measured in" if len(fields) == 1 else "interpolated between"
    lines.append(f"{how} {', '.join(fields)}; {found['trials']} trial{some}; {found['machine']}")
    for reason in sorted(set(found["left_out"].values())):
        names = [store for store, own in found["left_out"].items() if own == reason]
        lines.append(f"left out: {', '.join(names)} ({reason})")
    if found["query"]["sync_ns"] is not None:
        device = _time(found["query"]["sync_ns"])
        lines.append(f"computed, not measured: times as on a device that syncs in {device}")
    return "\n\n".join(line for line in lines if line)


def to_json(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=1, allow_nan=False)


def measure(query: Query, candidates: list[str], seconds: float, out: Path | None) -> Measured:
    """Measure the candidates for a query here, trial by trial, until it is known which are best or
    the time is over; in `out`, or in a folder that is removed. Only trials of all of them count."""
    from kvbench.results import Folder  # noqa: PLC0415 - slow to import
    from kvbench.scratch import scratch  # noqa: PLC0415
    from kvbench.sweep import Sweep  # noqa: PLC0415

    values = {
        "stores": candidates, "record_sizes": [query.size], "records": [query.records],
        "operations": list(query.mix), "durability": [query.durability],
        "memory": [query.memory], "trials": "7-15",
    }  # fmt: skip
    grid = Grid.from_values(values, stores.names())
    with scratch(Path()) as own:
        folder = out or own / "results"
        Sweep([grid], folder, probe=False).run(sitting=seconds)
        found = Measured(Folder(folder).tables(), folder)
    counts = found.rows.groupby("trial").store.nunique()
    whole = counts.index[counts == counts.max()]
    found.rows = found.rows[found.rows.trial.isin(whole)]
    return found
