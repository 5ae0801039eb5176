"""What operations of one kind took and used, as a row of the operations."""

import ctypes
from typing import Any

import numpy as np

from kvbench.histogram import LOG_WIDTH, Histogram
from kvbench.library import structure
from kvbench.meter import Meter

SECOND = 1_000_000_000  # ns
LONGEST = 3600  # seconds that a tally tells apart
Columns = dict[str, float | None]
BINS = int(np.log(LONGEST * SECOND) / LOG_WIDTH) + 1
QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


class Phase:
    """Latencies of operations, and what the process used for them."""

    def __init__(self) -> None:
        self.latency = Histogram()
        self.items = 0  # records that were read or written, and scans
        self.wall_s: float | None = None
        self.paused_s: float | None = None
        self.used: Columns = {}
        self.more: dict[str, Any] = {}  # further columns
        self.timeline: list[int] = []

    def use(self, before: Columns, after: Columns, seconds: float) -> None:
        """Add the difference of two readings of a meter, and the time between them."""
        self.wall_s = (self.wall_s or 0) + seconds
        for name, value in after.items():
            since = before[name]
            if value is None or since is None:
                self.used[name] = None
            else:
                self.used[name] = (self.used.get(name) or 0) + value - since

    def add(self, other: "Phase") -> None:
        """Add more operations of the kind."""
        self.latency.merge(other.latency)
        self.items += other.items
        self.wall_s = (self.wall_s or 0) + (other.wall_s or 0)
        self.paused_s = (self.paused_s or 0) + (other.paused_s or 0)
        nothing: Columns = dict.fromkeys(other.used, 0)
        self.use(nothing, other.used, 0)

    @property
    def speed(self) -> float:
        """Items a second."""
        return self.items / self.wall_s if self.wall_s else 0.0

    def row(self, operation: str) -> dict[str, Any]:
        bins, counts = self.latency.sparse()
        empty = self.latency.n == 0
        paused = None if self.paused_s is None or not self.wall_s else self.paused_s / self.wall_s
        return {
            "operation": operation,
            "n": self.latency.n,
            "items": self.items,
            "sum_ns": self.latency.sum,
            "min_ns": self.latency.min,
            "max_ns": self.latency.max,
            **{n: None if empty else self.latency.quantile(q) for n, q in QUANTILES.items()},
            "histogram_bin": bins,
            "histogram_count": counts,
            "wall_s": self.wall_s,
            "paused_share": paused,
            "timeline": self.timeline,
            **self.used,
            **self.more,
        }


class Phases:
    """An array of struct loop_phase, with room for their counts."""

    def __init__(self, count: int, ticks: int = 0, tick: int = 1) -> None:
        """`ticks` of `tick` ns each are counted by each."""
        self.c = (structure("loop_phase") * count)()
        self._bins = np.zeros((count, BINS), np.uint64)
        self._ticks = np.zeros((count, ticks), np.uint64)
        for own, bins, line in zip(self.c, self._bins, self._ticks, strict=True):
            own.tally.bins, own.tally.bin_count = bins.ctypes.data, BINS
            own.tally.ticks, own.tally.tick_count = line.ctypes.data, ticks
            own.tally.tick = tick

    def at(self, index: int) -> Any:
        """A pointer to one of them."""
        return ctypes.byref(self.c[index])

    def phase(self, index: int, meter: Meter | None) -> Phase:
        """One of them. Its `used` needs the meter that counted."""
        own, found = self.c[index], Phase()
        tally = own.tally
        found.latency = Histogram.of(self._bins[index], tally.n, tally.sum, tally.min, tally.max)
        found.items = own.items
        if own.wall:
            found.wall_s, found.paused_s = own.wall / SECOND, own.paused / SECOND
            found.used = meter.columns(own.used) if meter else {}
        return found

    def line(self, index: int, ticks: int) -> list[int]:
        """The operations of each tick, up to so many."""
        found: list[int] = self._ticks[index, :ticks].tolist()
        return found
