"""What a log that grows costs at `sync`: RocksDB's synced writes to it, and to logs that it writes
again; and what the stores of the main grid write to the device for each synced write."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from kvbench.cell.factors import RecordSize
from kvbench.experiment.factors import NOT_STATED

from study.common import formats, levels
from study.common.fields import each, where
from study.common.results import Results

LOGS = GROWING, RECYCLED = "growing log", "recycled log"  # the labels of harness/grids/logs.toml
WRITE = "overwrite"
BY = ["file_system", "record_size"]
EVIDENCE = ["store", "durability", "syncs_per_write", "commits_per_write"]
OFTEN = 0.5  # commits per write
SINGLE = ("insert", "update")


def costs(places: Mapping[str, Results]) -> pd.DataFrame:
    """Return one row per file system and record size: the ratio of a write to a growing log to one
    to a recycled log with its interval, as levels.ratios() does; and for each label the `time` of a
    write in ns and the bytes `written` to the device, medians over the trials. Raises BadInput if a
    place has no such writes."""
    found = []
    for name, data in places.items():
        rows = where(data.operations, operation=WRITE)
        rows = rows[rows.label.isin(LOGS) & rows.mean_ns.notna()]
        rows = rows.assign(file_system=name, written=rows.device_write_bytes / rows.n)
        ratio = levels.ratios(rows, BY, "label", GROWING, RECYCLED)
        data.require(ratio, f"{WRITE} to a {GROWING} and to a {RECYCLED}")
        wide = rows.pivot_table(
            index=BY, columns="label", values=["mean_ns", "written"], aggfunc="median"
        )
        wide = wide.reindex(columns=pd.MultiIndex.from_product([["mean_ns", "written"], LOGS]))
        wide.columns = pd.Index([": ".join(column[::-1]) for column in wide.columns])
        found.append(ratio.merge(wide.reset_index(), on=BY).sort_values("record_size", key=_bytes))
    return pd.concat(found, ignore_index=True)


def _bytes(sizes: "pd.Series[str]") -> "pd.Series[int]":
    return sizes.map(lambda size: RecordSize.parse(size).high)


def _size(count: float) -> str:
    return NOT_STATED if pd.isna(count) else formats.size(count)


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the costs as text."""
    shown = found[BY].assign(ratio=[levels.ratio_text(row) for row in each(found)])
    for label in (GROWING, RECYCLED):
        shown[label] = found[f"{label}: mean_ns"].map(formats.time)
        shown[f"{label}: written"] = found[f"{label}: written"].map(_size)
    return shown[
        [*BY, GROWING, RECYCLED, "ratio", f"{GROWING}: written", f"{RECYCLED}: written"]
    ].rename(columns=formats.heading)


def written(data: Results, evidence: pd.DataFrame) -> pd.DataFrame:
    """Return what a synced write of the smallest records writes: one row per store, the least
    first, with the bytes written to the device per insert and update, and the time of both; medians
    over the trials. From the evidence come the sync calls and the journal's commits per write."""
    smallest = data.sizes()[0]
    rows = where(data.operations, durability="sync", record_size=smallest, records=10_000)
    rows = rows[rows.operation.isin(SINGLE)]
    data.require(rows, "write at sync")
    rows = rows.assign(written=rows.device_write_bytes / rows.n)
    wide = rows.pivot_table(
        index="store", columns="operation", values=["written", "mean_ns"], aggfunc="median"
    )
    evidence = evidence.reindex(columns=[*evidence.columns.union(EVIDENCE)])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["written", "mean_ns"], SINGLE]))
    counted = where(evidence, durability="sync").set_index("store")
    shown = pd.DataFrame(
        {
            "syncs": pd.to_numeric(counted.syncs_per_write).reindex(wide.index),
            "journal commits": pd.to_numeric(counted.commits_per_write).reindex(wide.index),
            **{f"{name}: written": wide["written"][name] for name in SINGLE},
            **{name: wide["mean_ns"][name] for name in SINGLE},
        }
    )
    return shown.sort_values(f"{SINGLE[0]}: written").reset_index()


def facts(found: pd.DataFrame, writes: pd.DataFrame, data: Results) -> dict[str, Any]:
    """Return, for the text, the `ratio` by file system and record size, as table() shows it; the
    stores that commit the journal with about each write (`committing`), of the result of written(),
    and the most commits per write of the others (`seldom`); and the number of `trials`."""
    ratios: dict[str, dict[str, str]] = {}
    for row in each(found):
        of_place = ratios.setdefault(row.file_system, {})
        of_place[row.record_size.replace(" ", "_")] = levels.ratio_text(row)
    commits = writes.set_index("store")["journal commits"].dropna()
    often = commits > OFTEN
    return {
        "ratio": ratios,
        "committing": formats.listed(list(commits.index[often]), "and"),
        "seldom": formats.number(commits[~often].max()) if (~often).any() else NOT_STATED,
        "trials": data.trials,
    }
