"""The published figures are complete; findings.csv lists their contradictions and nothing else."""

import re
from collections.abc import Callable, Iterator
from datetime import date

import pandas as pd
import pytest
from kvbench.cell.factors import DURABILITY
from support import ROOT

from study.sources import audit, published
from study.sources.findings import GI, MI, Found, rounded
from study.sources.leveldb_2011.audit import (
    READS,
    VERSIONS,
    WRITES,
    baseline,
    of_rows,
    rows_by_place,
)
from study.sources.lmdb_2014.audit import of_runs, runs
from study.sources.rocksdb_2013.audit import figure
from study.sources.today.audit import SOURCES, durability, factors, level, today

DATA = ROOT / "data" / "published"
UNITS = {
    *("", "%", "1", "1/min", "1000 lines", "B", "GB", "GHz", "GiB", "KB", "MB", "MB/s", "MHz"),
    *("MiB", "Mop/s", "entry/s", "key/s", "kop/s", "min", "ms", "op/s", "px", "s", "times", "us"),
    "wu/s",
}
UNKNOWN = "not stated"
FILES = {
    "leveldb-2011.csv": (110, [*VERSIONS]),
    "leveldb-2011-settings.csv": (96, [*VERSIONS]),
    "rocksdb-2013.csv": (35, ["rocksdb-2013"]),
    "lmdb-2014.csv": (2 * 9 * 13, ["lmdb-2014"]),
    "lmdb-2014-settings.csv": (8, ["lmdb-2014"]),
    "files-or-store.csv": (50, ["hines-2023"]),
    "claims-2026.csv": (40, SOURCES),
}
FILES |= {
    f"{source}.csv": (rows, [source])
    for source, rows in zip(SOURCES, (90, 8, 117, 162, 157), strict=True)
}
FILES |= {
    f"{source}-settings.csv": (rows, [source])
    for source, rows in zip(SOURCES, (31, 43, 34, 31, 43), strict=True)
}


def read(name: str) -> pd.DataFrame:
    return published.printed(name.removesuffix(".csv"))


def test_a_rounded_figure_stands_for_a_range() -> None:
    assert rounded("1.00") == pytest.approx((0.995, 1.005))
    assert rounded("129000") == (128500, 129500)
    assert rounded("1000") == (950, 1050)
    assert rounded("7") == (6.5, 7.5)
    assert not (rounded("129") / rounded("151")).meets(rounded("0.87"))
    assert (rounded("129") / rounded("151")).meets(rounded("0.85"))


# The findings


def test_the_list_of_contradictions_is_complete_and_right() -> None:
    found = audit.everything()
    assert len(found) == len(set(found)) == len(read("findings.csv"))
    assert set(found) == set(audit.sentences())


def test_the_paper_shows_findings_as_they_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = audit.shown().set_index("source")
    assert len(shown) == len(audit.SHOWN)
    assert shown.loc[["leveldb-2011, 2.C"], ["stated", "shown"]].iloc[0].tolist() == [
        "2400 op/s", "120 op/s"
    ]  # fmt: skip
    monkeypatch.setattr(audit, "CHECKS", ())
    with pytest.raises(KeyError, match="turns of the disk"):
        audit.shown()


@pytest.mark.parametrize("check", [check for check in audit.CHECKS if check is not factors])
def test_every_check_finds_something(check: Callable[[], Iterator[Found]]) -> None:
    assert any(True for _ in check())


def test_findings_state_their_place_and_figures() -> None:
    sections = {
        (row.source, row.section)
        for name in (*FILES, "sources.csv")
        for row in read(name)[["source", "section"]].itertuples()
    }
    for row, finding in audit.sentences().items():
        assert (row.source, row.section) in sections
        assert row.unit in UNITS
        assert finding.endswith(".") and len(finding) > 40
        assert row.published != row.recomputed or row.check == "missing figure"


def test_a_wrong_figure_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests the checks: after one figure is changed, exactly its row disagrees, too."""
    true = published.printed
    assert not list(factors())

    def wrong(name: str) -> pd.DataFrame:
        table = true(name)
        if name == "leveldb-2011":
            table.loc[table.times_baseline == "1.04", "times_baseline"] = "1.06"
        if name == "lmdb-2014":
            overhead = (table.quantity == "overhead") & (table.store == "lmdb")
            table.loc[overhead, "value"] = "0.9981563981"
        if name == "keybench-2026":
            table.loc[table.value == "3.96", "value"] = "3.99"
        return table

    before = set(of_rows()), set(of_runs())
    monkeypatch.setattr(published, "printed", wrong)
    assert {(r.section, r.item) for r in set(of_rows()) - before[0]} == {("2.E", "fillseq leveldb")}
    assert {(r.check, r.item) for r in set(of_runs()) - before[1]} == {("overhead", "lmdb")}
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


def test_an_overview_has_the_units_of_the_pages_that_it_sums_up() -> None:
    table = today("kvbench-2026")
    units = table.groupby(["workload", "store", "quantity"]).unit.nunique()
    assert (units == 1).all()


@pytest.mark.parametrize("source", SOURCES)
def test_figures_of_today_are_named_once(source: str) -> None:
    assert not today(source).duplicated(["section", "workload", "store", "quantity"]).any()


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
    rows = rows_by_place()
    copies = [r for r in rows.values() if r.section in ("2.D", "3.B") and r.store == "sqlite"]
    assert len(copies) == 8
    assert all(r.value == baseline(rows, r).value for r in copies)


def test_factors_of_large_values_are_of_bytes() -> None:
    """The earlier version's factors agree once keys and values are counted in bytes."""
    rows = rows_by_place()
    factors = [r for r in rows.values() if r.section == "2.A" and r.times_baseline]
    assert len(factors) == 6
    for row in factors:
        ratio = (rounded(row.value) / rounded(baseline(rows, row).value)).times(100016 / 116)
        assert ratio.meets(rounded(row.times_baseline))


def test_tree_is_compared_with_its_sequential_writes() -> None:
    """The factor 3.60 of both versions uses another baseline than the stated one."""
    rows = rows_by_place()
    for source in VERSIONS:
        row = rows[source, "3.B", "readseq", "kyoto-tree"]
        writes = rows[source, "1.C", "fillseq", "kyoto-tree"]
        assert (rounded(row.value) / rounded(writes.value)).meets(rounded(row.times_baseline))


def test_factors_of_synchronous_writes_are_the_earlier_ones() -> None:
    """Factors that disagree with the later version's figures are copies of the earlier ones, which
    agree with the earlier figures."""
    rows = rows_by_place()
    old, new = VERSIONS
    stale = [
        r for r in of_rows() if (r.source, r.section, r.check) == (new, "2.C", "times baseline")
    ]
    assert len(stale) == 4
    for row in stale:
        workload, store = row.item.split()
        before = rows[old, "2.C", workload, store]
        assert row.published == before.times_baseline
        ratio = rounded(before.value) / rounded(baseline(rows, before).value)
        assert ratio.meets(rounded(row.published))


def test_batches_in_order_over_batches_at_random() -> None:
    rows = rows_by_place()
    settings = read("leveldb-2011-settings.csv")
    stated = settings[settings.setting == "batches in key order over random order"]
    assert len(stated) == 3
    for row in stated.itertuples():
        seq, at_random = (rows[row.source, "2.B", w, row.store].value for w in WRITES)
        assert (rounded(seq) / rounded(at_random)).meets(rounded(row.value))


@pytest.mark.parametrize("source", VERSIONS)
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
    rows = rows_by_place()
    old, new = VERSIONS
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
    for section, _, text in runs():
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


@pytest.mark.parametrize("source", SOURCES)
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


@pytest.mark.parametrize("source", SOURCES)
def test_each_figure_of_today_has_one_durability(source: str) -> None:
    """The code that shows it is named, but where no code does."""
    rows = durability(source)
    for row in rows:
        assert row.value in (*DURABILITY, UNKNOWN)
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
    assert set(table.durability) <= {"", *DURABILITY}
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
