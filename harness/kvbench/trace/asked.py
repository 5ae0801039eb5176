"""What a trace asks of a store: the question that `kvbench advise` answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kvbench.common.messages import BadInput, listed
from kvbench.trace.format import Trace
from kvbench.trace.recorder.kvbench_recorder.rows import (
    ABORT,
    ALONE,
    COMMIT,
    FOUND,
    GET,
    OTHER,
    PUT,
    REMOVE,
    SCAN,
)

POPULAR = 0.2  # of the keys: what share of the operations they get
QUANTILES = (0.05, 0.5, 0.95)
# The store of the measurements that is the library of a trace, with access from Python.
STORES = {
    "files": "flat/io", "dbm.gnu": "gdbm/dbm.gnu", "dbm.sqlite3": "sqlite/dbm.sqlite3",
    "plyvel": "leveldb/plyvel", "lmdb": "lmdb/lmdb", "sqlite3": "sqlite/sqlite3",
    "diskcache": "sqlite/diskcache",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What was done to the records of one store. `mix` has the shares of insert, get, update and
    remove among these operations; a get that found nothing counts as one. Sizes are in bytes,
    times in seconds (NaN: not known); `size` is the mean of the values, each key's last."""

    kind: str
    operations: Mapping[str, int]  # also scan and other
    mix: Mapping[str, float]
    records: int  # the most that were there at a time, of those that the trace shows
    size: int
    sizes: tuple[int, ...]  # at QUANTILES
    missed: float  # the share of the gets that found nothing
    popular: float  # the share of the operations that go to POPULAR of the keys
    batch: float  # the mean number of writes of a transaction
    threads: int
    seconds: float
    spent: float  # in the calls

    @property
    def store(self) -> str:
        """Its name in the measurements; empty if it has none."""
        return STORES.get(self.kind, "")


def stores(trace: Trace) -> pd.DataFrame:
    """The stores of a trace, that with most operations first: `store`, `kind` (empty: not known)
    and `operations`, by hash."""
    rows = trace.rows[np.isin(trace.rows["operation"], (GET, PUT, REMOVE, SCAN, OTHER))]
    found, counts = np.unique(rows["store"], return_counts=True)
    table = pd.DataFrame({"store": found, "operations": counts})
    table["kind"] = [trace.kinds.get(int(store), "") for store in found]
    return table.sort_values("operations", ascending=False, ignore_index=True)


def asked(trace: Trace, number: int = 1) -> Asked:
    """What the trace did to its store with the most operations, or to another by its place in
    stores(). Raises BadInput if there is none, or if it has no operation on single records."""
    known = stores(trace)
    if known.empty:
        raise BadInput("the trace has no operation; allowed: one with records that are used")
    if not 1 <= number <= len(known):
        raise BadInput(
            f"--trace-store: {number} is not allowed; allowed: "
            + listed(range(1, len(known) + 1), number)
        )
    own = known.iloc[number - 1]
    rows = pd.DataFrame(trace.rows[trace.rows["store"] == own.store])
    single = rows[rows.operation.isin([GET, PUT, REMOVE])].reset_index(drop=True)
    if single.empty:
        raise BadInput(
            f"store {number} of the trace has no get, put or remove of single records; allowed: "
            "one that has"
        )
    there, made = _there(single)
    names = np.select(
        [single.operation == GET, single.operation == REMOVE, made], ["get", "remove", "insert"],
        "update",
    )  # fmt: skip
    counts = pd.Series(names).value_counts()
    others = {"scan": SCAN, "other": OTHER}
    operations = {str(name): int(count) for name, count in counts.items()} | {
        name: int((rows.operation == code).sum()) for name, code in others.items()
    }
    sized = single[(single["size"] > 0) | (single.operation == PUT)]
    last = sized.groupby("key")["size"].last()
    gets = single[single.operation == GET]
    by_key = single.key.value_counts()
    most = max(int(np.ceil(POPULAR * len(by_key))), 1)
    return Asked(
        str(own.kind),
        operations,
        {str(name): float(count / len(single)) for name, count in counts.items()},
        there,
        max(round(float(last.mean())), 1) if len(last) else 1,
        tuple(int(value) for value in last.quantile(list(QUANTILES))) if len(last) else (),
        float((gets["flags"] & FOUND == 0).mean()) if len(gets) else 0.0,
        float(by_key.iloc[:most].sum() / len(single)),
        _batch(rows),
        int(rows.thread.nunique()),
        float(np.ptp(rows.time.to_numpy())) / 1e9,
        float(rows.took.sum()) / 1e9,
    )


def _there(single: pd.DataFrame) -> tuple[int, Any]:
    """The most records that were there at a time, and which puts made a record. A key was there
    before the trace if its first operation finds, overwrites or removes it; a first put without
    such evidence makes it."""
    found = np.select(
        [single.operation == GET, single.operation == PUT],
        [(single["flags"] & FOUND) > 0, True],
        False,
    )  # whether the key is there after the operation
    after = pd.Series(found, index=single.index)
    before = after.groupby(single.key).shift()
    first = before.isna()
    was = before.where(~first, False).astype(bool)
    made = (single.operation == PUT) & ~was
    # A get that found its key, and a remove, show that it was there, if nothing was known.
    known = first & (((single.operation == GET) & after) | (single.operation == REMOVE))
    change = after.astype(int) - (was | known).astype(int)
    change = change.where(~((single.operation == GET) & ~first), 0)
    return max(int(known.sum() + change.cumsum().max()), int(known.sum()), 1), made.to_numpy()


def _batch(rows: pd.DataFrame) -> float:
    """The mean number of writes of a transaction that wrote."""
    writes = rows[rows.operation.isin([PUT, REMOVE])]
    if writes.empty:
        return 1.0
    alone = int((writes["flags"] & ALONE > 0).sum())
    ends = int(rows.operation.isin([COMMIT, ABORT]).sum())
    return len(writes) / max(alone + ends, 1)
