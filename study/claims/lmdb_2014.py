"""LMDB's In-Memory Microbenchmark, 2014: claims.

Durability is the same for all in the source, caches are as large as each engine likes. At the
source's settings: on a tmpfs. Equal: the same, on a disk.
"""

# fmt: off - a claim is a few lines, not one for each of its parts

from collections.abc import Iterator
from typing import Any

from study.published import numbers
from study.verdicts import Claim, Figure, Limit, Side, among, growth, rank, side, value


def symas(store: str, above: str, below: str = "") -> str:
    """A figure of LMDB's smaller test, or the ratio of two."""
    found = numbers("lmdb-2014")
    figure = found["2", store, above]
    return f"{figure / found['2', store, below]:.2f}" if below else f"{figure:.0f}"


ENGINES = (
    "leveldb",
    "basho",
    "bdb",
    "hyperleveldb",
    "lmdb",
    "rocksdb",
    "wiredtiger-lsm",
    "wiredtiger-btree",
)


def run(store: str, operation: str, place: str, count: int = 0) -> Side:
    where: dict[str, Any] = {"options": "threads=on"} if store == "bdb" else {}
    step = "readwhilewriting" if operation != "fillseq" else ""
    return side(
        "lmdb-2014",
        store,
        f"{step} {operation}".strip(),
        durability="process",
        place=place,
        rank=count,
        record_size="100 B",
        workload=None,
        **where,
    )


def places(store: str, operation: str, column: str) -> tuple[Figure, Figure]:
    step = operation if operation == "fillseq" else f"readwhilewriting {operation}"
    found = []
    for place in ("tmpfs", "disk"):
        # One count: the one that was measured in all trials.
        everyone = among(
            "lmdb-2014", ENGINES, f"{step} on {place}", column, operation=step, place=place
        )
        found.append(rank(everyone, store))
    return found[0], found[1]


def claims() -> Iterator[Claim]:
    source = "lmdb2014"
    for store, words, most in (
        ("lmdb", "LMDB reads most beside a writer", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree reads second most", 2),
        (
            "wiredtiger-lsm",
            "WiredTiger's LSM is among the three that read most: strong in reading",
            3,
        ),
    ):
        yield Claim(
            f"M-2-read-{store}",
            source,
            "2",
            words,
            *places(store, "read", "rate"),
            Limit("<=", most),
        )
    yield Claim(
        "M-2-read-leveldb",
        source,
        "2",
        "LevelDB reads least",
        *places("leveldb", "read", "rate"),
        Limit(">=", len(ENGINES)),
    )
    for store, words, most in (
        ("lmdb", "LMDB loads fastest", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree loads second fastest", 2),
    ):
        yield Claim(
            f"M-2-load-{store}",
            source,
            "2",
            words,
            *places(store, "fillseq", "ns"),
            Limit("<=", most),
        )
    yield Claim(
        "M-2-load-bdb",
        source,
        "2",
        "Berkeley DB loads slowest of those measured here",
        *places("bdb", "fillseq", "ns"),
        Limit(">=", len(ENGINES)),
    )
    for store in ENGINES:
        tmpfs, disk = (
            value(run(store, "write", place), "rate", "writes a second")
            for place in ("tmpfs", "disk")
        )
        yield Claim(
            f"M-2-write-{store}",
            source,
            "2",
            f"{store} writes at the limit of 10,000 a second beside four readers",
            tmpfs,
            disk,
            Limit(">=", 9800),
            symas(store, "writes"),
        )
        grown = [
            growth(run(store, "", place), run(store, "fillseq", place))
            for place in ("tmpfs", "disk")
        ]
        yield Claim(
            f"M-2-size-{store}",
            source,
            "2",
            f"The size of {store} changes by no more than a tenth during the run",
            grown[0],
            grown[1],
            Limit("<=", 1.1),
            symas(store, "final size", "load size"),
        )
    nothing = "TokuDB is in no registry and was not measured: see its shim"
    yield Claim(
        "M-2-tokudb",
        source,
        "2",
        "TokuDB writes at the limit beside four readers",
        nothing,
        nothing,
        Limit(">=", 9800),
        symas("tokudb", "writes"),
    )
