"""The decision table: which stores suit a need, with which settings, and what the others cost.

A need is a set of fields of an experiment and a mix of operations. What a store costs in a trial is
the geometric mean, over the fields, of the time of an operation of the mix. Stores are ranked by it
as in a field, trial by trial, so that their regrets have intervals.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from kvbench import about
from kvbench.bindings import full_name
from kvbench.factors import DEFAULT
from kvbench.regret import RECOMMENDED, Ranking, by_trial, rank
from kvbench.warm import warm

from study import beyond, facts, formats
from study.fields import where
from study.formats import NOT_STATED
from study.results import Results

FIELD = ["record_size", "records", "compressibility"]
ALL = {"insert": 0.25, "get": 0.25, "update": 0.25, "remove": 0.25}
FEW, MANY = (100, 10_000), (1_000_000,)
SMALL = ("100 B", "1 KiB", "10 KiB")
LARGE = ("100 KiB", "1 MiB")
POPULAR = ("flat", "sqlite", "lmdb", "rocksdb", "leveldb")


def over_fields(data: Results, need: "Need") -> "pd.Series[float]":
    """The geometric mean over the fields. A store that lacks a field that others have, or was not
    warm there, is left out."""
    bindings = data.operations.binding.replace(NOT_STATED, "")
    rows = data.operations.assign(store=list(map(full_name, data.operations.store, bindings)))
    rows = rows[
        (rows.durability == need.durability)
        & rows.record_size.isin(need.sizes)
        & rows.records.isin(need.counts)
        & rows.operation.isin(need.mix)
        & (data.operations.store != "null")  # the harness's own floor
    ]
    rows = warm(rows, [*FIELD, "operation"])
    weighted = rows.assign(part=rows.mean_ns * rows.operation.map(dict(need.mix)))
    by = weighted.groupby([*FIELD, "store", "trial"], observed=True)
    whole = by.part.sum()[by.operation.nunique() == len(need.mix)]
    table = np.log(whole).unstack(FIELD)
    most = table.notna().sum(axis=1).max()
    complete = table[table.notna().sum(axis=1) == most].mean(axis=1)
    suits = list(map(need.suits, complete.index.get_level_values("store")))
    found: pd.Series[float] = np.exp(complete[suits])
    return found


def beyond_memory(data: Results, need: "Need") -> "pd.Series[float]":
    """Of a get of uniform records with the most data; with its label where the store was not set as
    shipped."""
    rows = where(beyond.steps(data), kind="get", key_order="uniform")
    rows = rows[rows.share == rows.share.max()]
    labels = rows.label.map(lambda label: "" if label == beyond.LABELS[0] else f" ({label})")
    found: pd.Series[float] = (
        rows.assign(store=rows.store + labels).set_index(["store", "trial"]).mean_ns
    )
    return found


def _engine(name: str) -> str:
    """The store of a name with a binding or a label."""
    return name.partition("/")[0].partition(" (")[0]


def reuses(store: str) -> bool:
    """Whether a store uses the space of overwritten records again by itself."""
    return about.reuses(_engine(store))


def ordered(store: str) -> bool:
    """Whether a store is read in the order of its keys."""
    known = about.about(store)
    return known is not None and known.ordered and known.reuses


@functools.cache
def _shared() -> frozenset[str]:
    """The stores that let a second process in while a first has them open, and lose nothing."""
    table = facts.sharing("results", "data/durability").set_index("store")
    return frozenset(table.index[(table == "yes").all(axis=1)])


def shared(store: str) -> bool:
    """Whether several processes may read and write a store at once, as `kvbench sharing` tried."""
    return store in _shared()


@dataclass(frozen=True)
class Need:
    """What an application asks for; `suits` says of a store, by its name, whether it can be
    chosen at all, `experiment` where its fields were measured, and `cost` what each suitable store
    costs in each trial, in ns, indexed by store and trial."""

    name: str
    durability: str = "process"
    sizes: Sequence[str] = SMALL
    counts: Sequence[int] = FEW
    mix: Mapping[str, float] = field(default_factory=lambda: ALL)
    suits: Callable[[str], bool] = reuses
    experiment: str = "reference"
    cost: Callable[[Results, "Need"], "pd.Series[float]"] = over_fields


NEEDS = (
    Need("survives a crash of the process"),
    Need("survives a crash in a file that only grows", suits=lambda store: True),
    Need("survives a loss of power", durability="sync"),
    Need("read-mostly (95 % gets, 5 % updates)", mix={"get": 0.95, "update": 0.05}),
    Need("ingest (inserts)", mix={"insert": 1.0}, suits=lambda store: True),
    Need("ingest that survives a loss of power", durability="sync", mix={"insert": 1.0}),
    Need("values of 100 KiB and more", sizes=LARGE),
    Need("values of 100 KiB and more", durability="sync", sizes=LARGE),
    Need("a million small records", sizes=SMALL[:1], counts=MANY),
    Need("a million small records", durability="sync", sizes=SMALL[:1], counts=MANY),
    Need("keys kept in order", suits=ordered),
    Need("several processes write", suits=shared),
    Need("several processes write", durability="sync", suits=shared),
    Need("gets of data beyond memory (one trial)", experiment="beyond-memory", cost=beyond_memory),
    Need("gets from Python", DEFAULT, mix={"get": 1.0}, experiment="bindings"),
)


def ranking(data: Results, need: Need) -> Ranking:
    """The regret of each suitable store, over the trials that all fields of the need have."""
    costs = need.cost(data, need)
    trials = costs.index.get_level_values("trial")
    return rank(by_trial(costs), range(1, int(trials.max()) + 1) if len(trials) else ())


def table(experiments: Mapping[str, Results], needs: Sequence[Need] = NEEDS) -> pd.DataFrame:
    """A row a need: the stores that may be recommended, and the others that may be the best; of one
    trial, which ranks nothing, the fastest. Then the regret of popular stores, at their best
    binding or settings."""
    found = []
    for need in needs:
        regrets = ranking(experiments[need.experiment], need).regrets
        ranked = {store: own for store, own in regrets.items() if not np.isnan(own.high)}
        good = [store for store, own in ranked.items() if own.recommended]
        maybe = [store for store, own in ranked.items() if own.verdict != "out"]
        if ranked and max(own.trials for own in ranked.values()) == 1:
            maybe = [store for store, own in ranked.items() if own.estimate < RECOMMENDED]
        row: dict[str, Any] = {"need": need.name, "level": need.durability}
        row["choose"] = ", ".join(good)
        row["may be the best"] = formats.some(store for store in maybe if store not in good)
        for store in POPULAR:
            own = [one.estimate for name, one in regrets.items() if _engine(name) == store]
            row[store] = formats.number(min(own)) if own else ""
        found.append(row)
    return pd.DataFrame(found)


def chosen(shown: pd.DataFrame) -> dict[str, Any]:
    """For the text: what to choose for each need, by its name and level. Where no store may be
    recommended, it says so of those that may be the best."""

    def choice(row: Mapping[Any, Any]) -> str:
        if row["choose"]:
            return formats.listed(row["choose"].split(", "), "or")
        maybe = formats.listed(row["may be the best"].split(", "), "or")
        return f"{maybe} (not told apart)"

    return {
        "_".join([*row["need"].split(" (")[0].split(), row["level"]]): {
            "choose": choice(row),
            **{store: row[store] for store in POPULAR},
        }
        for row in shown.to_dict("records")
    }
