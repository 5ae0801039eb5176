"""The published figures are complete; findings.csv lists their contradictions and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, NamedTuple

import pandas as pd
import pytest
from support import ROOT

DATA = ROOT / "data" / "published"
KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
WRITES, READS = ["fillseq", "fillrandom"], ["readseq", "readrandom"]
TWENTY_ELEVEN = ["leveldb-2011", "leveldb-2011-wal"]
TODAY = ["redb-2025", "fjall-2026", "tidesdb-2026", "keybench-2026", "kvbench-2026"]
UNITS = {
    *("", "%", "1", "1/min", "1000 lines", "B", "GB", "GHz", "GiB", "KB", "MB", "MB/s", "MHz"),
    *("MiB", "Mop/s", "entry/s", "key/s", "kop/s", "min", "ms", "op/s", "px", "s", "times", "us"),
    "wu/s",
}
SCALE = {"Mop/s": 1e6, "kop/s": 1e3, "ms": 1e-3, "us": 1e-6}  # to op/s and s
LEVELS = ["none", "process", "sync"]
UNKNOWN = "not stated"
FILES = {
    "leveldb-2011.csv": (110, [*TWENTY_ELEVEN]),
    "leveldb-2011-settings.csv": (96, [*TWENTY_ELEVEN]),
    "rocksdb-2013.csv": (35, ["rocksdb-2013"]),
    "lmdb-2014.csv": (2 * 9 * 13, ["lmdb-2014"]),
    "lmdb-2014-settings.csv": (8, ["lmdb-2014"]),
    "files-or-store.csv": (50, ["hines-2023"]),
    "claims-2026.csv": (40, TODAY),
}
FILES |= {
    f"{source}.csv": (rows, [source])
    for source, rows in zip(TODAY, (90, 8, 117, 162, 157), strict=True)
}
FILES |= {
    f"{source}-settings.csv": (rows, [source])
    for source, rows in zip(TODAY, (31, 43, 34, 31, 43), strict=True)
}


def read(name: str) -> pd.DataFrame:
    """A table of text, because 1.00 and 1.0 are rounded differently."""
    return pd.read_csv(DATA / name, dtype=str, keep_default_na=False)


class Range(NamedTuple):
    """The values that a rounded figure, or a result of rounded figures, may stand for."""

    low: float
    high: float

    def __truediv__(self, other: Range) -> Range:
        return Range(self.low / other.high, self.high / other.low)

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    def meets(self, other: Range) -> bool:
        return self.low <= other.high * (1 + 1e-12) and other.low <= self.high * (1 + 1e-12)


def rounded(text: str) -> Range:
    """The range of half a unit of the last significant digit; whole numbers have at least two."""
    whole, _, decimals = text.partition(".")
    zeros = len(whole) - max(2, len(whole.rstrip("0"))) if not decimals else 0
    half = 0.5 * 10.0 ** (max(zeros, 0) - len(decimals))
    return Range(float(text) - half, float(text) + half)


def test_a_rounded_figure_stands_for_a_range() -> None:
    assert rounded("1.00") == pytest.approx((0.995, 1.005))
    assert rounded("129000") == (128500, 129500)
    assert rounded("1000") == (950, 1050)
    assert rounded("7") == (6.5, 7.5)
    assert not (rounded("129") / rounded("151")).meets(rounded("0.87"))
    assert (rounded("129") / rounded("151")).meets(rounded("0.85"))


class Found(NamedTuple):
    """A row of findings.csv, without its text."""

    source: str
    section: str
    check: str
    item: str
    published: str
    recomputed: str
    unit: str


# LevelDB Benchmarks, 2011

Cell = tuple[str, str, str, str]


def leveldb() -> dict[Cell, Any]:
    table = read("leveldb-2011.csv")
    rows = {(r.source, r.section, r.workload, r.store): r for r in table.itertuples()}
    assert len(rows) == len(table)
    return rows


def baseline(rows: dict[Cell, Any], row: Any) -> Any:
    section = {"readseq": "1.A", "readrandom": "1.B", "fillseq": "1.C", "fillrandom": "1.D"}
    return rows[row.source, section[row.workload], row.workload, row.store]


def leveldb_rows() -> Iterator[Found]:
    """Checks each row: its factor, its bar, and the speed that the disk's rotation allows."""
    rows = leveldb()
    settings = read("leveldb-2011-settings.csv").set_index(["source", "setting"]).value
    for row in rows.values():
        where = row.source, row.section
        item = f"{row.workload} {row.store}"
        if row.section != row.printed_section and item == "readseq leveldb":
            yield Found(*where, "section number", "", row.printed_section, row.section, "")
        if row.times_baseline:
            ratio = rounded(row.value) / rounded(baseline(rows, row).value)
            if not ratio.meets(rounded(row.times_baseline)):
                now = f"{float(row.value) / float(baseline(rows, row).value):.2g}"
                yield Found(*where, "times baseline", item, row.times_baseline, now, "times")
        if row.bar_px:
            group = [
                r
                for r in rows.values()
                if (r.source, r.section, r.workload) == (*where, row.workload)
            ]
            most = max((r.value for r in group), key=float)
            px = (rounded(row.value) / rounded(most)).times(350)
            if not px.meets(Range(int(row.bar_px) - 1, int(row.bar_px) + 1)):
                now = f"{350 * float(row.value) / float(most):.0f}"
                yield Found(*where, "bar", item, row.bar_px, now, "px")
        turns = float(settings[row.source, "drive speed"]) / 60
        if row.part == "Synchronous writes" and rounded(row.value).low > turns:
            yield Found(*where, "turns of the disk", item, row.value, f"{turns:.0f}", row.unit)


def leveldb_prose() -> Iterator[Found]:
    """Checks the statements of the text, and compares the two versions."""
    rows = leveldb()
    old, new = TWENTY_ELEVEN
    for (source, section, workload, store), row in rows.items():
        item = f"{workload} {store}"
        if row.part == "Synchronous writes" and rows[source, "ext4", "", store].value:
            drop = rounded(rows[source, "ext4", "", store].value) / rounded(row.value)
            if drop.low > 0.5:
                left = f"{float(rows[source, 'ext4', '', store].value) / float(row.value):.2f}"
                yield Found(source, "ext4", "much slower", item, "much slower", left, "times")
        if (section, store) == ("2.A", "leveldb"):
            other = rows[source, section, workload, "kyoto-tree"]
            if (rounded(row.value) / rounded(other.value)).low > 1:
                now = f"{float(row.value) / float(other.value):.2f}"
                yield Found(source, section, "order of stores", item, "behind", now, "times")
        copied = section in ("2.D", "3.B")
        synchronous = row.part in ("Synchronous writes", "ext4")
        if (source, store) != (old, "sqlite") or copied or synchronous:
            continue
        later = rows[new, section, workload, store].value
        gain = rounded(later) / rounded(row.value)
        percent = f"{100 * (float(later) / float(row.value) - 1):.0f}"
        if workload in WRITES and not gain.meets(Range(1.2, 1.4)):
            yield Found(old, section, "write-ahead log", item, "30", percent, "%")
        if workload in READS and not gain.meets(Range(0.9, 1.1)):
            yield Found(new, section, "read figure changed", item, later, row.value, row.unit)


# RocksDB, 2013

TEXT = "rocksdb-2013"


def figure(section: str, store: str, quantity: str) -> str:
    table = read("rocksdb-2013.csv").set_index(["section", "store", "quantity"]).value
    return str(table[section, store, quantity])


def rocksdb_figures() -> Iterator[Found]:
    """Sizes are in GiB and rates in MiB/s wherever these agree better."""
    record = int(figure("1", "", "key")) + int(figure("1", "", "value"))
    records = int(figure("1", "", "records"))
    loaded = rounded(figure("2", "rocksdb", "size"))
    du = int(figure("2", "rocksdb", "size by du")) * KI
    if not loaded.meets(Range(du / 1e9, du / 1e9)):
        yield Found(
            TEXT, "2", "size", "rocksdb", figure("2", "rocksdb", "size"), f"{du / 1e9:.1f}", "GB"
        )
    if not loaded.times(GI / record).meets(rounded(str(records))):
        kept = f"{du / record:.3g}"
        yield Found(TEXT, "2", "records kept", "rocksdb", str(records), f"{float(kept):.0f}", "1")
    for section, store in (("2", "rocksdb"), ("3", "rocksdb"), ("3", "leveldb")):
        seconds = rounded(figure(section, store, "wall time")).times(60)
        rate = figure(section, store, "throughput")
        size = figure(section, store, "size")
        if not (rounded(size).times(KI) / seconds).meets(rounded(rate)):
            now = f"{float(size) * KI / 60 / float(figure(section, store, 'wall time')):.1f}"
            yield Found(TEXT, section, "size over time", store, rate, now, "MB/s")
        whole = Range(record * records, record * records)
        if section == "3" and not whole.times(1 / GI).meets(rounded(size)):
            yield Found(TEXT, "3", "size", store, size, f"{whole.low / GI:.1f}", "GB")
        fits = any((whole.times(1 / unit) / seconds).meets(rounded(rate)) for unit in (1e6, MI))
        if section == "2" and not fits:
            now = f"{whole.low / MI / 60 / float(figure(section, store, 'wall time')):.0f}"
            yield Found(TEXT, section, "bytes written over time", store, rate, now, "MB/s")
    speed = figure("4", "rocksdb", "operations per second")
    if not rounded(speed).times(record / MI).meets(rounded(figure("4", "rocksdb", "throughput"))):
        published = figure("4", "rocksdb", "throughput")
        now = f"{int(speed) * record / MI:.2f}"
        yield Found(TEXT, "4", "bytes written over time", "rocksdb", published, now, "MB/s")
    each = rounded(figure("4", "rocksdb", "time per operation"))
    if not (Range(1e6, 1e6) / each).meets(rounded(speed)):
        yield Found(
            TEXT, "4", "operations per second", "rocksdb", speed, f"{1e6 / each.low}", "op/s"
        )
    wall = int(figure("4", "rocksdb", "wall time")) * 60
    if not each.times(records / 1e6).meets(Range(wall - 30, wall + 60)):
        yield Found(TEXT, "4", "wall time", "rocksdb", f"{wall}", f"{each.low * records}", "s")
    if not figure("4", "leveldb", "wall time"):
        yield Found(TEXT, "4", "missing figure", "leveldb", "", "", "min")


def rocksdb_settings() -> Iterator[Found]:
    """Compares the commands with the text, with each other, and each with itself."""
    table = read("rocksdb-2013-settings.csv")
    table = table[table.step == "1"]
    options = table.set_index(["section", "store", "setting"]).value.to_dict()
    for section in ("2", "3", "4"):
        for store in ("rocksdb", "leveldb"):
            cache = options[section, store, "cache_size"]
            if int(cache) != int(figure("1", "rocksdb", "block cache")) * GI:
                yield Found(TEXT, section, "block cache", store, str(GI), cache, "B")
            share = options[section, store, "compression_ratio"]
            if not 0 < float(share) <= 1:
                yield Found(
                    TEXT, section, "compression ratio", store, share, f"{float(share) / 100:g}", "1"
                )
        kind, text = options[section, "rocksdb", "compression_type"], figure("1", "", "compression")
        if kind != text:
            yield Found(TEXT, section, "compression", "rocksdb", text, kind, "")
        first = int(options[section, "rocksdb", "min_level_to_compress"])
        last = int(options[section, "rocksdb", "num_levels"]) - 1
        if first > last:
            yield Found(TEXT, section, "compressed level", "rocksdb", str(first), str(last), "1")
        for option, unit in (("write_buffer_size", "B"), ("block_size", "B"), ("disable_wal", "")):
            ours, theirs = (options.get((section, s, option), "") for s in ("rocksdb", "leveldb"))
            if ours != theirs:
                yield Found(TEXT, section, "unequal setting", option, ours, theirs, unit)


# In-memory microbenchmark, 2014


def lmdb() -> Iterator[tuple[str, str, dict[str, str]]]:
    for (section, store), group in read("lmdb-2014.csv").groupby(["section", "store"], sort=False):
        yield section, store, dict(zip(group.quantity, group.value, strict=True))


def lmdb_found() -> Iterator[Found]:
    settings = read("lmdb-2014-settings.csv").set_index(["section", "setting"]).value
    readers, writers = int(settings["2", "readers"]), int(settings["2", "writers"])
    record = int(settings["2", "key"]) + int(settings["2", "value"])
    expected = float(settings["2", "size of the database, about"]) * 1e9 / KI
    for section, store, text in lmdb():
        where = "lmdb-2014", section
        x = {quantity: float(value) for quantity, value in text.items()}
        records = int(settings[section, "records"])
        overhead = (x["load user"] + x["load system"]) / x["load wall"]
        if abs(overhead - x["overhead"]) > 1e-9:
            yield Found(*where, "overhead", store, text["overhead"], f"{overhead:.10f}", "1")
        used = 100 * (x["run user"] + x["run system"])
        wall = x["run wall"]  # from one hour on, printed without fractions of a second
        busy = Range(used / (wall + (1 if wall >= 3600 else 0)), used / wall)
        if not busy.meets(Range(x["cpu"] - 0.5, x["cpu"] + 1)):
            yield Found(*where, "cpu", store, text["cpu"], f"{busy.high:.1f}", "%")
        passes = x["reads"] * wall / records
        stopped = 3600 <= wall < 3630
        if passes > 1.01 * readers or (passes < 0.99 * readers and not stopped):
            yield Found(*where, "readers", store, str(readers), f"{passes:.2f}", "1")
        if x["cpu"] > 100 * (readers + writers):
            threads = f"{x['cpu'] / 100:.1f}"
            yield Found(*where, "threads", store, str(readers + writers), threads, "1")
        least = record * records / KI
        if x["load size"] < least:
            yield Found(
                *where, "less than its data", store, text["load size"], f"{least:.0f}", "KB"
            )
        if section == "2" and not 1 / 1.5 < x["load size"] / expected < 1.5:
            now = f"{x['load size'] * KI / 1e9:.1f}"
            published = settings["2", "size of the database, about"]
            yield Found(*where, "size of the database", store, published, now, "GB")
        growth = x["final size"] / x["load size"]
        if not 0.9 < growth < 1.1:
            yield Found(*where, "size kept", store, text["load size"], text["final size"], "KB")


# Files and embedded stores, 2023

CLASSES = {"1 KiB to 10 KiB": 5.5, "10 KiB to 100 KiB": 55, "100 KiB to 1 MiB": 562}  # mean, KiB


def files_found() -> Iterator[Found]:
    table = read("files-or-store.csv")

    def value(section: str, printed: str) -> str:
        (row,) = table[(table.section == section) & (table.printed == printed)].itertuples()
        return str(row.value)

    share, total, longest = (value("5.7", p) for p in ("90% of the time", "776 ms", "707 ms"))
    if not (rounded(longest) / rounded(total)).times(100).meets(rounded(share)):
        now = f"{100 * float(longest) / float(total):.1f}"
        yield Found("hines-2023", "5.7", "share of the sum", "nested", share, now, "%")
    one, other = value("5.1", "up to 156%"), value("5.4", "155 percent")
    if one != other:
        yield Found("hines-2023", "5.1", "two figures for one", "leveldb;rocksdb", one, other, "%")
    limit = float(value("5", "50 GiB"))
    for row in table.itertuples():
        count = re.sub(r"^(from|over|under|up to) ", "", row.records)
        size = row.record_size.replace("up to 100 KiB", "10 KiB to 100 KiB")
        if count.isdigit() and size in CLASSES:
            gib = CLASSES[size] * int(count) / MI
            if gib > limit:
                item = f"{row.operation} {row.store} {row.record_size}"
                now = f"{gib:.1f}"
                yield Found("hines-2023", row.section, "limit", item, f"{limit:.0f}", now, "GiB")
    slow = table[(table.section == "5.7") & (table.unit == "times")]
    most = float(
        table[(table.section == "5.8") & (table.printed == "1-2x")].value.astype(float).max()
    )
    exceptions = sum(float(v) > most for v in slow.value)
    if exceptions != 1:
        yield Found("hines-2023", "5.8", "exceptions", "files", "1", str(exceptions), "1")


# Today's benchmarks


def exact(row: Any) -> Range:
    """A figure in seconds, operations a second, or its own unit."""
    return rounded(row.value).times(SCALE.get(row.unit, 1))


def today(source: str) -> pd.DataFrame:
    return read(f"{source}.csv").query("value != ''")


def durability(source: str) -> list[Any]:
    table = read(f"{source}-settings.csv")
    return list(table[table.setting == "durability"].itertuples())


def level(rows: list[Any], place: tuple[str, str, str]) -> str:
    """The durability of a figure, by section, workload and store: that of the row of `durability`
    which names the most of them."""
    found: dict[int, list[str]] = {}
    for row in rows:
        named = row.section, row.workload, row.store
        if all(x in ("", y) for x, y in zip(named, place, strict=True)):
            found.setdefault(sum(map(bool, named)), []).append(row.value)
    (value,) = found[max(found)]
    return str(value)


def factors() -> Iterator[Found]:
    """Checks each factor of two stores whose figures are printed beside it."""
    for source in TODAY:
        rows = {(r.section, r.workload, r.store, r.quantity): r for r in today(source).itertuples()}
        assert len(rows) == len(today(source))
        for (section, workload, store, quantity), row in rows.items():
            pair = [rows.get((section, workload, one, quantity)) for one in store.split(";")]
            if len(pair) == 2 and all(pair):
                ratio = exact(pair[0]) / exact(pair[1])
                if not ratio.meets(rounded(row.value)):
                    item, now = f"{workload} {quantity}", f"{sum(ratio) / 2:.2g}"
                    yield Found(source, section, "factor", item, row.value, now, "times")


def ranges() -> Iterator[Found]:
    """Checks each "from ... to ..." with the factors that it sums up."""
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
            figures = {(r.store, r.quantity): r for r in group.itertuples()}
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
    """Compares kvbench's overview of the engines with the pages that it sums up."""
    table = today("kvbench-2026")
    rest = table[table.section != "engines"]
    pages = {(r.workload, r.store, r.quantity): r for r in rest.itertuples()}
    for row in table[table.section == "engines"].itertuples():
        page = pages[row.workload, row.store, row.quantity]
        assert row.unit == page.unit
        if not rounded(row.value).meets(rounded(page.value)):
            item = f"{row.workload} {row.store}"
            here = "kvbench-2026", "engines", "two figures for one", item
            yield Found(*here, row.value, page.value, row.unit)


READ_ONLY = "(.*reads.*|.*scan.*|.*seeks.*|YCSB C|all.*)"


def unequal() -> Iterator[Found]:
    """Finds sections that compare writes of stores with different durability."""
    found = set()
    for source in TODAY:
        table = read(f"{source}.csv")
        writes = table[table.unit.isin(["op/s", "wu/s", "kop/s", "Mop/s"])]
        writes = writes[~writes.workload.str.fullmatch(READ_ONLY)]
        places = set(writes[["section", "workload", "store"]].itertuples(index=False, name=None))
        rows = durability(source)
        places |= {(r.section, r.workload, r.store) for r in rows if r.store}
        for section, workload in {place[:2] for place in places}:
            stores = {p[2] for p in places if p[:2] == (section, workload) and ";" not in p[2]}
            known = {s: level(rows, (section, workload, s)) for s in stores}
            order = [x for x in LEVELS if x in known.values()]
            if len(order) > 1 and section:
                least = ";".join(sorted(s for s, x in known.items() if x == order[0]))
                here = source, section, "unequal durability"
                found.add(Found(*here, least, order[0], order[-1], ""))
    yield from found


# Contradictions in words, without computation.
WORDS = {
    Found("hines-2023", "5.2", "wording", "leveldb;rocksdb", "on and off", "default", ""),
    Found("hines-2023", "5.7", "wording", "flat", "folders", "files", ""),
    Found("hines-2023", "5.5", "wording", "remove rocksdb", "degrades", "fastest", ""),
    Found("kvbench-2026", "methodology", "wording", "load", "open", "closed", ""),
    Found("kvbench-2026", "methodology", "wording", "sqlite", "sync a commit", "NORMAL", ""),
    Found("kvbench-2026", "durable-writes", "wording", "sqlite", "group commit", "1", ""),
    Found("kvbench-2026", "mixed", "wording", "sqlite p99", "tens of ms", "1.9 ms", ""),
}


CHECKS = [
    *(leveldb_rows, leveldb_prose, rocksdb_figures, rocksdb_settings, lmdb_found, files_found),
    *(ranges, figures_twice, unequal),
]


def findings() -> dict[Found, str]:
    table = read("findings.csv").set_index("finding")
    rows = {Found(*row[1:]): row[0] for row in table.itertuples(name=None)}
    assert len(rows) == len(table)
    return rows


def test_the_list_of_contradictions_is_complete_and_right() -> None:
    found = [row for check in CHECKS for row in check()]
    assert len(found) == len(set(found))
    assert not list(factors())
    listed = set(findings())
    assert set(found) | WORDS == listed
    assert not set(found) & WORDS


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_finds_something(check: Callable[[], Iterator[Found]]) -> None:
    assert any(True for _ in check())


def test_findings_state_their_place_and_figures() -> None:
    sections = {
        (row.source, row.section)
        for name in (*FILES, "sources.csv")
        for row in read(name)[["source", "section"]].itertuples()
    }
    for row, finding in findings().items():
        assert (row.source, row.section) in sections
        assert row.unit in UNITS
        assert finding.endswith(".") and len(finding) > 40
        assert row.published != row.recomputed or row.check == "missing figure"


def test_a_wrong_figure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests the checks: after one figure is changed, exactly its row disagrees, too."""
    true = read

    def wrong(name: str) -> pd.DataFrame:
        table = true(name)
        if name == "leveldb-2011.csv":
            table.loc[table.times_baseline == "1.04", "times_baseline"] = "1.06"
        if name == "lmdb-2014.csv":
            overhead = (table.quantity == "overhead") & (table.store == "lmdb")
            table.loc[overhead, "value"] = "0.9981563981"
        if name == "keybench-2026.csv":
            table.loc[table.value == "3.96", "value"] = "3.99"
        return table

    before = set(leveldb_rows()), set(lmdb_found())
    monkeypatch.setitem(globals(), "read", wrong)
    assert {(r.section, r.item) for r in set(leveldb_rows()) - before[0]} == {
        ("2.E", "fillseq leveldb")
    }
    assert {(r.check, r.item) for r in set(lmdb_found()) - before[1]} == {("overhead", "lmdb")}
    assert [r.item for r in factors()] == ["mixed, 64 threads throughput"]


# The content of the tables


@pytest.mark.parametrize("name", FILES)
def test_tables_have_every_row_once(name: str) -> None:
    rows, sources = FILES[name]
    table = read(name)
    assert len(table) == rows
    assert sorted(set(table.source)) == sorted(sources)
    assert set(table.unit) <= UNITS
    assert not table.duplicated().any()


def test_every_part_of_leveldb_has_its_stores_and_workloads() -> None:
    parts = {
        "Baseline": (["1.A", "1.B", "1.C", "1.D"], READS + WRITES),
        "Large values": (["2.A"], WRITES),
        "Batches": (["2.B"], WRITES),
        "Synchronous writes": (["2.C"], WRITES),
        "Compression off": (["2.D"], WRITES),
        "More memory (writes)": (["2.E"], WRITES),
        "Larger caches": (["3.A"], READS),
        "Compression off (reads)": (["3.B"], READS),
        "ext4": (["ext4"], [""]),
    }
    stores = {"leveldb", "kyoto-tree", "sqlite"}
    table = read("leveldb-2011.csv")
    assert set(table.part) == set(parts)
    for (source, part), group in table.groupby(["source", "part"]):
        sections, workloads = parts[part]
        assert sorted(set(group.section)) == sections, source
        expected = stores - {"kyoto-tree"} if part == "Batches" else stores
        assert {tuple(x) for x in group[["workload", "store"]].to_numpy()} == {
            (workload, store) for workload in workloads for store in expected
        }
        assert set(group.unit) == {"entry/s" if part == "Batches" else "op/s"}
        assert (group.bar_px == "").all() == (part == "ext4")
    blank = table[table.value == ""]
    assert [tuple(x) for x in blank[["source", "section", "store"]].to_numpy()] == [
        ("leveldb-2011-wal", "ext4", "sqlite")
    ]
    assert ((table.approximate == "true") == ((table.part == "ext4") & (table.value != ""))).all()
    assert (table.value[table.value != ""].astype(float) > 0).all()


def test_sqlite_without_compression_is_its_baseline() -> None:
    rows = leveldb()
    copies = [r for r in rows.values() if r.section in ("2.D", "3.B") and r.store == "sqlite"]
    assert len(copies) == 8
    assert all(r.value == baseline(rows, r).value for r in copies)


def test_factors_of_large_values_are_of_bytes() -> None:
    """The earlier version's factors agree once keys and values are counted in bytes."""
    rows = leveldb()
    factors = [r for r in rows.values() if r.section == "2.A" and r.times_baseline]
    assert len(factors) == 6
    for row in factors:
        ratio = (rounded(row.value) / rounded(baseline(rows, row).value)).times(100016 / 116)
        assert ratio.meets(rounded(row.times_baseline))


def test_tree_is_compared_with_its_sequential_writes() -> None:
    """The factor 3.60 of both versions uses another baseline than the stated one."""
    rows = leveldb()
    for source in TWENTY_ELEVEN:
        row = rows[source, "3.B", "readseq", "kyoto-tree"]
        writes = rows[source, "1.C", "fillseq", "kyoto-tree"]
        assert (rounded(row.value) / rounded(writes.value)).meets(rounded(row.times_baseline))


def test_factors_of_synchronous_writes_are_the_earlier_ones() -> None:
    """Factors that disagree with the later version's figures are copies of the earlier ones, which
    agree with the earlier figures."""
    rows = leveldb()
    old, new = TWENTY_ELEVEN
    stale = [
        r
        for r in leveldb_rows()
        if (r.source, r.section, r.check) == (new, "2.C", "times baseline")
    ]
    assert len(stale) == 4
    for row in stale:
        workload, store = row.item.split()
        before = rows[old, "2.C", workload, store]
        assert row.published == before.times_baseline
        ratio = rounded(before.value) / rounded(baseline(rows, before).value)
        assert ratio.meets(rounded(row.published))


def test_batches_in_order_over_batches_at_random() -> None:
    rows = leveldb()
    settings = read("leveldb-2011-settings.csv")
    stated = settings[settings.setting == "batches in key order over random order"]
    assert len(stated) == 3
    for row in stated.itertuples():
        seq, at_random = (rows[row.source, "2.B", w, row.store].value for w in WRITES)
        assert (rounded(seq) / rounded(at_random)).meets(rounded(row.value))


@pytest.mark.parametrize("source", TWENTY_ELEVEN)
def test_memory_of_leveldb_2011_adds_up(source: str) -> None:
    table = read("leveldb-2011-settings.csv")
    rows = table[table.source == source].set_index(["section", "store", "setting"]).value
    for section in ("1", "2.E", "3.A"):
        total = int(rows[section, "", "cache"])
        own = [int(rows[section, "leveldb", x]) for x in ("write buffer", "cache")]
        assert sum(own) == total
    for section in ("1", "2.E"):
        page, pages = (int(rows[section, "sqlite", x]) for x in ("page", "pages of cache"))
        assert page * pages == int(rows[section, "", "cache"]) * MI


def test_only_sqlite_and_the_drive_differ_between_the_versions() -> None:
    """Apart from synchronous writes, LevelDB and TreeDB have the same figures in both."""
    rows = leveldb()
    old, new = TWENTY_ELEVEN
    changed = {
        (row.section, row.workload, row.store)
        for row in rows.values()
        if row.source == old
        and row.store != "sqlite"
        and not rounded(row.value).meets(
            rounded(rows[new, row.section, row.workload, row.store].value)
        )
    }
    assert changed == {("2.C", w, s) for w in WRITES for s in ("leveldb", "kyoto-tree")} | {
        ("ext4", "", "leveldb")
    }


def test_rocksdb_has_every_workload_of_both_engines() -> None:
    table = read("rocksdb-2013.csv")
    workloads = {
        "2": "bulk load in random order",
        "3": "bulk load in key order",
        "4": "random overwrite",
    }
    results = table[table.section != "1"]
    assert {tuple(x) for x in results[["section", "workload", "store"]].to_numpy()} == {
        (*pair, store) for pair in workloads.items() for store in ("rocksdb", "leveldb")
    }
    blank = table[table.value == ""]
    assert [(r.section, r.store, r.quantity) for r in blank.itertuples()] == [
        ("2", "leveldb", "wall time"),
        ("4", "leveldb", "wall time"),
    ]
    sockets, cores, cpus, threads = (
        int(figure("1", "", q)) for q in ("sockets", "cores per socket", "cpus", "virtual cpus")
    )
    assert (sockets * cores, 2 * cpus) == (cpus, threads)


def test_rocksdb_ran_with_keys_of_16_bytes() -> None:
    """Three figures that contradict keys of 10 B agree with 16 B."""
    records, record = int(figure("1", "", "records")), 16 + int(figure("1", "", "value"))
    for store in ("rocksdb", "leveldb"):
        assert f"{records * record / GI:.0f}" == figure("3", store, "size")
    speed = int(figure("4", "rocksdb", "operations per second"))
    assert f"{speed * record / MI:.1f}" == figure("4", "rocksdb", "throughput")


def test_rocksdb_settings_name_every_command() -> None:
    table = read("rocksdb-2013-settings.csv")
    assert list(table.columns) == ["section", "store", "step", "setting", "value"]
    assert not table.duplicated(["section", "store", "step", "setting"]).any()
    assert (table.value != "").all()
    options = table.set_index(["section", "store", "step", "setting"]).value
    commands = set(table[["section", "store", "step"]].itertuples(index=False, name=None))
    assert commands == {(s, e, "1") for s in "234" for e in ("rocksdb", "leveldb")} | {
        ("2", "rocksdb", "2")
    }
    for command in commands:
        assert options[*command, "num"] == figure("1", "", "records")
        assert options[*command, "value_size"] == figure("1", "", "value")
        assert (*command, "key_size") not in options
    benchmarks = {"2": "fillrandom", "3": "fillseq", "4": "overwrite"}
    for section, store, step in commands:
        expected = "compact" if step == "2" else benchmarks[section]
        assert options[section, store, step, "benchmarks"] == expected


def test_lmdb_tables_are_whole_and_converted() -> None:
    table = read("lmdb-2014.csv")
    sizes = table.groupby(["section", "store"]).quantity.agg(["size", "nunique"])
    assert len(sizes) == 2 * 9
    assert (sizes == 13).all().all()
    assert set(table.store) == {
        *("leveldb", "basho", "bdb", "hyperleveldb", "lmdb", "rocksdb", "tokudb"),
        *("wiredtiger-lsm", "wiredtiger-btree"),
    }
    for row in table.itertuples():
        parts = [float(x) for x in row.printed.rstrip("%").split(":")]
        seconds = sum(x * 60**i for i, x in enumerate(reversed(parts)))
        assert float(row.value) == pytest.approx(seconds, abs=1e-11)
        assert (row.unit == "s") == (":" in row.printed)
        assert (row.unit == "%") == row.printed.endswith("%")


def test_lmdb_larger_runs_fit_16_readers() -> None:
    """No run read more than 16 readers can, with up to 5% of the time spent otherwise."""
    for section, _, text in lmdb():
        if section == "3":
            passes = float(text["reads"]) * float(text["run wall"]) / 100e6
            assert passes < 16 * 1.05


def test_claims_are_numbered_and_as_printed() -> None:
    table = read("files-or-store.csv")
    assert [int(n) for n in table.claim_number] == list(range(1, len(table) + 1))
    assert set(table.section) == {"5", *(f"5.{n}" for n in range(1, 9))}
    stores = {"flat", "nested", "bdb", "leveldb", "rocksdb", "sqlite", ""}
    assert set(";".join(table.store).split(";")) <= stores
    operations = {"get", "insert", "update", "remove", "space", ""}
    assert set(";".join(table.operation).split(";")) <= operations
    assert set(table.data) == {"", "compressible", "incompressible"}
    for row in table.itertuples():
        assert bool(row.value) == bool(row.unit) == bool(row.printed)
        assert row.value in re.findall(r"\d+", row.printed) or not row.value


@pytest.mark.parametrize("source", TODAY)
def test_figures_of_today_state_their_document(source: str) -> None:
    table = read("sources.csv").query("source == @source")
    sections = set(table.section)
    for row in table.itertuples():
        assert re.fullmatch(r"[\w-]+/[\w.-]+", row.repository)
        assert re.fullmatch(r"[\w./-]+\.mdx?", row.file)
        assert re.fullmatch(r"[0-9a-f]{40}", row.commit)
        assert date.fromisoformat(row.date).year == int(source[-4:])
        host = re.match(r"https://([\w.-]+)/", row.url)
        assert host
        assert host[1] in {"github.com", "fjall-rs.github.io", "tidesdb.com", "kvbench.tamnd.com"}
    for row in read(f"{source}.csv").itertuples():
        assert sections == {""} or row.section in sections
        assert row.approximate in ("true", "false")
        assert not row.value or float(row.value) >= 0
    settings = read(f"{source}-settings.csv")
    machines = settings[settings.setting == "processor"]
    assert set(machines.section) in ({""}, set(read(f"{source}.csv").section))


@pytest.mark.parametrize("source", TODAY)
def test_each_figure_of_today_has_one_durability(source: str) -> None:
    """The code that shows it is named, but where no code does."""
    rows = durability(source)
    for row in rows:
        assert row.value in (*LEVELS, UNKNOWN)
        code = re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", row.evidence)
        assert bool(code) == (row.value != UNKNOWN)
    for row in read(f"{source}.csv").itertuples():
        for store in filter(None, row.store.split(";")):
            assert level(rows, (row.section, row.workload, store))


def test_redb_was_measured_at_sync_before_its_suite_went_without() -> None:
    """The seven months without durability begin after the date of the table."""
    settings = read("redb-2025-settings.csv")
    assert {row.value for row in durability("redb-2025")} == {"sync"}
    since = settings[settings.setting.str.contains("in the suite from")]
    dates = [date.fromisoformat(text[-10:]) for text in since.setting]
    assert list(since.value) == ["none", "sync"]
    printed = read("sources.csv").set_index("source").date["redb-2025"]
    assert date.fromisoformat(printed) < dates[0] < dates[1]


def test_claims_of_today_name_stores_and_operations() -> None:
    table = read("claims-2026.csv")
    assert [int(n) for n in table.claim_number] == list(range(1, len(table) + 1))
    operations = {"", "batch", "get", "insert", "remove", "scan", "space", "update"}
    assert set(table.operation) <= operations
    assert set(table.durability) <= {"", *LEVELS}
    places = set(read("sources.csv")[["source", "section"]].itertuples(index=False, name=None))
    for row in table.itertuples():
        assert (row.source, row.section) in places
        assert row.store
        assert bool(row.value) == bool(row.unit)
        figures, settings = read(f"{row.source}.csv"), read(f"{row.source}-settings.csv")
        known = ";".join([*figures.store, *settings.store, ""]).split(";")
        assert set(f"{row.store};{row.against}".split(";")) <= set(known)


def test_the_second_reading_has_every_claim_and_says_what_is_wrong() -> None:
    table = read("second-reading.csv")
    judged = pd.read_csv(DATA.parent / "verdicts" / "verdicts.csv")
    assert table.id.tolist() == judged.id.tolist()
    wrong = {"wording", "predicate", "figure", "not in source"}
    assert set(table.reading) <= wrong | {"agree"}
    for column in ("remark", "answer"):
        assert ((table.reading == "agree") == (table[column] == "")).all()


def test_page_names_every_file_and_column() -> None:
    page = (DATA / "README.md").read_text()
    files = {path.name for path in DATA.iterdir()} - {"README.md"}
    others = {
        "rocksdb-2013-settings.csv", "files-or-store-rows.csv", "sources.csv", "findings.csv",
        "second-reading.csv",
    }  # fmt: skip
    assert files == {*FILES, *others}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        described = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
        for name in files & set(section.split("\n")[0].split(", ")):
            assert described == list(read(name).columns)
            files.remove(name)
    assert not files
