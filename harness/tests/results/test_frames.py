"""Frames: older folders stay readable, several levels are never averaged, and what an import does
not state stays so, whoever asks."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kvbench.answers.advise import Query, answers
from kvbench.answers.compare import Side, compare
from kvbench.cell.factors import DEFAULTS
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import FACTORS, NOT_STATED
from kvbench.results.columns import COLUMNS
from kvbench.results.frames import BETWEEN, Frames, sittings
from kvbench.results.importer import import_table
from kvbench.results.measured import VARIED, Measured
from support import ROOT

from study.common.results import Results
from study.sources import verdicts

CORE = ROOT / "data" / "core"
FRAMES = ("cells", "operations", "timeline", "machines")
Rewrite = Callable[..., Path]


@pytest.fixture
def rewritten(tmp_path: Path) -> Rewrite:
    """A copy of a folder in which a table was changed."""

    def write(folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> Path:
        copy = Path(shutil.copytree(folder, tmp_path / "copy"))
        pq.write_table(change(pq.read_table(copy / f"{name}.parquet")), copy / f"{name}.parquet")
        return copy

    return write


def usual(cells: pa.Table) -> list[str]:
    """The factors of which a table has the default alone."""
    there = set(DEFAULTS) & set(cells.column_names)  # others are newer than the table
    return [
        name
        for name in DEFAULTS
        if name in there and {*cells[name].to_pylist()} == {DEFAULTS[name]}
    ]


def test_a_folder_from_before_a_factor_existed_reads_the_same(rewritten: Rewrite) -> None:
    lacking = usual(pq.read_table(CORE / "cells.parquet"))
    assert {"durability", *lacking} == DEFAULTS.keys() & {
        *pq.read_schema(CORE / "cells.parquet").names
    }
    copy = rewritten(CORE, "cells", lambda table: table.drop_columns(lacking))
    first, second = Frames.read(CORE), Frames.read(copy)
    for name in FRAMES:
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name))
    query = Query(1024, 10_000, {"get": 0.9, "update": 0.1}, "process")
    advice = [answers(Measured.of(folder), query)[0] for folder in (CORE, copy)]
    assert advice[0].times == advice[1].times
    assert not compare(Side(CORE), Side(copy))[0].changed.any()
    varying = ["durability"]
    both = [Results(str(folder), varying=varying).conditions() for folder in (CORE, copy)]
    assert both[0].partition(": ")[2] == both[1].partition(": ")[2]


@pytest.mark.parametrize("table", COLUMNS)
def test_what_no_row_needs_may_be_absent_and_is_missing(table: str, rewritten: Rewrite) -> None:
    folder = ROOT / "data" / "age"
    lacking = {column.name for column in COLUMNS[table] if not column.needed}

    def without(found: pa.Table) -> pa.Table:  # older data lack some of them already
        return found.drop_columns([name for name in found.column_names if name in lacking])

    read = Frames.read(rewritten(folder, table, without))
    found, whole = getattr(read, table), getattr(Frames.read(folder), table)
    assert list(found) == list(whole) and len(found) == len(whole)
    assert found[sorted(lacking)].isna().all(axis=None)


def test_an_import_states_no_default(tmp_path: Path, rewritten: Rewrite) -> None:
    (tmp_path / "table.csv").write_text(
        "store,operation,record_size,records,n,mean_ns\na,get,9,9,9,9"
    )
    import_table(tmp_path / "table.csv", tmp_path / "out")
    lacking = list(DEFAULTS)
    copy = rewritten(tmp_path / "out", "cells", lambda table: table.drop_columns(lacking))
    assert (Frames.read(copy).cells[lacking] == NOT_STATED).all(axis=None)


REFUSED: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a factor without a default": (lambda t: t.drop_columns(["seed"]), "no column seed"),
    "what each row needs": (lambda t: t.drop_columns(["status"]), "no column status"),
    "an unknown column": (
        lambda t: t.append_column("sead", t["seed"]),
        "column 'sead' is unknown or twice there; allowed: seed",
    ),
    "a column twice": (lambda t: t.append_column("seed", t["seed"]), "column 'seed' is unknown or"),
    "another type": (
        lambda t: t.set_column(0, "cell", pa.array(range(len(t)))),
        "column cell is int64; allowed: string",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_columns_are_refused_by_name(what: str, rewritten: Rewrite) -> None:
    change, said = REFUSED[what]
    with pytest.raises(BadInput, match=rf"cells\.parquet: {said}"):
        Frames.read(rewritten(CORE, "cells", change))


SEVERAL = {
    "key_size": (16, 32), "label": ("a", "b"), "seed": (1, 2), "least_ms": (250, 1000),
    "options": ("x=1", "x=2"), "engine_version": ("1", "2"), "cpu": ("A", "B"),
}  # fmt: skip
APART = ("key_size", "label", "least_ms", "options")  # conditions, which comparisons keep apart


def imported(folder: Path, *rows: dict[str, Any]) -> Path:
    """A folder of imported rows; what none states is left out."""
    plain = {"store": "pebble", "operation": "get", "record_size": "1 KiB", "records": 9, "n": 9}
    folder.mkdir()
    pd.DataFrame([plain | row for row in rows]).to_csv(folder / "table.csv", index=False)
    import_table(folder / "table.csv", folder / "out")
    return folder / "out"


def _logs(folder: Path) -> pd.DataFrame:
    return Measured.of(folder, where={"options": NOT_STATED}).logs(NOT_STATED, NOT_STATED, "get")


@pytest.mark.parametrize("column", SEVERAL)
def test_several_levels_are_refused_by_all_readers_in_the_same_words(
    column: str, tmp_path: Path
) -> None:
    """Nothing but trials is averaged."""
    rows = [
        {"trial": trial, "mean_ns": 5, column: SEVERAL[column][trial % 2]} for trial in range(1, 5)
    ]
    folder = imported(tmp_path / "several", *rows)
    readers: list[Callable[[], Any]] = [lambda: Results(str(folder))]
    if column != "options":  # of which advice takes one level alone
        readers.append(lambda: _logs(folder))
    if column not in APART:
        readers += [
            lambda: Side(folder),
            lambda: verdicts.load({"own": folder}, ROOT / "data/durability/evidence.csv"),
        ]
    name = "machine" if column == "cpu" else column
    for reader in readers:
        with pytest.raises(BadInput, match=f"several levels of {name}(?: of pebble)?: .*, .*; "):
            reader()


def test_the_same_trial_twice_is_refused(tmp_path: Path, rewritten: Rewrite) -> None:
    folder = imported(tmp_path / "twice", *({"trial": trial, "mean_ns": 5} for trial in (1, 2)))

    def same(cells: pa.Table) -> pa.Table:
        return cells.set_column(
            cells.column_names.index("trial"), "trial", pa.array([1, 1], pa.int64())
        )

    copy = rewritten(folder, "cells", same)
    for reader in (Side, _logs, lambda path: Results(str(path))):
        with pytest.raises(BadInput, match="pebble: trial 1 is there twice: pebble_imported_1KiB"):
            reader(copy)


def test_what_is_not_stated_is_so_in_every_reader(tmp_path: Path) -> None:
    rows = [{"store": store, "mean_ns": 5} for store in ("pebble", "badger")]
    folder = imported(tmp_path / "least", *rows)
    measured, side, results = Measured.of(folder), Side(folder), Results(str(folder))
    claimed = verdicts.load({"own": folder}, ROOT / "data/durability/evidence.csv")
    silent = [name for name in FACTORS if name not in ("store", "record_size", "records", "trial",
                                                       "operations")]  # fmt: skip
    for rows_of in (measured.rows, side.rows, results.operations, results.cells, claimed):
        assert (rows_of[[*silent, "access"]] == NOT_STATED).all(axis=None)
    assert {"seed", "label", "key_size"} <= set(silent) and set(VARIED) <= set(silent)
    assert _logs(folder).size == 2  # they are compared, as nothing speaks against it


def test_a_number_that_is_stated_of_some_stays_whole(tmp_path: Path) -> None:
    rows = [{"mean_ns": 5, "key_size": 16}, {"mean_ns": 5, "store": "badger"}]
    found = Frames.read(imported(tmp_path / "some", *rows)).operations
    assert list(found.key_size) == [16, NOT_STATED]
    assert isinstance(found.key_size[0], int)


def test_a_sitting_begins_after_hours_without_a_trial() -> None:
    """The second trial was stopped, and finished in the next sitting: it joins both. Each machine
    has sittings of its own."""
    hours = {1: [0, 1], 2: [1.5, 30], 3: [31, 32], 4: [60, 61], 5: [61.2]}
    rows = [(trial, at) for trial, times in hours.items() for at in times]
    cells = pd.DataFrame(rows, columns=["trial", "hours"])
    started = pd.Timestamp("2026-11-23", tz="UTC") + pd.to_timedelta(cells.hours, unit="h")
    cells["started"] = started.map(pd.Timestamp.isoformat)
    one = cells.assign(machine="a")
    assert sittings(one).to_dict() == {1: 1, 2: 1, 3: 1, 4: 2, 5: 2}
    two = cells.assign(machine=cells.trial.map(lambda trial: "b" if trial in (3, 5) else "a"))
    assert sittings(two).to_dict() == {1: 1, 2: 1, 3: 2, 4: 3, 5: 4}
    assert pd.Timedelta(hours=1) < BETWEEN < pd.Timedelta(hours=28)
    assert sittings(one.assign(started=None)).empty
