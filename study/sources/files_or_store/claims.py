"""Files or an embedded store, 2023: claims.

Its stores ran as shipped. Equal settings: writes survive a crash of the process, and nothing is
compressed. Where the source says that files are faster, without a number, we require it of nine
tenths of the fields.
"""

from dataclasses import replace
from typing import Any

import pandas as pd
from kvbench.cell.factors import DEFAULT, RecordSize

from study.common.fields import each
from study.sources.published import table
from study.sources.table import Case, Source, listed
from study.sources.verdicts import Fields, Figure, Missing, middle, over

STORES = ("flat", "nested", "leveldb", "rocksdb", "bdb", "sqlite")
OPERATIONS = ("insert", "get", "update", "remove")
SMALL, LARGE = "1-10 KiB", "100 KiB-1 MiB"
MANY, FEWER = 1_000_000, 100_000  # records on either side of the source's cliffs
SHIPPED = {"label": ("as shipped", "as shipped, uncompressed")}
COMPRESSED = {"store": ("leveldb", "rocksdb"), "compression": DEFAULT}  # these compress as shipped
SETTINGS: dict[str, dict[str, Any]] = {
    "as shipped": SHIPPED,
    "as shipped, without compression": {**SHIPPED, "but": COMPRESSED},
}


def terms(store: str, operation: str, settings: str) -> dict[str, Any]:
    return {"operation": OPERATIONS, **SETTINGS.get(settings, {"label": settings})}


def printed(number: int) -> float:
    """Return the figure of a claim of data/published/files-or-store.csv; a percentage as a
    share."""
    row = next(row for row in each(table("files-or-store")) if row.claim_number == number)
    return float(row.value) / (100 if row.unit == "%" else 1)


def text(name: str, row: Any) -> str:
    """Return the figure of the claim with this number, or `half` of it; or why 100,000 of the
    largest records have none."""
    if name == "beyond":
        size = RecordSize.parse(LARGE).mean * FEWER / 2**30
        return (
            f"{size:.1f} GiB of records: beyond this scale, and the source has no such row either"
        )
    half, _, number = name.rpartition(" ")
    return f"{printed(int(number)) / (2 if half else 1):g}"


def efficiency(case: Case, how: str = "median") -> Figure:
    """Return the live bytes over the bytes on disk."""
    name = f"space efficiency ({case.fields.name}): {case.store}"
    return case.fields.figure(name, lambda table: table[case.store], how)


def worsening(case: Case) -> Figure:
    """Return the factor by which RocksDB falls further behind files from one size to the next: for
    each operation the median over kinds of data and the counts that both sizes have, and of these
    the least."""
    sizes = listed(case.row.record_size)
    large, medium = (
        replace(case.fields, name=size, where={**case.fields.where, "record_size": size})
        for size in sizes
    )

    def behind(fields: Fields, data: pd.DataFrame) -> pd.Series:
        times = fields.table(data).droplevel("record_size")
        found: pd.Series = times["rocksdb"] / times["flat"]
        return found

    def values(data: pd.DataFrame) -> pd.Series:
        grown = (behind(large, data) / behind(medium, data)).dropna()
        found: pd.Series = grown.groupby(["trial", "operation"]).median().groupby("trial").min()
        return found

    name = f"least over operations: rocksdb / flat ({sizes[0]}) / the same ({sizes[1]})"
    return Figure(name, values, ())


def size_over_count(case: Case) -> Figure:
    """Return the factor from one size to the next over the factor from 100 records to 1,000."""
    counts = replace(case.fields, by="records", levels=(1000, 100))
    return over(middle(case.fields), middle(counts))


def cliff(case: Case) -> Figure:
    """Return the factor from 100,000 records to a million: the greatest over the operations, then
    the least over stores, sizes and kinds of data, so that all of them have it."""
    fields = case.fields
    every = {name: fields.where[name] for name in ("store", "record_size", "compressibility")}

    def values(data: pd.DataFrame) -> pd.Series:
        times = fields.table(data)
        known = times.index.get_level_values
        lacking = [
            level for name, levels in every.items() for level in levels if level not in known(name)
        ]
        if lacking:
            raise Missing(f"{fields.name}: {', '.join(lacking)} not measured on this scale")
        factors = times[MANY] / times[FEWER]
        found: pd.Series = factors.groupby(["trial", *every]).max().groupby("trial").min()
        return found

    name = f"least factor from {FEWER:,} to {MANY:,} records ({fields.name})"
    return Figure(name, values, ())


def variation(case: Case) -> Figure:
    """Return the greatest time over the least time of the counts, as the median over all other
    factors, without the exception that the source makes."""
    stores, fields = case.fields.levels, case.fields

    def values(data: pd.DataFrame) -> pd.Series:
        times = fields.table(data)
        level = times.index.get_level_values
        kept = times[(level("records") < MANY) | (level("record_size") != SMALL)]
        counts = kept.groupby(["trial", "record_size", "compressibility", "operation"])
        several = (counts.max() / counts.min())[counts.size() > 1]
        if several.empty:
            raise Missing("all: no two counts measured on this scale")
        found: pd.Series = pd.concat([several[one] for one in stores]).groupby("trial").median()
        return found

    name = f"median over fields: greatest / least over counts, but {MANY:,} of {SMALL}"
    return Figure(name, values, ())


def longest(case: Case) -> Figure:
    what = "share of the time of a thousand operations that one took, the others at their mean"
    return case.fields.figure(f"greatest {what}", lambda table: table.max(axis=1), "max")


SOURCE = Source(
    __file__,
    "files-or-store",
    terms,
    STORES,
    {
        "efficiency": efficiency,
        "worsening": worsening,
        "size-over-count": size_over_count,
        "cliff": cliff,
        "variation": variation,
        "longest": longest,
    },
    text,
)
