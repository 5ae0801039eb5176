"""LevelDB Benchmarks, 2011: claims.

The page runs every store asynchronously with 4 MB of memory. Equal settings: LevelDB without
compression, because SQLite has none; TreeDB has no durability level in common with the two.
Settings name parts of the page. SQLite has its write-ahead log unless they name the rollback
journal. We take "significantly" to mean half as much again.
"""

from typing import Any

import pandas as pd

from study.common.fields import each
from study.sources.published import numbers, table
from study.sources.table import Source
from study.sources.verdicts import Figure, Side, side

# The parts of the page, and the labels of the parts of the grid.
BASE, LARGE, MEMORY, CACHES = "Baseline", "Large values", "More memory (writes)", "Larger caches"
LABELS = {
    BASE: "baseline", LARGE: "large values", "Batches": "batches",
    "Synchronous writes": "synchronous writes", "Compression off": "no compression",
    "Compression off (reads)": "no compression", MEMORY: "more memory", CACHES: "more memory",
}  # fmt: skip
OF_LEVELDB = {MEMORY: "large write buffer", CACHES: "large cache"}  # where most of its memory goes
JOURNAL = ", rollback journal"
VERSIONS = {"leveldb-2011": False, "leveldb-2011-wal": True}  # whether SQLite has its log


def terms(store: str, operation: str, settings: str) -> dict[str, Any]:
    """Return the factors of settings. The page fills at random, and reads it in random order and in
    key order."""
    part = settings.removesuffix(JOURNAL)
    label = (OF_LEVELDB if store == "leveldb" else {}).get(part, LABELS[part])
    if store == "sqlite":
        label = label.replace("no compression", "baseline")  # SQLite has no compression
        label += settings.removeprefix(part)
    filled = "fillseq" if operation == "fillseq" else "fillrandom"
    return {"label": label, "filled": filled}


def run(store: str, operation: str, part: str = BASE, log: bool = True) -> Side:
    """Return a store in a part of the page, with the settings of the page; SQLite with or without
    its log."""
    settings = part + ("" if log else JOURNAL)
    return side("leveldb-2011", store, operation, **terms(store, operation, settings))


Place = tuple[str, str, str]  # part, workload, store


def page(above: Place, below: Place, log: bool | None = None) -> str:
    """Return the ratio of two figures of LevelDB's page as text: that of the first version and that
    of the later one, or one if they agree. The versions differ in SQLite's journal, so a figure of
    SQLite is from the version whose SQLite has a log, or has none."""
    found = numbers("leveldb-2011")
    both = [
        found[version, *above] / found[version, *below]
        for version, has in VERSIONS.items()
        if log in (None, has)
    ]
    return " and ".join(dict.fromkeys(f"{x:,.0f}" if x >= 1000 else f"{x:.3g}" for x in both))


def _printed(row: Any, settings: str, versus_settings: str) -> str:
    """Return what the page prints for a ratio of times: the inverse ratio of operations per
    second."""
    own = (settings.removesuffix(JOURNAL), row.operation, row.store)
    against = (
        (versus_settings or settings).removesuffix(JOURNAL),
        row.versus_operation or row.operation,
        row.versus or row.store,
    )
    log = not settings.endswith(JOURNAL) if "sqlite" in (row.store, row.versus) else None
    return page(against, own, log)


def gain() -> float:
    """Return by how many percent a write-ahead log speeds up SQLite's writes, according to the
    first version."""
    rows = each(table("leveldb-2011-settings"))
    return next(float(row.value) for row in rows if row.setting.startswith("gain of writes"))


def factor(part: str, operation: str, store: str) -> str:
    """Return the factor over its baseline that the page prints beside a figure."""
    rows = each(table("leveldb-2011"))
    place = (part, operation, store)
    return next(
        str(row.times_baseline) for row in rows if (row.part, row.workload, row.store) == place
    )


def text(name: str, row: Any) -> str:
    texts = {
        "page": lambda: _printed(row, row.settings, row.versus_settings),
        "page_equal": lambda: _printed(row, row.equal, row.equal_versus),
        "gain": lambda: f"{gain():g}",
        "gained": lambda: f"{1 + gain() / 100:g}",
        "factor": lambda: factor(row.versus_settings, row.operation, row.store),
        "in_order": lambda: page((LARGE, "fillseq", "leveldb"), (LARGE, "fillseq", "kyoto-tree")),
    }
    return texts[name]()


def kills(one: Side) -> Figure:
    """Return the share of kills of the durability experiment that lost no write. Even if all kills
    agree, the share is uncertain by one of them."""

    def outcomes(data: pd.DataFrame) -> pd.Series:
        first = one.rows(data).iloc[0]
        lost = int(first.crashes - first.survived_kill)
        return pd.Series([0.0] * lost + [1.0] * int(first.survived_kill))

    name = f"share of kills that lost no write, {one.store}"
    return Figure(name, outcomes, (), lambda data: 1 / len(outcomes(data)))


SOURCE = Source(
    __file__,
    "leveldb-2011",
    terms,
    statistics={"kills": lambda case: kills(case.one)},
    text=text,
)
