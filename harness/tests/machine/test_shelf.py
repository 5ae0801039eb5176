"""The folders of stores: a sweep removes and overwrites only its own files."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from kvbench.cli import STOPPED
from kvbench.machine.shelf import MARK, OWNER, Shelf, end_processes, marked
from support import Run, runs

WriteGrid = Callable[..., Path]
STORE = "flat_c_1KiB_100_t1_0123456789abcdef"  # named like the folder of a cell


def refused(kvbench: Run, grid: Path, out: Path, *words: str) -> None:
    done = kvbench("sweep", grid, "--out", out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in ("kvbench: ", *words):
        assert word in done.stderr
    assert not list(out.glob("cells/*"))


def test_a_foreign_file_among_the_stores_is_refused_and_kept(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    (out / "cells").rename(tmp_path / "cells")
    stores = out / "stores"
    stores.mkdir()
    (stores / "letter.txt").write_text("dear")
    refused(kvbench, write_grid(), out, "letter.txt", "move it away")
    assert (stores / "letter.txt").read_text() == "dear"
    (stores / "letter.txt").unlink()
    (stores / STORE).mkdir()  # named like a store, but the mark is missing
    refused(kvbench, write_grid(), out, MARK, "move it away")
    (stores / MARK).write_text("")  # as a killed sweep leaves it
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    assert not stores.exists()


@pytest.mark.parametrize("name", [STORE, "elsewhere"])
def test_a_link_among_the_stores_is_refused(
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


def test_a_link_in_place_of_the_stores_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / STORE).mkdir()
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    (out / "stores").symlink_to(outside)
    assert "a symbolic link" in kvbench("sweep", write_grid(), "--out", out).stderr
    assert (outside / STORE).exists()


def test_a_link_that_an_engine_made_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    shelf = Shelf(tmp_path / "stores", "0123456789ab")
    (shelf.open() / STORE).mkdir()
    (shelf.folder / STORE / "link").symlink_to(outside)
    (shelf.folder / STORE / "file").symlink_to(outside / "precious")
    shelf.clear()
    assert not shelf.folder.exists()
    assert (outside / "precious").read_text() == "kept"


def test_a_file_created_during_the_sweep_is_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "stores", "0123456789ab")
    (shelf.open() / STORE).mkdir()
    (shelf.folder / "letter.txt").write_text("dear")
    shelf.clear()
    assert os.listdir(shelf.folder) == ["letter.txt"]


def test_stores_on_another_disk_are_removed_and_other_files_kept(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """The stores have their own folder on that disk."""
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


def test_a_folder_that_no_cell_needs_is_not_created(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "stores", "0123456789ab")
    assert not shelf.folder.exists()
    shelf.clear()
    shelf.open()
    assert os.listdir(shelf.folder) == [MARK]


def test_sweeps_with_equal_paths_on_one_disk_leave_each_other_alone(
    kvbench: Run, write_grid: WriteGrid, hanging: Callable[..., Any], tmp_path: Path
) -> None:
    """Two containers may see equal paths. The test imitates this: it moves the first folder away
    before it makes the second."""
    out, disk = tmp_path / "container" / "out", tmp_path / "disk"
    out.parent.mkdir()
    disk.mkdir()
    first = hanging(out, "--stores", disk)
    (own,) = disk.iterdir()
    out.parent.rename(tmp_path / "first")
    out.parent.mkdir()
    done = kvbench("sweep", write_grid(), "--out", out, "--stores", disk)
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok"), done.stderr
    assert first.poll() is None
    assert runs(tmp_path / "first" / "hung")
    assert list(own.glob("null_*"))
    assert list(disk.iterdir()) == [own]


@pytest.mark.check
def test_a_copied_folder_removes_no_store_of_the_original(
    kvbench: Run, write_grid: WriteGrid, hanging: Callable[..., Any], tmp_path: Path
) -> None:
    out, disk = tmp_path / "a" / "out", tmp_path / "disk"
    out.parent.mkdir()
    disk.mkdir()
    first = hanging(out, "--stores", disk)
    shutil.copytree(out, tmp_path / "copy")
    again = ("sweep", write_grid(), "--out", tmp_path / "copy", "--stores", disk)
    done = kvbench(*again)
    assert done.returncode == 2
    assert "another sweep is writing here" in done.stderr
    assert runs(out.parent / "hung")
    first.kill()
    first.wait()
    assert kvbench(*again).stdout.strip() == "1 ok"
    assert not runs(out.parent / "hung")
    assert not list(disk.iterdir())


def test_a_sweep_of_a_copied_folder_ends_no_process_of_the_original(
    kvbench: Run, write_grid: WriteGrid, hanging: Callable[..., Any], tmp_path: Path
) -> None:
    out = tmp_path / "a" / "out"
    out.parent.mkdir()
    hanging(out)
    shutil.copytree(out, tmp_path / "copy")
    assert kvbench("sweep", write_grid(), "--out", tmp_path / "copy").stdout.strip() == "1 ok"
    assert runs(out.parent / "hung")


def test_the_next_sweep_removes_what_a_killed_one_left(
    kvbench: Run, write_grid: WriteGrid, hanging: Callable[..., Any], tmp_path: Path
) -> None:
    """It left stores, and a process that an engine started in a new session."""
    out = tmp_path / "a" / "out"
    out.parent.mkdir()
    first = hanging(out)
    first.kill()
    first.wait()
    assert runs(out.parent / "hung")
    assert kvbench("sweep", write_grid(), "--out", out).stdout.strip() == "1 ok"
    assert not runs(out.parent / "hung")
    assert not (out / "stores").exists()


def clear(together: Barrier, folder: Path) -> None:
    together.wait()
    Shelf(folder, "x")


@pytest.mark.check
def test_commands_that_clear_the_same_folder_at_once_all_go_on(tmp_path: Path) -> None:
    """Each finds what a killed command left, and another removes it in between."""
    folder, context = tmp_path / "stores", get_context("fork")
    for _ in range(40):
        folder.mkdir()
        (folder / MARK).write_text("")
        together = context.Barrier(3)
        clearing = [context.Process(target=clear, args=(together, folder)) for _ in range(3)]
        for process in clearing:
            process.start()
        for process in clearing:
            process.join()
        assert [process.exitcode for process in clearing] == [0, 0, 0]
        assert not folder.exists()


def test_a_second_ctrl_c_stops_at_once(hanging: Callable[..., Any], tmp_path: Path) -> None:
    """The first one waits for the running cell. Nothing is left behind."""
    out = tmp_path / "a" / "out"
    out.parent.mkdir()
    process = hanging(out)
    process.send_signal(signal.SIGINT)
    while b"press Ctrl-C again" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait() == STOPPED
    assert not runs(out.parent / "hung")
    assert not (out / "stores").exists()


def test_an_identity_that_is_not_a_name_chooses_no_folder(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """The identity in a foreign results folder must not choose a folder that the sweep removes."""
    out, disk = tmp_path / "out", tmp_path / "disk"
    (disk / "kvbench-").mkdir(parents=True)
    (disk / "precious").mkdir()
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    mark = out / "kvbench.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"identity": "/../precious"}))
    done = kvbench("sweep", write_grid(), "--out", out, "--stores", disk)
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok")
    assert (disk / "precious").exists()


def test_a_process_that_is_executing_another_program_is_found(tmp_path: Path) -> None:
    """At that moment it seems to have no environment."""
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o755)
    owner = f"of the test {os.getpid()}"
    process = subprocess.Popen([again], env=os.environ | {OWNER: owner})
    try:
        for _ in range(300):
            assert [found.pid for found in marked(OWNER, owner)] == [process.pid]
    finally:
        process.kill()
        process.wait()


def test_processes_that_start_others_all_end() -> None:
    """Also those that start between a look at the running ones and their end."""
    code = (
        "import os\nfor _ in range(400): os.posix_spawn('/bin/sleep', ['sleep', '99'], os.environ)"
    )
    for number in range(3):
        owner = f"of the test {os.getpid()} {number}"
        starter = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {OWNER: owner})
        while len(list(marked(OWNER, owner))) < 3:
            assert starter.poll() in (None, 0)
        end_processes(owner)
        assert list(marked(OWNER, owner)) == []
        starter.wait()
