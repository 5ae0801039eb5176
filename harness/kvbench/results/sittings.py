"""Earlier sittings of an experiment: what a further one goes on with, and how their tables join."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kvbench.cell.factors import Cell
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import CONDITION
from kvbench.results.folder import MARK
from kvbench.results.frames import Frames, refuse_several, sitting_of
from kvbench.results.tables import SCHEMAS, TIMELINE, read_tables, write_tables
from kvbench.stats.regret import SITTINGS, by_trial, rank
from kvbench.stores.identity import checksum
from kvbench.stores.known import KnownStore

# The factors of a field; of the binding, only the access belongs to it.
OF_FIELD = [name for name in CONDITION if name not in ("store", "binding", "options")]
Field = tuple[str, ...]  # its levels, as text


class Earlier(NamedTuple):
    """The number of the last trial, the fields that need no further sitting, and the seconds that
    cells took, by their levels: medians over the trials."""

    last: int
    decided: frozenset[Field]
    took: Mapping[Field, float]

    def seconds(self, cell: Cell) -> float | None:
        """The seconds that a cell took; None if the earlier sittings did not measure it."""
        return self.took.get((*levels_of(cell), cell.full_name))


NONE = Earlier(0, frozenset(), {})


def levels_of(cell: Cell) -> Field:
    """The field of a cell."""
    return (*(str(getattr(cell, name)) for name in OF_FIELD), "python" if cell.binding else "c")


def earlier(folder: Path, stores: Mapping[str, KnownStore]) -> Earlier:
    """What the collected results of a folder are for a further sitting. Results of other code than
    the installed one do not count. Raises BadInput."""
    found = Frames.read(folder)
    rows = found.operations
    rows = rows[rows.operation != "load"].dropna(subset=["trial", "mean_ns"])
    ours = {name: checksum(store) for name, store in stores.items() if store.available}
    rows = rows[rows.checksum == rows.full_name.map(ours)]
    if rows.empty:
        return NONE
    by: list[str] = [*OF_FIELD, "access"]
    fields = rows.groupby(rows[by].map(str).agg(tuple, axis=1))
    done = (tuple(map(str, field)) for field, own in fields if _decided(own))
    cells = found.cells[found.cells.cell.isin(rows.cell)]
    seconds = (cells.wall_s + cells.settle_s.fillna(0)).rename("seconds")
    each = cells[[*by, "full_name"]].map(str).join(seconds).dropna(subset="seconds")
    known: dict[Field, list[float]] = {}
    for *levels, taken in each.itertuples(index=False):
        known.setdefault(tuple(levels), []).append(taken)
    took = {levels: median(own) for levels, own in known.items()}
    return Earlier(int(rows.trial.max()), frozenset(done), took)


def _decided(rows: pd.DataFrame) -> bool:
    """Whether a field needs no further sitting: after the last look, or if its best stores are
    known at a look."""
    sitting = sitting_of(rows)
    number = len(set(sitting.values()))
    if number not in SITTINGS:
        return number > max(SITTINGS)
    means = rows.groupby("operation")
    each = (own.set_index(["full_name", "trial"]).mean_ns for _, own in means)
    known = all(rank(by_trial(own), sitting, sittings=sitting).decided for own in each)
    return known or number == max(SITTINGS)


def join(folders: Sequence[Path], out: Path) -> dict[str, pa.Table]:
    """Write the tables of several collected folders as one, and return them. Raises BadInput if a
    trial is in two of them, or if they were measured by different code."""
    if (out / MARK).exists():
        raise BadInput(f"{out}: a sweep measures into it; name another folder")
    parts = {folder: read_tables(folder) for folder in folders}
    seen: dict[int, Path] = {}
    for folder, tables in parts.items():
        for trial in pc.unique(tables["cells"]["trial"]).drop_null().to_pylist():
            if other := seen.get(trial):
                how = f"sweep it with --after {other}"
                raise BadInput(f"{folder}: trial {trial} is also in {other}; {how}")
            seen[trial] = folder
    names = [
        name for name in SCHEMAS if name != TIMELINE or any(name in own for own in parts.values())
    ]
    joined = {
        name: pa.concat_tables(own[name] for own in parts.values() if name in own) for name in names
    }
    joined["machines"] = _once(joined["machines"])
    found = Frames.of(joined, out)
    what = " and ".join(map(str, folders))
    refuse_several(found.operations, what, (), "they do not belong together")
    out.mkdir(parents=True, exist_ok=True)
    write_tables(out, joined)
    return joined


def _once(machines: pa.Table) -> pa.Table:
    """The machines, each in the row that describes it first."""
    names = machines["machine"].to_pylist()
    return machines.take([names.index(name) for name in dict.fromkeys(names)])
