"""The reference run: the regret of each store, the drift of the machine, and what another device
would change."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from kvbench.answers.advise import SELDOM_SYNCS
from kvbench.cell.factors import OPERATIONS
from kvbench.stats.regret import GOOD, counted
from kvbench.stores import about
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import polygamma

from study.answers.advice import CLOSE
from study.common import figures, formats
from study.common.fields import NOT_RANKED, each, regrets, where
from study.common.results import ADJUSTED, Results

FIELD = ["durability", "operation", "record_size", "records", "compressibility"]
VERDICTS = {
    "in": ("#0072B2", "o"), "undecided": ("#E69F00", "D"), "out": ("#888888", "s"),
    NOT_RANKED: ("#888888", "x"),
}  # fmt: skip
NEAR = (1.05, GOOD)  # regrets about which two measurements may well disagree
GROWN = {"record_size": "10 KiB", "records": 10_000}


def timed(data: Results) -> pd.DataFrame:
    """Return the rows of single operations. Raises BadInput if there are none."""
    rows: pd.DataFrame = data.operations[data.operations.operation.isin(OPERATIONS)]
    data.require(rows, f"time of {formats.listed(OPERATIONS, 'or')}")
    return rows


def regrets_of(data: Results) -> pd.DataFrame:
    """Return the regret of each store in each field of its durability level, as fields.regrets()
    does."""
    return regrets(timed(data), "mean_ns", FIELD)


def decisions(regret_rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per durability level: its `fields` of more than one trial; those in which
    every store is decided, that is surely good enough or surely not (`decided`); the share of
    `stores decided`; and `tellable`, the least regret that the trials distinguish from none, as the
    median over the fields."""
    ranked = regret_rows[(regret_rows.verdict != NOT_RANKED) & (regret_rows.trials > 1)]
    known = ranked.assign(known=ranked.verdict != "undecided")
    fields = known.groupby(FIELD, observed=True).agg(
        decided=("known", "all"), tellable=("tellable", "first")
    )
    by = fields.groupby("durability", sort=False)
    return pd.DataFrame(
        {
            "fields": by.size(),
            "decided": by.decided.sum(),
            "stores decided": known.groupby("durability", sort=False).known.mean(),
            "tellable": by.tellable.median(),
        }
    ).reset_index()


def noise(data: Results) -> pd.DataFrame:
    """Return what kvbench.stats.regret assumes of its data, one row per durability level. The log
    ratios of each store to the best of its field, trial by trial, have a `deviation` (median and
    `upper quartile`; `as measured`: before times were adjusted to no processor time withheld), a
    `correlation` between consecutive trials, and a `skewness`. Independent normal ratios would
    have, on average, a correlation of -1 over their number and a skewness of 0.
    `alike` says how much the stores of a field have the same deviation: the degrees of freedom that
    a variance may gain from the others (see _alike()), infinite if all deviations are the same."""
    rows = timed(data).assign(log=lambda rows: np.log(rows.mean_ns))
    ratios, excesses = [], []
    for key, field in rows.groupby(FIELD, observed=True):
        table = field.pivot_table(index="trial", columns="store", values="log").dropna(axis=1)
        if len(table) < 3 or table.shape[1] < 2:
            continue
        best = table.mean().idxmin()
        raw = field.assign(log=field.log + np.log(field.slowed))
        measured = raw.pivot_table(index="trial", columns="store", values="log")[table.columns]
        spread = np.log(table.drop(columns=best).sub(table[best], axis=0).var()).var()
        excesses.append((key[0], spread - polygamma(1, (len(table) - 1) / 2)))
        for store in table.columns.drop([best]):
            log_ratios = table[store] - table[best]
            near = log_ratios - log_ratios.mean()
            lag = (near * near.shift()).sum() / (near**2).sum()
            first = (measured[store] - measured[best]).std()
            found = (len(log_ratios), first, log_ratios.std(), lag, log_ratios.skew())
            ratios.append((key[0], *found))
    columns = {"durability": object} | dict.fromkeys(
        ["trials", "measured", "deviation", "lag", "skewness"], float
    )
    each = pd.DataFrame(ratios, columns=list(columns)).astype(columns)
    by = each.groupby("durability", sort=False)
    excess = pd.DataFrame(excesses, columns=["durability", "excess"]).groupby("durability")
    return pd.DataFrame(
        {
            "ratios": by.size(),
            "trials": by.trials.median(),
            "as measured": by.measured.median(),
            "deviation": by.deviation.median(),
            "alike": excess.excess.mean().map(_alike),
            "upper quartile": by.deviation.quantile(0.75),
            "correlation": by.lag.median(),
            "skewness": by.skewness.median(),
        }
    ).reset_index()


def _alike(excess: float) -> float:
    """Return how many degrees of freedom a variance may gain from others, of which the logs vary by
    `excess` more than samples of one variance do (Smyth 2004; see kvbench.stats.regret)."""
    if not excess > 0:
        return excess if math.isnan(excess) else math.inf
    return float(2 * brentq(lambda half: polygamma(1, half) - excess, 1e-3, 1e6))


def draw_regrets(regret_rows: pd.DataFrame, level: str, data: Results) -> Figure:
    """Draw one row per store and one point per field: its regret, by operation."""
    at_level = where(regret_rows, durability=level)
    stores = [store for store in data.stores() if store in set(at_level.store)]
    figure, axes = plt.subplots(
        1, len(OPERATIONS), figsize=(7, 0.9 + 0.17 * len(stores)), sharey=True, sharex=True,
        layout="constrained",
    )  # fmt: skip
    handles: dict[str, Any] = {}
    for axis, operation in zip(axes, OPERATIONS, strict=True):
        some = where(at_level, operation=operation)
        order = some.groupby("store").regret.rank(method="first")
        many = some.groupby("store").regret.transform("size")
        row = some.store.map({store: at for at, store in enumerate(stores)}).astype(float)
        places = row + 0.7 * ((order - 0.5) / many - 0.5)
        for verdict, (ink, shape) in VERDICTS.items():
            chosen = some.verdict == verdict
            look: Any = {"color": ink, "linestyle": "none", "markersize": 2, "alpha": 0.8}
            drawn = axis.plot(some.regret[chosen], places[chosen], shape, **look)
            handles[verdict] = drawn[0]
        axis.axvline(GOOD, color="#777777", linewidth=0.6)
        axis.set(xscale="log", title=operation, xlabel="regret [times]")
        figures.name_rows(axis, stores)
        axis.xaxis.set_major_formatter("{x:,g}")
    figures.legend(figure, handles)
    figures.foot(figure, data.at(durability=level), f"The line marks a regret of {GOOD}.")
    return figure


def worst(regret_rows: pd.DataFrame, stores: Sequence[str], count: int = 10) -> pd.DataFrame:
    """Return the `count` fields in which these stores surely cost most, by the lower bound of their
    regret, with the interval as text."""
    costly = (
        regret_rows[regret_rows.store.isin(stores) & regret_rows.low.notna()]
        .sort_values("low", ascending=False)
        .head(count)
    )
    number = formats.number
    spans = [f"{number(row.low)} to {number(row.high)}" for row in each(costly)]
    return costly[["store", *FIELD]].assign(regret=spans)


def fits(regret_rows: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """Return one row per store and durability level: the `fields` in which it is ranked, those in
    which it is surely `good` enough, the geometric `mean` of its regret, and `most`, the greatest
    lower bound of its regret."""
    ranked = regret_rows[regret_rows.verdict != NOT_RANKED]
    counted = ranked.assign(good=ranked.verdict == "in", log=np.log(ranked.regret))
    by = counted.groupby(["durability", "store"], sort=False)
    shown = by.agg(
        fields=("regret", "size"),
        good=("good", "sum"),
        mean=("log", "mean"),
        most=("low", "max"),
    ).reset_index()
    shown["mean"] = np.exp(shown["mean"])
    order = {store: at for at, store in enumerate(stores)}
    return shown.sort_values("store", key=lambda name: name.map(order), kind="stable")


def disagreement(data: Results) -> pd.DataFrame:
    """Return how much the sittings disagree: one row per durability level, and none if there is one
    sitting. The log ratio of a store to the best of its field is the mean over the trials of a
    sitting. Only stores that have all trials count. The columns are

    - `near the bound`: the stores of a field whose regret over all sittings is near GOOD (NEAR)
    - `on both sides`: those of them that one sitting finds good enough and another does not
    - `two disagree`: the share of the pairs of sittings of which one does and the other does not
    - `deviation`: by how much log ratios deviate between the sittings of one machine (root of the
      mean variance over all ratios), with what trials deviate within them
    - `between machines`: the same of the means of the machines; NaN if there is one machine
    """
    rows = timed(data)
    if rows.sitting.nunique() < 2:
        return pd.DataFrame()
    rows = rows.assign(log=np.log(rows.mean_ns))
    found = []
    for key, field in rows.groupby(FIELD, observed=True):
        index = ["machine", "sitting", "trial"]
        table = field.pivot_table(index=index, columns="store", values="log").dropna(axis=1)
        logs = table.groupby(["machine", "sitting"]).mean()
        if len(logs) < 2 or logs.shape[1] < 2:
            continue
        best = logs.mean().idxmin()
        ratios = logs.drop(columns=best).sub(logs[best], axis=0)
        near = np.exp(ratios.mean()).between(*NEAR)
        good, number = (ratios < math.log(GOOD)).sum(), len(ratios)
        two = good * (number - good) / math.comb(number, 2)
        within = (ratios - ratios.groupby("machine").transform("mean")).pow(2).sum()
        machines = ratios.groupby("machine").mean()
        freedom = len(ratios) - len(machines)
        found += [
            (key[0], near[store], near[store] and two[store] > 0, near[store] * two[store],
             within[store], freedom, machines[store].var())
            for store in map(str, ratios)
        ]  # fmt: skip
    columns = ["durability", "near", "apart", "two", "within", "freedom", "machines"]
    by = pd.DataFrame(found, columns=columns).groupby("durability", sort=False)
    return pd.DataFrame(
        {
            "near the bound": by.near.sum().astype(int),
            "on both sides": by.apart.sum().astype(int),
            "two disagree": by.two.sum() / by.near.sum().where(lambda near: near > 0),
            "deviation": np.sqrt(by.within.sum() / by.freedom.sum()),
            "between machines": np.sqrt(by.machines.mean()),
        }
    ).reset_index()


def gaps(data: Results) -> pd.DataFrame:
    """Return the time between two operations, during which an engine can continue to work. One row
    per record size: the `gap` per operation in ns and its `share` of the wall time, both medians
    over all stores and trials, and `most`, the largest share."""
    rows = timed(data)
    gap = rows.wall_s * 1e9 - rows.sum_ns
    by = rows.assign(gap=gap / rows.n, share=gap / (rows.wall_s * 1e9)).groupby("record_size")
    table = pd.DataFrame(
        {"gap": by.gap.median(), "share": by.share.median(), "most": by.share.max()}
    )
    return table.reindex(data.sizes()).reset_index()


def drift(core: Results) -> pd.DataFrame:
    """Return each cell of the core fields compared with the first trial of the same cell: one row
    per store, field and trial, with the `ratio` of the means and the `hours` since the first.
    Trials are in the order of measurement; the first of a sitting opens it, the second closes it.
    """
    rows = timed(core)
    by = [*FIELD, "store"]
    rows = rows.merge(core.cells[["cell", "started"]], on="cell")
    rows = rows.assign(started=pd.to_datetime(rows.started, utc=True)).sort_values("trial")
    first = rows.groupby(by, observed=True).mean_ns.transform("first")
    begun = rows.groupby("trial").started.transform("min")
    hours = (begun - rows.started.min()).dt.total_seconds() / 3600
    return rows[[*by, "trial"]].assign(ratio=rows.mean_ns / first, hours=hours)


def drifted(drifts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial of the core fields: the `hours` since the first, and the ratios to
    it that 10% (`least`), half (`middle`) and 90% (`most`) of the cells do not exceed."""
    by = drifts.groupby("trial")
    shares = {"least": 0.1, "middle": 0.5, "most": 0.9}
    ratios = {name: by.ratio.quantile(share) for name, share in shares.items()}
    return pd.DataFrame({"hours": by.hours.first(), **ratios}).reset_index()


def varied(drifts: pd.DataFrame) -> dict[str, str]:
    """Return, for the text, the least and the greatest median ratio of the trials after the
    first."""
    later = drifts[drifts.trial > drifts.trial.min()].middle
    return {"least": f"{later.min():.2f}", "greatest": f"{later.max():.2f}"}


def on_file_systems(core: dict[str, Results]) -> pd.DataFrame:
    """Return the regrets in the fields that were measured on every file system, with the column
    `file_system`."""
    table = pd.concat(regrets_of(data).assign(file_system=name) for name, data in core.items())
    everywhere = table.groupby(FIELD, observed=True).file_system.transform("nunique") == len(core)
    return table[everywhere]


def profiles(regret_rows: pd.DataFrame, stores: Sequence[str]) -> pd.DataFrame:
    """Return one row per store and durability level, as text: the fields in which the store is
    surely good enough, and the one in which it surely costs most."""

    def named(row: Any) -> str:
        return f"{row.operation} of {row.record_size} x {formats.count(row.records)}"

    ranked = regret_rows[regret_rows.verdict != NOT_RANKED]
    rows = []
    for store in stores:
        for level, part in where(ranked, store=store).groupby("durability", sort=False):
            best = [named(row) for row in each(part[part.verdict == "in"])]
            (last,) = each(part.sort_values("low").tail(1))
            cost = f"{named(last)}: {formats.number(last.low)} times or more"
            rows.append((store, level, formats.some(best), cost if last.low > GOOD else ""))
    return pd.DataFrame(rows, columns=["store", "durability", "good enough", "costs most"])


def turned(regret_rows: pd.DataFrame, home: str) -> pd.DataFrame:
    """Return, for the result of on_file_systems(), one row per file system other than `home`: its
    `fields`, those in which an `other` store is the fastest than at home, and the geometric `mean`
    and the greatest (`most`) regret of home's fastest store there."""
    ranked = regret_rows[regret_rows.verdict != NOT_RANKED].sort_values("regret")
    here = where(ranked, file_system=home).drop_duplicates(FIELD)[[*FIELD, "store"]]
    there = ranked.merge(here, on=[*FIELD, "store"])
    by = there.assign(other=there.regret > 1, log=np.log(there.regret)).groupby("file_system")
    shown = by.agg(
        fields=("regret", "size"),
        other=("other", "sum"),
        mean=("log", "mean"),
        most=("regret", "max"),
    )
    shown["mean"] = np.exp(shown["mean"])
    order = [name for name in dict.fromkeys(regret_rows.file_system) if name != home]
    return shown.reindex(order).rename_axis("file_system").reset_index()


def turning(regret_rows: pd.DataFrame, home: str) -> dict[Any, dict[Any, Any]]:
    """Return turned() for the text, by the name of the file system."""
    shown = turned(regret_rows, home)
    shown["mean"] = shown["mean"].map(formats.number)
    shown["most"] = shown.most.map(formats.at_most)
    return shown.set_index("file_system").to_dict("index")


def transfer(regret_rows: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return how well the fastest store of one machine does on another; both tables are results of
    regrets_of(). One row per durability level: the `fields` that both have, those in which it is
    the fastest there, too (`same`), or is not surely worse (`maybe`), and the geometric `mean` and
    the greatest (`most`) of its regret there."""
    ranked = regret_rows[regret_rows.verdict != NOT_RANKED]
    fastest = ranked.sort_values("regret", kind="stable").drop_duplicates(FIELD)
    there = other[other.verdict != NOT_RANKED]
    both = fastest[[*FIELD, "store"]].merge(there, on=[*FIELD, "store"])
    shared = both.assign(
        same=both.regret == 1, maybe=both.verdict != "out", log=np.log(both.regret)
    )
    by = shared.groupby("durability", sort=False)
    shown = by.agg(
        fields=("regret", "size"),
        same=("same", "sum"),
        maybe=("maybe", "sum"),
        mean=("log", "mean"),
        most=("regret", "max"),
    ).reset_index()
    shown["mean"] = np.exp(shown["mean"])
    return shown


def judged_otherwise(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return, for two results of regrets_of(), the stores of a field of which one says that they
    are surely good enough and the other that they surely are not: one row each, with the regrets of
    both and their intervals as text."""
    sure = {"in", "out"}
    both = before.merge(after, on=[*FIELD, "store"], suffixes=("", "_after"))
    changed = both[
        both.verdict.isin(sure)
        & both.verdict_after.isin(sure)
        & (both.verdict != both.verdict_after)
    ]

    def said(estimate: float, low: float, high: float) -> str:
        shown = map(formats.number, (estimate, low, high))
        return "{} ({} to {})".format(*shown)

    texts = [
        (said(row.regret, row.low, row.high), said(row.regret_after, row.low_after, row.high_after))
        for row in each(changed)
    ]
    regrets = pd.DataFrame(texts, changed.index, columns=["earlier", "main grid"])
    return changed[[*FIELD, "store"]].join(regrets).drop(columns="compressibility")


def syncing(data: Results, level: str) -> dict[str, str]:
    """Return, for the text, the stores whose inserts or updates sync at a level, with the sync
    calls per write in the field that has the most; medians over the trials."""
    writes = where(timed(data), durability=level)
    writes = writes[writes.operation.isin(["insert", "update"])]
    syncs = (writes.syncs / writes.n).groupby(
        [writes[name] for name in [*FIELD, "store"]], observed=True
    )
    most = syncs.median().groupby("store").max()
    often = most[most > SELDOM_SYNCS]
    return {str(store).replace("-", "_"): formats.number(value) for store, value in often.items()}


def growth(data: Results) -> "pd.Series[float]":
    """Return the space over the live bytes at the end of each cell of the field GROWN, by
    durability level and store."""
    cells = where(data.cells, **GROWN).set_index(["durability", "store"])
    ratio: pd.Series[float] = cells.disk_bytes / cells.live_bytes
    return ratio


def _median_and_range(values: "pd.Series[float]") -> str:
    low, middle, high = map(formats.number, values.quantile([0, 0.5, 1]))
    return middle if low == high else f"{middle} ({low} to {high})"


def growing(data: Results) -> pd.DataFrame:
    """Return what the stores whose file only grows gain from it: one row per store and level, with
    its fields, those in which its mean time is below that of the best other store, the geometric
    mean of its time over that store's, and the median of growth()."""
    regret_rows = regrets_of(data)
    reuses = regret_rows.store.map(about.reuses).astype(bool)
    ranked = regret_rows[reuses & (regret_rows.verdict != NOT_RANKED)]
    best = ranked.groupby(FIELD, observed=True)["mean"].min().rename("best")
    if reuses.all():
        return pd.DataFrame(columns=["durability", "store", "fields", "faster", "mean", "space"])
    grow_only = regret_rows[~reuses].join(best, on=FIELD)
    grow_only = grow_only.assign(
        faster=grow_only["mean"] < grow_only.best, log=np.log(grow_only["mean"] / grow_only.best)
    )
    shown = (
        grow_only.groupby(["durability", "store"], sort=False)
        .agg(fields=("log", "count"), faster=("faster", "sum"), mean=("log", "mean"))
        .join(growth(data).groupby(level=[0, 1]).median().rename("space"))
    )
    return shown.assign(mean=np.exp(shown["mean"])).reset_index()


def facts(regret_rows: pd.DataFrame, data: Results) -> dict[str, Any]:
    """Return, for the text and each durability level, how much is decided, and the regret, the
    growth and the sync calls of each store. `regret_rows` has the stores that are ranked."""
    by_level = decisions(regret_rows).set_index("durability")
    stores = fits(regret_rows, data.stores())
    grown = {
        str(level): {
            str(store).replace("-", "_"): _median_and_range(own)
            for store, own in ratio.groupby(level="store")
        }
        for level, ratio in growth(data).groupby(level="durability")
    }
    days = data.cells.started.dropna().str[:10].nunique()
    slowed = timed(data).slowed
    facts: dict[str, Any] = {
        "trials": data.trials_text(),
        "sittings": counted(data.sittings),
        "machines": int(data.cells.machine.nunique()),
        "days": f"{days} day{'s' if days > 1 else ''}",
        "measured": len(data.stores()),
        **data.host(),
        "adjusted": f"{(slowed > ADJUSTED).mean():.0%}",
        "adjusted_most": formats.number(slowed.max()),
    }
    for level, row in by_level.iterrows():
        fit = where(stores, durability=level).set_index("store")
        facts[str(level)] = {
            "fields": int(row.fields),
            "decided": int(row.decided),
            "stores_decided": f"{row['stores decided']:.0%}",
            "good": f"{fit.good.sum():,} of {fit.fields.sum():,}",
            "tellable": f"{row.tellable:.2f}",
            "growth": grown.get(str(level), {}),
            "syncing": syncing(data, str(level)),
            "stores": {
                str(store): {
                    "mean": formats.number(one["mean"]),
                    "most": formats.at_least(one.most),
                }
                for store, one in fit.iterrows()
            },
        }
    return facts


def repeated(found: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return, for the text, the result of disagreement() for each level and for all levels
    together."""
    if found.empty:
        return {}
    least, most = NEAR
    near = found["near the bound"]
    two = (found["two disagree"] * near).sum() / max(near.sum(), 1)
    both = {
        "from": f"{least:.2f}",
        "to": f"{most:.2f}",
        "near": int(near.sum()),
        "apart": int(found["on both sides"].sum()),
        "two": f"{two:.0%}",
    }
    return {"all": both} | {
        str(row["durability"]): {
            "deviation": f"{row['deviation']:.0%}",
            "machines": formats.stated(row["between machines"], "{:.0%}"),
        }
        for row in found.to_dict("records")
    }


def followed(found: pd.DataFrame) -> dict[str, str]:
    """Return, for the text, the least and the greatest share of cases in which advice is close to
    the best in the places of advice.elsewhere(), each with its place, and the greatest mean."""
    if found.empty:
        return {}
    by = found.sort_values("good", kind="stable")
    first, last = by.iloc[0], by.iloc[-1]
    return {
        "least": f"{first.good:.0%}",
        "least_place": str(first.place),
        "most": f"{last.good:.0%}",
        "most_place": str(last.place),
        "mean": formats.at_most(found["mean"].max()),
    }


def carried(found: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the result of advice.by_distance(): for advice between measured numbers
    of records, and beyond them up to each power of ten."""
    names = {1.0: "between", 10.0: "ten", 100.0: "hundred"}
    return {
        names.get(row.beyond, f"x{row.beyond:g}"): {
            "fields": int(row.fields),
            "good": f"{row.good:.0%}",
        }
        for row in each(found)
    }


def advised(validation: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the result of advice.validation() for each rule, by its first two
    words, and what is `close` to the best."""
    return {"close": f"{CLOSE - 1:.0%}"} | {
        "_".join(row.rule.replace(",", "").split()[:2]): {
            "fields": int(row.fields),
            "good": f"{row.good:.0%}",
            "most": formats.number(row.most),
        }
        for row in each(validation)
    }
