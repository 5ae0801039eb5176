"""LMDB's In-Memory Microbenchmark, 2014: claims.

Durability is the same for all in the source, caches are as large as each engine likes. At the
source's settings: on a tmpfs. Equal: the same, on a disk.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator

from study.published import numbers
from study.verdicts import Claim, Figure, Limit, Side, ahead, levels, ratio, side, value


def symas(store: str, above: str, below: str = "") -> str:
    """A figure of LMDB's smaller test, or the ratio of two."""
    found = numbers("lmdb-2014")
    figure = found["2", store, above]
    return f"{figure / found['2', store, below]:.2f}" if below else f"{figure:.0f}"


ENGINES = (
    "leveldb", "basho", "bdb", "hyperleveldb", "lmdb", "rocksdb", "wiredtiger-lsm",
    "wiredtiger-btree",
)

LAST = len(ENGINES) - 1  # of the others

RUN, READ, WRITE = "readwhilewriting", "readwhilewriting read", "readwhilewriting write"
SMALL, LARGE = "smaller data set", "larger data set"
ASKED = 10_000  # writes a second, by our grid
SHORT = "the source's run lasts an hour: up to 1.5 overwrites a record, a fraction of one here"


def run(store: str, operation: str, place: str) -> Side:
    return side("lmdb-2014", store, operation, label=SMALL, place=place)


def places(
    store: str, operation: str, column: str, place: int, label: str = SMALL
) -> tuple[Figure, Figure]:
    """How far the store is ahead of the one that is at this place among the others."""
    tmpfs, disk = (
        ahead(levels("lmdb-2014", "store", ENGINES, f"{operation} on {where}", column, label=label,
                     operation=operation, place=where), store, place)
        for where in ("tmpfs", "disk")
    )
    return tmpfs, disk


def page(above: tuple[str, str], below: tuple[str, str]) -> str:
    """The ratio of two figures of the smaller test (store, quantity)."""
    found = numbers("lmdb-2014")
    return f"{found['2', *above] / found['2', *below]:.3g}"


def claims() -> Iterator[Claim]:
    source = "lmdb2014"
    lmdb, next_best = "lmdb", "wiredtiger-btree"
    for store, words, most in (
        ("lmdb", "LMDB reads most beside a writer", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree reads second most", 2),
    ):
        yield Claim(
            f"M-2-read-{store}", source, "2", words, *places(store, READ, "rate", most), Limit(">", 1),
            page((lmdb, "reads"), (next_best, "reads")) if store == lmdb else "",
        )
    yield Claim(
        "M-2-read-leveldb", source, "2", "LevelDB reads least", *places("leveldb", READ, "rate", LAST),
        Limit("<", 1),
    )
    for store, words, most, limit in (
        ("lmdb", "With the larger data set, too, LMDB reads most", 1, Limit(">", 1)),
        ("wiredtiger-btree", "and WiredTiger's B-tree second most", 2, Limit(">", 1)),
        ("leveldb", "and LevelDB least", LAST, Limit("<", 1)),
    ):
        yield Claim(f"M-3-read-{store}", source, "3", words, *places(store, READ, "rate", most, LARGE), limit)
    for store, words, most in (
        ("lmdb", "LMDB loads fastest", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree loads second fastest", 2),
    ):
        yield Claim(
            f"M-2-load-{store}", source, "2", words, *places(store, "fillseq", "ns", most), Limit(">", 1),
            page((next_best, "load wall"), (lmdb, "load wall")) if store == lmdb else "",
        )
    yield Claim(
        "M-2-load-bdb", source, "2", "Berkeley DB loads slowest of those measured here",
        *places("bdb", "fillseq", "ns", LAST), Limit("<", 1),
    )
    for store in ENGINES:
        tmpfs, disk = (value(run(store, WRITE, place), "rate", "writes a second") for place in ("tmpfs", "disk"))
        theirs = float(symas(store, "writes"))
        least = min(theirs, ASKED)
        yield Claim(
            f"M-2-write-{store}", source, "2",
            f"{store} writes {theirs:,.0f} a second beside four readers; here, where {ASKED:,} are asked, no less than 98 % of {least:,.0f}",
            tmpfs, disk, Limit(">=", 0.98 * least), f"{theirs:,.0f} a second",
        )
        grown = [
            ratio(run(store, RUN, place), run(store, "fillseq", place), "disk_bytes",
                  text=f"space after {run(store, RUN, place)} / after fillseq") for place in ("tmpfs", "disk")
        ]
        yield Claim(
            f"M-2-size-{store}", source, "2", f"{store}'s space does not change much in the run: by a tenth at most",
            grown[0], grown[1], Limit("within", 1, 1.1), symas(store, "final size", "load size"), SHORT,
        )
    nothing = "TokuDB is in no registry and was not measured: see its shim"
    yield Claim(
        "M-2-tokudb", source, "2", "TokuDB writes at the limit beside four readers", nothing, nothing,
        Limit(">=", 9800), symas("tokudb", "writes"),
    )
