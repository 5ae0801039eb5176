"""LMDB's In-Memory Microbenchmark, 2014: its table, with today's engines beside it."""

from typing import Any

import pandas as pd
from kvbench.cell.workload import parse

from study.common import formats
from study.common.fields import over_trials, where
from study.common.results import Results
from study.sources import published
from study.sources.lmdb_2014.claims import READ, RUN, SMALL, WRITE

LARGE = "larger data set"
# The source's quantities: their heads in the table, and our unit in units of the source.
HEADS = {
    "load wall": ("load wall [s]", 1),
    "load user": ("user [s]", 1),
    "load system": ("sys [s]", 1),
    "overhead": ("over-head", 1),
    "load size": ("load size [MiB]", 1024),
    "writes": ("writes [1/s]", 1),
    "reads": ("reads [k/s]", 1000),
    "run wall": ("run wall [s]", 1),
    "run user": ("run user [s]", 1),
    "run system": ("run sys [s]", 1),
    "final size": ("final size [MiB]", 1024),
    "cpu": ("CPU %", 1),
    "process size": ("process [MiB]", 1024),
}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Page:
    """The tables of the source. `measured` has one row per cell, `printed` one per section and
    store, with the same quantities."""

    def __init__(self, data: Results) -> None:
        page = published.table("lmdb-2014")
        self.stores = list(page.store.unique())
        values = page.assign(section=page.section.astype(str), value=page.value.astype(float))
        self.printed = values.pivot(index=["section", "store"], columns="quantity", values="value")
        by_step = data.operations.set_index("cell").groupby("operation")
        self._steps = {str(step): own for step, own in by_step}
        for step in ("fillseq", RUN, READ, WRITE):
            data.require(self._steps.get(step, ()), step)
        load, run = self._steps["fillseq"], self._steps[RUN]
        mix = parse(run.workload.iloc[0])[-1]
        self.limit, self.readers = mix.get("writes", 10_000), mix.get("readers", 4)
        cells = data.cells.set_index("cell")
        cooled = data.operations.groupby("cell").cooled.any()
        self.measured = cells[["store", "records", "label", "place", "trial"]].assign(
            cooled=cooled,
            **{
                "load wall": load.sum_ns / 1e9,
                "load user": load.user_s,
                "load system": load.system_s,
                "overhead": (load.user_s + load.system_s) / load.wall_s,
                "load size": load.disk_bytes / 1024,
                "writes": self._steps[WRITE]["items"] / run.wall_s,
                "reads": self._steps[READ]["items"] / run.wall_s,
                "run wall": run.wall_s,
                "run user": run.user_s,
                "run system": run.system_s,
                "final size": run.disk_bytes / 1024,
                "cpu": 100 * (run.user_s + run.system_s) / run.wall_s,
                "process size": cells.memory_bytes / 1024,
            },
        )

    def table(self, section: str, label: str) -> pd.DataFrame:
        """Return two rows per engine with the source's columns, as text: as printed, and as
        measured on a tmpfs."""
        found = []
        for store in self.stores:
            found.append(_row(f"{store}, 2014", self.printed.loc[(section, store)]))
            here = where(self.measured, store=store, label=label, place="tmpfs")
            medians = here[list(HEADS)].median() if len(here) else None
            missing = "" if len(here) else ": not to be had"
            found.append(_row(f"{store}, here{missing}", medians))
        return pd.DataFrame(found).fillna("")

    def on_disk(self) -> pd.DataFrame:
        """Return the smaller data set on a disk, and its reads over those on the tmpfs, as text."""
        found = []
        for store in self.stores:
            small = where(self.measured, store=store, label=SMALL)
            disk, tmpfs = (where(small, place=place) for place in ("disk", "tmpfs"))
            if disk.empty:
                continue
            found.append(
                {
                    "engine": store,
                    "load wall [s]": formats.span(disk["load wall"]),
                    "writes/s": formats.span(disk.writes, 0),
                    "reads/s": formats.span(disk.reads, 0),
                    "final / load size": formats.span(disk["final size"] / disk["load size"]),
                    "CPU %": formats.span(disk.cpu, 0),
                    "reads: disk / tmpfs": f"{disk.reads.median() / tmpfs.reads.median():.2f}",
                }
            )
        return pd.DataFrame(found)

    def printed_reads(self, section: str) -> "pd.Series[float]":
        """Return the printed reads of every store over LMDB's."""
        reads: pd.Series[float] = self.printed.reads.loc[section]
        return reads / reads["lmdb"]

    def reads(self, place: str) -> pd.DataFrame:
        """Return the over_trials() summary of every store's reads over the median of LMDB's."""
        own = where(self.measured, label=SMALL, place=place)
        lead = where(own, store="lmdb").reads.median()
        return over_trials(own.assign(value=own.reads / lead), "value", ["store"])

    def timelines(self) -> dict[str, Any]:
        """Return, for each measured store, the reads and writes in each tenth of a second of the
        first trial."""
        own = where(self.measured, label=SMALL, place="tmpfs").sort_values("trial")
        first = own.reset_index().groupby("store").cell.first()
        return {
            store: [self._steps[step].timeline[first[store]] for step in (READ, WRITE)]
            for store in self.stores
            if store in first
        }


def _row(name: str, found: "pd.Series[float] | None") -> dict[str, str]:
    """Return a row of the table. A long name may break within a word."""
    for part, broken in (("wiredtiger", "wired\u200btiger"), ("hyper", "hyper\u200b")):
        name = name.replace(part, broken)
    if found is None:
        return {"engine": name}
    values = {head: _number(found[name] / unit) for name, (head, unit) in HEADS.items()}
    return {"engine": name} | values
