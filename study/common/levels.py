"""What the levels of one factor do to each store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench.cell.factors import DEFAULT
from kvbench.stores import about

from study.common import formats
from study.common.fields import each, over_trials, where
from study.common.notebook import read_table

SPREAD = (
    "record size", "compared", "stores", "fastest", "its time", "slowest", "the slowest's time",
    "factor",
)  # fmt: skip
LEVELS = ("process", "sync")  # that stores are compared at


def points_of(rows: pd.DataFrame, panel: Any, level: str, value: Any) -> pd.DataFrame:
    """The points of a value for each panel, store and level."""
    named = rows.assign(panel=panel, level=rows[level], value=value)
    return over_trials(named, "value", ["panel", "store", "level"])


def times(rows: pd.DataFrame, panel: Any, level: str, column: str = "mean_ns") -> pd.DataFrame:
    """The points of the time of an operation in µs: of the mean, or of another column."""
    return points_of(rows, panel, level, rows[column] / 1000)


def medians(summary: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Of one panel of such a summary: a row a store, a column a level."""
    own = summary[summary.panel == panel]
    return own.pivot(index="store", columns="level", values="median")


def slower(summary: pd.DataFrame, panel: str, level: str, than: str) -> "pd.Series[float]":
    """How many times the median at a level is that at another one, of the stores that have both, in
    increasing order."""
    wide = medians(summary, panel)
    if not {level, than} <= set(wide):
        return pd.Series(dtype=float)
    factor: pd.Series[float] = (wide[level] / wide[than]).dropna()
    return factor.sort_values()


def extremes(factor: "pd.Series[float]", least: str = ".1f", most: str = ",.0f") -> dict[str, str]:
    """The first and the last store of an ordered series, with their values; of none nothing."""
    if factor.empty:
        return {}
    first, last = factor.iloc[0], factor.iloc[-1]
    stores = {"least_store": str(factor.index[0]), "most_store": str(factor.index[-1])}
    return stores | {"least": f"{first:{least}}", "most": f"{last:{most}}"}


def spreads(summary: pd.DataFrame, panels: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """The fastest and the slowest store of each panel, at each level."""
    found = []
    for panel in panels:
        for level in levels:
            own = summary[(summary.panel == panel) & (summary.level == level)]
            own = own.dropna(subset="median")
            if len(own) > 1:
                order = own.sort_values("median")
                first, last = order.iloc[0], order.iloc[-1]
                compared = "as shipped" if level == DEFAULT else level
                ends = (formats.time(end["median"] * 1000) for end in (first, last))
                factor = round(last["median"] / first["median"])
                row = (panel, compared, len(own), first.store, next(ends), last.store, next(ends))
                found.append((*row, factor))
    return pd.DataFrame(found, columns=SPREAD)


def evidence(folder: Path) -> pd.DataFrame:
    """What `kvbench evidence` saw of each store's levels of durability, in the order of tables;
    crashes that were survived as texts. Empty if the folder has no such table."""
    path = folder / "evidence.csv"
    if not path.exists():
        return pd.DataFrame()
    found = read_table(path, {"store": str, "durability": str}, "store", "durability")
    engines = found.store.str.split("/").str[0]  # bindings follow the store that they bind
    found = found.iloc[engines.map(about.position).argsort(kind="stable")]
    lost = [f"{row.survived_power_loss}/{row.crashes}" for row in each(found)]
    return found.assign(
        kill=[f"{row.survived_kill}/{row.crashes}" for row in each(found)],
        power=[text if text[0] != "/" else "" for text in lost],
    )


def greatest_rate(crashes: int) -> float:
    """The share of crashes that may lose a write though so many lost none, with 95%: J. Hanley and
    A. Lippman-Hand, If nothing goes wrong, is everything all right?, JAMA 249(13), 1983."""
    return float(1 - 0.05 ** (1 / crashes))


def sync_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """The sync calls of an operation at `sync`, medians over the trials, as text: a row a store, a
    column an operation; the least and the greatest over the record sizes where they differ. Empty
    for data that do not count them."""
    own = where(rows, durability="sync")
    calls = (own.syncs / own.n).groupby([own.store, own.operation, own.record_size]).median()
    ends = calls.round(1).groupby(level=[0, 1]).agg(["min", "max"]).dropna()
    texts = [
        f"{least:g}" if least == most else f"{least:g} to {most:g}"
        for least, most in zip(ends["min"], ends["max"], strict=True)
    ]
    return pd.Series(texts, index=ends.index, dtype=object).unstack("operation")


def _cost(store: str, level: str) -> str:
    """What a crash may cost a store at a level, as a sentence, where it is not just the last
    writes."""
    cost = about.consequence(store, level)
    if about.loses_all(store, level):
        return ". A loss of power may cost the whole store."
    return f". {cost[0].upper()}{cost[1:]}." if cost and cost != about.USUAL.get(level) else ""


def settings(evidence: pd.DataFrame, stores: Sequence[str], calls: pd.DataFrame) -> pd.DataFrame:
    """A row a store, with its version: what a returned write survives as shipped, what each of
    LEVELS sets and, where it is not just the last writes, what it may cost, and the sync_calls() of
    its writes; empty where a store lacks the level."""
    rows = evidence[evidence.store.isin(stores)].set_index(["store", "durability"])
    found = {}
    for store in stores:
        if (store, DEFAULT) not in rows.index:
            continue
        own = rows.loc[store]
        version = own.engine_version[DEFAULT].split()[0]
        named = store if store in ("flat", "nested") else f"{store} {version}"
        found[store] = {"store": named, "as shipped": own.guarantee[DEFAULT]}
        for level in LEVELS:
            sets = own.sets[level].replace(", as shipped", "") if level in own.index else ""
            found[store][level] = f"{sets}{_cost(store, level)}" if sets else ""
        known = [calls[name].get(store, "") for name in ("insert", "update") if name in calls]
        found[store]["syncs"] = " / ".join(filter(None, known))
    return pd.DataFrame(list(found.values()))


def in_force(cells: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """The whole configuration of each store at each of LEVELS, as the cells read it back from the
    engine: a row a store, those options that the levels share in one column."""
    found = {}
    for store in stores:
        read = {
            level: where(cells, store=store, durability=level).effective_options.dropna().unique()
            for level in LEVELS
        }
        lists = {
            level: list(dict.fromkeys(option for text in texts for option in text.split("; ")))
            for level, texts in read.items()
        }
        if not any(lists.values()):
            continue
        shared = [one for one in lists[LEVELS[0]] if one in lists[LEVELS[1]]]
        found[store] = {"at both levels": ", ".join(shared)} | {
            level: ", ".join(one for one in own if one not in shared)
            for level, own in lists.items()
        }
    return pd.DataFrame(found).T.rename_axis("store").reset_index()


def meant_and_measured(
    summaries: dict[str, pd.DataFrame], kinds: Sequence[str], stores: Sequence[str]
) -> pd.DataFrame:
    """Of each summary, whose panels are kinds of data: Snappy over no compression on data of the
    first kind, and the first kind over the second as shipped. Of the stores with Snappy."""
    if len(kinds) < 2:
        return pd.DataFrame()
    yes, no = map(formats.kind, kinds)
    ratios: dict[str, pd.Series[float]] = {}
    for name, summary in summaries.items():
        ratios[f"meant: {name}"] = slower(summary, yes, "snappy", "none")
    for name, summary in summaries.items():
        shipped = (
            medians(summary, kind).get(DEFAULT, pd.Series(dtype=float)) for kind in (yes, no)
        )
        ratios[f"measured: {name}"] = next(shipped) / next(shipped)
    found = pd.DataFrame(ratios)
    with_snappy = [store for store in stores if store in ratios["meant: space"].index]
    return found.loc[with_snappy].rename_axis("store").reset_index()
