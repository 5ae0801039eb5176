"""Folders of a command's own, which it removes when it ends, with all that is mounted there and the
processes at work there. What a command that was killed has left, the next command removes.

Each is a shelf: marked by a file that its command holds locked, so that a mark without a lock is a
dead command's.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kvbench.common.files import PROBES, why_not
from kvbench.common.messages import BadInput, one_line, say
from kvbench.common.processes import uninterrupted
from kvbench.machine import loopback
from kvbench.machine.shelf import MARK, OWNER, Shelf, end_processes, own_name

TMPFS = Path("/dev/shm")
OWN = re.compile(own_name("[0-9a-f]{12}"))


def _shelves(places: set[Path]) -> set[Path]:
    """What looks like a shelf in these folders, and around all that is mounted or behind a loop
    device."""
    found = {path for place in places for path in place.resolve().glob(own_name("*"))}
    used = [Path(path) for path in (*loopback.mount_points(), *loopback.backing_files())]
    found |= {parent for path in used for parent in path.parents}
    found = {path for path in found if OWN.fullmatch(path.name)}
    return found | {path.parent for path in used if path.name in (loopback.MOUNT, loopback.IMAGE)}


def _used(mark: Path) -> bool:
    """Whether a living command holds the mark."""
    if not mark.is_file():
        return False
    with open(mark, "rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True


def clear_dead(*places: Path) -> None:
    """Remove what killed commands of this user left in these folders, in those for temporary files,
    and wherever something of theirs is still mounted. What another command uses stays."""
    for folder in sorted(_shelves({*places, Path(tempfile.gettempdir()), TMPFS})):
        try:
            if folder.lstat().st_uid == os.geteuid() and not _used(mark := folder / MARK):
                text = mark.read_text().splitlines() if mark.is_file() else []
                Shelf(folder, text[-1] if text else "")
        except (BadInput, FileNotFoundError):  # in use, not made by a command, or gone meanwhile
            continue
        except OSError as error:
            what = f"{folder}: left by a command that was killed, and cannot be removed"
            say(one_line(f"{what}: {error.strerror or error}"))
    for folder in Path(tempfile.gettempdir()).glob(f"{PROBES}*-*"):
        number = folder.name.removeprefix(PROBES).partition("-")[0]
        alive = not number.isdigit() or Path("/proc", number).exists()
        if folder.lstat().st_uid == os.geteuid() and not alive:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def own_folder(place: Path) -> Iterator[tuple[Path, str]]:
    """A new folder on a shelf of its own, and the mark of the processes that belong to it. Raises
    OSError if it cannot be made."""
    identity = os.urandom(6).hex()
    shelf = Shelf(place.resolve() / own_name(identity), identity)
    try:
        work = shelf.open() / f"work_{os.urandom(8).hex()}"
        work.mkdir()
        yield work, shelf.owner
    finally:
        with uninterrupted():
            end_processes(shelf.owner)
            shelf.clear()


@contextlib.contextmanager
def _passed_on(owner: str, aside: Path) -> Iterator[None]:
    """Have new processes carry the mark, and temporary files lie in a folder."""
    before = os.environ.get(OWNER), tempfile.tempdir
    os.environ[OWNER], tempfile.tempdir = owner, os.fspath(aside)
    try:
        yield
    finally:
        del os.environ[OWNER]
        if before[0] is not None:
            os.environ[OWNER] = before[0]
        tempfile.tempdir = before[1]


@contextlib.contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """A new folder below `place` for stores, images and mounts. Until its end temporary files are
    in another, below the folder for these, and all processes that are started are known as its own.
    Raises BadInput if there can be none."""
    clear_dead(place)
    with contextlib.ExitStack() as stack:
        try:
            folder, owner = stack.enter_context(own_folder(place))
            aside, _ = stack.enter_context(own_folder(Path(tempfile.gettempdir())))
        except OSError as error:
            where = os.path.dirname(error.filename or "") or place
            raise BadInput(f"{where}: no folder can be made here: {why_not(error)}") from None
        stack.enter_context(_passed_on(owner, aside))
        yield folder


LAST = ("kvbench.json", "cells.parquet")  # without these a folder holds no results


@contextlib.contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A folder to fill, which at the end becomes `out`, a new or empty folder: until then nothing
    is there. Raises BadInput if it holds anything, or cannot be made."""
    place = next(path for path in (out, *out.absolute().parents) if path.exists())
    clear_dead(place)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise BadInput(f"{out}: holds other files; allowed: a new or empty folder")
    with contextlib.ExitStack() as stack:
        try:
            own, _ = stack.enter_context(own_folder(place))
        except OSError as error:
            raise BadInput(f"{out}: can't be written: {why_not(error)}") from None
        yield own
        with uninterrupted(done=True):
            if place == out:  # which stays the folder that it is: it may be mounted, or a link
                for name in sorted(os.listdir(own), key=LAST.__contains__):
                    (own / name).rename(out / name)
            else:
                out.parent.mkdir(parents=True, exist_ok=True)
                own.rename(out)
