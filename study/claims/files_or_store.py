"""Files or an embedded store, 2023: claims.

Its stores ran as shipped. Equal: what is written survives the death of the process, and nothing is
compressed.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from study.verdicts import (
    Claim,
    Fields,
    Figure,
    Limit,
    ahead,
    levels,
    middle,
    over,
    share,
    spread,
)

FILES = ("flat", "nested")
EMBEDDED = ("leveldb", "rocksdb", "bdb", "sqlite")
EVERYONE = FILES + EMBEDDED
OPERATIONS = ("insert", "get", "update", "remove")
TINY, SMALL, MEDIUM, LARGE_SIZE = "1 B-1 KiB", "1-10 KiB", "10-100 KiB", "100 KiB-1 MiB"
PLAIN = "incompressible"  # what the source stored without compression
SHIPPED: dict[str, Any] = {"label": ("as shipped", "as shipped, uncompressed")}
EQUAL: dict[str, Any] = {"label": "equal settings"}
NEARLY_ALL = 0.9  # of the fields, where the source says no less than that files are faster, or so


def grid(stores: Sequence[str], name: str, terms: dict[str, Any], **where: Any) -> Fields:
    where = {"operation": OPERATIONS, **terms, **where}
    return levels("files-or-store", "store", stores, name, **where)


def both(make: Any) -> tuple[Figure, Figure]:
    return make(SHIPPED), make(EQUAL)


def steps(store: str, by: str, found: Sequence[Any], name: str, **where: Any) -> tuple[Figure, Figure]:
    """The factor from the second of two levels to the first, as shipped and at equal terms."""
    first, second = (
        middle(levels("files-or-store", by, found, name, store=store, **terms, **where))
        for terms in (SHIPPED, EQUAL)
    )
    return first, second


def _worsening(terms: dict[str, Any]) -> Figure:
    """Of all operations the least factor by which RocksDB falls behind files from one size to the
    next, each the median over counts and kinds of data."""
    sizes = (grid(("rocksdb", "flat"), size, terms, record_size=size) for size in (LARGE_SIZE, MEDIUM))

    def behind(fields: Fields, data: pd.DataFrame) -> pd.Series:
        table = fields.table(data)
        return (table["rocksdb"] / table["flat"]).groupby(["trial", "operation"]).median()

    large, medium = sizes

    def values(data: pd.DataFrame) -> pd.Series:
        found: pd.Series = (behind(large, data) / behind(medium, data)).groupby("trial").min()
        return found

    return Figure(f"least over operations: rocksdb / flat ({LARGE_SIZE}) / the same ({MEDIUM})", values, ())


def claims() -> Iterator[Claim]:
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
    yield wins("5.1-tiny", "Below 1 KiB an embedded store is faster than files", EMBEDDED, TINY, NEARLY_ALL, record_size=TINY)
    yield wins("5.1-tiny-bdb", "and Berkeley DB is fastest in most cases", ("bdb",), TINY, record_size=TINY)
    yield wins("5.1-small", "From 1 to 10 KiB embedded stores are faster in most cases", EMBEDDED, SMALL, record_size=SMALL)
    yield wins("5.1-small-files", "but files are for get and insert with 100,000 records", FILES,
               f"{SMALL}, get and insert, 100,000", NEARLY_ALL, record_size=SMALL, operation=bulk_ops, records=100_000)
    yield wins("5.1-medium", "From 10 to 100 KiB files are best or close to it for get and insert", FILES,
               f"{MEDIUM}, get and insert", NEARLY_ALL, slack=1.25, record_size=MEDIUM, operation=bulk_ops)
    yield wins("5.1-medium-remove", "but LevelDB or RocksDB removes faster below 10,000 records, without compression",
               ("leveldb", "rocksdb"), f"{MEDIUM}, remove, below 10,000", NEARLY_ALL, record_size=MEDIUM,
               operation="remove", records=(100, 1000), compressibility=PLAIN)
    yield wins("5.1-medium-update", "and Berkeley DB is best at updates", ("bdb",), f"{MEDIUM}, update",
               NEARLY_ALL, record_size=MEDIUM, operation="update")
    yield wins("5.1-large", "From 100 KiB to 1 MiB files are mostly faster for get and insert", FILES,
               f"{LARGE_SIZE}, get and insert", record_size=LARGE_SIZE, operation=bulk_ops)
    for operation in bulk_ops:
        yield wins(f"5.1-large-leveldb-{operation}",
                   f"but LevelDB without compression is for 1,000 records or fewer: {operation}", ("leveldb",),
                   f"{LARGE_SIZE}, {operation}, up to 1,000", stores=(*FILES, "leveldb"), record_size=LARGE_SIZE,
                   operation=operation, records=(100, 1000), compressibility=PLAIN)
    yield wins("5.1-large-bdb", "and Berkeley DB does well in updates: within twice the best", ("bdb",),
               f"{LARGE_SIZE}, update", slack=2, record_size=LARGE_SIZE, operation="update")
    yield wins("5.1-large-rocksdb", "and RocksDB without compression is fastest in removes below 10,000 records",
               ("rocksdb",), f"{LARGE_SIZE}, remove, below 10,000", record_size=LARGE_SIZE, operation="remove",
               records=(100, 1000), compressibility=PLAIN)
    yield wins("5.1-large-files", "and files are from 10,000 records on", FILES, f"{LARGE_SIZE}, remove, 10,000",
               record_size=LARGE_SIZE, operation="remove", records=10_000, compressibility=PLAIN)


def _space(source: str) -> Iterator[Claim]:
    def used(key: str, words: str, make: Any, limit: Limit, published: str = "", section: str = "5.1") -> Claim:
        shipped, equal = both(make)
        return Claim(f"F-{key}", source, section, words, shipped, equal, limit, published)

    def efficiency(store: str, terms: dict[str, Any], most: bool = False, **where: Any) -> Figure:
        """Live bytes over bytes on disk."""
        name = ", ".join(map(str, where.values()))
        found = grid((store,), name, terms, column="efficiency", operation="get", **where)
        how = "max" if most else "median"
        return found.figure(f"space efficiency ({name}): {store}", lambda table: table[store], how)

    yield used("5.1-space", "Files below 1 KiB use about 12 % of their blocks",
               lambda terms: efficiency("flat", terms, record_size=TINY), Limit("within", 0.12, 1.3), "0.12")
    for store in ("bdb", "rocksdb"):
        yield used(f"5.1-space-{store}", f"{store} takes less space than files even with 100 records below 1 KiB",
                   lambda terms, store=store: middle(grid(("flat", store), f"space, {TINY}, 100", terms,
                       column="space", record_size=TINY, records=100, operation="get")), Limit(">", 1))
    yield used("5.1-space-large", "From 100 KiB on the stores differ little in space: by a tenth at most with 10,000 records",
               lambda terms: spread(grid(EVERYONE, f"space, {LARGE_SIZE}, 10,000", terms, column="space", operation="get",
                   record_size=LARGE_SIZE, records=10_000, compressibility="incompressible")),
               Limit("<=", 1.1))
    for store, published in (("leveldb", "1.55"), ("rocksdb", "1.56")):
        yield Claim(
            f"F-5.1-space-compressed-{store}", source, "5.1, 5.4",
            f"Compression brings {store} to a space efficiency of about 1.5, with 100,000 compressible records of 10 to 100 KiB",
            efficiency(store, SHIPPED, most=True, compressibility="compressible", record_size=MEDIUM, records=100_000),
            "nothing is compressed at equal terms", Limit("within", 1.55, 1.1), published,
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
    slowest = levels("files-or-store", "compression", ("default", "none"), f"time, leveldb, {MEDIUM} and {LARGE_SIZE}",
                     store="leveldb", operation=OPERATIONS, record_size=(MEDIUM, LARGE_SIZE),
                     compressibility="compressible", **SHIPPED)
    yield Claim("F-5.4-20x", source, "5.4", "Compression makes LevelDB up to 20 times slower with large records: from 10 to 40",
                middle(slowest, most=True), None, Limit("within", 20, 2), "20")
    yield used("5.3-space", "SQLite's space efficiency is nearly 100 % at the largest sizes and counts",
               lambda terms: efficiency("sqlite", terms, record_size=LARGE_SIZE, records=10_000), Limit(">", 0.95), "1.0", "5.3")


def _patterns(source: str) -> Iterator[Claim]:
    most, least = 1_000_000, 100
    yield Claim(
        "F-5.3-scales", source, "5.3",
        "SQLite's get of less than 1 KiB slows down by no more than 60 %, from 100 records to a million",
        *steps("sqlite", "records", (most, least), f"get, {TINY}", record_size=TINY, operation="get"),
        Limit("<", 1.65, theirs=True), "1.6",
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
        "F-5.3-worst", source, "5.3", "SQLite is one of the slowest of the six (we take: fifth place or below)",
        *both(lambda terms: ahead(grid(EVERYONE, "all", terms), "sqlite", 4)), Limit("<", 1),
    )
    yield Claim(
        "F-5.5-large", source, "5.5",
        "From 100 KiB on RocksDB degrades in all operations: against files, by half or more from 10-100 KiB",
        *both(_worsening), Limit(">", 1.5),
    )
    yield Claim(
        "F-5.5-insert", source, "5.5",
        "RocksDB's inserts do not slow down with the number of records: from 100 to 10,000 by half at most",
        *steps("rocksdb", "records", (10_000, least), "insert", operation="insert"),
        Limit("<=", 1.5),
    )
    yield Claim(
        "F-5.5-insert-leveldb", source, "5.5",
        "unlike LevelDB, whose inserts do slow down: from 100 to 10,000 by more than half",
        *steps("leveldb", "records", (10_000, least), "insert", operation="insert"),
        Limit(">", 1.5),
    )
    yield Claim(
        "F-5.6-best", source, "5.6", "Berkeley DB is one of the fastest of the four embedded stores (we take: second place or above)",
        *both(lambda terms: ahead(grid(EMBEDDED, "all", terms), "bdb", 2)), Limit(">", 1),
    )
    yield Claim(
        "F-5.6-slowly", source, "5.6", "Its times grow slowly with the number of records: no more than fourfold to 100,000",
        *steps("bdb", "records", (100_000, least), f"{TINY}", record_size=TINY, operation=OPERATIONS),
        Limit("<=", 4),
    )
    for operation in ("insert", "update"):
        sizes, counts = (
            [middle(levels("files-or-store", by, found, operation, store="flat", operation=operation, **terms))
             for terms in (SHIPPED, EQUAL)]
            for by, found in (("record_size", (MEDIUM, SMALL)), ("records", (1000, 100)))
        )
        yield Claim(
            f"F-5.7-size-{operation}", source, "5.7",
            f"What a file's {operation} takes depends on its size more than on the number of files, both tenfold",
            over(sizes[0], counts[0]), over(sizes[1], counts[1]), Limit(">", 1),
        )
    yield from _stalls(source)


def _stalls(source: str) -> Iterator[Claim]:
    def longest(stores: Sequence[str], terms: dict[str, Any]) -> Figure:
        found = grid(stores, "insert, get, update, remove", terms, column="longest_share")
        text = "greatest share of a thousand operations' time that one took"
        return found.figure(text, lambda table: table.max(axis=1), "max")

    yield Claim(
        "F-5.7-stall", source, "5.7", "A single operation on a file can take most of the time of a thousand: in some trial",
        *both(lambda terms: longest(FILES, terms)), Limit(">", 0.5, once=True), "0.91 (707 of 776 ms)",
    )


def _cliffs(source: str) -> Iterator[Claim]:
    many, fewer = 1_000_000, 100_000
    cap = ("64 MiB", "2 GiB")
    claims = (
        ("sqlite", "5.3", ("get",), 64), ("bdb", "5.6", ("get", "update", "remove"), 100),
        ("flat", "5.7", ("get",), 500), ("leveldb", "5.4", ("get",), 4),
    )
    for store, section, operations, published in claims:
        limit = published / 2  # "up to"; for LevelDB's "slows down" ours alone
        words = " or ".join(operations)
        where: dict[str, Any] = {"store": store, "record_size": SMALL, "operation": operations, "compressibility": "incompressible"}
        cliff = middle(
            levels("files-or-store", "records", (many, fewer), f"{words}, {SMALL}", label="as shipped", **where), most=True
        )
        printed = "" if store == "leveldb" else f"{published}"
        yield Claim(
            f"F-{section}-cliff-{store}", source, section,
            f"With a million records of 1 to 10 KiB a {words} of {store} is more than {limit:g} times as slow as with 100,000",
            cliff, "the million was measured as shipped only", Limit(">", limit), printed,
            "the data fit in this machine's memory",
        )
        short = middle(
            levels("files-or-store", "memory_max", cap, f"{words}, {SMALL}, 100,000", label="capped memory", **where), most=True
        )
        yield Claim(
            f"F-{section}-memory-{store}", "this paper", f"hines2023, {section}",
            f"and so it is with 100,000 where memory, page cache included, is an eighth of the data: {words} of {store}",
            short, "the cap was measured as shipped only", Limit(">", limit),
        )
    small = {"store": "flat", "record_size": TINY, "operation": "get"}
    yield Claim(
        "F-5.7-cliff-tiny", source, "5.7", "That of files does not come with records below 1 KiB: no more than twice",
        middle(levels("files-or-store", "records", (many, fewer), f"get, {TINY}", label="as shipped", **small)),
        "the million was measured as shipped only", Limit("<=", 2),
    )
    nothing = "52 GiB of records: beyond this scale, and the source has no such row either"
    yield Claim("F-5.4-large", source, "5.4", "LevelDB's get slows down at 100,000 records of 100 KiB to 1 MiB",
                nothing, nothing, Limit(">", 2))
    kinds = "a million compressible records were not measured at this scale"
    yield Claim("F-5.3-cliff-kinds", source, "5.3", "SQLite's slowdown does not come with compressible data",
                kinds, kinds, Limit("<=", 2))


def _folders(source: str) -> Iterator[Claim]:
    yield Claim("F-5.8-slower", source, "5.8", "Nested folders are slower than a flat one in most cases",
                *both(lambda terms: share(grid(FILES, "all", terms), ("flat",))), Limit(">", 0.5))
    yield Claim("F-5.8-space", source, "5.8", "and take more space",
                *both(lambda terms: middle(grid(("nested", "flat"), "space", terms, column="closed_bytes", operation="get"))),
                Limit(">", 1))
    for operation, words, limit, published in (
        ("remove", ", by 20 to 40 %", Limit("within", 1.3, 1.08), "1.3"), ("update", "", Limit(">", 1), ""),
    ):
        yield Claim(
            f"F-5.8-{operation}", source, "5.8",
            f"but are faster for {operation} with 100,000 records of 10 to 100 KiB{words}",
            *both(lambda terms, operation=operation: middle(grid(("flat", "nested"), f"{operation}, {MEDIUM}, 100,000",
                terms, operation=operation, record_size=MEDIUM, records=100_000))), limit, published,
        )
    constant = both(lambda terms: spread(levels("files-or-store", "records", (100, 1000, 10_000), "get",
        store="flat", operation="get", **terms)))
    yield Claim("F-5.8-constant", source, "5.8", "A file's get varies by no more than twice over the number of files: from 100 to 10,000",
                *constant, Limit("<=", 2, theirs=True), "1 to 2")
