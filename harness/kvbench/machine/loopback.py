"""Makes a file system of the stores' own, in a file behind a loop device: nothing else reads or
writes there, and all stores are removed by unmounting it."""

import contextlib
import mmap
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from kvbench.cell.factors import Cell
from kvbench.cell.filesystem import Mounted, unmount
from kvbench.common.messages import BadInput, say

# The command that makes each kind, and its Debian package. None discards: the blocks of the backing
# file stay allocated. ext4 has an inode for each 4 KiB, because stores of files need many.
MAKE = {
    "ext4": (
        "mkfs.ext4 -q -F -i 4096 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard", "e2fsprogs"
    ),
    "xfs": ("mkfs.xfs -q -f -K", "xfsprogs"),
    "btrfs": ("mkfs.btrfs -q -f -K", "btrfs-progs"),
}  # fmt: skip
IMAGE, MOUNT = "file-system.img", "file-system"  # the backing file and the mount, in one folder
# What the kernel reads ahead on most disks. Some virtual ones have megabytes, which each fault of a
# mapped page would read.
READ_AHEAD_KB = "128"
SYS_ADMIN = 21  # the capability, see capabilities(7)
FILES = ("flat", "nested")  # stores that keep each record in a file
GIB = 1 << 30
LEAST = GIB  # bytes of a file system
USED = 20 * GIB  # bytes that may be used before it is made anew
SPARE = GIB  # bytes that are left free on the disk, for results
BLOCK = 4 << 20  # bytes that are written at once


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BadInput(f"--fs: {' '.join(done.stderr.split()) or f'{command[0]} failed'}")
    return done.stdout.strip()


def _connect(image: Path) -> str:
    """A loop device for a file: past the page cache, without discard, and with the usual
    read-ahead."""
    device = _run("losetup", "--find", "--show", "--direct-io=on", os.fspath(image))
    system = Path("/sys/block", Path(device).name)
    if (system / "loop/dio").read_text().strip() != "1":
        _run("losetup", "--detach", device)
        raise BadInput(
            f"--fs: {image.parent}: the kernel refuses direct I/O to a loop device on this file "
            "system; name a folder on another disk with --stores"
        )
    (system / "queue/discard_max_bytes").write_text("0")
    (system / "queue/read_ahead_kb").write_text(READ_AHEAD_KB)
    return device


def check(kind: str, folder: Path) -> None:
    """Raise BadInput if no file system of this kind can be made in `folder`, which exists. Leaves
    nothing behind."""
    if kind not in MAKE:
        raise BadInput(f"--fs: {kind!r} is not a file system; allowed: {', '.join(MAKE)}")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    if not int(status["CapEff"], 16) >> SYS_ADMIN & 1:
        raise BadInput(f"--fs {kind}: needs root, to make loop devices and to mount them")
    command, package = MAKE[kind]
    for program, debian in ((command.split()[0], package), ("losetup", "mount")):
        if shutil.which(program) is None:
            raise BadInput(f"--fs {kind}: {program} is not installed (Debian: {debian})")
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "--quiet", kind], stderr=subprocess.DEVNULL, check=False)
    if kind not in Path("/proc/filesystems").read_text().split():
        raise BadInput(f"--fs {kind}: the running kernel has no {kind}")
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(BLOCK)
        _run("losetup", "--detach", _connect(Path(file.name)))


def _write(file: int, start: int, end: int, data: bytes) -> None:
    """Write a part of a file past the page cache, with the same BLOCK bytes again and again."""
    with mmap.mmap(-1, BLOCK) as block, memoryview(block) as view:  # aligned to pages
        block.write(data)
        while start < end:
            start += os.pwrite(file, view[: min(BLOCK, end - start)], start)


def _holes(file: int) -> Iterator[tuple[int, int]]:
    """The parts of a file without data of their own: holes, and what is only reserved."""
    end, size = 0, os.fstat(file).st_size
    while (start := os.lseek(file, end, os.SEEK_HOLE)) < size:
        try:
            end = os.lseek(file, start, os.SEEK_DATA)
        except OSError:  # none from there on
            end = size
        yield start, end


def make(kind: str, folder: Path, size: int) -> Mounted:
    """Make and mount an empty file system of at least so many bytes in `folder`, in place of one
    that is there.

    Every block of the backing file is written once, so that no write of a store has to wait until
    the file system below allocates one: random bytes, which no device compresses.
    """
    release(folder)
    image, mount = folder / IMAGE, folder / MOUNT
    mount.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_DIRECT
    file = os.open(image, flags, 0o600)
    try:
        written = os.fstat(file).st_size
        if size - written > 4 * GIB:
            say(f"{image}: writing {_gib(size - written)} for the stores' file system, once")
        _write(file, written, size, os.urandom(BLOCK))
        device = _connect(image)
        _run(*MAKE[kind][0].split(), device)
        for start, end in _holes(file):  # mkfs only reserves what is to be zero
            _write(file, start, end, bytes(BLOCK))
        os.fsync(file)
    except OSError as error:
        raise BadInput(f"--fs: {image} cannot be written: {error.strerror}") from None
    finally:
        os.close(file)
    mounted = Mounted(device, os.fspath(mount.resolve()), kind)
    mounted.attach()
    return mounted


def release(folder: Path) -> None:
    """Unmount all that is mounted below `folder`, and free the loop devices of the files there; the
    files stay. Touches no other mount, and no device of another file."""
    below = f"{os.path.realpath(folder)}/"
    for mount in reversed(mount_points()):
        if mount.startswith(below):
            unmount(mount)
    for file in filter(os.path.exists, backing_files()):
        if file.startswith(below):
            found = _run("losetup", "--noheadings", "--output", "NAME", "--associated", file)
            for device in found.split():
                _run("losetup", "--detach", device)


def mount_points() -> list[str]:
    """Where file systems are mounted, in the order in which they were."""
    return [disk.mountpoint for disk in psutil.disk_partitions(all=True)]


def backing_files() -> list[str]:
    """The files behind loop devices."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # freed meanwhile
            found.append(os.fsdecode(file.read_bytes().rstrip(b"\n")))
    return found


def backing_file(device: str) -> Path | None:
    """The file behind a device, as "/dev/loop0", if it is one of a sweep's."""
    file = Path("/sys/block", Path(device).name, "loop/backing_file")
    path = Path(os.fsdecode(file.read_bytes().rstrip(b"\n"))) if file.exists() else Path()
    return path if path.name == IMAGE else None


def _per_record(cell: Cell) -> int:
    """Bytes that a record may take: an engine may need several times the live bytes for a while; a
    file, its name and a folder take blocks and inodes of their own."""
    own = (12 << 10) if cell.store in FILES else 0
    return int(4 * (cell.key_size + cell.record_size.mean)) + own


def need(cell: Cell) -> int:
    """Bytes of room that a cell is given."""
    return cell.records * _per_record(cell) + (64 << 20)  # logs that are as long from the start


def _holding(room: int) -> int:
    """The size of a file system with so much room; its own tables take less than a fifth."""
    return max(LEAST, (room * 5 // 4 + (256 << 20)) // BLOCK * BLOCK)


def sizes(cells: Sequence[Cell]) -> tuple[int, int]:
    """Bytes of a file system for the cells of a sweep: at least, by its largest cell, and where the
    disk has room for it, by its largest trial."""
    least = _holding(max(map(need, cells)))
    trials: Counter[int] = Counter()
    for cell in cells:
        trials[cell.trial] += need(cell)
    # Most stores use less than half of what they may need, and one file system serves several.
    return least, max(least, _holding(min(max(trials.values()) // 2, USED)))


def size_for(cells: Sequence[Cell], folder: Path, had: int = 0) -> int:
    """Bytes of a file system for the cells of a sweep. `had` bytes of the disk of `folder` are
    taken by the one that is there. Raises BadInput if the disk is too small for the largest
    cell."""
    if not cells:
        return LEAST
    state = os.statvfs(folder)
    free = state.f_bavail * state.f_frsize + had - SPARE
    least, wanted = sizes(cells)
    if least > free:
        largest = max(cells, key=need)
        room = max(0, free - (256 << 20)) * 4 // 5 - (64 << 20)
        most = max(0, room // _per_record(largest)) if free > LEAST else 0
        raise BadInput(
            f"--fs: {largest} needs a file system of {_gib(least)}, and {folder} "
            f"has room for {_gib(max(0, free))}; allowed there: {most:,} such records at most; or "
            "name a folder on another disk with --stores"
        )
    return min(wanted, free // BLOCK * BLOCK)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
