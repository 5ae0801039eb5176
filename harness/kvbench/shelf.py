"""Where the stores of a sweep are made, a folder for each, and how they go again."""

import contextlib
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from kvbench import BadInput
from kvbench.grid import Cell
from kvbench.machine import PROBE

MARK = "kvbench-stores.txt"
SAID = "Stores that `kvbench sweep` is measuring. It removes them when it ends.\n"
CELL = re.compile(r".+_t\d+_[0-9a-f]{16}")  # as results.cell_name has it
MANY_FILES = 100_000  # take long enough to remove that the user is told
LITTLE = 16 << 20  # bytes: engines write as much at once, and with less a disk is as good as full


def own_name(out: Path) -> str:
    """Of the folder for the stores of a results folder, where others may have theirs as well."""
    return f"kvbench-{hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:12]}"


class Shelf:
    """The folders of the stores that were measured, kept until the sweep ends.

    Removing them at once would spoil what follows: ext4 without a journal shuns the inode of a
    removed file for a minute to six, and so makes the next store create its files more and more
    slowly (seen: 50 us a file rising to 600 us over four minutes). They go early only when they
    take more than half of the space, or of the inodes, that was free.
    """

    def __init__(self, folder: Path) -> None:
        """Removes what a killed sweep has left. Refuses a folder with anything else in it."""
        self.folder = folder
        self._refuse_foreign()
        self.clear()
        self._limit = (0, 0)

    def _refuse_foreign(self) -> None:
        if self.folder.is_symlink():
            raise BadInput(
                f"{self.folder}: a link, and what it holds is removed; allowed: a folder"
            )
        if not self.folder.exists():
            return
        found = set(os.listdir(self.folder))
        for name in sorted(found - {path.name for path in self._own()}):
            raise BadInput(
                f"{self.folder / name}: no sweep made this, and stores are made and removed here; "
                "move it away"
            )
        if found and MARK not in found:
            raise BadInput(f"{self.folder}: no sweep made this (no {MARK}); move it away")

    def _own(self) -> Iterator[Path]:
        """What a sweep makes here: stores, the mark, and the file that tries the device."""
        for entry in os.scandir(self.folder):
            is_store = CELL.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            is_file = entry.name in (MARK, PROBE) and entry.is_file(follow_symlinks=False)
            if is_store or is_file:
                yield Path(entry.path)

    def _free(self) -> tuple[int, int]:
        free = os.statvfs(self.folder)
        return free.f_bavail * free.f_frsize, free.f_favail

    def open(self) -> Path:
        """The folder, made when it is first needed."""
        if not self.folder.exists():
            self.empty()
            self._limit = self._free()
        return self.folder

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
        """Remove what is there. Returns the number of files."""
        removed = self.clear()
        self.folder.mkdir(exist_ok=True)
        (self.folder / MARK).write_text(SAID)
        return removed

    def clear(self) -> int:
        """Remove all that a sweep made, following no link, and the folder itself unless it holds
        anything else by now. Returns the number of files."""
        if not self.folder.exists():
            return 0
        count = sum(len(files) for _, _, files in os.walk(self.folder))
        if count > MANY_FILES:
            print(f"removing {count:,} files of stores that were measured", file=sys.stderr)
        # The mark goes last, so that what is left of a killed removal is known.
        for path in sorted(self._own(), key=lambda path: path.name == MARK):
            _remove(path)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return count


def _remove(path: Path) -> None:
    """A file, or a folder with all below it; what vanishes meanwhile is gone as well."""
    while os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
