"""LevelDB Benchmarks, 2011: claims.

The page runs every store asynchronously, in 4 MB. Equal: LevelDB without compression, as SQLite has
none; TreeDB shares no level of durability with the two.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

import itertools
from collections.abc import Iterator

import pandas as pd

from study.common.fields import each
from study.sources.published import numbers, table
from study.sources.verdicts import Claim, Figure, Limit, Side, ratio, side, value


def page(above: tuple[str, str, str], below: tuple[str, str, str], log: bool | None = None) -> str:
    """The ratio of two figures of LevelDB's page (part, workload, store): one, or that of the first
    version and that of the later one. They differ in SQLite's journal: of its figures
    that of the later one, with the write-ahead log, unless `log` is false."""
    found = numbers("leveldb-2011")
    if log is None and "sqlite" in (above[2], below[2]):
        log = True
    versions = [name for name, has in (("leveldb-2011", False), ("leveldb-2011-wal", True)) if log in (None, has)]
    both = [found[source, *above] / found[source, *below] for source in versions]
    return " and ".join(dict.fromkeys(f"{x:,.0f}" if x >= 1000 else f"{x:.3g}" for x in both))


def gain() -> float:
    """By how many percent the write-ahead log speeds up SQLite's writes, as the first version says."""
    rows = each(table("leveldb-2011-settings"))
    return next(float(row.value) for row in rows if row.setting.startswith("gain of writes"))


def factor(part: str, operation: str, store: str) -> str:
    """The factor to its baseline that the page prints beside a figure."""
    rows = each(table("leveldb-2011"))
    return next(str(row.times_baseline) for row in rows if (row.part, row.workload, row.store) == (part, operation, store))


# The parts of the page, and the labels of the parts of the grid.
BASE, LARGE, BATCHES = "Baseline", "Large values", "Batches"
SYNCED, PLAIN, PLAIN_READS = "Synchronous writes", "Compression off", "Compression off (reads)"
MEMORY, CACHES = "More memory (writes)", "Larger caches"
LABELS = {
    BASE: "baseline", LARGE: "large values", BATCHES: "batches", SYNCED: "synchronous writes",
    PLAIN: "no compression", PLAIN_READS: "no compression", MEMORY: "more memory", CACHES: "more memory",
}
OF_LEVELDB = {MEMORY: "large write buffer", CACHES: "large cache"}  # where most of its memory goes
NO_EQUAL = "no level of durability in common with TreeDB"
COMPRESSED = "measured with LevelDB's compression only"
SIGNIFICANT = 1.5  # what we take for "significantly"


def run(store: str, operation: str, part: str = BASE, log: bool = True) -> Side:
    """A store in a part of the page, as the page set it; SQLite with or without its write-ahead log.

    The page reads in random order, and in key order too, what was filled at random.
    """
    label = (OF_LEVELDB if store == "leveldb" else {}).get(part, LABELS[part])
    if store == "sqlite":
        label = label.replace("no compression", "baseline")  # it has none
        label += "" if log else ", rollback journal"
    filled = "fillseq" if operation == "fillseq" else "fillrandom"
    return side("leveldb-2011", store, operation, label=label, filled=filled)


def kills(one: Side) -> Figure:
    """Of each kill of the durability experiment whether it lost no write. Kills that agree leave
    the share as uncertain as one of them."""
    def outcomes(data: pd.DataFrame) -> pd.Series:
        first = one.rows(data).iloc[0]
        lost = int(first.crashes - first.survived_kill)
        return pd.Series([0.0] * lost + [1.0] * int(first.survived_kill))

    text = f"share of kills that lost no write, {one.store}"
    return Figure(text, outcomes, (), lambda data: 1 / len(outcomes(data)))


BASELINE = (
    ("1.C", "fillseq", "writes in key order"),
    ("1.D", "fillrandom", "writes in random order"),
    ("1.A", "readseq", "reads in key order"),
)


def claims() -> Iterator[Claim]:
    source = "leveldb2011"
    for section, operation, words in BASELINE:
        one = run("leveldb", operation)
        plain = run("leveldb", operation, PLAIN)
        yield Claim(
            f"L-{section}-sqlite", source, section, f"LevelDB is faster than SQLite in {words}",
            ratio(run("sqlite", operation), one), ratio(run("sqlite", operation), plain),
            Limit(">", 1), page((BASE, operation, "leveldb"), (BASE, operation, "sqlite")),
        )
        yield Claim(
            f"L-{section}-treedb", source, section, f"LevelDB is faster than TreeDB in {words}",
            ratio(run("kyoto-tree", operation), one), NO_EQUAL, Limit(">", 1),
            page((BASE, operation, "leveldb"), (BASE, operation, "kyoto-tree")),
        )
    for store in ("leveldb", "sqlite"):
        yield Claim(
            f"L-1.B-{store}", source, "1.B", f"TreeDB reads faster in random order than {store}",
            ratio(run(store, "readrandom"), run("kyoto-tree", "readrandom")), NO_EQUAL,
            Limit(">", 1),
            page((BASE, "readrandom", "kyoto-tree"), (BASE, "readrandom", store)),
        )
    yield Claim(
        "L-1-async", source, "1",
        "Every write of each store is given to the operating system: of TreeDB too",
        kills(run("kyoto-tree", "fillrandom")), None, Limit(">=", 1, theirs=True), "",
        "what the operating system has, a killed process can't lose; a trial is a kill of TreeDB as "
        "shipped, without the page's lzo, small and linear: data/durability/evidence.csv",
    )
    yield Claim(
        "L-ext4-files", source, "ext4",
        "On ext4 LevelDB's asynchronous writes, too, get somewhat slower: it syncs when it switches to a new file (we test: it syncs at all)",
        value(run("leveldb", "fillrandom"), "syncs", "sync calls of the load"), None,
        Limit(">", 0, theirs=True), note="that it gets slower can't be tested without ext3",
    )
    two = "this machine has no more than two processors"
    yield Claim("L-1-two-cpus", source, "1", "LevelDB uses two processors at most", two, two, Limit("<=", 2, theirs=True))
    yield from _large(source)
    yield from _batches(source)
    yield from _synchronous(source)
    yield from _compression(source)
    yield from _memory(source)
    for operation in ("fillseq", "fillrandom"):
        without = run("sqlite", operation, log=False)
        yield Claim(
            f"L-wal-{operation}", source, "build (first version)",
            f"A write-ahead log speeds up SQLite's writes by roughly {gain():g}%: {operation}",
            ratio(without, run("sqlite", operation), name="time without / with the log"),
            None, Limit("within", 1 + gain() / 100, 1.08), f"{1 + gain() / 100:g}", "the later version no longer says so",
        )


def _large(source: str) -> Iterator[Claim]:
    in_order = page((LARGE, "fillseq", "leveldb"), (LARGE, "fillseq", "kyoto-tree"))
    ahead = f"in key order the page's own figures have LevelDB ahead, {in_order} times as fast"
    for operation, others in (("fillseq", ("sqlite",)), ("fillrandom", ("sqlite", "kyoto-tree"))):
        one = run("leveldb", operation, LARGE)
        for store in others:
            yield Claim(
                f"L-2.A-{operation}-{store}", source, "2.A",
                f"With values of 100,000 B LevelDB writes slower than {store}: {operation}",
                ratio(one, run(store, operation, LARGE)),
                NO_EQUAL if store == "kyoto-tree" else COMPRESSED, Limit(">", 1),
                page((LARGE, operation, store), (LARGE, operation, "leveldb")),
                ahead if store == "kyoto-tree" else "",
            )
    yield Claim(
        "L-2.A-twice", source, "2.A", "because it writes each value at least twice",
        value(run("leveldb", "fillrandom", LARGE), "amplification", "bytes written a byte"),
        None, Limit(">=", 1.5),
        note="twice is 1.5 bytes a byte by our reading: the log has a value whole, a table compressed to half; "
        "that this is the cause is not tested",
    )


def _batches(source: str) -> Iterator[Claim]:
    part = BATCHES
    for operation, store in itertools.product(("fillseq", "fillrandom"), ("leveldb", "sqlite")):
        yield Claim(
            f"L-2.B-{operation}-{store}", source, "2.B",
            f"Writes in batches, here of a thousand, may be significantly faster than one by one (we test: faster at all): {operation} of {store}",
            ratio(run(store, operation), run(store, operation, part), name="time one by one / in batches"),
            None, Limit(">", 1),
            page((part, operation, store), (BASE, operation, store)),
        )
    yield Claim(
        "L-2.B-order", source, "2.B",
        "LevelDB's batches in random order take no more than four times those in key order",
        ratio(run("leveldb", "fillrandom", part), run("leveldb", "fillseq", part)), None,
        Limit("<=", 4, theirs=True), page((part, "fillseq", "leveldb"), (part, "fillrandom", "leveldb")),
    )
    yield Claim(
        "L-2.B-order-sqlite", source, "2.B (first version)",
        "SQLite's batches, without a write-ahead log, are a hundred times as slow in random order",
        ratio(run("sqlite", "fillrandom", part, log=False), run("sqlite", "fillseq", part, log=False)),
        None, Limit("within", 100, 2), page((part, "fillseq", "sqlite"), (part, "fillrandom", "sqlite"), log=False),
    )


def _synchronous(source: str) -> Iterator[Claim]:
    part = SYNCED
    for operation in ("fillseq", "fillrandom"):
        versions = [page((part, operation, "leveldb"), (part, operation, "sqlite"), log) for log in (False, True)]
        yield Claim(
            f"L-2.C-{operation}-sqlite", source, "2.C",
            f"LevelDB's synchronous writes are faster than SQLite's: {operation}",
            ratio(run("sqlite", operation, part, log=False), run("leveldb", operation, part)),
            ratio(run("sqlite", operation, part), run("leveldb", operation, part)),
            Limit(">", 1), " and ".join(versions),
            "LevelDB compresses at equal settings too: without, its synchronous writes were not measured",
        )
        yield Claim(
            f"L-2.C-{operation}-treedb", source, "2.C", f"and faster than TreeDB's: {operation}",
            ratio(run("kyoto-tree", operation, part), run("leveldb", operation, part)),
            "with autosync TreeDB syncs each write, but what then survives was not measured",
            Limit(">", 1), page((part, operation, "leveldb"), (part, operation, "kyoto-tree")),
            "TreeDB's durability and syncs are stated as shipped, without autosync; the disk of this machine "
            "syncs in a fraction of a turn of the page's",
        )
    nothing = "no disk here has ext3, turns, or a write cache that can be switched off"
    yield Claim(
        "L-ext4", source, "ext4",
        "On ext4 synchronous writes drop to a fraction of those on ext3; by the later version SQLite's do not",
        nothing, nothing, Limit("<", 1), "about 31 or 34, 5 and 24 a second",
    )


def _compression(source: str) -> Iterator[Claim]:
    cases = itertools.product(("leveldb", "kyoto-tree"), ("fillseq", "fillrandom", "readseq", "readrandom"))
    for store, operation in cases:
        writes = operation.startswith("fill")
        part = PLAIN if writes else PLAIN_READS
        slower = writes and store == "leveldb"
        limit = Limit("<", 1) if slower else Limit(">", 1) if writes else Limit("within", 1.225, 1.225)
        without = run(store, operation, part)
        how = "slower" if slower else "faster" if writes else "a little faster, by no more than half"
        yield Claim(
            f"L-{'2.D' if writes else '3.B'}-{store}-{operation}", source, "2.D" if writes else "3.B",
            f"Without compression {store} is {how}: {operation}",
            ratio(run(store, operation), without, name="time with / without compression"),
            None, limit, page((part, operation, store), (BASE, operation, store)),
            f"ours, from the page's rates; it prints {factor(part, operation, store)}, which divides by writes in key order"
            if (store, operation) == ("kyoto-tree", "readseq") else "",
        )
    alone = "what the libraries take was not measured by itself"
    yield Claim(
        "L-2.D-lzo", source, "2.D", "presumably because TreeDB's library for it, LZO, costs more than LevelDB's, Snappy",
        alone, alone, Limit(">", 1),
    )


def _memory(source: str) -> Iterator[Claim]:
    faster = "time with 4 MiB / with 128 MiB"
    part = MEMORY
    for operation in ("fillseq", "fillrandom"):
        yield Claim(
            f"L-2.E-sqlite-{operation}", source, "2.E",
            f"More memory changes SQLite's writes by no more than a tenth: {operation}",
            ratio(run("sqlite", operation), run("sqlite", operation, part), name=faster),
            None, Limit("within", 1, 1.1), page((part, operation, "sqlite"), (BASE, operation, "sqlite")),
        )
    yield Claim(
        "L-2.E-leveldb", source, "2.E", "A larger write buffer makes LevelDB's random writes significantly faster",
        ratio(run("leveldb", "fillrandom"), run("leveldb", "fillrandom", part), name=faster), None, Limit(">", SIGNIFICANT),
        page((part, "fillrandom", "leveldb"), (BASE, "fillrandom", "leveldb")),
    )
    merges = "the bytes of merges are not counted by themselves, and the larger buffer also saves the first tables"
    yield Claim(
        "L-2.E-merges", source, "2.E", "because fewer sorted files have to be merged", merges, merges, Limit(">", 1),
    )
    yield Claim(
        "L-2.E-treedb", source, "2.E",
        "With memory for the whole database TreeDB's random writes are significantly faster",
        ratio(run("kyoto-tree", "fillrandom"), run("kyoto-tree", "fillrandom", part), name=faster),
        None, Limit(">", SIGNIFICANT), page((part, "fillrandom", "kyoto-tree"), (BASE, "fillrandom", "kyoto-tree")),
    )
    part = CACHES
    for operation in ("readseq", "readrandom"):
        for store in ("leveldb", "sqlite", "kyoto-tree"):
            yield Claim(
                f"L-3.A-{operation}-{store}", source, "3.A",
                f"A larger cache makes reads faster: {operation} of {store}",
                ratio(run(store, operation), run(store, operation, part), name=faster),
                None, Limit(">", 1),
                page((part, operation, store), (BASE, operation, store)),
            )
