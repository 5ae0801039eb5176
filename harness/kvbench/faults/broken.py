"""What stores do when the disk fails: at the nth write or flush that reaches it, for each n.

This also reaches engines that write through a map. The store is on ext4, on a disk of
machine/device.py. When it is open, and the file system is synced, the nth request fails with EIO,
or all from the nth on. After the program the file system is unmounted, and mounted again from a
disk that works, as after a reboot. The outcomes are those of faults.py.

The machine lost what could not be written. So writes that were not synced may be lost without
defect: only at levels that survive a loss of power must all acknowledged writes be there. When its
journal fails, ext4 accepts no changes any more; the table counts that.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.common.messages import BadInput
from kvbench.durability.evidence import STORE, copy_of, make_image
from kvbench.durability.kept import Rows
from kvbench.faults.attempt import Session, attempt
from kvbench.faults.calls import Run, Subject, again, base, counted, judged
from kvbench.faults.injection import ON, ONCE
from kvbench.faults.left import Left, Value
from kvbench.machine.device import attached, recorded

FILE_SYSTEM = "ext4"
WRITE, FLUSH = "write", "flush"
REQUESTS = {WRITE: "writes", FLUSH: "flushes"}  # the name of each kind in machine/device.py
DEVICE_IMAGE = 256 << 20  # bytes
LEVELS = ("sync",)  # tested by default
STOPPED = "the file system accepts no changes any more"


class Step(NamedTuple):
    """A row of the table: all n of a request."""

    subject: Subject
    request: str
    repeat: str

    def __str__(self) -> str:
        return " ".join(map(str, self))


def steps(subjects: Sequence[Subject]) -> list[Step]:
    """The rows of the table."""
    return [
        Step(subject, request, repeat)
        for subject in subjects
        for request in REQUESTS
        for repeat in (ONCE, ON)
    ]


def parsed(text: str) -> tuple[str, str, int]:
    """The request, repeat and n of a text such as "flush 3 once". Raises BadInput."""
    words = text.split()
    right = len(words) == 3 and words[0] in REQUESTS and words[2] in (ONCE, ON)
    if not right or not words[1].isdecimal() or int(words[1]) == 0:
        allowed = "write or flush, a number from 1, and once or on"
        raise BadInput(f"{text!r:.60} is not a fault of a disk; allowed: {allowed}")
    return words[0], words[2], int(words[1])


def image_of(subject: Subject, place: Path) -> Path:
    """An image of a file system with the base of a store, made once."""
    folder = base(subject, place)
    image = folder.with_name(f"{folder.name}.image")
    if not image.exists():
        with tempfile.TemporaryDirectory(dir=place) as made:
            own = Path(made) / "image"
            make_image(own, DEVICE_IMAGE)
            with attached(own, Path(made) / "mounted", FILE_SYSTEM) as disk:
                copy_of(folder, disk / STORE)
            own.rename(image)
    return image


def fail(step: Step, n: int, place: Path) -> Run:
    """Run the program on a disk whose nth request fails, and see what is left."""
    subject = step.subject
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as made:
        image, own = Path(made) / "image", Path(made) / "own"
        copy_of(image_of(subject, place), image)
        with recorded(image, FILE_SYSTEM, own) as device:
            requests = getattr(device, REQUESTS[step.request])

            def program(session: Session) -> tuple[Value, ...]:
                os.sync()  # the disk is idle, and requests for opening do not count
                requests.fail(nth=n, once=step.repeat == ONCE)
                return session.run_all()

            folder = device.folder / STORE
            told = attempt(subject.store, folder, subject.plan, subject.options, program)
            stopped = _stopped(device.folder)
            calls = requests.seen
        hits = requests.failed
        try:
            with attached(image, Path(made) / "again", FILE_SYSTEM) as disk:
                left = again(subject, disk / STORE)
        except OSError as error:
            left = Left(refused=f"the file system cannot be mounted: {error.strerror}")
    run = judged(subject, subject.plan, told, left, hits, calls)
    return run._replace(struck=STOPPED if stopped else "")


def _stopped(folder: Path) -> bool:
    """Whether a file system has stopped to accept changes."""
    try:
        (folder / "probe").touch()
    except OSError:
        return True
    return False


def rows(step: Step, place: Path, all_to: int) -> Rows:
    """The row of a step."""
    stopped = 0

    def hit(n: int) -> Run:
        nonlocal stopped
        run = fail(step, n, place)
        stopped += run.struck == STOPPED
        return run

    found = counted(step.subject.plan, hit, all_to, str(step))
    what = {"request": step.request, "repeat": step.repeat}
    return [{**step.subject.about, **what, **found, "file_system_stopped": stopped}]


def show(subject: Subject, fault: tuple[str, str, int], place: Path) -> str:
    """One run as text."""
    request, repeat, n = fault
    return fail(Step(subject, request, repeat), n, place).text(subject.plan)
