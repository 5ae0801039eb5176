"""What a crash costs: the writes that each one lost, and the time to open the store again; and how
the time to open a store depends on its records and on how it was left."""

import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from kvbench.cell.factors import format_bytes
from kvbench.durability.crashes import CLEAN, KILL, KINDS
from kvbench.experiment.factors import NOT_STATED
from kvbench.stats.intervals import median_interval
from kvbench.stores.about import position
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from study.common import figures, formats
from study.common.fields import each, where
from study.common.notebook import read_table

CRASHES, OPENINGS = "crashes.csv", "openings.csv"
ALL = 0.99  # a window of this share of the time of writing is only a lower bound
# The kinds of loss, with colour and marker.
LOSSES = {
    "nothing, or a clean suffix": ("#0072B2", "o"),
    "writes between others that were kept": ("#D55E00", "s"),
    "everything since the writing began": ("#000000", ">"),
}
WINDOWS = {"window_writes": "lost window [writes]", "window_ms": "lost window [ms]"}
FEWEST = 6  # values that have a 95% interval of their median
GROWN = 10  # for a hundred times the records
ENDS = [(level, kind) for level, crash in KINDS.items() for kind in (crash, CLEAN)]
TIMES = {"open_ms": "open", "first_get_ms": "first correct get"}


def read_ends(path: Path) -> pd.DataFrame:
    """Return the crashes and clean ends in a table, one row each in the order of tables, with the
    columns of crashes.csv in data/README.md. Empty if there is no such file. Raises BadInput."""
    if not path.exists():
        return pd.DataFrame()
    found = read_table(path, {"store": str, "reason": str}, missing=True)
    found["reason"] = found.reason.fillna("")
    return found.sort_values("store", key=lambda names: names.map(position), kind="stable")


def read(folder: Path) -> pd.DataFrame:
    """Return the crashes in a folder, those of stores with the most records if there are several
    numbers of records, in the columns of read_ends, with `lost`, one of LOSSES, and `unread`
    (bool), whether the store could not be read. Raises BadInput."""
    found = read_ends(folder / CRASHES)
    if found.empty:
        return found
    crashed = (found.crash != CLEAN) & (found.records == found.records.max())
    found = pd.DataFrame(found[crashed])
    suffix, holes, everything = LOSSES
    lost = pd.Series(suffix, index=found.index).mask(found.kept_writes > 0, holes)
    whole = (found.kept_writes == 0) & (found.window_ms >= ALL * 1000 * found.writing_s)
    return found.assign(lost=lost.mask(whole, everything), unread=found.reason != "")


def _names(rows: pd.DataFrame) -> dict[str, str]:
    """Return the name of each measured level."""
    return {
        level: f"{level}: {'killed' if 'KILL' in kind else kind}"
        for level, kind in KINDS.items()
        if level in set(rows.durability)
    }


def _charts(rows: pd.DataFrame, depth: int) -> tuple[Figure, Any, list[str]]:
    """Return a grid of charts with one row per store in each: one column per level, and `depth`
    rows of charts."""
    stores = list(dict.fromkeys(rows.store))
    names = _names(rows)
    figure, axes = plt.subplots(
        depth, len(names), figsize=(7, 0.7 + depth * (0.5 + 0.2 * len(stores))), squeeze=False,
        sharex="row", sharey=True, layout="constrained",
    )  # fmt: skip
    for axis, name in zip(axes[0], names.values(), strict=True):
        axis.set_title(name)
    for axis in axes.flat:
        figures.name_rows(axis, stores)
    return figure, axes, stores


def _places(rows: pd.DataFrame, stores: list[str], share: float = 1, aside: float = 0) -> Any:
    """Return the heights of a store's crashes, one below the other, in a share of its row."""
    middle = np.array([stores.index(store) for store in rows.store], float)
    return middle + 0.7 * ((rows.number - 0.5) / rows.number.max() - 0.5) * share + aside


def _versions(rows: pd.DataFrame) -> str:
    versions = ", ".join(
        f"{row.store} {row.engine_version}" for row in each(rows.drop_duplicates("store"))
    )
    return textwrap.fill(f"{versions}.", figures.FOOT_CHARACTERS)


def _said(rows: pd.DataFrame) -> str:
    size = format_bytes(int(rows.value_bytes.max()))
    return (
        f"{rows.groupby(['store', 'durability']).number.max().max()} crashes of each store and "
        f"level; {rows.records.max():,} loaded records of {size}; written for "
        f"{1000 * rows.writing_s.min():.0f} to {1000 * rows.writing_s.max():,.0f} ms.\n"
        + _versions(rows)
    )


def draw_lost(rows: pd.DataFrame) -> Figure:
    """Draw the window of what each crash lost, in writes and in milliseconds, one point per crash,
    and the number of crashes after which the store could not be read."""
    figure, axes, stores = _charts(rows, len(WINDOWS))
    handles: dict[str, Any] = {}
    for (i, (column, label)), (j, level) in figures.pairs(
        list(WINDOWS.items()), list(_names(rows))
    ):
        axis, own = axes[i, j], where(rows, durability=level)
        for name, (ink, shape) in LOSSES.items():
            some = where(own, lost=name, unread=False)
            look: Any = {"color": ink, "alpha": 0.7, "linestyle": "none", "markersize": 2.5}
            shown = axis.plot(some[column], _places(some, stores), shape, label=name, **look)
            handles[name] = shown[0]
        for y, store in enumerate(stores):
            count = int(where(own, store=store).unread.sum())
            if count or store not in set(own.store):
                text = f"{count} not read" if count else "no such level"
                place: Any = {"transform": axis.get_yaxis_transform(), "ha": "right"}
                axis.text(0.99, y, text, va="center", fontsize=5, **place)
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xlim(left=-0.5)
        axis.xaxis.set_major_locator(FixedLocator([0, 1, 100, 10_000]))  # more would overlap
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.set_xlabel(label)
    figures.legend(figure, handles)
    figures.note(figure, _said(rows))
    return figure


def draw_times(rows: pd.DataFrame) -> Figure:
    """Draw the time to open the store after each crash, and the time to the first correct get."""
    figure, axes, stores = _charts(rows, 1)
    handles: dict[str, Any] = {}
    for axis, level in zip(axes[0], _names(rows), strict=True):
        own = where(rows, durability=level)
        styles = zip(TIMES.items(), figures.LEVEL_STYLES[1:], strict=False)
        for at, ((column, name), (ink, shape)) in enumerate(styles):
            places = _places(own, stores, 0.5, (at - 0.5) * 0.4)
            look: Any = {"color": ink, "alpha": 0.7, "linestyle": "none", "markersize": 2.5}
            handles[name] = axis.plot(own[column], places, shape, **look)[0]
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.set_xlabel("time after the crash [ms]")
    figures.legend(figure, handles)
    figures.note(figure, _said(rows))
    return figure


def _range(values: "pd.Series[float]") -> str:
    """Return the median and, in brackets, the greatest of the known values, as text."""
    known = values.dropna()
    if known.empty:
        return NOT_STATED
    middle, most = (f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (known.median(), known.max()))
    return f"{middle} ({most})"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store and level, as text: medians over the crashes, with the greatest in
    brackets."""
    _, holes, everything = LOSSES
    names = _names(rows)
    return pd.DataFrame(
        {
            "store": store,
            "crash": names[str(level)],
            "crashes": len(own),
            "not read": int(own.unread.sum()),
            "lost nothing": int((own.lost_writes == 0).sum()),
            "lost all": int((~own.unread & (own.lost == everything)).sum()),
            "with holes": int((own.lost == holes).sum()),
            "window [writes]": _range(own.window_writes),
            "window [ms]": _range(own.window_ms),
            "damaged records": _range(own.damaged_records),
            "open [ms]": _range(own.open_ms),
            "first get [ms]": _range(own.first_get_ms),
        }
        for (store, level), own in rows.groupby(["store", "durability"], sort=False)
    )


def reasons(rows: pd.DataFrame) -> str:
    """Return a sentence on why stores could not be opened or read; empty if all could."""
    unread = rows[rows.unread]
    said = (unread.store + ": " + unread.reason).value_counts(sort=False)
    found = "; ".join(f"{formats.escape(str(text))} ({count})" for text, count in said.items())
    return f"Not read: {found}." if found else ""


def _stores(rows: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(rows.store)) or "none"


def _shares(hit: pd.DataFrame, tried: pd.DataFrame) -> str:
    """Return the stores of rows that were hit with their numbers of all, as text: "a (1 of 2)"."""
    of = tried.store.value_counts().to_dict()
    counts = hit.store.value_counts(sort=False).items()
    return ", ".join(f"{store} ({count} of {of[store]})" for store, count in counts) or "none"


def _counted(rows: pd.DataFrame) -> str:
    counts = rows.store.value_counts(sort=False)
    return formats.listed([f"{store} ({count})" for store, count in counts.items()], "and")


def facts(rows: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text and each level: the number of crashes; those after which a store could
    not be read or had damaged records, with the stores; those that cost all data; and the stores of
    the others, with their numbers. Also the store and level with the `slowest` openings: their
    median and greatest time."""
    found: dict[str, Any] = {}
    everything = list(LOSSES)[-1]
    for level in _names(rows):
        own = where(rows, durability=level)
        damaged = own[own.damaged_records > 0]
        found[level] = {
            "crashes": len(own),
            "unread": int(own.unread.sum()),
            "unread_stores": _stores(own[own.unread]),
            "damaged": len(damaged),
            "damaged_stores": _shares(damaged, own),
            "damaged_records": f"{damaged.damaged_records.median():,.0f}" if len(damaged) else "0",
            "records": f"{own.records.max():,}",
            "everything": int((~own.unread & (own.lost == everything)).sum()),
            "part_stores": _counted(own[own.lost != everything]),
            "stores": own.store.nunique(),
        }
    times = rows.groupby(["store", "durability"]).open_ms
    medians = times.median()
    slowest: Any = medians.idxmax()
    found["slowest"] = {
        "store": slowest[0],
        "level": slowest[1],
        "median": formats.time(1e6 * medians.max()),
        "most": formats.time(1e6 * times.max().loc[slowest]),
    }
    return found


def opening(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, from read_ends, a row per store, durability level, kind of end (`crash`) and number
    of records: the number of ends after which the store opened, the median bytes of its files
    (`store_bytes`; NaN in older tables), and the median time to open it in ms (`open_ms`) with the
    bounds of its 95% interval (`low`, `high`; NaN for fewer than six ends)."""
    found = []
    for keys, own in rows.groupby(["store", "durability", "crash", "records"], sort=False):
        times = own.open_ms.dropna()
        if times.empty:
            continue
        low = high = float("nan")
        if len(times) >= FEWEST:
            _, low, high, _ = median_interval(times)
        found.append(
            {
                **dict(zip(("store", "durability", "crash", "records"), keys, strict=True)),
                "ends": len(times),
                "store_bytes": own.store_bytes.median() if "store_bytes" in own else float("nan"),
                "open_ms": float(times.median()),
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(found)


def opening_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, from read_ends, the median time to open each store with the most records, as text:
    one row per store, one column per level and kind of end."""
    found = where(opening(rows), records=rows.records.max())
    opened = found.set_index(["store", "durability", "crash"]).open_ms.to_dict()
    said = {KILL: "killed", CLEAN: "closed"}
    table = pd.DataFrame({"store": list(dict.fromkeys(rows.store))})
    for level, kind in ENDS:
        times = [opened.get((store, level, kind)) for store in table.store]
        if any(times):
            text = ["" if time is None else formats.time(1e6 * time) for time in times]
            table[f"{level}, {said.get(kind, kind)}"] = text
    return table


def opening_facts(rows: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, what the result of read_ends says. Of openings with the `most` records
    after a loss of power at level process: the shortest and the longest median time, and the stores
    that open `sooner`, each of whose times is shorter than each after a clean close. Of all
    levels: the number of stores whose time with the most records is GROWN times that with the
    `least` or more after a clean close (`grown`), and the stores of which that holds after a crash
    (`crashed`), with the store, the level and the ratio of the greatest."""
    found = opening(rows)
    least, most = int(found.records.min()), int(found.records.max())
    keys = ["crash", "durability", "store"]
    times = found.pivot(index=keys, columns="records", values="open_ms")
    lost = times[most][KINDS["process"], "process"].dropna().sort_values()
    ends = where(rows, durability="process", records=most).groupby(["crash", "store"]).open_ms
    sooner = ends.max()[KINDS["process"]] < ends.min()[CLEAN]
    ratio = (times[most] / times[least]).dropna()
    crashes = ratio.drop(CLEAN)
    greatest: Any = crashes.idxmax()  # its kind of end, level and store
    named = {
        "grown": ratio[CLEAN][ratio[CLEAN] >= GROWN],
        "crashed": crashes[crashes >= GROWN],
        "sooner": sooner[sooner],
    }
    stores = {
        name: sorted(set(own.index.get_level_values("store")), key=position)
        for name, own in named.items()
    }
    return {
        "least": f"{least:,}",
        "most": f"{most:,}",
        "ends": int(found.ends.min()),
        "stores": found.store.nunique(),
        "shortest": formats.time(1e6 * lost.iloc[0]),
        "shortest_store": lost.index[0],
        "longest": formats.time(1e6 * lost.iloc[-1]),
        "longest_store": lost.index[-1],
        "greatest": formats.number(crashes.max()),
        "greatest_store": greatest[2],
        "greatest_level": greatest[1],
        "grown": len(stores["grown"]),
        "crashed": len(stores["crashed"]),
        "crashed_stores": formats.listed(stores["crashed"], "and"),
        "sooner_stores": formats.listed(stores["sooner"], "and"),
    }


def draw_opening(rows: pd.DataFrame) -> Figure:
    """Draw the median time to open each store by its number of records, one line for each level of
    durability and kind of end, with 95% intervals."""
    found = opening(rows)
    stores = list(dict.fromkeys(found.store))
    columns = min(4, len(stores))
    lines = -(-len(stores) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(7, 0.6 + 1.4 * lines), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    handles: dict[str, Any] = {}
    for axis, store in zip_longest(axes.flat, stores):
        if store is None:
            axis.set_axis_off()
            continue
        axis.set_title(store)
        axis.set_xscale("log")
        axis.set_yscale("log")
        for (level, kind), (ink, shape) in zip(ENDS, figures.LEVEL_STYLES, strict=False):
            own = where(found, store=store, durability=level, crash=kind).sort_values("records")
            if own.empty:
                continue
            bars = np.nan_to_num([own.open_ms - own.low, own.high - own.open_ms])
            handles[f"{level}: {kind.replace(KILL, 'killed')}"] = axis.errorbar(
                own.records, own.open_ms, bars, fmt=shape + ("--" if kind == CLEAN else "-"),
                color=ink, markersize=2.5, linewidth=0.8,
            )  # fmt: skip
    figure.supxlabel("records", fontsize=7)
    figure.supylabel("time to open [ms]", fontsize=7)
    figures.legend(figure, handles)
    ends = " to ".join(map(str, sorted({found.ends.min(), found.ends.max()})))
    said = (
        f"Medians of {ends} ends, with 95% intervals from "
        f"{FEWEST} ends on; values of {format_bytes(int(rows.value_bytes.max()))}; nothing of the "
        "store in the page cache, except after a kill.\n"
    )
    figures.note(figure, said + _versions(rows))
    return figure
