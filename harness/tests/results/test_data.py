"""The committed data and the page that explains it."""

import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from kvbench.cell.factors import LEVELS, SYNCED
from kvbench.cell.workload import CONCURRENT
from kvbench.common.messages import BadInput
from kvbench.durability.crashes import COLUMNS
from kvbench.experiment.grid import read_grids
from kvbench.experiment.listed import Experiment, read
from kvbench.results.columns import explained
from kvbench.results.tables import SCHEMA_VERSION, SCHEMAS, TABLES, read_tables
from kvbench.stores import catalogue
from support import ROOT, Run

DATA = ROOT / "data"
GRIDS = ROOT / "harness/grids"
KNOWN = catalogue.names()
FAULTS = ("states", "recall", "errors", "device", "full-disk", "rot", "findings")


def dictionary() -> dict[str, list[tuple[str, ...]]]:
    """The tables of data/README.md: column, type, unit and meaning of each, in order."""
    tables = {}
    for section in re.split(r"^## ", (DATA / "README.md").read_text(), flags=re.M)[1:]:
        table = re.search(r"(?:^\|.*\n)+", section, re.M)  # what follows it explains values
        rows = [line.split("|")[1:-1] for line in table[0].splitlines()] if table else []
        cells = [[cell.strip() for cell in row] for row in rows[2:]]
        assert all(len(row) == 4 and row[3] for row in cells)
        tables[section.split("\n")[0]] = [tuple(row) for row in cells]
    return tables


def test_the_dictionary_is_what_the_columns_say_of_themselves() -> None:
    """`python -m kvbench.results.columns data/README.md` writes it."""
    page = (DATA / "README.md").read_text()
    assert page == explained(page)


def test_the_dictionary_describes_the_schema() -> None:
    schema = {
        name: [(field.name, str(field.type), field.metadata[b"unit"].decode()) for field in columns]
        for name, columns in SCHEMAS.items()
    }
    described = dictionary()
    crashed = [row[0] for row in described.pop("crashes.csv")]
    assert set(COLUMNS) < set(crashed)  # test_crashes.py has the command write them
    for path in (
        DATA / "durability/evidence.csv",
        DATA / "durability/sharing.csv",
        DATA / "builds/installed.csv",
        DATA / "speed/speed.csv",
        DATA / "audit/programs.csv",
        DATA / "audit/observed.csv",
        *(DATA / "faults" / f"{name}.csv" for name in FAULTS),
        DATA / "torture/torture.csv",
        DATA / "verdicts/verdicts.csv",
    ):
        columns = [row[0] for row in described.pop(path.name)]
        assert columns == list(pd.read_csv(path).columns)
    assert {name: [row[:3] for row in rows] for name, rows in described.items()} == schema


def test_planted_bugs_have_the_columns_of_crash_states() -> None:
    states, liars = (pd.read_csv(DATA / "faults" / f"{name}.csv") for name in ("states", "liars"))
    assert list(liars) == list(states)


def test_findings_have_known_words_and_name_what_shows_them() -> None:
    found = pd.read_csv(DATA / "faults/findings.csv", keep_default_na=False)
    assert set(found.store) <= set(KNOWN)
    assert set(found.kind) <= {"power", "call", "device", "full", "rot", "threads"}
    assert set(found.verdict) <= {"documented", "known", "defect", "open"}
    sourced = found.source.str.startswith("https://")
    assert sourced[found.verdict.isin(["documented", "known"])].all()
    programs = set(found.reproducer[~found.reproducer.str.startswith("kvbench ")])
    folder = DATA / "faults/reproducers"
    assert programs == {path.name for path in folder.iterdir()}
    assert all(len(path.read_text().splitlines()) <= 30 for path in folder.iterdir())


def test_the_page_on_grids_is_the_output_of_the_command(kvbench: Run) -> None:
    page = DATA.parent / "docs" / "grids.md"
    assert page.read_text() == kvbench("grid-keys").stdout


LISTED = read(ROOT).served()
GRID_OF = {one.name: one.grid for one in LISTED}
RERUNS = [one.name for one in LISTED if one.scale == "reference" and one.name != "reference"]
# Every sitting adds trials of the core fields.
WHOLE = ("1", "shipped", "levels")
PLAIN = [one for one in LISTED if (one.scale in WHOLE or one.device) and one.name != "core"]
TRIALS = {"builds": 15, "checks": 6, "python-levels": 4}
OTHERS = [one.name for one in LISTED if one.name not in RERUNS]


@pytest.mark.parametrize(
    "name", ["second-machine", "earlier", "reference-counts", "large", *OTHERS]
)
def test_committed_data_are_of_the_schema_and_small(name: str) -> None:
    tables = read_tables(DATA / name)
    cells = tables["cells"].to_pandas()
    assert len(cells) > 0
    unavailable = cells[cells.status == "unavailable"]
    assert set(unavailable.binding) <= {"dbm.gnu", "dbm.sqlite3", "python-rocksdb", "shelve"}
    failed = cells[~cells.status.isin(["ok", "skipped", "unavailable"])]
    assert all(reason.startswith("needs more memory than its cap") for reason in failed.reason)
    assert sum(path.stat().st_size for path in (DATA / name).iterdir()) < 10 << 20


@pytest.mark.parametrize("one", PLAIN, ids=lambda one: one.name)
def test_experiments_have_every_cell_of_their_grids(one: Experiment) -> None:
    cells = read_tables(DATA / one.name)["cells"].to_pandas()
    grids = read_grids(GRIDS / f"{one.grid}.toml", KNOWN, scale=one.scale)
    assert len(cells) == sum(1 for grid in grids for _ in grid.cells())
    trials = (1 if "read" in one.device else 3) if one.device else TRIALS.get(one.name, 5)
    assert {grid.trials for grid in grids} == {(trials, trials)}
    measured = cells[cells.status == "ok"]
    assert measured.revision.nunique() == 1
    assert measured[measured.cache == "cold"].cached_share.isna().all()  # looking would warm them
    free = measured[(measured.cache == "warm") & (measured.memory_max == "none")]
    # Basho's LevelDB evicts its own writes from the page cache.
    assert (free[free.store != "basho"].cached_share > 0.9).all()


@pytest.mark.parametrize("name", RERUNS)
def test_what_was_measured_at_a_scale_is_complete(name: str) -> None:
    """Each cell of the scale is present once. Cells failed only for a known reason."""
    tables = read_tables(DATA / name)
    cells = tables["cells"].to_pandas()
    cells["binding"] = cells.binding.fillna("")
    planned = {
        cell
        for grid in read_grids(GRIDS / f"{GRID_OF[name]}.toml", KNOWN, scale="reference")
        for cell in grid.cells()
    }
    factors = ["store", "record_size", "records", "compressibility", *sorted(LEVELS), "trial"]
    assert sorted(cells[factors].itertuples(index=False, name=None)) == sorted(
        tuple(cell.factors()[factor] for factor in factors) for cell in planned
    )
    assert cells.machine.nunique() == 1
    reasons = cells[cells.status == "failed"].reason
    known = ("needs more memory than its cap", "load: WT_ROLLBACK", "took longer than")
    assert all(reason.startswith(known) for reason in reasons), list(reasons)
    assert (cells[cells.status == "unavailable"].store == "tokudb").all()
    steps = tables["operations"].to_pandas()
    assert (steps.n > 0)[~steps.operation.isin(CONCURRENT)].all()
    assert sum(path.stat().st_size for path in (DATA / name).iterdir()) < 10 << 20


def test_the_evidence_supports_the_levels() -> None:
    table = pd.read_csv(DATA / "durability" / "evidence.csv")
    chosen = table[table.durability != "default"]
    safe = table.guarantee != "none"
    synced = table.guarantee.isin(SYNCED)
    assert (table[safe].survived_kill == table[safe].crashes).all()
    assert (table[synced].survived_power_loss == table[synced].crashes).all()
    assert (table[synced].syncs_per_write >= 1).all()
    unsynced = chosen[chosen.guarantee.isin(["none", "process"])]
    assert (unsynced.syncs_per_write.abs() < 0.01).all()  # a difference of two runs


def test_every_cell_from_python_has_its_cell_from_c() -> None:
    cells = read_tables(DATA / "bindings")["cells"].to_pandas()
    key = ["store", "record_size", "records", "compressibility", "trial", "seed"]
    from_c = set(map(tuple, cells[cells.access == "c"][key].to_numpy()))
    from_python = list(map(tuple, cells[cells.access == "python"][key].to_numpy()))
    assert from_python
    assert set(from_python) <= from_c


def test_tables_of_another_schema_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="kvbench collect"):
        read_tables(tmp_path)
    for name in TABLES:
        table = pq.read_table(DATA / "builds" / f"{name}.parquet")
        pq.write_table(
            table.drop_columns(["cell" if name != "machines" else "cpu"]),
            tmp_path / f"{name}.parquet",
        )
    with pytest.raises(BadInput, match=r"cells\.parquet: no column cell; collect the folder again"):
        read_tables(tmp_path)
    table = pq.read_table(DATA / "builds" / "cells.parquet")
    known = SCHEMA_VERSION
    later = table.replace_schema_metadata({"kvbench_schema": str(known + 1)})
    pq.write_table(later, tmp_path / "cells.parquet")
    with pytest.raises(BadInput, match=f"schema version {known + 1}; allowed: {known}"):
        read_tables(tmp_path)
    (tmp_path / "cells.parquet").write_bytes(b"not Parquet")
    with pytest.raises(BadInput, match="not readable as Parquet"):
        read_tables(tmp_path)


def test_each_program_of_the_audit_was_observed() -> None:
    claims, seen = (pd.read_csv(DATA / "audit" / name) for name in ("programs.csv", "observed.csv"))
    assert set(claims.report) == set(seen.report)
    assert (seen.status == 0).all()
    stated = claims.set_index("report").claimed
    assert set(stated) == {"sync", "none", "not stated"}
    observed = seen.set_index("report").level
    others = observed[stated[stated == "sync"].index].loc[lambda level: level != "sync"]
    # SQLite removes its journal and does not sync the folder; Kyoto Cabinet writes through a map.
    assert others.to_dict() == {"ioarena-sqlite3-sync": "process", "kchash-oas": "not known"}
