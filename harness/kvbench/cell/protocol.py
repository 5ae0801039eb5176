"""The messages between the sweep and a worker, as JSON.

The sweep writes a Task to the worker's standard input, and reads one object from its output: an
Answer with `status` "ok", or `status` "failed" and a `reason`.
"""

import dataclasses
import json
from typing import Any, Self

import msgspec

from kvbench.cell.factors import Cell
from kvbench.cell.filesystem import Mounted
from kvbench.cell.store import Store


class Task(msgspec.Struct, frozen=True):
    """A cell to measure, and where."""

    factors: dict[str, Any]  # of the cell
    store: Store
    folder: str  # empty, for the store's files
    parent: int  # the process ID of the sweep; the worker dies with it
    members: str  # the file through which to join the cell's control group; empty: none
    mounted: Mounted | None  # the file system made for the stores, if any
    board: int  # the descriptor of a file in memory: see board.Board

    @property
    def cell(self) -> Cell:
        return Cell.from_factors(self.factors)

    def encode(self) -> bytes:
        """As JSON, by the module json: msgspec's takes no path that is not UTF-8."""
        return json.dumps(msgspec.to_builtins(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """The inverse of `encode`."""
        return msgspec.convert(json.loads(text), cls)


@dataclasses.dataclass
class Answer:
    """The columns of a cell that its worker measures, and rows of two other tables. data/README.md
    explains them. A value that could not be measured is None."""

    effective_options: dict[str, str]  # as the engine states them
    compressed_share: float
    snappy_share: float
    cached_share: float | None
    cached_end: float | None
    eviction: str
    live_records: int
    live_bytes: int
    disk_bytes: int
    settled: str
    debt_s: float
    debt_cpu_s: float
    debt_bytes: int
    ended_disk_bytes: int
    debt_disk_bytes: int
    floor_ns: float
    open_s: float
    reopen_s: float
    load_s: float
    rounds_s: float
    check_s: float
    close_s: float
    operations: list[dict[str, Any]]
    timeline: list[dict[str, Any]]  # with `start_ns` and `end_ns` of the monotonic clock
