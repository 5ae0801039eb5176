"""Today's benchmarks: where their figures contradict each other, and where durability is
unequal."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from kvbench.cell.factors import DURABILITY

from study.common.fields import each
from study.sources import published
from study.sources.findings import Found, Range, rounded

SOURCES = ("redb-2025", "fjall-2026", "tidesdb-2026", "keybench-2026", "kvbench-2026")
SCALE = {"Mop/s": 1e6, "kop/s": 1e3, "ms": 1e-3, "us": 1e-6}  # to op/s and s


def exact(row: Any) -> Range:
    """Return a figure in seconds, operations per second, or its own unit."""
    return rounded(row.value).times(SCALE.get(row.unit, 1))


def today(source: str) -> pd.DataFrame:
    """Return the figures that a source printed, as published.printed() has them, without rows that
    have no value."""
    return published.printed(source).query("value != ''")


def durability(source: str) -> list[Any]:
    table = published.printed(f"{source}-settings")
    return list(table[table.setting == "durability"].itertuples())


def level(rows: list[Any], place: tuple[str, str, str]) -> str:
    """Return the durability of a figure by its section, workload and store: that of the row of
    `durability` that matches the most of them."""
    found: dict[int, list[str]] = {}
    for row in rows:
        named = row.section, row.workload, row.store
        if all(x in ("", y) for x, y in zip(named, place, strict=True)):
            found.setdefault(sum(map(bool, named)), []).append(row.value)
    (value,) = found[max(found)]
    return str(value)


def factors() -> Iterator[Found]:
    """Check each factor of two stores whose figures are printed beside it."""
    for source in SOURCES:
        rows = {(r.section, r.workload, r.store, r.quantity): r for r in each(today(source))}
        for (section, workload, store, quantity), row in rows.items():
            pair = [rows.get((section, workload, one, quantity)) for one in store.split(";")]
            if len(pair) == 2 and all(pair):
                ratio = exact(pair[0]) / exact(pair[1])
                if not ratio.meets(rounded(row.value)):
                    item, now = f"{workload} {quantity}", f"{sum(ratio) / 2:.2g}"
                    yield Found(source, section, "factor", item, row.value, now, "times")


def ranges() -> Iterator[Found]:
    """Check each "from ... to ..." against the factors that it summarises."""
    sums = [
        ("tidesdb-2026", "9.8.0", "bulk writes", "throughput", "(sequential|random) writes"),
        ("tidesdb-2026", "9.8.0", "bulk writes", "p99", "(sequential|random) writes"),
        ("keybench-2026", "small server", "three of four", "memory", "mixed|cart|scan"),
        ("keybench-2026", "small server", "all", "factor", "batch of 64"),
        ("keybench-2026", "large server", "all", "factor", "batch of 64"),
    ]
    for source, section, workload, quantity, parts in sums:
        table = today(source).query("section == @section")
        ends = table[(table.workload == workload) & table.quantity.str.startswith(f"{quantity}, ")]
        value = dict(zip(ends.quantity, ends.value, strict=True))
        least, most = (value[f"{quantity}, {end}"] for end in ("least", "most"))
        above, below = ends.store.iloc[0].split(";")
        for part, group in table[table.workload.str.fullmatch(parts)].groupby("workload"):
            figures = {(r.store, r.quantity): r for r in each(group)}
            if quantity == "factor":
                ratios = [exact(r) for r in figures.values() if r.quantity.startswith("factor")]
            else:
                ratios = [exact(figures[above, quantity]) / exact(figures[below, quantity])]
            for ratio in ratios:
                if not ratio.meets(Range(rounded(least).low, rounded(most).high)):
                    printed = least if ratio.high < rounded(least).low else most
                    item, now = f"{part} {quantity}", f"{sum(ratio) / 2:.2g}"
                    yield Found(source, section, "range", item, printed, now, "times")


def figures_twice() -> Iterator[Found]:
    """Compare kvbench's overview of the engines with the pages that it summarises."""
    table = today("kvbench-2026")
    rest = table[table.section != "engines"]
    pages = {(r.workload, r.store, r.quantity): r for r in each(rest)}
    for row in each(table[table.section == "engines"]):
        page = pages[row.workload, row.store, row.quantity]
        if not rounded(row.value).meets(rounded(page.value)):
            item = f"{row.workload} {row.store}"
            here = "kvbench-2026", "engines", "two figures for one", item
            yield Found(*here, row.value, page.value, row.unit)


READ_ONLY = "(.*reads.*|.*scan.*|.*seeks.*|YCSB C|all.*)"


def unequal() -> Iterator[Found]:
    """Find sections that compare writes of stores with different durability."""
    found = set()
    for source in SOURCES:
        table = published.printed(source)
        writes = table[table.unit.isin(["op/s", "wu/s", "kop/s", "Mop/s"])]
        writes = writes[~writes.workload.str.fullmatch(READ_ONLY)]
        places = set(writes[["section", "workload", "store"]].itertuples(index=False, name=None))
        rows = durability(source)
        places |= {(r.section, r.workload, r.store) for r in rows if r.store}
        for section, workload in {place[:2] for place in places}:
            stores = {p[2] for p in places if p[:2] == (section, workload) and ";" not in p[2]}
            known = {s: level(rows, (section, workload, s)) for s in stores}
            order = [x for x in DURABILITY if x in known.values()]
            if len(order) > 1 and section:
                least = ";".join(sorted(s for s, x in known.items() if x == order[0]))
                here = source, section, "unequal durability"
                found.add(Found(*here, least, order[0], order[-1], ""))
    yield from found


CHECKS = (factors, ranges, figures_twice, unequal)
WORDS = (
    Found("kvbench-2026", "methodology", "wording", "load", "open", "closed", ""),
    Found("kvbench-2026", "methodology", "wording", "sqlite", "sync a commit", "NORMAL", ""),
    Found("kvbench-2026", "durable-writes", "wording", "sqlite", "group commit", "1", ""),
    Found("kvbench-2026", "mixed", "wording", "sqlite p99", "tens of ms", "1.9 ms", ""),
)
