"""Compare a reader's results with the reference data: findings, claims and best stores.

    python -m study.answers.verify DIR          # DIR has one folder per experiment, as data/ has

Each line says whether the reference is reproduced, differs or is inconclusive; what DIR lacks is
not measured. The exit status is 1 if anything differs, and 2 if DIR has nothing to compare.
"""

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from kvbench.cell.factors import DEFAULT, LEVELS
from kvbench.common.messages import BadInput
from kvbench.results.frames import Frames
from kvbench.stats.intervals import points
from kvbench.stats.regret import GOOD

from study.common import formats
from study.common.fields import NOT_RANKED, where
from study.common.notebook import read_table, root
from study.common.results import Results
from study.experiments import beyond, reference
from study.sources import claims, verdicts
from study.sources.rocksdb_2013.claims import AUDITED, ORDER
from study.sources.rocksdb_2013.rerun import Page

REPRODUCED, DIFFERS, OPEN, MISSING = "reproduced", "differs", "inconclusive", "not measured"
SHARE = 0.5  # the least share of the log of the reference's effect


def _band(there: float) -> tuple[float, float]:
    """Return the bounds of the ratios whose log is half to twice that of the reference's ratio."""
    return there**SHARE, there ** (1 / SHARE)


def _all(reference: Results) -> list[str]:
    return reference.stores()


class Finding(NamedTuple):
    """A finding of the paper: a ratio in each trial, which is 1 if there is no effect. `stores`
    names the stores of the reference that the finding is about."""

    name: str
    experiment: str
    effect: str
    values: Callable[[Results], "pd.Series[float]"]
    stores: Callable[[Results], Collection[str]] = _all


def _spread(level: str, data: Results) -> "pd.Series[float]":
    rows = where(data.reusing().operations, operation="insert", record_size=data.sizes()[0])
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
    columns = {"store": str, "durability": str, "syncs_per_write": float}
    table = read_table(data.folder / "evidence.csv", columns, "store", "durability")
    own = where(table, store="sqlite").set_index("durability").syncs_per_write
    return pd.Series([own[DEFAULT] / own["sync"]])


def _slowdowns(data: Results) -> "pd.Series[float]":
    """Return by how many times gets slow down with more data than memory, by trial and store."""
    rows = where(beyond.steps(data), kind="get", label=beyond.LABELS[0], key_order="uniform")
    wide = rows.pivot(index=["trial", "store"], columns="share", values="time").dropna()
    found: pd.Series[float] = wide[wide.columns.max()] / wide[wide.columns.min()]
    return found


def _gains(data: Results) -> "pd.Series[float]":
    """Return by how many times the recommended settings speed up gets, by trial and store."""
    rows = where(beyond.steps(data), kind="get", key_order="uniform")
    most = rows[rows.share == rows.share.max()]
    wide = most.pivot(index=["trial", "store"], columns="label", values="time").dropna()
    shipped, recommended = (wide[label] for label in beyond.LABELS)
    found: pd.Series[float] = shipped / recommended
    return found


def _first(effects: Callable[[Results], "pd.Series[float]"], reference: Results) -> list[str]:
    """Return the store with the greatest effect in the reference. The greatest one of another
    machine could hide that this store has no effect there."""
    return [str(effects(reference).groupby("store").median().idxmax())]


def _greatest(
    effects: Callable[[Results], "pd.Series[float]"], data: Results
) -> "pd.Series[float]":
    """Return, by trial, the greatest effect of any store."""
    return effects(data).groupby("trial").max()


def _published(data: Results) -> "pd.Series[float]":
    leads = Page(data).leads(ORDER)
    found: pd.Series[float] = leads["as published"].iloc[0] / leads[AUDITED]
    return found


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
        "time of a get beyond memory over that within memory; of the store that slows most in the "
        "reference",
        functools.partial(_greatest, _slowdowns),
        stores=functools.partial(_first, _slowdowns),
    ),
    Finding(
        "3 settings",
        "beyond-memory",
        "time of a get beyond memory as shipped, over that as recommended; of the store that gains "
        "most in the reference",
        functools.partial(_greatest, _gains),
        stores=functools.partial(_first, _gains),
    ),
    Finding(
        "4 published lead",
        "rocksdb-2013",
        "RocksDB's published lead over LevelDB in key order, over the one measured as audited",
        _published,
    ),
)


def collected(folder: Path) -> bool:
    """Return whether a folder has the tables of an experiment."""
    return (folder / "cells.parquet").exists() and folder.is_dir()


@functools.cache
def measured(folder: Path) -> pd.DataFrame:
    """Return the measured cells of an experiment, with the columns of Frames, without those from
    Python. Empty if there are none, for example because all cells need root."""
    cells = Frames.read(folder).cells
    return cells[(cells.status == "ok") & (cells.access != "python")]


@functools.cache  # several findings use the same experiment
def results(folder: Path) -> Results | None:
    """Return an experiment's results; None if no cell was measured from C."""
    if not collected(folder) or measured(folder).empty:
        return None
    return Results(str(folder.resolve()), varying=LEVELS)


def _effect(finding: Finding, data: Results | None, stores: Collection[str]) -> "pd.Series[float]":
    """Return the effect of these stores by trial; empty if the data for it were not measured."""
    with contextlib.suppress(KeyError, IndexError, FileNotFoundError):
        if data and stores:
            return finding.values(data.of(stores)).dropna()
    return pd.Series(dtype=float)


def findings(here: Path, there: Path) -> pd.DataFrame:
    """Return one row per `finding`, all as text: what its `effect` is; that effect in the
    `reference` and `here`, each with its range over the trials, for the stores that both have; and
    the `outcome`."""
    rows = []
    for finding in FINDINGS:
        first, second = (results(folder / finding.experiment) for folder in (there, here))
        wanted = finding.stores(first) if first else []
        stores = [store for store in wanted if not second or store in second.stores()]
        there_values, here_values = (_effect(finding, data, stores) for data in (first, second))
        texts = map(formats.span, (there_values, here_values))
        rows.append((finding.name, finding.effect, *texts, _judge(there_values, here_values)))
    return pd.DataFrame(rows, columns=["finding", "effect", "reference", "here", "outcome"])


def _judge(there: "pd.Series[float]", here: "pd.Series[float]") -> str:
    """Return whether all trials lie within the band around the reference's median."""
    if there.empty or here.empty:
        return MISSING
    low, high = _band(float(points(there).median))
    if low >= high:  # the reference itself shows no effect for these stores
        return OPEN
    if low <= here.min() and here.max() <= high:
        return REPRODUCED
    return DIFFERS if here.max() < low or here.min() > high else OPEN


def published(here: Path, there: Path) -> pd.DataFrame:
    """Return one row per `claim` and `settings` that the reference decides: the verdict of the
    `reference`, the one `here`, and the `outcome`."""
    there_rows = pd.read_csv(there / "verdicts" / "verdicts.csv", keep_default_na=False)
    names = {name: here / name for name in claims.EXPERIMENTS if collected(here / name)}
    if not names:
        return pd.DataFrame(columns=["claim", "settings", "reference", "here", "outcome"])
    rows = verdicts.load(names, there / "durability" / "evidence.csv")
    here_verdicts = verdicts.judge(claims.everything(), rows).set_index("id")
    judged = []
    for row in there_rows.to_dict("records"):
        for settings in ("source", "equal"):
            first = row[f"{settings}_verdict"]
            if first not in (verdicts.HOLDS, verdicts.FAILS):
                continue
            second = here_verdicts[f"{settings}_verdict"].get(row["id"], verdicts.SCOPE)
            outcome = (
                MISSING if second == verdicts.SCOPE
                else OPEN if second == verdicts.OPEN
                else REPRODUCED if second == first
                else DIFFERS
            )  # fmt: skip
            judged.append((row["id"], settings, first, second, outcome))
    return pd.DataFrame(judged, columns=["claim", "settings", "reference", "here", "outcome"])


def best(here: Path, there: Path) -> pd.DataFrame:
    """Return one row per field of the main grid in which the reference recommends a store: the
    columns FIELD, the first recommended `store`, its `regret here` as text, and the `outcome`."""
    both = [results(folder / "reference") for folder in (there, here)]
    columns = [*reference.FIELD, "store", "regret here", "outcome"]
    if not all(both):
        return pd.DataFrame(columns=columns)
    first, second = (reference.regrets_of(data.reusing()) for data in both if data)
    chosen = first[first.high < GOOD].drop_duplicates(reference.FIELD)
    merged = chosen[[*reference.FIELD, "store"]].merge(second, "left", [*reference.FIELD, "store"])
    rows = []
    for row in merged.to_dict("records"):
        outcome = (
            MISSING if pd.isna(row["regret"])
            else OPEN if row["verdict"] == NOT_RANKED
            else REPRODUCED if row["high"] < GOOD
            else DIFFERS if row["low"] > GOOD
            else OPEN
        )  # fmt: skip
        shown = formats.number(row["regret"]) if not pd.isna(row["regret"]) else ""
        rows.append((*(row[name] for name in (*reference.FIELD, "store")), shown, outcome))
    return pd.DataFrame(rows, columns=columns)


def versions(here: Path, there: Path) -> list[str]:
    """Return the engines that were measured in another version than in the reference."""
    differing: dict[str, None] = {}
    for folder in filter(collected, sorted(here.iterdir())):
        if collected(there / folder.name):
            there_versions, here_versions = (
                _versions(place) for place in (there / folder.name, folder)
            )
            for store in sorted(there_versions.keys() & here_versions.keys()):
                if there_versions[store] != here_versions[store]:
                    differing[
                        f"{store} {there_versions[store]} there, {here_versions[store]} here"
                    ] = None
    return list(differing)


def _versions(folder: Path) -> dict[str, str]:
    """Return the version, or the versions, of each store."""
    by = measured(folder).dropna(subset="engine_version").groupby("store").engine_version
    return {str(store): " and ".join(sorted(set(names))) for store, names in by}


def _refuse_twice(here: Path) -> None:
    """Raise BadInput if two names have the same results, which belong to one experiment."""
    seen: dict[frozenset[str], str] = {}
    for folder in filter(collected, sorted(here.iterdir())):
        cells = frozenset(measured(folder).cell)
        if cells and seen.setdefault(cells, folder.name) != folder.name:
            raise BadInput(
                f"{folder}: the cells of {seen[cells]}; give each experiment its own results"
            )


def compare(here: Path, there: Path) -> dict[str, pd.DataFrame]:
    """Return the results of findings(), published() and best(), by their names in the report.
    Raises BadInput if nothing can be compared."""
    if not here.is_dir():
        raise BadInput(f"DIR: {str(here)!r} is no folder; give one with a folder an experiment")
    _refuse_twice(here)
    parts = {
        "Findings": findings(here, there),
        "Claims of the sources": published(here, there),
        "Recommended stores": best(here, there),
    }
    if all((table.outcome == MISSING).all() for table in parts.values()):
        raise BadInput(f"{here}: no results of an experiment of the paper; run `kvbench collect`")
    return parts


def report(parts: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Iterate over the lines of the report: how much was reproduced, and what was not."""
    for name, table in parts.items():
        counts: Any = table.outcome.value_counts()
        kinds = (REPRODUCED, DIFFERS, OPEN, MISSING)
        yield f"{name}: " + ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in kinds)
        shown = table[table.outcome != MISSING] if name == "Findings" else differing(table)
        if len(shown):
            yield shown.to_markdown(index=False, disable_numparse=True)


def differing(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one of these tables whose outcome is DIFFERS."""
    return table[table.outcome == DIFFERS]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m study.answers.verify",
        description="Compare results with the reference data.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder an experiment, collected"
    )
    folder, reference_data = parser.parse_args(arguments).folder, root() / "data"
    try:
        parts = compare(folder, reference_data)
        if other := versions(folder, reference_data):
            print(f"Other versions: {'; '.join(other)}")
    except BadInput as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    for line in report(parts):
        print(line)
    return int(any(len(differing(table)) for table in parts.values()))


if __name__ == "__main__":
    sys.exit(main())
