"""What torture counts: a row a kind of fault or input."""

import dataclasses
import importlib
import time
from collections.abc import Sequence
from pathlib import Path

import click
from tabulate import tabulate


@dataclasses.dataclass(frozen=True)
class Row:
    """`faults` injected or `inputs` tried, and what must be zero: cells that were lost, doubled or
    not as in an unbroken run; wrong answers that no one noticed; crashes, which are tracebacks,
    sanitizers' reports, half-written files and processes or folders left behind."""

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


def rows_of(part: str, short: bool, seed: int, place: Path) -> list[tuple[Row, float]]:
    """Those of one part, which works in a folder of its own inside of `place`; each with the
    seconds that it took, and printed as it comes."""
    folder = place / part
    folder.mkdir()
    found = []
    start = time.monotonic()
    for row in importlib.import_module(part).rows(short, seed, folder):
        click.echo(show([row]) + "\n", err=True)
        end = time.monotonic()
        found.append((row, end - start))
        start = end
    return found
