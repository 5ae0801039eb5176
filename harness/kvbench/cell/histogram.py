"""Histograms of latencies, whose bins are 2% wide.

Bin i holds the times from 1.02^i to 1.02^(i+1) ns. A quantile is the geometric middle of its bin,
so its error is a factor of sqrt(1.02) at most: less than 1%.
"""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

LOG_WIDTH = np.log(1.02)
BEYOND = 10  # samples that must lie beyond a quantile, or chance would decide it


def quantile(
    bins: Sequence[int], counts: Sequence[int], least: int, most: int, share: float
) -> float:
    """The time in ns that a `share` of all times does not exceed, within 1%. `bins` are the numbers
    of the non-empty bins. The result lies between the least and the greatest time."""
    places = np.cumsum(counts)
    rank = max(1, int(np.ceil(share * places[-1])))
    middle = np.exp((bins[int(np.searchsorted(places, rank))] + 0.5) * LOG_WIDTH)
    return float(np.clip(middle, least, most))


def enough(n: float, share: float) -> bool:
    """Whether n samples suffice for a quantile: at least BEYOND of them lie beyond it."""
    return n - math.ceil(share * n) >= BEYOND


class Histogram:
    """Counts of latencies by bin, with their exact number, sum, least and greatest (in ns)."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)
        self.n = self.sum = self.max = 0
        self.min: int | None = None

    def add(self, nanoseconds: npt.NDArray[np.uint64]) -> None:
        if len(nanoseconds) == 0:
            return
        bins = (np.log(np.maximum(nanoseconds, 1)) / LOG_WIDTH).astype(np.intp)
        least, most = int(nanoseconds.min()), int(nanoseconds.max())
        total = int(nanoseconds.sum())
        self.merge(Histogram.of(np.bincount(bins), len(nanoseconds), total, least, most))

    def merge(self, other: "Histogram") -> None:
        """Add the times of another histogram."""
        if other.min is None:
            return
        counts = np.zeros(max(len(self.counts), len(other.counts)), np.int64)
        for own in (self.counts, other.counts):
            counts[: len(own)] += own
        self.counts = counts
        self.n += other.n
        self.sum += other.sum
        self.min = other.min if self.min is None else min(self.min, other.min)
        self.max = max(self.max, other.max)

    @classmethod
    def of(cls, counts: npt.NDArray[Any], n: int, total: int, least: int, most: int) -> Self:
        """A histogram from counts and sums that were collected elsewhere."""
        found = cls()
        found.counts = counts.astype(np.int64)
        found.n, found.sum, found.max = n, total, most
        found.min = least if n else None
        return found

    def quantile(self, share: float) -> float:
        """The time in ns that a `share` of all times does not exceed, within 1%. Raises ValueError
        if there are none."""
        if self.min is None:
            raise ValueError("no times were added")
        return quantile(*self.sparse(), self.min, self.max, share)

    def sparse(self) -> tuple[list[int], list[int]]:
        """The numbers of the non-empty bins, and their counts."""
        bins = np.flatnonzero(self.counts)
        return bins.tolist(), self.counts[bins].tolist()
