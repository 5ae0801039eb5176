"""Every claim of the sources that can be put to data, in our own words.

At the source's settings and at equal ones. What "equal" is, each source says below.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from kvbench import analysis
from kvbench.verdicts import (
    Claim,
    Fields,
    Figure,
    Limit,
    Side,
    among,
    growth,
    levels,
    middle,
    over,
    quotient,
    rank,
    ratio,
    share,
    side,
    spread,
    tail,
    value,
)


@functools.cache
def _published(name: str) -> Mapping[tuple[str, ...], float]:
    """A table of data/published by what names its rows."""
    keys = {
        "leveldb-2011": ["source", "part", "workload", "store"],
        "lmdb-2014": ["section", "store", "quantity"],
        "rocksdb-2013": ["workload", "store", "quantity"],
    }[name]
    rows = analysis.published(name)
    numbers = rows.assign(value=pd.to_numeric(rows.value, errors="coerce")).dropna(subset="value")
    names = numbers[keys].astype(str).itertuples(index=False, name=None)
    return dict(zip(names, numbers.value, strict=True))


def page(above: tuple[str, str, str], below: tuple[str, str, str]) -> str:
    """The ratio of two figures of LevelDB's page (part, workload, store): one, or that of the first
    version and that of the later one."""
    found = _published("leveldb-2011")
    both = [found[source, *above] / found[source, *below] for source in ("leveldb-2011", "leveldb-2011-wal")]
    return " and ".join(dict.fromkeys(f"{x:,.0f}" if x >= 1000 else f"{x:.3g}" for x in both))


def symas(store: str, above: str, below: str = "") -> str:
    """A figure of LMDB's smaller test, or the ratio of two."""
    found = _published("lmdb-2014")
    figure = found["2", store, above]
    return f"{figure / found['2', store, below]:.2f}" if below else f"{figure:.0f}"


def loads(workload: str, store: str) -> float:
    """Seconds that a workload of RocksDB's page took for its billion keys; what was stopped after a
    day, at its rate."""
    found = _published("rocksdb-2013")
    if (workload, store, "wall time") in found:
        return 60 * found[workload, store, "wall time"]
    return 86_400 * 1e9 / found[workload, store, "keys inserted in 24 h"]


def options(**given: Any) -> str:
    """As a cell has them."""
    return ", ".join(f"{name}={given[name]}" for name in sorted(given))


# LevelDB Benchmarks, 2011. The page has every store asynchronous, in 4 MB. Equal: LevelDB without
# compression, as SQLite has none; TreeDB has no level of durability in common with the two.

BASE = "Baseline"
IN_ORDER = "fillseq, readseq, readrandom"
AT_RANDOM = "fillrandom, readrandom, readseq, readreverse"
WAL, NO_WAL = (
    options(journal_mode=journal, locking_mode="exclusive", page_size=1024)
    for journal in ("wal", "delete")
)
TREEDB = options(page_size=1024, small="on", linear="on")
NO_EQUAL = "no level of durability in common with TreeDB"
COMPRESSED = "measured with LevelDB's compression only"


def bench(store: str, operation: str, workload: str = "", **changed: Any) -> Side:
    """A store of the page as it set it; SQLite with its write-ahead log."""
    own: dict[str, dict[str, Any]] = {
        "leveldb": {"durability": "process"},
        "sqlite": {"durability": "process", "options": WAL},
        "kyoto-tree": {"compression": "lzo", "options": TREEDB},
    }
    usual = {"fillseq": IN_ORDER}.get(operation, AT_RANDOM)
    where = {
        "memory": "4 MiB", "record_size": "100 B", "workload": workload or usual, **own[store]
    }
    return side("leveldb-2011", store, operation, **where | changed)


BASELINE = (
    ("1.C", "fillseq", "writes in key order"),
    ("1.D", "fillrandom", "writes in random order"),
    ("1.A", "readseq", "reads in key order"),
)
NO_COMPRESSION = {"compression": "none"}
MORE_TO_WRITE = {"memory": "128 MiB", "options": options(write_buffer=120 << 20, block_cache=8 << 20)}
MORE_TO_READ = {"memory": "128 MiB", "options": options(write_buffer=8 << 20, block_cache=120 << 20)}
LARGE = {"record_size": "100000 B"}


def leveldb_2011() -> Iterator[Claim]:
    source = "leveldb2011"
    for section, operation, words in BASELINE:
        one = bench("leveldb", operation)
        plain = bench("leveldb", operation, **NO_COMPRESSION)
        yield Claim(
            f"L-{section}-sqlite", source, section, f"LevelDB is faster than SQLite in {words}",
            ratio(bench("sqlite", operation), one), ratio(bench("sqlite", operation), plain),
            Limit(">", 1), page((BASE, operation, "leveldb"), (BASE, operation, "sqlite")),
        )
        yield Claim(
            f"L-{section}-treedb", source, section, f"LevelDB is faster than TreeDB in {words}",
            ratio(bench("kyoto-tree", operation), one), NO_EQUAL, Limit(">", 1),
            page((BASE, operation, "leveldb"), (BASE, operation, "kyoto-tree")),
        )
    for store in ("leveldb", "sqlite"):
        yield Claim(
            f"L-1.B-{store}", source, "1.B", f"TreeDB reads faster in random order than {store}",
            ratio(bench(store, "readrandom"), bench("kyoto-tree", "readrandom")), NO_EQUAL,
            Limit(">", 1), page((BASE, "readrandom", "kyoto-tree"), (BASE, "readrandom", store)),
        )
    yield Claim(
        "L-1-async", source, "1",
        "Every write of each store is given to the operating system: of TreeDB too",
        value(bench("kyoto-tree", "fillrandom"), "survived", "share of kills that lost no write"),
        None, Limit(">=", 1), "",
        "what the operating system has, a killed process can't lose: data/durability/evidence.csv",
    )
    yield Claim(
        "L-1-two-cpus", source, "1", "LevelDB uses two processors at most",
        value(bench("leveldb", "fillrandom"), "cpu", "processors busy"),
        value(bench("leveldb", "fillrandom", **NO_COMPRESSION), "cpu", "processors busy"),
        Limit("<=", 2),
        note="this machine has no more than two",
    )
    yield from _large(source)
    yield from _batches(source)
    yield from _synchronous(source)
    yield from _compression(source)
    yield from _memory(source)
    for operation in ("fillseq", "fillrandom"):
        without = bench("sqlite", operation, options=NO_WAL)
        yield Claim(
            f"L-wal-{operation}", source, "build", "A write-ahead log speeds up SQLite's writes by "
            f"roughly 30 %: {operation}", ratio(without, bench("sqlite", operation), name="time without / with the log"),
            None, Limit("within", 1.3, 1.15), "1.3",
        )


def _large(source: str) -> Iterator[Claim]:
    part = "Large values"
    for operation, others in (("fillseq", ("sqlite",)), ("fillrandom", ("sqlite", "kyoto-tree"))):
        one = bench("leveldb", operation, operation, **LARGE)
        for store in others:
            yield Claim(
                f"L-2.A-{operation}-{store}", source, "2.A",
                f"With values of 100,000 B LevelDB writes slower than {store}: {operation}",
                ratio(one, bench(store, operation, operation, **LARGE)),
                NO_EQUAL if store == "kyoto-tree" else COMPRESSED, Limit(">", 1),
                page((part, operation, store), (part, operation, "leveldb")),
            )
    yield Claim(
        "L-2.A-twice", source, "2.A",
        "Because it writes each value at least twice, to its log and to a table",
        quotient(bench("leveldb", "fillrandom", "fillrandom", **LARGE), "wchar", "user_bytes",
                 "bytes written a byte"),
        None, Limit(">=", 2),
        note="compressible values are smaller in the table than in the log",
    )


def _batches(source: str) -> Iterator[Claim]:
    def batch(store: str, operation: str, **changed: Any) -> Side:
        return bench(store, operation, f"{operation} batch=1000", **changed)

    part = "Batches"
    for operation, store in itertools.product(("fillseq", "fillrandom"), ("leveldb", "sqlite")):
        yield Claim(
            f"L-2.B-{operation}-{store}", source, "2.B",
            f"A thousand writes in a batch are faster than one by one: {operation} of {store}",
            ratio(bench(store, operation), batch(store, operation), name="time one by one / in batches"),
            None, Limit(">", 1), page((part, operation, store), (BASE, operation, store)),
        )
    yield Claim(
        "L-2.B-order", source, "2.B",
        "LevelDB's batches in random order take no more than four times those in key order",
        ratio(batch("leveldb", "fillrandom"), batch("leveldb", "fillseq")), None,
        Limit("<=", 4), page((part, "fillseq", "leveldb"), (part, "fillrandom", "leveldb")),
    )
    yield Claim(
        "L-2.B-order-sqlite", source, "2.B (first version)",
        "SQLite's batches, without a write-ahead log, are a hundred times as slow in random order",
        ratio(batch("sqlite", "fillrandom", options=NO_WAL), batch("sqlite", "fillseq", options=NO_WAL)),
        None, Limit("within", 100, 2), page((part, "fillseq", "sqlite"), (part, "fillrandom", "sqlite")),
    )


def _synchronous(source: str) -> Iterator[Claim]:
    def synced(store: str, operation: str, wal: bool = True) -> Side:
        if store == "kyoto-tree":
            own = options(page_size=1024, small="on", linear="on", autosync="on")
            return bench(store, operation, operation, options=own)
        if not wal:  # as shipped, with synchronous=FULL
            return bench(store, operation, operation, durability="default", options=NO_WAL)
        return bench(store, operation, operation, durability="sync")

    part = "Synchronous writes"
    for operation in ("fillseq", "fillrandom"):
        yield Claim(
            f"L-2.C-{operation}-sqlite", source, "2.C",
            f"LevelDB's synchronous writes are faster than SQLite's: {operation}",
            ratio(synced("sqlite", operation, wal=False), synced("leveldb", operation)),
            ratio(synced("sqlite", operation), synced("leveldb", operation)),
            Limit(">", 1), page((part, operation, "leveldb"), (part, operation, "sqlite")),
        )
        yield Claim(
            f"L-2.C-{operation}-treedb", source, "2.C",
            f"and more than ten times as fast as TreeDB's: {operation}",
            ratio(synced("kyoto-tree", operation), synced("leveldb", operation)), NO_EQUAL,
            Limit(">", 10), page((part, operation, "leveldb"), (part, operation, "kyoto-tree")),
            "the disk of this machine syncs in a fraction of a turn of the page's",
        )
        yield Claim(
            f"L-2.C-{operation}-cost", source, "2.C",
            f"A sync slows LevelDB's writes more than a hundredfold: {operation}",
            ratio(synced("leveldb", operation), bench("leveldb", operation), name="time synchronous / not"),
            None, Limit(">", 100), page((BASE, operation, "leveldb"), (part, operation, "leveldb")),
        )
    nothing = "no disk here has ext3, turns, or a write cache that can be switched off"
    yield Claim(
        "L-ext4", source, "ext4", "On ext4 synchronous writes drop to a fraction of those on ext3",
        nothing, nothing, Limit("<", 1), "about 31 or 34, 5 and 24 a second",
    )


def _compression(source: str) -> Iterator[Claim]:
    cases = itertools.product(("leveldb", "kyoto-tree"), ("fillseq", "fillrandom", "readseq", "readrandom"))
    for store, operation in cases:
        writes = operation.startswith("fill")
        part = "Compression off" if writes else "Compression off (reads)"
        sign = "<" if writes and store == "leveldb" else ">"
        without = bench(store, operation, **NO_COMPRESSION)
        faster = "slower" if sign == "<" else "faster"
        yield Claim(
            f"L-{'2.D' if writes else '3.B'}-{store}-{operation}", source, "2.D" if writes else "3.B",
            f"Without compression {store} is {faster}: {operation}",
            ratio(bench(store, operation), without, name="time with / without compression"),
            None, Limit(sign, 1), page((part, operation, store), (BASE, operation, store)),
        )
    yield Claim(
        "L-2.D-lzo", source, "2.D",
        "TreeDB loses more to compression than LevelDB, its LZO costing more than Snappy",
        over(
            ratio(bench("kyoto-tree", "fillrandom"), bench("kyoto-tree", "fillrandom", **NO_COMPRESSION)),
            ratio(bench("leveldb", "fillrandom"), bench("leveldb", "fillrandom", **NO_COMPRESSION)),
        ),
        NO_EQUAL, Limit(">", 1),
    )


def _memory(source: str) -> Iterator[Claim]:
    faster = "time with 4 MiB / with 128 MiB"
    part = "More memory (writes)"
    for operation in ("fillseq", "fillrandom"):
        yield Claim(
            f"L-2.E-sqlite-{operation}", source, "2.E",
            f"More memory changes SQLite's writes by no more than a tenth: {operation}",
            ratio(bench("sqlite", operation), bench("sqlite", operation, memory="128 MiB"), name=faster),
            None, Limit("within", 1, 1.1), page((part, operation, "sqlite"), (BASE, operation, "sqlite")),
        )
    buffered = bench("leveldb", "fillrandom", "fillrandom", **MORE_TO_WRITE)
    yield Claim(
        "L-2.E-leveldb", source, "2.E", "A larger write buffer makes LevelDB's random writes faster",
        ratio(bench("leveldb", "fillrandom"), buffered, name=faster), None, Limit(">", 1.1),
        page((part, "fillrandom", "leveldb"), (BASE, "fillrandom", "leveldb")),
    )
    yield Claim(
        "L-2.E-merges", source, "2.E", "because fewer sorted files have to be merged",
        ratio(bench("leveldb", "fillrandom"), buffered, "wchar", "bytes written, 4 MiB / 128 MiB"),
        None, Limit(">", 1.1),
    )
    yield Claim(
        "L-2.E-treedb", source, "2.E", "More memory makes TreeDB's random writes faster",
        ratio(bench("kyoto-tree", "fillrandom"), bench("kyoto-tree", "fillrandom", memory="128 MiB"), name=faster),
        None, Limit(">", 1.1), page((part, "fillrandom", "kyoto-tree"), (BASE, "fillrandom", "kyoto-tree")),
    )
    large = {"leveldb": MORE_TO_READ, "sqlite": {"memory": "128 MiB"}, "kyoto-tree": {"memory": "128 MiB"}}
    part = "Larger caches"
    for operation in ("readseq", "readrandom"):
        for store, changed in large.items():
            yield Claim(
                f"L-3.A-{operation}-{store}", source, "3.A",
                f"A larger cache makes reads faster: {operation} of {store}",
                ratio(bench(store, operation), bench(store, operation, **changed), name=faster),
                None, Limit(">", 1.03), page((part, operation, store), (BASE, operation, store)),
            )
    yield Claim(
        "L-3.A-treedb-most", source, "3.A",
        "TreeDB gains most from a cache that holds everything: more than twice",
        ratio(bench("kyoto-tree", "readrandom"), bench("kyoto-tree", "readrandom", memory="128 MiB"), name=faster),
        None, Limit(">", 2), page((part, "readrandom", "kyoto-tree"), (BASE, "readrandom", "kyoto-tree")),
    )


# RocksDB's benchmarks, 2013. As the commands have it: RocksDB without its log, with zlib and many
# compactions. Equal: both with their log, Snappy and the same buffers, one compaction at a time.

SMALL_BUFFERS = {
    "write_buffer": 2 << 20, "target_file_size": 1 << 20, "level_base": 10 << 20,
    "block_cache": 1 << 20, "bloom_bits": 10,
}
TWICE = "fillseq, overwrite"
RANDOM, ORDER = "bulk load in random order", "bulk load in key order"


def rocks(operation: str, workload: str, jobs: int = 1, place: int = -1, **changed: Any) -> Side:
    own = dict(SMALL_BUFFERS, background_jobs=jobs)
    own |= {name: changed.pop(name) for name in ("block_size", "block_cache") if name in changed}
    where: dict[str, Any] = {"durability": "process", "compression": "snappy", "options": options(**own)}
    where |= {"record_size": "800 B", "key_size": 10, "workload": workload, "rank": place}
    return side("rocksdb-2013", "rocksdb", operation, **where | changed)


def as_commanded(operation: str, workload: str, place: int = -1) -> Side:
    return rocks(
        operation, workload, 20, place, block_size=64 << 10, durability="none", compression="zlib"
    )


def level(operation: str, workload: str, place: int = -1, buffer: int = 2, **changed: Any) -> Side:
    own = options(write_buffer=buffer << 20, block_cache=1 << 20, bloom_bits=10)
    where = {"durability": "process", "options": own, "record_size": "800 B", "key_size": 10}
    return side(
        "rocksdb-2013", "leveldb", operation, **where | {"workload": workload, "rank": place} | changed
    )



def bulk(operation: str, place: int = -1) -> Side:
    own = options(
        bulk_load="on", write_buffer=4 << 20, block_cache=1 << 20, bloom_bits=10,
        block_size=64 << 10, background_jobs=20,
    )
    return side(
        "rocksdb-2013", "rocksdb", operation, durability="none", compression="zlib", options=own,
        record_size="800 B", key_size=10, workload="fillrandom, compact", rank=place,
    )


def rocksdb_2013() -> Iterator[Claim]:
    source = "rocksdb2013"
    snappy: dict[str, Any] = {"compression": "snappy"}
    sizes = (("smallest", 0), ("middle", 1), ("largest", -1))
    for words, place in sizes:
        yield Claim(
            f"R-2-faster-{words}", source, "2",
            f"RocksDB's first pass of a bulk load in random order is much faster than LevelDB's load: {words} count",
            ratio(level("fillrandom", "fillrandom", place, 4), bulk("fillrandom", place)),
            ratio(level("fillrandom", "fillrandom", place, **snappy), rocks("fillrandom", "fillrandom", place=place)),
            Limit(">", 2), f"{loads(RANDOM, 'leveldb') / loads(RANDOM, 'rocksdb'):,.0f}",
            "the page's 24 hours for 2 million keys are nowhere near what LevelDB does here",
        )
        yield Claim(
            f"R-3-faster-{words}", source, "3",
            f"RocksDB loads much faster in key order than LevelDB: {words} count",
            ratio(level("fillseq", TWICE, place), as_commanded("fillseq", TWICE, place)),
            ratio(level("fillseq", TWICE, place, **snappy), rocks("fillseq", TWICE, place=place)),
            Limit(">", 1.5), f"{loads(ORDER, 'leveldb') / loads(ORDER, 'rocksdb'):.1f}",
        )
    yield Claim(
        "R-2-amplification", source, "2", "LevelDB is slow there because it writes each byte many times",
        quotient(level("fillrandom", "fillrandom", -1, 4), "wchar", "user_bytes", "bytes written a byte"),
        quotient(level("fillrandom", "fillrandom", **snappy), "wchar", "user_bytes", "bytes written a byte"),
        Limit(">", 5),
    )
    yield Claim(
        "R-2-amplification-less", source, "2", "and RocksDB writes fewer in its bulk load",
        ratio(level("fillrandom", "fillrandom", -1, 4), bulk("fillrandom"), "wchar", "bytes written"),
        ratio(level("fillrandom", "fillrandom", **snappy), rocks("fillrandom", "fillrandom"), "wchar", "bytes written"),
        Limit(">", 1),
    )
    yield Claim(
        "R-3-threads", source, "3", "because many compactions run at a time: one against twenty, in key order",
        ratio(rocks("fillseq", TWICE, place=1), rocks("fillseq", TWICE, 20, 0), name="time, 1 / 20 compactions"),
        ratio(rocks("fillseq", TWICE, place=1), rocks("fillseq", TWICE, 20, 0), name="time, 1 / 20 compactions"),
        Limit(">", 1.5), note="in key order no file overlaps another, and none has to be merged",
    )
    for what, changed in (
        ("its log being off", {"durability": "none"}),
        ("zlib", {"compression": "zlib"}),
        ("a cache of 1 GB instead of 1 MB", {"block_cache": 1 << 30}),
    ):
        one = rocks("fillseq", TWICE, place=1)
        other = rocks("fillseq", TWICE, place=0, **changed)
        yield Claim(
            f"R-3-{what.split()[-1]}", "this paper", "rocksdb2013, 3",
            f"The difference in key order comes from {what} as well: more than a fifth",
            ratio(one, other, name="time as equal / with that alone"), None, Limit(">", 1.2),
        )
    yield Claim(
        "R-3-size", source, "3", "Both take the same space after a load in key order",
        ratio(level("fillseq", TWICE), as_commanded("fillseq", TWICE), "disk_bytes", "space"),
        ratio(level("fillseq", TWICE, **snappy), rocks("fillseq", TWICE), "disk_bytes", "space"),
        Limit("within", 1, 1.1), "1.0",
    )
    yield Claim(
        "R-4-tail", source, "4",
        "Of RocksDB's random overwrites 99.99 % take less than 12 ms",
        tail(as_commanded("overwrite", TWICE), 0.9999), tail(rocks("overwrite", TWICE), 0.9999),
        Limit("<", 12e6), "11.6 ms",
    )
    yield Claim(
        "R-4-slower", source, "4",
        "An overwrite at random takes more than ten times as long as a write in key order",
        ratio(as_commanded("overwrite", TWICE), as_commanded("fillseq", TWICE)),
        ratio(rocks("overwrite", TWICE), rocks("fillseq", TWICE)), Limit(">", 10), f"{loads('random overwrite', 'rocksdb') / loads(ORDER, 'rocksdb'):.0f}",
    )
    yield Claim(
        "R-4-leveldb", "this paper", "rocksdb2013, 4 (blank there)",
        "RocksDB overwrites at random faster than LevelDB",
        ratio(level("overwrite", TWICE), as_commanded("overwrite", TWICE)),
        ratio(level("overwrite", TWICE, **snappy), rocks("overwrite", TWICE)), Limit(">", 1),
    )


# In-Memory Microbenchmark, 2014. Durability is the same for all in the source, caches are as large as
# each engine likes. At the source's settings: on a tmpfs. Equal: the same, on a disk.

ENGINES = (
    "leveldb", "basho", "bdb", "hyperleveldb", "lmdb", "rocksdb", "wiredtiger-lsm",
    "wiredtiger-btree",
)


def run(store: str, operation: str, place: str, count: int = 0) -> Side:
    where: dict[str, Any] = {"options": "threads=on"} if store == "bdb" else {}
    step = "readwhilewriting" if operation != "fillseq" else ""
    return side(
        "lmdb-2014", store, f"{step} {operation}".strip(), durability="process", place=place, rank=count,
        record_size="100 B", workload=None, **where,
    )


def places(store: str, operation: str, column: str, largest: bool) -> tuple[Figure, Figure]:
    step = operation if operation == "fillseq" else f"readwhilewriting {operation}"
    found = []
    for place in ("tmpfs", "disk"):
        # One count: the one that was measured in all trials.
        everyone = among("lmdb-2014", ENGINES, f"{step} on {place}", column, operation=step, place=place)
        found.append(rank(everyone, store, largest))
    return found[0], found[1]


def lmdb_2014() -> Iterator[Claim]:
    source = "lmdb2014"
    for store, words, most in (
        ("lmdb", "LMDB reads most beside a writer", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree reads second most", 2),
        ("wiredtiger-lsm", "WiredTiger's LSM is among the three that read most: strong in reading", 3),
    ):
        yield Claim(
            f"M-2-read-{store}", source, "2", words, *places(store, "read", "rate", True), Limit("<=", most)
        )
    yield Claim(
        "M-2-read-leveldb", source, "2", "LevelDB reads least", *places("leveldb", "read", "rate", True),
        Limit(">=", len(ENGINES)),
    )
    for store, words, most in (
        ("lmdb", "LMDB loads fastest", 1),
        ("wiredtiger-btree", "WiredTiger's B-tree loads second fastest", 2),
    ):
        yield Claim(
            f"M-2-load-{store}", source, "2", words, *places(store, "fillseq", "ns", False), Limit("<=", most)
        )
    yield Claim(
        "M-2-load-bdb", source, "2", "Berkeley DB loads slowest of those measured here",
        *places("bdb", "fillseq", "ns", False), Limit(">=", len(ENGINES)),
    )
    for store in ENGINES:
        tmpfs, disk = (value(run(store, "write", place), "rate", "writes a second") for place in ("tmpfs", "disk"))
        yield Claim(
            f"M-2-write-{store}", source, "2", f"{store} writes at the limit of 10,000 a second beside four readers",
            tmpfs, disk, Limit(">=", 9800), symas(store, "writes"),
        )
        grown = [
            growth(run(store, "", place), run(store, "fillseq", place)) for place in ("tmpfs", "disk")
        ]
        yield Claim(
            f"M-2-size-{store}", source, "2", f"The size of {store} changes by no more than a tenth during the run",
            grown[0], grown[1], Limit("<=", 1.1), symas(store, "final size", "load size"),
        )
    nothing = "TokuDB is in no registry and was not measured: see its shim"
    yield Claim(
        "M-2-tokudb", source, "2", "TokuDB writes at the limit beside four readers", nothing, nothing,
        Limit(">=", 9800), symas("tokudb", "writes"),
    )


# Files or a store, 2023. Its stores ran as shipped. Equal: what is written survives the death of the
# process, and nothing is compressed.

FILES = ("flat", "nested")
EMBEDDED = ("leveldb", "rocksdb", "bdb", "sqlite")
EVERYONE = FILES + EMBEDDED
OPERATIONS = ("insert", "get", "update", "remove")
TINY, SMALL, MEDIUM, LARGE_SIZE = "1 B-1 KiB", "1-10 KiB", "10-100 KiB", "100 KiB-1 MiB"
SHIPPED: dict[str, Any] = {"durability": "default", "memory_max": "none"}
EQUAL: dict[str, Any] = {"durability": "process", "memory_max": "none"}


def grid(stores: Sequence[str], name: str, terms: dict[str, Any], **where: Any) -> Fields:
    where = {"operation": OPERATIONS, **terms, **where}
    return among("files-or-store", stores, name, **where)


def both(make: Any) -> tuple[Figure, Figure]:
    return make(SHIPPED), make(EQUAL)


def steps(store: str, by: str, found: Sequence[Any], name: str, **where: Any) -> tuple[Figure, Figure]:
    """The factor from the second of two levels to the first, as shipped and at equal terms."""
    first, second = (
        middle(levels("files-or-store", by, found, name, store=store, **terms, **where))
        for terms in (SHIPPED, EQUAL)
    )
    return first, second


def hines_2023() -> Iterator[Claim]:
    source = "hines2023"
    yield from _filesystem_or_store(source)
    yield from _space(source)
    yield from _patterns(source)
    yield from _cliffs(source)
    yield from _folders(source)


def _filesystem_or_store(source: str) -> Iterator[Claim]:
    def wins(
        key: str, words: str, winners: Sequence[str], name: str, least: float = 0.5,
        stores: Sequence[str] = EVERYONE, slack: float = 1.0, section: str = "5.1", **where: Any,
    ) -> Claim:
        shipped, equal = both(lambda terms: share(grid(stores, name, terms, **where), winners, slack))
        return Claim(f"F-{key}", source, section, words, shipped, equal, Limit(">", least))

    bulk_ops = ("get", "insert")
    yield wins("5.1-tiny", "Below 1 KiB an embedded store is faster than files", EMBEDDED, TINY, 0.95, record_size=TINY)
    yield wins("5.1-tiny-bdb", "and Berkeley DB is fastest in most cases", ("bdb",), TINY, record_size=TINY)
    yield wins("5.1-small", "From 1 to 10 KiB embedded stores are faster in most cases", EMBEDDED, SMALL, record_size=SMALL)
    yield wins("5.1-small-files", "but files are for get and insert with 100,000 records", FILES,
               f"{SMALL}, get and insert, 100,000", record_size=SMALL, operation=bulk_ops, records=100_000)
    yield wins("5.1-medium", "From 10 to 100 KiB files are best or close to it for get and insert", FILES,
               f"{MEDIUM}, get and insert", slack=1.25, record_size=MEDIUM, operation=bulk_ops)
    yield wins("5.1-medium-remove", "but LevelDB or RocksDB removes faster below 10,000 records, uncompressed",
               ("leveldb", "rocksdb"), f"{MEDIUM}, remove, below 10,000", record_size=MEDIUM,
               operation="remove", records=(100, 1000))
    yield wins("5.1-medium-update", "and Berkeley DB is best at updates", ("bdb",), f"{MEDIUM}, update",
               record_size=MEDIUM, operation="update")
    yield wins("5.1-large", "From 100 KiB to 1 MiB files are mostly faster for get and insert", FILES,
               f"{LARGE_SIZE}, get and insert", record_size=LARGE_SIZE, operation=bulk_ops)
    yield wins("5.1-large-leveldb", "but LevelDB without compression is for 1,000 records or fewer", ("leveldb",),
               f"{LARGE_SIZE}, get and insert, up to 1,000", stores=(*FILES, "leveldb"), record_size=LARGE_SIZE,
               operation=bulk_ops, records=(100, 1000), compression=("none", "default"))
    yield wins("5.1-large-bdb", "and Berkeley DB does well in updates: within twice the best", ("bdb",),
               f"{LARGE_SIZE}, update", slack=2, record_size=LARGE_SIZE, operation="update")
    yield wins("5.1-large-rocksdb", "and RocksDB is fastest in removes below 10,000 records", ("rocksdb",),
               f"{LARGE_SIZE}, remove, below 10,000", record_size=LARGE_SIZE, operation="remove",
               records=(100, 1000))
    yield wins("5.1-large-files", "and files are from 10,000 records on", FILES, f"{LARGE_SIZE}, remove, 10,000",
               record_size=LARGE_SIZE, operation="remove", records=10_000)


def _space(source: str) -> Iterator[Claim]:
    def used(key: str, words: str, make: Any, limit: Limit, published: str = "", section: str = "5.1") -> Claim:
        shipped, equal = both(make)
        return Claim(f"F-{key}", source, section, words, shipped, equal, limit, published)

    def efficiency(store: str, terms: dict[str, Any], most: bool = False, **where: Any) -> Figure:
        """Live bytes over bytes on disk: against a column that is always 1."""
        found = levels("files-or-store", "store", (store,), f"{', '.join(map(str, where.values()))}",
                       "efficiency", operation="get", **terms, **where)

        def values(data: Any) -> Any:
            table = found.table(data)[store].groupby("trial")
            return table.max() if most else table.median()

        return Figure(f"space efficiency ({found.name}): {store}", values, ())

    yield used("5.1-space", "Files below 1 KiB use about 12 % of their blocks",
               lambda terms: efficiency("flat", terms, record_size=TINY), Limit("within", 0.12, 1.3), "0.12")
    for store in ("bdb", "rocksdb"):
        yield used(f"5.1-space-{store}", f"{store} takes less space than files even with 100 records below 1 KiB",
                   lambda terms, store=store: middle(grid(("flat", store), f"space, {TINY}, 100", terms,
                       record_size=TINY, records=100, operation="get")), Limit(">", 1))
    yield used("5.1-space-large", "From 100 KiB on the stores differ little in space: by a tenth at most",
               lambda terms: spread(Fields("files-or-store", "store", EVERYONE, f"space, {LARGE_SIZE}",
                   tuple(sorted({"record_size": LARGE_SIZE, "operation": "get",
                                 "compressibility": "incompressible", **terms}.items())), "space")),
               Limit("<=", 1.1))
    for store, published in (("leveldb", "1.55"), ("rocksdb", "1.56")):
        yield Claim(
            f"F-5.1-space-compressed-{store}", source, "5.1, 5.4",
            f"Compression brings {store} to a space efficiency of more than 1.4 with compressible data",
            efficiency(store, SHIPPED, most=True, compressibility="compressible"),
            "nothing is compressed at equal terms", Limit(">", 1.4), published,
        )
    for store in ("leveldb", "rocksdb"):
        saved = levels("files-or-store", "compression", ("none", "default"), f"space, {store}, {MEDIUM}", "space",
                       store=store, operation="get", compressibility="compressible", record_size=MEDIUM, **SHIPPED)
        yield Claim(f"F-5.2-space-{store}", source, "5.2", f"Compression saves {store} space",
                    middle(saved), None, Limit(">", 1.1))
        slower = levels("files-or-store", "compression", ("default", "none"), f"time, {store}", store=store,
                        operation=OPERATIONS, compressibility="compressible", **SHIPPED)
        yield Claim(f"F-5.2-time-{store}", source, "5.2", f"and makes it notably slower: {store}, by a fifth",
                    middle(slower), None, Limit(">", 1.2))
    slowest = levels("files-or-store", "compression", ("default", "none"), "time, leveldb", store="leveldb",
                     operation=OPERATIONS, **SHIPPED)
    yield Claim("F-5.4-20x", source, "5.4", "Compression makes LevelDB up to 20 times slower: more than ten in some case",
                middle(slowest, most=True), None, Limit(">", 10), "20")
    yield used("5.3-space", "SQLite's space efficiency is nearly 100 % at the largest records",
               lambda terms: efficiency("sqlite", terms, record_size=LARGE_SIZE), Limit(">", 0.95), "1.0", "5.3")


def _patterns(source: str) -> Iterator[Claim]:
    most, least = 100_000, 100
    yield Claim(
        "F-5.3-scales", source, "5.3",
        "SQLite's get of less than 1 KiB slows down by no more than 60 %, from 100 records to the most measured",
        *steps("sqlite", "records", (most, least), f"get, {TINY}", record_size=TINY, operation="get"),
        Limit("<=", 1.6), "1.6 to 1,000,000",
    )
    yield Claim(
        "F-5.3-kinds", source, "5.3", "SQLite's updates take 20 to 30 % longer with incompressible data",
        middle(levels("files-or-store", "compressibility", ("incompressible", "compressible"), "update, sqlite",
                      store="sqlite", operation="update", **SHIPPED)),
        middle(levels("files-or-store", "compressibility", ("incompressible", "compressible"), "update, sqlite",
                      store="sqlite", operation="update", **EQUAL)),
        Limit("within", 1.25, 1.08), "1.2 to 1.3",
    )
    yield Claim(
        "F-5.3-worst", source, "5.3", "SQLite is one of the slowest of the six: at the fifth place or below",
        *both(lambda terms: rank(grid(EVERYONE, "all", terms), "sqlite")), Limit(">=", 5),
    )
    yield Claim(
        "F-5.5-large", source, "5.5", "From 100 KiB on RocksDB is much slower than LevelDB, by half at least",
        *both(lambda terms: middle(grid(("rocksdb", "leveldb"), LARGE_SIZE, terms, record_size=LARGE_SIZE))),
        Limit(">", 1.5),
    )
    yield Claim(
        "F-5.5-insert", source, "5.5", "RocksDB's inserts do not slow down with the number of records: by half at most",
        *steps("rocksdb", "records", (most, least), f"insert, {TINY}", record_size=TINY, operation="insert"),
        Limit("<=", 1.5),
    )
    yield Claim(
        "F-5.6-best", source, "5.6", "Berkeley DB is one of the fastest of the six: at the second place or above",
        *both(lambda terms: rank(grid(EVERYONE, "all", terms), "bdb")), Limit("<=", 2),
    )
    yield Claim(
        "F-5.6-slowly", source, "5.6", "Its times grow slowly with the number of records: no more than threefold",
        *steps("bdb", "records", (most, least), f"{TINY}", record_size=TINY, operation=OPERATIONS),
        Limit("<=", 3),
    )
    for operation in ("insert", "update"):
        sizes, counts = (
            [middle(levels("files-or-store", by, found, operation, store="flat", operation=operation, **terms))
             for terms in (SHIPPED, EQUAL)]
            for by, found in (("record_size", (LARGE_SIZE, TINY)), ("records", (1000, 100)))
        )
        yield Claim(
            f"F-5.7-size-{operation}", source, "5.7",
            f"What a file's {operation} takes depends on its size more than on the number of files",
            over(sizes[0], counts[0]), over(sizes[1], counts[1]), Limit(">", 1),
        )
    yield from _stalls(source)


def _stalls(source: str) -> Iterator[Claim]:
    def longest(stores: Sequence[str], terms: dict[str, Any]) -> Figure:
        found = grid(stores, "insert, get, update, remove", terms)

        def values(data: Any) -> Any:
            table = dataclasses.replace(found, column="longest_share").table(data)
            return table.max(axis=1).groupby("trial").max()

        return Figure("greatest share of a thousand operations' time that one took", values, ())

    yield Claim(
        "F-5.7-stall", source, "5.7", "A single operation on a file can take most of the time of a thousand",
        *both(lambda terms: longest(FILES, terms)), Limit(">", 0.5), "0.91 (707 of 776 ms)",
    )
    yield Claim(
        "F-5.7-stall-files", source, "5.7", "Such stalls are the file system's: embedded stores have none above a half",
        *both(lambda terms: longest(EMBEDDED, terms)), Limit("<=", 0.5),
    )


def _cliffs(source: str) -> Iterator[Claim]:
    many, fewer = 1_000_000, 10_000
    cap = ("64 MiB", "2 GiB")
    claims = (
        ("sqlite", "5.3", "get", 10, "64"), ("bdb", "5.6", "get", 10, "100"), ("bdb", "5.6", "update", 10, "100"),
        ("flat", "5.7", "get", 50, "500"), ("leveldb", "5.4", "get", 2, "much slower"),
    )
    for store, section, operation, limit, published in claims:
        where = {"store": store, "record_size": SMALL, "operation": operation, "compressibility": "incompressible"}
        cliff = middle(levels("files-or-store", "records", (many, fewer), f"{operation}, {SMALL}", **where, **SHIPPED))
        yield Claim(
            f"F-{section}-cliff-{store}-{operation}", source, section,
            f"With a million records of 1 to 10 KiB a {operation} of {store} is more than {limit} times as slow",
            cliff, "the million was measured as shipped only", Limit(">", limit), published,
            "the data fit in this machine's memory",
        )
        short = levels("files-or-store", "memory_max", cap, f"{operation}, {SMALL}, 100,000 records", durability="default", **where)
        yield Claim(
            f"F-{section}-memory-{store}-{operation}", "this paper", f"hines2023, {section}",
            f"and so it is where memory, page cache included, is an eighth of the data: {operation} of {store}",
            middle(short), "the cap was measured as shipped only", Limit(">", limit),
        )
    nothing = "52 GiB of records: beyond this scale"
    yield Claim("F-5.4-large", source, "5.4", "LevelDB's get slows down at 100,000 records of 100 KiB to 1 MiB",
                nothing, nothing, Limit(">", 2))
    kinds = "a million compressible records were not measured at this scale"
    yield Claim("F-5.3-cliff-kinds", source, "5.3", "SQLite's slowdown does not come with compressible data",
                kinds, kinds, Limit("<=", 2))


def _folders(source: str) -> Iterator[Claim]:
    two = ("nested", "flat")
    yield Claim("F-5.8-slower", source, "5.8", "Nested folders are slower than a flat one in most cases",
                *both(lambda terms: share(grid(FILES, "all", terms), ("flat",))), Limit(">", 0.5))
    yield Claim("F-5.8-space", source, "5.8", "and take more space",
                *both(lambda terms: middle(Fields("files-or-store", "store", two, "space",
                    tuple(sorted({"operation": "get", **terms}.items())), "closed_bytes"))), Limit(">", 1))
    for operation, published in (("remove", "1.3"), ("update", "")):
        yield Claim(
            f"F-5.8-{operation}", source, "5.8",
            f"but are faster for {operation} with 100,000 records of 10 to 100 KiB",
            *both(lambda terms, operation=operation: middle(grid(("flat", "nested"), f"{operation}, {MEDIUM}, 100,000",
                terms, operation=operation, record_size=MEDIUM, records=100_000))), Limit(">", 1), published,
        )
    constant = both(lambda terms: spread(levels("files-or-store", "records", (100, 1000, 10_000), f"get, {SMALL}",
        store="flat", operation="get", record_size=SMALL, **terms)))
    yield Claim("F-5.8-constant", source, "5.8", "A file's get varies by no more than twice over the number of files",
                *constant, Limit("<=", 2), "1 to 2")


# SQLite's own claim, as shipped and with equal durability.

def sqlite_35() -> Iterator[Claim]:
    source = "sqlite35"
    workload = "fillseq batch=1000, readrandom, overwrite"

    def blob(store: str, operation: str, durability: str) -> Side:
        return side("sqlite-35", store, operation, workload=workload, durability=durability)

    for operation, words in (("readrandom", "reads"), ("overwrite", "writes")):
        shipped, equal = (
            ratio(blob("flat", operation, level_), blob("sqlite", operation, level_))
            for level_ in ("default", "process")
        )
        yield Claim(
            f"S-{words}", source, "title", f"SQLite {words} blobs of 10 KB a third faster than files: 1.35 times as fast",
            shipped, equal, Limit(">=", 1.35), "1.35",
        )
    space = [
        ratio(blob("sqlite", "readrandom", level_), blob("flat", "readrandom", level_), "closed_bytes", "space")
        for level_ in ("default", "process")
    ]
    yield Claim("S-space", source, "summary", "and takes about 20 % less space", space[0], space[1],
                Limit("within", 0.8, 1.1), "0.8")


def everything() -> list[Claim]:
    sources = (leveldb_2011, rocksdb_2013, lmdb_2014, hines_2023, sqlite_35)
    return [claim for source in sources for claim in source()]
