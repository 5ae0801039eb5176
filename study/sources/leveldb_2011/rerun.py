"""LevelDB Benchmarks, 2011: the two versions of the page, and the same work today."""

from collections.abc import Sequence

import pandas as pd
from kvbench.experiment.factors import NOT_STATED

from study.common import formats
from study.common.fields import over_trials, where
from study.common.results import Results
from study.sources.leveldb_2011.claims import BASE, run
from study.sources.published import numbers

STORES = ("leveldb", "kyoto-tree", "sqlite")
FIRST, LATER = "leveldb-2011", "leveldb-2011-wal"
READS, WRITES = ("readseq", "readrandom"), ("fillseq", "fillrandom")


class Page:
    """The figures of the page, in operations per second, and those that we measured."""

    def __init__(self, data: Results) -> None:
        self.printed = numbers("leveldb-2011")
        rows = data.operations
        base = where(rows[rows.label.str.startswith("baseline")], store="leveldb")
        data.require(base[base.operation.isin((*READS, *WRITES))], "baseline of leveldb")
        self.rows = rows.assign(
            speed=rows["items"] / rows.sum_ns * 1e9,
            filled=rows.workload.str.extract("^(fillseq|fillrandom)", expand=False),
        )

    def speed(self, part: str, step: str, store: str, log: bool = True) -> "pd.Series[float]":
        """Return one figure of the page as measured, one value per trial."""
        own = where(self.rows, operation=step, **dict(run(store, step, part, log).where))
        return own.set_index("trial").speed.sort_index()

    def printed_ratio(self, source: str, step: str, store: str) -> float:
        """Return the printed throughput of a store over LevelDB's, in the baseline."""
        return self.printed[source, BASE, step, store] / self.printed[source, BASE, step, "leveldb"]

    def _row(self, part: str, step: str, store: str) -> dict[str, str]:
        row = {"part": part, "workload": step, "store": store}
        sides = ((FIRST, "first version", "here"), (LATER, "later version", "here, with a log"))
        for source, printed, here in sides:
            own, lead = (self.printed[source, part, step, one] for one in (store, "leveldb"))
            row[printed] = f"{own:,.0f}; {own / lead:.2f}"
            log = source == LATER
            measured, best = (self.speed(part, step, one, log) for one in (store, "leveldb"))
            said = f"{formats.rate(measured.median())}; {formats.span(measured / best)}"
            if part != BASE:
                row[printed] += f"; {own / self.printed[source, BASE, step, store]:.2g}"
                start = self.speed(BASE, step, store, log)
                said += f"; {(measured / start).median():.2g}"
            said = said if len(measured) else NOT_STATED
            # Only SQLite differs between the versions; the others were measured once.
            row[here] = said if source == FIRST or store == "sqlite" else ""
        return row

    def beside(self, parts: Sequence[str], steps: Sequence[str]) -> pd.DataFrame:
        """Return the rows of the page's tables, published and measured, as text: operations per
        second, their share of LevelDB's, and outside the baseline the factor over the baseline."""
        shown = pd.DataFrame(
            self._row(part, step, store)
            for part in parts
            for step in steps
            for store in STORES
            if (FIRST, part, step, store) in self.printed
        )
        return shown if len(parts) > 1 else shown.drop(columns="part")

    def versions(self) -> pd.DataFrame:
        """Return SQLite's throughput in the later version over that in the first, as text."""
        parts = (BASE, "Large values", "Batches", "Synchronous writes")
        cases = [(part, step) for part in parts for step in WRITES]
        found = []
        for part, step in [*cases, *((BASE, step) for step in READS)]:
            later, first = (self.printed[source, part, step, "sqlite"] for source in (LATER, FIRST))
            log, without = (self.speed(part, step, "sqlite", log) for log in (True, False))
            row = {"part": part, "workload": step, "published": f"{later / first:.2f}"}
            found.append(row | {"here": formats.span(log / without)})
        return pd.DataFrame(found)

    def over_leveldb(self, step: str) -> pd.DataFrame:
        """Return the over_trials() summary of every store's throughput over LevelDB's, in the
        baseline."""
        filled = "fillseq" if step == "fillseq" else "fillrandom"
        own = where(self.rows, operation=step, filled=filled)
        own = own[own.label.str.startswith("baseline")]
        lead = where(own, store="leveldb").set_index("trial").speed
        journal = own.label.str.removeprefix("baseline").str.replace(" rollback", "")
        value = own.speed / own.trial.map(lead)
        return over_trials(own.assign(store=own.store + journal, value=value), "value", ["store"])
