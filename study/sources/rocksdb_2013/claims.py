"""RocksDB's benchmarks, 2013: claims.

At the source's settings: what its commands did, by the audit of its figures (RocksDB without its
log, with many compactions; values that hardly compress), and as its text states. Equal: both with
their log, Snappy and the same buffers, one compaction at a time.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator

import pandas as pd

from study.sources.published import numbers
from study.sources.verdicts import OWN, Claim, Figure, Limit, Side, over, ratio, side, tail


def loads(workload: str, store: str) -> float:
    """Seconds that a workload of RocksDB's page took for its billion keys; what was stopped after a
    day, at its rate."""
    found = numbers("rocksdb-2013")
    if (workload, store, "wall time") in found:
        return 60 * found[workload, store, "wall time"]
    return 86_400 * 1e9 / found[workload, store, "keys inserted in 24 h"]


RANDOM, ORDER, OVERWRITE = "bulk load in random order", "bulk load in key order", "random overwrite"
AUDITED, STATED, EQUAL = "as audited", "as stated", "equal settings"
BUFFERED = "as audited, overwritten"  # LevelDB with the larger buffer of that command
COMPACTIONS = 20  # at a time, by the page's command
OURS = "the text gives the cache of 1 GB to RocksDB alone; that LevelDB has it too, and that values shrink to half, are our reading"
EARLY = "the page's LevelDB had written 1.6 GB when it was stopped, a hundredth of its memory"


def run(store: str, operation: str, label: str) -> Side:
    """A step of the page's workloads."""
    return side("rocksdb-2013", store, operation, label=label)


def two_passes(label: str, column: str) -> Figure:
    """Of RocksDB's load at random and the compaction that ends it, a record."""
    first, second = run("rocksdb", "fillrandom", label), run("rocksdb", "compact", label)

    def values(data: pd.DataFrame) -> pd.Series:
        load = first.rows(data)
        found: pd.Series = (load[column] + second.rows(data)[column]) / load["items"]
        return found

    return Figure(f"{first} and compact", values, (first, second))


def one_pass(store: str, label: str, column: str) -> Figure:
    load = run(store, "fillrandom", label)
    return Figure(str(load), lambda data: load.rows(data)[column] / load.rows(data)["items"], (load,))


def bulk(label: str, column: str = "sum_ns") -> Figure:
    """LevelDB's load at random over RocksDB's, of two passes but at equal settings."""
    rocksdb = one_pass("rocksdb", label, column) if label == EQUAL else two_passes(label, column)
    return over(one_pass("leveldb", label, column), rocksdb)


def in_order(label: str) -> Figure:
    return ratio(run("leveldb", "fillseq", label), run("rocksdb", "fillseq", label))


def claims() -> Iterator[Claim]:
    source, beside = "rocksdb2013", "judged beside the settings as audited"
    faster = "RocksDB's bulk load in random order, both passes, is much faster than LevelDB's load"
    none = (f"{EARLY}; the page gives LevelDB's two million keys in a day, and no ratio; that its time for "
            "RocksDB has both passes is our reading")
    yield Claim("R-2-faster", source, "2", faster, bulk(AUDITED), bulk(EQUAL), Limit(">", 2), note=none)
    yield Claim("R-2-faster-stated", source, "2", f"{faster}: set as the text states", bulk(STATED), beside,
                Limit(">", 2), note=f"{none}; {OURS}")
    yield Claim("R-2-amplification", source, "2", "because LevelDB writes each byte more often",
                bulk(AUDITED, "written"), bulk(EQUAL, "written"), Limit(">", 1))
    faster = "RocksDB loads much faster in key order than LevelDB"
    published = f"{loads(ORDER, 'leveldb') / loads(ORDER, 'rocksdb'):.1f}"
    yield Claim("R-3-faster", source, "3", faster, in_order(AUDITED), in_order(EQUAL), Limit(">", 1.5), published)
    yield Claim("R-3-faster-stated", source, "3", f"{faster}: set as the text states", in_order(STATED), beside,
                Limit(">", 1.5), published, OURS)
    one = run("rocksdb", "fillseq", EQUAL)
    many = ratio(one, run("rocksdb", "fillseq", f"{EQUAL}, {COMPACTIONS} compactions"), name="time, 1 / 20 compactions")
    yield Claim("R-3-threads", source, "3", "primarily because many compactions run at a time: one against twenty",
                "measured at equal settings alone", many,
                Limit(">", 1.5), note="in key order no file overlaps another, and none has to be merged",
                processors=COMPACTIONS)
    theirs = "not the page's zlib, which begins at level 2, on values that hardly compress"
    for what, changed, note in (
        ("its log being off", "log off", ""), ("zlib at every level, on values that shrink to half,", "zlib", theirs),
        ("a larger cache", "large cache", ""),
    ):
        yield Claim(
            f"R-3-{changed.split()[-1]}", OWN, "rocksdb2013, 3",
            f"The difference in key order comes from {what} as well: more than a fifth",
            ratio(one, run("rocksdb", "fillseq", f"{EQUAL}, {changed}"), name="time as equal / with that alone"),
            None, Limit(">", 1.2), note=note,
        )
    space, level = (
        ratio(run("leveldb", "fillseq", label), run("rocksdb", "fillseq", label), "disk_bytes", "space")
        for label in (AUDITED, EQUAL)
    )
    leveldb, rocksdb = (numbers("rocksdb-2013")[ORDER, store, "size"] for store in ("leveldb", "rocksdb"))
    yield Claim("R-3-size", source, "3", "Both have the same total data size after a load in key order (we take: space on the disk, within a tenth)",
                space, level, Limit("within", 1, 1.1), f"{leveldb / rocksdb:.1f}",
                "the page's size is just that of the records, uncompressed")
    audited, equal = run("rocksdb", "overwrite", AUDITED), run("rocksdb", "overwrite", EQUAL)
    yield Claim(
        "R-4-tail", source, "4", "Of RocksDB's random overwrites 99.99% take less than 12 ms",
        tail(audited, 0.9999), tail(equal, 0.9999), Limit("<", 12e6), "11.6 ms", "on the page's disks",
    )
    yield Claim(
        "R-4-slower", OWN, "rocksdb2013, 4", "An overwrite at random takes more than ten times as long as a write in key order",
        ratio(audited, run("rocksdb", "fillseq", AUDITED)), ratio(equal, one), Limit(">", 10),
        note=f"the page does not compare its times for the two, which make {loads(OVERWRITE, 'rocksdb') / loads(ORDER, 'rocksdb'):.0f}",
    )
    yield Claim(
        "R-4-leveldb", OWN, "rocksdb2013, 4 (blank there)",
        "RocksDB overwrites at random faster than LevelDB",
        ratio(run("leveldb", "overwrite", BUFFERED), audited), ratio(run("leveldb", "overwrite", EQUAL), equal),
        Limit(">", 1),
    )
