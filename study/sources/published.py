"""What the sources printed: the tables of data/published."""

import functools
from collections.abc import Mapping

import pandas as pd

from study.common import formats
from study.common.notebook import root

KEYS = {
    "leveldb-2011": ["source", "part", "workload", "store"],
    "lmdb-2014": ["section", "store", "quantity"],
    "rocksdb-2013": ["workload", "store", "quantity"],
}


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


# The findings of the audit that the paper itself shows: source, section, check and item.
AUDIT = (
    ("leveldb-2011", "2.C", "turns of the disk", "fillseq leveldb"),
    ("leveldb-2011-wal", "2.C", "times baseline", "fillseq leveldb"),
    ("rocksdb-2013", "2", "compressed level", "rocksdb"),
    ("rocksdb-2013", "2", "compression ratio", "rocksdb"),
    ("rocksdb-2013", "3", "size", "rocksdb"),
    ("rocksdb-2013", "3", "unequal setting", "disable_wal"),
    ("lmdb-2014", "2", "size kept", "leveldb"),
    ("hines-2023", "5.2", "wording", "leveldb;rocksdb"),
    ("fjall-2026", "1", "unequal durability", "redb"),
    ("keybench-2026", "large server", "unequal durability", "tidesdb"),
    ("kvbench-2026", "methodology", "wording", "load"),
)


def audit() -> pd.DataFrame:
    """The findings AUDIT, with what the source states and what its own figures or code show."""
    rows = table("findings").set_index(["source", "section", "check", "item"])
    own = rows.loc[list(AUDIT)].reset_index()
    unit = own.unit.map(lambda name: f" {name}" if name not in ("", "1") else "")
    return pd.DataFrame(
        {
            "source": own.source.str.removesuffix("-wal") + ", " + own.section,
            "finding": own.finding,
            "stated": (own.published + unit).map(formats.apart),
            "shown": (own.recomputed + unit).map(formats.apart),
        }
    )
