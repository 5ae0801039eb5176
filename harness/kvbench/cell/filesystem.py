"""Walks through folders of any depth, and mounts the file system that a sweep made for its
stores."""

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PATIENCE = 1.0  # seconds: files with pending requests close a little after close()
OTHERS = 60.0  # seconds to wait for another program, such as a file indexer
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

_library = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mounted:
    """A mounted file system: its loop device, such as "/dev/loop0", its mount point and its
    type."""

    device: str
    mount: str
    kind: str

    @property
    def stat(self) -> Path:
        """The file with the counters of its device."""
        return Path("/sys/block", Path(self.device).name, "stat")

    def attach(self) -> None:
        """Mount it with the kernel's default options, which are the most common ones. Raises
        OSError."""
        paths = map(os.fsencode, (self.device, self.mount, self.kind))
        if _library.mount(*paths, ctypes.c_ulong(0), None) != 0:
            raise _error(ctypes.get_errno(), "cannot be mounted", self.mount)

    def detach(self) -> None:
        """Unmount it. Raises OSError, which names a file in it that this process still has open."""
        unmount(self.mount)


class Found(NamedTuple):
    """An item in a folder: its name, and its entry, which is None when a folder is yielded again
    after its contents. `above` is the descriptor of the parent folder, valid until the next item is
    requested."""

    above: int
    name: str
    entry: "os.DirEntry[str] | None"


def walk(folder: Path) -> Iterator[Found]:
    """Yield everything below a folder: each file once, each folder before and after its contents.
    Follows no symbolic links. An engine may nest folders deeper than Python's recursion limit, the
    longest path and the number of descriptors allow, so only one folder is open at a time. Items
    that are removed meanwhile may be missing."""
    here = os.open(folder, FOLDER)
    left: list[list[str]] = []  # per level, the folders not yet entered
    way: list[tuple[str, os.stat_result]] = []  # per level, a folder's name and its parent
    try:
        while True:
            if len(left) == len(way):
                left.append([])
                with os.scandir(here) as entries:
                    for entry in entries:
                        yield Found(here, entry.name, entry)
                        if entry.is_dir(follow_symlinks=False):
                            left[-1].append(entry.name)
            if left[-1]:
                name = left[-1].pop()
                try:
                    below = os.open(name, FOLDER, dir_fd=here)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                        raise
                    continue  # it is no folder any more
                way.append((name, os.fstat(here)))
                os.close(here)
                here = below
                continue
            left.pop()
            if not way:
                return
            above = os.open("..", FOLDER, dir_fd=here)
            os.close(here)
            here = above
            name, expected = way.pop()
            if not os.path.samestat(os.fstat(here), expected):
                raise OSError(errno.ESTALE, "moved while it was read", str(folder))
            yield Found(here, name, None)
    finally:
        os.close(here)


def allocated(folder: Path, most: int | None = None) -> int | None:
    """The bytes of the blocks that a folder and everything below it occupy; None if it holds more
    than `most` files and folders. Files that an engine removes meanwhile do not count."""
    total, seen = folder.lstat().st_blocks, 0
    for found in walk(folder):
        if found.entry is not None:
            seen += 1
            if most is not None and seen > most:
                return None
            with contextlib.suppress(FileNotFoundError):
                total += found.entry.stat(follow_symlinks=False).st_blocks
    return total * 512


def _error(code: int, what: str, folder: str) -> OSError:
    return OSError(code, f"{what}: {os.strerror(code)}", folder)


def unmount(folder: str) -> None:
    """Unmount a file system, waiting up to OTHERS seconds for other programs to leave it. Raises
    OSError, which names a file in it that this process has open."""
    begun, live = time.monotonic(), _live(folder)
    own = _inode(live)
    while _library.umount2(os.fsencode(folder), 0) != 0:
        code, waited = ctypes.get_errno(), time.monotonic() - begun
        held = min(_held(folder), default="") if waited > PATIENCE else ""
        if code != errno.EBUSY or held or waited > OTHERS:
            raise _error(code, held or "it cannot be unmounted", folder)
        time.sleep(0.01)
    # A process with mounts of its own keeps the file system and its cache until it ends.
    while own and _inode(live) == own:  # another one: of the next file system on the same device
        if time.monotonic() - begun > OTHERS:
            raise _error(errno.EBUSY, "another process has it among mounts of its own", folder)
        time.sleep(0.001)


def _inode(path: Path | None) -> int:
    """The number of a file, which no later one has; 0 if there is none."""
    try:
        return path.stat().st_ino if path else 0
    except FileNotFoundError:
        return 0


def _live(folder: str) -> Path | None:
    """What exists as long as the kernel has the file system that is mounted at a folder; None for
    the kinds that do not tell."""
    try:
        number = os.stat(folder).st_dev
    except OSError:  # a disk that a program served which has ended
        return None
    device = Path("/sys/dev/block", f"{os.major(number)}:{os.minor(number)}").resolve().name
    found = (Path("/sys/fs", kind, device) for kind in ("ext4", "xfs"))
    return next(filter(Path.exists, found), None)


def _held(folder: str) -> Iterator[str]:
    """Yield a message for each file below a folder that this process has open or mapped."""
    for kind in ("fd", "map_files"):
        for link in Path("/proc/self", kind).iterdir():
            try:
                path = os.readlink(link)
            except OSError:  # closed meanwhile
                continue
            if path.startswith(f"{folder}/"):
                yield f"{os.path.relpath(path, folder)} is still open"
