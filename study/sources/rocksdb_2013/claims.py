"""RocksDB's benchmarks, 2013: claims.

The source's settings are what its commands did, according to the audit of its figures (RocksDB
without its log, with many compactions; values that hardly compress), and what its text states.
Equal settings: both stores with their log, Snappy, the same buffers and one compaction at a time.
"""

from typing import Any

import pandas as pd

from study.sources.published import numbers
from study.sources.table import Case, Source
from study.sources.verdicts import Figure, over

RANDOM, ORDER, OVERWRITE = "bulk load in random order", "bulk load in key order", "random overwrite"
AUDITED, STATED, EQUAL = "as audited", "as stated", "equal settings"
BUFFERED = "as audited, overwritten"  # LevelDB with the larger buffer of that command


def loads(workload: str, store: str) -> float:
    """Return the seconds that a workload of RocksDB's page took for its billion keys. A run that
    was stopped after a day is extrapolated from its rate."""
    found = numbers("rocksdb-2013")
    if (workload, store, "wall time") in found:
        return 60 * found[workload, store, "wall time"]
    return 86_400 * 1e9 / found[workload, store, "keys inserted in 24 h"]


def _two_passes(case: Case) -> Figure:
    """Return the time per record of RocksDB's load in random order and of the compaction that ends
    it."""
    first, second = (
        case.side("rocksdb", step, case.settings) for step in ("fillrandom", "compact")
    )

    def values(data: pd.DataFrame) -> pd.Series:
        load = first.rows(data)
        found: pd.Series = (load[case.column] + second.rows(data)[case.column]) / load["items"]
        return found

    return Figure(f"{first} and compact", values, (first, second))


def _one_pass(case: Case, store: str) -> Figure:
    load = case.side(store, "fillrandom", case.settings)

    def values(data: pd.DataFrame) -> pd.Series:
        rows = load.rows(data)
        found: pd.Series = rows[case.column] / rows["items"]
        return found

    return Figure(str(load), values, (load,))


def bulk(case: Case) -> Figure:
    """Return LevelDB's load in random order over RocksDB's, which has two passes, except at equal
    settings."""
    rocksdb = _one_pass(case, "rocksdb") if case.settings == EQUAL else _two_passes(case)
    return over(_one_pass(case, "leveldb"), rocksdb)


def text(name: str, row: Any) -> str:
    """Return a ratio of two printed figures."""
    size = {
        store: numbers("rocksdb-2013")[ORDER, store, "size"] for store in ("leveldb", "rocksdb")
    }
    return {
        "in_order": f"{loads(ORDER, 'leveldb') / loads(ORDER, 'rocksdb'):.1f}",
        "sizes": f"{size['leveldb'] / size['rocksdb']:.1f}",
        "overwrites": f"{loads(OVERWRITE, 'rocksdb') / loads(ORDER, 'rocksdb'):.0f}",
    }[name]


SOURCE = Source(__file__, "rocksdb-2013", statistics={"bulk": bulk}, text=text)
