"""The table of experiments in REPRODUCING.md: what each shows, what it needs and how long it took.

    python -m study.answers.repeating     # rewrites the table between its markers

harness/experiments.toml lists the experiments; rights, time, disk and store follow from data/.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from kvbench.cell.factors import UNCAPPED, Cell, RecordSize
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, say
from kvbench.experiment.listed import OWN, Experiment, read
from kvbench.machine.loopback import SPARE, sizes
from kvbench.results.frames import Frames

from study.common.notebook import root

PAGE = "REPRODUCING.md"
BEGIN, END = "<!-- make figures writes this table -->\n", "<!-- its end -->\n"
HEAD = """| what the paper says | notebook | experiment | root | time | disk | store | judged by |
|---|---|---|---|---|---|---|---|
"""
POWER = ("evidence", "crashes", "openings")  # these commands simulate power failures


def table(at: Path) -> str:
    """Return the table of the repository at `at`, one row per experiment. Raises BadInput if the
    list or its data cannot be read."""
    rows = (" | ".join(row(one, at / "data" / one.name)) for one in read(at).served())
    return HEAD + "".join(f"| {text} |\n" for text in rows)


def row(experiment: Experiment, folder: Path) -> Iterator[str]:
    """Iterate over the cells of an experiment's row. Cells that follow from data are empty if there
    are none."""
    yield experiment.serves
    yield ", ".join(f"`{name}`" for name in experiment.notebooks)
    yield f"`{experiment.name}`"
    if (folder / "cells.parquet").exists():
        cells = Frames.read(folder).cells
        tried = cells[cells.status.isin(["ok", "failed"])]
        yield ", ".join(rights(experiment, tried)) or "no"
        yield ", ".join(times(experiment, tried))
        yield disk(experiment, tried)
        yield f"{tried.disk_bytes.max() / 1e9:.1f} GB"
    else:
        yield from [""] * 4
    yield experiment.judged


def rights(experiment: Experiment, cells: pd.DataFrame) -> Iterator[str]:
    """Iterate over what root is needed for, besides a new ext4."""
    capped = int((cells.memory_max != UNCAPPED).sum())
    if capped:
        yield "all cells" if capped == len(cells) else f"{capped} of {len(cells)} cells"
    if experiment.file_system not in ("", OWN):
        yield "all cells"
    if (cells.cache == "cold").any():
        yield "to evict names and inodes"
    if any(name in experiment.also for name in POWER):
        yield "power failures"


def times(experiment: Experiment, cells: pd.DataFrame) -> Iterator[str]:
    """Iterate over the time that the cells took, including the wait before each, and the times of
    what else is measured."""
    minutes = (cells.wall_s + cells.settle_s).sum() / 60
    yield f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
    yield from (f"{name} {took} min" for name, took in experiment.also.items())


def disk(experiment: Experiment, cells: pd.DataFrame) -> str:
    """Return the size of the file that holds the stores' file system, and in parentheses the least
    free space that the experiment needs."""
    if experiment.file_system == OWN:
        return "at most half of what is free"
    cells = cells[cells.place == "disk"]
    columns = ["store", "record_size_min", "record_size_max", "records", "key_size", "trial"]
    rows = cells[columns].itertuples(index=False, name=None)
    least, wanted = sizes([_cell(*row) for row in rows])
    return f"{_gigabytes(wanted, round)} ({_gigabytes(least + SPARE, math.ceil)}) GB"


def _cell(store: str, low: int, high: int, records: int, key_size: int, trial: int) -> Cell:
    """Return a cell that needs as much room as the measured one with these factors."""
    size = RecordSize(low, high)
    return Cell(store, "", size, records, "incompressible", (), trial, 1, key_size=key_size)


def _gigabytes(size: int, whole: Callable[[float], int]) -> str:
    """Return a size in GB with two digits, rounded by the function `whole`."""
    return f"{whole(size / 1e8) / 10:.1f}" if size < 9.95e9 else f"{whole(size / 1e9)}"


def page(text: str, found: str) -> str:
    """Return the text of the page with this table. Raises BadInput if the text lacks the
    markers."""
    whole = re.compile(f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})", re.DOTALL)
    if not whole.search(text):
        raise BadInput(f"{PAGE}: no table between {BEGIN.strip()} and {END.strip()}")
    return whole.sub(lambda _: found, text)


def main() -> int:
    try:
        path = root() / PAGE
        write_whole(path, page(path.read_text(), table(root())).encode())
    except BadInput as error:
        say(f"repeating: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
