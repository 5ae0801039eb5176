"""A file system of the stores' own: real loop devices and mounts, and nothing left of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from kvbench.cell import cache, filesystem
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import Cell, RecordSize
from kvbench.cell.filesystem import Mounted
from kvbench.cli import STOPPED
from kvbench.common.messages import BadInput
from kvbench.machine import loopback, served
from kvbench.machine.shelf import MountedShelf
from support import Run, gone, runs

WriteGrid = Callable[..., Path]
COMMAND = [sys.executable, "-m", "kvbench.cli", "sweep"]


KINDS = pytest.mark.parametrize(
    "kind", ["ext4", *(pytest.param(kind, marks=pytest.mark.check) for kind in ("xfs", "btrfs"))]
)


def cells(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))]


def machines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "machines").glob("*.json"))]


def devices(folder: Path) -> list[str]:
    """The files below a folder that are behind loop devices."""
    return [path for path in loopback.backing_files() if path.startswith(f"{folder}/")]


def mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[1].startswith(f"{folder}/")]


def skip_without(kind: str, folder: Path) -> None:
    try:
        loopback.check(kind, folder)
    except BadInput as why:
        pytest.skip(str(why))


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk, in which ext4 can be made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        skip_without("ext4", folder)
        yield folder
        for image in folder.rglob(loopback.IMAGE):
            loopback.release(image.parent)


def skip_without_server() -> None:
    try:
        served.check(served.SLOW)
    except BadInput as why:
        pytest.skip(str(why))


@pytest.fixture
def mounted(disk: Path) -> Mounted:
    return loopback.make("ext4", disk, loopback.LEAST)


@KINDS
def test_a_sweep_measures_on_its_own_file_system_and_leaves_none(
    kvbench: Run, write_grid: WriteGrid, disk: Path, kind: str
) -> None:
    skip_without(kind, disk)
    out = disk / "out"
    grid = write_grid(stores=["flat", "leveldb"], trials=2)
    done = kvbench("sweep", grid, "--out", out, "--fs", kind)
    assert (done.returncode, done.stdout.strip()) == (0, "4 ok"), done.stderr
    assert not mounts(disk) + devices(disk)
    assert not (out / "stores").exists()
    (machine,) = machines(out)
    assert machine["file_system"].startswith(f"{kind} of its own on ")
    assert machine["mount_options"].startswith("rw,relatime")
    for result in cells(out):
        assert result["removed_files"] == 0
        assert all(row["device_write_bytes"] is not None for row in result["operations"])


SLOW = ["--fs", "ext4", "--device", "sync=2ms,read=300us"]


@pytest.mark.check
def test_a_slowed_disk_takes_at_least_the_time_that_was_asked_for(
    kvbench: Run, write_grid: WriteGrid, disk: Path
) -> None:
    skip_without_server()
    out, asked = disk / "out", {"insert": 2_000_000, "get": 300_000}  # ns
    for operation, state in (("insert", "warm"), ("get", "cold")):
        how = {"operations": [operation], "cache": [state], "durability": ["sync"]}
        done = kvbench("sweep", write_grid(**how), "--out", out / operation, *SLOW, "--probe")
        assert (done.returncode, done.stdout.strip()) == (0, "1 ok"), done.stderr
        assert not mounts(disk) + devices(disk)
        assert not (out / operation / "stores").exists()
        (machine,) = machines(out / operation)
        assert machine["file_system"].endswith(" slowed to read=300us, sync=2ms")
        assert (machine["asked_sync_us"], machine["asked_read_us"]) == (2000, 300)
        if not machine["probe"].startswith("fio-"):
            pytest.skip(machine["probe"])
        for column in ("sync_p50_us", "sync_p90_us", "sync_p99_us", "sync_max_us"):
            assert machine[column] >= 2000
        for column in ("random_read_us", "random_read_p90_us", "random_read_p99_us"):
            assert machine[column] >= 300 * 0.99  # a bin of fio's histogram may be wider
        (result,) = cells(out / operation)
        (row,) = (row for row in result["operations"] if row["operation"] == operation)
        assert row["min_ns"] >= asked[operation]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--device", "sync=1ms"], "'sync=1ms' is not allowed without --fs"),
        ([*SLOW[:3], "sync"], "'sync' is not allowed; allowed: read=TIME, sync=TIME"),
        ([*SLOW[:3], "sync=0ms"], "'sync=0ms' is not allowed"),
        ([*SLOW[:3], "sync=2s"], "'sync=2s' is not allowed"),
        ([*SLOW[:3], "write=1ms"], "'write=1ms' is not allowed"),
        ([*SLOW[:3], "sync=1ms,sync=2ms"], "'sync=1ms,sync=2ms' is not allowed"),
        ([*SLOW[:3], "sync=1001ms"], "'sync=1001ms' is not allowed"),
    ],
)
def test_delays_that_are_none_are_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, options: list[str], named: str
) -> None:
    done = kvbench("sweep", write_grid(), "--out", tmp_path / "out", *options)
    assert_refused(done, "--device: ", named)
    assert not (tmp_path / "out").exists()


@pytest.mark.check
def test_no_result_counts_for_both_kinds_of_sweep(
    kvbench: Run, write_grid: WriteGrid, disk: Path
) -> None:
    """And cells in memory stay there."""
    out = disk / "out"
    grid = write_grid(place=["disk", "tmpfs"])
    for options in (["--fs", "ext4"], []):
        done = kvbench("sweep", grid, "--out", out, *options)
        assert (done.returncode, done.stdout.strip()) == (0, "2 ok"), done.stderr
    assert len(machines(out)) == 2
    assert len(cells(out)) == 4
    counted = [result["operations"][0]["device_write_bytes"] is not None for result in cells(out)]
    assert counted.count(True) == 1


def test_the_stores_may_be_on_another_disk(
    kvbench: Run, write_grid: WriteGrid, disk: Path, tmp_path: Path
) -> None:
    (disk / "letter.txt").write_text("dear")
    done = kvbench(
        "sweep", write_grid(), "--out", tmp_path / "out", "--stores", disk, "--fs", "ext4"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok"), done.stderr
    assert os.listdir(disk) == ["letter.txt"]


@pytest.mark.check
def test_a_cold_get_of_a_file_reads_its_inode_and_its_folder(
    kvbench: Run, write_grid: WriteGrid, disk: Path
) -> None:
    grid = write_grid(records=[1000], cache=["cold"], operations=["get"])
    done = kvbench("sweep", grid, "--out", disk / "out", "--fs", "ext4")
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok"), done.stderr
    (result,) = cells(disk / "out")
    assert result["eviction"] == "remount"
    (get,) = (row for row in result["operations"] if row["operation"] == "get")
    assert get["device_read_bytes"] >= get["n"] * 3 * 4096


def read_bytes(mounted: Mounted) -> int:
    return int(mounted.stat.read_text().split()[2]) * 512


def test_looking_at_evicted_files_brings_none_back(mounted: Mounted) -> None:
    """Of more files than are looked at."""
    folder = Path(mounted.mount) / "store"
    folder.mkdir()
    for i in range(2 * cache.FILES):
        (folder / f"{i}").write_bytes(bytes(5000))
    assert cache.cached_share(folder) == 1
    assert cache.evict(folder, mounted) == "remount"
    assert [cache.cached_share(folder) for _ in range(2)] == [0, 0]
    before = read_bytes(mounted)
    assert (folder / "0").read_bytes() == bytes(5000)
    assert read_bytes(mounted) - before == 8192


def test_warming_reads_what_left_the_page_cache(mounted: Mounted) -> None:
    folder = Path(mounted.mount) / "store"
    (folder / "below").mkdir(parents=True)
    (folder / "large").write_bytes(bytes(3 << 20))
    (folder / "below" / "small").write_bytes(b"x")
    cache.evict(folder, mounted)
    cache.warm(folder, seconds=-1)
    assert cache.cached_share(folder) == 0
    cache.warm(folder)
    assert cache.cached_share(folder) == 1


def test_a_file_that_is_open_after_close_is_named(mounted: Mounted) -> None:
    folder = Path(mounted.mount)
    with open(folder / "kept", "wb"), pytest.raises(StoreError, match="kept is still open"):
        cache.evict(folder, mounted)
    assert cache.evict(folder, mounted) == "remount"


def test_another_program_that_looks_into_it_is_waited_for(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "PATIENCE", 0.05)
    command = ["sh", "-c", "echo here; read line"]
    looker: Any = subprocess.Popen(command, cwd=mounted.mount, stdin=PIPE, stdout=PIPE)
    assert looker.stdout.readline() == b"here\n"
    threading.Timer(0.2, looker.communicate).start()
    assert cache.evict(Path(mounted.mount), mounted) == "remount"
    assert looker.wait() == 1  # it read no line


def test_unmounting_waits_for_a_process_with_mounts_of_its_own(mounted: Mounted) -> None:
    """Which keeps the file system. The next one on the same device is another one."""
    command = ["unshare", "--mount", "sh", "-c", "echo here; read line"]
    holder: Any = subprocess.Popen(command, stdin=PIPE, stdout=PIPE)
    assert holder.stdout.readline() == b"here\n"
    threading.Timer(0.2, holder.communicate).start()
    mounted.detach()
    assert holder.wait() == 1  # it read no line
    mounted.attach()
    mounted.detach()


@KINDS
def test_every_block_is_allocated_and_written(disk: Path, kind: str) -> None:
    """mkfs only reserves the blocks that are to be zero."""
    skip_without(kind, disk)
    for size in (loopback.LEAST, loopback.LEAST + loopback.BLOCK):
        loopback.release(disk)
        mounted = loopback.make(kind, disk, size)
        with open(disk / loopback.IMAGE, "rb") as file:
            assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == size
        device = Path("/sys/block", Path(mounted.device).name)
        assert (device / "loop/dio").read_text() == "1\n"
        assert int((device / "size").read_text()) * 512 == size
        assert (device / "queue/discard_max_bytes").read_text() == "0\n"


def test_a_file_system_that_is_large_enough_is_not_said_to_be_too_small(
    kvbench: Run, write_grid: WriteGrid, disk: Path
) -> None:
    """It has the room that a cell may need, and the disk below has it, too."""
    grid = write_grid(stores=["null"], record_sizes=["1 MiB"], records=[1100])
    done = kvbench("sweep", grid, "--out", disk / "out", "--fs", "ext4", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_system_is_made_anew_when_half_is_used(disk: Path) -> None:
    """And for each trial, and after a worker that died while nothing was mounted."""
    shelf = MountedShelf(disk / "stores", "0123456789ab", "ext4")
    cell = Cell("flat", "", RecordSize(100, 100), 10, "incompressible", ("get",), 1, 1)
    next_trial = replace(cell, trial=2)
    a, _ = shelf.place("a", cell)
    b, _ = shelf.place("b", cell)
    assert a.exists()
    c, _ = shelf.place("c", next_trial)
    assert not b.exists()
    d, _ = shelf.place("d", next_trial)
    assert c.exists()
    with open(d / "large", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, loopback.LEAST * 5 // 8)
    e, _ = shelf.place("e", next_trial)
    assert not d.exists()
    assert shelf.mounted
    shelf.mounted.detach()
    f, _ = shelf.place("f", next_trial)
    assert os.path.ismount(f.parent)
    assert not e.exists()
    shelf.clear()
    assert not shelf.folder.exists()


KILLED = """
import os, sys
from pathlib import Path
from kvbench.machine.shelf import MountedShelf
MountedShelf(Path(sys.argv[1]), "identity", "ext4").open()
os._exit(0)
"""


def test_a_shelf_clears_the_file_system_of_a_killed_one(disk: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, disk / "stores"], check=True)
    assert mounts(disk) + devices(disk)
    shelf = MountedShelf(disk / "stores", "identity", "ext4")
    assert not mounts(disk) + devices(disk)
    assert not shelf.folder.exists()


@pytest.mark.check
def test_a_killed_sweep_s_file_system_is_removed_by_the_next(
    kvbench: Run, write_grid: WriteGrid, hanging: Callable[..., Any], disk: Path, tmp_path: Path
) -> None:
    """Whether or not that one makes its own; and no other loop device is touched."""
    foreign = disk / "foreign"
    foreign.mkdir()
    loopback.make("ext4", foreign, loopback.LEAST)
    out = disk / "out"
    for options in (["--fs", "ext4"], []):
        first = hanging(out, "--fs", "ext4", hung=tmp_path / "hung")
        assert mounts(out)  # before the kill: another command may remove them from then on
        assert devices(out)
        first.kill()
        first.wait()
        done = kvbench("sweep", write_grid(), "--out", out, *options)
        assert (done.returncode, done.stdout.strip()) == (0, "1 ok"), done.stderr
        assert not runs(tmp_path / "hung")
        (tmp_path / "hung").unlink()
        assert not mounts(out) + devices(out)
        assert not (out / "stores").exists()
    assert mounts(foreign)
    assert devices(foreign)


@pytest.mark.parametrize("options", [SLOW[:2], SLOW], ids=["", "slow"])
def test_a_killed_sweep_s_file_system_is_removed_by_another_command(
    kvbench: Run, hanging: Callable[..., Any], disk: Path, tmp_path: Path, options: list[str]
) -> None:
    """Which works elsewhere, and finds it among what is mounted."""
    if options == SLOW:
        skip_without_server()
    out = disk / "out"
    first = hanging(out, *options, hung=tmp_path / "hung")
    first.kill()
    first.wait()
    done = kvbench("sharing", "null", "--place", tmp_path, "--out", tmp_path / "sharing.csv")
    assert done.returncode == 0, done.stderr
    assert gone(out / "stores")
    assert not runs(tmp_path / "hung")
    assert not mounts(out) + devices(out)


def test_a_second_ctrl_c_leaves_no_file_system(
    hanging: Callable[..., Any], disk: Path, tmp_path: Path
) -> None:
    process = hanging(disk / "out", "--fs", "ext4", hung=tmp_path / "hung")
    process.send_signal(signal.SIGINT)
    while b"press Ctrl-C again" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait() == STOPPED
    assert not mounts(disk) + devices(disk)
    assert not (disk / "out" / "stores").exists()


def assert_refused(done: Any, *words: str) -> None:
    assert done.returncode == 2, done
    assert done.stderr.startswith("kvbench: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.check
@pytest.mark.parametrize(
    ("hide", "words"),
    [
        ('exec setpriv --bounding-set=-sys_admin "$@"', ["--fs ext4", "needs root"]),
        (
            'mount --bind "$NOTHING" /proc/filesystems; exec "$@"',
            ["the running kernel has no ext4"],
        ),
        ('mount -t tmpfs none /dev; mknod /dev/null c 1 3; exec "$@"', ["loop device"]),
    ],
)
def test_a_machine_without_what_it_needs_is_refused(
    write_grid: WriteGrid, disk: Path, tmp_path: Path, hide: str, words: list[str]
) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_text("nodev\ttmpfs\n")
    grid = shutil.copy(write_grid(), disk)  # out of /dev
    command = [*COMMAND, grid, "--out", disk / "out", "--fs", "ext4"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", hide, "-", *map(str, command)],
        env=os.environ | {"NOTHING": str(nothing)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert_refused(done, *words)
    assert not (disk / "out").exists()


@pytest.mark.parametrize(
    ("kind", "has", "words"),
    [
        ("ext4", ["losetup"], ["mkfs.ext4 is not installed", "e2fsprogs"]),
        ("xfs", ["losetup"], ["mkfs.xfs is not installed", "xfsprogs"]),
        ("btrfs", ["losetup"], ["mkfs.btrfs is not installed", "btrfs-progs"]),
        ("ext4", ["mkfs.ext4"], ["losetup is not installed"]),
    ],
)
def test_a_missing_program_is_named_with_its_package(
    kvbench: Run,
    write_grid: WriteGrid,
    disk: Path,
    tmp_path: Path,
    kind: str,
    has: list[str],
    words: list[str],
) -> None:
    for name in has:
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    path = {"PATH": str(tmp_path)}
    done = kvbench("sweep", write_grid(), "--out", disk / "out", "--fs", kind, env=path)
    assert_refused(done, *words)
    assert not (disk / "out").exists()


def test_an_unknown_kind_and_a_disk_too_small_are_refused(
    kvbench: Run, write_grid: WriteGrid, disk: Path
) -> None:
    out = disk / "out"
    assert_refused(kvbench("sweep", write_grid(), "--out", out, "--fs", "zfs"), "'zfs'", "'ext4'")
    large = write_grid(records=[100, 10**9], record_sizes=["1 MiB"], byte_limit="2000000 GiB")
    for more in ([], ["--dry-run"]):
        done = kvbench("sweep", large, "--out", out, "--fs", "ext4", *more)
        words = ("flat, 1 MiB x 1000000000", "has room for", "such records at most")
        assert done.returncode == 2
        assert all(word in done.stderr for word in words)
    assert not out.exists()
