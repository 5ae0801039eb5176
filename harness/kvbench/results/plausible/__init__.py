"""Whether tables can be what a sweep measured: statistics that follow from their histograms, limits
of machines, and an origin that holds together."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from kvbench.results.plausible import limits, origin
from kvbench.results.plausible.copies import copied
from kvbench.results.plausible.counted import miscounted
from kvbench.results.plausible.evidence import Evidence

__all__ = ["implausible"]


def implausible(tables: Mapping[str, pa.Table], others: Iterable[Path] = ()) -> str:
    """A sentence on the first value that no sweep has, with its cell and what is allowed; empty if
    there is none. The tables are those that read_tables returns, and `others` are collected folders
    that must not have the same trials."""
    for said in miscounted(tables["operations"]):
        return said
    own = Evidence.of(tables)
    for rule in (*limits.RULES, *origin.RULES):
        for said in rule(own):
            return said
    return next(copied(own, others), "")
