"""Scratch folders of a command. It removes them when it ends, with everything mounted in them and
the processes that use them. What a killed command has left, the next one removes.

Each scratch folder is a shelf: its command holds a lock on a file in it, the mark. A mark without a
lock shows that the command has died.
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


ROOM = 2 << 30  # bytes that must be free in memory for scratch folders there


def memory(otherwise: Path, room: int = ROOM) -> Path:
    """The folder for what is in memory, if `room` bytes are free there; else the given folder."""
    fits = TMPFS.is_dir() and shutil.disk_usage(TMPFS).free >= room
    return TMPFS if fits and os.access(TMPFS, os.W_OK) else otherwise


def _shelves(places: set[Path]) -> set[Path]:
    """The possible shelves in these folders, and at all mount points and backing files of loop
    devices."""
    found = {path for place in places for path in place.resolve().glob(own_name("*"))}
    used = [Path(path) for path in (*loopback.mount_points(), *loopback.backing_files())]
    found |= {parent for path in used for parent in path.parents}
    found = {path for path in found if OWN.fullmatch(path.name)}
    found |= {path.parents[1] for path in used if path.parent.name == loopback.SERVED}
    return found | {path.parent for path in used if path.name in (loopback.MOUNT, loopback.IMAGE)}


def _used(mark: Path) -> bool:
    """Whether a running command holds the lock of the mark."""
    if not mark.is_file():
        return False
    with open(mark, "rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True


def clear_dead(*places: Path) -> None:
    """Remove the shelves that killed commands of this user left in these folders, in those for
    temporary files, and at mounts. Shelves in use stay."""
    for folder in sorted(_shelves({*places, Path(tempfile.gettempdir()), TMPFS})):
        try:
            if folder.lstat().st_uid == os.geteuid() and not _used(mark := folder / MARK):
                text = mark.read_text().splitlines() if mark.is_file() else []
                Shelf(folder, text[-1] if text else "")
        except (BadInput, FileNotFoundError):  # in use, not made by a command, or removed meanwhile
            continue
        except OSError as error:
            what = f"{folder}: left by a command that was killed, and cannot be removed"
            say(one_line(f"{what}: {error.strerror or error}"))
    for folder in Path(tempfile.gettempdir()).glob(f"{PROBES}*-*"):
        number = folder.name.removeprefix(PROBES).partition("-")[0]
        alive = not number.isdigit() or Path("/proc", number).exists()
        with contextlib.suppress(FileNotFoundError):  # its command has just removed it
            if folder.lstat().st_uid == os.geteuid() and not alive:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def own_folder(place: Path) -> Iterator[tuple[Path, str]]:
    """Create a folder on a new shelf. Yields it, and the mark of the processes that belong to it.
    Raises OSError if it cannot be created."""
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
    """Let new processes inherit the mark, and put their temporary files in a folder."""
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
    """Create a folder below `place` for stores, images and mounts. Within the block, temporary
    files go to a second folder, and all processes that start belong to the shelf. Raises BadInput
    if it cannot be created."""
    clear_dead(place)
    with contextlib.ExitStack() as stack:
        try:
            with uninterrupted():  # a folder that is made is one that the stack removes
                folder, owner = stack.enter_context(own_folder(place))
                aside, _ = stack.enter_context(own_folder(Path(tempfile.gettempdir())))
        except OSError as error:
            where = os.path.dirname(error.filename or "") or place
            raise BadInput(f"{where}: no folder can be made here: {why_not(error)}") from None
        stack.enter_context(_passed_on(owner, aside))
        yield folder


LAST = ("kvbench.json", "cells.parquet")  # written last: without them a folder holds no results


@contextlib.contextmanager
def whole(out: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `out` at the end, a new or empty folder; until then
    `out` is absent or empty. Raises BadInput if `out` has contents, or cannot be created."""
    place = next(path for path in (out, *out.absolute().parents) if path.exists())
    clear_dead(place)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise BadInput(f"{out}: holds other files; allowed: a new or empty folder")
    with contextlib.ExitStack() as stack:
        try:
            with uninterrupted():
                own, _ = stack.enter_context(own_folder(place))
        except OSError as error:
            raise BadInput(f"{out}: can't be written: {why_not(error)}") from None
        yield own
        with uninterrupted(done=True):
            if place == out:  # keep the folder: it may be a mount point or a link
                for name in sorted(os.listdir(own), key=LAST.__contains__):
                    (own / name).rename(out / name)
            else:
                out.parent.mkdir(parents=True, exist_ok=True)
                own.rename(out)
