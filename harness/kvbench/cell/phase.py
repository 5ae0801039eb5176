"""What operations of one kind took and used, as a row of the table operations."""

import ctypes
from typing import Any, Self

import numpy as np

from kvbench.cell.histogram import LOG_WIDTH, Histogram
from kvbench.cell.library import Constant, structure
from kvbench.cell.meter import SECOND, Meter

LONGEST = 3600  # seconds: the longest latency of a tally, and the longest timeline
Columns = dict[str, float | None]
BINS = int(np.log(LONGEST * SECOND) / LOG_WIDTH) + 1
QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


class Phase:
    """The latencies of operations, and the resources that the process used for them."""

    def __init__(self) -> None:
        self.latency = Histogram()
        self.items = 0  # records read or written, plus scans
        self.wall_s: float | None = None
        self.paused_s: float | None = None
        self.used: Columns = {}
        self.more: dict[str, Any] = {}  # further columns
        self.timeline: list[int] = []
        self.seconds: list[dict[str, Any]] = []  # rows of the timeline

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
        """Add further operations of the same kind."""
        self.latency.merge(other.latency)
        self.items += other.items
        self.wall_s = (self.wall_s or 0) + (other.wall_s or 0)
        self.paused_s = (self.paused_s or 0) + (other.paused_s or 0)
        nothing: Columns = dict.fromkeys(other.used, 0)
        self.use(nothing, other.used, 0)

    @property
    def speed(self) -> float:
        """Items per second."""
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


class Line:
    """The per-second timeline of a run in one thread: a struct tally_second with its arrays."""

    def __init__(self) -> None:
        self._rows = np.zeros((LONGEST, 4), np.uint64)
        self._bins = np.zeros((1 + Constant.TALLY_RECENT, BINS), np.uint64)
        self._line = structure("tally_line")(
            rows=self._rows.ctypes.data, room=LONGEST, recent=self._bins[1:].ctypes.data
        )
        self._second = structure("tally_second")(
            line=ctypes.addressof(self._line), bins=self._bins.ctypes.data, bin_count=BINS
        )
        self.address = ctypes.addressof(self._second)

    def seconds(self, wall: int) -> list[dict[str, Any]]:
        """Rows of the timeline of a run that took `wall` ns. A second in which no operation ended
        has no times. Each row has its start and end on the monotonic clock, which Disk.join
        uses."""
        found = []
        for second, (n, total, most, p99) in enumerate(self._rows[: self._line.used].tolist()):
            times = {"mean_ns": total / n, "p99_ns": p99, "max_ns": most} if n else {}
            span = {"start_ns": second * SECOND, "end_ns": min((second + 1) * SECOND, wall)}
            clock = {name: self._line.start + since for name, since in span.items()}
            found.append({"second": second, "n": n, **times, **clock})
        return found


class Phases:
    """An array of struct loop_phase, with memory for their counts."""

    def __init__(self, count: int, ticks: int = 0, tick: int = 1) -> None:
        """Each phase counts its operations in `ticks` intervals of `tick` ns."""
        self.c = (structure("loop_phase") * count)()
        self._bins = np.zeros((count, BINS), np.uint64)
        self._ticks = np.zeros((count, ticks), np.uint64)
        for own, bins, line in zip(self.c, self._bins, self._ticks, strict=True):
            own.tally.bins, own.tally.bin_count = bins.ctypes.data, BINS
            own.tally.ticks, own.tally.tick_count = line.ctypes.data, ticks
            own.tally.tick = tick
        self._lines: dict[int, Line] = {}

    def note_seconds(self, index: int, *others: int) -> Self:
        """Record a timeline in phase `index`, of its operations and those of the phases
        `others`."""
        line = self._lines[index] = Line()
        for each in (index, *others):
            self.c[each].tally.second = line.address
        return self

    def at(self, index: int) -> Any:
        """A pointer to a phase."""
        return ctypes.byref(self.c[index])

    def phase(self, index: int, meter: Meter | None) -> Phase:
        """A phase in Python. `meter` is the one that counted; without it, `used` is empty."""
        own, found = self.c[index], Phase()
        tally = own.tally
        found.latency = Histogram.of(self._bins[index], tally.n, tally.sum, tally.min, tally.max)
        found.items = own.items
        if own.wall:
            found.wall_s, found.paused_s = own.wall / SECOND, own.paused / SECOND
            found.used = meter.columns(own.used) if meter else {}
        found.seconds = self.seconds(index, own.wall)
        return found

    def seconds(self, index: int, wall: int) -> list[dict[str, Any]]:
        """The timeline that a phase recorded: see Line."""
        return self._lines[index].seconds(wall) if index in self._lines else []

    def line(self, index: int, ticks: int) -> list[int]:
        """The number of operations in each of the first `ticks` ticks."""
        found: list[int] = self._ticks[index, :ticks].tolist()
        return found
