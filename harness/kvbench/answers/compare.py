"""Finds what changed between two results folders, cell by cell, beyond the noise of their trials.

Each observation is the log of a trial's mean time. Each operation of each cell that both folders
have is compared by Welch's t-test (B. L. Welch, Biometrika 34:1/2, 1947). Changes are selected at a
false discovery rate of 5% (Y. Benjamini and Y. Hochberg, JRSS B 57:1, 1995); if nothing changed,
the chance of reporting any change is 5%. The intervals of the selected ratios have the same false
coverage rate (Y. Benjamini and D. Yekutieli, JASA 100:469, 2005).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from kvbench.common.messages import BadInput
from kvbench.experiment.factors import CONDITION, NOT_STATED
from kvbench.results.frames import Frames, machine_of, refuse_several

RATE = 0.05  # of false discoveries
KEY = [*CONDITION, "access", "operation"]
ALWAYS = ["store", "record_size", "records", "durability", "operation"]  # in every table
DRIFT = (
    "The folders' trials were not measured in turn: where the machine became faster or slower "
    "meanwhile, that counts as change. Measure them again in turn, a trial each, by sweep --again."
)
FOLDERS = ("first", "second")
CHANGED = ["engine_version", "binding_version", "revision"]


class Side:
    """One of the two folders to compare. `cells` are the measured cells, and `rows` their
    operations that state a mean time. Both have the columns of Frames, but `store` is the full
    name, and `rows` has the natural log of mean_ns as `log`. Raises BadInput if no cell was
    measured or no mean time is stated."""

    def __init__(self, folder: Path) -> None:
        frames = Frames.read(folder)
        self.cells = frames.cells[frames.cells.status == "ok"]
        if self.cells.empty:
            raise BadInput(f"{folder}: no cell was measured")
        if frames.average != "mean":
            raise BadInput(f"{folder}: no mean times; medians cannot be compared")
        refuse_several(frames.operations, folder, (), "compare each by itself")
        self.cells = self.cells.assign(store=self.cells.full_name)
        rows = frames.operations.dropna(subset="mean_ns")
        self.rows = rows.assign(store=rows.full_name, log=np.log(rows.mean_ns))
        self.begun = self.cells.groupby("trial").started.min()
        self.machine = machine_of(self.cells, frames.machines)

    def trials(self) -> "pd.Series[Any]":
        """The logs of the trials' mean times, as a list for each KEY."""
        found: pd.Series[Any] = self.rows.groupby(KEY)["log"].agg(list)
        return found


def compare(before: Side, after: Side) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two frames: a row for each store, over all its cells that both folders have, and a row for
    each operation of each cell. Their columns: before and after (ns, geometric mean times), ratio
    (1, after over before), low and high (1, its interval), trials_before and trials_after, and
    changed (bool). Changed rows come first, then by falling ratio. Raises BadInput if nothing can
    be compared."""
    both = pd.concat({"before": before.trials(), "after": after.trials()}, axis=1).dropna()
    enough = both[(both.before.map(len) > 1) & (both.after.map(len) > 1)]
    if enough.empty:
        raise BadInput(_why_not(before.rows, after.rows))
    whole = {
        store: [_means(rows[side]) for side in ("before", "after")]
        for store, rows in enough.groupby("store")
    }
    stores = pd.DataFrame.from_dict(whole, "index", columns=["before", "after"]).rename_axis(
        "store"
    )
    kept = stores[(stores.before.map(len) > 1) & (stores.after.map(len) > 1)]
    tests = [list(map(_test, rows.after, rows.before)) for rows in (kept, enough)]
    level = _level([test.pvalue for both in tests for test in both])
    first, second = (_table_of(*both, level) for both in zip((kept, enough), tests, strict=True))
    return first, second


def _means(logs: "pd.Series[Any]") -> list[float]:
    """The mean over all rows for each trial, up to the least number of trials of a row."""
    least = min(map(len, logs))
    found: list[float] = np.mean([trials[:least] for trials in logs], axis=0).tolist()
    return found


def _test(after: Sequence[float], before: Sequence[float]) -> Any:
    return stats.ttest_ind(after, before, equal_var=False)


def _level(chances: Sequence[float]) -> float:
    """The largest p-value at which a difference counts as a change, given all tests; 0 if none
    does."""
    adjusted = stats.false_discovery_control(np.nan_to_num(chances, nan=1.0))
    return RATE * float(np.mean(adjusted <= RATE))


def _table_of(logs: pd.DataFrame, tests: Sequence[Any], level: float) -> pd.DataFrame:
    """The comparison of each row's logs, with the columns that `compare` lists."""
    spans = [test.confidence_interval(1 - (level or RATE)) for test in tests]
    table = pd.DataFrame(
        {
            "before": np.exp(logs.before.map(np.mean)),
            "after": np.exp(logs.after.map(np.mean)),
            "ratio": np.exp(logs.after.map(np.mean) - logs.before.map(np.mean)),
            "low": np.exp([span.low for span in spans]),
            "high": np.exp([span.high for span in spans]),
            "trials_before": logs.before.map(len),
            "trials_after": logs.after.map(len),
            "changed": [bool(test.pvalue <= level) for test in tests],
        }
    ).reset_index()
    return table.sort_values(["changed", "ratio"], ascending=False, kind="stable")


def _why_not(before: pd.DataFrame, after: pd.DataFrame) -> str:
    """The reason why no operation can be compared, given the rows of both sides."""
    for name in KEY:
        levels = [sorted(map(str, set(rows[name]))) for rows in (before, after)]
        if not set(levels[0]) & set(levels[1]):
            first, second = (", ".join(level or "(empty)" for level in each[:5]) for each in levels)
            return (
                f"no cell is in both: {name} is {first} in the first folder, {second} in the second"
            )
    if before.merge(after, on=KEY).empty:
        return "no cell is in both folders: their levels differ in combination"
    return "one trial has no noise to compare with: measure two or more in both folders"


def left_out(before: Side, after: Side, cells: pd.DataFrame) -> dict[str, str]:
    """The stores that have no row in `cells`, the second frame of `compare`, with the reason."""
    reasons = {}
    for store in sorted({*before.rows.store, *after.rows.store} - {*cells.store}):
        both = [side.rows[side.rows.store == store] for side in (before, after)]
        lacking = [which for which, rows in zip(FOLDERS, both, strict=True) if rows.empty]
        reasons[store] = f"not in the {lacking[0]} folder" if lacking else _why_not(*both)
    return reasons


def differences(before: Side, after: Side) -> list[tuple[str, str, str]]:
    """The conditions that differ between the sides, each with its two values: machine, file system,
    kernel, versions of engines, revision."""
    differing = []
    for name in ("hostname", "cpu", "cores", "memory_bytes", "kernel", "file_system"):
        one, other = (_stated(side.machine.get(name)) for side in (before, after))
        if one != other:
            differing.append((name, one, other))
    for name in CHANGED:
        versions = [
            side.cells.groupby("store")[name].agg(
                lambda names: ", ".join(sorted(set(names.dropna())))
            )
            for side in (before, after)
        ]
        for store in sorted(set(versions[0].index) & set(versions[1].index)):
            one, other = versions[0][store], versions[1][store]
            if one != other:
                differing.append((f"{name} of {store}", one, other))
    return differing


def _stated(value: Any) -> str:
    return NOT_STATED if pd.isna(value) else str(value)


def _known(word: str) -> str | None:
    return None if word == NOT_STATED else word


def in_turn(before: Side, after: Side) -> bool | None:
    """Whether the trials of the two sides were interleaved, with at most two of one side in a row;
    otherwise a drift of the machine counts as a change. None if a table lacks the times."""
    order = pd.concat({"before": before.begun, "after": after.begun}).sort_values()
    if order.isna().any() or order.empty:
        return None
    sides = [side for side, _ in order.index]
    return not any(len(set(sides[at : at + 3])) == 1 for at in range(len(sides) - 2))


def shown(cells: pd.DataFrame) -> list[str]:
    """The columns of KEY that a table shows: ALWAYS, and those with several levels."""
    varying = [name for name in KEY if name not in ALWAYS and cells[name].nunique() > 1]
    return [*ALWAYS, *varying]


def report(before: Side, after: Side, stores: pd.DataFrame, cells: pd.DataFrame) -> str:
    """The differing conditions, the changes, and the stores that are left out, as Markdown."""
    parts = []
    differing = differences(before, after)
    if differing:
        table = pd.DataFrame(differing, columns=["what differs", "before", "after"])
        parts.append(table.to_markdown(index=False, disable_numparse=True))
    if in_turn(before, after) is False:
        parts.append(DRIFT)
    parts.append(_table(stores, ["store"]))
    changed = cells[cells.changed]
    parts.append(f"{len(changed)} of {len(cells)} operations of cells changed.")
    if missing := left_out(before, after, cells):
        table = pd.DataFrame(missing.items(), columns=["store that is not compared", "reason"])
        parts.append(table.to_markdown(index=False, disable_numparse=True))
    if len(changed):
        parts.append(_table(changed, shown(cells)))
    return "\n\n".join(parts)


def _table(table: pd.DataFrame, columns: Sequence[str]) -> str:
    rows = table[list(columns)].rename(columns={"record_size": "record size"})
    rows["before"], rows["after"] = table.before.map(_time), table.after.map(_time)
    spans = zip(table.ratio, table.low, table.high, strict=True)
    rows["after / before"] = [f"{x:.2f} ({low:.2f} to {high:.2f})" for x, low, high in spans]
    rows["changed"] = table.changed.map({True: "yes", False: ""})
    trials = zip(table.trials_before, table.trials_after, strict=True)
    rows["trials"] = [f"{one}, {other}" for one, other in trials]
    return str(rows.to_markdown(index=False, disable_numparse=True))


def _time(nanoseconds: float) -> str:
    unit, size = next(
        (one for one in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if nanoseconds >= one[1]), ("ns", 1)
    )
    return f"{nanoseconds / size:.3g} {unit}"


def slower(table: pd.DataFrame, share: float) -> pd.DataFrame:
    """The rows that became slower by more than `share`, beyond the noise."""
    return table[table.changed & (table.ratio > 1 + share)]


def to_json(before: Side, after: Side, stores: pd.DataFrame, cells: pd.DataFrame) -> str:
    """The differing conditions, all comparisons, and the stores that are left out, as JSON; times
    are in ns."""

    def rows(table: pd.DataFrame) -> Any:
        known = table.where(table != NOT_STATED, None)
        return json.loads(known.to_json(orient="records", double_precision=6))

    names = ("what", "before", "after")
    return json.dumps(
        {
            "differences": [
                {name: _known(word) for name, word in zip(names, row, strict=True)}
                for row in differences(before, after)
            ],
            "in_turn": in_turn(before, after),
            "stores": rows(stores),
            "left_out": [
                {"store": store, "reason": why}
                for store, why in left_out(before, after, cells).items()
            ],
            "operations": rows(cells[[*shown(cells), *stores.columns.drop("store")]]),
        },
        indent=1,
    )
