"""What the benchmarks of today say (data/published/claims-2026.csv): claims on TidesDB and fjall.

Those on redb are judged beside its table, in reruns/redb_2026.py. At the source's settings TidesDB
has its own default, which keeps acknowledged writes in the process. Equal: what is written survives
the death of the process in every store. fjall's author does not state the durability of the
curves, so they have equal settings only.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator, Sequence

import pandas as pd

from study.common.fields import each
from study.sources import published
from study.sources.verdicts import Claim, Figure, Limit, Side, ratio, side

EXPERIMENT = "claims-2026"
EQUAL, PUBLISHED = "equal durability", "as published"
DOCUMENTS = {name: name.replace("-", "") for name in ("fjall-2026", "tidesdb-2026", "keybench-2026", "kvbench-2026")}
SCALE = "one thread and data that fit in memory"
TREES = ["lmdb", "redb", "sqlite"]
ALIKE = 1.25  # a factor within which two are equally fast

# By number: claims in words of our own, where those of claims-2026.csv lack a condition; and notes.
WORDS = {
    13: "With all data cached, and blocks of 16 KiB against redb's pages of 4 KiB, fjall finds a key more slowly than redb",
    25: "TidesDB amplifies writes less than RocksDB, in key order and at random",
    29: "TidesDB's write amplification is {} times lower than RocksDB's",
    37: "bbolt, the only B+tree of the table, scans faster than LSM-trees",
}
NOTES = {
    13: "fjall's blocks are as shipped here",
    25: "for zipfian writes the article has both amplify alike",
    26: "the peak of the whole cell, reads included",
    29: "of all bytes written the article itself states a smaller advantage",
    38: "the page's own words call badger the slowest of those that scan",
}

# Why others have no figure here, by number.
UNSYNCED = "without syncs the kernel writes most of it after the step; a longer run would tell"
ELSEWHERE = {
    **dict.fromkeys((18, 25, 29), UNSYNCED),
    24: "its ranges of 100 records begin at keys in order; ours is one scan of all records",
    27: "it loads slices of the keys on 8 or 16 threads without compression; we load at random, on one thread, as shipped",
    28: "its cells are mixes on 1 to 64 threads", 30: "no store here separates RocksDB's values",
    31: "no store here separates RocksDB's values", 32: "its cells are mixes on 1 to 64 threads",
    33: "its figure is the mean of the value log while a mix runs, which was not measured",
    **dict.fromkeys(range(34, 41), "compares stores written in Go, which this package does not have"),
}


def one(store: str, operation: str, label: str = EQUAL) -> Side:
    return side(EXPERIMENT, store, operation, label=label)


def factors(quantity: str) -> str:
    """The range of keybench's factors of a quantity, RocksDB's over TidesDB's."""
    rows = each(published.table("keybench-2026"))
    found = [float(row.value) for row in rows if (row.store, row.quantity) == ("rocksdb;tidesdb", quantity)]
    return f"{min(found):g} to {max(found):g}"


def extreme(figures: Sequence[Figure], how: str, text: str) -> Figure:
    """The least or the greatest of several figures in each trial."""
    def values(data: pd.DataFrame) -> pd.Series:
        table = pd.concat([figure.values(data) for figure in figures], axis=1).dropna()
        found: pd.Series = table.agg(how, axis=1)
        return found

    return Figure(text, values, tuple(side for figure in figures for side in figure.sides))


def figures(label: str) -> dict[int, Figure]:
    """Of each claim by number, with TidesDB as the label has it. Of two stores compared, above 1 the one
    that the source names is ahead."""
    def mine(store: str, operation: str) -> Side:
        return one(store, operation, label if store == "tidesdb" else EQUAL)

    def beats(store: str, others: Sequence[str], operation: str, column: str = "ns", what: str = "time") -> Figure:
        """How many times a store's time or bytes its nearest rival takes."""
        found = [ratio(mine(other, operation), mine(store, operation), column, what) for other in others]
        text = f"{what}, {operation}: the best of {', '.join(others)} / {store}"
        return extreme(found, "min", text) if others[1:] else found[0]

    steps = "fillseq", "fillrandom", "readseq", "readrandom", "insertrandom", "deleterandom"
    slower = [ratio(one("fjall", step), one("rocksdb", step)) for step in steps]
    peaks = [ratio(mine("tidesdb", step), one("rocksdb", step), "peak_bytes", "memory") for step in steps[:2]]
    return {
        11: beats("fjall", TREES, "insertrandom"),
        12: beats("fjall", TREES, "fillrandom", "disk_bytes", "space"),
        13: beats("redb", ["fjall"], "readrandom"),
        14: extreme(slower, "max", "time, the worst step: fjall / rocksdb"),
        15: beats("tidesdb", ["rocksdb", "lmdb"], "fillseq"),
        16: beats("tidesdb", ["rocksdb", "lmdb"], "fillrandom"),
        17: beats("lmdb", ["rocksdb", "tidesdb"], "readrandom"),
        19: beats("tidesdb", ["rocksdb"], "fillseq"),
        20: beats("tidesdb", ["rocksdb"], "fillrandom"),
        21: beats("tidesdb", ["rocksdb"], "insertrandom"),
        22: beats("rocksdb", ["tidesdb"], "readrandom"),
        23: beats("tidesdb", ["rocksdb"], "deleterandom"),
        26: extreme(peaks, "min", "peak resident memory, the lesser of fillseq and fillrandom: tidesdb / rocksdb"),
    }


LIMITS = {
    14: Limit("<", 10, theirs=True), 21: Limit("within", 1, ALIKE), 23: Limit("within", 1, ALIKE),
}


def claims() -> Iterator[Claim]:
    table = published.table("claims-2026")
    source, equal = figures(PUBLISHED), figures(EQUAL)
    ranges = {27: factors("seed time"), 29: factors("write amplification")}
    for row in each(table[table.source.isin(DOCUMENTS)]):
        number = int(row.claim_number)
        printed = ranges.get(number, f"less than {row.value}" if number == 14 else str(row.value))
        notes = "" if number in ELSEWHERE else SCALE, NOTES.get(number, "")
        yield Claim(
            f"T-{number}", DOCUMENTS[row.source], row.section or "text", WORDS.get(number, row.claim).format(printed),
            ELSEWHERE.get(number) or source[number], None if row.source == "fjall-2026" else equal.get(number),
            LIMITS.get(number, Limit(">", 1)), printed, "; ".join(filter(None, notes)),
        )
