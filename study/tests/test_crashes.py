"""What a crash costs: engines that lose nothing, everything, or some writes between others."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.store import Store
from kvbench.durability import evidence
from kvbench.durability.crashes import CLEAN, KILL, POWER, Row, Steady, crashes
from support import KNOWN, ROOT, Run

from study.common import formats
from study.experiments import crashes as study

README = ROOT / "data" / "README.md"
SMALL = Steady.of(300, "100 B")


def crash(store: Store, level: str, kind: str, place: Path) -> Row:
    if store.name in KNOWN and not KNOWN[store.name].available:
        pytest.skip(KNOWN[store.name].reason)
    (row,) = crashes(store, level, kind, place, SMALL, 0.2, 1)
    return row


@pytest.mark.parametrize("name", ["leveldb", "sqlite"])
def test_a_killed_process_loses_nothing_that_the_system_has(name: str, tmp_path: Path) -> None:
    row = crash(KNOWN[name], "process", KILL, tmp_path)
    assert row["reason"] == ""
    assert row["acknowledged_writes"] > 0
    assert row["first_get_ms"] > row["open_ms"] > 0
    names = ("lost_writes", "kept_writes", "damaged_records", "window_writes", "window_ms")
    assert all(row[name] == 0 for name in names)


def test_a_killed_process_loses_all_that_only_it_had(tmp_path: Path) -> None:
    """RocksDB without its log keeps this few writes only in memory."""
    row = crash(KNOWN["rocksdb"], "none", KILL, tmp_path)
    assert row["reason"] == ""
    # The record of the interrupted write is not checked; the first write may have been to it.
    assert row["acknowledged_writes"] - row["window_writes"] in (0, 1)
    assert row["kept_writes"] == row["damaged_records"] == 0
    assert 0 < row["window_writes"] - row["lost_writes"] + 1 <= row["window_writes"] / 300 + 2
    assert row["window_ms"] == pytest.approx(row["writing_s"] * 1000)


SKIPPING = """
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{{
    static int writes;
    if (mode == KV_INSERT && ++writes % 10 == 0)
        return KV_OK;
    return honest.write(kv, mode, records, count);
}}
"""
FAILING = """
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    char name[5000];
    snprintf(name, sizeof name, "%s/opened", path);
    int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
    off_t before = lseek(file, 0, SEEK_END);
    if (write(file, "x", 1) != 1 || close(file) != 0 || before >= 2)
        return kv_fail("the third opening fails");
    return honest.open(path, options, count, kv);
}}
"""


def test_lost_writes_between_others_are_no_suffix(
    alter_shim: Callable[..., Store], tmp_path: Path
) -> None:
    store = alter_shim("template", SKIPPING.format(), "write")
    row = crash(store, "none", KILL, tmp_path)
    assert row["lost_writes"] == pytest.approx(row["acknowledged_writes"] / 20, abs=2)
    assert row["window_writes"] == row["acknowledged_writes"] - 19  # the tenth insert
    apart = row["acknowledged_writes"] / 600 + 2  # of the record of the write under way
    kept = row["window_writes"] - row["lost_writes"]
    assert row["kept_writes"] == pytest.approx(kept, abs=apart)
    assert 0 < row["window_ms"] < row["writing_s"] * 1000


def test_a_store_that_cannot_be_opened_is_a_result(
    alter_shim: Callable[..., Store], tmp_path: Path
) -> None:
    row = crash(alter_shim("template", FAILING.format(), "open"), "none", KILL, tmp_path)
    assert row["reason"] == "not opened: the third opening fails"
    assert row["acknowledged_writes"] > 0
    assert row["open_ms"] is row["lost_writes"] is None


@pytest.mark.parametrize("name", ["leveldb", "redb"])
def test_a_store_that_was_closed_has_lost_nothing(name: str, tmp_path: Path) -> None:
    if why := evidence.mounting_fails(tmp_path):
        pytest.skip(why)
    row = crash(KNOWN[name], "process", CLEAN, tmp_path)
    assert row["reason"] == ""
    assert row["acknowledged_writes"] > 0
    assert row["store_bytes"] > 300 * 100
    assert row["first_get_ms"] > row["open_ms"] > 0
    assert row["lost_writes"] == row["damaged_records"] == 0


@pytest.mark.check
def test_opening_is_measured_by_size_and_end(kvbench: Run, tmp_path: Path) -> None:
    if why := evidence.mounting_fails(tmp_path) or KNOWN["redb"].reason:
        pytest.skip(why)
    small = ("--crashes", 2, "--records", "100,3000", "--value-size", "100 B", "--seconds", 0.05)
    out = tmp_path / "crashes.csv"
    done = kvbench("crash", "redb", *small, "--clean", "--place", tmp_path, "--out", out)
    assert done.returncode == 0, done.stderr
    ends = study.read_ends(out)
    found = study.opening(ends)
    levels = {"none": KILL, "process": POWER}
    assert set(zip(found.durability, found.crash, found.records, strict=True)) == {
        (level, end, records)
        for level, kind in levels.items()
        for end in (kind, CLEAN)
        for records in (100, 3000)
    }
    assert (found.ends == 2).all()
    assert found.low.isna().all()  # two ends have no interval
    more = study.opening(pd.concat([ends] * 3))
    assert (more.ends == 6).all()
    assert (more.open_ms == found.open_ms).all()
    assert (more.low <= more.open_ms).all()
    assert (more.open_ms <= more.high).all()
    assert (more.low < more.high).all()
    assert (found.store_bytes > 100 * found.records).all()
    closed = ends[ends.crash == CLEAN]
    assert (closed.lost_writes == 0).all()
    assert len(study.draw_opening(ends).axes) == 1
    table = study.opening_table(ends)
    levels = ["none, killed", "none, closed", "process, power loss", "process, closed"]
    assert [*table] == ["store", *levels] and table.store.tolist() == ["redb"]
    largest = found[found.records == 3000].set_index(["durability", "crash"]).open_ms
    assert table[levels[0]][0] == formats.time(1e6 * largest["none", KILL])
    facts = study.opening_facts(ends)
    assert (facts["least"], facts["most"], facts["ends"], facts["stores"]) == ("100", "3,000", 2, 1)
    assert facts["longest_store"] == facts["shortest_store"] == "redb"
    crashed = study.read(tmp_path)  # as if there were no other rows
    assert set(crashed.crash) == {KILL, POWER}
    assert set(crashed.records) == {3000}


def test_the_text_names_stores_whose_opening_grows_or_is_sooner_after_a_crash() -> None:
    """The first grows with its records after each end. The second grows after a crash, and opens
    sooner after each crash; the third only after most."""
    times = {"leveldb": (1, 10, 1, 10), "lmdb": (9, 9, 0.1, 5), "sqlite": (1, 2, 1, 2)}  # ms
    order = [(CLEAN, 100), (CLEAN, 10_000), (POWER, 100), (POWER, 10_000)]
    rows = [
        {"store": store, "durability": "process", "crash": end, "records": records, "open_ms": time}
        for store, own in times.items()
        for (end, records), time in zip(order, own, strict=True)
    ]
    more = [row | {"open_ms": row["open_ms"] + 0.5} for row in rows if row["crash"] == POWER]
    facts = study.opening_facts(pd.DataFrame([*rows, *more]))
    assert facts["grown"] == 1
    assert (facts["crashed"], facts["crashed_stores"]) == (1, "lmdb")
    assert (facts["greatest"], facts["greatest_store"]) == ("15", "lmdb")
    assert facts["sooner_stores"] == "lmdb"
    assert (facts["shortest"], facts["shortest_store"]) == ("2.2 ms", "sqlite")
    assert (facts["longest"], facts["longest_store"]) == ("10 ms", "leveldb")


@pytest.mark.check
def test_the_table_of_crashes_has_a_row_each(kvbench: Run, tmp_path: Path) -> None:
    if not KNOWN["sqlite"].available:
        pytest.skip(KNOWN["sqlite"].reason)
    small = ("--crashes", 2, "--records", 300, "--value-size", "100 B", "--seconds", 0.2)
    out = tmp_path / "crashes.csv"
    done = kvbench("crash", "sqlite", *small, "--place", tmp_path, "--out", out)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out, keep_default_na=False)
    lost = [] if evidence.mounting_fails(tmp_path) else ["process", "recoverable"]
    assert list(table.durability) == [level for level in ["none", *lost] for _ in range(2)]
    assert list(table.crash) == [KILL, KILL, *(POWER for _ in lost for _ in range(2))]
    described = README.read_text().partition("## crashes.csv")[2].partition("\n## ")[0]
    assert list(table.columns) == re.findall(r"^\| (\w+) \| (?!type)", described, flags=re.M)
    assert list(table.number) == [1, 2] * (len(table) // 2)
    rows = study.read(tmp_path)
    assert [len(rows), len(study.table(rows))] == [len(table), len(table) // 2]
    assert study.draw_lost(rows).axes and study.draw_times(rows).axes
    assert study.facts(rows)["none"]["crashes"] == 2
    assert not any(path.name != out.name for path in tmp_path.iterdir())
