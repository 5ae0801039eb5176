"""Files or an embedded store, 2023: claims.

Its stores ran as shipped. Equal: what is written survives the death of the process, and nothing is
compressed.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from kvbench.cell.factors import DEFAULT, RecordSize

from study.common.fields import each
from study.common.formats import level
from study.sources.published import table
from study.sources.verdicts import (
    OWN,
    Claim,
    Fields,
    Figure,
    Limit,
    Missing,
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
KINDS = ("compressible", "incompressible")
PLAIN = "incompressible"  # what the source stored without compression
COMPRESSED = {"store": ("leveldb", "rocksdb"), "compression": DEFAULT}  # these compress as shipped
MANY, FEWER = 1_000_000, 100_000  # records on either side of the source's cliffs
SHIPPED: dict[str, Any] = {"label": ("as shipped", "as shipped, uncompressed")}
EQUAL: dict[str, Any] = {"label": "equal settings"}
NEARLY_ALL = 0.9  # of the fields, where the source says no less than that files are faster, or so


def printed(number: int) -> float:
    """The figure of a claim of data/published/files-or-store.csv; of percents a share."""
    row = next(row for row in each(table("files-or-store")) if row.claim_number == number)
    return float(row.value) / (100 if row.unit == "%" else 1)


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
    next, each the median over kinds of data and the counts that both sizes have."""
    sizes = (grid(("rocksdb", "flat"), size, terms, record_size=size) for size in (LARGE_SIZE, MEDIUM))

    def behind(fields: Fields, data: pd.DataFrame) -> pd.Series:
        times = fields.table(data).droplevel("record_size")
        found: pd.Series = times["rocksdb"] / times["flat"]
        return found

    large, medium = sizes

    def values(data: pd.DataFrame) -> pd.Series:
        grown = (behind(large, data) / behind(medium, data)).dropna()
        found: pd.Series = grown.groupby(["trial", "operation"]).median().groupby("trial").min()
        return found

    return Figure(f"least over operations: rocksdb / flat ({LARGE_SIZE}) / the same ({MEDIUM})", values, ())


def _beyond() -> str:
    """Why 100,000 records of 100 KiB to 1 MiB have no figure."""
    size = RecordSize.parse(LARGE_SIZE).mean * FEWER / 2**30
    return f"{size:.1f} GiB of records: beyond this scale, and the source has no such row either"


def _cliff(
    stores: Sequence[str], operations: Sequence[str], terms: dict[str, Any],
    sizes: Sequence[str] = (SMALL,), kinds: Sequence[str] = KINDS,
) -> Figure:
    """The factor from 100,000 records to a million: of the operations the greatest, then of stores,
    sizes and kinds of data the least, so that all of them have it."""
    every: dict[str, Any] = {
        "store": tuple(stores), "record_size": tuple(sizes), "compressibility": tuple(kinds),
    }
    name = ", ".join((*stores, " or ".join(operations), *sizes, *kinds))
    fields = levels("files-or-store", "records", (MANY, FEWER), name, operation=tuple(operations),
                    but=COMPRESSED, **every, **terms)

    def values(data: pd.DataFrame) -> pd.Series:
        times = fields.table(data)
        lacking = [level for factor, wanted in every.items() for level in wanted
                   if level not in times.index.get_level_values(factor)]
        if lacking:
            raise Missing(f"{name}: {', '.join(lacking)} not measured on this scale")
        found: pd.Series = (times[MANY] / times[FEWER]).groupby(["trial", *every]).max().groupby("trial").min()
        return found

    return Figure(f"least factor from {FEWER:,} to {MANY:,} records ({name})", values, ())


def _variation(terms: dict[str, Any]) -> Figure:
    """The median over all other factors of the greatest over the least time of the counts, without
    the exception that the source makes."""
    fields = grid(FILES, "all", terms)

    def values(data: pd.DataFrame) -> pd.Series:
        times = fields.table(data)
        level = times.index.get_level_values
        kept = times[(level("records") < MANY) | (level("record_size") != SMALL)]
        counts = kept.groupby(["trial", "record_size", "compressibility", "operation"])
        several = (counts.max() / counts.min())[counts.size() > 1]
        if several.empty:
            raise Missing("all: no two counts measured on this scale")
        found: pd.Series = pd.concat([several[store] for store in FILES]).groupby("trial").median()
        return found

    return Figure(f"median over fields: greatest / least over counts, but {MANY:,} of {SMALL}", values, ())


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
    yield wins("5.1-medium", "From 10 to 100 KiB files are better than the stores or very close (we take: within a tenth) for get and insert", FILES,
               f"{MEDIUM}, get and insert", NEARLY_ALL, slack=1.1, record_size=MEDIUM, operation=bulk_ops)
    yield wins("5.1-medium-remove", "but LevelDB or RocksDB removes faster below 10,000 records, without compression",
               ("leveldb", "rocksdb"), f"{MEDIUM}, remove, below 10,000, without compression", NEARLY_ALL,
               record_size=MEDIUM, operation="remove", records=(100, 1000), compressibility=PLAIN, but=COMPRESSED)
    yield wins("5.1-medium-update", "and Berkeley DB is best at updates", ("bdb",), f"{MEDIUM}, update",
               NEARLY_ALL, record_size=MEDIUM, operation="update")
    yield wins("5.1-large", "From 100 KiB to 1 MiB files are mostly faster for get and insert", FILES,
               f"{LARGE_SIZE}, get and insert", record_size=LARGE_SIZE, operation=bulk_ops)
    for operation in bulk_ops:
        yield wins(f"5.1-large-leveldb-{operation}",
                   f"but LevelDB without compression is faster than files for 1,000 records or fewer: {operation}", ("leveldb",),
                   f"{LARGE_SIZE}, {operation}, up to 1,000, without compression, against files alone",
                   stores=(*FILES, "leveldb"), record_size=LARGE_SIZE, operation=operation, records=(100, 1000),
                   compressibility=PLAIN, but=COMPRESSED)
    yield wins("5.1-large-bdb", "and Berkeley DB does well in updates: within twice the best", ("bdb",),
               f"{LARGE_SIZE}, update", slack=2, record_size=LARGE_SIZE, operation="update")
    yield wins("5.1-large-rocksdb", "and RocksDB without compression is fastest in removes below 10,000 records",
               ("rocksdb",), f"{LARGE_SIZE}, remove, below 10,000, without compression", record_size=LARGE_SIZE,
               operation="remove", records=(100, 1000), compressibility=PLAIN, but=COMPRESSED)
    yield wins("5.1-large-files", "and files are from 10,000 records on", FILES, f"{LARGE_SIZE}, remove, 10,000",
               record_size=LARGE_SIZE, operation="remove", records=10_000, compressibility=PLAIN)


def _space(source: str) -> Iterator[Claim]:
    def used(key: str, words: str, make: Any, limit: Limit, published: str = "", section: str = "5.1") -> Claim:
        shipped, equal = both(make)
        return Claim(f"F-{key}", source, section, words, shipped, equal, limit, published)

    def efficiency(store: str, terms: dict[str, Any], most: bool = False, **where: Any) -> Figure:
        """Live bytes over bytes on disk."""
        name = ", ".join(str(level(one)) for one in where.values())
        found = grid((store,), name, terms, column="efficiency", operation="get", **where)
        how = "max" if most else "median"
        return found.figure(f"space efficiency ({name}): {store}", lambda table: table[store], how)

    yield used("5.1-space", "Files below 1 KiB use about 12% of their blocks",
               lambda terms: efficiency("flat", terms, record_size=TINY), Limit("within", 0.12, 1.3), "0.12")
    for store in ("bdb", "rocksdb"):
        yield used(f"5.1-space-{store}", f"{store} takes less space than files even with 100 records (below 1 KiB by our reading)",
                   lambda terms, store=store: middle(grid(("flat", store), f"space, {TINY}, 100", terms,
                       column="space", record_size=TINY, records=100, operation="get")), Limit(">", 1))
    yield used("5.1-space-large", "At large sizes the differences in space are minimal (we take: a tenth at most, from 100 KiB on, of incompressible records)",
               lambda terms: spread(grid(EVERYONE, f"space, {LARGE_SIZE}", terms, column="space", operation="get",
                   record_size=LARGE_SIZE, compressibility=PLAIN)),
               Limit("<=", 1.1))
    ours = "our compressible data are words by Zipf's law"
    shared = "the source gives it for LevelDB and RocksDB together; that it is RocksDB's follows from 5.4"
    for store, section, most, note in (
        ("leveldb", "5.4", printed(32), ours), ("rocksdb", "5.1", printed(19), f"{ours}; {shared}"),
    ):
        yield Claim(
            f"F-5.1-space-compressed-{store}", source, section,
            f"Compression brings {store}'s space efficiency up to {most:g} (we take: the greatest over compressible records is that, within a tenth)",
            efficiency(store, SHIPPED, most=True, compressibility="compressible"),
            "nothing is compressed at equal terms", Limit("within", most, 1.1), f"{most:g}", note,
        )
    for store in ("leveldb", "rocksdb"):
        saved = levels("files-or-store", "compression", ("none", "default"), f"space, {store}", "space",
                       store=store, operation="get", compressibility="compressible", **SHIPPED)
        yield Claim(f"F-5.2-space-{store}", source, "5.2", f"Compression saves {store} space",
                    middle(saved), None, Limit(">", 1.1))
        slower = levels("files-or-store", "compression", ("default", "none"), f"time, {store}", store=store,
                        operation=OPERATIONS, compressibility="compressible", **SHIPPED)
        yield Claim(f"F-5.2-time-{store}", source, "5.2", f"and makes it notably slower: {store}, by a fifth",
                    middle(slower), None, Limit(">", 1.2))
    slowest = levels("files-or-store", "compression", ("default", "none"), "time, leveldb",
                     store="leveldb", operation=OPERATIONS, compressibility="compressible", **SHIPPED)
    most = printed(28)
    yield Claim("F-5.4-20x", source, "5.4",
                f"Compression makes all operations of LevelDB up to {most:g} times slower, at large sizes or large counts (we take: the greatest factor is half to twice that)",
                middle(slowest, most=True), None, Limit("within", most, 2), f"{most:g}")
    yield used("5.3-space", "SQLite's space efficiency is nearly 100% at the largest sizes and counts",
               lambda terms: efficiency("sqlite", terms, record_size=LARGE_SIZE, records=10_000), Limit(">", 0.95), "1.0", "5.3")


def _patterns(source: str) -> Iterator[Claim]:
    most, least = 1_000_000, 100
    yield Claim(
        "F-5.3-scales", source, "5.3",
        "SQLite's get of less than 1 KiB slows down by no more than 60%, from 100 records to a million",
        *steps("sqlite", "records", (most, least), f"get, {TINY}", record_size=TINY, operation="get"),
        Limit("<", 1.65, theirs=True), "1.6",
    )
    yield Claim(
        "F-5.3-kinds", source, "5.3", "SQLite's updates take 20 to 30% longer with incompressible data",
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
        "From 100 KiB on RocksDB degrades much in all operations (we take: against flat files, by half or more from 10-100 KiB, at equal counts)",
        *both(_worsening), Limit(">", 1.5),
    )
    yield Claim(
        "F-5.5-insert", source, "5.5",
        "RocksDB's inserts do not slow down at high record counts (we take: from 100 to a million by half at most)",
        *steps("rocksdb", "records", (most, least), "insert", operation="insert"),
        Limit("<=", 1.5),
    )
    there = f"by 5.4 at more than 100,000 records of 100 KiB to 1 MiB: {_beyond()}"
    yield Claim(
        "F-5.5-insert-leveldb", source, "5.5", "unlike LevelDB, whose inserts do slow down", there, there, Limit(">", 1),
    )
    yield Claim(
        "F-5.6-best", source, "5.6", "Berkeley DB is one of the fastest of the four embedded stores (we take: second place or above)",
        *both(lambda terms: ahead(grid(EMBEDDED, "all", terms), "bdb", 2)), Limit(">", 1),
    )
    yield Claim(
        "F-5.6-slowly", source, "5.6", "Its times grow slowly with the number of records (we take: from 100 to 100,000 no more than fourfold)",
        *steps("bdb", "records", (FEWER, least), "all", operation=OPERATIONS),
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
        text = "greatest share of the time of a thousand operations that one took, the others at their mean"
        return found.figure(text, lambda table: table.max(axis=1), "max")

    yield Claim(
        "F-5.7-stall", source, "5.7", "A single operation on a file can take most of the time of a thousand: in some trial",
        *both(lambda terms: longest(FILES, terms)), Limit(">", 0.5, once=True), "0.91 (707 of 776 ms)",
    )


def _cliffs(source: str) -> Iterator[Claim]:
    cap = ("64 MiB", "2 GiB")
    get, small = ("get",), "records of 1 to 10 KiB"
    claims: tuple[tuple[str, str, str, int, dict[str, Any]], ...] = (
        ("sqlite", "5.3", f"With a million incompressible {small} SQLite is {{}} times as slow as with 100,000 (we take: a get, half to twice that)",
         22, {"stores": ("sqlite",), "operations": get, "kinds": (PLAIN,)}),
        ("bdb", "5.6", f"With a million {small}, of either kind of data, a get, update or remove of Berkeley DB is up to {{}} times as slow as with 100,000 (we take: half to twice that)",
         37, {"stores": ("bdb",), "operations": ("get", "update", "remove")}),
        ("flat", "5.7", f"With a million {small}, of either kind of data, a get from files is {{}} times as slow as with 100,000 (we take: half to twice that)",
         38, {"stores": FILES, "operations": get}),
        ("leveldb", "5.4", "With a million records of up to 100 KiB LevelDB's gets slow down, without compression too (we take: up to 10 KiB, more than twofold from 100,000)",
         0, {"stores": ("leveldb",), "operations": get, "sizes": (TINY, SMALL)}),
    )
    for store, section, words, number, where in claims:
        factor = printed(number) if number else 0
        figure = f"{factor:g}" if number else ""
        yield Claim(
            f"F-{section}-cliff-{store}", source, section, words.format(figure),
            *both(lambda terms, where=where: _cliff(terms=terms, **where)),
            Limit("within", factor, 2) if number else Limit(">", 2), figure, "the data fit in this machine's memory",
        )
        operations = [name for name in where["operations"] if name != "remove"]
        short = middle(
            levels("files-or-store", "memory_max", cap, f"{' or '.join(operations)}, {SMALL}, 100,000", label="capped memory",
                   store=store, record_size=SMALL, operation=tuple(operations), compressibility=PLAIN), most=True
        )
        least = factor / 2 or 2
        yield Claim(
            f"F-{section}-memory-{store}", OWN, f"hines2023, {section}",
            f"With 100,000 {small} a {' or '.join(operations)} of {store} is more than {least:g} times as slow where memory, page cache included, is an eighth of the data",
            short, "the cap was measured as shipped only", Limit(">", least),
        )
    yield Claim(
        "F-5.7-cliff-tiny", source, "5.7", "That of files does not come with records below 1 KiB: no more than twice",
        *steps("flat", "records", (MANY, FEWER), f"get, {TINY}", record_size=TINY, operation="get"), Limit("<=", 2),
    )
    yield Claim("F-5.4-large", source, "5.4", "LevelDB's get slows down at 100,000 records of 100 KiB to 1 MiB",
                _beyond(), _beyond(), Limit(">", 2))
    yield Claim("F-5.3-cliff-kinds", source, "5.3", "SQLite's slowdown does not come with compressible data (we take: a get, no more than twofold)",
                *both(lambda terms: _cliff(("sqlite",), get, terms, kinds=("compressible",))), Limit("<=", 2))


def _folders(source: str) -> Iterator[Claim]:
    yield Claim("F-5.8-slower", source, "5.8", "Nested folders are slower than a flat one in most cases",
                *both(lambda terms: share(grid(FILES, "all", terms), ("flat",))), Limit(">", 0.5))
    yield Claim("F-5.8-space", source, "5.8", "and take more space",
                *both(lambda terms: middle(grid(("nested", "flat"), "space", terms, column="closed_bytes", operation="get"))),
                Limit(">", 1))
    for operation, words, limit, published in (
        ("remove", ", by 20 to 40%", Limit("within", 1.3, 1.08), "1.3"), ("update", "", Limit(">", 1), ""),
    ):
        yield Claim(
            f"F-5.8-{operation}", source, "5.8",
            f"but are faster for {operation} with 100,000 records of 10 to 100 KiB{words}",
            *both(lambda terms, operation=operation: middle(grid(("flat", "nested"), f"{operation}, {MEDIUM}, 100,000",
                terms, operation=operation, record_size=MEDIUM, records=100_000))), limit, published,
        )
    yield Claim("F-5.8-constant", source, "5.8",
                "Access times of files vary no more than twofold over the record counts, on most ranges (we take: of all four operations)",
                *both(_variation), Limit("<=", 2, theirs=True), "1 to 2",
                "without a million records of 1 to 10 KiB, the source's exception")
