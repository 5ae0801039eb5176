"""LMDB's In-Memory Microbenchmark, 2014: claims.

Durability is the same for all in the source, caches are as large as each engine likes. At the
source's settings: on a tmpfs. Equal: the same, on a disk.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

import dataclasses
from collections.abc import Iterator

from study.common.fields import each
from study.sources.published import numbers, table
from study.sources.verdicts import Claim, Figure, Limit, Side, ahead, levels, ratio, side, value

ENGINES = (
    "leveldb", "basho", "bdb", "hyperleveldb", "lmdb", "rocksdb", "wiredtiger-lsm",
    "wiredtiger-btree",
)

LAST = len(ENGINES) - 1  # of the others

RUN, READ, WRITE = "readwhilewriting", "readwhilewriting read", "readwhilewriting write"
SMALL, LARGE = "smaller data set", "larger data set"
SECTIONS = {"2": SMALL, "3": LARGE}
ASKED = 10_000  # writes a second, by our grid
KEPT = 0.98  # of a rate: what we take for the same
READERS = "by our audit the source's readers are as many as its cores, ours are four"
LOADED = "the source does not say in which order it loads, nor in which batches; we load in key order, in batches"
PLACES = {  # the words of each claim on a place, and the place
    "M-2-read-lmdb": ("LMDB reads most beside a writer", 1),
    "M-2-read-wiredtiger-btree": ("WiredTiger's B-tree reads second most", 2),
    "M-2-read-leveldb": ("LevelDB reads least", LAST),
    "M-3-read-lmdb": ("With the larger data set, too, LMDB reads most", 1),
    "M-3-read-wiredtiger-btree": ("and WiredTiger's B-tree second most", 2),
    "M-3-read-leveldb": ("and LevelDB least", LAST),
    "M-2-load-lmdb": ("LMDB loads fastest", 1),
    "M-2-load-wiredtiger-btree": ("WiredTiger's B-tree loads second fastest", 2),
    "M-2-load-bdb": ("Berkeley DB loads slowest of those measured here", LAST),
}


def run(store: str, operation: str, place: str) -> Side:
    return side("lmdb-2014", store, operation, label=SMALL, place=place)


def page(section: str, store: str, quantity: str, place: int) -> str:
    """What ahead() makes of the printed figures, of the engines that we measured."""
    found, most = numbers("lmdb-2014"), quantity == "reads"
    own = found[section, store, quantity]
    others = sorted((found[section, one, quantity] for one in ENGINES if one != store), reverse=most)
    times = [own / other if most else other / own for other in others]
    better = [1 / times[0]] if place == 2 else []
    return f"{min([times[place - 1], *better]):.3g}"


def placed(name: str, words: str, place: int) -> Claim:
    """The claim that a store has a place among the engines: the first, the second, or the last."""
    _, section, step, store = name.split("-", 3)
    operation, column, quantity = (READ, "rate", "reads") if step == "read" else ("fillseq", "ns", "load wall")
    tmpfs, disk = (
        ahead(levels("lmdb-2014", "store", ENGINES, f"{operation} on {where}", column, label=SECTIONS[section],
                     operation=operation, place=where), store, place, alone=place == 2)
        for where in ("tmpfs", "disk")
    )
    note = LOADED if step == "load" else READERS if section == "3" else ""
    limit = Limit("<" if place == LAST else ">", 1)
    return Claim(name, "lmdb2014", section, words, tmpfs, disk, limit, page(section, store, quantity, place), note)


def written(store: str, tmpfs: Figure | str, disk: Figure | str) -> Claim:
    """The claim that a store writes as many records a second as the source prints. One that falls
    short there of what we ask must fall short here, too."""
    theirs = numbers("lmdb-2014")["2", store, "writes"]
    short = theirs < ASKED
    here = f"as many within {100 - 100 * KEPT:.0f}%" if short else f"no less than {100 * KEPT:.0f}% of these"
    return Claim(
        f"M-2-write-{store}", "lmdb2014", "2",
        f"{store} writes {theirs:,.0f} a second beside four readers; here, where {ASKED:,} are asked, {here}",
        tmpfs, disk, Limit("within", theirs, 1 / KEPT) if short else Limit(">=", KEPT * ASKED), f"{theirs:,.0f} a second",
    )


def grown(store: str) -> Claim:
    """The claim that a store's space does not change much, with how long the source ran it."""
    found = numbers("lmdb-2014")
    growth, wall, writes = (found["2", store, quantity] for quantity in ("final size", "run wall", "writes"))
    growth /= found["2", store, "load size"]
    records = next(float(row.value) for row in each(table("lmdb-2014-settings")) if row.setting == "records")
    tmpfs, disk = (
        ratio(run(store, RUN, place), run(store, "fillseq", place), "disk_bytes",
              text=f"space after {run(store, RUN, place)} / after fillseq") for place in ("tmpfs", "disk")
    )
    note = (f"the source's run took {wall:.0f} s, {writes * wall / records:.2g} overwrites a record; that of our "
            "reference takes 5 s, 0.05 at most")
    return Claim(
        f"M-2-size-{store}", "lmdb2014", "2",
        f"{store}'s space should not change much in the run (we take: by a tenth at most)", tmpfs, disk,
        Limit("within", 1, 1.1), f"{growth:.3f}", note + ("; its own table contradicts it" if growth > 1.1 else ""),
    )


def claims() -> Iterator[Claim]:
    for name, (words, place) in PLACES.items():
        yield placed(name, words, place)
    for store in ENGINES:
        tmpfs, disk = (value(run(store, WRITE, place), "rate", "writes a second") for place in ("tmpfs", "disk"))
        yield written(store, tmpfs, disk)
        yield grown(store)
    nothing = "TokuDB is in no registry and was not measured: see its shim"
    yield dataclasses.replace(written("tokudb", nothing, nothing), id="M-2-tokudb")
