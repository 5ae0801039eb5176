"""The rows of torture's table, one for each kind of fault or input, and the arguments of a part."""

import dataclasses
import importlib
import time
from collections.abc import Sequence
from pathlib import Path

import click
from tabulate import tabulate


@dataclasses.dataclass(frozen=True)
class Form:
    """How much a part tries, in which folder, and on which stores."""

    short: bool
    seed: int
    place: Path  # the folder of the part
    only: tuple[str, ...] = ()  # stores; empty: all


@dataclasses.dataclass(frozen=True)
class Row:
    """The number of `faults` injected or `inputs` tried, and counts that must be zero: cells that
    are lost, duplicated or different from those of an uninterrupted run; wrong answers that were
    not reported; and crashes, which are tracebacks, sanitizer reports, half-written files, and
    processes or folders left behind."""

    kind: str
    what: str
    faults: int = 0
    inputs: int = 0
    cells_lost: int = 0
    answers_missed: int = 0
    crashes: int = 0
    note: str = ""

    def clean(self) -> bool:
        return not (self.cells_lost or self.answers_missed or self.crashes)


def show(rows: Sequence[Row]) -> str:
    headers = [field.name.replace("_", " ") for field in dataclasses.fields(Row)]
    return str(tabulate([dataclasses.astuple(row) for row in rows], headers=headers))


def rows_of(part: str, form: Form) -> list[tuple[Row, float]]:
    """Yield the rows of one part, each with the seconds it took, and print them as they come."""
    form = dataclasses.replace(form, place=form.place / part)
    form.place.mkdir()
    found, start = [], time.monotonic()
    for row in importlib.import_module(part).rows(form):
        click.echo(show([row]) + "\n", err=True)
        found.append((row, time.monotonic() - start))
        start = time.monotonic()
    return found
