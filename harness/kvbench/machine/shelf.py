"""The folder in which a sweep creates its stores, and how the sweep removes them."""

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from kvbench.cell.factors import Cell
from kvbench.cell.filesystem import Mounted, walk
from kvbench.common.files import naming
from kvbench.common.messages import BadInput, say
from kvbench.machine import loopback
from kvbench.machine.description import PROBE
from kvbench.machine.served import SLOW, Delays, served

MARK = "kvbench-stores.txt"  # marks the folder as a sweep's; the sweep holds a lock on it
SAID = "Made by kvbench, which removes this folder when it ends, or when it next runs here.\n"
OWNER = "KVBENCH_CELL"  # the environment variable that marks the processes of a shelf
CELL = re.compile(r".+_[0-9a-f]{16}")  # the names of results.folder.cell_name, perhaps shortened
CLEARING = 3.0  # seconds
REMOVING = 10.0  # seconds to wait for another program that removes files from the same folder
PATIENCE = 10  # seconds for killed processes to end
LOOKS = 8  # at a process that seems to have no environment
MANY_FILES = 100_000  # the user is warned before this many are removed, which takes a while
LITTLE = 16 << 20  # bytes: a disk with less is full, since engines write this much at once


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, even if other programs remove files from it
    meanwhile."""
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
            # A listing may be incomplete if others remove files meanwhile: see readdir(3).
            again = error.errno in (errno.ENOTEMPTY, errno.ESTALE)
            if not gone and not (again and time.monotonic() - begun < REMOVING):
                raise


def lock(path: Path) -> IO[bytes]:
    """Open a file, which is created if necessary, and hold its lock until it is closed or this
    process ends. Raises BadInput if another process holds the lock for longer than a clean-up
    takes."""
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
        file.close()  # its owner removed it before we got the lock


def own_name(identity: str) -> str:
    """The name of a results folder's shelf in a folder that several results folders may share."""
    return f"kvbench-{identity}"


def _environment(process: psutil.Process) -> dict[str, str]:
    """The environment of a process. It looks empty while the process executes another program, and
    then its command line does so for most of that time."""
    left = LOOKS
    environment: dict[str, str] = {}
    while not (environment := process.environ()) and left and process.exe():  # no kernel thread
        left -= bool(process.cmdline())
        time.sleep(0.0005)
    return environment


def marked(variable: str, mark: str) -> Iterator[psutil.Process]:
    """The running processes whose environment has this value of the variable."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            own = _environment(process).get(variable) == mark
            if own and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended. A zombie, which waits for its parent, has ended."""
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def await_end(processes: Iterable[psutil.Process], until: float) -> None:
    """Wait until processes that were killed have ended, at most until a monotonic time."""
    while any(map(runs, processes)) and time.monotonic() < until:
        time.sleep(0.005)


def end_processes(owner: str) -> None:
    """Kill all processes that were started to measure this owner's stores, and wait until they have
    ended."""
    end = time.monotonic() + PATIENCE
    # Again until none is found: a process that is killed may just have started another one.
    while (found := list(marked(OWNER, owner))) and time.monotonic() < end:
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await_end(found, end)


class Shelf:
    """The measured stores, one folder each, which are kept until the sweep ends.

    Removing a store at once would distort later measurements: ext4 without a journal does not reuse
    the inode of a removed file for one to six minutes, so the next store creates its files more and
    more slowly (we saw 50 us per file rise to 600 us within four minutes). A sweep removes stores
    early only when they take more than half of the space, or of the inodes, that was free.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        """Remove the files and processes that a killed sweep left behind. `identity` is that of the
        results folder: equal paths on two machines or in two containers are different shelves.
        Raises BadInput if the folder has other contents, or if another sweep uses it."""
        self.folder = self.stores = folder
        self.identity = identity
        self.mounted: Mounted | None = None  # the file system made for it, if any
        self.owner = f"{identity} {folder.resolve()}"  # the mark of its processes
        self._mark: IO[bytes] | None = None  # while it is locked
        self._limit = (0, 0)
        self.refuse_foreign(folder)
        if (folder / MARK).exists():
            with contextlib.suppress(FileNotFoundError):  # another command has just cleared it
                self._mark = lock(folder / MARK)
        end_processes(self.owner)
        self.clear()

    @staticmethod
    def refuse_foreign(folder: Path) -> None:
        """Raise BadInput if a folder has contents that no sweep creates."""
        if folder.is_symlink():
            raise BadInput(
                f"{folder}: a symbolic link, and a sweep removes what this folder holds; "
                "allowed: a folder"
            )
        try:
            own = {path.name for path in _own(folder)}
            found = set(os.listdir(folder))
        except FileNotFoundError:  # there is none, or another command has just cleared it
            return
        for name in sorted(found - own):
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
        """The folder for the stores, created and locked at the first call. Raises BadInput."""
        if self._mark is None or not self.folder.exists():
            self._mark = None
            while self._mark is None:
                self.folder.mkdir(exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # another command cleared it
                    self._mark = lock(self.folder / MARK)
            with naming(self.folder):
                self._mark.write(f"{SAID}{self.identity}\n".encode())
            self._begin()
        return self.stores

    def _begin(self) -> None:
        self._limit = self._free()

    def reserve(self, cells: Sequence[Cell]) -> None:
        """Reserve the space that these cells need."""

    def full(self) -> bool:
        return self._free()[0] < LITTLE

    def place(self, name: str, cell: Cell) -> tuple[Path, int]:
        """Create an empty folder for a store. Returns it, and how many files had to be removed for
        it."""
        self.open()
        bytes_, inodes = self._free()
        removed = 0
        # An engine may temporarily need several times the live bytes. 0 inodes: no known limit.
        short = bytes_ - 4 * cell.live_bytes < self._limit[0] / 2
        if short or (self._limit[1] and inodes - 2 * cell.records < self._limit[1] / 2):
            removed = self.empty()
        (self.folder / name).mkdir()
        return self.folder / name, removed

    def empty(self) -> int:
        """Remove the stores without following symbolic links. Returns the number of removed
        files."""
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

    def _release(self) -> None:
        """Unmount what a sweep mounted below the folder."""
        loopback.release(self.folder)

    def clear(self) -> None:
        """Remove the stores, then the folder, unless it has other contents by now."""
        if self._mark is not None:  # else there is nothing, or what another command begins
            self._release()
        Shelf.empty(self)
        if self._mark is not None:
            # The mark goes last: it lets the next sweep recognise a removal that was killed.
            (self.folder / MARK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        if self._mark is not None:
            self._mark.close()
            self._mark = None


class MountedShelf(Shelf):
    """A shelf on a separate file system, which is made anew for each trial, and when loopback.USED
    bytes or half of it are used. Nothing is removed from it file by file."""

    def __init__(
        self, folder: Path, identity: str, kind: str, delays: Delays | None = None
    ) -> None:
        """Like that of Shelf; `kind` is the type of the file system, and `delays` are those of its
        disk."""
        self._server = contextlib.ExitStack()
        super().__init__(folder, identity)
        self.stores, self.kind, self.delays = folder / loopback.MOUNT, kind, delays
        self._size, self._trial = loopback.LEAST, 0

    def _begin(self) -> None:
        self._release()
        through = self._slowed if self.delays else None
        self.mounted = loopback.make(self.kind, self.folder, self._size, through)
        super()._begin()

    def _slowed(self, image: Path) -> Path:
        """Serve an image as a slow disk. Returns the file that is the disk."""
        assert self.delays
        own = self.folder / loopback.SERVED
        own.mkdir()
        (own / loopback.SLOWED).write_text(str(self.delays))
        disk = served(SLOW, image, own, **self.delays._asdict())
        return self._server.enter_context(disk)

    def _release(self) -> None:
        """Likewise, and stop the program that serves the disk, if there is one."""
        super()._release()
        self._server.close()
        remove(self.folder / loopback.SERVED)

    def reserve(self, cells: Sequence[Cell]) -> None:
        """Reserve the space that these cells need, in the next file system that is made. Raises
        BadInput if the disk is too small."""
        self._size = max(self._size, loopback.size_for(cells, self.folder, self._size))

    def place(self, name: str, cell: Cell) -> tuple[Path, int]:
        """Create an empty folder for a store. No file is ever removed for it."""
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
        """Do nothing, since removing stores here frees no space on the disk below."""
        return 0


def _own(folder: Path) -> Iterator[Path]:
    """The names that a sweep creates here: stores, the mark, the file that times the device's sync,
    a file system with its mount point, and the folder of a disk that is served."""
    for entry in os.scandir(folder):
        folders = (loopback.MOUNT, loopback.SERVED)
        named = CELL.fullmatch(entry.name) or entry.name in folders
        files = (MARK, PROBE, loopback.IMAGE)
        is_file = entry.name in files and entry.is_file(follow_symlinks=False)
        if is_file or (named and entry.is_dir(follow_symlinks=False)):
            yield Path(entry.path)
