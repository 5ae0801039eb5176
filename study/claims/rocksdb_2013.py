"""RocksDB's benchmarks, 2013: claims.

As the commands have it: RocksDB without its log, with zlib and many compactions. Equal: both with
their log, Snappy and the same buffers, one compaction at a time.
"""

# fmt: off - a claim is a few lines, not one for each of its parts

from collections.abc import Iterator
from typing import Any

from study.published import numbers
from study.verdicts import Claim, Limit, Side, quotient, ratio, side, tail


def loads(workload: str, store: str) -> float:
    """Seconds that a workload of RocksDB's page took for its billion keys; what was stopped after a
    day, at its rate."""
    found = numbers("rocksdb-2013")
    if (workload, store, "wall time") in found:
        return 60 * found[workload, store, "wall time"]
    return 86_400 * 1e9 / found[workload, store, "keys inserted in 24 h"]


def options(**given: Any) -> str:
    """As a cell has them."""
    return ", ".join(f"{name}={given[name]}" for name in sorted(given))


SMALL_BUFFERS = {
    "write_buffer": 2 << 20,
    "target_file_size": 1 << 20,
    "level_base": 10 << 20,
    "block_cache": 1 << 20,
    "bloom_bits": 10,
}
TWICE = "fillseq, overwrite"
RANDOM, ORDER = "bulk load in random order", "bulk load in key order"


def rocks(operation: str, workload: str, jobs: int = 1, place: int = -1, **changed: Any) -> Side:
    own = dict(SMALL_BUFFERS, background_jobs=jobs)
    own |= {name: changed.pop(name) for name in ("block_size", "block_cache") if name in changed}
    where: dict[str, Any] = {
        "durability": "process",
        "compression": "snappy",
        "options": options(**own),
    }
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
        "rocksdb-2013",
        "leveldb",
        operation,
        **where | {"workload": workload, "rank": place} | changed,
    )


def bulk(operation: str, place: int = -1) -> Side:
    own = options(
        bulk_load="on",
        write_buffer=4 << 20,
        block_cache=1 << 20,
        bloom_bits=10,
        block_size=64 << 10,
        background_jobs=20,
    )
    return side(
        "rocksdb-2013",
        "rocksdb",
        operation,
        durability="none",
        compression="zlib",
        options=own,
        record_size="800 B",
        key_size=10,
        workload="fillrandom, compact",
        rank=place,
    )


def claims() -> Iterator[Claim]:
    source = "rocksdb2013"
    snappy: dict[str, Any] = {"compression": "snappy"}
    sizes = (("smallest", 0), ("middle", 1), ("largest", -1))
    for words, place in sizes:
        yield Claim(
            f"R-2-faster-{words}",
            source,
            "2",
            f"RocksDB's first pass of a bulk load in random order is much faster than LevelDB's load: {words} count",
            ratio(level("fillrandom", "fillrandom", place, 4), bulk("fillrandom", place)),
            ratio(
                level("fillrandom", "fillrandom", place, **snappy),
                rocks("fillrandom", "fillrandom", place=place),
            ),
            Limit(">", 2),
            f"{loads(RANDOM, 'leveldb') / loads(RANDOM, 'rocksdb'):,.0f}",
            "the page's 24 hours for 2 million keys are nowhere near what LevelDB does here",
        )
        yield Claim(
            f"R-3-faster-{words}",
            source,
            "3",
            f"RocksDB loads much faster in key order than LevelDB: {words} count",
            ratio(level("fillseq", TWICE, place), as_commanded("fillseq", TWICE, place)),
            ratio(level("fillseq", TWICE, place, **snappy), rocks("fillseq", TWICE, place=place)),
            Limit(">", 1.5),
            f"{loads(ORDER, 'leveldb') / loads(ORDER, 'rocksdb'):.1f}",
        )
    yield Claim(
        "R-2-amplification",
        source,
        "2",
        "LevelDB is slow there because it writes each byte many times",
        quotient(
            level("fillrandom", "fillrandom", -1, 4), "wchar", "user_bytes", "bytes written a byte"
        ),
        quotient(
            level("fillrandom", "fillrandom", **snappy),
            "wchar",
            "user_bytes",
            "bytes written a byte",
        ),
        Limit(">", 5),
    )
    yield Claim(
        "R-2-amplification-less",
        source,
        "2",
        "and RocksDB writes fewer in its bulk load",
        ratio(
            level("fillrandom", "fillrandom", -1, 4), bulk("fillrandom"), "wchar", "bytes written"
        ),
        ratio(
            level("fillrandom", "fillrandom", **snappy),
            rocks("fillrandom", "fillrandom"),
            "wchar",
            "bytes written",
        ),
        Limit(">", 1),
    )
    yield Claim(
        "R-3-threads",
        source,
        "3",
        "because many compactions run at a time: one against twenty, in key order",
        ratio(
            rocks("fillseq", TWICE, place=1),
            rocks("fillseq", TWICE, 20, 0),
            name="time, 1 / 20 compactions",
        ),
        ratio(
            rocks("fillseq", TWICE, place=1),
            rocks("fillseq", TWICE, 20, 0),
            name="time, 1 / 20 compactions",
        ),
        Limit(">", 1.5),
        note="in key order no file overlaps another, and none has to be merged",
    )
    for what, changed in (
        ("its log being off", {"durability": "none"}),
        ("zlib", {"compression": "zlib"}),
        ("a cache of 1 GB instead of 1 MB", {"block_cache": 1 << 30}),
    ):
        one = rocks("fillseq", TWICE, place=1)
        other = rocks("fillseq", TWICE, place=0, **changed)
        yield Claim(
            f"R-3-{what.split()[-1]}",
            "this paper",
            "rocksdb2013, 3",
            f"The difference in key order comes from {what} as well: more than a fifth",
            ratio(one, other, name="time as equal / with that alone"),
            None,
            Limit(">", 1.2),
        )
    yield Claim(
        "R-3-size",
        source,
        "3",
        "Both take the same space after a load in key order",
        ratio(level("fillseq", TWICE), as_commanded("fillseq", TWICE), "disk_bytes", "space"),
        ratio(level("fillseq", TWICE, **snappy), rocks("fillseq", TWICE), "disk_bytes", "space"),
        Limit("within", 1, 1.1),
        "1.0",
    )
    yield Claim(
        "R-4-tail",
        source,
        "4",
        "Of RocksDB's random overwrites 99.99 % take less than 12 ms",
        tail(as_commanded("overwrite", TWICE), 0.9999),
        tail(rocks("overwrite", TWICE), 0.9999),
        Limit("<", 12e6),
        "11.6 ms",
    )
    yield Claim(
        "R-4-slower",
        source,
        "4",
        "An overwrite at random takes more than ten times as long as a write in key order",
        ratio(as_commanded("overwrite", TWICE), as_commanded("fillseq", TWICE)),
        ratio(rocks("overwrite", TWICE), rocks("fillseq", TWICE)),
        Limit(">", 10),
        f"{loads('random overwrite', 'rocksdb') / loads(ORDER, 'rocksdb'):.0f}",
    )
    yield Claim(
        "R-4-leveldb",
        "this paper",
        "rocksdb2013, 4 (blank there)",
        "RocksDB overwrites at random faster than LevelDB",
        ratio(level("overwrite", TWICE), as_commanded("overwrite", TWICE)),
        ratio(level("overwrite", TWICE, **snappy), rocks("overwrite", TWICE)),
        Limit(">", 1),
    )
