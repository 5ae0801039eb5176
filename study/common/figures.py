"""The style of the figures, and the two layouts that several notebooks share."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from kvbench.experiment.factors import NOT_STATED
from kvbench.stats.regret import GOOD
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from study.common import formats
from study.common.fields import Panel, each
from study.common.results import Results
from study.common.stores import colour, ink, marker, tint

LEGEND_COLUMNS = 8
FOOT_CHARACTERS = 150  # in a line below a figure
LINES = "|x+1234"  # markers without an area to fill
FEW = 6  # the most columns of a table whose text is as large as that of a page
MARGINS = (GOOD, 1.5, 2.0)  # regrets of the next store at which a field becomes a tone darker
TONES = (0.2, 0.4, 0.6, 0.85)

# A colour and a marker for each level of a factor; colours of Okabe and Ito.
LEVEL_STYLES = (
    ("#000000", "|"), ("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"), ("#CC79A7", "^"),
    ("#E69F00", "v"), ("#56B4E9", "P"),
)  # fmt: skip


def use_style() -> None:
    """Make figures SVG files whose bytes depend only on the data and the locked packages. This
    undoes what the user's matplotlibrc, IPython configuration, startup files, environment and fonts
    set."""
    from IPython import get_ipython  # noqa: PLC0415 - outside a notebook there is none
    from matplotlib_inline.backend_inline import set_matplotlib_formats  # noqa: PLC0415
    from matplotlib_inline.config import InlineBackend  # noqa: PLC0415

    shell = get_ipython()
    if hasattr(shell, "kernel"):
        shell.ast_node_interactivity = "last_expr"
        shell.display_formatter.active_types = shell.display_formatter.format_types
        inline = InlineBackend.instance(parent=shell)
        inline.rc, inline.print_figure_kwargs = {}, {"bbox_inches": "tight"}
        inline.close_figures = True
        shell.enable_matplotlib("inline")
        set_matplotlib_formats("svg", metadata={"Date": None})  # type: ignore[no-untyped-call]
    mpl.rcdefaults()
    fonts = font_manager.fontManager
    fonts.ttflist.clear()  # a system font of the same name may have other glyphs
    for path in sorted(Path(mpl.get_data_path()).glob("fonts/ttf/*.ttf")):
        fonts.addfont(path)
    sns.set_theme(context="paper", style="whitegrid", font="DejaVu Sans")
    plt.rcParams.update(
        {
            "svg.hashsalt": "kvbench",
            "svg.fonttype": "path",
            "figure.dpi": 100,
            "font.size": 7,
            "axes.titlesize": 8,
            "axes.labelsize": 7,
            "xtick.labelsize": 6.5,
            "ytick.labelsize": 6.5,
            "legend.fontsize": 7,
        }
    )


def pairs(rows: Sequence[Any], columns: Sequence[Any]) -> Iterable[Any]:
    """Iterate over every row with every column, each with its position."""
    return product(enumerate(rows), enumerate(columns))


def dodge(k: int, count: int) -> float:
    """Return how far to move the k-th of `count` stores aside, so that no marker hides another."""
    return (k - (count - 1) / 2) * min(0.1, 0.8 / count)


def grid(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    """Return a figure with a grid of charts. Rows are `height` inches high; the charts of a row
    share their y axis, those of a column their x axis."""
    shared: Any = {"sharex": True, "sharey": "row", "squeeze": False}
    size = (7, 0.5 + height * rows)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", **shared)


def name_times(axes: Any, i: int, j: int, row: str, column: str, label: str) -> None:
    """Label a chart of a grid. Both axes are logarithmic and times are in µs; `label` names the x
    axis."""
    axis = axes[i, j]
    axis.set(xscale="log", yscale="log")
    if i == 0:
        axis.set_title(column)
    if j == 0:
        axis.set_ylabel(f"{row}\ntime [µs]")
    if i == len(axes) - 1:
        axis.set_xlabel(label)


def draw_points(
    axis: Any, places: Any, found: Any, across: bool = False, unit: float = 1, **look: Any
) -> Any:
    """Draw medians over the trials, each with its range as a line, along the y axis, or along the x
    axis if `across`.

    `found` has rows of over_trials().
    """
    middle = found["median"]
    reach = np.array([middle - found.low, found.high - middle]).reshape(2, -1) / unit
    if across:
        return axis.errorbar(middle / unit, places, xerr=reach, **look)
    return axis.errorbar(places, middle / unit, yerr=reach, **look)


def draw_stores(
    axis: Any,
    names: Sequence[str],
    found: pd.DataFrame,
    aside: float = 0,
    near: bool = False,
    **look: Any,
) -> None:
    """Draw one row per store. With `near`, markers near the harness's floor are hollow.

    A name may say more than the store, after a comma.
    """
    summary = found.set_index("store").reindex(list(names))
    for y, name in enumerate(names):
        store, row = name.partition(",")[0], summary.loc[name]
        own: dict[str, Any] = {
            "color": colour(store),
            "marker": marker(store),
            "elinewidth": 0.8,
        } | look
        draw_points(axis, y + aside, row, across=True, **own)
        if near:
            hollow(axis, [row["median"]], [y], [_yes(row.near_floor)], colour(store), marker(store))
        ring(axis, [row["median"]], [y + aside], [_yes(row.get("cooled"))])


def _yes(value: object) -> bool:
    """Return whether a value is true. A missing value, as of a store without a row, is not."""
    return isinstance(value, bool | np.bool_) and bool(value)


def draw_sizes(
    axis: Any,
    found: pd.DataFrame,
    sizes: Sequence[str],
    stores: Sequence[str],
    scale: float,
    ranges: bool = True,
) -> dict[str, Any]:
    """Draw one column per record size, with one point per store side by side, in units of 1 /
    `scale`. With `ranges`, each point has its range over the trials. Returns the handles of a
    legend."""
    handles: dict[str, Any] = {}
    for k, store in enumerate(stores):
        own = found[found.store == store].set_index("record_size").reindex(list(sizes))
        own = own[["median", "low", "high"]] * scale
        places = np.arange(len(sizes)) + dodge(k, len(stores))
        look: Any = {"color": colour(store), "marker": marker(store), "markersize": 3.5}
        look |= {"linestyle": "none", "label": store}
        if ranges:
            handles[store] = draw_points(axis, places, own, elinewidth=0.8, **look)
        else:
            (handles[store],) = axis.plot(places, own["median"], **look)
    if found["median"].isna().any():
        axis.set_xlim(-0.5, len(sizes) - 0.5)
    return handles


def name_rows(axis: Any, names: Sequence[str], **look: Any) -> None:
    """Name the rows of a chart, the first at the top."""
    axis.set_yticks(range(len(names)), names, **({"fontsize": 6} | look))
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")


def legend(figure: Figure, handles: Mapping[str, Any], most: int = LEGEND_COLUMNS) -> None:
    """Put the stores above the figure, in as many lines of about equal length as they need."""
    if not handles:
        return
    columns = -(-len(handles) // -(-len(handles) // most))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=columns,
        frameon=False,
    )


def note(figure: Figure, text: str) -> None:
    """Write small print below a figure. A `$` in it starts no formula."""
    look: Any = {"ha": "left", "va": "top", "fontsize": 5.5, "color": "#333333"}
    figure.text(0.01, -0.01, text, parse_math=False, **look)


def foot(figure: Figure, results: Results, *lines: str, settings: bool = True) -> None:
    """Write the conditions of the measurement below a figure."""
    said = (*lines, *results.conditions(settings).splitlines())
    note(figure, "\n".join(part for line in said for part in textwrap.wrap(line, FOOT_CHARACTERS)))


def hollow(axis: Any, x: Any, y: Any, near: Any, colour: str, marker: str) -> None:
    """Redraw the markers of values near the harness's floor without their filling. Markers made of
    lines, which have none, become circles."""
    near = np.asarray(near, bool)
    axis.plot(
        np.asarray(x)[near],
        np.asarray(y)[near],
        linestyle="none",
        marker="o" if marker in LINES else marker,
        markersize=3,
        markeredgecolor=colour,
        markerfacecolor="white",
        zorder=3,
    )


def draw_bound(axis: Any, found: float | None, upright: bool = False) -> None:
    """Draw a thin line at the value of Results.bound(), given in µs; vertical if `upright`, where
    times run along the x axis. Captions explain the line, because a label would cover points."""
    if found is not None:
        draw = axis.axvline if upright else axis.axhline
        draw(found / 1000, color="#555555", linewidth=0.6, linestyle=":", zorder=1)


def log_ticks(axis: Any, low: float, high: float) -> None:
    """Put plain numbers on a logarithmic x axis from `low` to `high`, few enough to be readable."""
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.xaxis.set_major_formatter("{x:,g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def ring(axis: Any, x: Any, y: Any, cooled: Any) -> None:
    """Draw a ring around the markers of values that are not ranked."""
    cooled = np.asarray(cooled, bool)
    if cooled.any():
        look: Any = {"markersize": 7, "markerfacecolor": "none", "markeredgecolor": "#777777"}
        axis.plot(np.asarray(x)[cooled], np.asarray(y)[cooled], "o", markeredgewidth=0.6, **look)


def frame_table(axis: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Turn a chart into the frame of a table whose fields are unit squares."""
    axis.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axis.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axis.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axis.tick_params(length=0, pad=1)
    axis.grid(visible=False)


def best_figure(
    panels: Mapping[str, Panel],
    results: Results,
    counts: Sequence[int] = (),
    settings: bool = True,
) -> Figure:
    """Draw one table per panel: rows are record sizes, columns are kinds of data and record counts.
    A field has the colour of its best store, darker the further the next store is surely behind.

    `panels` maps a title to the result of best_of() by record_size, compressibility and records.
    `counts` are the record counts to show; if empty, all.
    """
    sizes, counts = results.sizes(), counts or results.counts()
    kinds = results.level("compressibility")
    columns = [(kind, count) for kind in kinds for count in counts]
    few = len(columns) <= FEW
    width, height, points = (7.0, 0.42, 7.0) if few else (1.0 + 0.6 * len(columns), 0.3, 4.8)
    room = int((width - 1) * 72 / len(columns) / (0.6 * points))  # characters in a field's line
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(width, len(panels) * (0.45 + height * len(sizes)) + 0.3),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for axis, (title, (found, show)) in zip(axes.flat, panels.items(), strict=False):
        frame_table(axis, sizes, [formats.count(c) for _, c in columns])
        above = axis in axes[0] and len(kinds) > 1
        axis.set_title(title, loc="left", fontweight="bold", pad=14 if above else 4)
        for position, kind in enumerate(kinds):
            if above:
                head = formats.kind(kind) if kind == NOT_STATED else kind
                middle = (position + 0.5) * len(counts)
                axis.text(middle, -0.15, head, ha="center", va="bottom", fontsize=7)
            axis.axvline(position * len(counts), color="black", linewidth=1)
        for row in each(found):
            x, y = columns.index((row.compressibility, row.records)), sizes.index(row.record_size)
            if row.store:
                _fill_field(axis, x, y, row, show(row.value), points, room)
            else:
                look: Any = {"ha": "center", "va": "center", "fontsize": 7 if few else 4.6}
                axis.text(x + 0.5, y + 0.5, row.reason, **look)
    figure.supxlabel("number of records", fontsize=7)
    figure.supylabel("record size", fontsize=7)
    largest = formats.size(results.cells.live_bytes.max())
    said = f"Blank: not in the grid, whose largest data are {largest}."
    foot(figure, results, said, settings=settings)
    return figure


def _fill_field(axis: Any, x: int, y: int, row: Any, value: str, points: float, room: int) -> None:
    """Draw one field of best_figure(): the store, its value, and which other stores are or may be
    as good, or how many if their names need more characters than there is room for."""
    margin = 1 if np.isnan(row.margin) else row.margin
    strength = TONES[int(np.searchsorted(MARGINS, margin, side="right"))]
    look: Any = {"ha": "center", "va": "center", "color": ink(row.store, strength)}
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=tint(row.store, strength), edgecolor="white"))
    maybe = [store for store in row.undecided if store != row.store]
    marked = [(sign, stores) for sign, stores in (("=", row.among), ("?", maybe)) if stores]
    ways: tuple[Callable[[Sequence[str]], str], ...] = (  # the first that fits is taken
        ", ".join,
        lambda stores: stores[0] if len(stores) == 1 else f"{len(stores)} others",
        lambda stores: str(len(stores)),
    )
    texts = ["  ".join(f"{sign} {way(stores)}" for sign, stores in marked) for way in ways]
    others = next((text for text in texts if len(text) <= room), texts[-1])
    lines = [row.store, f"{value}{'°' if row.near_floor else ''}"]
    lines += [others] if others else []
    for at, text in enumerate(lines):
        height = y + 0.5 + 0.28 * (at - (len(lines) - 1) / 2)
        axis.text(x + 0.5, height, text, fontsize=points, **look)


def level_figure(
    summary: pd.DataFrame,
    levels: dict[str, str],
    panels: Sequence[str],
    results: Results,
    label: str,
    *lines: str,
    columns: int = 2,
    bounds: Mapping[str, float | None] = MappingProxyType({}),
) -> Figure:
    """Draw one row per store and one marker per level: medians over the trials, with their range as
    a line.

    `summary` is the result of over_trials() by panel, store and level. `levels` maps each level to
    its name in the legend. `panels` gives the order of the panels. `label` names the axis of
    values, which is logarithmic and the same in all panels. `bounds` has the values of
    Results.bound() by panel.
    """
    stores = [store for store in results.stores() if store in set(summary.store)]
    depth = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        depth,
        min(columns, len(panels)),
        figsize=(7, 0.7 + depth * (0.4 + 0.145 * len(stores))),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes.flat, panels, strict=False):
        own = summary[summary.panel == panel]
        for k, (level, name) in enumerate(levels.items()):
            rows = own[own.level == level].set_index("store").reindex(list(stores))
            colour, marker = LEVEL_STYLES[k % len(LEVEL_STYLES)]
            places = np.arange(len(stores)) + (k - (len(levels) - 1) / 2) * 0.8 / len(levels)
            handles[name] = draw_points(
                axis,
                places,
                rows,
                across=True,
                color=colour,
                marker=marker,
                linestyle="none",
                markersize=3 if marker != "|" else 5,
                elinewidth=0.7,
            )
            if "near_floor" in rows:
                near = rows.near_floor.eq(True)  # False for stores without a row
                hollow(axis, rows["median"], places, near, colour, marker)
            if "cooled" in rows:
                ring(axis, rows["median"], places, rows.cooled.eq(True))
        draw_bound(axis, bounds.get(panel), upright=True)
        axis.set_title(panel)
        axis.set(xscale="log", ylim=(len(stores) - 0.5, -0.5))
        axis.set_yticks(range(len(stores)), stores, fontsize=6)
        axis.set_yticks(np.arange(len(stores) - 1) + 0.5, minor=True)
        axis.grid(visible=False, axis="y")
        axis.grid(which="minor", axis="y", color="#dddddd", linewidth=0.5)
        axis.tick_params(axis="y", length=0)
        low, high = summary.low.min(), summary.high.max()
        log_ticks(axis, low, high)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel(label)
    legend(figure, handles)
    foot(figure, results, *lines)
    return figure
