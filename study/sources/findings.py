"""Building blocks of the audit: findings, and the range of values that a rounded figure stands
for."""

from __future__ import annotations

from typing import NamedTuple

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30


class Range(NamedTuple):
    """The values that a rounded figure, or a result computed from rounded figures, may stand
    for."""

    low: float
    high: float

    def __truediv__(self, other: Range) -> Range:
        return Range(self.low / other.high, self.high / other.low)

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    def meets(self, other: Range) -> bool:
        return self.low <= other.high * (1 + 1e-12) and other.low <= self.high * (1 + 1e-12)


def rounded(text: str) -> Range:
    """Return the range within half a unit of the last significant digit. Whole numbers count as
    having at least two significant digits."""
    whole, _, decimals = text.partition(".")
    zeros = len(whole) - max(2, len(whole.rstrip("0"))) if not decimals else 0
    half = 0.5 * 10.0 ** (max(zeros, 0) - len(decimals))
    return Range(float(text) - half, float(text) + half)


class Found(NamedTuple):
    """A row of findings.csv, without its description."""

    source: str
    section: str
    check: str
    item: str
    published: str
    recomputed: str
    unit: str
