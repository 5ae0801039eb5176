"""Recomputes the statistics of each operation from its histogram."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kvbench.cell.histogram import LOG_WIDTH
from kvbench.cell.phase import BINS, QUANTILES
from kvbench.results.plausible.outside import outside, refusal

MOST = 10**12  # operations: more than any step takes in its longest time
SLACK = 1e-6  # relative, of a time at the edge of its bin
EXACT = 1e-9  # relative, of a quantile that is computed again


class Bins(NamedTuple):
    """The histograms of the rows that have one, one after the other. `row` is the number of the row
    of each bin, and `start` the place of the first bin of each of these rows."""

    bins: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]

    @classmethod
    def of(cls, operations: pa.Table) -> Self:
        """The histograms of a table whose lists have equal lengths; see `uneven`."""
        sizes = _sizes(operations, "histogram_bin")
        bins, counts = (
            pc.list_flatten(operations[name]).to_numpy().astype(np.int64)
            for name in ("histogram_bin", "histogram_count")
        )
        ends = np.cumsum(sizes)
        return cls(bins, counts, np.repeat(np.arange(len(sizes)), sizes), (ends - sizes)[sizes > 0])

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The numbers of the rows that have a histogram."""
        return self.row[self.start]

    def total(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of values, one for each bin, by row."""
        return np.add.reduceat(values, self.start) if len(self.start) else values

    def quantile(self, share: float) -> npt.NDArray[np.float64]:
        """The middle of the bin of a quantile, by row, in ns."""
        places = np.cumsum(self.counts)
        before = places[self.start] - self.counts[self.start]
        sizes = np.diff(np.append(self.start, len(self.bins)))
        ranks = np.maximum(1, np.ceil(share * self.total(self.counts)))
        short = places - np.repeat(before, sizes) < np.repeat(ranks, sizes)
        at = self.start + self.total(short.astype(np.int64))
        middle: npt.NDArray[np.float64] = np.exp((self.bins[at] + 0.5) * LOG_WIDTH)
        return middle


def _sizes(operations: pa.Table, name: str) -> npt.NDArray[np.int64]:
    sizes: npt.NDArray[np.int64] = pc.list_value_length(operations[name]).to_numpy().astype(int)
    return sizes


def miscounted(operations: pa.Table) -> Iterator[str]:
    """Sentences on the first rows whose histogram is none, or does not fit n, the sum, the least
    and greatest time, or the quantiles. Rows without operations have none of these."""
    lists = ["histogram_bin", "histogram_count", "timeline"]
    rows = operations.drop_columns(lists).to_pandas()
    yield from outside(rows, "n", most=MOST)
    sizes, others = (_sizes(operations, name) for name in lists[:2])
    yield from _first(rows, sizes != others, "histogram_count", "as many counts as bins")
    own = Bins.of(operations)
    last = np.append(own.start[1:], len(own.bins)) - 1 if len(own.start) else own.start
    steps = np.diff(own.bins, prepend=-1)
    steps[own.start] = 1
    wrong = (steps < 1) | (own.bins < 0) | (own.bins >= BINS)
    yield from _first(rows.iloc[own.row], wrong, "histogram_bin", f"0 to {BINS - 1}, in order")
    wrong = (own.counts < 1) | (own.counts > MOST)
    yield from _first(rows.iloc[own.row], wrong, "histogram_count", "1 or more in each bin")
    counted = np.zeros(len(rows), np.int64)
    counted[own.rows] = own.total(own.counts)
    total = pd.Series(counted, rows.index)
    yield from outside(rows, "n", total, total, "the sum of the histogram")
    yield from outside(rows[rows.n == 0], "sum_ns", most=0, why="without operations")
    timed = rows.iloc[own.rows]
    yield from _timed(timed, own, last)


def _timed(rows: pd.DataFrame, own: Bins, last: npt.NDArray[np.int64]) -> Iterator[str]:
    """The same for rows with a histogram; `last` is the place of the last bin of each."""
    for column in ("min_ns", "max_ns", *QUANTILES):
        yield from _first(rows, rows[column].isna(), column, "a time, since operations were timed")
    for column, at in (("min_ns", own.start), ("max_ns", last)):
        low, high = (np.exp((own.bins[at] + edge) * LOG_WIDTH) for edge in (0, 1))
        low[own.bins[at] == 0] = 0
        if column == "max_ns":  # the last bin of all holds what is longer, too
            high[own.bins[at] == BINS - 1] = np.inf
        why = "the bin of the histogram"
        low, high = pd.Series(low * (1 - SLACK), rows.index), pd.Series(high, rows.index)
        yield from outside(rows, column, low, high * (1 + SLACK), why)
    low = np.exp(own.bins * LOG_WIDTH)
    high = low * np.exp(LOG_WIDTH)
    low[own.bins == 0] = 0
    high[own.bins == BINS - 1] = np.inf
    least, most = (
        pd.Series(own.total(edge * own.counts) * slack, rows.index)
        for edge, slack in ((low, 1 - SLACK), (high, 1 + SLACK))
    )
    least, most = least.clip(rows.n * rows.min_ns), most.clip(upper=rows.n * rows.max_ns)
    yield from outside(rows, "sum_ns", least, most, "the times of the histogram")
    for column, share in QUANTILES.items():
        again = pd.Series(own.quantile(share), rows.index).clip(rows.min_ns, rows.max_ns)
        why = "as the histogram has it"
        yield from outside(rows, column, again * (1 - EXACT), again * (1 + EXACT), why)


def _first(
    rows: pd.DataFrame, wrong: "npt.NDArray[np.bool_] | pd.Series[bool]", column: str, allowed: str
) -> Iterator[str]:
    for at in np.flatnonzero(wrong)[:1]:
        row = rows.iloc[at].to_dict()
        value = f"{row[column]!s:.20}" if column in row else "this histogram"
        yield refusal(row, column, value, allowed)
