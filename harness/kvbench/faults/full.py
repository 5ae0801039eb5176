"""What stores do on a full disk: whether writes go on once there is room again.

A small ext4 file system holds a closed store. A program opens it and changes it, as in attempt.py.
Then a filler takes all free blocks, and the program inserts records until it meets an error, or for
MOST writes; blocks that an engine already has may hold some. Two such programs go on differently:

- one stays open: it reads all records, the filler is removed, it writes again, and closes.
- one closes, and the store is opened and read on the full disk, and again after there is room.
"""

import contextlib
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kvbench.durability.evidence import STORE, copy_of, make_image, mounted
from kvbench.durability.kept import Rows
from kvbench.faults.attempt import (
    DONE,
    SIZES,
    UNTRIED,
    Expected,
    Operation,
    Plan,
    Session,
    Told,
    attempt,
)
from kvbench.faults.calls import Subject, base, judged, tidy
from kvbench.faults.left import Left, Value, look
from kvbench.stores.opened import OpenStore

BEFORE, AFTER = 20, 20  # operations before the disk is full, and after there is room again
MOST = 5000  # inserts on the full disk, of SIZE bytes each: RocksDB allocates 70 MB ahead
SIZE = SIZES[-1]
ERRORS = 3  # errors in a row, after which the program stops inserting
CHUNKS = (64 << 20, 1 << 20, 64 << 10, 4 << 10, 1)  # bytes that the filler takes at once
DISK = 256 << 20  # bytes
LIMIT = 60.0  # seconds until a program counts as hanging
PAUSE, WAITS = 0.5, 20  # seconds between writes that still fail then, and their number
LAST = BEFORE + MOST
WAITING = LAST + AFTER
FILLER = "filler"
YES = "yes"


def fill(filler: Path) -> None:
    """Take all free blocks of a file system."""
    with open(filler, "wb") as file:
        for chunk in CHUNKS:
            with contextlib.suppress(OSError):  # the disk is full
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, chunk)


def planned(subject: Subject) -> Plan:
    """The base and the first operations of the subject's plan, then inserts, and as many other
    operations for the time after."""
    choose = random.Random(subject.seed + 1)
    whole = subject.plan
    own = [operation for operation in whole.operations if operation.key]
    size = min(SIZE, subject.store.max_value or SIZE)
    inserts = (
        Operation("insert", choose.randbytes(16), choose.randbytes(size)) for _ in range(MOST)
    )
    return Plan(whole.base, (*own[:BEFORE], *inserts, *own[BEFORE : BEFORE + AFTER + WAITS]))


def course(subject: Subject, disk: Path, plan: Plan, stays: bool) -> Told:
    """Run a program, which frees the disk before it goes on if it `stays` open."""

    def program(session: Session) -> tuple[Value, ...] | None:
        session.run(range(BEFORE))
        fill(disk / FILLER)
        session.run(range(BEFORE, LAST), most=ERRORS)
        if not stays:
            return None
        seen = session.read()
        (disk / FILLER).unlink()
        session.run(range(LAST, WAITING))
        for number in range(WAITING, WAITING + WAITS):
            if session.states[number - 1] == DONE:
                break
            time.sleep(PAUSE)
            session.run([number])
        return seen

    return attempt(subject.store, disk / STORE, plan, subject.options, program, limit=LIMIT)


@contextlib.contextmanager
def disk_with(subject: Subject, place: Path) -> Iterator[Path]:
    """A new small file system that holds the base of a store."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as made:
        image = Path(made) / "image"
        make_image(image, DISK)
        with mounted(image, Path(made) / "mounted") as disk:
            copy_of(base(subject, place), disk / STORE)
            yield disk


def _opened(subject: Subject, folder: Path, plan: Plan) -> Left:
    """Open a store again and read it; then insert, read and remove a record."""

    def then(opened: OpenStore) -> str:
        key, value = b"written at the end", b"value"
        wrote = opened.insert(key, value) and opened.get(key) == value and opened.remove(key)
        return YES if wrote else "a record that was inserted is missing"

    return look(subject.store, folder, plan.keys, subject.options, then=then, limit=LIMIT)


def _intact(subject: Subject, plan: Plan, told: Told, left: Left) -> str:
    """YES, or what is missing after opening a store again."""
    if left.ended or left.refused:
        return f"does not open: {left.ended or left.refused}"
    run = judged(subject, plan, told._replace(seen=None), left._replace(after=""), 1, 1)
    return "; ".join(run.wrong.values()) or YES


def _reads(subject: Subject, plan: Plan, told: Told) -> str:
    """YES, or what the open store did not read while the disk was full."""
    if told.seen is None:
        return ""
    then = told.states[:LAST] + bytes(AFTER + WAITS)  # none of the later operations was tried
    found = Expected(plan, then, subject.tears).differs(plan.keys, told.seen)
    errors = [value for value in told.seen if isinstance(value, str)][:1]
    return ", ".join([f"{count} {kind}" for kind, count in found.items()] + errors) or YES


def _goes_on(told: Told) -> str:
    """YES, or when writes succeed again once there is room, and why they failed before."""
    later = [error for number, error in told.errors if number >= LAST]
    if told.ended or told.refused or not later:
        return "" if told.ended or told.refused else YES
    waits = WAITS - told.states[WAITING:].count(UNTRIED)
    within = "after" if DONE in told.states[WAITING - 1 :] else "not within"
    return f"{within} {waits * PAUSE:g} s: {later[0]}"


def rows(subject: Subject, place: Path, _first: int) -> Rows:
    """The row of a store. Raises StoreError if its base cannot be made."""
    plan = planned(subject)
    with disk_with(subject, place) as disk:
        stays = course(subject, disk, plan, stays=True)
        (disk / FILLER).unlink(missing_ok=True)
        after = _opened(subject, disk / STORE, plan)
    with disk_with(subject, place) as disk:
        leaves = course(subject, disk, plan, stays=False)
        full = _opened(subject, disk / STORE, plan)
        (disk / FILLER).unlink(missing_ok=True)
        room = _opened(subject, disk / STORE, plan)
    errors = [error for number, error in stays.errors if BEFORE <= number < LAST]
    found = {
        "taken_while_full": stays.states[BEFORE:LAST].count(DONE),
        "error": stays.ended or stays.refused or "".join(errors[:1]),
        "reads_while_full": _reads(subject, plan, stays),
        "goes_on": _goes_on(stays),
        "closes": stays.closing or ("" if stays.ended else YES),
        "intact": _intact(subject, plan, stays, after),
        "writes_again": after.after,
        "closes_while_full": leaves.ended or leaves.closing or YES,
        "intact_while_full": _intact(subject, plan, leaves, full),
        "writes_while_full": full.after,
        "intact_with_room": _intact(subject, plan, leaves, room),
        "writes_with_room": room.after,
    }
    told = {name: tidy(text) if isinstance(text, str) else text for name, text in found.items()}
    return [{**subject.about, **told}]
