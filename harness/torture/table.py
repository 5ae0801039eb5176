"""What torture counts: a row a kind of fault or input."""

import dataclasses
from collections.abc import Sequence

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
