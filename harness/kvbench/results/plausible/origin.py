"""Rules on where results come from: names, builds, dates, whole trials, private words."""

import datetime
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from kvbench.cell.factors import COLD_OPERATIONS
from kvbench.cell.workload import ROUNDS
from kvbench.common.messages import listed
from kvbench.experiment.factors import CONDITION
from kvbench.machine.noise import unsynced
from kvbench.results.frames import sittings
from kvbench.results.plausible.evidence import Evidence
from kvbench.results.plausible.outside import outside, refusal
from kvbench.stores import catalogue
from kvbench.stores.bindings import BINDINGS

FIRST = pd.Timestamp("2026-11-20", tz="UTC")  # before it there was no harness
AHEAD = pd.Timedelta(days=1)  # by which a clock may be wrong
TURN = pd.Timedelta(seconds=1)  # by which a clock may be set between two cells
DIGEST, NAME = r"[0-9a-f]{12}", r".+_[0-9a-f]{16}"
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"
PRIVATE = re.compile(r"[/\\](?:home|users|root)[/\\]+[^/\\\s]|[\w.+-]+@[\w-]+\.\w", re.IGNORECASE)


def _first(rows: pd.DataFrame, bad: "pd.Series[bool]", column: str, allowed: str) -> Iterator[str]:
    for row in rows[bad.to_numpy(bool)].head(1).to_dict("records"):
        yield refusal(row, column, f"{row[column]!r:.40}", allowed)


def names(own: Evidence) -> Iterator[str]:
    """Machines, cells and code are named by digests, and stores are known."""
    cells = own.all_cells
    twelve = "12 hexadecimal digits"
    wrong = ~own.machines.machine.str.fullmatch(DIGEST)
    yield from _first(own.machines, wrong, "machine", twelve)
    wrong = ~cells.cell.str.fullmatch(NAME)
    yield from _first(cells, wrong, "cell", "a name that ends in 16 hexadecimal digits")
    stores = [*catalogue.names(), *(entry.store for entry in BINDINGS.values())]
    for column, known in (("store", stores), ("binding", ["", *BINDINGS])):
        unknown = ~cells[column].isin(known)
        for name in cells[column][unknown].head(1):
            allowed = listed(dict.fromkeys(known), name, "`kvbench stores`")
            yield from _first(cells, unknown, column, allowed)
    yield from _first(own.cells, ~own.cells.checksum.fillna("").str.fullmatch(DIGEST), "checksum",
                      f"{twelve}, of the code that measured")  # fmt: skip


def builds(own: Evidence) -> Iterator[str]:
    """One build of a store is of one version."""
    cells = own.cells
    yield from _first(cells, cells.engine_version.fillna("") == "", "engine_version", "a version")
    by = cells.groupby(["machine", "full_name", "checksum"]).engine_version
    first = by.transform("first")
    for at in np.flatnonzero(cells.engine_version != first)[:1]:
        yield from _first(
            cells.iloc[at : at + 1], pd.Series([True]), "engine_version",
            f"{first.iloc[at]!r:.40}, as in other cells of the same code",
        )  # fmt: skip


def dates(own: Evidence) -> Iterator[str]:
    """Cells began at a time that is past, and did not overlap on a machine."""
    cells = own.cells
    wrong = ~cells.started.fillna("").str.fullmatch(MOMENT)
    yield from _first(cells, wrong, "started", "a moment in UTC as 2026-11-28T09:30:00.000+00:00")
    started = pd.to_datetime(cells.started, utc=True, errors="coerce")
    yield from _first(cells, started.isna(), "started", "a date that exists")
    latest = pd.Timestamp(datetime.datetime.now(datetime.UTC)) + AHEAD
    early, late = f"{FIRST:%Y-%m-%d} or later", f"{latest:%Y-%m-%d} or earlier"
    yield from _first(cells, started < FIRST, "started", early)
    yield from _first(cells, started > latest, "started", late)
    ended = started + pd.to_timedelta(cells.wall_s, unit="s")
    times = cells.assign(began=started, ended=ended).sort_values("began", kind="stable")
    before = times.groupby("machine").ended.shift()
    free = "after the cell before it on this machine"
    yield from _first(times, times.began < before - TURN, "started", free)


def whole(own: Evidence) -> Iterator[str]:
    """A cell of rounds has a row for each operation that it timed, and counts agree."""
    cells = own.cells[own.cells.workload == ROUNDS]
    rows = own.operations[own.operations.workload == ROUNDS]
    found = rows.groupby("cell").operation.agg(set)
    for row in cells[["cell", "timed", "cache", "batch"]].to_dict("records"):
        few = row["cache"] == "cold" or row["batch"]
        timed = [name for name in row["timed"].split() if not few or name in COLD_OPERATIONS]
        parts = ("", " later") if row["cache"] == "cold" else ("",)
        wanted = {"load"} | {name + part for name in timed for part in parts}
        if wanted != found.get(row["cell"], set()):
            has = ", ".join(sorted(found.get(row["cell"], set()))) or "none"
            yield refusal(row, "operations", has[:60], ", ".join(sorted(wanted)))
            return
    single = rows[(rows.operation != "load") & (rows.batch == 0)]
    yield from outside(single, "items", single.n, single.n, "n")
    load = rows[rows.operation == "load"]
    yield from outside(load, "items", load.records, load.records, "records")
    yield from outside(cells, "live_records", cells.records, cells.records, "records")


def flags(own: Evidence) -> Iterator[str]:
    """A cell that syncs less often than it writes says so."""
    silent = own.operations[(own.operations.reason == "") & (own.operations.batch <= 1)]
    few = silent[(silent.syncs < silent.n) & (silent.workload == ROUNDS)]
    for row in few.to_dict("records"):
        counts = {name: row[name] for name in ("operation", "syncs", "n")}
        if why := unsynced(row["guarantee"] or "", [counts]):
            yield refusal(row, "reason", "''", why.partition(":")[0])
            return


def trials(own: Evidence) -> Iterator[str]:
    """No trial between others of a sitting is left out; between two sittings, those of other fields
    may have been measured."""
    cells = own.all_cells.assign(sitting=own.all_cells.trial.map(sittings(own.all_cells)).fillna(0))
    keys = [name for name in (*CONDITION, "label", "seed", "timed", "sitting") if name in cells]
    by = cells.groupby(list(dict.fromkeys(keys)), dropna=False, observed=True).trial
    wrong = by.transform("max") - by.transform("min") + 1 != by.transform("nunique")
    last = wrong & (cells.trial == by.transform("max"))
    yield from _first(cells, last, "trial", "without gaps within a sitting of the cell")


def private(own: Evidence) -> Iterator[str]:
    """No text names a user, a folder of a user, or an address."""
    for rows, table in ((own.all_cells, "cells"), (own.machines, "machines")):
        for field in own.tables[table].schema:
            if str(field.type) != "string":
                continue
            for text in rows[field.name].dropna().unique():
                if found := PRIVATE.search(text):
                    row = rows[rows[field.name] == text].iloc[0].to_dict()
                    value = f"{text[max(0, found.start() - 10) : found.end() + 10]!r:.60}"
                    yield refusal(row, field.name, value, "no user's folder or address")
                    return


RULES = (names, builds, dates, whole, flags, trials, private)
