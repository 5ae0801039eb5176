"""Keeps the finished rows of a slow table next to it, in OUT.part, until the table is complete."""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any, TypeVar

from kvbench.common.files import write_whole
from kvbench.common.messages import say
from kvbench.common.processes import begin_worker, uninterrupted

AHEAD = 4  # steps that are begun for each worker
Rows = list[dict[str, Any]]
Step = TypeVar("Step")


def _part(out: Path) -> Path:
    return out.with_name(f"{out.name}.part")


def _read(path: Path, about: dict[str, Any]) -> dict[str, Rows]:
    """The kept rows by step; none if they were measured under other conditions."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
        rows: dict[str, Rows] = found["rows"] if found["about"] == about else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        rows = {}
    if not rows:
        say(f"{path}: kept under other conditions; all is measured again")
    return rows


def measured(
    out: Path,
    about: dict[str, Any],
    steps: Iterable[Step],
    name: Callable[[Step], str],
    measure: Callable[[Step], Rows | None],
) -> Rows:
    """The rows of all steps, in order. Rows are kept as soon as a step returns them, unless it
    returns None, and the next call measures only the other steps. A step's name must state
    everything that its rows depend on, besides what `about` states. If KeyboardInterrupt stops the
    work, its message says what was kept."""
    path = _part(out)
    kept = _read(path, about)
    found: Rows = []
    try:
        for step in steps:
            own = name(step)
            rows = kept[own] if own in kept else measure(step)
            found += rows or []
            if rows is not None and own not in kept:
                kept[own] = rows
                write_whole(path, json.dumps({"about": about, "rows": kept}, indent=1).encode())
    except KeyboardInterrupt:
        if not kept:
            raise
        done = f"{len(found)} rows are kept in {path}"
        raise KeyboardInterrupt(f"{done}; the same command goes on from there") from None
    return found


@contextlib.contextmanager
def ahead(
    steps: Sequence[Step], measure: Callable[[Step], Rows | None], workers: int
) -> Iterator[Callable[[Step], Rows | None]]:
    """Yield a function that returns the rows of a step, and has workers measure the next ones
    meanwhile. It is called with some of the steps, in their order."""
    started: dict[int, AsyncResult[Rows | None]] = {}
    order = iter(range(len(steps)))
    with get_context("fork").Pool(workers, begin_worker, (os.getpid(),)) as pool:

        def rows(step: Step) -> Rows | None:
            at = next(number for number in order if steps[number] == step)
            for number in range(at, min(at + AHEAD * workers, len(steps))):
                if number not in started:
                    started[number] = pool.apply_async(measure, (steps[number],))
            return started.pop(at).get()

        yield rows


def finish(out: Path, table: bytes) -> None:
    """Write the table, and remove the kept rows and temporary files."""
    half = re.compile(re.escape(out.name) + r"(\.part)?\.\d+\.tmp")
    with uninterrupted(done=True):
        for path in out.parent.iterdir():
            if half.fullmatch(path.name):
                path.unlink()
        write_whole(out, table)
        _part(out).unlink(missing_ok=True)
