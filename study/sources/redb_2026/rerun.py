"""redb's benchmark: its table of August 2025 compared with the same work on today's stores, and the
verdicts on what the table claims."""

import dataclasses
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench.cell.workload import TRAFFIC, Step, parse
from kvbench.experiment.factors import NOT_STATED

from study.common import formats
from study.common.fields import each, over_trials, ranked, where
from study.common.notebook import root
from study.common.results import Results
from study.sources import published, verdicts
from study.sources.verdicts import Claim, Figure, Limit, Side, combined, ratio

SOURCE, EXPERIMENT, BASE = "redb-2025", "redb-2026", "redb"
ONE, READERS, REMOVALS, COMPACTED = "one thread", "readers", "removals", "compacted"  # labels


@dataclasses.dataclass(frozen=True)
class Work:
    """A row of the source's table, and the step that corresponds to it here. The time that the
    source prints covers as many operations as the product of the settings in `counts`, each given
    with its workload."""

    name: str
    label: str
    step: str
    counts: tuple[tuple[str, str], ...]
    printed: str = ""  # the row's name in the source's table, if it differs
    readers: int = 0

    @property
    def row(self) -> str:
        return self.printed or self.name


READS = (("", "reads of one thread"),)
TOGETHER = (("", "reads of several threads together"),)
TIMES = (
    Work("bulk load", ONE, "fillrandom", (("bulk load", "records"),)),
    Work("individual writes", ONE, "insertrandom", (("individual writes", "transactions"),)),
    Work(
        "batch writes",
        ONE,
        "insertrandom 2",
        (("batch writes", "transactions"), ("batch writes", "batch")),
    ),
    Work("random reads", ONE, "readrandom 2", READS, "random reads, second"),
    Work("range reads", ONE, "rangerandom 2", (("", "range reads"),), "random range reads, second"),
    *(
        Work(
            f"reads, {n} threads",
            READERS,
            f"{TRAFFIC} read",
            TOGETHER,
            f"random reads ({n} threads)",
            n,
        )
        for n in (4, 8)
    ),
    Work("removals", REMOVALS, "deleterandom", (("removals", "records"),)),
)
SPACE = (
    Work("size", REMOVALS, "deleterandom", (), "uncompacted size"),
    Work("compacted size", COMPACTED, "compact", (), "compacted size"),
)
UNITS = {"ms": 1e6, "MiB": 2**20, "GiB": 2**30}  # in ns or bytes


def readers(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the number of readers in the workload of each row; 0 if it has none."""
    counts = {text: parse(text)[-1].get("readers", 0) for text in set(rows.workload)}
    return rows.workload.map(counts)


class Page:
    """The figures of the source and those measured: times per operation in ns, or bytes of space
    per live record."""

    def __init__(self, data: Results) -> None:
        table = published.table(SOURCE)
        self.printed = {
            (row.workload, row.store): float(row.value) * UNITS[row.unit]
            for row in each(table)
            if row.value
        }
        self.stores = list(table.store.unique())
        rows = published.table(f"{SOURCE}-settings")
        self.settings = {(row.workload, row.store, row.setting): row.value for row in each(rows)}
        left = data.cells.set_index("cell").live_records
        own = data.operations
        own = own[own.label.isin({work.label for work in TIMES + SPACE})]
        data.require(where(own, store=BASE), f"step of {BASE} at the labels of its grid")
        wall = own.operation.str.startswith(TRAFFIC)
        self.rows = own.assign(
            readers=readers(own),
            time=(own.wall_s * 1e9).where(wall, own.sum_ns) / own["items"],
            space=own.disk_bytes / own.cell.map(left),
        )

    def count(self, work: Work) -> int:
        """Return the number of operations that the source's figure covers; for a size, the
        remaining records."""
        number = {key: int(value) for key, value in self.settings.items() if value.isdecimal()}
        if work in SPACE:
            return number["removals", "", "records"]  # as many as were removed
        return prod(number[workload, "", setting] for workload, setting in work.counts)

    def published(self, work: Work, store: str) -> float:
        """Return the published figure for one operation or live record; NaN if the source has
        none."""
        return self.printed.get((work.row, store), float("nan")) / self.count(work)

    def _rows(self, work: Work, store: str) -> pd.DataFrame:
        """Return the rows of a work and store, by trial; `value` corresponds to the result of
        `published`."""
        own = where(self.rows, store=store, label=work.label, operation=work.step)
        own = own[own.readers == work.readers].set_index("trial").sort_index()
        return own.assign(value=own["space" if work in SPACE else "time"])

    def beside(self, works: tuple[Work, ...], stores: list[str]) -> pd.DataFrame:
        """Return one row per work and store, as text: the time of one operation or the space of one
        record, and its ratio to redb's in the same table or trial."""
        found = []
        for work in works:
            show = formats.size if work in SPACE else formats.time
            for store in stores:
                printed, first = (self.published(work, one) for one in (store, BASE))
                here, lead = (self._rows(work, one).value for one in (store, BASE))
                row = {"workload": work.name, "store": store}
                said = "" if pd.isna(printed) else show(printed), f"{printed / first:.2f}"
                row |= {"published": said[0], "over redb": said[1] if said[0] else ""}
                row["here"] = show(here.median()) if len(here) else ""
                found.append(row | {"over redb here": formats.span((here / lead).dropna())})
        return pd.DataFrame(found)

    def over_redb(self, works: tuple[Work, ...]) -> pd.DataFrame:
        """Return the over_trials() summary of every store's value over redb's, trial by trial."""
        found = []
        for work in works:
            lead = self._rows(work, BASE).value
            for store in sorted(set(self.rows.store)):
                own = self._rows(work, store).assign(work=work.name)
                found.append(own.assign(value=own.value / lead).dropna(subset="value"))
        return over_trials(pd.concat(found), "value", ["work", "store"])

    def scaling(self) -> pd.DataFrame:
        """Return the over_trials() summary of the gets per second, by store and number of
        readers."""
        own = where(self.rows, label=READERS, operation=f"{TRAFFIC} read")
        return over_trials(own.assign(rate=1e9 / own.time), "rate", ["store", "readers"])


def stores_table(page: Page, data: Results) -> pd.DataFrame:
    """Return the version and the durability of each store, published and here."""
    found = []
    measured = data.cells[data.cells.label == ONE].groupby("store")
    for store in [*page.stores, *(one for one in data.stores() if one not in page.stores)]:
        own = measured.get_group(store).iloc[0] if store in measured.groups else None
        found.append(
            {
                "store": store,
                "version, published": page.settings.get(("", store, "version"), ""),
                "durability, published": page.settings.get(("", store, "durability"), ""),
                "version, here": "not measured" if own is None else own.engine_version,
                "durability, here": "" if own is None else own.guarantee,
            }
        )
    return pd.DataFrame(found)


def differences(page: Page, data: Results) -> pd.DataFrame:
    """Return what differs between the two runs, besides the versions of the engines."""
    said, machine = page.settings, data.facts()
    one, removal = (
        parse(own.iloc[0]) if len(own := where(data.cells, label=label).workload) else ()
        for label in (ONE, REMOVALS)
    )

    def ops(steps: Sequence[Step], at: int, key: str = "ops") -> str:
        """The number that a step states; missing where its part was not measured."""
        return f"{steps[at].get(key, 1):,}" if steps else NOT_STATED

    counts = f"{data.counts()[-1]:,}"
    rows = {
        "processor": (said["", "", "processor"], f"{machine['cpu']}, {machine['cores']} cores"),
        "disk": (said["", "", "disk"], f"{machine['file_system']}, fsync {machine['fsync']}"),
        "records loaded": (f"{page.count(TIMES[0]):,}", counts),
        "transactions of the load": (
            "one; RocksDB in steps of 100,000, only the first synced",
            f"{ops(one, 0, 'batch')} records each, synced",
        ),
        "individual writes": (f"{page.count(TIMES[1]):,}", ops(one, 1)),
        "records in batches of 1,000": (f"{page.count(TIMES[2]):,}", ops(one, 2)),
        "gets of one thread": (
            f"{page.count(TIMES[3]):,}, each record once, in one read transaction",
            f"{ops(one, 3)}, records drawn at random, each a read of its own",
        ),
        "ranges of 10": (f"{page.count(TIMES[4]):,}", ops(one, 5)),
        "removals": (
            f"{page.count(TIMES[-1]):,} in one synced transaction",
            f"{ops(removal, -1)}, a transaction each, not synced",
        ),
        "cache": (
            f"{said['', '', 'cache']} GiB where the engine has one; SQLite's as shipped",
            "as shipped",
        ),
        "a time includes": ("making random keys and values", "the call of the store, with a copy"),
        "checked of a value": ("its first byte", "every byte"),
        "repetitions": (said["", "", "repetitions"], f"{data.trials} trials, each a new process"),
    }
    return pd.DataFrame(
        [{"": name, "published": old, "here": new} for name, (old, new) in rows.items()]
    )


# The rows of the source's table that each claim of data/published/claims-2026.csv is about.
CLAIMED = {
    2: TIMES[1:2], 3: TIMES[:1], 4: TIMES[2:3], 5: TIMES[3:4], 6: TIMES[4:5], 7: TIMES[5:7],
    8: TIMES[7:], 9: SPACE[:1], 10: SPACE[1:],
}  # fmt: skip
# Claims that the harness cannot test as the source does.
OTHERWISE = {8: "the source removes in one synced transaction, here each is one and not synced"}
ALIKE = 2.0  # two stores within this factor perform alike


def _side(work: Work, store: str) -> Side:
    wanted = {"store": store, "label": work.label, "readers": work.readers}
    return Side(EXPERIMENT, work.step, wanted)


def _over(work: Work, store: str, other: str) -> Figure:
    """Return how many times the store's time or space another store takes."""
    if work.readers:  # the rate of all threads together
        return ratio(_side(work, store), _side(work, other), "rate", "gets a second")
    column = "disk_bytes" if work in SPACE else "ns"
    return ratio(_side(work, other), _side(work, store), column, "time or space")


def claims(page: Page) -> Iterator[Claim]:
    """Iterate over the claims that redb's README makes by bold figures or in words; without sled,
    which this package does not include."""
    rows = published.table("claims-2026")
    for row in each(rows[rows.source == SOURCE]):
        number = int(row.claim_number)
        others = [one for one in row.against.split(";") if one != "sled"]
        works = CLAIMED.get(number, TIMES)
        pairs = [(work, other) for work in works for other in others]
        how, limit = ("min", Limit(">", 1)) if number in CLAIMED else (
            "median", Limit("within", 1, ALIKE)
        )  # fmt: skip
        words = "nearest other store / " if how == "min" else "median of all workloads, others / "
        figure = combined(
            [_over(work, row.store, other) for work, other in pairs], how, words + row.store
        )
        printed = pd.Series(
            [page.published(work, other) / page.published(work, row.store) for work, other in pairs]
        )
        yield Claim(
            f"E-{number}", "redb2025", "table", row.claim, OTHERWISE.get(number, figure), None,
            limit, f"{printed.agg(how):.2f}",
        )  # fmt: skip


def judge(page: Page, folder: Path) -> pd.DataFrame:
    """Return one row per claim, as text: what the source's table says, what we measured, and the
    verdict."""
    evidence = root() / "data" / "durability" / "evidence.csv"
    data = verdicts.load({EXPERIMENT: folder}, evidence)
    table = verdicts.judge(list(claims(page)), data.assign(readers=readers(data)))
    spans = [
        "" if pd.isna(row.source_value) else f"{row.source_value:.2f}"
        + ("" if pd.isna(row.source_low) else f" ({row.source_low:.2f} to {row.source_high:.2f})")
        for row in each(table)
    ]  # fmt: skip
    reasons = table.source_why.str.split(";").str[0]  # without the facts of each side
    plain = table.source_verdict.isin([verdicts.HOLDS, verdicts.FAILS])
    shown = table.assign(here=spans, why=reasons.mask(plain, ""))
    columns = ["claim", "predicate", "published", "here", "source_verdict", "why"]
    return shown[columns].rename(columns={"source_verdict": "verdict"})


def facts(page: Page, data: Results) -> dict[str, Any]:
    """Return the values of the run that the text states."""
    return {
        "trials": data.trials,
        "records": f"{data.counts()[-1]:,}",
        "over": {
            work.name.replace(" ", "_").replace(",", ""): f"{own['median'].min():.2f}"
            for work in TIMES
            if len(own := where(ranked(page.over_redb((work,))), work=work.name))
        },
    }
