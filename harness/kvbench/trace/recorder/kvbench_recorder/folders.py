"""Files in folders: each is a record, whose key is its path in the folder."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from .rows import ALONE, FOUND, GET, PUT, REMOVE, calls, now, opened

WRITES = os.O_WRONLY | os.O_RDWR
MOST_OPEN = 4096  # files that are being written and whose size is not known yet


class Watch:
    """Hears of opened, renamed and removed files by Python's audit events. The size of a written
    file is that at the next event of the file, or when rows are written. Times are not known."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [os.path.join(os.path.abspath(folder), "") for folder in folders]
        self._stores: dict[str, int] = {}
        self._written: dict[str, int] = {}  # by path, when it was opened

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.remove", "os.rename") or calls.inside:
            return
        calls.inside = True
        try:
            self._event(event, arguments)
        except (OSError, ValueError, TypeError):
            pass  # the program's own call says what is wrong
        finally:
            calls.inside = False

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return  # a descriptor
        path = os.path.abspath(os.fsdecode(arguments[0]))
        folder = self._folder(path)
        if event == "os.rename":
            target = os.path.abspath(os.fsdecode(arguments[1]))
            begun = self._written.pop(path, 0)
            if goal := self._folder(target):
                self._add(PUT, goal, target, os.stat(path).st_size, ALONE, begun)
        elif not folder:
            return
        elif event == "os.remove":
            self._settle(path)
            self._add(REMOVE, folder, path, 0, ALONE)
        elif arguments[2] & WRITES or (arguments[2] & os.O_CREAT):
            self._settle(path)
            if len(self._written) >= MOST_OPEN:
                self.settle()
            self._written[path] = now()
        else:
            self._settle(path)
            try:
                size, flags = os.stat(path).st_size, FOUND
            except OSError:
                size, flags = 0, 0
            self._add(GET, folder, path, size, flags)

    def settle(self) -> None:
        """Add the rows of all files that were written."""
        inside, calls.inside = calls.inside, True
        try:
            for path in list(self._written):
                self._settle(path)
        finally:
            calls.inside = inside

    def _settle(self, path: str) -> None:
        begun = self._written.pop(path, 0)
        if begun:
            try:
                size = os.stat(path).st_size
            except OSError:
                return  # removed by other means
            self._add(PUT, self._folder(path), path, size, ALONE, begun)

    def _folder(self, path: str) -> str:
        return next((folder for folder in self._folders if path.startswith(folder)), "")

    def _add(
        self, operation: int, folder: str, path: str, size: int, flags: int, at: int = 0
    ) -> None:
        if folder not in self._stores:
            calls.inside = False
            self._stores[folder] = opened("files", folder)
            calls.inside = True
        key = os.fsencode(path[len(folder) :])
        calls.rows.add(operation, self._stores[folder], key, size, 0, flags, at)


def watch(folders: Sequence[str]) -> None:
    own = Watch(folders)
    calls.rows.before_write.append(own.settle)
    sys.addaudithook(own.heard)
