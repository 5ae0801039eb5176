"""A recording disk: what reaches it is recorded in order, and fails when it is to fail."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from kvbench.common.messages import BadInput
from kvbench.machine import device
from kvbench.machine.device import FLUSH, WRITE, Device, Entry, entries, recorded
from kvbench.machine.scratch import scratch
from support import MEMORY, Run

SIZE, SYNCS = 16 << 20, 50
Make = Callable[..., AbstractContextManager[Device]]


@pytest.fixture
def work() -> Iterator[Path]:
    try:
        device.check("ext4")
    except BadInput as why:
        pytest.skip(str(why))
    with scratch(MEMORY) as folder:
        yield folder


@pytest.fixture
def image(work: Path) -> Path:
    path = work / "image"
    with open(path, "wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", path], check=True)
    return path


def marker(number: int) -> bytes:
    return b"<marker %03d>" % number * 400  # more than a page


def data(log: Path, entry: Entry) -> bytes:
    with open(log, "rb") as file:
        return os.pread(file.fileno(), entry.size, entry.place)


def test_a_sync_returns_after_a_flush_that_follows_its_writes(image: Path, work: Path) -> None:
    returned = []
    with recorded(image, "ext4", work / "own", SYNCS) as disk:
        numbers = np.memmap(disk.acknowledged, np.uint64, "r+")
        file = os.open(disk.folder / "file", os.O_CREAT | os.O_WRONLY)
        for number in range(SYNCS):
            os.write(file, marker(number))
            os.fsync(file)
            numbers[number] = time.monotonic_ns()
            returned.append(int(numbers[number]))
        os.close(file)
    log = list(entries(disk.log))
    assert [entry.time for entry in log] == sorted(entry.time for entry in log)
    written = [data(disk.log, entry) if entry.kind == WRITE else b"" for entry in log]
    for number in range(SYNCS):
        last = max(at for at, part in enumerate(written[: len(log)])
                   if marker(number)[:12] in part and log[at].time < returned[number])  # fmt: skip
        flush = next(entry for entry in log[last:] if entry.kind == FLUSH)
        assert flush.time < returned[number]
        assert flush.acknowledged == log[last].acknowledged == number


def test_the_log_leads_from_the_first_image_to_the_last(image: Path, work: Path) -> None:
    before = bytearray(image.read_bytes())
    with recorded(image, "ext4", work / "own") as disk:
        for number in range(SYNCS):
            (disk.folder / str(number)).write_bytes(marker(number))
    for entry in entries(disk.log):
        before[entry.offset : entry.offset + entry.size] = data(disk.log, entry)
    assert before == image.read_bytes()


@pytest.mark.parametrize("once", [True, False])
def test_the_nth_flush_fails(image: Path, work: Path, once: bool) -> None:
    failed = []
    with recorded(image, "ext4", work / "own") as disk:
        with open(disk.folder / "file", "wb", buffering=0) as file:
            os.fsync(file.fileno())
            disk.flushes.fail(2, once=once)
            for _ in range(3):
                try:
                    file.write(b"one more")
                    os.fsync(file.fileno())
                except OSError as error:
                    failed.append(error.errno)
        disk.flushes.heal()
    assert errno.EIO in failed
    assert (disk.flushes.failed == 1) is once


def test_a_write_that_fails_is_not_in_the_log(image: Path, work: Path) -> None:
    with recorded(image, "ext4", work / "own") as disk:
        with open(disk.folder / "file", "wb", buffering=0) as file:
            file.write(bytes(len(marker(1))))
            os.fsync(file.fileno())
            disk.writes.fail(1, once=False)
            os.pwrite(file.fileno(), marker(1), 0)
            with pytest.raises(OSError):
                os.fdatasync(file.fileno())
        disk.writes.heal()
    assert not any(marker(1)[:12] in data(disk.log, entry) for entry in entries(disk.log))


@pytest.fixture
def small(work: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    (folder := work / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32M", "small", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # the error refers to files there


@pytest.mark.parametrize("full", ["log", "image"])
def test_a_full_disk_below_is_no_failure_of_the_program(
    image: Path, work: Path, small: Path, full: str
) -> None:
    own = (small if full == "log" else work) / "own"
    if full == "image":
        subprocess.run(["cp", "--sparse=always", image, small / "image"], check=True)
        image = small / "image"
        (small / "more").write_bytes(bytes(24 << 20))
    with pytest.raises(OSError) as raised, recorded(image, "ext4", own) as disk:
        for number in range(8):
            with open(disk.folder / f"{number % 2}", "wb") as file:
                file.write(os.urandom(5 << 20))
                file.flush()
                os.fsync(file.fileno())
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(own / "log"))


def test_a_missing_program_is_named(kvbench: Run, tmp_path: Path) -> None:
    for name in ("mkfs.ext4", "losetup"):
        (tmp_path / name).symlink_to("/bin/true")
    explore = ("crash", "flat", "--explore", "--out", tmp_path / "out.csv")
    done = kvbench(*explore, env={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "nbdkit is not installed (Debian: nbdkit)" in done.stderr


STOPPED = """
import os, signal, sys
from pathlib import Path
from kvbench.durability import evidence
from kvbench.machine import device

def is_mount(path, found=Path.is_mount):
    os.kill(os.getpid(), signal.SIGINT)
    return found(path)

image, folder = map(Path, sys.argv[1:])
with {mounted}:
    Path.is_mount = is_mount
"""


@pytest.mark.parametrize(
    "mounted", ["evidence.mounted(image, folder)", "device.attached(image, folder, 'ext4')"]
)
def test_a_signal_does_not_keep_an_image_mounted(mounted: str, image: Path) -> None:
    """It comes as the image is to be unmounted."""
    folder = image.with_name("mounted")
    code = STOPPED.format(mounted=mounted)
    command = [sys.executable, "-c", code, image, folder]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert b"KeyboardInterrupt" in done.stderr
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert not folder.exists()
