"""Bad input is refused with one clear line and exit status 2, and nothing is written."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kvbench.common.messages import BadInput
from kvbench.results import folder, tables
from support import ROOT, Run

DATA = ROOT / "data"
WriteGrid = Callable[..., Path]


def assert_refused(done: object, *words: str) -> None:
    assert done.returncode == 2, done  # type: ignore[attr-defined]
    error = done.stderr.strip()  # type: ignore[attr-defined]
    assert "\n" not in error
    assert error.startswith("kvbench: ")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"stores": ["mongodb"]}, ["mongodb", "allowed", "`kvbench stores`"]),
        ({"operations": ["scan"]}, ["scan", "allowed"]),
        ({"record_sizes": ["1 KB"]}, ["1 KB", "allowed"]),
        ({"records": [-1]}, ["-1", "allowed"]),
        ({"thread": 4}, ["thread", "allowed"]),
        ({"seed": 2**63}, ["seed", "allowed"]),
    ],
)
def test_a_bad_grid_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, keys: dict[str, object], words: list[str]
) -> None:
    grid = write_grid(**keys)
    out = tmp_path / "out"
    assert_refused(kvbench("sweep", grid, "--out", out), "grid.toml", *words)
    assert_refused(kvbench("sweep", grid, "--out", out, "--dry-run"), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trials = 9223372036854775807", ["trials", "allowed: a whole number from 1 to 10,000"]),
        ("trials = 10000\nrecords = [1, 2]", ["cells", "allowed: 100,000"]),
        (f"trials = {'9' * 5000}", ["digits"]),
        (f"trials = 0x{'f' * 5000}", ["digits"]),
        (f"stores = {'[' * 20_000}{']' * 20_000}", ["recursion"]),
        (f'workloads = ["fillseq batch={"9" * 5000}"]', ["batch", "allowed"]),
        (f'workloads = ["readseq{", readseq" * 5000}"]', ["5001 steps", "allowed"]),
        (f'record_sizes = ["{"9" * 5000} B"]', ["record_sizes", "allowed"]),
        (f'memory = ["{2**64} B"]', ["memory", "allowed"]),
        ('stores = ["sqlite"]\noptions = {sqlite = {journal_mode = "a, b"}}', ["a, b"]),
        (f'stores = ["bdb"]\noptions = {{bdb = {{page_size = "{"9" * 5000}"}}}}', ["page_size"]),
        ("parts = []", ["parts", "[]"]),
        ("parts = [5]", ["parts", "5"]),
        ("parts = [{small = 5}]\nscale = {small = {}}", ["small", "5"]),
        (f"records = [0x{'f' * 500}]\nscale = {{small = {{factor = 0.5}}}}", ["records"]),
        ("records = [true]\nscale = {small = {factor = 0.5}}", ["records", "True"]),
        ('scale = {"a\\nb" = {}}', [r"a\nb"]),
    ],
)
def test_a_malformed_or_damaged_grid_is_refused(
    kvbench: Run, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "grid.toml").write_text(text)
    scale = ["--scale", "small"] if "scale" in text else []
    grid = tmp_path / "grid.toml"
    done = kvbench("sweep", grid, "--out", tmp_path / "out", "--dry-run", *scale)
    assert_refused(done, "grid.toml", *words)
    assert not (tmp_path / "out").exists()


def test_a_grid_that_is_not_toml_is_refused(kvbench: Run, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("stores = [")
    assert_refused(kvbench("sweep", tmp_path / "grid.toml", "--out", tmp_path / "out"), "grid.toml")
    assert_refused(kvbench("sweep", tmp_path / "none.toml", "--out", tmp_path / "out"), "No such")
    (tmp_path / "grid.toml").write_bytes(b"\xff\xfe\0")
    assert_refused(kvbench("sweep", tmp_path / "grid.toml", "--out", tmp_path / "out"), "grid.toml")


def test_a_folder_with_other_files_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    foreign = tmp_path / "home"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    assert_refused(kvbench("sweep", write_grid(), "--out", foreign), "home", "other files")
    assert_refused(kvbench("status", foreign), "home", "not a results folder")
    assert_refused(kvbench("collect", foreign), "home")
    assert_refused(kvbench("status", tmp_path / "none"), "none")
    assert os.listdir(foreign) == ["letter.txt"]


def test_a_file_as_the_results_folder_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(kvbench("sweep", write_grid(), "--out", tmp_path / "file"), "not a folder")
    below = tmp_path / "file" / "below"
    assert_refused(kvbench("sweep", write_grid(), "--out", below), "can't be written")
    assert_refused(kvbench("sweep", write_grid(), "--out", below, "--dry-run"), "Not a directory")


def test_an_unwritable_folder_is_refused(kvbench: Run, write_grid: WriteGrid) -> None:
    """Nobody can create a folder in /proc, not even root."""
    assert_refused(kvbench("sweep", write_grid(), "--out", "/proc/kvbench"), "can't be written")
    assert_refused(kvbench("sweep", write_grid(), "--out", "/proc/kvbench", "--dry-run"), "/proc")


def test_another_schema_version_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    mark = out / folder.MARK
    mark.write_text(json.dumps({"schema": 999}))
    for command in (("sweep", write_grid(), "--out", out), ("status", out), ("collect", out)):
        assert_refused(kvbench(*command), "999", f"allowed: {tables.SCHEMA_VERSION}")
    mark.write_text("not JSON")
    assert_refused(kvbench("status", out), folder.MARK)
    assert os.listdir(out) == [folder.MARK]


def test_a_damaged_result_file_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    path = next((out / "cells").iterdir())
    path.write_text(path.read_text()[:100])
    assert_refused(kvbench("collect", out), path.name)
    assert not (out / "cells.parquet").exists()
    assert_refused(kvbench("sweep", write_grid(), "--out", out), path.name)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 6, "grid": {}}'])
@pytest.mark.parametrize("kind", ["grids", "machines", "cells"])
def test_damaged_files_in_a_results_folder_are_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, kind: str, content: str
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    if kind == "machines":
        (out / kind / "damaged.json").write_text(content)
    else:
        next((out / kind).iterdir()).write_text(content)
    command = "status" if kind == "grids" else "collect"
    assert_refused(kvbench(command, out), ".json")
    assert not (out / "cells.parquet").exists()


def _set(**keys: object) -> Callable[[Path], None]:
    """Sets keys of a result, or of its cell."""

    def change(path: Path) -> None:
        result = json.loads(path.read_bytes())
        cell = result["cell"]
        for key, value in keys.items():
            (cell if key in cell else result)[key] = value
        path.write_text(json.dumps(result))

    return change


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [
        _set(store=5),
        _set(records="many"),
        _set(operations=[["get"]]),
        _set(memory="much"),
        _set(status=["ok"]),
        _set(status="fine"),
        _set(reason=None),
        _set(machine="another"),
        _set(engine_version="\ud800"),
        _set(compressibility="\ud800"),
        _set(disk_bytes=-1),
        _set(operations=5),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.with_name("copy.json").write_text('{"schema": 5}'),
        lambda path: path.with_name("\udcff.json").write_bytes(path.read_bytes()),
        lambda path: (path.parent.parent / "operations.parquet").mkdir(),
        _pipe,
    ],
)
def test_damaged_or_edited_results_are_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    change(next((out / "cells").iterdir()))
    before = sorted(out.rglob("*"))
    assert_refused(kvbench("collect", out), str(out))
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    "operations",
    [
        5,
        [["get"]],
        [{"operation": "get"}],
        [{"operation": [], "sum_ns": 1, "n": 1}],
        [{"operation": "get", "sum_ns": "much", "n": 1}],
        [{"operation": "get", "sum_ns": 10**400, "n": 3}],
    ],
    ids=lambda rows: str(rows)[:40],
)
def test_damaged_operations_are_refused_where_they_decide_on_trials(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, operations: object
) -> None:
    out, grid = tmp_path / "out", write_grid(byte_limit=1, trials="7-15")
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    path = next((out / "cells").iterdir())
    _set(operations=operations)(path)
    assert_refused(kvbench("status", out), path.name)
    assert_refused(kvbench("sweep", grid, "--out", out), path.name)


def test_a_file_in_place_of_the_cells_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    (out / "cells").rename(tmp_path / "cells")
    (out / "cells").touch()
    for command in ("status", "collect"):
        assert_refused(kvbench(command, out), "cells: not a folder")


def test_control_characters_in_a_reason_are_escaped_and_break_no_export(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    _set(status="failed", reason="\x1b[31m\n")(next((out / "cells").iterdir()))
    assert r"\x1b[31m\n" in kvbench("status", out).stdout
    assert kvbench("collect", out, "--xlsx").returncode == 0


def test_the_longest_workload_fits_a_file_name(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(workloads=[", ".join(["readrandom ops=1000000000"] * 100)], byte_limit=1)
    assert kvbench("sweep", grid, "--out", tmp_path / "out").returncode == 0


def _first_value(table: pa.Table, column: str, value: object) -> pa.Table:
    at = table.column_names.index(column)
    values = [value, *table[column].to_pylist()[1:]]
    return table.set_column(at, table.schema.field(at), pa.array(values, table[column].type))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("cells", lambda table: pa.concat_tables([table, table]), "twice"),
        ("operations", lambda table: pa.concat_tables([table, table]), "twice"),
        ("operations", lambda table: _first_value(table, "sum_ns", -1), "sum_ns: -1"),
        ("operations", lambda table: _first_value(table, "p50_ns", float("nan")), "p50_ns: nan"),
        ("operations", lambda table: _first_value(table, "n", None), "n: a value is missing"),
        ("operations", lambda table: _first_value(table, "timeline", [None]), "timeline"),
        ("operations", lambda table: _first_value(table, "cell", "x"), "'x'"),
        ("cells", lambda table: _first_value(table, "status", None), "status"),
        ("cells", lambda table: _first_value(table, "memory", "much"), "much"),
        ("machines", lambda table: table.slice(1), "machine"),
        ("cells", lambda table: table.append_column("cell", table["cell"]), "twice there"),
        (
            "cells",
            lambda table: table.replace_schema_metadata({b"kvbench_schema": b"\xff"}),
            "schema version",
        ),
    ],
)
def test_inconsistent_tables_are_refused(
    tmp_path: Path, name: str, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    for table in tables.TABLES:
        found = pq.read_table(DATA / "durability" / f"{table}.parquet")
        pq.write_table(change(found) if table == name else found, tmp_path / f"{table}.parquet")
    with pytest.raises(BadInput, match=words) as caught:
        tables.read_tables(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_metadata_for_pandas_are_dropped(tmp_path: Path) -> None:
    for name in tables.TABLES:
        table = pq.read_table(DATA / "durability" / f"{name}.parquet")
        metadata = table.schema.metadata | {b"pandas": b"no JSON"}
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / f"{name}.parquet")
    for table in tables.read_tables(tmp_path).values():
        table.to_pandas()


def test_a_flipped_bit_never_changes_a_value(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    assert kvbench("collect", out).returncode == 0
    right = tables.read_tables(out)
    path = out / "operations.parquet"
    data, noticed = path.read_bytes(), 0
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        try:
            assert tables.read_tables(out) == right
        except BadInput:
            noticed += 1
    assert noticed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep"], ["GRID"]),
        (["sweep", "grid.toml"], ["--out"]),
        (["sweep", "grid.toml", "--out", "x", "--time-limit", "-1"], ["-1"]),
        (["sweep", "grid.toml", "--out", "x", "--fast"], ["--fast"]),
        (["sweep", "GRID", "--out", "x", "--memory-max", "much"], ["memory_max", "much"]),
        (["evidence", "mongodb", "--out", "x.csv"], ["mongodb", "leveldb"]),
        (["evidence", "flat", "--out", "no/x.csv"], ["no/x.csv", "a folder that exists"]),
        (["crash", "mongodb", "--out", "x.csv"], ["mongodb", "leveldb"]),
        (["crash", "flat", "--out", "no/x.csv"], ["no/x.csv", "a folder that exists"]),
        (["crash", "flat", "--out", "."], ["'.'", "a file"]),
        (["crash", "flat", "--out", "x.csv", "--seconds", "nan"], ["nan", "0.01 to 60"]),
        (["crash", "flat", "--out", "x.csv", "--value-size", "much"], ["much"]),
        (["measure"], ["measure"]),
        (["sweep", "GRID", "--out", "x", "--dry-run", "--time-limit", "nan"], ["nan"]),
        (
            ["sweep", "GRID", "--out", "x", "--dry-run", "--time-limit", "1e10"],
            ["'1e10'", "allowed"],
        ),
        (["sweep", "GRID", "--out", "x", "--dry-run", "--minutes", "nan"], ["nan", "more than 0"]),
        (["sweep", "GRID", "--out", "x", "--dry-run", "--minutes", "0"], ["0", "10,000"]),
        (["status", "a\nb"], [r"a\nb"]),
    ],
)
def test_bad_arguments_are_refused(
    kvbench: Run, write_grid: WriteGrid, arguments: list[str], words: list[str]
) -> None:
    given = [write_grid() if argument == "GRID" else argument for argument in arguments]
    assert_refused(kvbench(*given), *words)


def test_an_unknown_engine_option_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(stores=["sqlite"], options={"sqlite": {"pagesize": 1024}})
    done = kvbench("sweep", grid, "--out", tmp_path / "out")
    assert_refused(
        done, "sqlite", "pagesize", "allowed: checks, journal_mode, locking_mode, page_size"
    )
    assert not (tmp_path / "out").exists()


def test_an_engine_option_without_a_value_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(stores=["sqlite"], options={"sqlite": {"page_size": ""}})
    done = kvbench("sweep", grid, "--out", tmp_path / "out")
    assert_refused(done, "sqlite", "page_size", "allowed")
    assert not (tmp_path / "out").exists()


def test_help_lists_the_commands(kvbench: Run) -> None:
    done = kvbench("--help")
    assert done.returncode == 0
    for command in ("stores", "sweep", "status", "collect"):
        assert command in done.stdout


def test_a_cap_beyond_the_memory_of_the_machine_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(memory_max=["100000 GiB"])
    assert_refused(kvbench("sweep", grid, "--out", tmp_path / "out"), "'100000 GiB'", "MiB at most")
    assert not (tmp_path / "out").exists()


@pytest.mark.check
def test_data_that_may_not_fit_the_disk_are_stated_with_what_would(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """Those that an engine may compress; see test_dry_run.py for others."""
    few = {"records": [10**9], "byte_limit": "9999999 GiB", "workloads": ["fillseq"]}
    few |= {"compressibility": ["compressible"]}
    grid = write_grid(stores=["null"], record_sizes=["1 MiB"], **few)
    for more in (["--dry-run"], ["--time-limit", "1"]):
        done = kvbench("sweep", grid, "--out", tmp_path / "out", *more)
        words = r"it will fail unless .* B free, for [\d,]+ such records at most"
        assert re.search(words, done.stderr)
