"""LMDB's In-Memory Microbenchmark, 2014: claims.

The source gives all stores the same durability, and caches as large as each engine can use. At the
source's settings the stores are on a tmpfs; at equal settings they are the same on a disk.
"""

from typing import Any

from study.common.fields import each
from study.sources.published import numbers, table
from study.sources.table import Source

ENGINES = (
    "leveldb", "basho", "bdb", "hyperleveldb", "lmdb", "rocksdb", "wiredtiger-lsm",
    "wiredtiger-btree",
)  # fmt: skip
RUN, READ, WRITE = "readwhilewriting", "readwhilewriting read", "readwhilewriting write"
SMALL = "smaller data set"


def terms(store: str, operation: str, settings: str) -> dict[str, Any]:
    label, place = settings.split(", ")
    return {"label": label, "place": place}


def page(section: str, store: str, quantity: str, place: int) -> str:
    """Return verdicts.ahead() of the printed figures, over the engines that we measured."""
    found, most = numbers("lmdb-2014"), quantity == "reads"
    own = found[section, store, quantity]
    others = sorted(
        (found[section, one, quantity] for one in ENGINES if one != store), reverse=most
    )
    times = [own / other if most else other / own for other in others]
    better = [1 / times[0]] if place == 2 else []
    return f"{min([times[place - 1], *better]):.3g}"


def text(name: str, row: Any) -> str:
    """Return a printed figure of the row's store."""
    if name == "page":
        quantity = "reads" if row.operation == READ else "load wall"
        return page(row.section, row.store, quantity, int(row.statistic.split()[1]))
    found = numbers("lmdb-2014")
    writes, wall = (found["2", row.store, quantity] for quantity in ("writes", "run wall"))
    settings = each(table("lmdb-2014-settings"))
    records = next(float(one.value) for one in settings if one.setting == "records")
    return {
        "rate": f"{writes:g}",
        "writes": f"{writes:,.0f}",
        "wall": f"{wall:.0f}",
        "overwrites": f"{writes * wall / records:.2g}",
        "grown": f"{found['2', row.store, 'final size'] / found['2', row.store, 'load size']:.3f}",
    }[name]


SOURCE = Source(__file__, "lmdb-2014", terms, ENGINES, text=text)
