"""The report of `python -m study.answers.verify` on results and the reference data."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from kvbench.results.tables import SCHEMAS, read_tables, write_tables
from support import ROOT, forked

from study.answers import verify

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
    return forked(verify.main, *arguments)


def change(of: Callable[[pd.DataFrame], "pd.Series[bool]"], column: str, factor: float) -> Change:
    """Return a change that multiplies a column in the operations for which `of` is true; `of` gets
    the operations with the factors of their cells."""

    def apply(frames: dict[str, pd.DataFrame]) -> None:
        rows = frames["operations"]
        factors = ["cell", "store", "label", "durability", "records"]
        chosen = of(rows.merge(frames["cells"][factors], on="cell")).to_numpy()
        found = rows[column] * factor
        rows[column] = rows[column].mask(chosen, found.round().astype(rows[column].dtype))

    return apply


@pytest.mark.check
def test_all_data_reproduce_themselves(tmp_path: Path) -> None:
    """This includes a folder with results only from Python, data/python."""
    for path in DATA.glob("*/cells.parquet"):
        (tmp_path / path.parent.name).symlink_to(path.parent)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "Findings: 7 reproduced, 0 differs, 0 inconclusive, 0 not measured"
    for name in ("Claims of the sources", "Recommended stores"):
        (line,) = (line for line in lines if line.startswith(f"{name}: "))
        assert line.endswith(" reproduced, 0 differs, 0 inconclusive, 0 not measured")
        assert int(line.removeprefix(f"{name}: ").split()[0]) > 50


@pytest.mark.check
def test_what_could_not_be_measured_is_not_measured(tmp_path: Path) -> None:
    """As without a control group, where no cell with a cap on memory is measured."""

    def skip(frames: dict[str, pd.DataFrame]) -> None:
        frames["cells"]["status"] = "skipped"
        for name in set(frames) - {"cells", "machines"}:
            frames[name] = frames[name].head(0)

    for name in ("beyond-memory", "rocksdb-2013"):
        copy(name, tmp_path, skip)
    (tmp_path / "durability").symlink_to(DATA / "durability")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Findings: 4 reproduced, 0 differs, 0 inconclusive, 3 not measured" in done.stdout
    assert "Claims of the sources: 0 reproduced, 0 differs, 0 inconclusive" in done.stdout


ALTERED = {
    "4 published lead": [
        ("rocksdb-2013", change(lambda rows: rows.store == "rocksdb", "sum_ns", 20)),
        ("rocksdb-2013", change(lambda rows: rows.store == "leveldb", "sum_ns", 20)),
    ],
    "3 memory": [
        (
            "beyond-memory",
            change(lambda rows: (rows.store == "mdbx") & (rows.records < 1e6), "sum_ns", 100),
        )
    ],
    "3 settings": [
        (
            "beyond-memory",
            change(
                lambda rows: (rows.store == "lmdb") & (rows.label == "recommended"), "sum_ns", 5
            ),
        )
    ],
    "2 SQLite's default": [
        (
            "durability",
            change(
                lambda rows: (rows.store == "sqlite") & (rows.durability == "default"),
                "sum_ns",
                0.001,
            ),
        )
    ],
}


@pytest.mark.parametrize(
    ("finding", "experiment", "alter"),
    [(name, *altered) for name, each in ALTERED.items() for altered in each],
)
def test_altered_data_differ(tmp_path: Path, finding: str, experiment: str, alter: Change) -> None:
    """RocksDB or LevelDB is 20 times slower, MDBX's gets within memory are as slow as from the
    device, LMDB gains nothing from its setting though another store does, or SQLite's default is as
    fast as possible."""
    copy(experiment, tmp_path, alter)
    found = verify.findings(tmp_path, DATA).set_index("finding")
    assert found.outcome[finding] == verify.DIFFERS


@pytest.mark.check
def test_the_exit_status_says_that_something_differs(tmp_path: Path) -> None:
    (name, alter), _ = ALTERED["4 published lead"]
    copy(name, tmp_path, alter)
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Findings: 0 reproduced, 1 differs, 0 inconclusive, 6 not measured" in done.stdout


def test_trials_that_disagree_are_inconclusive(tmp_path: Path) -> None:
    """One trial of three in which RocksDB is 20 times slower."""

    def slow(frames: dict[str, pd.DataFrame]) -> None:
        cells, rows = frames["cells"], frames["operations"]
        slower = cells[(cells.store == "rocksdb") & (cells.trial == 1)].cell
        rows.loc[rows.cell.isin(slower), "sum_ns"] *= 20

    copy("rocksdb-2013", tmp_path, slow)
    found = verify.findings(tmp_path, DATA).set_index("finding")
    assert found.outcome["4 published lead"] == verify.OPEN


def test_findings_without_data_are_not_measured(tmp_path: Path) -> None:
    """The sync calls are in evidence.csv, which is not copied."""
    copy("durability", tmp_path, lambda frames: None)
    found = verify.findings(tmp_path, DATA).set_index("finding")
    assert found.outcome["2 SQLite's default"] == verify.REPRODUCED
    assert found.outcome["2 SQLite's syncs"] == verify.MISSING
    assert found.outcome["3 memory"] == verify.MISSING


def test_findings_compare_the_stores_that_both_have(tmp_path: Path) -> None:
    """The store with the slowest insert as shipped is missing from the results."""

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


EVIDENCE = {  # what is written, and what is said of it
    "binary": (b"\xff\xfe\0\1" * 100, "can't decode"),
    "empty": (b"", "No columns"),
    "another table": (b"a,b\n1,2\n", "no column 'store'"),
    "text for a number": (b"store,durability,syncs_per_write\nsqlite,sync,many\n", "many"),
    "a row twice": (
        b"store,durability,syncs_per_write\nsqlite,sync,1\nsqlite,sync,2\n",
        "two rows of sqlite sync",
    ),
    "uneven": (b"store,durability,syncs_per_write\nsqlite,sync,1\na,b,c,d,e\n", "Expected 3"),
}


@pytest.mark.check
@pytest.mark.parametrize("name", [*EVIDENCE, "pipe", "folder"])
def test_evidence_that_cannot_be_used_is_refused(name: str, tmp_path: Path) -> None:
    copy("durability", tmp_path, lambda frames: None)
    path = tmp_path / "durability" / "evidence.csv"
    said = "not a file"
    if name == "pipe":
        os.mkfifo(path)
    elif name == "folder":
        path.mkdir()
    else:
        content, said = EVIDENCE[name]
        path.write_bytes(content)
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"verify: {path}: ")
    assert said in line
    assert len(line) < 300


@pytest.mark.parametrize("linked", [True, False], ids=["a link", "a copy"])
def test_results_under_two_names_are_refused(linked: bool, tmp_path: Path) -> None:
    copy("durability", tmp_path, lambda frames: None)
    if linked:
        (tmp_path / "ycsb").symlink_to("durability")
    else:
        shutil.copytree(tmp_path / "durability", tmp_path / "ycsb")
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    said = "the cells of durability; give each experiment its own results"
    assert done.stderr == f"verify: {tmp_path / 'ycsb'}: {said}\n"
