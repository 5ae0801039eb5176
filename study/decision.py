"""The decision table: which stores suit a need, with which settings, and what the others cost.

A need is a set of fields of the main grid and a mix of operations. What a store costs in a trial is
the geometric mean, over the fields, of the time of an operation of the mix. Stores are ranked by it
as in a field, trial by trial, so that their regrets have intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from kvbench.about import about
from kvbench.regret import Ranking, rank
from kvbench.warm import warm

from study import formats
from study.results import Results

FIELD = ["record_size", "records", "compressibility"]
ALL = {"insert": 0.25, "get": 0.25, "update": 0.25, "remove": 0.25}
FEW, MANY = (100, 10_000, 100_000), (1_000_000,)
SMALL = ("100 B", "1 KiB", "10 KiB")
LARGE, THOUSAND = ("100 KiB", "1 MiB"), (100, 1000, 10_000)
POPULAR = ("flat", "sqlite", "lmdb", "rocksdb", "leveldb")


@dataclass(frozen=True)
class Need:
    """What an application asks for; `suits` says of a store, by its name, whether it can be
    chosen at all."""

    name: str
    durability: str = "process"
    sizes: Sequence[str] = SMALL
    counts: Sequence[int] = FEW
    mix: Mapping[str, float] = field(default_factory=lambda: ALL)
    suits: Callable[[str], bool] = lambda store: True


def shared(store: str) -> bool:
    """Whether several processes may use a store at once, one of them writing."""
    facts = about(store)
    return facts is not None and facts.processes.startswith("several")


def ordered(store: str) -> bool:
    """Whether a store is read in the order of its keys."""
    facts = about(store)
    return facts is not None and facts.ordered


NEEDS = (
    Need("survives a crash of the process"),
    Need("survives a loss of power", durability="sync"),
    Need("read-mostly (95 % gets, 5 % updates)", mix={"get": 0.95, "update": 0.05}),
    Need("ingest (inserts)", mix={"insert": 1.0}),
    Need("ingest that survives a loss of power", durability="sync", mix={"insert": 1.0}),
    Need("values of 100 KiB and more", sizes=LARGE, counts=THOUSAND),
    Need("a million records", counts=MANY),
    Need("ordered scans", suits=ordered),
    Need("several processes", suits=shared),
)


def costs(data: Results, need: Need) -> dict[str, dict[int, float]]:
    """What each suitable store costs in each trial, in ns. A store that lacks a field that others
    have, or was not warm there, is left out."""
    rows = data.operations[
        (data.operations.durability == need.durability)
        & data.operations.record_size.isin(need.sizes)
        & data.operations.records.isin(need.counts)
        & data.operations.operation.isin(need.mix)
    ]
    rows = warm(rows, [*FIELD, "operation"])
    weighted = rows.assign(part=rows.mean_ns * rows.operation.map(dict(need.mix)))
    by = weighted.groupby([*FIELD, "store", "trial"], observed=True)
    whole = by.part.sum()[by.operation.nunique() == len(need.mix)]
    table = np.log(whole).unstack(FIELD)
    most = table.notna().sum(axis=1).max()
    complete = table[table.notna().sum(axis=1) == most].mean(axis=1)
    found: dict[str, dict[int, float]] = {}
    for (store, trial), value in np.exp(complete).items():
        if need.suits(str(store)):
            found.setdefault(str(store), {})[int(trial)] = float(value)
    return found


def ranking(data: Results, need: Need) -> Ranking:
    """The regret of each suitable store."""
    found = costs(data, need)
    trials = max((max(own) for own in found.values()), default=0)
    whole = {store: own for store, own in found.items() if len(own) == trials}
    return rank(whole)


def table(data: Results, needs: Sequence[Need] = NEEDS) -> pd.DataFrame:
    """A row a need: the stores that may be recommended, or if there are none those that may be the
    best; and the regret of popular stores."""
    found = []
    for need in needs:
        regrets = ranking(data, need).regrets
        ranked = {store: own for store, own in regrets.items() if not np.isnan(own.high)}
        good = [store for store, own in ranked.items() if own.recommended]
        maybe = [store for store, own in ranked.items() if own.verdict != "out"]
        row: dict[str, Any] = {"need": need.name, "level": need.durability}
        row["choose"] = ", ".join(good)
        row["may be the best"] = ", ".join(store for store in maybe if store not in good)
        for store in POPULAR:
            own = regrets.get(store)
            row[store] = "" if own is None else formats.number(own.estimate)
        found.append(row)
    return pd.DataFrame(found)


def chosen(shown: pd.DataFrame) -> dict[str, Any]:
    """For the text: what to choose for each need."""
    return {
        row["need"].split(" (")[0].replace(" ", "_"): {
            "choose": row["choose"] or row["may be the best"],
            **{store: row[store] for store in POPULAR},
        }
        for row in shown.to_dict("records")
    }
