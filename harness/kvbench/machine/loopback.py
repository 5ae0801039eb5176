"""Makes a file system for the stores, in a file behind a loop device. Nothing else reads or writes
it, and unmounting it removes all stores at once."""

import errno
import fcntl
import mmap
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from kvbench.cell.factors import Cell
from kvbench.cell.filesystem import Mounted, unmount
from kvbench.common.messages import BadInput, say
from kvbench.experiment.factors import title

# The command that makes each kind, and its Debian package. No command discards blocks, so the
# backing file stays allocated. ext4 gets an inode per 4 KiB, because stores of files need many.
MAKE = {
    "ext4": (
        "mkfs.ext4 -q -F -i 4096 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard", "e2fsprogs"
    ),
    "xfs": ("mkfs.xfs -q -f -K", "xfsprogs"),
    "btrfs": ("mkfs.btrfs -q -f -K", "btrfs-progs"),
}  # fmt: skip
IMAGE, MOUNT = "file-system.img", "file-system"  # the backing file and the mount, in one folder
SERVED = "device"  # a folder beside them, if a program serves the image
SLOWED = "delays"  # a file in it that says how
# The usual read-ahead of disks. Some virtual disks have megabytes, which every fault of a mapped
# page would read.
READ_AHEAD_KB = "128"
LOOP_CLEAR = 0x4C01  # LOOP_CLR_FD of linux/loop.h
SYS_ADMIN = 21  # the capability, see capabilities(7)
FILES = ("flat", "nested")  # stores that keep each record in a file
GIB = 1 << 30
LEAST = GIB  # least bytes of a file system
USED = 20 * GIB  # used bytes after which it is made anew
SPARE = GIB  # bytes to leave free on the disk for results
BLOCK = 4 << 20  # bytes per write


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise BadInput(f"--fs: {' '.join(done.stderr.split()) or f'{command[0]} failed'}")
    return done.stdout.strip()


def connect(image: Path, *, direct: bool = True) -> str:
    """Connect a file to a loop device, and return the device. It does not discard, has the usual
    read-ahead, and bypasses the page cache if `direct`. Raises BadInput."""
    how = "--direct-io=on" if direct else "--direct-io=off"
    device = _run("losetup", "--find", "--show", how, os.fspath(image))
    system = Path("/sys/block", Path(device).name)
    if direct and (system / "loop/dio").read_text().strip() != "1":
        disconnect(device)
        raise BadInput(
            f"--fs: {image.parent}: the kernel refuses direct I/O to a loop device on this file "
            "system; name a folder on another disk with --stores"
        )
    (system / "queue/discard_max_bytes").write_text("0")
    (system / "queue/read_ahead_kb").write_text(READ_AHEAD_KB)
    return device


def disconnect(device: str) -> None:
    """Free a loop device; one with a mounted file system is freed when that is unmounted. Raises
    BadInput."""
    try:  # no program: until it began, another command might have taken a freed device
        file = os.open(device, os.O_RDONLY)
        try:
            fcntl.ioctl(file, LOOP_CLEAR)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno != errno.ENXIO:  # it is free
            raise BadInput(f"{device}: cannot be freed: {error.strerror}") from None


def check_kind(kind: str) -> None:
    """Raise BadInput if no file system of this kind can be made and mounted on this machine."""
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


def check(kind: str, folder: Path) -> None:
    """Raise BadInput if no file system of this kind can be made in the existing `folder`. Leaves
    nothing behind."""
    check_kind(kind)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(BLOCK)
        disconnect(connect(Path(file.name)))


def _write(file: int, start: int, end: int, data: bytes) -> None:
    """Write a part of a file with direct I/O, repeating the same BLOCK bytes."""
    with mmap.mmap(-1, BLOCK) as block, memoryview(block) as view:  # aligned to pages
        block.write(data)
        while start < end:
            start += os.pwrite(file, view[: min(BLOCK, end - start)], start)


def _holes(file: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file without data: holes and reserved space."""
    end, size = 0, os.fstat(file).st_size
    while (start := os.lseek(file, end, os.SEEK_HOLE)) < size:
        try:
            end = os.lseek(file, start, os.SEEK_DATA)
        except OSError:  # no hole beyond this offset
            end = size
        yield start, end


def make(
    kind: str, folder: Path, size: int, through: Callable[[Path], Path] | None = None
) -> Mounted:
    """Make and mount an empty file system of at least `size` bytes in `folder`, and replace an
    earlier one, which must have been released. `through` returns the file that is the disk, if that
    is not the image itself.

    Every block of the backing file is written once, so that no later write waits for the file
    system below to allocate it. The bytes are random, since a device may compress others.
    """
    image, mount = folder / IMAGE, folder / MOUNT
    mount.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_DIRECT
    file = os.open(image, flags, 0o600)
    try:
        written = os.fstat(file).st_size
        if size - written > 4 * GIB:
            say(f"{image}: writing {_gib(size - written)} for the stores' file system, once")
        _write(file, written, size, os.urandom(BLOCK))
        device = connect(image)
        _run(*MAKE[kind][0].split(), device)
        for start, end in _holes(file):  # mkfs only reserves the blocks that are to be zero
            _write(file, start, end, bytes(BLOCK))
        os.fsync(file)
        if through:
            disconnect(device)
            device = connect(through(image))
    except OSError as error:
        raise BadInput(f"--fs: {image} cannot be written: {error.strerror}") from None
    finally:
        os.close(file)
    mounted = Mounted(device, os.fspath(mount.resolve()), kind)
    mounted.attach()
    return mounted


def release(folder: Path) -> None:
    """Unmount everything below `folder`, and free the loop devices of the files there. The files
    stay. Other mounts, and devices of other files, are not touched."""
    below = f"{os.path.realpath(folder)}/"
    mounts = [disk for disk in _mounts() if disk.mountpoint.startswith(below)][::-1]
    served = [disk for disk in mounts if disk.fstype.startswith("fuse")]
    for disk in mounts:
        if disk not in served:
            unmount(disk.mountpoint)
    for device, file in _connected():
        if file.startswith(below):
            disconnect(device)
    for disk in served:  # last, since loop devices may have files that a program serves
        unmount(disk.mountpoint)


def _mounts() -> list[Any]:
    """What is mounted, in the order of mounting, as psutil describes it."""
    return list(psutil.disk_partitions(all=True))


def mount_points() -> list[str]:
    """The mount points, in the order in which they were mounted."""
    return [disk.mountpoint for disk in _mounts()]


def _connected() -> Iterator[tuple[str, str]]:
    """Yield each loop device in use, such as "/dev/loop0", with its backing file of this moment."""
    for system in Path("/sys/block").glob("loop*"):
        if path := backing(f"/dev/{system.name}"):
            yield f"/dev/{system.name}", path


def backing_files() -> list[str]:
    """The backing files of all loop devices."""
    return [file for _, file in _connected()]


def backing(device: str) -> str:
    """The path of the backing file of a device such as "/dev/loop0"; empty if it has none."""
    try:
        file = Path("/sys/block", Path(device).name, "loop/backing_file").read_bytes()
    except OSError:
        return ""
    return os.fsdecode(file.rstrip(b"\n"))


def backing_file(device: str) -> Path | None:
    """The image of a device, if a sweep made it."""
    path = Path(backing(device))
    if path.name != IMAGE and delays(device):
        path = path.parents[2] / IMAGE
    return path if path.name == IMAGE else None


def delays(device: str) -> str:
    """What slows a device down that a sweep made, as text; empty if nothing does."""
    own = Path(backing(device)).parents
    path = own[1] / SLOWED if len(own) > 2 and own[1].name == SERVED else None
    return path.read_text() if path and path.is_file() else ""


def _per_record(cell: Cell) -> int:
    """The bytes that a record may take at its peak. An engine may temporarily need several times
    the live bytes; a file, its name and a folder take blocks and inodes."""
    own = (12 << 10) if cell.store in FILES else 0
    return int(4 * (cell.key_size + cell.record_size.mean)) + own


def need(cell: Cell) -> int:
    """The bytes of space to reserve for a cell."""
    return cell.records * _per_record(cell) + (64 << 20)  # logs that engines preallocate


def _holding(room: int) -> int:
    """The size of a file system with `room` bytes of space; its own tables take less than a
    fifth."""
    return max(LEAST, (room * 5 // 4 + (256 << 20)) // BLOCK * BLOCK)


def sizes(cells: Sequence[Cell]) -> tuple[int, int]:
    """Two sizes in bytes of a file system for the cells of a sweep: the least, for the largest
    cell, and the preferred, for the largest trial."""
    least = _holding(max(map(need, cells)))
    trials: Counter[int] = Counter()
    for cell in cells:
        trials[cell.trial] += need(cell)
    # Most stores use less than half of what they may need, and one file system serves several.
    return least, max(least, _holding(min(max(trials.values()) // 2, USED)))


def size_for(cells: Sequence[Cell], folder: Path, had: int = 0) -> int:
    """The size in bytes of a file system for the cells of a sweep. An existing file system takes
    `had` bytes of the disk of `folder`. Raises BadInput if the disk is too small for the largest
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
            f"--fs: {title(largest)} needs a file system of {_gib(least)}, and {folder} "
            f"has room for {_gib(max(0, free))}; allowed there: {most:,} such records at most; or "
            "name a folder on another disk with --stores"
        )
    return min(wanted, free // BLOCK * BLOCK)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
