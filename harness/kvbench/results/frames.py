"""Collected results as pandas frames, the only source of results for answers and notebooks.

A column keeps the name, type and unit that data/README.md states. A factor or an access that an
import does not state has the level NOT_STATED; any other unknown value is missing.
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from kvbench.cell.bindings import full_name
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import CONDITION, FACTORS, NOT_STATED
from kvbench.machine.description import LIMITS
from kvbench.machine.noise import disturbed, stolen_share
from kvbench.results.tables import SCHEMAS, TIMELINE, read_tables
from kvbench.results.warm import WARM, resident
from kvbench.results.withheld import slowed

BETWEEN = pd.Timedelta(hours=3)  # the least time between two sittings
BUILD = ("engine_version", "binding_version", "checksum")  # builds of one store may differ in these
PER_STORE = ("options", *BUILD)  # levels that differ by store
# The columns of its cell that a row of `operations` or `timeline` repeats.
OF_CELL = (
    "cell", "full_name", "access", *CONDITION, "trial", "sitting", "beside", "seed",
    "record_size_min", "record_size_max", "guarantee", "machine", *BUILD, "revision", "floor_ns",
    "resident", "cooled", "disturbed", "stolen",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Frames:
    """The frames of a results folder.

    `cells` has one row per trial of a cell, measured or not, with the columns of data/README.md
    and: full_name (store/binding, or the store alone from C), memory_bytes (B, peak resident
    memory, anonymous and file-backed), resident (1, share of a warm cell's files in the page cache,
    missing where unknown or where memory was capped), cooled (bool, whether that share is below
    WARM), disturbed (bool, whether the machine's host disturbed the cell; see machine.noise),
    stolen (1, the processor time that the host withheld over the wall time), sitting (the number
    of the sitting of its trial; see sittings()) and beside (the number of the trial that its trial
    stands beside where fields are compared; see beside()).

    `operations` has one row per measured trial and operation: the columns of data/README.md,
    OF_CELL, mean_ns (ns, the mean time; missing where it is not stated) and slowed (1, the factor
    by which the host slowed the row; mean_ns is without it, see results.withheld). If the folder
    states no mean at all, `average` is "median" instead of "mean", and mean_ns is the median.

    `timeline` has one row per second of a step: the columns of data/README.md, and OF_CELL. It is
    empty if no cell has steps.

    `machines` has one row per machine, with the columns of data/README.md.

    `name` is the folder's name in messages.
    """

    name: object
    cells: pd.DataFrame
    operations: pd.DataFrame
    timeline: pd.DataFrame
    machines: pd.DataFrame
    average: str

    @classmethod
    def read(cls, folder: Path, name: object = None) -> Self:
        """The frames of a collected folder. Raises BadInput, which names the file that does not
        fit."""
        return cls.of(read_tables(folder), name or folder)

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table], name: object) -> Self:
        """The frames from the tables of a folder."""
        frames = {table: found.to_pandas() for table, found in tables.items()}
        cells, operations = _cells(frames["cells"]), frames["operations"]
        seconds = frames.get(TIMELINE, pd.DataFrame(columns=SCHEMAS[TIMELINE].names))
        means = operations.sum_ns / operations.n
        average = "mean" if means.notna().any() else "median"
        times = means if average == "mean" else operations.p50_ns
        operations["mean_ns"] = times.where(times > 0)
        shared = cells[list(OF_CELL)]
        rows = shared.merge(operations, on="cell", validate="1:m")
        rows["slowed"] = slowed(rows)
        rows["mean_ns"] /= rows.slowed
        return cls(
            name,
            cells,
            rows,
            shared.merge(seconds, on="cell"),
            frames["machines"],
            average,
        )


def _cells(cells: pd.DataFrame) -> pd.DataFrame:
    """The table `cells` with the further columns full_name, memory_bytes, resident, cooled,
    disturbed, stolen, sitting and beside, which Frames explains."""
    levels = [name for name in FACTORS if name in cells and name != "trial"]
    cells = cells.assign(**{name: stated(cells[name]) for name in (*levels, "access")})
    share = resident(cells)
    sitting = cells.trial.map(sittings(cells)).fillna(1).astype("int64")
    return cells.assign(
        full_name=list(map(full_name, cells.store, cells.binding.replace(NOT_STATED, ""))),
        memory_bytes=cells.memory_anonymous_bytes + cells.memory_file_bytes,
        resident=share,
        cooled=share < WARM,
        disturbed=disturbed(cells) != "",
        stolen=stolen_share(cells),
        sitting=sitting,
        beside=beside(cells.assign(sitting=sitting), [*levels, "access"]),
    )


def sittings(cells: pd.DataFrame) -> "pd.Series[int]":
    """The number of the sitting, from 1, of each trial that was measured: each machine has sittings
    of its own, and at least BETWEEN lies between two of them. A trial that was stopped and finished
    later joins both to one."""
    started = pd.to_datetime(cells.started, utc=True)
    by = cells.assign(begun=started, ended=started)[started.notna()].groupby("trial")
    trials = by.agg({"begun": "min", "ended": "max", "machine": "first"}).sort_values("begun")
    ended = trials.groupby("machine").ended.cummax()
    rest = trials.begun - ended.groupby(trials.machine).shift()
    own = (rest > BETWEEN).groupby(trials.machine).cumsum()
    names = trials.machine.astype(str) + own.astype(str)
    return pd.Series(1 + names.factorize()[0], trials.index)


def beside(cells: pd.DataFrame, factors: Collection[str]) -> "pd.Series[int]":
    """The number of the trial beside which each trial stands: of the trials in which a sitting
    measured a field, the first stands beside the first of all of the sitting, and so on. So fields
    that a sitting measured in trials of their own can be compared trial by trial. `factors` are the
    columns in which cells of several fields, or stores, differ."""
    trial = cells.trial.fillna(1).astype("int64")
    field = [cells[name] for name in factors if name not in ("store", "binding")]
    place = trial.groupby([*field, cells.sitting], dropna=False).rank("dense").astype("int64")
    first = pd.DataFrame({"sitting": cells.sitting, "trial": trial}).drop_duplicates()
    first = first.assign(place=first.groupby("sitting").trial.rank("dense").astype("int64"))
    number = first.set_index(["sitting", "place"]).trial
    found = number.loc[pd.MultiIndex.from_arrays([cells.sitting, place])]
    return pd.Series(found.to_numpy(), cells.index)


def sitting_of(rows: pd.DataFrame) -> dict[int, int]:
    """The number of the sitting of each trial in the rows of a frame."""
    return dict(zip(rows.trial, rows.sitting, strict=True))


def machine_of(cells: pd.DataFrame, machines: pd.DataFrame) -> "pd.Series[Any]":
    """The machine that measured the cells, as a row of the table `machines`. If several did, texts
    that differ are joined by "and", memory and measured limits are medians, and other numbers that
    differ are missing."""
    rows = machines.set_index("machine").loc[cells.machine.unique()]
    found = rows.iloc[0].copy()
    for column in rows.columns[rows.map(str).nunique() > 1]:
        values = rows[column]
        if column in (*LIMITS, "fsync_ms", "memory_bytes") and column != "probe":
            found[column] = values.median()
        elif all(isinstance(value, str) for value in values):
            found[column] = " and ".join(dict.fromkeys(values))
        else:
            found[column] = None
    return found


def stated(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """The values, with NOT_STATED where one is missing. Whole numbers, which pandas turns into
    floats beside missing values, become whole again."""
    if not values.isna().any():
        return values
    whole = values.convert_dtypes().astype(object)
    return whole.where(values.notna(), NOT_STATED)


def refuse_several(
    rows: pd.DataFrame,
    name: object,
    factors: Collection[str],
    way: str = "collect each by itself",
) -> None:
    """Raise BadInput if a mean over the rows of a store would average more than trials: several
    levels of one of the `factors`, several seeds, builds or options of a store, several machines
    in one sitting, or duplicate trials. NOT_STATED counts as a level.

    The message begins with `name` and ends with `way`, the next step. In `way`, "{column}" and
    "{level}" stand for the column with several levels and its first level.
    """
    for _, own in rows.groupby("sitting").machine:
        _refuse(own, f"{name}: several levels of machine", way)
    for column in (*(one for one in factors if one not in PER_STORE), "seed"):
        _refuse(rows[column], f"{name}: several levels of {column}", way)
    for column in (one for one in PER_STORE if one in (*factors, *BUILD)):
        for store, own in rows.groupby("full_name")[column]:
            _refuse(own, f"{name}: several levels of {column} of {store}", way)
    keys = ["full_name", "access", *CONDITION, "trial", "operation"]
    twice = rows.duplicated([key for key in keys if key in rows])
    for row in rows[twice].head(1).to_dict("records"):
        what = f"{name}: {row['full_name']}: trial {row['trial']:g} is there twice: {row['cell']}"
        raise BadInput(f"{what}; collect each by itself")


def _refuse(values: "pd.Series[Any]", what: str, way: str) -> None:
    levels: list[Any] = list(stated(values).unique())
    if len(levels) > 1:
        levels.sort(key=lambda level: (level == NOT_STATED, level if level != NOT_STATED else 0))
        how = way.format(column=values.name, level=levels[0])
        shown = ["(empty)" if level == "" else level for level in levels]
        raise BadInput(f"{what}: {listed(shown)}; {how}")
