"""The folder in which a sweep makes its stores, and how it removes them."""

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from kvbench.cell.factors import Cell
from kvbench.cell.filesystem import Mounted, walk
from kvbench.common.files import naming
from kvbench.common.messages import BadInput, say
from kvbench.machine import loopback
from kvbench.machine.description import PROBE

MARK = "kvbench-stores.txt"  # marks the folder as a sweep's own; locked while a sweep uses it
SAID = "Made by kvbench, which removes this folder when it ends, or when it next runs here.\n"
OWNER = "KVBENCH_CELL"  # the environment variable by which the processes of a shelf are known
CELL = re.compile(r".+_[0-9a-f]{16}")  # as results.cell_name has it, perhaps cut off
CLEARING = 1.0  # seconds
REMOVING = 10.0  # seconds: until another program that removes from a folder, too, is done
PATIENCE = 10  # seconds until killed processes have ended
MANY_FILES = 100_000  # removing so many takes a while, so that the user is warned
LITTLE = 16 << 20  # bytes: engines write as much at once, and with less a disk is as good as full


def remove(path: Path) -> None:
    """Remove a file, or a folder with all below it, whatever else removes from it meanwhile."""
    begun = time.monotonic()
    while os.path.lexists(path):
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink()
                continue
            for found in walk(path):
                if found.entry is None:
                    os.rmdir(found.name, dir_fd=found.above)
                elif not found.entry.is_dir(follow_symlinks=False):
                    os.unlink(found.name, dir_fd=found.above)
                begun = time.monotonic()
            path.rmdir()
        except OSError as error:
            gone = error.errno == errno.ENOENT
            # Reading a folder from which others remove may leave some out: see readdir(3).
            again = error.errno in (errno.ENOTEMPTY, errno.ESTALE)
            if not gone and not (again and time.monotonic() - begun < REMOVING):
                raise


def lock(path: Path) -> IO[bytes]:
    """Open a file, making it if necessary, and hold its lock until it is closed or this process
    ends. Raises BadInput if another process holds it for longer than it takes to clear up."""
    end = time.monotonic() + CLEARING
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.fdopen(os.open(path, flags, 0o666), "wb", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BlockingIOError:
            file.close()
            if time.monotonic() < end:
                time.sleep(0.05)
                continue
            raise BadInput(
                f"{path.parent}: another sweep is writing here; wait until it ends, or name "
                "another folder"
            ) from None
        file.close()  # its owner removed it before we had the lock


def own_name(identity: str) -> str:
    """The name of a results folder's shelf where others may have theirs as well."""
    return f"kvbench-{identity}"


def marked(variable: str, mark: str) -> Iterator[psutil.Process]:
    """Running processes in whose environment the variable has this value."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            own = process.environ().get(variable) == mark
            if own and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended yet: a zombie has, if nobody has asked for its status."""
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def end_processes(owner: str) -> None:
    """Kill all processes that were started to measure this owner's stores, and see them end."""
    killed = list(marked(OWNER, owner))
    for process in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    end = time.monotonic() + PATIENCE
    while any(map(runs, killed)) and time.monotonic() < end:
        time.sleep(0.01)


class Shelf:
    """The stores that were measured, one folder each, kept until the sweep ends.

    Removing them at once would distort what follows: ext4 without a journal does not reuse the
    inode of a removed file for one to six minutes, so the next store creates its files more and
    more slowly (we saw 50 us a file rise to 600 us over four minutes). A sweep removes them early
    only when they take more than half of the space, or of the inodes, that was free.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        """Removes what a killed sweep left behind, files and processes. Raises BadInput if the
        folder holds anything else, or if another sweep uses it. `identity` is that of the results
        folder: equal paths on two machines or in two containers are different shelves."""
        self.folder = self.stores = folder
        self.identity = identity
        self.mounted: Mounted | None = None  # the file system of its own, if it has one
        self.owner = f"{identity} {folder.resolve()}"  # marks its processes
        self._mark: IO[bytes] | None = None  # while it is locked
        self._limit = (0, 0)
        self.refuse_foreign(folder)
        if (folder / MARK).exists():
            self._mark = lock(folder / MARK)
        end_processes(self.owner)
        self.clear()

    @staticmethod
    def refuse_foreign(folder: Path) -> None:
        """Refuse a folder that holds anything but what a sweep makes and removes."""
        if folder.is_symlink():
            raise BadInput(
                f"{folder}: a symbolic link, and a sweep removes what this folder holds; "
                "allowed: a folder"
            )
        if not folder.exists():
            return
        found = set(os.listdir(folder))
        for name in sorted(found - {path.name for path in _own(folder)}):
            raise BadInput(
                f"{folder / name}: not made by a sweep, which makes and removes stores here; "
                "move it away"
            )
        if found and MARK not in found:
            raise BadInput(f"{folder}: not made by a sweep (no {MARK}); move it away")

    def _free(self) -> tuple[int, int]:
        free = os.statvfs(self.stores)
        return free.f_bavail * free.f_frsize, free.f_favail

    def open(self) -> Path:
        """The folder for the stores, made and locked when it is first needed."""
        if self._mark is None or not self.folder.exists():
            self._mark = None
            while self._mark is None:
                self.folder.mkdir(exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # another took it for a dead one's
                    self._mark = lock(self.folder / MARK)
            with naming(self.folder):
                self._mark.write(f"{SAID}{self.identity}\n".encode())
            self._begin()
        return self.stores

    def _begin(self) -> None:
        self._limit = self._free()

    def reserve(self, cells: Sequence[Cell]) -> None:
        """Take the room that these cells will need."""

    def full(self) -> bool:
        return self._free()[0] < LITTLE

    def place(self, name: str, cell: Cell) -> tuple[Path, int]:
        """A new empty folder, and how many files had to be removed for it."""
        self.open()
        bytes_, inodes = self._free()
        removed = 0
        # Every engine may need several times the live bytes for a while; inode 0: no limit known.
        short = bytes_ - 4 * cell.live_bytes < self._limit[0] / 2
        if short or (self._limit[1] and inodes - 2 * cell.records < self._limit[1] / 2):
            removed = self.empty()
        (self.folder / name).mkdir()
        return self.folder / name, removed

    def empty(self) -> int:
        """Remove the stores, following no symbolic link. Returns the number of files."""
        if self._mark is None or not self.folder.exists():
            return 0
        entries = (found.entry for found in walk(self.folder) if found.entry is not None)
        count = sum(not entry.is_dir(follow_symlinks=False) for entry in entries) - 1  # the mark
        if count > MANY_FILES:
            say(f"removing {count:,} files of measured stores")
        for path in _own(self.folder):
            if path.name != MARK:
                remove(path)
        return count

    def clear(self) -> None:
        """Remove the stores, then the folder, unless it holds anything else by now."""
        loopback.release(self.folder)
        Shelf.empty(self)
        if self._mark is not None:
            # The mark goes last, so that the next sweep knows what a killed removal left.
            (self.folder / MARK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        if self._mark is not None:
            self._mark.close()
            self._mark = None


class MountedShelf(Shelf):
    """A shelf on a file system of its own, which is made anew for each trial and when
    loopback.USED bytes or half of it are used. Nothing is removed from it file by file."""

    def __init__(self, folder: Path, identity: str, kind: str) -> None:
        """As of a Shelf; `kind` is that of the file system."""
        super().__init__(folder, identity)
        self.stores, self.kind = folder / loopback.MOUNT, kind
        self._size, self._trial = loopback.LEAST, 0

    def _begin(self) -> None:
        self.mounted = loopback.make(self.kind, self.folder, self._size)
        super()._begin()

    def reserve(self, cells: Sequence[Cell]) -> None:
        """Take the room that these cells will need, from the next new file system on. Raises
        BadInput if the disk is too small."""
        self._size = max(self._size, loopback.size_for(cells, self.folder, self._size))

    def place(self, name: str, cell: Cell) -> tuple[Path, int]:
        """A new empty folder. No file has to be removed for it."""
        self.open()
        if cell.trial != self._trial or not os.path.ismount(self.stores) or self._short(cell):
            self._trial = cell.trial
            self._begin()
        (self.stores / name).mkdir()
        return self.stores / name, 0

    def _short(self, cell: Cell) -> bool:
        bytes_, inodes = self._free()
        used = self._limit[0] - bytes_ > min(loopback.USED, self._limit[0] // 2)
        few = cell.store in loopback.FILES and inodes < 2 * cell.records
        return used or bytes_ < loopback.need(cell) or (few and self._limit[1] > 0)  # 0: unlimited

    def empty(self) -> int:
        """Nothing: removing stores here would give the disk below no room."""
        return 0


def _own(folder: Path) -> Iterator[Path]:
    """What a sweep makes here: stores, the mark, the file that times the device's sync, and a
    file system with its mount."""
    for entry in os.scandir(folder):
        named = CELL.fullmatch(entry.name) or entry.name == loopback.MOUNT
        files = (MARK, PROBE, loopback.IMAGE)
        is_file = entry.name in files and entry.is_file(follow_symlinks=False)
        if is_file or (named and entry.is_dir(follow_symlinks=False)):
            yield Path(entry.path)
