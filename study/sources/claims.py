"""Every claim of the sources that data can decide, in our own words: one row in claims.csv in the
source's folder.

Each claim is tested at the source's settings and at equal settings. The source's claims.py says
what equal means, and has the statistics that only this source needs.
"""

from study.sources.files_or_store import claims as files_or_store
from study.sources.leveldb_2011 import claims as leveldb_2011
from study.sources.lmdb_2014 import claims as lmdb_2014
from study.sources.rocksdb_2013 import claims as rocksdb_2013
from study.sources.sqlite_35 import claims as sqlite_35
from study.sources.today import claims as today
from study.sources.verdicts import Claim

# What each source is known for: the claims that the paper's main text shows.
HEADLINES = (
    "L-1.D-sqlite", "L-2.A-fillrandom-sqlite", "L-2.B-order-sqlite", "L-2.C-fillrandom-sqlite",
    "R-2-faster", "R-3-faster", "R-3-threads", "R-2-amplification",
    "M-2-read-lmdb", "M-2-load-lmdb",
    "F-5.1-tiny", "F-5.1-large", "F-5.3-worst", "F-5.6-best", "F-5.8-slower",
    "S-reads", "S-writes",
    "T-11", "T-17", "T-19", "T-21",
)  # fmt: skip
NAMES = {
    "leveldb2011": "LevelDB", "rocksdb2013": "RocksDB", "lmdb2014": "LMDB", "hines2023": "Hines",
    "sqlite35": "SQLite", "fjall2026": "fjall", "tidesdb2026": "TidesDB",
}  # fmt: skip
MODULES = (leveldb_2011, rocksdb_2013, lmdb_2014, files_or_store, sqlite_35, today)
SOURCES = tuple(module.SOURCE for module in MODULES)
EXPERIMENTS = tuple(source.experiment for source in SOURCES)


def everything() -> list[Claim]:
    return [claim for source in SOURCES for claim in source.claims()]
