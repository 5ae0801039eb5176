"""A reader's results beside the reference data: findings, claims and best stores.

    python -m study.verify DIR          # DIR has a folder an experiment, as data/ has

Each line says whether the reference is reproduced, differs or is inconclusive; what DIR does not
have is not measured.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from kvbench import BadInput
from kvbench.factors import COMPARED, DEFAULT
from kvbench.regret import RECOMMENDED
from kvbench.stats import points

from study import beyond, claims, formats, load, reference, verdicts
from study.claims.rocksdb_2013 import AUDITED, ORDER
from study.fields import NOT_RANKED, where
from study.notebook import root
from study.reruns.rocksdb_2013 import Page
from study.results import Results

REPRODUCED, DIFFERS, OPEN, MISSING = "reproduced", "differs", "inconclusive", "not measured"
SHARE = 0.5  # of the log of the reference's effect that reproduces it


class Finding(NamedTuple):
    """One of the paper's findings: a ratio that is 1 where there is no effect, trial by trial."""

    name: str
    experiment: str
    effect: str
    values: Callable[[Results], "pd.Series[float]"]


def _spread(level: str, data: Results) -> "pd.Series[float]":
    rows = where(data.operations, operation="insert", record_size=data.sizes()[0])
    by = rows.groupby(["durability", "trial"]).mean_ns
    spread = by.max() / by.min()
    found: pd.Series[float] = spread[DEFAULT] / spread[level]
    return found


def _sqlite(data: Results) -> "pd.Series[float]":
    rows = where(data.operations, operation="insert", record_size=data.sizes()[0], store="sqlite")
    wide = rows.pivot(index="trial", columns="durability", values="mean_ns")
    found: pd.Series[float] = wide[DEFAULT] / wide["sync"]
    return found


def _syncs(data: Results) -> "pd.Series[float]":
    table = pd.read_csv(data.folder / "evidence.csv")
    own = where(table, store="sqlite").set_index("durability").syncs_per_write
    return pd.Series([own[DEFAULT] / own["sync"]])


def _memory(data: Results) -> "pd.Series[float]":
    rows = where(beyond.steps(data), kind="get", label=beyond.LABELS[0], key_order="uniform")
    wide = rows.pivot(index=["trial", "store"], columns="share", values="time").dropna()
    by = wide.groupby("trial")
    spread = by.max() / by.min()
    found: pd.Series[float] = spread[wide.columns.min()] / spread[wide.columns.max()]
    return found


def _settings(data: Results) -> "pd.Series[float]":
    rows = where(beyond.steps(data), kind="get", key_order="uniform")
    most = rows[rows.share == rows.share.max()]
    wide = most.pivot(index=["trial", "store"], columns="label", values="time").dropna()
    shipped, recommended = (wide[label] for label in beyond.LABELS)
    found: pd.Series[float] = (shipped / recommended).groupby("trial").max()
    return found


def _published(data: Results) -> "pd.Series[float]":
    leads = Page(data).leads(ORDER)
    found: pd.Series[float] = leads["as published"].iloc[0] / leads[AUDITED]
    return found


def _load(data: Results) -> "pd.Series[float]":
    rows = load.steps(data)
    rows = rows[rows.store != load.PACER]
    key = [*load.FIELD, "store", "trial"]
    closed, half = (where(rows, load=share).set_index(key).p999_ns for share in (0, 50))
    logs = pd.Series(np.log((half / closed).dropna()))
    return pd.Series(np.exp(logs.groupby("trial").median()))


FINDINGS = (
    Finding(
        "1 durability, process",
        "durability",
        "spread of the stores' inserts as shipped, over their spread at `process`",
        functools.partial(_spread, "process"),
    ),
    Finding(
        "1 durability, sync",
        "durability",
        "spread of the stores' inserts as shipped, over their spread at `sync`",
        functools.partial(_spread, "sync"),
    ),
    Finding(
        "2 SQLite's default",
        "durability",
        "time of an insert by default, over that with a write-ahead log and full synchronization",
        _sqlite,
    ),
    Finding(
        "2 SQLite's syncs",
        "durability",
        "sync calls of a write by default, over those with that log (evidence.csv)",
        _syncs,
    ),
    Finding(
        "3 memory",
        "beyond-memory",
        "spread of the stores' gets of data within memory, over their spread beyond it",
        _memory,
    ),
    Finding(
        "3 settings",
        "beyond-memory",
        "time of a get beyond memory as shipped, over that as recommended; greatest of all stores",
        _settings,
    ),
    Finding(
        "4 published lead",
        "rocksdb-2013",
        "RocksDB's published lead over LevelDB in key order, over the one measured as audited",
        _published,
    ),
    Finding(
        "5 load",
        "load",
        "99.9th percentile at half the rate, over that of the closed loop; median of all stores",
        _load,
    ),
)


def collected(folder: Path) -> bool:
    """Whether a folder has the tables of an experiment."""
    return (folder / "cells.parquet").exists()


@functools.cache  # several findings rest on one experiment
def results(folder: Path) -> Results | None:
    """An experiment's results; None where the folder has none."""
    if not collected(folder):
        return None
    return Results(str(folder.resolve()), varying=COMPARED)


def findings(here: Path, there: Path) -> pd.DataFrame:
    """A row a finding: its effect there, in the reference, and here, with their ranges over the
    trials, of the stores that both have. It is reproduced where the log of the effect here is at
    least SHARE of there."""
    rows = []
    for finding in FINDINGS:
        measured = [results(folder / finding.experiment) for folder in (there, here)]
        both = set.intersection(*(set(data.stores()) for data in measured if data))
        texts, middles = [], []
        for data in measured:
            try:
                values = finding.values(data.of(both)).dropna() if data else pd.Series(dtype=float)
            except (KeyError, IndexError, FileNotFoundError):  # what it needs is missing
                values = pd.Series(dtype=float)
            texts.append(formats.span(values))
            middles.append(float(points(values).median) if len(values) else float("nan"))
        rows.append((finding.name, finding.effect, *texts, _compare(*middles)))
    return pd.DataFrame(rows, columns=["finding", "effect", "reference", "here", "outcome"])


def _compare(there: float, here: float) -> str:
    if np.isnan([there, here]).any():
        return MISSING
    return REPRODUCED if np.log(here) >= SHARE * np.log(there) > 0 else DIFFERS


def published(here: Path, there: Path) -> pd.DataFrame:
    """A row a claim of the sources and settings that the reference decided: its verdict there and
    here."""
    known = pd.read_csv(there / "verdicts" / "verdicts.csv", keep_default_na=False)
    names = {name: here / name for name in claims.EXPERIMENTS if collected(here / name)}
    if not names:
        return pd.DataFrame(columns=["claim", "settings", "reference", "here", "outcome"])
    rows = verdicts.load(names, there / "durability" / "evidence.csv")
    own = verdicts.judge(claims.everything(), rows).set_index("id")
    found = []
    for row in known.to_dict("records"):
        for settings in ("source", "equal"):
            first = row[f"{settings}_verdict"]
            if first not in (verdicts.HOLDS, verdicts.FAILS):
                continue
            second = own[f"{settings}_verdict"].get(row["id"], verdicts.SCOPE)
            outcome = (
                MISSING if second == verdicts.SCOPE
                else OPEN if second == verdicts.OPEN
                else REPRODUCED if second == first
                else DIFFERS
            )  # fmt: skip
            found.append((row["id"], settings, first, second, outcome))
    return pd.DataFrame(found, columns=["claim", "settings", "reference", "here", "outcome"])


def best(here: Path, there: Path) -> pd.DataFrame:
    """A row a field of the main grid with a store that the reference recommends: the regret of the
    first of them here."""
    both = [results(folder / "reference") for folder in (there, here)]
    columns = [*reference.FIELD, "store", "regret here", "outcome"]
    if not all(both):
        return pd.DataFrame(columns=columns)
    first, second = (reference.regrets_of(data) for data in both if data)
    chosen = first[first.high < RECOMMENDED].drop_duplicates(reference.FIELD)
    merged = chosen[[*reference.FIELD, "store"]].merge(second, "left", [*reference.FIELD, "store"])
    found = []
    for row in merged.to_dict("records"):
        outcome = (
            MISSING if pd.isna(row["regret"])
            else OPEN if row["verdict"] == NOT_RANKED
            else REPRODUCED if row["high"] < RECOMMENDED
            else DIFFERS if row["low"] > RECOMMENDED
            else OPEN
        )  # fmt: skip
        shown = formats.number(row["regret"]) if not pd.isna(row["regret"]) else ""
        found.append((*(row[name] for name in (*reference.FIELD, "store")), shown, outcome))
    return pd.DataFrame(found, columns=columns)


def versions(here: Path, there: Path) -> list[str]:
    """The engines of which another version was measured than in the reference."""
    found: dict[Any, Any] = {}
    for folder in filter(collected, sorted(here.iterdir())):
        both = [results(place) for place in (there / folder.name, folder)]
        known = [data.cells.groupby("store").engine_version.first() for data in both if data]
        if len(known) == len(both):
            table = pd.concat(known, axis=1, keys=["there", "here"]).dropna()
            found |= table[table.there != table.here].to_dict("index")
    return [f"{store} {own['there']} there, {own['here']} here" for store, own in found.items()]


def report(here: Path, there: Path) -> Iterator[str]:
    """The lines of the report: what was compared, how much of it was reproduced, and what was
    not."""
    if not here.is_dir():
        raise BadInput(f"DIR: {str(here)!r} is no folder; give one with a folder an experiment")
    parts: dict[str, pd.DataFrame] = {
        "Findings": findings(here, there),
        "Claims of the sources": published(here, there),
        "Recommended stores": best(here, there),
    }
    measured = {name: table[table.outcome != MISSING] for name, table in parts.items()}
    if all(table.empty for table in measured.values()):
        raise BadInput(f"{here}: no results of an experiment of the paper; run `kvbench collect`")
    if differ := versions(here, there):
        yield f"Other versions: {'; '.join(differ)}"
    for name, table in measured.items():
        counts: Any = table.outcome.value_counts()
        said = ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in (REPRODUCED, DIFFERS, OPEN))
        yield f"{name}: {said}, {len(parts[name]) - len(table)} {MISSING}"
        shown = table if name == "Findings" else table[table.outcome == DIFFERS]
        if len(shown):
            yield shown.to_markdown(index=False, disable_numparse=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m study.verify", description="Compare results with the reference data."
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder an experiment, collected"
    )
    folder = parser.parse_args().folder
    try:
        for line in report(folder, root() / "data"):
            print(line)
    except BadInput as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
