"""A dry run refuses and skips what the sweep would, in the same words: on full disks, on read-only
ones, and in memory."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kvbench.durability import evidence
from kvbench.machine import description, scratch
from support import ROOT, Run

WriteGrid = Callable[..., Path]
Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a file system at a new folder; skips where that is not allowed."""
    made: list[Path] = []

    def at(name: str, kind: str, options: str = "rw", source: object = "none") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        command = ["mount", "-t", kind, "-o", options, str(source), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(done.stderr)
        made.append(folder)
        return folder

    yield at
    for folder in reversed(made):
        subprocess.run(["umount", folder], check=True)


def full(mount: Mount) -> Path:
    disk = mount("disk", "tmpfs", "size=300k")
    with pytest.raises(OSError, match="No space left"), open(disk / "filler", "wb", 0) as file:
        while True:
            file.write(bytes(4096))
    return disk


def without_inodes(mount: Mount) -> Path:
    disk = mount("disk", "tmpfs", "size=9m,nr_inodes=2")
    (disk / "last").touch()
    return disk


def read_only(mount: Mount) -> Path:
    return mount("disk", "tmpfs", "ro")


def both(kvbench: Run, *sweep: Any) -> str:
    """What the sweep and its dry run say when they refuse to begin: the same line."""
    dry, done = kvbench(*sweep, "--dry-run"), kvbench(*sweep)
    assert (dry.returncode, done.returncode) == (2, 2), dry.stderr + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr == dry.stderr
    assert len(done.stderr) < 300
    return done.stderr


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (full, "No space left on device"),
        (without_inodes, "No space left on device: no inode is left for a new file"),
        (read_only, "Read-only file system"),
    ],
)
def test_a_disk_that_takes_no_file_is_refused_by_name(
    make: Callable[[Mount], Path],
    why: str,
    kvbench: Run,
    write_grid: WriteGrid,
    mount: Mount,
    tmp_path: Path,
) -> None:
    """As the disk of the results, of the stores, of a restored and of an imported folder."""
    disk = make(mount)
    before, grid = os.listdir(disk), write_grid()
    out = disk / "new" / "out"
    assert (
        both(kvbench, "sweep", grid, "--out", out) == f"kvbench: {out}: can't be written: {why}\n"
    )
    said = both(kvbench, "sweep", grid, "--out", tmp_path / "out", "--stores", disk)
    assert said == f"kvbench: {disk}: can't be written: {why}\n"
    assert not (tmp_path / "out").exists()
    table = tmp_path / "table.csv"
    table.write_text("store,operation,record_size,records,n,mean_ns\na,get,100 B,10,1,5\n")
    reference = ROOT / "data" / "core"
    for command in (("import", table), ("restore", reference)):
        done = kvbench(*command, "--out", out)
        assert done.returncode == 2
        assert done.stderr == f"kvbench: {out}: can't be written: {why}\n"
    assert os.listdir(disk) == before


def test_a_disk_that_fills_up_while_a_folder_is_begun_keeps_nothing_of_it(
    kvbench: Run, write_grid: WriteGrid, mount: Mount
) -> None:
    """Whatever the moment, by the number of pages that are free at first."""
    disk, refused = mount("disk", "tmpfs", "size=64k"), 0
    grid = write_grid()
    for free in range(12):
        (disk / "filler").write_bytes(bytes((16 - free) * 4096))
        done = kvbench("sweep", grid, "--out", disk / "new" / "out")
        if done.returncode == 2:
            refused += 1
            assert done.stderr.count("\n") == 1
            assert str(disk) in done.stderr
            assert os.listdir(disk) == ["filler"]
        (disk / "filler").unlink()
        subprocess.run(["rm", "-rf", disk / "new"], check=True)
    assert refused > 3


def test_standard_output_on_a_full_disk_is_named(kvbench: Run, mount: Mount) -> None:
    disk = full(mount)
    command = f"kvbench grid-keys > {disk}/keys"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "kvbench: standard output: No space left on device\n"


def test_what_is_there_is_checked_by_a_dry_run(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """A foreign file among the stores, and a result that cannot be read."""
    out, grid = tmp_path / "out", write_grid()
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    (out / "stores").mkdir()
    (out / "stores" / "letter").touch()
    assert "not made by a sweep" in both(kvbench, "sweep", write_grid(trials=2), "--out", out)
    (out / "stores" / "letter").unlink()
    (out / "machines").rename(out.parent / "machines")
    assert kvbench("sweep", grid, "--out", out, "--dry-run").returncode == 0  # it is made again
    (out.parent / "machines").rename(out / "machines")
    (path,) = (out / "cells").iterdir()
    path.write_text("{")
    assert str(path) in both(kvbench, "sweep", write_grid(trials=2), "--out", out)


def skipped(kvbench: Run, grid: Path, out: Path, *more: object) -> list[str]:
    """The reasons why cells of a grid are skipped: those of the sweep, which its dry run gave."""
    dry = kvbench("sweep", grid, "--out", out, "--dry-run", *more)
    done = kvbench("sweep", grid, "--out", out, *more)
    assert (dry.returncode, done.returncode) == (0, 0), done.stderr
    results = [json.loads(path.read_text()) for path in (out / "cells").iterdir()]
    found = [result["reason"] for result in results if result["status"] == "skipped"]
    for reason in found:  # what is free may change in between
        assert re.search(re.sub("[0-9,]+", "[0-9,]+", re.escape(reason)), dry.stdout), dry.stdout
    return found


def test_data_that_cannot_fit_are_not_begun(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    large = {"record_sizes": ["1 MiB"], "records": [10**7], "byte_limit": "20000 GiB"}
    for place, name in (("disk", "the stores' disk"), ("tmpfs", "/dev/shm")):
        grid = write_grid(stores=["lmdb"], place=[place], **large)
        (why,) = skipped(kvbench, grid, tmp_path / place)
        assert why.startswith(f"10,485,920,000,000 B of data: {name} has ")
        assert why.endswith(" such records at most")


def test_files_for_which_there_are_no_inodes_are_not_begun(
    kvbench: Run, write_grid: WriteGrid, mount: Mount, tmp_path: Path
) -> None:
    disk = mount("disk", "tmpfs", "size=90m,nr_inodes=60")
    grid = write_grid(stores=["flat", "lmdb"])
    (why,) = skipped(kvbench, grid, tmp_path / "out", "--stores", disk)
    assert re.fullmatch(r"100 files: the stores' disk has \d+ inodes free", why)


def overlay(mount: Mount, below: Path, name: str = "over", options: str = "") -> Path:
    for part in ("lower", "upper", "work"):
        (below / part).mkdir()
    parts = f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work"
    return mount(name, "overlay", parts + options)


def on_ext4(mount: Mount, below: Path) -> Path:
    evidence.make_image(below / "image", 64 << 20)
    return mount("ext4", "ext4", "loop", below / "image")


MEMORY: dict[str, Callable[[Mount], Path]] = {
    "tmpfs": lambda mount: mount("memory", "tmpfs"),
    "ramfs": lambda mount: mount("memory", "ramfs"),
    "an overlay in memory": lambda mount: overlay(mount, mount("memory", "tmpfs")),
    "a file on tmpfs": lambda mount: on_ext4(mount, mount("memory", "tmpfs")),
}


@pytest.mark.check
@pytest.mark.parametrize("name", MEMORY)
def test_no_sync_is_measured_in_memory(
    name: str, kvbench: Run, write_grid: WriteGrid, mount: Mount, tmp_path: Path
) -> None:
    """Cells at the other levels are, with a warning; none guarantees more than `process`."""
    disk, out = MEMORY[name](mount), tmp_path / "out"
    grid = write_grid(stores=["flat"], durability=["default", "process", "sync", "atomic"])
    found = skipped(kvbench, grid, out, "--stores", disk)
    why = f"no sync reaches a disk from {name}"
    assert sorted(found) == [f"durability=atomic: {why}", f"durability=sync: {why}"]
    results = [json.loads(path.read_text()) for path in (out / "cells").iterdir()]
    assert {result["guarantee"] for result in results} == {"process"}
    done = kvbench("sweep", write_grid(trials=2), "--out", out, "--stores", disk)
    assert f"{disk}: {why}: memory is measured, not a disk; name" in done.stderr


def test_an_overlay_is_memory_only_if_it_ignores_syncs_or_lies_above_it(
    mount: Mount, on_disk: Path
) -> None:
    assert description.in_memory(on_disk) == ""
    (on_disk / "one").mkdir()
    (on_disk / "two").mkdir()
    assert description.in_memory(overlay(mount, on_disk / "one", "one")) == ""
    volatile = overlay(mount, on_disk / "two", "two", ",volatile")
    assert description.in_memory(volatile) == "an overlay in memory"


def test_cells_that_are_to_be_in_memory_say_what_they_guarantee(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(durability=["sync"], place=["tmpfs"])
    assert kvbench("sweep", grid, "--out", tmp_path / "out").returncode == 0
    (path,) = (tmp_path / "out" / "cells").iterdir()
    assert json.loads(path.read_text())["guarantee"] == "process"
    assert scratch.TMPFS.is_dir()
