"""Where stores are made: what is not a sweep's own is neither removed nor overwritten."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run
from kvbench.shelf import MARK, Shelf

WriteGrid = Callable[..., Path]
STORE = "flat_c_1KiB_100_t1_0123456789abcdef"  # as a cell's folder is called


def refused(kvbench: Run, grid: Path, out: Path, *words: str) -> None:
    done = kvbench("sweep", grid, "--out", out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in ("kvbench: ", *words):
        assert word in done.stderr
    assert not list(out.glob("cells/*"))


def test_a_file_of_someone_else_s(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    (out / "cells").rename(tmp_path / "cells")
    stores = out / "stores"
    stores.mkdir()
    (stores / "letter.txt").write_text("dear")
    refused(kvbench, write_grid(), out, "letter.txt", "move it away")
    assert (stores / "letter.txt").read_text() == "dear"
    (stores / "letter.txt").unlink()
    (stores / STORE).mkdir()  # looks like a store, but where is the mark?
    refused(kvbench, write_grid(), out, MARK, "move it away")
    (stores / MARK).write_text("")  # what a killed sweep has left
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    assert not stores.exists()


@pytest.mark.parametrize("name", [STORE, "elsewhere"])
def test_a_link_among_the_stores(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, name: str
) -> None:
    outside, stores = tmp_path / "outside", tmp_path / "out" / "stores"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", stores.parent).returncode == 0
    stores.mkdir()
    (stores / MARK).write_text("")
    (stores / name).symlink_to(outside)
    assert "move it away" in kvbench("sweep", write_grid(), "--out", stores.parent).stderr
    assert (outside / "precious").read_text() == "kept"


def test_a_link_for_the_stores(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / STORE).mkdir()
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    (out / "stores").symlink_to(outside)
    assert "a link" in kvbench("sweep", write_grid(), "--out", out).stderr
    assert (outside / STORE).exists()


def test_a_link_that_an_engine_made_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    shelf = Shelf(tmp_path / "stores")
    (shelf.open() / STORE).mkdir()
    (shelf.folder / STORE / "link").symlink_to(outside)
    (shelf.folder / STORE / "file").symlink_to(outside / "precious")
    shelf.clear()
    assert not shelf.folder.exists()
    assert (outside / "precious").read_text() == "kept"


def test_what_comes_during_the_sweep_stays(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "stores")
    (shelf.open() / STORE).mkdir()
    (shelf.folder / "letter.txt").write_text("dear")
    shelf.clear()
    assert os.listdir(shelf.folder) == ["letter.txt"]


def test_stores_on_another_disk(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    """They have a folder of their own there, which goes; what else is there stays."""
    out, disk = tmp_path / "out", tmp_path / "disk"
    disk.mkdir()
    (disk / "letter.txt").write_text("dear")
    grid = write_grid(stores=["flat", "lmdb"])
    done = kvbench("sweep", grid, "--out", out, "--stores", disk)
    assert (done.returncode, done.stdout.strip()) == (0, "2 ok")
    assert os.listdir(disk) == ["letter.txt"]
    assert not (out / "stores").exists()
    done = kvbench("sweep", grid, "--out", out, "--stores", tmp_path / "none")
    assert done.returncode == 2
    assert "none" in done.stderr


def test_a_place_that_no_cell_needs_is_not_made(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "stores")
    assert not shelf.folder.exists()
    shelf.clear()
    shelf.open()
    assert os.listdir(shelf.folder) == [MARK]
