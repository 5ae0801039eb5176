"""The cost of the harness itself: the measures of `make bench`."""

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from kvbench.cell.factors import OPERATIONS
from matplotlib.figure import Figure

from study.common import figures, formats, publish
from study.common.fields import each, over_trials, ranked
from study.common.results import FLOORS, Results
from study.common.stores import colour

COLUMNS = (
    dict.fromkeys(["group", "measure", "unit", "interval", "goal", "met", "note"], str)
    | dict.fromkeys(["cpu", "kernel", "compiler", "revision"], str)
    | dict.fromkeys(["value", "low", "high"], float)
    | dict.fromkeys(["n", "cores"], int)
)
NULL, LOOP = "time that a null operation is told to take", "timed loop on the null store, 1 thread"
CLOCK = "two clock reads, 1 thread"
BARS = {
    "a null operation, as reported": (NULL, "#0072B2"),
    "two clock reads": (CLOCK, "#777777"),
    "the whole loop, of which the clock sees the call alone": (LOOP, "#777777"),
}
LOOK_UP, OWN = " without the look-up", " by the bare loop"
COUNTED = "instructions"  # the group and the unit of callgrind's counts
SIDES = {
    "harness": "harness", "bare loop": "hand-written loop", "values": "more for values",
    "memory": "more in malloc", "overhead": "overhead",
}  # fmt: skip


class Speed:
    """The table of measures, and parts of it. Four parts have throughput ratios of the harness:
    `loops`, over loops written by hand; `blind`, over those that do not look records up; `peers`,
    over benchmarks by others; and `by_hand`, of hand-written loops over those benchmarks. `counted`
    has the instructions of each engine."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table
        self.value = table.set_index("measure")["value"]
        self.floor = self.value[NULL]
        bare, peer = (table[table.group == group] for group in ("bare loop", "peer"))
        blind, by_hand = bare.measure.str.endswith(LOOK_UP), peer.measure.str.endswith(OWN)
        self.loops, self.blind = bare[~blind], bare[blind]
        beside_peers = table.measure.str.contains(" of ", regex=False)
        self.counted = table[(table.group == COUNTED) & ~beside_peers]
        self.peers, self.by_hand = peer[~by_hand], peer[by_hand]
        least, most = pd.concat([bare.n, peer.n]).agg(["min", "max"])
        self.rounds = f"{most}" if least == most else f"{least} to {most}"

    def programs(self) -> str:
        """Return the benchmarks by others, with the engines that each ran, as text."""
        named = self.peers.measure.str.extract(r"(?P<engine>.*): .* of (?P<program>.*)")
        return ", ".join(
            f"{program} ({', '.join(dict.fromkeys(engines))})"
            for program, engines in named.groupby("program").engine
        )

    def shown(self) -> pd.DataFrame:
        """Return the table as text, without the instructions of engines."""
        number, table = formats.number, self.table.drop(self.counted.index)
        ends = [
            "" if row.n == 1 else f"{number(row.low)} to {number(row.high)}" for row in each(table)
        ]
        value = table["value"].map(number)
        shown = table[["group", "measure", "unit"]].assign(value=value, interval=ends)
        return shown.assign(values=table.n, goal=table.goal, **{"": table.met})

    def instructions(self) -> pd.DataFrame:
        """Return the instructions per operation: one row per engine and operation, one column for
        each of SIDES. Empty if none were counted."""
        names = self.counted.measure.str.extract(r"(?P<engine>.*): (?P<operation>.*), (?P<side>.*)")
        counted = names.assign(value=self.counted["value"]).dropna()
        index = ["engine", "operation"]
        wide = counted.pivot_table("value", index, "side", sort=False)
        return wide.reindex(columns=list(SIDES))


def instruction_table(speed: Speed) -> str:
    """Return Speed.instructions() as a Markdown table, or a sentence on why nothing was counted."""
    counted = speed.instructions()
    if counted.empty:
        return "; ".join(speed.counted.note) or formats.NO_ROWS
    shown = counted.map(lambda value: "" if pd.isna(value) else f"{round(value):,}")
    return formats.table(shown.rename(columns=SIDES).reset_index(), disable_numparse=True)


def instruction_variables(speed: Speed) -> dict[str, Any]:
    """Return what the paper says of the instructions; empty if none were counted."""
    found = speed.instructions()
    if found.empty:
        return {}
    beyond = found.dropna(subset="overhead")
    goals = speed.counted[speed.counted.goal != ""]
    worst = beyond.reset_index().iloc[beyond.overhead.argmax()]
    repeated = speed.counted[speed.counted.measure.str.endswith(", harness")]
    return {
        "goal": goals.goal.iloc[0],
        "count": len(goals),
        **publish.pick(verdicts("goal", goals), "goal_met goal_missed"),
        "most": {
            "value": f"{beyond.overhead.max():,.0f}",
            "of": f"{worst.operation} of {worst.engine}",
        },
        "median": f"{beyond.overhead.median():,.0f}",
        "made": f"{found['values']['null', 'update']:,.0f}",
        "checked": f"{found.xs('get', level='operation')['values'].max():,.0f}",
        "repeat": f"{100 * (repeated.high / repeated.low - 1).max():.1g}%",
        "revision": speed.counted.revision.iloc[0],
    }


def verdicts(name: str, part: pd.DataFrame) -> dict[str, int]:
    """Return how many goals are met, missed and open."""
    return {f"{name}_{met}": int((part.met == met).sum()) for met in ("met", "missed", "open")}


def fastest(data: Results) -> pd.DataFrame:
    """Return, for each operation, the row with the least median over all stores, sizes and
    counts."""
    timed = data.operations[data.operations.operation.isin(OPERATIONS)]
    data.require(timed, f"{formats.listed(OPERATIONS, 'or')} at durability process")
    by = ["operation", "store", "record_size", "records", "compressibility"]
    cells = ranked(over_trials(timed, "mean_ns", by))
    return cells.loc[cells.groupby("operation")["median"].idxmin()].set_index("operation")


def draw(speed: Speed, best: pd.DataFrame) -> Figure:
    """Draw two charts: at the top the harness's own times and the fastest stores, at the bottom its
    throughput compared with other programs."""
    rows = [*speed.loops.measure, *speed.peers.measure]
    bars = len(BARS) + len(best)
    figure, (top, low) = plt.subplots(
        2,
        1,
        figsize=(7, 1.6 + 0.14 * (len(rows) + bars)),
        height_ratios=(bars + 1, len(rows)),
        layout="constrained",
    )
    _draw_times(top, speed, best)
    _draw_ratios(low, speed, rows)
    return figure


def _draw_times(axis: Any, speed: Speed, best: pd.DataFrame) -> None:
    names = list(BARS)
    for y, (measure, ink) in enumerate(BARS.values()):
        axis.barh(y, speed.value[measure], color=ink, height=0.7)
    for operation, row in best.iterrows():
        axis.barh(len(names), row["median"], color=colour(row.store), height=0.7)
        names.append(f"{operation}: {row.store}, {row.record_size}")
    axis.axvline(FLOORS * speed.floor, color="black", linestyle="--", linewidth=0.8)
    axis.set(xscale="log", xlabel=f"time [ns]; dashed: {FLOORS} times the floor", xlim=(10, None))
    axis.set_yticks(range(len(names)), names, fontsize=6)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")


def _draw_ratios(axis: Any, speed: Speed, rows: list[str]) -> None:
    for kind, part, ink, mark, aside in (
        ("harness / hand-written loop", speed.loops, "#0072B2", "o", -0.2),
        ("harness / hand-written loop that looks nothing up", speed.blind, "#D55E00", "s", 0.2),
        ("harness / a benchmark by others", speed.peers, "#009E73", "D", -0.2),
        ("hand-written loop / a benchmark by others", speed.by_hand, "#777777", "x", 0.2),
    ):
        plain = part.measure.str.removesuffix(LOOK_UP).str.removesuffix(OWN)
        places = [rows.index(name) + aside for name in plain]
        figures.draw_points(
            axis,
            places,
            part.rename(columns={"value": "median"}),
            across=True,
            color=ink,
            marker=mark,
            linestyle="none",
            markersize=3,
            elinewidth=0.9,
            label=kind,
        )
        is_open = list(part.met == "open")
        figures.hollow(axis, list(part["value"]), places, is_open, ink, mark)
    border, end = len(speed.loops) - 0.5, len(rows) - 0.5
    axis.vlines(0.97, -0.5, border, color="#0072B2", linestyle="--", linewidth=0.8)
    axis.vlines((0.95, 1.05), border, end, color="#009E73", linestyle="--", linewidth=0.8)
    axis.axvline(1, color="black", linewidth=0.6)
    axis.set(xlabel="throughput / throughput")
    figures.name_rows(axis, rows)
    axis.legend(frameon=False, fontsize=6, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
