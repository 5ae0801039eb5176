"""The grid of single questions, factors.toml: what must be true of each of its parts."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from support import KNOWN

SLACK = 64 << 10  # bytes of small files


def can(rows: pd.DataFrame, capability: str) -> pd.Series:
    """Whether the store of each row has a capability."""
    return rows.store.map(lambda name: capability in KNOWN[name].capabilities)


def removal(cells: pd.DataFrame, operations: pd.DataFrame) -> None:
    """A tenth of the records is left. A compaction leaves at most what it found, and a new copy of
    these records: here most of the space is that of logs."""
    assert (cells.status == "ok").all()
    assert (cells.live_records == 50).all()
    space = operations.pivot_table(index="cell", columns="operation", values="disk_bytes")
    assert (space.deleterandom > 0).all()
    compacted = space.dropna()
    assert len(compacted) == cells.workload.str.contains("compact").sum() > 0
    own = cells.set_index("cell").loc[compacted.index]
    assert (own.disk_bytes <= compacted.deleterandom + 2 * own.live_bytes + SLACK).all()


def backup(cells: pd.DataFrame, operations: pd.DataFrame) -> None:
    """A store is skipped if it cannot make a backup; others have a copy of every record."""
    ok = cells.status == "ok"
    assert (ok == can(cells, "backup")).all()
    copies = operations[operations.operation == "backup"].merge(cells[ok], on="cell")
    assert len(copies) == ok.sum() > 0
    assert (copies.disk_bytes_x > copies.live_bytes).all()
    alone = cells[ok & cells.workload.str.endswith("writers=0")].cell
    written = operations[operations.operation == "backup write"]
    assert set(written.cell) == set(copies.cell) - set(alone)


def batches(cells: pd.DataFrame, operations: pd.DataFrame) -> None:
    """Each write has as many records as its cell asks for; 0 stands for one."""
    assert (cells.status == "ok").all()
    rows = operations[operations.operation == "update"].merge(cells, on="cell")
    assert sorted(rows.batch.unique()) == [0, 1, 50]
    assert (rows["items"] == rows.n * rows.batch.clip(lower=1)).all()


def keys(cells: pd.DataFrame, operations: pd.DataFrame) -> None:
    assert (cells.status == "ok").all()
    rows = operations.merge(cells, on="cell")
    assert set(rows.key_order) == {"uniform", "zipfian"}
    assert set(rows.operation) == {"load", "get", "update"}


def writers(cells: pd.DataFrame, operations: pd.DataFrame) -> None:
    """Each writer has written."""
    assert (cells.status == "ok").all()
    rows = operations[operations.operation.str.endswith(" write")]
    assert set(rows.threads) == {1, 2}
    assert (rows.least_share > 0).all()


CHECKS: dict[str, Callable[[pd.DataFrame, pd.DataFrame], None]] = {
    "batches": batches,
    "keys": keys,
    "group commit": writers,
    "processes": writers,
    "removal": removal,
    "backup": backup,
}


@pytest.mark.check
def test_each_part_of_the_grid_measures_what_it_asks(tiny: Callable[..., Path]) -> None:
    """All cells are ok, or skipped for a reason that the part allows; all records are checked."""
    out = tiny("factors")
    cells, operations = (
        pd.read_parquet(out / f"{name}.parquet") for name in ("cells", "operations")
    )
    cells = cells[cells.status != "unavailable"]
    assert set(cells.label) == set(CHECKS)
    assert set(cells.status) <= {"ok", "skipped"}
    assert (cells.reason[cells.status == "skipped"] != "").all()
    for label, check in CHECKS.items():
        own = cells[cells.label == label]
        check(own, operations[operations.cell.isin(own.cell)])
