"""The figures that the sources printed: the tables of data/published."""

import functools
from collections.abc import Mapping

import pandas as pd

from study.common.notebook import root

KEYS = {
    "leveldb-2011": ["source", "part", "workload", "store"],
    "lmdb-2014": ["section", "store", "quantity"],
    "rocksdb-2013": ["workload", "store", "quantity"],
}


def printed(name: str) -> pd.DataFrame:
    """Return a table of data/published with the columns of its file, which
    data/published/README.md explains. All are texts, because the rounding of 1.00 and of 1.0
    differs."""
    path = root() / "data" / "published" / f"{name}.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def table(name: str) -> pd.DataFrame:
    """Return the same table with its figures as numbers; a column in which one is missing has
    texts."""
    return pd.read_csv(root() / "data" / "published" / f"{name}.csv", keep_default_na=False)


@functools.cache
def numbers(name: str) -> Mapping[tuple[str, ...], float]:
    """Return the figures of a table, by the columns that name its rows."""
    rows = table(name)
    found = rows.assign(value=pd.to_numeric(rows.value, errors="coerce")).dropna(subset="value")
    names = found[KEYS[name]].astype(str).itertuples(index=False, name=None)
    return dict(zip(names, found.value, strict=True))
