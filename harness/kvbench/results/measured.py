"""The tables of a results folder, as advice needs them: one kind of cell, in one way to reach the
stores, with nothing averaged but trials."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kvbench.cell.bindings import full_name
from kvbench.cell.factors import DEFAULT, DURABILITY, OPERATIONS, UNCAPPED
from kvbench.cell.workload import ROUNDS, parse
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import FACTORS, NOT_STATED
from kvbench.results.tables import read_tables
from kvbench.results.warm import WARM, resident, warm

Point = tuple[int, int]  # bytes of a value, number of records
POINT = ["record_size", "records"]
FLOOR = "null"  # the store that does nothing
PLAIN = {  # the cells that advice rests on, unless another level is asked for
    "cache": "warm", "memory_max": UNCAPPED, "workload": ROUNDS, "options": "",
    "compressibility": "incompressible", "key_order": "uniform", "compression": DEFAULT,
    "place": "disk",
}  # fmt: skip
# What an answer separates by itself, and trials, which are what it averages.
APART = ("store", "binding", *POINT, "durability", "memory", "operations", "trial")
BUILD = ("engine_version", "binding_version", "checksum")  # what a store of one name may differ in
VARIED = tuple(name for name in FACTORS if name not in APART)
CHOSEN = (*VARIED, *BUILD, "machine", "revision")  # of which one level may be asked for
OVERWRITTEN = [[fill, "overwrite"] for fill in ("fillrandom", "fillseq")]


def equal_work(workload: object) -> bool:
    """Whether every store has the same work: each record is written once, then once more."""
    try:
        steps = parse(workload)
    except BadInput:  # not stated
        return False
    whole = all(not {"ops", "seconds", "times"} & set(dict(step.given)) for step in steps)
    return [step.name for step in steps] in OVERWRITTEN and whole


class Measured:
    """The tables of a results folder: `rows` has the mean time of each operation of each trial,
    `cells` the rest, of those that were measured; `lost` has the cells that were not. Stores have
    their full names. A level that an import does not state is NOT_STATED, and a trial that it does
    not number is the first. `average` says whether times are means or, where none is stated,
    medians.

    `where` replaces levels of PLAIN, or chooses one of another column. `space` is a folder to take
    the space after equal work from, if this one has none."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        name: object,
        access: str = "c",
        where: Mapping[str, str] | None = None,
        space: "pd.DataFrame | None" = None,
    ) -> None:
        frames = {table: found.to_pandas() for table, found in tables.items()}
        self.name, self.access = name, access
        cells = _plain(frames["cells"], access)
        own = cells[cells.workload.map(equal_work) & (cells.status == "ok")]
        self._space = space if own.empty else own
        cells = _kept(cells, where or {}, name)
        cells = cells[cells.record_size_min == cells.record_size_max]
        self.lost = cells[cells.status != "ok"]
        cells = cells[cells.status == "ok"]
        if cells.empty:
            raise BadInput(
                f"{name}: no store was measured from {_LANGUAGES[access]} with a warm page cache"
            )
        if cells.access.isna().all():
            self.access = NOT_STATED
        if cells.machine.nunique() > 1:
            raise BadInput(_several(name, "machine", cells.machine))
        self.machine = frames["machines"].set_index("machine").loc[cells.machine.iloc[0]]
        operations = frames["operations"]
        operations = operations[operations.operation.isin(OPERATIONS)]
        means = operations.sum_ns / operations.n
        self.average = "mean" if means.notna().any() else "median"
        times = means if self.average == "mean" else operations.p50_ns
        self.cells = cells.assign(
            cooled=resident(cells) < WARM,
            memory_bytes=cells.memory_anonymous_bytes + cells.memory_file_bytes,
        )
        factors = ["cell", *APART[:1], *POINT, "durability", "guarantee", "memory", "trial"]
        varied = [name for name in CHOSEN if name not in factors]
        self.rows = self.cells[[*factors, "cooled", *varied]].merge(
            operations.assign(mean_ns=times.where(times > 0)), on="cell"
        )

    @classmethod
    def of(
        cls,
        folder: Path,
        access: str = "c",
        where: Mapping[str, str] | None = None,
        space: Path | None = None,
    ) -> "Measured":
        """Those of a collected folder; `space` is another one."""
        other = None
        if space is not None:
            cells = _plain(read_tables(space)["cells"].to_pandas(), access)
            other = cells[cells.workload.map(equal_work) & (cells.status == "ok")]
        return cls(read_tables(folder), folder, access, where, other)

    def known(self, name: str) -> list[str]:
        """The levels of durability or memory that were measured, in order."""
        found = set(self.rows[name])
        return sorted(found, key=lambda level: (level == NOT_STATED, _place(level), level))

    def guarantees(self) -> list[str]:
        """The levels that stores amount to as shipped, the weakest first."""
        found = set(self.rows[self.rows.durability == DEFAULT].guarantee)
        return sorted(found, key=lambda level: (level == NOT_STATED, _place(level), level))

    def at(
        self, table: pd.DataFrame, durability: str, memory: str, guarantee: str = ""
    ) -> pd.DataFrame:
        """The rows of one of the tables at these levels; of stores as shipped, those that amount
        to `guarantee`."""
        found = table[(table.durability == durability) & (table.memory == memory)]
        return found[found.guarantee == guarantee] if durability == DEFAULT else found

    def logs(
        self, durability: str, memory: str, operation: str, guarantee: str = ""
    ) -> pd.DataFrame:
        """The log of a mean time by store and trial (rows) and by record size and number
        (columns), of the stores that were warm. Raises BadInput where that would average anything
        but one trial."""
        rows = self.at(self.rows, durability, memory, guarantee)
        rows = warm(rows[(rows.operation == operation) & rows.mean_ns.notna()], POINT)
        self._refuse_several(rows)
        means = rows.pivot(index=["store", "trial"], columns=POINT, values="mean_ns")
        return pd.DataFrame(np.log(means))

    def _refuse_several(self, rows: pd.DataFrame) -> None:
        for name in VARIED:
            if rows[name].nunique() > 1:
                raise BadInput(_several(self.name, name, rows[name]))
        for name in BUILD:
            for store, own in rows.groupby("store")[name]:
                if own.nunique() > 1:
                    raise BadInput(f"{_several(self.name, name, own)} (of {store})")
        twice = rows.duplicated(["store", "trial", *POINT])
        for row in rows[twice].head(1).itertuples():
            size, records = row.record_size, row.records
            raise BadInput(
                f"{self.name}: {row.store}: trial {row.trial} of {size} B x {records:,} is there "
                "twice; collect each by itself"
            )

    def space(
        self, durability: str, memory: str, compressibility: str = "incompressible"
    ) -> pd.DataFrame:
        """Bytes on disk over live bytes after equal work: a row a store, a column a point; empty
        where it was not measured."""
        if self._space is None:
            return pd.DataFrame()
        found = self.at(self._space, durability, memory)
        found = found[(found.compressibility == compressibility)]
        found = found[found.record_size_min == found.record_size_max]
        ratio = (found.disk_bytes / found.live_bytes).where(found.live_bytes > 0)
        return found.assign(ratio=ratio).pivot_table(
            index="store", columns=POINT, values="ratio", aggfunc="median"
        )

    def syncing(
        self, memory: str, writes: Iterable[str], points: Iterable[Point], seldom: float
    ) -> set[str]:
        """The stores whose writes sync at level process, too, in one of these points: more than
        `seldom` times a write."""
        rows = self.at(self.rows, "process", memory)
        rows = rows[rows.operation.isin(set(writes))]
        chosen = set(points)
        rows = rows[[point in chosen for point in zip(*(rows[p] for p in POINT), strict=True)]]
        each = (rows.syncs / rows.n).groupby(
            [rows[name] for name in ["store", "operation", *POINT]]
        )
        often = each.median() > seldom
        return set(often.index.get_level_values("store")[often])

    def absent(self, points: Iterable[Point], durability: str, memory: str) -> dict[str, str]:
        """The stores that have a cell in one of these points without a result, and why."""
        lost = self.lost[(self.lost.durability == durability) & (self.lost.memory == memory)]
        chosen = set(points)
        return {
            str(row.store): f"{row.status} where {self.name} was measured"
            for row in lost.itertuples()
            if (row.record_size, row.records) in chosen
        }


_LANGUAGES = {"c": "C", "python": "Python"}


def _place(level: str) -> int:
    """The place of a durability level among all; 0 of what is none."""
    return DURABILITY.index(level) if level in DURABILITY else 0


def _stated(value: Any) -> Any:
    """A level, whole where pandas made a fraction of it since others are missing."""
    if pd.isna(value):
        return NOT_STATED
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(cells: pd.DataFrame, access: str) -> pd.DataFrame:
    """The cells of a way to reach the stores, with what is not stated said so."""
    cells = cells[cells.access.isna() | (cells.access == access)]
    cells = cells[cells.store != FLOOR]
    stated = {
        name: cells[name].map(_stated).astype(object)
        for name in (*CHOSEN, "durability", "guarantee", "memory")
    }
    stores = [
        full_name(store, "" if pd.isna(binding) else binding)
        for store, binding in zip(cells.store, cells.binding, strict=True)
    ]
    sizes = cells.record_size_min
    trials = cells.trial.fillna(1).astype("int64")
    return cells.assign(**stated, store=stores, record_size=sizes, trial=trials)


def _kept(cells: pd.DataFrame, where: Mapping[str, str], name: object) -> pd.DataFrame:
    """The cells of the levels of PLAIN, as far as they are stated, or of those asked for."""
    for column in where:
        if column not in CHOSEN:
            raise BadInput(
                f"--where: {column!r:.60} is no column to choose by; "
                f"allowed: {listed(CHOSEN, column)}"
            )
    for column, level in (PLAIN | dict(where)).items():
        found = cells[column].map(str)
        kept = found == level if column in where else found.isin([level, NOT_STATED])
        if not kept.any() and not cells.empty:
            option = "--where" if column in where else "--data"
            raise BadInput(
                f"{option}: {column}={level!r:.60} was not measured in {name}; "
                f"allowed: {listed(sorted(set(found)), level)}"
            )
        cells = cells[kept]
    return cells


def _several(name: object, column: str, values: "pd.Series[Any]") -> str:
    """That an answer would average several levels of a column, and how to choose one."""
    levels = sorted(set(values), key=lambda level: (isinstance(level, str), level))
    return (
        f"{name}: several levels of {column}: {listed(map(str, levels))}; "
        f"choose one, as --where {column}={levels[0]}"
    )
