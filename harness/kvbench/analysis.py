"""What the notebooks share: reading results, choosing the best, and the look of the figures."""

import ast
import io
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import yaml
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from kvbench import BadInput, one_line, write_whole
from kvbench.grid import (
    CACHE,
    COMPRESSIBILITY,
    COMPRESSION,
    DEFAULT,
    DURABILITY,
    KEY_SIZE,
    LEVELS,
    UNCAPPED,
    RecordSize,
    format_bytes,
    parse_bytes,
)
from kvbench.histogram import LOG_WIDTH
from kvbench.loop import BATCH_BYTES, BATCH_RECORDS
from kvbench.machine import FSYNC_BYTES
from kvbench.meter import INTERVAL
from kvbench.noise import SPREAD, unsteady
from kvbench.plan import CHURN_SHARE, SAMPLES
from kvbench.results import read_tables
from kvbench.worker import RATIO_BLOCK
from kvbench.workload import ROUNDS

LEGEND_COLUMNS = 8
RULE = 36  # dashes at most below a table's column
FOOT_CHARACTERS = 150  # that a line below a figure holds
WARM = 0.95  # of a store's files in the page cache: less is named where it occurs
TIE = 0.05  # stores within 5 % of the best are as good as it
LINES = "|x+1234"  # markers that enclose nothing
FLOORS = 3  # times that lie within so many of the harness's own are marked

# A letter, a colour and a marker for each store. The first seven have the colours of Okabe and Ito,
# which colour-blind readers tell apart; stores of one engine share a colour and differ in marker.
STORES = {
    "flat": ("F", "#0072B2", "o"),
    "nested": ("N", "#56B4E9", "s"),
    "leveldb": ("L", "#D55E00", "^"),
    "hyperleveldb": ("Lh", "#D55E00", "<"),
    "basho": ("Lb", "#D55E00", ">"),
    "rocksdb": ("R", "#E69F00", "v"),
    "lmdb": ("M", "#009E73", "D"),
    "bdb": ("B", "#CC79A7", "P"),
    "bdb-hash": ("Bh", "#CC79A7", "p"),
    "sqlite": ("S", "#999999", "X"),
    "kyoto-tree": ("K", "#A89F00", "h"),
    "kyoto-hash": ("Kh", "#A89F00", "8"),
    "wiredtiger-btree": ("W", "#5E3C99", "d"),
    "wiredtiger-lsm": ("Wl", "#5E3C99", "*"),
    "tkrzw-tree": ("T", "#8C510A", "1"),
    "tkrzw-hash": ("Th", "#8C510A", "2"),
    "tokyocabinet-tree": ("C", "#1B4F4F", "3"),
    "tokudb": ("U", "#C51B7D", "4"),
    "gdbm": ("G", "#444444", "+"),
    "null": ("0", "#000000", "."),
}


def root() -> Path:
    """The repository's root: paths in the notebooks are relative to it."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "_quarto.yml").exists():
            return folder
    raise BadInput(f"{here}: not inside the repository (no _quarto.yml above)")


def parameter_folder(name: str, given: object) -> Path:
    """The folder that the parameter `name` gives, from the repository's root."""
    fit = isinstance(given, str) and given and "\0" not in given
    path = root() / str(given) if fit else None
    try:
        if path is not None and (path.is_dir() or not path.exists()):
            return path
    except OSError:  # too long, say
        pass
    raise BadInput(f"{name}: {given!r} is no folder")


def parameter_table(
    name: str, given: object, file: str, command: str, columns: Mapping[str, type]
) -> pd.DataFrame:
    """The `columns`, each of its type, of the CSV `file` in the folder that the parameter `name`
    gives; `command` makes it."""
    path = parameter_folder(name, given) / file
    if not path.exists():
        raise BadInput(f"{path}: not there; run `{command}`")
    try:
        table = pd.read_csv(path, usecols=list(columns), dtype=dict(columns), keep_default_na=False)
    except (OSError, ValueError) as error:  # pandas' own errors are of the second kind
        raise BadInput(f"{path}: {one_line(str(error))}") from error
    if table.empty:
        raise BadInput(f"{path}: no rows; run `{command}`")
    return table


def check_parameters(*known: str) -> None:
    """Refuse a parameter that the notebook does not have; papermill only prints a notice.

    Looks at the cells that ran before this one, the parameters' own and papermill's.
    """
    from IPython import get_ipython  # noqa: PLC0415

    sources = takewhile(
        lambda text: "check_parameters" not in text, get_ipython().user_ns["In"][1:]
    )
    given = {
        target.id
        for source in sources
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for name in sorted(given - set(known)):
        raise BadInput(f"unknown parameter '{name}'; allowed: {', '.join(known)}")


class Results:
    """Collected results: `cells` has a row a measured trial, `operations` one a trial and
    operation with the factors of its cell; `machines` one a machine.

    Of the ways to reach a store only those of `access` are taken: stores are compared from C. They
    are compared at one level of durability, memory and the like, but for the factors in `varying`.
    `parameter` is the notebook's that gives the folder.
    """

    def __init__(
        self,
        folder: str,
        access: Sequence[str] = ("c",),
        varying: Sequence[str] = (),
        parameter: str = "results",
    ) -> None:
        path = parameter_folder(parameter, folder)
        self.folder = Path(folder)
        tables = {name: table.to_pandas() for name, table in read_tables(path).items()}
        self.machines: pd.DataFrame = tables["machines"]
        cells = tables["cells"]
        self.all_cells: pd.DataFrame = cells[cells.access.isin(access)]
        self.cells = self.all_cells[self.all_cells.status == "ok"].copy()
        if self.cells.empty:
            raise BadInput(f"{folder}: no cell was measured with access {' or '.join(access)}")
        if len(self.cells.machine.unique()) > 1:
            raise BadInput(f"{folder}: results of several machines; collect each by itself")
        for factor in set(LEVELS) - {"options"} - set(varying):
            found = sorted(self.cells[factor].unique())
            if len(found) > 1:
                raise BadInput(
                    f"{folder}: results of several levels of {factor}: {', '.join(found)}; "
                    "collect each by itself"
                )
        peaks = self.cells.memory_anonymous_bytes + self.cells.memory_file_bytes
        self.cells["memory_bytes"] = peaks
        self.cells["space_efficiency"] = self.cells.live_bytes / self.cells.disk_bytes
        operations = tables["operations"].assign(mean_ns=lambda rows: rows.sum_ns / rows.n)
        where = ["cell", "store", "access", "binding"]
        self.unsteady = unsteady(self.cells, tables["operations"])
        factors = [*where, "record_size", "records", "compressibility", *LEVELS, "trial", "seed"]
        rows = self.cells[[*factors, "floor_ns"]].merge(operations, on="cell", validate="1:m")
        self.operations = rows.assign(near_floor=rows.mean_ns < FLOORS * rows.floor_ns)

    @property
    def machine(self) -> Any:
        """The row of the machine that measured."""
        return self.machines.set_index("machine").loc[self.cells.machine.iloc[0]]

    @property
    def trials(self) -> int:
        """The most trials that any cell has."""
        return int(self.cells.trial.nunique())

    def sizes(self) -> list[str]:
        """The record sizes: those of one size first, then the ranges, each in order."""
        sizes = [RecordSize.parse(size) for size in self.cells.record_size.unique()]
        return [str(size) for size in sorted(sizes, key=lambda s: (s.low != s.high, s))]

    def counts(self) -> list[int]:
        return sorted(int(count) for count in self.cells.records.unique())

    def stores(self) -> list[str]:
        present = set(self.cells.store)
        return [store for store in STORES if store in present] + sorted(present - set(STORES))

    def level(self, factor: str) -> list[str]:
        """The levels of a factor, in the order of their definition or size."""
        order: dict[str, Sequence[str]] = {"durability": DURABILITY, "compression": COMPRESSION}
        found = set(self.cells[factor])
        if factor in order:
            return [level for level in order[factor] if level in found]
        names = sorted(found - {DEFAULT, UNCAPPED}, key=parse_bytes)
        return [level for level in (DEFAULT, UNCAPPED) if level in found] + names

    def levels(self) -> str:
        """Durability, memory, compression and the page cache, in words."""
        names = {
            "durability": "durability",
            "memory": "memory budget",
            "compression": "compression",
        }
        said = []
        for factor, name in names.items():
            levels = self.level(factor)
            shipped = levels == [DEFAULT]
            said.append(f"{name} {'as shipped' if shipped else ', '.join(levels)}")
        own = self.cells[self.cells.options != ""]
        for options, rows in own.groupby("options"):
            said.append(f"{', '.join(sorted(set(rows.store)))} with {options}")
        caps = self.level("memory_max")
        if caps != [UNCAPPED]:
            said.append(f"cap on all memory {', '.join(caps)}")
        return "; ".join(
            said + [self._cache(state) for state in CACHE if state in set(self.cells.cache)]
        )

    def _cache(self, state: str) -> str:
        """The state of the page cache, as mincore saw it."""
        rows = self.cells[self.cells.cache == state]
        if (rows.memory_max == UNCAPPED).any():
            rows = rows[rows.memory_max == UNCAPPED]  # a cap is there to keep the cache small
        if state == "cold":
            how = " or ".join(sorted(set(rows.eviction)))
            return f"page cache cold (by {how}, at most {rows.cached_share.max():.1%} left)"
        if rows.cached_share.isna().any():
            return "page cache warm"
        least = rows.groupby("store").cached_share.min()
        less = [f"{name} {share:.0%}" for name, share in least[least < WARM].items()]
        rest = f"; less: {', '.join(less)}" if less else ""
        return f"page cache warm ({WARM:.0%} of a store's files in it or more{rest})"

    def _floor(self) -> str:
        """What the harness reports of an operation that does nothing, and what is close to that."""
        if self.cells.floor_ns.isna().any():
            return "the harness's floor was not measured with them"
        own = self.cells.groupby("access").floor_ns.median()
        floors = " and ".join(
            f"{format_ns(floor)}{' from Python' if access == 'python' else ''}"
            for access, floor in own.items()
        )
        near = self.operations[self.operations.operation != "load"].near_floor.any()
        marks = "hollow, or with a °: within" if near else "no time is within"
        return f"floor of the harness {floors} an operation ({marks} {FLOORS} times that)"

    def source(self) -> str:
        if self.folder.parts[:1] == ("data",):
            return f"{self.folder.name.capitalize()} data"
        return f"Results of {self.folder.as_posix()}"

    def conditions(self, settings: bool = True) -> str:
        """Where and how the figures were measured, for the foot of each; without the levels of the
        cells where the figure says them itself."""
        machine, memory = self.machine, self.machine.memory_bytes
        data = self.cells.live_bytes.max()
        failed = (self.all_cells.status == "failed").sum()
        trials = f"{self.trials} trial{'s' if self.trials > 1 else ''}"
        some = "1 cell failed and is" if failed == 1 else f"{failed} cells failed and are"
        lost = f"; {some} missing here" if failed else ""
        rounds = set(self.cells.workload) == {ROUNDS}
        samples = f", at least {SAMPLES:,} operations of each kind a trial" if rounds else ""
        levels = f"; {self.levels()}" if settings else ""
        shaky = len(self.unsteady)
        if shaky:
            lost += (
                f"; {shaky} mean times unsteady (trials differ more than {SPREAD:g}-fold; "
                "where they matter, measure again on a quieter machine)"
            )
        return (
            f"{self.source()}: {trials} a cell{samples}{levels}{lost}; {self._floor()}.\n"
            f"{machine.cpu}, {machine.cores} cores, {memory / 2**30:.1f} GiB of memory (largest"
            f" data {data / 2**20:.0f} MiB, {data / memory:.2%} of it);"
            f" {machine.file_system}, fsync {machine.fsync_ms:.2f} ms; {machine.kernel}."
        )


def over_trials(rows: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Median and range of a value over the trials of each group, and for times, whether most of
    the trials lie near the harness's floor."""
    grouped = rows.groupby(list(by), observed=True)
    summary = grouped[value].agg(["median", "min", "max", "count"])
    if "near_floor" in rows:
        summary["near_floor"] = grouped.near_floor.mean() >= 0.5
    return summary.reset_index()


def best(rows: pd.DataFrame, value: str, by: Sequence[str], largest: bool = False) -> pd.DataFrame:
    """The best store of each group by its median over trials, and the stores that tie with it.

    A store ties when its median is within 5 % of the best one's, or when the ranges of the two
    over their trials overlap. One trial gives no range, so there only the 5 % count.
    """
    summary = over_trials(rows, value, [*by, "store"])
    found = []
    for key, group in summary.groupby(list(by), observed=True):
        order = group.sort_values(["median", "store"], ascending=[not largest, True])
        first, others = order.iloc[0], order.iloc[1:]
        close = (others["median"] - first["median"]).abs() <= TIE * abs(first["median"])
        overlap = (others["min"] <= first["max"]) & (others["max"] >= first["min"])
        overlap &= (others["count"] > 1) & (first["count"] > 1)
        ties = tuple(others.store[close | overlap])
        near = bool(first.get("near_floor", False))
        found.append((*key, first.store, first["median"], ties, near))
    return pd.DataFrame(found, columns=[*by, "store", "value", "ties", "near_floor"])


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """In the largest unit that leaves at least 1, with two or three significant digits."""
    unit, size = next((u for u in units if value >= u[1] * 0.9995), units[-1])
    number = value / size
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def format_ns(nanoseconds: float) -> str:
    return _scaled(nanoseconds, (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)))


def format_size(count: float) -> str:
    return _scaled(count, (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)))


def format_rate(rate: float) -> str:
    """With three significant digits, as the sources print theirs."""
    return f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else f"{rate:.3g}"


def format_range(rows: pd.Series, digits: int = 2) -> str:
    """The median of the trials, and their range."""
    if rows.empty:
        return ""
    low, middle, high = (f"{x:.{digits}f}" for x in (rows.min(), rows.median(), rows.max()))
    return middle if low == high else f"{middle} ({low} to {high})"


def published(name: str) -> pd.DataFrame:
    """A table of data/published, figures as numbers where they are any."""
    return pd.read_csv(root() / "data" / "published" / f"{name}.csv", keep_default_na=False)


def format_share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def format_count(count: int) -> str:
    for unit, size in (("M", 10**6), ("k", 10**3)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return str(count)


def use_style() -> None:
    """Figures as SVG whose bytes depend on nothing but the data and the locked packages."""
    from matplotlib_inline.backend_inline import set_matplotlib_formats  # noqa: PLC0415

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
    set_matplotlib_formats("svg", metadata={"Date": None})  # type: ignore[no-untyped-call]


def pairs(rows: Sequence[Any], columns: Sequence[Any]) -> Iterable[Any]:
    """Every row with every column, each with its position."""
    return product(enumerate(rows), enumerate(columns))


def colour(store: str) -> str:
    return STORES[store][1] if store in STORES else "#444444"


def letter(store: str) -> str:
    return STORES[store][0] if store in STORES else store


def marker(store: str) -> str:
    return STORES[store][2] if store in STORES else "x"


def tint(store: str) -> tuple[float, float, float]:
    """The store's colour, light enough for text upon it."""
    red, green, blue = (0.55 + 0.45 * part for part in to_rgb(colour(store)))
    return red, green, blue


def dodge(k: int, count: int) -> float:
    """How far to move the k-th of `count` stores aside, so that none hides another."""
    return (k - (count - 1) / 2) * min(0.1, 0.8 / count)


def legend(figure: Figure, handles: dict[str, Any]) -> None:
    """The stores above the figure, in as many lines as they need."""
    columns = -(-len(handles) // -(-len(handles) // LEGEND_COLUMNS))  # lines of about one length
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=columns,
        frameon=False,
    )


def foot(figure: Figure, results: Results, *lines: str, settings: bool = True) -> None:
    """The conditions below a figure."""
    said = (*lines, *results.conditions(settings).splitlines())
    text = "\n".join(part for line in said for part in textwrap.wrap(line, FOOT_CHARACTERS))
    figure.text(0.01, -0.01, text, ha="left", va="top", fontsize=5.5, color="#333333", wrap=False)


def hollow(axis: Any, x: Any, y: Any, near: Any, colour: str, marker: str) -> None:
    """Draw again, without their filling, the markers of what is near the harness's floor; those
    made of lines, which have none, as circles."""
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


def best_figure(panels: dict[str, tuple[pd.DataFrame, Any]], results: Results) -> Figure:
    """A table a panel: rows are record sizes, columns compressibility x record count.

    `panels` maps a title to what best() found, by record_size, compressibility and records, and
    the function that formats its values.
    """
    sizes, counts = results.sizes(), results.counts()
    present = set(results.cells.compressibility)
    kinds = [kind for kind in COMPRESSIBILITY if kind in present]
    columns = [(kind, count) for kind in kinds for count in counts]
    width = max(4.6, 1.0 + 0.6 * len(columns))
    height = len(panels) * (0.36 + 0.19 * len(sizes)) + 0.3
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(width, height), squeeze=False, layout="constrained"
    )
    for axis, (title, (found, show)) in zip(axes[:, 0], panels.items(), strict=True):
        axis.set(xlim=(0, len(columns)), ylim=(len(sizes), 0))
        axis.set_title(title, loc="left", fontweight="bold", pad=14 if axis is axes[0, 0] else 4)
        axis.set_xticks(np.arange(len(columns)) + 0.5, [format_count(c) for _, c in columns])
        axis.set_yticks(np.arange(len(sizes)) + 0.5, sizes)
        axis.tick_params(length=0, pad=1)
        axis.grid(visible=False)
        for position, kind in enumerate(kinds):
            middle = (position + 0.5) * len(counts)
            if axis is axes[0, 0]:
                axis.text(middle, -0.15, kind, ha="center", va="bottom", fontsize=7)
            axis.axvline(position * len(counts), color="black", linewidth=1)
        for row in found.itertuples():
            x, y = columns.index((row.compressibility, row.records)), sizes.index(row.record_size)
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=tint(row.store), edgecolor="white"))
            middle = 0.31 if row.ties else 0.5
            axis.text(
                x + 0.5,
                y + middle,
                f"{row.store} {show(row.value)}{'°' if row.near_floor else ''}",
                ha="center",
                va="center",
                fontsize=5,
            )
            if row.ties:
                ties = "= " + " ".join(letter(store) for store in row.ties)
                axis.text(
                    x + 0.5, y + 0.77, ties, ha="center", va="center", fontsize=4.6, color="#222222"
                )
    axes[-1, 0].set_xlabel("number of records")
    figure.supylabel("record size", fontsize=7)
    letters = ", ".join(f"{letter(store)} {store}" for store in results.stores())
    foot(figure, results, f"Letters after = are ties: {letters}. Blank: not measured.")
    return figure


# A colour and a marker for each level of a factor; colours of Okabe and Ito.
LEVEL_STYLES = (
    ("#000000", "|"), ("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"), ("#CC79A7", "^"),
    ("#E69F00", "v"), ("#56B4E9", "P"),
)  # fmt: skip


def level_figure(
    summary: pd.DataFrame,
    levels: dict[str, str],
    panels: Sequence[str],
    results: Results,
    label: str,
    *lines: str,
    columns: int = 2,
) -> Figure:
    """A row a store, a marker a level: medians over the trials, with their range as a line.

    `summary` is what over_trials() returned with the columns panel, store and level; `levels` maps
    each level to its name in the legend, `panels` are in their order, `label` is of the axis of
    values, logarithmic and alike in all panels.
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
            rows = own[own.level == level].set_index("store").reindex(stores)
            colour, marker = LEVEL_STYLES[k % len(LEVEL_STYLES)]
            places = np.arange(len(stores)) + (k - (len(levels) - 1) / 2) * 0.8 / len(levels)
            handles[name] = axis.errorbar(
                rows["median"],
                places,
                xerr=[rows["median"] - rows["min"], rows["max"] - rows["median"]],
                color=colour,
                marker=marker,
                linestyle="none",
                markersize=3 if marker != "|" else 5,
                elinewidth=0.7,
            )
            if "near_floor" in rows:
                near = rows.near_floor.eq(True)  # not for the stores without a row
                hollow(axis, rows["median"], places, near, colour, marker)
        axis.set_title(panel)
        axis.set(xscale="log", ylim=(len(stores) - 0.5, -0.5))
        axis.set_yticks(range(len(stores)), stores, fontsize=6)
        axis.set_yticks(np.arange(len(stores) - 1) + 0.5, minor=True)
        axis.grid(visible=False, axis="y")
        axis.grid(which="minor", axis="y", color="#dddddd", linewidth=0.5)
        axis.tick_params(axis="y", length=0)
        low, high = summary["min"].min(), summary["max"].max()
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel(label)
    legend(figure, handles)
    foot(figure, results, *lines)
    return figure


def as_table(frame: pd.DataFrame, **options: Any) -> str:
    """Markdown without the index, its rules no longer than RULE: by them renderers share the page
    among columns that are too wide together, and a long text can wrap where a word can't."""
    head, rules, *rows = str(frame.to_markdown(index=False, **options)).split("\n")
    return "\n".join([head, re.sub(f"-{{{RULE},}}", "-" * RULE, rules), *rows])


def best_table(found: dict[str, tuple[pd.DataFrame, Any]], results: Results) -> str:
    """What best_figure() shows, as a Markdown table."""
    lines = [
        "| measure | record size | records | data | best | value | ties |",
        "|---|---|--:|---|---|--:|---|",
    ]
    for title, (rows, show) in found.items():
        order = rows.assign(size=rows.record_size.map(results.sizes().index))
        for row in order.sort_values(["size", "records", "compressibility"]).itertuples():
            cells = (
                title.split(":")[0],
                row.record_size,
                f"{row.records:,}",
                row.compressibility,
                row.store,
            )
            lines.append("| " + " | ".join((*cells, show(row.value), ", ".join(row.ties))) + " |")
    return "\n".join(lines)


def method() -> dict[str, str]:
    """The constants of the harness that the paper's method section states."""
    return {
        "key_size": format_bytes(KEY_SIZE),
        "samples": f"{SAMPLES:,}",
        "churn": f"{1 / CHURN_SHARE:.0%}",
        "bin_width": f"{np.expm1(LOG_WIDTH):.0%}",
        "tie": f"{TIE:.0%}",
        "spread": f"{SPREAD:g}",
        "memory_interval": f"{INTERVAL * 1000:.0f} ms",
        "ratio_block": format_bytes(RATIO_BLOCK),
        "batch_records": f"{BATCH_RECORDS:,}",
        "batch_bytes": format_bytes(BATCH_BYTES),
        "fsync_bytes": format_bytes(FSYNC_BYTES),
    }


def _publish_folder() -> Path | None:
    """Where figures and variables go: nowhere, unless KVBENCH_FIGURES names a folder."""
    name = os.environ.get("KVBENCH_FIGURES")
    if not name:
        return None
    folder = root() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def publish_figure(figure: Figure, name: str, png: bool = False) -> None:
    """Save a figure as SVG, and as PNG for where SVG can't be shown.

    The layout is settled once, so that the notebook's own picture is the same to the byte whether
    the figure was saved before or not.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    folder = _publish_folder()
    if folder is not None:
        _save(figure, folder / f"{name}.svg", metadata={"Date": None})
        if png:
            _save(figure, folder / f"{name}.png", dpi=200)


def _save(figure: Figure, path: Path, **how: Any) -> None:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], bbox_inches="tight", **how)
    write_whole(path, drawn.getvalue())


def publish_text(text: str, name: str) -> None:
    folder = _publish_folder()
    if folder is not None:
        write_whole(folder / name, text.encode())


def publish_variables(name: str, values: dict[str, Any]) -> None:
    """Save values for the paper's text, below the key `name`."""
    plain = json.loads(json.dumps({name.replace("-", "_"): values}))
    publish_text(yaml.safe_dump(plain, allow_unicode=True, sort_keys=True), f"{name}.yml")


def shares(found: pd.DataFrame, stores: Iterable[str]) -> dict[str, dict[str, Any]]:
    """For each store: in how many fields it is best or ties, and as a share of all fields."""
    counts = {
        store: int((found.store == store).sum() + sum(store in ties for ties in found.ties))
        for store in stores
    }
    return {store: {"fields": n, "share": f"{n / len(found):.0%}"} for store, n in counts.items()}


def leaders(
    panels: dict[str, tuple[pd.DataFrame, Any]], stores: Sequence[str]
) -> dict[str, dict[str, str]]:
    """For each operation the store that is best or ties most often, and how often."""
    found = {}
    for title, (rows, _) in panels.items():
        counts = shares(rows, stores)
        store = max(counts, key=lambda name: counts[name]["fields"])
        found[title.split(":")[0]] = {"store": store, "share": counts[store]["share"]}
    return found
