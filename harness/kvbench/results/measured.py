"""The measured results that advice uses: cells of one kind and one access, averaged over nothing
but trials."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from kvbench.cell.factors import DEFAULT, DURABILITY, OPERATIONS, UNCAPPED
from kvbench.cell.workload import ROUNDS, parse
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import FACTORS, NOT_STATED
from kvbench.results.frames import BUILD, Frames, machine_of, refuse_several, sitting_of, stated
from kvbench.results.warm import warm

Point = tuple[int, int]  # bytes of a value, number of records
POINT = ["record_size", "records"]
FLOOR = "null"  # the store that does nothing: the harness's own time
PLAIN = {  # the levels that advice uses, unless `where` replaces them
    "cache": "warm", "memory_max": UNCAPPED, "workload": ROUNDS, "options": "",
    "compressibility": "incompressible", "key_order": "uniform", "compression": DEFAULT,
    "place": "disk", "batch": "0",
}  # fmt: skip
# The columns by which an answer separates rows itself, and trials, which it averages.
APART = ("store", "binding", *POINT, "durability", "memory", "operations", "trial")
VARIED = tuple(name for name in FACTORS if name not in APART)
CHOSEN = (*VARIED, *BUILD, "machine", "revision")  # columns whose level `where` may choose
CHOOSE = "choose one, as --where {column}={level}"
OVERWRITTEN = [[fill, "overwrite"] for fill in ("fillrandom", "fillseq")]


def equal_work(workload: object) -> bool:
    """Whether a workload gives every store the same work: each record is written once, then once
    more."""
    try:
        steps = parse(workload)
    except BadInput:  # the import does not state it
        return False
    whole = all(not {"ops", "seconds", "times"} & set(dict(step.given)) for step in steps)
    return [step.name for step in steps] in OVERWRITTEN and whole


class Measured:
    """Frames with the columns of Frames: `rows` has the operations of each measured trial, `cells`
    their cells, and `lost` the cells that were not measured. `store` is the full name,
    `record_size` is in bytes, and a missing trial number is 1. `average` states whether times are
    means or, if no mean is stated, medians. `sittings` has the number of the sitting of each trial.

    `where` replaces levels of PLAIN, or chooses a level of another column. `space` is the folder
    from which to take the space after equal work, if the folder itself lacks it.
    """

    def __init__(
        self,
        found: Frames,
        access: str = "c",
        where: Mapping[str, str] | None = None,
        space: Frames | None = None,
    ) -> None:
        self.name, self.access, self.average = found.name, access, found.average
        self._where = where or {}
        cells = _reached(found.cells, access)
        self._space = _equal(cells), found.name
        if space is not None and self._space[0].empty:
            self._space = _equal(_reached(space.cells, access)), space.name
        cells = _kept(cells, self._where, found.name)
        cells = cells[cells.record_size_min == cells.record_size_max]
        self.lost, self.cells = cells[cells.status != "ok"], cells[cells.status == "ok"]
        if self.cells.empty:
            raise BadInput(
                f"{found.name}: no store was measured from {_LANGUAGES[access]} with a warm page "
                "cache"
            )
        if (self.cells.access == NOT_STATED).all():
            self.access = NOT_STATED
        self.sittings = sitting_of(self.cells)
        rows = _reached(found.operations, access)
        self.rows = rows[rows.cell.isin(self.cells.cell) & rows.operation.isin(OPERATIONS)]
        refuse_several(self.rows, found.name, (), CHOOSE)
        self.machine = machine_of(self.cells, found.machines)
        self._tables: dict[tuple[str, ...], pd.DataFrame] = {}  # results of logs() and space()

    @classmethod
    def of(
        cls,
        folder: Path,
        access: str = "c",
        where: Mapping[str, str] | None = None,
        space: Path | None = None,
    ) -> Self:
        """The measured results of a collected folder; `space` is another collected folder. Raises
        BadInput."""
        other = None if space is None else Frames.read(space)
        return cls(Frames.read(folder), access, where, other)

    def known(self, name: str) -> list[str]:
        """The measured levels of durability or memory, in order."""
        found = set(self.rows[name])
        return sorted(found, key=lambda level: (level == NOT_STATED, _place(level), level))

    def guarantees(self) -> list[str]:
        """The durability levels that the stores provide as shipped, the weakest first."""
        found = set(self.rows[self.rows.durability == DEFAULT].guarantee)
        return sorted(found, key=lambda level: (level == NOT_STATED, _place(level), level))

    def at(
        self, table: pd.DataFrame, durability: str, memory: str, guarantee: str = ""
    ) -> pd.DataFrame:
        """The rows of one of the frames at these levels, with its columns. Of stores as shipped,
        only those that provide the level `guarantee`."""
        found = table[(table.durability == durability) & (table.memory == memory)]
        return found[found.guarantee == guarantee] if durability == DEFAULT else found

    def logs(
        self, durability: str, memory: str, operation: str, guarantee: str = ""
    ) -> pd.DataFrame:
        """The natural log of the mean time in ns, of the stores that were warm. Rows are store and
        trial, or the one that it stands beside; columns are record size in B and number of
        records. Raises BadInput if a value would average more than one trial."""
        key = (durability, memory, operation, guarantee)
        if key not in self._tables:
            rows = self.at(self.rows, durability, memory, guarantee)
            rows = warm(rows[(rows.operation == operation) & rows.mean_ns.notna()], POINT)
            refuse_several(rows, self.name, VARIED, CHOOSE)
            paired = rows.assign(trial=rows.beside)
            means = paired.pivot(index=["store", "trial"], columns=POINT, values="mean_ns")
            self._tables[key] = pd.DataFrame(np.log(means))
        return self._tables[key].copy()

    def space(self, durability: str, memory: str) -> pd.DataFrame:
        """Bytes on disk over live bytes (1) after equal work, the median over the trials. Rows are
        stores; columns are record size in B and number of records. Empty if it was not measured.
        Raises BadInput if a value would average more than trials."""
        key = (durability, memory)
        if key not in self._tables:
            self._tables[key] = self._after_equal_work(durability, memory)
        return self._tables[key].copy()

    def _after_equal_work(self, durability: str, memory: str) -> pd.DataFrame:
        cells, name = self._space
        found = self.at(cells, durability, memory)
        for column, usual in PLAIN.items():
            if column == "workload":
                continue
            level = self._where.get(column, usual)
            found = found[found[column].map(str).isin([level, NOT_STATED])]
        found = found[found.record_size_min == found.record_size_max]
        refuse_several(found, name, VARIED)
        ratio = (found.disk_bytes / found.live_bytes).where(found.live_bytes > 0)
        return found.assign(ratio=ratio).pivot_table(
            index="store", columns=POINT, values="ratio", aggfunc="median"
        )

    def memory(
        self, durability: str, memory: str, guarantee: str, point: Point
    ) -> dict[str, float]:
        """Bytes that each store takes in a point, the median over the trials."""
        cells = self.at(self.cells, durability, memory, guarantee)
        here = cells[(cells.record_size == point[0]) & (cells.records == point[1])]
        found = here.groupby("store").memory_bytes.median()
        return {str(store): float(value) for store, value in found.items()}

    def syncing(
        self, memory: str, writes: Iterable[str], points: Iterable[Point], seldom: float
    ) -> set[str]:
        """The stores that sync more than `seldom` times per write at level process, in one of these
        points."""
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
        """The stores that have a cell in one of these points but no result, with the reason."""
        lost = self.lost[(self.lost.durability == durability) & (self.lost.memory == memory)]
        chosen = set(points)
        return {
            str(row.store): f"{row.status} where {self.name} was measured"
            for row in lost.itertuples()
            if (row.record_size, row.records) in chosen
        }


_LANGUAGES = {"c": "C", "python": "Python"}


def _place(level: str) -> int:
    """The position of a durability level in their order; 0 if it is not a level."""
    return DURABILITY.index(level) if level in DURABILITY else 0


def _reached(rows: pd.DataFrame, access: str) -> pd.DataFrame:
    """The rows of a frame with one access, without the store that does nothing. Its columns are
    those of Frames, but `store` is the full name; `record_size` (B) is the least; a missing trial
    is 1; and a missing build, revision or guarantee is NOT_STATED."""
    rows = rows[rows.access.isin([access, NOT_STATED]) & (rows.store != FLOOR)]
    return rows.assign(
        **{name: stated(rows[name]) for name in (*BUILD, "revision", "guarantee")},
        store=rows.full_name,
        record_size=rows.record_size_min,
        trial=rows.trial.fillna(1).astype("int64"),
    )


def _equal(cells: pd.DataFrame) -> pd.DataFrame:
    """The measured cells of equal work, with the same columns."""
    return cells[cells.workload.map(equal_work).astype(bool) & (cells.status == "ok")]


def _kept(cells: pd.DataFrame, where: Mapping[str, str], name: object) -> pd.DataFrame:
    """The cells at the levels of PLAIN, where they are stated, or at the levels in `where`, with
    the same columns. Raises BadInput if none remain."""
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
