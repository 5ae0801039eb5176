"""The audit of published benchmarks: contradictions between their figures, text and code.

The audit.py of each source recomputes its findings from data/published: CHECKS by arithmetic, WORDS
by reading. findings.csv there describes each in a sentence.
"""

import pandas as pd

from study.common import formats
from study.common.fields import each
from study.sources import published
from study.sources.files_or_store import audit as files_or_store
from study.sources.findings import Found
from study.sources.leveldb_2011 import audit as leveldb_2011
from study.sources.lmdb_2014 import audit as lmdb_2014
from study.sources.rocksdb_2013 import audit as rocksdb_2013
from study.sources.today import audit as today

CHECKS = (
    *leveldb_2011.CHECKS,
    *rocksdb_2013.CHECKS,
    *lmdb_2014.CHECKS,
    *files_or_store.CHECKS,
    *today.CHECKS,
)
WORDS = (*files_or_store.WORDS, *today.WORDS)

# The findings that the paper's main text shows: source, section, check and item.
SHOWN = (
    ("leveldb-2011", "2.C", "turns of the disk", "fillseq leveldb"),
    ("rocksdb-2013", "2", "compressed level", "rocksdb"),
    ("rocksdb-2013", "3", "unequal setting", "disable_wal"),
    ("lmdb-2014", "2", "size kept", "leveldb"),
    ("hines-2023", "5.2", "wording", "leveldb;rocksdb"),
    ("fjall-2026", "1", "unequal durability", "redb"),
    ("keybench-2026", "large server", "unequal durability", "tidesdb"),
    ("kvbench-2026", "methodology", "wording", "load"),
)


def everything() -> list[Found]:
    """Return all findings, recomputed."""
    return [found for check in CHECKS for found in check()] + list(WORDS)


def sentences() -> dict[Found, str]:
    """Return, for each finding that findings.csv lists, its description."""
    rows = each(published.printed("findings"))
    return {Found(*(getattr(row, name) for name in Found._fields)): row.finding for row in rows}


def shown() -> pd.DataFrame:
    """Return the findings SHOWN, with what the source states and what its own figures or code show,
    as text. Raises KeyError if one is not found, or differs from findings.csv."""
    found, said = {one[:4]: one for one in everything()}, sentences()

    def with_unit(figure: str, unit: str) -> str:
        return formats.apart(figure if unit in ("", "1") else f"{figure} {unit}")

    return pd.DataFrame(
        {
            "source": f"{one.source.removesuffix('-wal')}, {one.section}",
            "finding": said[one],
            "stated": with_unit(one.published, one.unit),
            "shown": with_unit(one.recomputed, one.unit),
        }
        for one in (found[place] for place in SHOWN)
    )
