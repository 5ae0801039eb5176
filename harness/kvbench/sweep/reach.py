"""Finds the greatest rate that the harness itself reaches, which no open loop can exceed."""

import dataclasses
import tempfile
from pathlib import Path

from kvbench.cell.factors import Cell
from kvbench.cell.loop import ShimLoop, make_loop
from kvbench.cell.store import Store
from kvbench.cell.worker import Measurement
from kvbench.cell.workload import Step

REACH_MS, REACH_RECORDS = 100, 50_000


def reach(cell: Cell, step: Step) -> float:
    """The records per second of a step in a closed loop, with the records of a cell, on the store
    that does nothing."""
    few = min(cell.records, REACH_RECORDS)
    cell = dataclasses.replace(cell, records=few, workload=str(step), least_ms=REACH_MS)
    with tempfile.TemporaryDirectory() as name:
        work = Measurement(cell, Store("null"), Path(name), None)
        loop = make_loop(work.store, work.records, work.pool)
        assert isinstance(loop, ShimLoop)
        loop.open(work.folder, {})
        found = work.step(step, loop)[""].speed
        loop.close()
    return found
