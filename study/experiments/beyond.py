"""Data larger than memory: times of gets and updates, and bytes read from storage per get."""

import math
from typing import Any

import pandas as pd
from kvbench.cell.factors import UNCAPPED, RecordSize, parse_bytes
from kvbench.experiment.factors import NOT_STATED
from kvbench.stores import catalogue
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from study.common import figures, formats, levels
from study.common.fields import over_trials, where
from study.common.results import Results

KINDS = ("get", "update")
LABELS = ("as shipped", "recommended")
COLUMNS = 4  # of the small charts
ALIKE = 1.1  # a store with less regret is called about as fast as the best


def steps(data: Results) -> pd.DataFrame:
    """Return one row per timed step and trial, with the further columns `kind`; `share`, the data
    over the cap on memory; `time`, the mean in µs; and `read`, the bytes that the storage layer
    read per operation of the step. Raises BadInput if there are none."""
    rows, found = data.operations, []
    for kind in KINDS:
        own = rows[rows.operation.str.match(rf"mix( \d+)? {kind}$")]
        step = own.operation.str.removesuffix(f" {kind}")  # only the step's own row has counters
        keys = pd.MultiIndex.from_arrays([own.cell, step])
        read = (rows.read_bytes / rows.n).set_axis([rows.cell, rows.operation]).reindex(keys)
        found.append(own.assign(kind=kind, read=read.to_numpy()))
    shown: pd.DataFrame = pd.concat(found)
    shown = shown[~shown.memory_max.isin([UNCAPPED, NOT_STATED])]
    data.require(shown, "get or update of a mix with capped memory")
    live = shown.records * [RecordSize.parse(size).mean for size in shown.record_size]
    shown["share"] = live / shown.memory_max.map(parse_bytes)
    shown["time"] = shown.mean_ns / 1000
    return shown


def points(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the over_trials() summary of a column by kind, store, label, key order and share."""
    own = rows[rows[value].notna()]
    return over_trials(own, value, ["kind", "store", "label", "key_order", "share"])


def lost(data: Results) -> pd.DataFrame:
    """Return the failed cells: one row per `store`, `label`, `records` and `reason`, with the
    number of `cells`."""
    cells = where(data.all_cells, status="failed")
    by = ["store", "label", "records", "reason"]
    found: pd.DataFrame = cells.groupby(by).size().rename("cells").reset_index()
    return found


def recommended() -> pd.DataFrame:
    """Return what each store sets at the level `recommended` of its setting `profile`: the columns
    `store` and `recommended`."""
    return pd.DataFrame(
        [
            {"store": store.name, "recommended": setting.means}
            for store in catalogue.known().values()
            for setting in store.settings
            if (setting.name, setting.value) == ("profile", LABELS[1])
            and not store.binding
            and not store.name.endswith("-debian")
        ]
    )


def facts(rows: pd.DataFrame, data: Results) -> dict[str, Any]:
    """Return, for the text, how many times as long a get of uniform records takes with the most
    data as shipped, compared with the least data and with recommended settings, how many bytes it
    reads, and how many updates came before."""
    own = where(points(rows, "time"), kind="get", key_order="uniform")
    sizes = sorted(rows.share.unique())
    least, most = sizes[0], sizes[-1]
    wide = own.pivot(index="store", columns=["label", "share"], values="median")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([LABELS, sizes]))
    shipped, recommended = (wide[label][most] for label in LABELS)
    both = wide[LABELS[0]][sorted({least, most})].dropna()
    spread = (both.max() / both.min()).map(formats.number)
    best = pd.concat([shipped, recommended], axis=1).min(axis=1)[both.index]
    gains = (shipped / recommended).dropna()
    large = where(points(rows, "read"), kind="get", label=LABELS[0], share=most)
    read = large.sort_values("median").set_index("store")["median"]
    return {
        "least": formats.number(least),
        "most": formats.number(most),
        "read": {
            "least": formats.size(read.iloc[0]),
            "least_store": read.index[0],
            "most": formats.size(read.iloc[-1]),
            "most_store": read.index[-1],
        }
        if len(read)
        else {},
        "slower": levels.extremes((both[most] / both[least]).sort_values()),
        "both": len(both),
        "stores": len(shipped.dropna()),
        "fastest_tuned": formats.number(best.min()),
        "fastest_stores": formats.listed(sorted(best.index[best < ALIKE * best.min()]), "and")
        or NOT_STATED,
        "spread": {"least": spread[least], "most": spread[most]},
        "time": levels.extremes(shipped.dropna().sort_values(), ".0f", ".0f"),
        "gain": levels.extremes((shipped / recommended).dropna().sort_values(), ".2f", ".1f"),
        "loss": formats.number(float((recommended / shipped).max())),
        "shipped": {str(store): f"{value:.0f}" for store, value in shipped.dropna().items()},
        "gains": {str(store): formats.number(value) for store, value in gains.items()},
        "spread_tuned": formats.number(best.max() / best.min()),
        "updates": f"{rows[rows.kind == 'update'].n.median():,.0f}",
        "record": data.sizes()[0],
        "cap": data.level("memory_max")[0],
        "changed": int((shipped / recommended).notna().sum()),
        "lost": int(lost(data).cells.sum()),
        "lost_stores": ", ".join(dict.fromkeys(lost(data).store)),
        "trials": data.trials,
        "scan": _scans(data),
        **data.host(),
    }


def _scans(data: Results) -> dict[str, str]:
    """Return, by store, how many times as long the final check, which scans all records, takes with
    recommended settings as it takes as shipped, with the most data."""
    cells = where(data.cells, key_order="uniform")
    most = cells[cells.records == cells.records.max()]
    wide = most.pivot_table(index="store", columns="label", values="check_s")
    if not set(LABELS) <= set(wide):
        return {}
    longer = (wide[LABELS[1]] / wide[LABELS[0]]).dropna()
    return {str(store): formats.number(value) for store, value in longer.items()}


def draw(rows: pd.DataFrame, kind: str, value: str, label: str, data: Results) -> Figure:
    """Draw one chart per store: a value over the share, one line per label and key order."""
    found = where(points(rows, value), kind=kind)
    stores = [store for store in data.stores() if store in set(found.store)]
    columns = max(min(COLUMNS, len(stores)), 1)
    figure, axes = figures.grid(max(math.ceil(len(stores) / columns), 1), columns, 1.3)
    handles: dict[str, Any] = {}
    shares = sorted(rows.share.unique())
    narrow = found.high.max() < 100 * found.low.min()
    for axis, store in zip(axes.flat, stores, strict=False):
        lines = [(part, order) for part in LABELS for order in ("uniform", "zipfian")]
        for (part, order), (ink, mark) in zip(lines, figures.LEVEL_STYLES[1:], strict=False):
            own = where(found, store=store, label=part, key_order=order).sort_values("share")
            if own.empty:
                continue
            look: Any = {"color": ink, "marker": mark, "markersize": 3, "linewidth": 0.9}
            drawn = figures.draw_points(axis, own.share, own, elinewidth=0.7, **look)
            handles[f"{part}, {order}"] = drawn
        axis.set_title(store)
        axis.set(xscale="log", yscale="log", ylim=(found.low.min() / 1.5, found.high.max() * 1.5))
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
        axis.yaxis.set_major_formatter("{x:,g}")
        axis.set_xticks(shares, [formats.number(share) for share in shares])
        axis.minorticks_off()
    for axis in axes.flat[len(stores) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("data / cap")
    for row in axes:
        row[0].set_ylabel(label)
    figures.legend(figure, handles)
    figures.foot(figure, data, f"Cap on all memory: {data.level('memory_max')[0]}.", settings=False)
    return figure
