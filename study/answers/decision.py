"""The decision table: which stores suit a need, with which settings, and what the others cost.

A need is a set of fields of an experiment and a mix of operations. The cost of a store in a trial
is the geometric mean, over the fields, of the time of an operation of the mix. Stores are ranked by
this cost trial by trial, as within a field, so that their regrets have intervals.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.bindings import full_name
from kvbench.cell.factors import DEFAULT, RecordSize, parse_bytes
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.warm import warm
from kvbench.stats.regret import GOOD, Ranking, Regret, by_trial, rank
from kvbench.stores import about, catalogue

from study.common import facts, formats
from study.common.fields import each, where
from study.common.levels import RANKED
from study.common.notebook import root
from study.common.results import Results
from study.experiments import beyond

INDEX = ["store", "trial"]
FIELD = ["record_size", "records", "compressibility"]
ALL = {"insert": 0.25, "get": 0.25, "update": 0.25, "remove": 0.25}
FEW, MANY = (100, 10_000), (1_000_000,)
SMALL = ("100 B", "1 KiB", "10 KiB")
LARGE = ("100 KiB", "1 MiB")
NO_SIZE = "none"  # from which on a store is good
BUFFERS = 4  # write buffers that a log-structured store must fill before its merging shows
POPULAR = ("flat", "sqlite", "lmdb", "rocksdb", "leveldb")
COMPARED = POPULAR[:3]  # in the paper


def over_fields(data: Results, need: "Need") -> "pd.Series[float]":
    """Return the geometric mean over the fields of a need, in ns, by store and trial, or the one
    that it stands beside. A store is left out if it lacks a field that others have, or was not warm
    in one."""
    rows = data.operations
    rows = rows[
        (rows.durability == need.durability)
        & rows.record_size.isin(need.sizes)
        & rows.records.isin(need.counts)
        & rows.operation.isin(need.mix)
        & (rows.store != "null")  # the harness's own floor
    ]
    bindings = rows.binding.replace(NOT_STATED, "")
    rows = rows.assign(store=list(map(full_name, rows.store, bindings)), trial=rows.beside)
    rows = warm(rows, [*FIELD, "operation"])
    if rows.empty:
        return pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], []], names=INDEX))
    weighted = rows.assign(part=rows.mean_ns * rows.operation.map(dict(need.mix)))
    by = weighted.groupby([*FIELD, *INDEX], observed=True)
    whole = by.part.sum()[by.operation.nunique() == len(need.mix)]
    table = np.log(whole).unstack(FIELD)
    most = table.notna().sum(axis=1).max()
    complete = table[table.notna().sum(axis=1) == most].mean(axis=1)
    suits = list(map(need.suits, complete.index.get_level_values("store")))
    found: pd.Series[float] = np.exp(complete[suits])
    return found


def beyond_memory(data: Results, need: "Need") -> "pd.Series[float]":
    """Return the time of a get of uniform records with the most data, in ns, by store and trial.
    Stores that were not set as shipped have their label in their name."""
    rows = where(beyond.steps(data), kind="get", key_order="uniform")
    rows = rows[rows.share == rows.share.max()]
    labels = rows.label.map(lambda label: "" if label == beyond.LABELS[0] else " (tuned)")
    found: pd.Series[float] = (
        rows.assign(store=rows.store + labels).set_index(["store", "trial"]).mean_ns
    )
    return found


def unmerged(data: Results, need: "Need") -> set[str]:
    """Return the log-structured stores that wrote less than BUFFERS of their write buffers in some
    field of a need: what they write later, to merge their tables, is missing in its times. Writes
    are those of the load, of inserts and of updates, in the median over the trials."""
    rows = where(data.operations, durability=need.durability)
    rows = rows[rows.record_size.isin(need.sizes) & rows.records.isin(need.counts)]
    writes = rows[rows.operation.isin(["load", "insert", "update"])]
    of_cell = [*FIELD, "store", "trial"]
    by = writes.assign(bytes=writes.n * writes.record_size_min).groupby(of_cell, observed=True)
    written = by.bytes.sum().groupby([*FIELD, "store"], observed=True).median()
    least = written.groupby("store").min()
    buffers = {store: about.entry(str(store)).write_buffer for store in least.index}
    return {
        str(store)
        for store, size in buffers.items()
        if size and least[store] < BUFFERS * parse_bytes(size)
    }


def _engine(name: str) -> str:
    """Return the store of a name, without its binding or label."""
    return name.partition("/")[0].partition(" (")[0]


def reuses(store: str) -> bool:
    """Return whether a store reuses the space of overwritten records by itself."""
    return about.reuses(_engine(store))


def callable_from_c(store: str) -> bool:
    """Return whether a store suits a program in C and reuses its space."""
    return reuses(store) and about.has_c_interface(_engine(store))


def whole(store: str) -> bool:
    """Return whether a crash during an update leaves either the old value or the new one."""
    known = catalogue.known().get(_engine(store))
    return known is None or not known.tears


@functools.cache
def _shared() -> frozenset[str]:
    """Return the stores that a second process can open while a first has them open, and that lose
    nothing."""
    table = facts.sharing("results", "data/durability").set_index("store")
    return frozenset(table.index[(table == "yes").all(axis=1)])


def shared(store: str) -> bool:
    """Return whether several processes may read and write a store at once, as `kvbench sharing`
    tested."""
    return store in _shared()


@functools.cache
def _broken() -> frozenset[tuple[str, str]]:
    """Return the stores and levels that some simulated power failure violated."""
    states = pd.read_csv(root() / "data/faults/states.csv")
    found = states[states.violations > 0]
    return frozenset(zip(found.store, found.durability, strict=True))


def broke(store: str, level: str) -> bool:
    """Return whether a simulated power failure violated a level of a store."""
    return (_engine(store), level) in _broken()


@dataclass(frozen=True)
class Need:
    """What an application needs. `suits` says for the name of a store whether it can be chosen at
    all, `experiment` says where its fields were measured, and `cost` returns the cost of each
    suitable store in ns, by store and trial."""

    name: str
    durability: str = "process"
    sizes: Sequence[str] = SMALL
    counts: Sequence[int] = FEW
    mix: Mapping[str, float] = field(default_factory=lambda: ALL)
    suits: Callable[[str], bool] = reuses
    experiment: str = "reference"
    cost: Callable[[Results, "Need"], "pd.Series[float]"] = over_fields


def _every_size(name: str, mix: Mapping[str, float], **terms: Any) -> tuple[Need, ...]:
    """Return a need for each record size, and one for a million small records. A mean over sizes
    would recommend stores that are not recommended at any size."""
    few = (Need(f"{name}, {size}", sizes=(size,), mix=mix, **terms) for size in SMALL + LARGE)
    return *few, Need(f"{name}, a million of 100 B", sizes=SMALL[:1], counts=MANY, mix=mix, **terms)


MIXED, READS, INSERTS, GROWS = "equal mix", "95% gets", "inserts", "equal mix, file only grows"
SHARED = "several processes may write (timed: one)"
LEVELS = RANKED
SAFE = {MIXED: ALL, READS: {"get": 0.95, "update": 0.05}}  # in which no store should be far behind
NEEDS = (
    *(
        need
        for name, mix in SAFE.items()
        for level in LEVELS
        for need in _every_size(name, mix, durability=level)
    ),
    *(Need(SHARED, level, suits=shared) for level in LEVELS),
    *(need for level in LEVELS for need in _every_size(INSERTS, {"insert": 1.0}, durability=level)),
    *_every_size(GROWS, ALL, suits=lambda store: True),
    Need(
        "gets of 1 KiB, data beyond memory (one trial)",
        experiment="beyond-memory",
        cost=beyond_memory,
    ),
    Need("gets from Python", DEFAULT, mix={"get": 1.0}, experiment="bindings"),
)


def ranking(data: Results, need: Need, share: float = 1.0) -> Ranking:
    """Return the regret of each suitable store over the trials that all fields of the need have.
    `share` is that of the error that may be spent on this need, as in kvbench.stats.regret."""
    return _ranked(data, need.cost(data, need), share)


def _ranked(data: Results, costs: "pd.Series[float]", share: float) -> Ranking:
    trials = costs.index.get_level_values("trial")
    planned = range(1, int(trials.max()) + 1) if len(trials) else ()
    trial_costs = by_trial(costs)
    return rank(trial_costs, planned, sittings=data.sittings, share=share)


def _everywhere(data: Results, need: Need) -> set[str]:
    """Return the stores that may be recommended at every record size of the need that was
    measured."""
    parts = (ranking(data, replace(need, sizes=(size,))).regrets for size in need.sizes)
    good = [{name for name, regret in part.items() if regret.recommended} for part in parts if part]
    return set.intersection(*good) if good else set()


def table(experiments: Mapping[str, Results], needs: Sequence[Need] = NEEDS) -> pd.DataFrame:
    """Return one row per need, all as text: `need`, `level`; `choose`, the stores that may be
    recommended at every record size; `may be the best`, the others that may be the best, or with
    one trial, which ranks nothing, the fastest; `unmerged`, those of unmerged(); and a column for
    each of POPULAR, its regret with
    its best binding or settings."""
    rows = []
    for need in needs:
        regrets = ranking(experiments[need.experiment], need).regrets
        ranked = {store: regret for store, regret in regrets.items() if not np.isnan(regret.high)}
        surely = _everywhere(experiments[need.experiment], need)
        good = [name for name, regret in ranked.items() if regret.recommended and name in surely]
        maybe = [store for store, regret in ranked.items() if regret.verdict != "out"]
        if ranked and max(regret.trials for regret in ranked.values()) == 1:
            maybe = [store for store, regret in ranked.items() if regret.estimate < GOOD]
        row: dict[str, Any] = {"need": need.name, "level": need.durability}
        row["choose"] = ", ".join(good)
        row["may be the best"] = formats.some(store for store in maybe if store not in good)
        few = unmerged(experiments[need.experiment], need)
        row["unmerged"] = ", ".join(name for name in regrets if _engine(name) in few)
        for store in POPULAR:
            estimates = [one.estimate for name, one in regrets.items() if _engine(name) == store]
            row[store] = formats.number(min(estimates)) if estimates else ""
        rows.append(row)
    return pd.DataFrame(rows)


def overview(shown: pd.DataFrame) -> pd.DataFrame:
    """Return an extract of table() for the paper: one row per need that has all levels, without
    pure inserts. The columns of each level have the stores to use, those that may be the best in
    parentheses, and the regrets of three popular stores. A * marks stores that are not whole(), a †
    those that a crash may cost altogether if it goes beyond what the level survives, a ‡ those that
    are unmerged(), and a § those whose level broke()."""

    def marked(names: str, row: Any) -> str:
        def mark(name: str) -> str:
            lost = "†" if about.loses_all(_engine(name), row.level) else ""
            later = "‡" if name in row.unmerged.split(", ") else ""
            failed = "§" if broke(name, row.level) else ""
            return f"{name}{'' if whole(name) else '*'}{lost}{later}{failed}"

        return ", ".join(map(mark, names.split(", "))) if names else ""

    rows = shown.rename(columns={"may be the best": "maybe"})
    use = [
        f"{marked(row.choose, row)}{f' ({marked(row.maybe, row)})' if row.maybe else ''}".strip()
        for row in each(rows)
    ]
    regrets = [" / ".join(getattr(row, name) or "none" for name in COMPARED) for row in each(rows)]
    by = shown.assign(use=use, regrets=regrets).set_index(["level", "need"])
    by_level = {level: by.loc[level] for level in LEVELS if level in by.index.unique("level")}
    common = set.intersection(*(set(own.index) for own in by_level.values())) if by_level else set()
    names = [one for one in dict.fromkeys(shown.need) if one in common]
    names = [name for name in names if not name.startswith(INSERTS)]
    extract = {}
    for level, own in by_level.items():
        extract[f"use at {level}"] = own.use
        extract[f"{', '.join(COMPARED)} at {level}"] = own.regrets
    return pd.DataFrame(extract).reindex(names).rename_axis("need").reset_index()


def _mixed(
    data: Results, level: str, sizes: Sequence[str], suits: Callable[[str], bool] = reuses
) -> Iterator[Need]:
    """Iterate over the needs in which a store should never be far from the best: the mixes of SAFE
    at these record sizes, once for each measured record count."""
    for need in NEEDS:
        mixed = need.name.startswith(tuple(f"{name}, " for name in SAFE))
        suited = need.suits is reuses and need.durability == level
        if mixed and suited and set(need.sizes) <= set(sizes) and need.counts == FEW:
            for count in data.counts():
                yield replace(need, counts=(count,), suits=suits)


def _greatest(data: Results, needs: Iterable[Need]) -> pd.DataFrame:
    """Return, by store, the greatest estimated regret over the measured needs, `most`, and the
    greatest upper limit of its intervals, `limit`, which hold together for those needs that have
    more than one trial. It is missing if none has. Stores that lack a need are left out."""
    measured = [costs for need in needs if not (costs := need.cost(data, need)).empty]
    if not measured:
        return pd.DataFrame(columns=["most", "limit"])
    rankings = [_ranked(data, costs, 1 / len(measured)).regrets for costs in measured]
    most = pd.DataFrame([{name: own.estimate for name, own in one.items()} for one in rankings])
    limits = [{name: own.high for name, own in one.items()} for one in rankings]
    limit = pd.DataFrame([own for own in limits if not all(map(math.isinf, own.values()))])
    whole = {"most": most.max(skipna=False), "limit": limit.max(skipna=False)}
    return pd.DataFrame(whole).dropna(subset="most")


def safest(
    data: Results,
    places: Mapping[str, Results],
    level: str,
    sizes: Sequence[str],
    suits: Callable[[str], bool] = reuses,
    keeps: Callable[[str], bool] = lambda store: True,
) -> dict[str, str]:
    """Return, for the text, which store that keeps its level is least far from the best suitable
    one: the one with the least greatest estimated regret in the main grid, over the mixes of SAFE,
    these record sizes and all counts. `most` is this regret and `limit` the greatest upper limit of
    its intervals. Each other place that measured these sizes adds its greatest regret under its
    name; `anywhere` is the greatest of all, and `place` says where it is."""

    def greatest(where: Results) -> pd.DataFrame:
        return _greatest(where, _mixed(where, level, sizes, suits))

    here = greatest(data)
    if here.empty:
        return {"store": "", "most": "", "limit": "", "anywhere": "", "place": ""}
    store = str(here.most[list(map(keeps, here.index))].idxmin())
    most = {name: greatest(own).most.get(store, np.nan) for name, own in places.items()}
    known = pd.Series({"": here.most[store]} | most).dropna()
    return {
        "store": store,
        "most": formats.at_most(here.most[store]),
        "limit": formats.at_most(here.limit[store]),
        "anywhere": formats.at_most(known.max()),
        "place": str(known.idxmax()),
        **{_key(str(name)): formats.at_most(value) for name, value in known.items() if name},
    }


def span(data: Results, store: str, level: str) -> dict[str, str]:
    """Return, for the text, the least and the greatest estimated regret of a store with an equal
    mix, over all record sizes and counts that were measured at a level, each with its field."""
    found = {}
    for size in data.sizes():
        for count in data.counts():
            need = Need(MIXED, level, (size,), (count,))
            if (own := ranking(data, need).regrets.get(store)) is not None:
                found[f"{size}, {count:,} records"] = own.estimate
    if not found:
        return {"least": "", "least_field": "", "most": "", "most_field": ""}
    least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return {
        "least": formats.number(found[least]),
        "least_field": least,
        "most": formats.number(found[most]),
        "most_field": most,
    }


def over_places(places: Mapping[str, Results], store: str, level: str, size: str) -> str:
    """Return, for the text, the least and the greatest estimated regret of a store over places,
    with an equal mix of values of a size; empty if no place measured it."""
    need = Need(MIXED, level, (size,), FEW)
    found = [ranking(data, need).regrets.get(store) for data in places.values()]
    known = [own.estimate for own in found if own is not None]
    return " to ".join(formats.number(end(known)) for end in (min, max)) if known else ""


def crossing(data: Results, store: str, level: str, mix: str = MIXED) -> dict[str, str]:
    """Return, for the text, the size of values from which on a store is about as good as the best:
    its regret with a mix of SAFE stays below GOOD. Between measured sizes the regret is
    interpolated in logs. `size` is that of the estimates, and `least` and `most` those of the
    limits of their intervals, both empty if a regret has none; "every size" and NO_SIZE are of
    those that were measured. All are empty if the store was not."""
    regrets: dict[int, Regret] = {}
    for size in data.sizes():
        own = ranking(data, Need(mix, level, (size,), FEW, SAFE[mix])).regrets.get(store)
        if own is not None and math.isfinite(own.estimate):
            regrets[RecordSize.parse(size).high] = own
    if not regrets:
        return {"size": "", "least": "", "most": ""}
    found = {"size": _falls_below({at: own.estimate for at, own in regrets.items()}, GOOD)}
    if not all(math.isfinite(own.high) for own in regrets.values()):
        return found | {"least": "", "most": ""}
    limits = {
        "least": {at: own.low for at, own in regrets.items()},
        "most": {at: own.high for at, own in regrets.items()},
    }
    return found | {name: _falls_below(curve, GOOD) for name, curve in limits.items()}


def crossing_said(found: Mapping[str, str]) -> str:
    """Return crossing() in words."""
    size, least, most = (found[name] for name in ("size", "least", "most"))
    if not least or size == least == most:
        return size
    return f"{size} (95% interval: {least} {'or more' if most == NO_SIZE else f'to {most}'})"


def _falls_below(curve: Mapping[int, float], limit: float) -> str:
    """Return the size from which on a curve over sizes stays below a limit, as text."""
    sizes = sorted(curve)
    good = len(sizes)  # the index from which on all are below
    while good and curve[sizes[good - 1]] < limit:
        good -= 1
    if good == len(sizes):
        return NO_SIZE
    if good == 0:
        return "every size"
    (x0, y0), (x1, y1) = ((math.log(size), math.log(curve[size])) for size in sizes[good - 1 :][:2])
    found = x0 + (x1 - x0) * (y0 - math.log(limit)) / (y0 - y1)
    return formats.size(float(f"{math.exp(found):.2g}"))


def crossings(home: Results, places: Mapping[str, Results], store: str) -> pd.DataFrame:
    """Return crossing() as text, one row per mix and level of the main grid: `size` with its
    interval there, and the size of the estimates in each other place, empty if it lacks them."""
    rows = [
        {
            "mix": mix,
            "level": level,
            "size": crossing_said(crossing(home, store, level, mix)),
            **{name: crossing(own, store, level, mix)["size"] for name, own in places.items()},
        }
        for mix in SAFE
        for level in LEVELS
        if level in home.level("durability")
    ]
    return pd.DataFrame(rows, columns=["mix", "level", "size", *places])


def elsewhere(home: Results, places: Mapping[str, Results]) -> pd.DataFrame:
    """Return what becomes of the fastest store of the main grid in other places, for an equal mix:
    one row per level and field that some place measured, as text, with that store and, for each
    place, the fastest one there and the regret there of the main grid's, with its interval where
    there was more than one trial."""

    def said(best: str, found: Mapping[str, Regret]) -> str:
        own = found.get(best)
        if own is None or math.isnan(own.estimate):
            return ""
        between = f", {formats.number(own.low)} to {formats.number(own.high)}"
        known = math.isfinite(own.high)
        regret = f"{formats.number(own.estimate)}{between if known else ''}"
        return f"{next(iter(found))}; {best}: {regret}" if next(iter(found)) != best else "the same"

    rows = []
    for level, size, count in itertools.product(LEVELS, home.sizes(), home.counts()):
        need = Need(MIXED, level, (size,), (count,))
        best = next(iter(ranking(home, need).regrets), "")
        texts = {name: said(best, ranking(own, need).regrets) for name, own in places.items()}
        if any(texts.values()):
            field = {"level": level, "values": size, "records": formats.count(count)}
            rows.append({**field, "main grid": best, **texts})
    return pd.DataFrame(rows, columns=["level", "values", "records", "main grid", *places])


def _key(place: str) -> str:
    return place.replace(" ", "_")


def all_safest(data: Results, places: Mapping[str, Results]) -> dict[str, dict[str, str]]:
    """Return, for the text, the safest store of each level, of those that no simulated power
    failure made violate it; at `sync` one for small and one for large values."""

    def of(
        level: str, sizes: Sequence[str], suits: Callable[[str], bool] = reuses
    ) -> dict[str, str]:
        return safest(data, places, level, sizes, suits, lambda store: not broke(store, level))

    return {
        "process": of("process", SMALL + LARGE),
        "recoverable": of("recoverable", SMALL + LARGE),
        "recoverable_c": of("recoverable", SMALL + LARGE, callable_from_c),
        "sync_small": of("sync", SMALL),
        "sync_large": of("sync", LARGE),
        "sync_large_c": of("sync", LARGE, callable_from_c),
    }


def bounds(found: Mapping[str, Mapping[str, str]], places: Iterable[str]) -> pd.DataFrame:
    """Return whether the bounds of all_safest() hold elsewhere: one row per level and sizes, as
    text, with the safest store, and its greatest regret in the main grid and in each other place.
    """
    names = {
        "process": ("process", "all"),
        "recoverable": ("recoverable", "all"),
        "recoverable_c": ("recoverable", "all, from C"),
        "sync_small": ("sync", "up to 10 KiB"),
        "sync_large": ("sync", "100 KiB and more"),
        "sync_large_c": ("sync", "100 KiB and more, from C"),
    }
    rows = [
        (
            *(*names[key], own["store"], own["most"], own["limit"]),
            *(own.get(_key(place), "") for place in places),
        )
        for key, own in found.items()
    ]
    columns = ["level", "values", "store", "main grid", "joint 95% limit", *places]
    return pd.DataFrame(rows, columns=columns)


def chosen(shown: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, which store to choose for each need and level. Where no store may be
    recommended, the text names those that may be the best."""

    def choice(row: Mapping[Any, Any]) -> str:
        if row["choose"]:
            return formats.listed(row["choose"].split(", "), "or")
        maybe = formats.listed(row["may be the best"].split(", "), "or")
        return f"{maybe} (undecided)"

    return {
        re.sub(r"\W+", "_", f"{row['need'].split(' (')[0]} {row['level']}"): {
            "choose": choice(row),
            **{store: row[store] for store in POPULAR},
        }
        for row in shown.to_dict("records")
    }
