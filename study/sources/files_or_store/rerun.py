"""Files or an embedded store, 2023: the best store of each field, the cliffs and the stalls."""

import pandas as pd
from kvbench.cell.factors import OPERATIONS, UNCAPPED, parse_bytes

from study.common import formats
from study.common.fields import Panel, best_of, longest_share, where
from study.common.results import Results
from study.sources.files_or_store.claims import SMALL

BY = ["record_size", "compressibility", "records"]
PARTS = ("as shipped", "equal settings")
MILLION, FEWER = 1_000_000, 100_000  # on either side of the source's cliffs
STALL = 707 / 776  # of the time of a thousand operations: the one stall that the source prints


def rows_of(data: Results, label: str) -> pd.DataFrame:
    """Return the rows of the fields of a part, as shipped with and without compression. Fields that
    were measured for a few stores only are left out."""
    rows: pd.DataFrame = data.operations
    rows = rows[rows.operation.isin(["load", *OPERATIONS])]
    data.require(rows[rows.label.str.startswith(PARTS)], f"part {' or '.join(PARTS)}")
    rows = rows[rows.label.str.startswith(label)]
    return rows[rows.groupby(BY).store.transform("nunique") == rows.store.nunique()]


def panels(rows: pd.DataFrame) -> dict[str, Panel]:
    """Return, for each operation, the best store of each field; each store with its best
    compression."""
    keys = [*BY, "store", "trial", "operation"]
    least = rows.loc[rows.groupby(keys).mean_ns.idxmin()]
    return {
        operation: (best_of(where(least, operation=operation), "mean_ns", BY), formats.time)
        for operation in OPERATIONS
    }


def wins(found: dict[str, Panel], stores: list[str]) -> dict[str, str]:
    """Return, by store, the share of all fields in which it has the least mean time."""
    fields = pd.concat([rows for rows, _ in found.values()])
    return {store: f"{(fields.store == store).mean():.0%}" for store in stores}


def changed(first: dict[str, Panel], second: dict[str, Panel]) -> tuple[int, int]:
    """Return the number of fields whose best store differs, and that of the fields in both."""
    both = [first[name][0].merge(second[name][0], on=BY, suffixes=("", "_equal")) for name in first]
    differ = sum(int((rows.store != rows.store_equal).sum()) for rows in both)
    return differ, sum(map(len, both))


def cliffs(data: Results) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of records of 1 to 10 KiB as shipped, with and without capped memory, and the
    caps in order of size."""
    rows = where(data.operations, record_size=SMALL, compressibility="incompressible")
    rows = rows[rows.label.isin(["as shipped", "capped memory"])]
    return rows, sorted(set(rows.memory_max) - {UNCAPPED}, key=parse_bytes)


def cliff(rows: pd.DataFrame, caps: list[str], store: str) -> dict[str, str]:
    """Return how many times slower a get is with a million records than with 100,000, and with
    memory for an eighth of the data."""
    own = where(rows, store=store, operation="get")
    plain = where(own, memory_max=UNCAPPED).groupby("records").mean_ns.median()
    capped = own.groupby("memory_max").mean_ns.median().reindex(caps)
    return {
        "million": f"{plain.get(MILLION, float('nan')) / plain.get(FEWER, float('nan')):.1f}",
        "capped": f"{capped.iloc[0] / capped.iloc[-1]:.0f}" if capped.count() > 1 else "",
    }


def stalls(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store: its runs, those with a stall, those with one of the share STALL,
    the longest operation in ns, its greatest share, and the processor time in the kernel of runs
    with a stall over that of all runs.

    A stall is an operation that took a tenth of the time of a thousand of its kind in its trial, as
    longest_share() computes it, and a hundred times their median.
    """
    rows = rows[rows.operation.isin(OPERATIONS)]
    share = longest_share(rows)
    rows = rows.assign(share=share, stall=(share > 0.1) & (rows.max_ns > 100 * rows.p50_ns))
    rows = rows.assign(as_there=rows.stall & (share >= STALL))
    by = rows.groupby("store")
    found = by.agg(
        runs=("stall", "size"),
        stalls=("stall", "sum"),
        as_there=("as_there", "sum"),
        longest=("max_ns", "max"),
        share=("share", "max"),
    )
    return found.assign(
        kernel=rows[rows.stall].groupby("store").system_s.median() / by.system_s.median()
    )
