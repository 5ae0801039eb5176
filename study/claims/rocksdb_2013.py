"""RocksDB's benchmarks, 2013: claims.

As the commands have it: RocksDB without its log, with zlib and many compactions. Equal: both with
their log, Snappy and the same buffers, one compaction at a time.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator

from study.published import numbers
from study.verdicts import Claim, Limit, Side, ratio, side, tail, value


def loads(workload: str, store: str) -> float:
    """Seconds that a workload of RocksDB's page took for its billion keys; what was stopped after a
    day, at its rate."""
    found = numbers("rocksdb-2013")
    if (workload, store, "wall time") in found:
        return 60 * found[workload, store, "wall time"]
    return 86_400 * 1e9 / found[workload, store, "keys inserted in 24 h"]


RANDOM, ORDER = "bulk load in random order", "bulk load in key order"
COMPRESSION = "the page's values hardly compress, those measured here do"
SMALL = "the page's data are more than five times its memory, these are a part of it"
PUBLISHED, TWO_PASSES, EQUAL = "as published", "as published, two passes", "equal settings"


def run(store: str, operation: str, label: str, rank: int = -1) -> Side:
    """A step of the page's workloads; `rank` is the place of its record count."""
    return side("rocksdb-2013", store, operation, label=label, rank=rank)


def claims() -> Iterator[Claim]:
    source = "rocksdb2013"
    sizes = (("smallest", 0), ("middle", 1), ("largest", -1))
    for words, place in sizes:
        yield Claim(
            f"R-2-faster-{words}", source, "2",
            f"RocksDB's first pass of a bulk load in random order is much faster than LevelDB's load: {words} count",
            ratio(run("leveldb", "fillrandom", PUBLISHED, place), run("rocksdb", "fillrandom", TWO_PASSES, place)),
            ratio(run("leveldb", "fillrandom", EQUAL, place), run("rocksdb", "fillrandom", EQUAL, place)),
            Limit(">", 2), f"{loads(RANDOM, 'leveldb') / loads(RANDOM, 'rocksdb'):,.0f}", SMALL,
        )
        yield Claim(
            f"R-3-faster-{words}", source, "3",
            f"RocksDB loads much faster in key order than LevelDB: {words} count",
            ratio(run("leveldb", "fillseq", PUBLISHED, place), run("rocksdb", "fillseq", PUBLISHED, place)),
            ratio(run("leveldb", "fillseq", EQUAL, place), run("rocksdb", "fillseq", EQUAL, place)),
            Limit(">", 1.5), f"{loads(ORDER, 'leveldb') / loads(ORDER, 'rocksdb'):.1f}", SMALL,
        )
    yield Claim(
        "R-2-amplification", source, "2", "LevelDB is slow there because it writes each byte many times",
        value(run("leveldb", "fillrandom", PUBLISHED), "amplification", "bytes written a byte"),
        value(run("leveldb", "fillrandom", EQUAL), "amplification", "bytes written a byte"),
        Limit(">", 5),
    )
    yield Claim(
        "R-2-amplification-less", source, "2", "and RocksDB writes fewer in its bulk load",
        ratio(run("leveldb", "fillrandom", PUBLISHED), run("rocksdb", "fillrandom", TWO_PASSES), "written", "bytes written"),
        ratio(run("leveldb", "fillrandom", EQUAL), run("rocksdb", "fillrandom", EQUAL), "written", "bytes written"),
        Limit(">", 1),
    )
    yield Claim(
        "R-3-threads", source, "3", "because many compactions run at a time: one against twenty, in key order",
        ratio(run("rocksdb", "fillseq", EQUAL, 1), run("rocksdb", "fillseq", f"{EQUAL}, 20 compactions", 0), name="time, 1 / 20 compactions"),
        ratio(run("rocksdb", "fillseq", EQUAL, 1), run("rocksdb", "fillseq", f"{EQUAL}, 20 compactions", 0), name="time, 1 / 20 compactions"),
        Limit(">", 1.5), note="in key order no file overlaps another, and none has to be merged",
    )
    for what, changed in (
        ("its log being off", "log off"),
        ("zlib", "zlib"),
        ("a cache of 1 GB instead of 1 MB", "1 GiB cache"),
    ):
        one = run("rocksdb", "fillseq", EQUAL, 1)
        other = run("rocksdb", "fillseq", f"{EQUAL}, {changed}", 0)
        yield Claim(
            f"R-3-{what.split()[-1]}", "this paper", "rocksdb2013, 3",
            f"The difference in key order comes from {what} as well: more than a fifth",
            ratio(one, other, name="time as equal / with that alone"), None, Limit(">", 1.2),
        )
    yield Claim(
        "R-3-size", source, "3", "Both take the same space after a load in key order",
        COMPRESSION, COMPRESSION, Limit("within", 1, 1.1), "1.0",
    )
    yield Claim(
        "R-4-tail", source, "4",
        "Of RocksDB's random overwrites 99.99 % take less than 12 ms",
        tail(run("rocksdb", "overwrite", PUBLISHED), 0.9999), tail(run("rocksdb", "overwrite", EQUAL), 0.9999),
        Limit("<", 12e6, theirs=True), "11.6 ms",
    )
    yield Claim(
        "R-4-slower", source, "4",
        "An overwrite at random takes more than ten times as long as a write in key order",
        ratio(run("rocksdb", "overwrite", PUBLISHED), run("rocksdb", "fillseq", PUBLISHED)),
        ratio(run("rocksdb", "overwrite", EQUAL), run("rocksdb", "fillseq", EQUAL)), Limit(">", 10), f"{loads('random overwrite', 'rocksdb') / loads(ORDER, 'rocksdb'):.0f}",
    )
    yield Claim(
        "R-4-leveldb", "this paper", "rocksdb2013, 4 (blank there)",
        "RocksDB overwrites at random faster than LevelDB",
        ratio(run("leveldb", "overwrite", PUBLISHED), run("rocksdb", "overwrite", PUBLISHED)),
        ratio(run("leveldb", "overwrite", EQUAL), run("rocksdb", "overwrite", EQUAL)), Limit(">", 1),
    )
