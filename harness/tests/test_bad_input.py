"""Bad input: one clear line, exit status 2, nothing written."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run
from kvbench import results

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
        ({"stores": ["mongodb"]}, ["mongodb", "allowed", "leveldb"]),
        ({"operations": ["scan"]}, ["scan", "allowed"]),
        ({"record_sizes": ["1 KB"]}, ["1 KB", "allowed"]),
        ({"records": [-1]}, ["-1", "allowed"]),
        ({"thread": 4}, ["thread", "allowed"]),
        ({"seed": 2**63}, ["seed", "allowed"]),
    ],
)
def test_grids(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, keys: dict[str, object], words: list[str]
) -> None:
    grid = write_grid(**keys)
    out = tmp_path / "out"
    assert_refused(kvbench("sweep", grid, "--out", out), "grid.toml", *words)
    assert_refused(kvbench("sweep", grid, "--out", out, "--dry-run"), *words)
    assert not out.exists()


def test_a_grid_that_is_no_toml(kvbench: Run, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("stores = [")
    assert_refused(kvbench("sweep", tmp_path / "grid.toml", "--out", tmp_path / "out"), "grid.toml")
    assert_refused(kvbench("sweep", tmp_path / "none.toml", "--out", tmp_path / "out"), "No such")
    (tmp_path / "grid.toml").write_bytes(b"\xff\xfe\0")
    assert_refused(kvbench("sweep", tmp_path / "grid.toml", "--out", tmp_path / "out"), "grid.toml")


def test_a_foreign_folder(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    foreign = tmp_path / "home"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    assert_refused(kvbench("sweep", write_grid(), "--out", foreign), "home", "other files")
    assert_refused(kvbench("status", foreign), "home", "not a results folder")
    assert_refused(kvbench("collect", foreign), "home")
    assert_refused(kvbench("status", tmp_path / "none"), "none")
    assert os.listdir(foreign) == ["letter.txt"]


def test_a_file_for_a_folder(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(kvbench("sweep", write_grid(), "--out", tmp_path / "file"), "not a folder")
    below = tmp_path / "file" / "below"
    assert_refused(kvbench("sweep", write_grid(), "--out", below), "can't be written")
    assert_refused(kvbench("sweep", write_grid(), "--out", below, "--dry-run"), "Not a directory")


def test_an_unwritable_folder(kvbench: Run, write_grid: WriteGrid) -> None:
    """/proc takes no folder from anyone, not even from root."""
    assert_refused(kvbench("sweep", write_grid(), "--out", "/proc/kvbench"), "can't be written")
    assert_refused(kvbench("sweep", write_grid(), "--out", "/proc/kvbench", "--dry-run"), "/proc")


def test_another_schema_version(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    mark = out / results.MARK
    mark.write_text(json.dumps({"schema": 999}))
    for command in (("sweep", write_grid(), "--out", out), ("status", out), ("collect", out)):
        assert_refused(kvbench(*command), "999", f"allowed: {results.SCHEMA_VERSION}")
    mark.write_text("not JSON")
    assert_refused(kvbench("status", out), results.MARK)
    assert os.listdir(out) == [results.MARK]


def test_a_damaged_result_file(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    path = next((out / "cells").iterdir())
    path.write_text(path.read_text()[:100])
    assert_refused(kvbench("collect", out), path.name)
    assert not (out / "cells.parquet").exists()
    assert_refused(kvbench("sweep", write_grid(), "--out", out), path.name)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 6, "grid": {}}'])
@pytest.mark.parametrize("kind", ["grids", "machines", "cells"])
def test_damaged_files_in_a_results_folder(
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep"], ["GRID"]),
        (["sweep", "grid.toml"], ["--out"]),
        (["sweep", "grid.toml", "--out", "x", "--time-limit", "-1"], ["-1"]),
        (["sweep", "grid.toml", "--out", "x", "--fast"], ["--fast"]),
        (["sweep", "GRID", "--out", "x", "--memory-max", "much"], ["memory_max", "much"]),
        (["evidence", "mongodb", "--out", "x.csv"], ["mongodb", "leveldb"]),
        (["measure"], ["measure"]),
    ],
)
def test_usage(kvbench: Run, write_grid: WriteGrid, arguments: list[str], words: list[str]) -> None:
    given = [write_grid() if argument == "GRID" else argument for argument in arguments]
    assert_refused(kvbench(*given), *words)


def test_an_option_that_the_engine_has_not(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(stores=["sqlite"], options={"sqlite": {"pagesize": 1024}})
    done = kvbench("sweep", grid, "--out", tmp_path / "out")
    assert_refused(done, "sqlite", "pagesize", "allowed: journal_mode, locking_mode, page_size")
    assert not (tmp_path / "out").exists()


def test_help(kvbench: Run) -> None:
    done = kvbench("--help")
    assert done.returncode == 0
    for command in ("stores", "sweep", "status", "collect"):
        assert command in done.stdout
