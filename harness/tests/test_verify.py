"""What `python -m study.verify` says of results beside the reference data."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from kvbench.tables import SCHEMAS, read_tables, write_tables

from study import verify

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
Change = Callable[[dict[str, pd.DataFrame]], None]


def copy(name: str, folder: Path, change: Change) -> None:
    """The data of an experiment, changed, below a folder."""
    frames = {key: table.to_pandas() for key, table in read_tables(DATA / name).items()}
    change(frames)
    (folder / name).mkdir(parents=True)
    tables = {
        key: pa.Table.from_pandas(frame, SCHEMAS[key], preserve_index=False)
        for key, frame in frames.items()
    }
    write_tables(folder / name, tables)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "study.verify", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_reference_reproduces_itself(tmp_path: Path) -> None:
    for name in ("durability", "beyond-memory", "rocksdb-2013", "load"):
        (tmp_path / name).symlink_to(DATA / name)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "Findings: 8 reproduced, 0 differs, 0 inconclusive, 0 not measured"
    claims = next(line for line in lines if line.startswith("Claims"))
    assert " 0 differs, 0 inconclusive, " in claims
    assert int(claims.split()[4]) > 10


def test_what_is_as_fast_by_default_does_not_reproduce_a_slow_default(tmp_path: Path) -> None:
    def hurry(frames: dict[str, pd.DataFrame]) -> None:
        cells, rows = frames["cells"], frames["operations"]
        slow = cells[(cells.store == "sqlite") & (cells.durability == "default")].cell
        rows.loc[rows.cell.isin(slow), "sum_ns"] //= 1000

    copy("durability", tmp_path, hurry)
    found = verify.findings(tmp_path, DATA).set_index("finding")
    assert found.outcome["2 SQLite's default"] == verify.DIFFERS
    assert found.outcome["2 SQLite's syncs"] == verify.MISSING
    assert found.outcome["3 memory"] == verify.MISSING


def test_findings_compare_the_stores_that_both_have(tmp_path: Path) -> None:
    """The slowest insert as shipped is a store's that is not here."""

    def leave(frames: dict[str, pd.DataFrame]) -> None:
        kept = frames["cells"].store.isin(["lmdb", "sqlite", "wiredtiger-btree"])
        frames["cells"] = frames["cells"][kept]
        rows = frames["operations"]
        frames["operations"] = rows[rows.cell.isin(frames["cells"].cell)]

    copy("durability", tmp_path, leave)
    found = verify.findings(tmp_path, DATA).set_index("finding")
    for name in ("1 durability, process", "1 durability, sync"):
        assert found.reference[name] == found.here[name]


def test_a_claim_whose_sides_are_exchanged_differs(tmp_path: Path) -> None:
    def exchange(frames: dict[str, pd.DataFrame]) -> None:
        names = {"rocksdb": "tidesdb", "tidesdb": "rocksdb"}
        frames["cells"]["store"] = frames["cells"].store.replace(names)

    copy("claims-2026", tmp_path, exchange)
    found = verify.published(tmp_path, DATA)
    assert verify.DIFFERS in set(found[found.claim.str.startswith("T-")].outcome)
    assert set(found[found.claim.str.startswith("S-")].outcome) == {verify.MISSING}


def test_another_version_of_an_engine_is_named(tmp_path: Path) -> None:
    def older(frames: dict[str, pd.DataFrame]) -> None:
        cells = frames["cells"]
        cells.loc[cells.store == "rocksdb", "engine_version"] = "7.8.3"

    copy("durability", tmp_path, older)
    first = run(tmp_path).stdout.splitlines()[0]
    assert first.startswith("Other versions: rocksdb ") and first.endswith(" there, 7.8.3 here")


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_results_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / name) in done.stderr
