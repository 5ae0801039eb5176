"""Every claim of the sources that data can decide, in our own words: a module for each source.

Each claim is tested at the source's settings and at equal ones; each module says what equal is.
"""

from study.claims import files_or_store, leveldb_2011, lmdb_2014, rocksdb_2013, sqlite_35, today
from study.verdicts import Claim

SOURCES = (leveldb_2011, rocksdb_2013, lmdb_2014, files_or_store, sqlite_35, today)


def everything() -> list[Claim]:
    return [claim for source in SOURCES for claim in source.claims()]
