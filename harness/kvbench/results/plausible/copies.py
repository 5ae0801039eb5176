"""Finds trials that are copies of another trial, of the same folder or of another one."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kvbench.results.plausible.evidence import Evidence
from kvbench.results.plausible.outside import place, refusal

ENOUGH = 100  # operations whose times do not agree by chance to the nanosecond
SHAPE = 30  # bins of a histogram whose counts do not agree by chance
TIMES = ["n", "sum_ns", "min_ns", "max_ns"]
READ = ["cell", "operation", *TIMES, "histogram_count"]
CLOCKED = ["open_s", "load_s", "rounds_s", "close_s", "check_s"]  # to the nanosecond
WHY = "measured values of its own, as each trial has"


def _prints(operations: pa.Table) -> Iterator[tuple[int, bytes]]:
    """What identifies the measured values of a row, with its number: the times of many operations,
    and the counts of a wide histogram, which stay the same if all times are scaled."""
    columns = [operations[name].to_numpy() for name in TIMES]
    numbers = np.column_stack(columns).astype(float) if len(operations) else np.zeros((0, 4))
    for at in np.flatnonzero(numbers[:, 0] >= ENOUGH):
        yield int(at), numbers[at].tobytes()
    counts = operations["histogram_count"].combine_chunks()
    sizes = pc.list_value_length(counts).to_numpy()
    ends = np.cumsum(sizes)
    values = pc.list_flatten(counts).to_numpy()
    for at in np.flatnonzero(sizes >= SHAPE):
        yield int(at), values[ends[at] - sizes[at] : ends[at]].tobytes()


def copied(own: Evidence, others: Iterable[Path]) -> Iterator[str]:
    """Sentences on trials that have the values of another one. A folder of `others` whose table
    cannot be read is no folder of results, and is passed over."""
    seen: dict[bytes, tuple[str, str]] = {}  # cell and place
    for folder in others:
        try:
            table = pq.read_table(folder / "operations.parquet", columns=READ)
            seen |= {mark: ("", str(folder)) for _, mark in _prints(table)}
        except (pa.ArrowException, OSError, KeyError, ValueError):
            continue
    table = own.tables["operations"]
    for at, mark in _prints(table):
        cell, operation = (table[name][at].as_py() for name in ("cell", "operation"))
        other, where = seen.setdefault(mark, (cell, cell))
        if other != cell:  # in a cell, a mix of one kind has the values of that kind
            row = {"cell": cell, "operation": operation}
            yield f"{place(row)}: times: those of {where[-40:]} are not allowed; allowed: {WHY}"
    again = own.cells[own.cells[CLOCKED].duplicated()]
    for found in again.head(1).to_dict("records"):
        yield refusal(found, "open_s", f"{found['open_s']:.9f}", WHY)
