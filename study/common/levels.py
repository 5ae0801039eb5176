"""How the levels of one factor affect each store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench.answers.recovery import RECOVERABLE
from kvbench.cell.factors import DEFAULT
from kvbench.stats.intervals import Points, median_interval
from kvbench.stores import about

from study.common import formats
from study.common.fields import each, over_trials, where
from study.common.notebook import read_table

SPREAD = (
    "record size", "compared", "stores", "fastest", "its time", "slowest", "the slowest's time",
    "factor",
)  # fmt: skip
LEVELS = ("process", "sync")  # the durability levels at which stores are compared
RANKED = ("process", "recoverable", "sync")  # those of the main grid
AS_PROCESS = "as at process"  # the end of a shim's text on a level that sets no more


def points_of(rows: pd.DataFrame, panel: Any, level: str, value: Any) -> pd.DataFrame:
    """Return the over_trials() summary of a value, whose columns begin with `panel`, `store` and
    `level`."""
    named = rows.assign(panel=panel, level=rows[level], value=value)
    return over_trials(named, "value", ["panel", "store", "level"])


def times(rows: pd.DataFrame, panel: Any, level: str, column: str = "mean_ns") -> pd.DataFrame:
    """Return the over_trials() summary of operation times in µs by `panel`, `store` and `level`.
    `column` names the times, by default the means."""
    return points_of(rows, panel, level, rows[column] / 1000)


def medians(summary: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Return the medians of one panel of a summary: one row per store, one column per level."""
    own = summary[summary.panel == panel]
    return own.pivot(index="store", columns="level", values="median")


def slower(summary: pd.DataFrame, panel: str, level: str, than: str) -> "pd.Series[float]":
    """Return, by store, the median at `level` divided by that at `than`, in increasing order.
    Stores that lack one of the levels are left out."""
    wide = medians(summary, panel)
    if not {level, than} <= set(wide):
        return pd.Series(dtype=float)
    factor: pd.Series[float] = (wide[level] / wide[than]).dropna()
    return factor.sort_values()


def ratios(
    rows: pd.DataFrame, by: Sequence[str], column: str, level: str, than: str
) -> pd.DataFrame:
    """Return the mean time of operations at one level of a column over that at another (1), trial
    by trial: one row per group of `by`, with the `median` over the trials, its interval from `low`
    to `high`, which needs at least six trials, and the number `n` of trials."""
    key = [*by, "records", "compressibility", "trial", "seed"]
    wide = rows.pivot(index=key, columns=column, values="mean_ns")
    wide = wide.reindex(columns=[level, than]).dropna()
    none = float("nan")
    found = [
        (*group, *(median_interval(own) if len(own) > 5 else (own.median(), none, none, len(own))))
        for group, own in (wide[level] / wide[than]).groupby(list(by))
    ]
    return pd.DataFrame(found, columns=[*by, *Points._fields])


def ratio_text(row: Any) -> str:
    """Return a row of ratios() as text."""
    if pd.isna(row.low):
        return f"{row.median:.2f} (too few trials)"
    return f"{row.median:.2f} ({row.low:.2f} to {row.high:.2f})"


def extremes(factor: "pd.Series[float]", least: str = ".1f", most: str = ",.0f") -> dict[str, str]:
    """Return the first and the last store of an ordered series with their values as text; empty for
    an empty series."""
    if factor.empty:
        return {}
    first, last = factor.iloc[0], factor.iloc[-1]
    stores = {"least_store": str(factor.index[0]), "most_store": str(factor.index[-1])}
    return stores | {"least": f"{first:{least}}", "most": f"{last:{most}}"}


def spreads(summary: pd.DataFrame, panels: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """Return one row per panel and level with the columns SPREAD: the number of stores, the fastest
    and the slowest one with their times as text, and the factor between the two (1). Only stores
    with a time at each of the levels that a panel has count: with others, a level could have a
    smaller factor because it has fewer stores."""
    found = []
    for panel in panels:
        known = summary[(summary.panel == panel) & summary.level.isin(levels)]
        known = known.dropna(subset="median")
        number = known.groupby("store")["level"].transform("nunique")
        known = known[number == known.level.nunique()]
        for level in levels:
            own = known[known.level == level]
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
    """Return what `kvbench evidence` observed: one row per store and durability level, in the order
    of tables, with the columns of evidence.csv in data/README.md and two more. `kill` and `power`
    are texts such as 20/20, the crashes survived over all. Empty if the folder has no such table.
    Raises BadInput."""
    path = folder / "evidence.csv"
    if not path.exists():
        return pd.DataFrame()
    found = read_table(path, {"store": str, "durability": str}, "store", "durability")
    engines = found.store.str.split("/").str[0]  # sort a binding directly after its store
    found = found.iloc[engines.map(about.position).argsort(kind="stable")]
    lost = [f"{row.survived_power_loss}/{row.crashes}" for row in each(found)]
    return found.assign(
        kill=[f"{row.survived_kill}/{row.crashes}" for row in each(found)],
        power=[text if text[0] != "/" else "" for text in lost],
    )


def rate_below(crashes: int) -> str:
    """Return, as text, a share of crashes that those which lose a write stay below with one-sided
    95% confidence, if none of `crashes` lost one: J. Hanley and A. Lippman-Hand, If nothing goes
    wrong, is everything all right?, JAMA 249(13), 1983. Rounded up to two digits."""
    return f"{formats.at_most(100 * (1 - 0.05 ** (1 / crashes)), digits=2)}%"


def sync_calls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sync calls per operation at the level `sync`, medians over the trials, as text:
    one row per store, one column per operation. Where record sizes differ, the text has the least
    and the greatest. Empty if the data do not count sync calls."""
    own = where(rows, durability="sync")
    calls = (own.syncs / own.n).groupby([own.store, own.operation, own.record_size]).median()
    ends = calls.round(1).groupby(level=[0, 1]).agg(["min", "max"]).dropna()
    texts = [
        f"{least:g}" if least == most else f"{least:g} to {most:g}"
        for least, most in zip(ends["min"], ends["max"], strict=True)
    ]
    return pd.Series(texts, index=ends.index, dtype=object).unstack("operation")


def _cost(store: str, level: str) -> str:
    """Return a sentence on what a crash may cost a store at a level; empty if it costs just the
    last writes."""
    cost = about.consequence(store, level)
    if about.loses_all(store, level):
        return ". A loss of power may cost the whole store."
    return f". {cost[0].upper()}{cost[1:]}." if cost and cost != about.USUAL.get(level) else ""


def settings(evidence: pd.DataFrame, stores: Sequence[str], calls: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store, all as text: `store`, with its version; `as shipped`, what an
    acknowledged write survives; for each of LEVELS what it sets and, unless it is just the last
    writes, what a crash may cost; and `syncs`, the sync_calls() of its writes. Cells are empty
    where a store lacks the level."""
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


def between(evidence: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """Return one row per store that has the level `recoverable`, all as text: `store`; `sets`, what
    the level sets; and `syncs per write`, by the writer and in the background."""
    rows = where(evidence[evidence.store.isin(stores)], durability=RECOVERABLE)
    sets = [AS_PROCESS if text.endswith(f", {AS_PROCESS}") else text for text in rows.sets]
    return pd.DataFrame(
        {
            "store": rows.store,
            "sets": sets,
            "syncs per write": rows.syncs_per_write.map("{:.2g}".format),
        }
    )


def in_force(cells: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """Return the whole configuration of each store at each of LEVELS, as the cells read it back
    from the engine: one row per store with the text columns `store`, `at both levels`, which has
    the options that the levels share, and a column for each of LEVELS."""
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
    """Return ratios (1) of the stores that support Snappy: the columns `store` and, for each
    summary, `meant: NAME` and `measured: NAME`. The panels of a summary are the two `kinds` of
    data. `meant` is Snappy over no compression on data of the first kind; `measured` is the first
    kind over the second, both as shipped."""
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
