"""Disks that `kvbench sweep --device` slowed down: what was asked of them, what they take, and what
that costs each store. Each experiment `devices-...` measured one disk, so each has a folder."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from kvbench.cell.factors import RecordSize

from study.common import formats
from study.common.fields import regrets, where
from study.common.results import Results

FIELD = ["operation", "record_size", "records"]
NAMES = {"insertrandom": "insert", "overwrite": "update"}  # of the steps that are single writes
READS = "get"
KINDS = ("sync", "read")


def named(folder: Path) -> list[str]:
    """Return the folders of results beside `folder` whose names are its own and a suffix."""
    found = folder.parent.glob(f"{folder.name}-*")
    return sorted(str(path) for path in found if (path / "cells.parquet").exists())


def of_kind(measured: Mapping[str, Results], kind: str) -> dict[str, Results]:
    """Return the results of the disks whose syncs, or reads, were slowed, the fastest first, by
    what was asked of them, such as "1 ms". The first one is the floor: a disk that is served in the
    same way, and hardly slower."""
    column = f"asked_{kind}_us"
    asked = {data: data.machine.get(column, np.nan) for data in measured.values()}
    known = sorted((float(time), data.folder, data) for data, time in asked.items() if time > 0)
    return {formats.time(1000 * time): data for time, _, data in known}


def disks(measured: Mapping[str, Results]) -> pd.DataFrame:
    """Return one row per disk and kind of request, as text: the time that was `asked` for, the
    `median` and the quantiles that fio measured through the whole chain, and how much of the median
    is `beyond` what was asked for. The first of a kind is the floor."""
    rows = []
    for kind, columns in (
        ("sync", ("sync_p50_us", "sync_p90_us", "sync_p99_us")),
        ("read", ("random_read_us", "random_read_p90_us", "random_read_p99_us")),
    ):
        for asked, data in of_kind(measured, kind).items():
            found = [1000 * float(data.machine.get(column, np.nan)) for column in columns]
            beyond = found[0] - 1000 * float(data.machine[f"asked_{kind}_us"])
            rows.append((kind, asked, *map(formats.time, found), formats.signed_time(beyond)))
    return pd.DataFrame(rows, columns=["request", "asked", "median", "p90", "p99", "beyond"])


def rows(data: Results, kind: str) -> pd.DataFrame:
    """Return the operations that wait for requests of this kind, under the names of NAMES."""
    found = data.operations.replace({"operation": NAMES})
    operations = [READS] if kind == "read" else list(NAMES.values())
    chosen: pd.DataFrame = found[found.operation.isin(operations)]
    data.require(chosen, f"time of {formats.listed(operations, 'or')}")
    return chosen


def times(measured: Mapping[str, Results], kind: str) -> pd.DataFrame:
    """Return the mean time in ns of each trial, with the `disk` on which it was measured."""
    found = [rows(data, kind).assign(disk=disk) for disk, data in of_kind(measured, kind).items()]
    columns = [*FIELD, "store", "trial", "disk", "mean_ns", "cooled"]
    return pd.concat(found)[columns] if found else pd.DataFrame(columns=columns)


def costs(measured: Mapping[str, Results], kind: str) -> pd.DataFrame:
    """Return one row per field and store, the fastest on the floor first: its median over the
    trials in ns on each disk, and the number of `waits` for the slowest disk that explains its
    time: what it adds to the time on the floor, over what the slowest disk adds to a request."""
    slowed = of_kind(measured, kind)
    shown = times(measured, kind).pivot_table(
        index=[*FIELD, "store"], columns="disk", values="mean_ns", aggfunc="median", sort=False
    )
    shown = shown.reindex(columns=list(slowed))
    if len(slowed) > 1:
        column = "sync_p50_us" if kind == "sync" else "random_read_us"
        first, *_, last = slowed
        request = float(slowed[last].machine[column] - slowed[first].machine[column])
        shown["waits"] = (shown[last] - shown[first]) / (1000 * request)
    shown = shown.reset_index().rename_axis(columns=None)
    size = shown.record_size.map(lambda text: RecordSize.parse(text).mean)
    by = ["operation", "size", "records", *list(slowed)[:1]]
    return shown.assign(size=size).sort_values(by, ignore_index=True).drop(columns="size")


def order(measured: Mapping[str, Results], kind: str) -> pd.DataFrame:
    """Return one row per field and disk but the floor: the `best` stores, as reference.turns()
    names them, the `pairs` of stores, and those that the disk turned around: of which every trial
    on the floor finds one store to be the faster, and every trial on this disk the other. Fields
    of one trial have no row, because their noise is not known."""
    found = times(measured, kind)
    found = found[found.groupby(FIELD).trial.transform("nunique") > 1]
    floor, *others = of_kind(measured, kind) or [""]
    shown = []
    for key, field in found.groupby(FIELD, sort=False):
        here = _faster(where(field, disk=floor))
        for disk in others:
            there = where(field, disk=disk)
            if there.empty:
                continue
            ranked = regrets(there, "mean_ns", FIELD)
            best = ranked.store[ranked.verdict.isin(["in", "undecided"])]
            turned = [pair for pair in _faster(there) if pair[::-1] in here]
            pairs = list(combinations(set(there.store), 2))
            names = (f"{fast} before {slow}" for fast, slow in turned)
            text = formats.some(sorted(names), most=2)
            row = (formats.some(best, most=2), len(pairs), len(turned), text)
            shown.append((*key, disk, *row))
    return pd.DataFrame(shown, columns=[*FIELD, "disk", "best", "pairs", "turned", "such as"])


def facts(measured: Mapping[str, Results]) -> dict[str, dict[str, str]]:
    """Return, for the text, by kind of request: the time that it takes on the `floor` and on the
    `slowest` disk; the cells, on all disks of the kind, that the machine's host `disturbed`, as "3
    of 156"; and the pairs of stores, over all fields, which the slowest disk `turned` around,
    likewise, unless there was one trial. Kinds that were not measured are left out."""
    found = {}
    medians = disks(measured).set_index(["request", "asked"])["median"]
    for kind in KINDS:
        floor, *slower = of_kind(measured, kind) or [""]
        if slower:
            cells = pd.concat(data.cells for data in of_kind(measured, kind).values())
            shown = where(order(measured, kind), disk=slower[-1])
            found[kind] = {
                "floor": medians[kind, floor],
                "slowest": medians[kind, slower[-1]],
                "disturbed": f"{cells.disturbed.sum()} of {len(cells)}",
            }
            if not shown.empty:
                found[kind]["turned"] = f"{shown.turned.sum()} of {shown.pairs.sum()}"
    return found


def _faster(field: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the pairs of stores of which the first is the faster in every trial."""
    table = field.pivot_table(index="trial", columns="store", values="mean_ns").dropna(axis=1)
    pairs = combinations(table.columns, 2)
    each = [pair for two in pairs for pair in (two, two[::-1])]
    return {(str(a), str(b)) for a, b in each if (table[a] < table[b]).all()}
