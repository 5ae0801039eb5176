"""RocksDB's benchmarks, 2013: the workloads of the page as its commands ran them, as its text
states them, at equal settings, and with one setting changed."""

from collections.abc import Mapping, Sequence

import pandas as pd
from kvbench.experiment.factors import NOT_STATED

from study.common import formats
from study.common.fields import quantiles, where, written
from study.common.results import Results
from study.sources import published
from study.sources.rocksdb_2013.claims import (
    AUDITED,
    BUFFERED,
    EQUAL,
    ORDER,
    OVERWRITE,
    RANDOM,
    STATED,
    loads,
)

STEPS = {RANDOM: "fillrandom", ORDER: "fillseq", OVERWRITE: "overwrite"}
LABELS = (AUDITED, STATED, EQUAL)
TAILS = {"P50": 0.5, "P99": 0.99, "P99.9": 0.999, "P99.99": 0.9999}


class Page:
    def __init__(self, data: Results) -> None:
        self.page = published.table("rocksdb-2013")
        known = data.operations[data.operations.label.isin(LABELS)]
        for store in ("rocksdb", "leveldb"):
            own = where(known, store=store)
            data.require(own[own.operation.isin(STEPS.values())], f"load or overwrite of {store}")
        rows = written(data.operations)
        counted = " and ".join(sorted(set(rows.written_by) - {""})) or NOT_STATED
        self.amplification = f"B written a byte ({counted})"
        size = data.cells.set_index("cell").record_size_max
        keys = pd.to_numeric(rows.key_size, errors="coerce")  # imports may not state it
        self.rows = rows.assign(
            bytes=rows["items"] * (keys + rows.cell.map(size)), wall=rows.sum_ns / 1e9
        )

    def trials(self, work: str, store: str, label: str) -> pd.DataFrame:
        """Return one row per trial; a load in two passes has their sum. LevelDB's overwrite as
        audited has the buffer of its command."""
        if (work, store, label) == (OVERWRITE, "leveldb", AUDITED):
            label = BUFFERED
        own = where(self.rows, store=store, label=label)
        second = {"compact"} & set(own.operation) if work == RANDOM else ()
        steps = [STEPS[work], *second]
        own = own[own.operation.isin(steps)]
        first, last = (
            where(own, operation=step).set_index("trial").sort_index()
            for step in (steps[0], steps[-1])
        )
        sums = own.groupby("trial")[["wall", "written"]].sum()
        return first.assign(
            wall=sums.wall,
            mb_s=first.bytes / 1e6 / sums.wall,
            disk_bytes=last.disk_bytes,
            amplification=sums.written / first.bytes,
        )

    def speedup(
        self, work: str, one: tuple[str, str], other: tuple[str, str]
    ) -> "pd.Series[float]":
        """Return the throughput of one store at its settings over that of another, trial by
        trial."""
        return self.trials(work, *one).mb_s / self.trials(work, *other).mb_s

    def _printed(self, work: str, store: str, quantity: str) -> str:
        own = where(self.page, workload=work, store=store, quantity=quantity)
        if own.empty or not own.value.iloc[0]:
            return ""
        return f"{own.value.iloc[0]} {own.unit.iloc[0]}".replace(" us", " µs").strip()

    def published(self, work: str, store: str) -> dict[str, str]:
        """Return a row of the page, as text."""
        found = {name: self._printed(work, store, name) for name in ("wall time", "size", "P99.99")}
        found["MB/s"] = self._printed(work, store, "throughput").replace(" MB/s", "")
        if keys := self._printed(work, store, "keys inserted in 24 h").split(" ")[0]:
            found["wall time"] = f"24 h for {int(keys):,}"
        if not any(found.values()):
            found["wall time"] = "left blank"
        where_ = {"workload": STEPS[work], "store": f"{store}, published", "records": "1 G"}
        return where_ | found

    def measured(self, work: str, store: str, label: str) -> dict[str, str]:
        """Return the same row as measured."""
        own = self.trials(work, store, label)
        return {
            "workload": STEPS[work],
            "store": f"{store}, {label}",
            "records": formats.count(own.records.max()),
            "wall time": formats.time(own.wall.median() * 1e9),
            "MB/s": formats.span(own.mb_s, 0),
            "size": formats.size(own.disk_bytes.median()),
            **{name: formats.time(quantiles(own, share).median()) for name, share in TAILS.items()},
            self.amplification: formats.span(own.amplification, 1),
        }

    def beside(self, labels: Mapping[str, Sequence[str]], printed: bool = True) -> pd.DataFrame:
        """Return the rows of each workload and store: as printed, and as measured at its labels."""
        found = []
        for work in STEPS:
            for store, own in labels.items():
                found += [self.published(work, store)] if printed else []
                found += [self.measured(work, store, label) for label in own]
        heads = ["workload", "store", "records", "wall time", "MB/s", "size", *TAILS]
        return pd.DataFrame(found, columns=[*heads, self.amplification]).fillna("")

    def leads(self, work: str) -> dict[str, "pd.Series[float]"]:
        """Return RocksDB's throughput over LevelDB's: as published, if the page has it, and at each
        setting."""
        own = {
            label: self.speedup(work, ("rocksdb", label), ("leveldb", label)) for label in LABELS
        }
        if work == OVERWRITE:
            return own
        return {"as published": pd.Series([loads(work, "leveldb") / loads(work, "rocksdb")])} | own

    def one_at_a_time(self, work: str) -> dict[str, "pd.Series[float]"]:
        """Return the throughput over RocksDB's at equal settings, with one setting changed, and
        LevelDB's."""
        equal = ("rocksdb", EQUAL)
        changed = [
            label for label in sorted(set(self.rows.label)) if label.startswith(f"{EQUAL}, ")
        ]
        found = {
            label.removeprefix(f"{EQUAL}, "): self.speedup(work, ("rocksdb", label), equal)
            for label in changed
            if len(self.trials(work, "rocksdb", label))
        }
        return found | {"LevelDB instead": self.speedup(work, ("leveldb", EQUAL), equal)}
