"""The kinds of faults that `kvbench faults` tests, each with a table of its own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvbench.cell.contract import StoreError
from kvbench.common.messages import BadInput, say
from kvbench.durability.evidence import mounting_fails
from kvbench.durability.kept import Rows
from kvbench.faults import broken, calls, full
from kvbench.faults.calls import Subject
from kvbench.faults.injection import fault_of, injecting_fails
from kvbench.machine import device


class Kind(NamedTuple):
    """`fails` returns why the kind cannot be tested in a folder; `steps` the rows of the table for
    subjects; `rows` measures one; `show` one run, as text."""

    levels: tuple[str, ...]  # tested by default
    fails: Callable[[Path], str]
    steps: Callable[[Sequence[Subject]], Sequence[Any]]
    rows: Callable[[Any, Path, int], Rows]
    parsed: Callable[[str], Any]
    show: Callable[[Subject, Any, Path], str]


def _device_fails(_place: Path) -> str:
    try:
        device.check(broken.FILE_SYSTEM)
    except BadInput as error:
        return str(error)
    return ""


def _no_fault(text: str) -> None:
    raise BadInput(f"--replay: {text!r:.60}: a full disk has no nth call; use --out")


KINDS = {
    "calls": Kind(
        calls.LEVELS,
        lambda _: injecting_fails(),
        calls.steps,
        calls.rows,
        fault_of,
        calls.show,
    ),
    "device": Kind(
        broken.LEVELS,
        _device_fails,
        broken.steps,
        broken.rows,
        broken.parsed,
        broken.show,
    ),
    "full": Kind(
        calls.LEVELS, mounting_fails, list, full.rows, _no_fault, lambda *_: ""
    ),
}  # fmt: skip


def rows(kind: str, place: Path, first: int, step: Any) -> Rows | None:
    """The rows of a step; None, after a message, if the store cannot be loaded."""
    try:
        return KINDS[kind].rows(step, place, first)
    except StoreError as error:
        say(str(error))
        return None
