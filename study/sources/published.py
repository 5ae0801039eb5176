"""What the sources printed: the tables of data/published."""

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
    """A table of texts, because 1.00 and 1.0 are rounded differently."""
    path = root() / "data" / "published" / f"{name}.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def table(name: str) -> pd.DataFrame:
    """A table as it is; figures are texts where one of them is missing."""
    return pd.read_csv(root() / "data" / "published" / f"{name}.csv", keep_default_na=False)


@functools.cache
def numbers(name: str) -> Mapping[tuple[str, ...], float]:
    """The figures of a table, by what names its rows."""
    rows = table(name)
    found = rows.assign(value=pd.to_numeric(rows.value, errors="coerce")).dropna(subset="value")
    names = found[KEYS[name]].astype(str).itertuples(index=False, name=None)
    return dict(zip(names, found.value, strict=True))
