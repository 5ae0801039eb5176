"""Stores obey their settings: the settings that they report and their effects from outside agree
with the ones requested."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import COMPRESSION, DURABILITY, SYNCED
from kvbench.cell.store import Store
from kvbench.cell.worker import allocated
from kvbench.stores.opened import OpenShim, open_store
from support import BOUND, KEEPING, KNOWN, Run

WriteGrid = Callable[..., Path]

WORDS = b"the quick brown fox jumps over the lazy dog and runs away "
ALL = KEEPING + BOUND
SMALL, LARGE = 4 << 20, 96 << 20  # bytes of memory


def levels(store: Store, name: str) -> list[str]:
    return [s.value for s in store.settings if s.name == name and s.means and s.value]


def pairs(name: str) -> list[tuple[Store, str]]:
    return [(KNOWN[label], level) for label in ALL for level in levels(KNOWN[label], name)]


def ids(value: object) -> str:
    return value.name if isinstance(value, Store) else str(value)


def stored_bytes(store: Store, folder: Path, **options: str) -> int:
    """The bytes that 16 MiB of words, in records of 4 KiB, take in the files of the store."""
    if not store.lacks("memory", str(1 << 20)):
        options["memory"] = str(1 << 20)  # too small for the log to hold all records
    folder.mkdir()
    opened = open_store(store, folder, **options)
    for start in range(0, 4096, 256):
        batch = [
            (i.to_bytes(8, "big"), (b"%d " % i + WORDS * 80)[:4096])
            for i in range(start, start + 256)
        ]
        opened.write_batch(batch)
    opened.sync()
    opened.close()
    # Reopening removes the old logs, so that only data are left.
    opened = open_store(store, folder, **options)
    assert opened.get((7).to_bytes(8, "big")) == (b"7 " + WORDS * 80)[:4096]
    opened.close()
    return allocated(folder)


@pytest.mark.parametrize("label", ALL)
def test_every_level_is_offered_or_declined_with_a_reason(label: str) -> None:
    store = KNOWN[label]
    assert store.default_durability in DURABILITY[1:]
    for name, known in (("durability", DURABILITY), ("compression", COMPRESSION)):
        for level in known[1:]:
            assert store.lacks(name, level) != "has no such setting"
            assert (level in levels(store, name)) == (store.lacks(name, level) == "")
        assert set(levels(store, name)) <= set(known)
    assert store.lacks("memory", str(1 << 30)) != "has no such setting"
    for setting in store.settings:
        assert bool(setting.means) != bool(setting.lacks), setting


@pytest.mark.parametrize("label", ALL)
def test_an_unknown_level_is_refused_by_the_store_itself(label: str, tmp_path: Path) -> None:
    store = KNOWN[label]
    for name, level in (("durability", "quorum"), ("memory", "12 apples"), ("compression", "rar")):
        with pytest.raises(StoreError, match=f"option {name}: '{level}' is not allowed; allowed: "):
            open_store(store, tmp_path, **{name: level})
    with pytest.raises(StoreError, match="unknown option 'colour'"):
        open_store(store, tmp_path, colour="red")


@pytest.mark.check
@pytest.mark.parametrize(
    ("store", "level"), [pair for pair in pairs("compression") if pair[1] != "none"], ids=ids
)
def test_compression_makes_the_files_smaller(store: Store, level: str, tmp_path: Path) -> None:
    plain = stored_bytes(store, tmp_path / "plain", compression="none")
    small = stored_bytes(store, tmp_path / "small", compression=level)
    assert plain > 16 << 20
    assert small < 0.9 * plain  # Basho's fork compresses a table when it moves it, not at first


IGNORES_COMPRESSION = """
#include <leveldb/c.h>
#define leveldb_options_set_compression(options, value) ((void)(options), (void)(value))
#include "leveldb.c"
"""


@pytest.mark.skipif(not KNOWN["leveldb"].available, reason="no LevelDB")
def test_a_shim_that_ignores_compression_is_detected(
    own_shims: Path,
    compile_shim: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The code of a published benchmark does so: it builds the options, and opens without them."""
    compile_shim("leveldb", IGNORES_COMPRESSION, "-lleveldb")
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
    altered = replace(KNOWN["leveldb"], version="")  # of another build than the one that was asked
    with pytest.raises(AssertionError):
        test_compression_makes_the_files_smaller(altered, "snappy", tmp_path)


BUDGETED = [label for label in KEEPING if not KNOWN[label].lacks("memory", str(LARGE))]


@pytest.mark.check
@pytest.mark.parametrize("label", BUDGETED)
def test_a_larger_budget_is_used(
    label: str, kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """The peak of anonymous memory grows with the budget, over data of about 48 MiB. TidesDB keeps
    values from 1 KiB in a log that no buffer holds."""
    least = max(s.least for s in KNOWN[label].settings if s.name == "memory")
    grid = write_grid(
        stores=[label],
        record_sizes=["1000 B"],
        records=[50_000],
        operations=["get"],
        memory=[max(SMALL, least), LARGE],
    )
    out = tmp_path / "out"
    done = kvbench("sweep", grid, "--out", out)
    assert done.stdout.strip() == "2 ok", done
    assert kvbench("collect", out).returncode == 0
    peaks = pd.read_parquet(out / "cells.parquet").set_index("memory").memory_anonymous_bytes
    assert peaks["96 MiB"] > peaks.drop("96 MiB").iloc[0] + (10 << 20)


@pytest.mark.parametrize(("store", "level"), pairs("durability"), ids=ids)
def test_the_syncs_that_a_store_reports_are_true(store: Store, level: str, tmp_path: Path) -> None:
    """Stores that report nothing about syncs pass. At `recoverable` a store may sync or not."""
    opened = open_store(store, tmp_path, durability=level)
    said = opened.effective_options().get("sync", "")
    opened.close()
    assert not said or level == "recoverable" or (said not in ("off", "none")) == (level in SYNCED)


@pytest.mark.parametrize(
    ("label", "options", "said"),
    [
        ("sqlite", {"memory": str(1 << 20)}, {"cache_size": "-1024"}),
        ("sqlite", {"page_size": "1024"}, {"page_size": "1024"}),
        ("sqlite", {"durability": "none"}, {"journal_mode": "memory", "synchronous": "0"}),
        ("sqlite", {"durability": "process"}, {"journal_mode": "wal", "synchronous": "0"}),
        ("sqlite", {"durability": "recoverable"}, {"journal_mode": "wal", "synchronous": "1"}),
        (
            "sqlite",
            {"durability": "recoverable", "journal_mode": "delete"},
            {"journal_mode": "delete", "synchronous": "2"},
        ),
        ("sqlite", {"durability": "sync"}, {"journal_mode": "wal", "synchronous": "2"}),
        ("sqlite", {}, {"journal_mode": "delete", "locking_mode": "normal", "synchronous": "2"}),
        ("sqlite", {"journal_mode": "wal"}, {"journal_mode": "wal", "synchronous": "2"}),
        ("sqlite", {"locking_mode": "exclusive"}, {"locking_mode": "exclusive"}),
        ("sqlite", {"locking_mode": "normal"}, {"locking_mode": "normal"}),
        (
            "sqlite",
            {"locking_mode": "exclusive", "journal_mode": "wal", "page_size": "1024"},
            {"locking_mode": "exclusive", "journal_mode": "wal", "page_size": "1024"},
        ),
        (
            "sqlite",
            {"durability": "none", "journal_mode": "wal"},
            {"journal_mode": "wal", "synchronous": "0"},
        ),
        (
            "sqlite",
            {"durability": "process", "journal_mode": "delete", "locking_mode": "exclusive"},
            {"journal_mode": "delete", "synchronous": "0", "locking_mode": "exclusive"},
        ),
        (
            "sqlite",
            {"durability": "sync", "journal_mode": "delete"},
            {"journal_mode": "delete", "synchronous": "3"},
        ),
        ("lmdb", {"durability": "process"}, {"sync": "off"}),
        ("lmdb", {"durability": "recoverable"}, {"sync": "data"}),
        ("mdbx", {"durability": "process"}, {"sync": "off"}),
        ("mdbx", {"durability": "recoverable"}, {"sync": "before the file grows"}),
        ("flat", {"durability": "recoverable"}, {"update": "write and rename"}),
        ("wiredtiger-btree", {"durability": "recoverable"}, {"log": "on", "sync": "off"}),
        ("bdb", {"durability": "recoverable"}, {"environment": "transactional", "sync": "off"}),
        ("tidesdb", {"durability": "recoverable"}, {"sync": "at intervals"}),
        ("lmdb", {"durability": "sync"}, {"sync": "each transaction", "readahead": "on"}),
        ("lmdb", {"profile": "recommended"}, {"readahead": "off", "sync": "each transaction"}),
        ("mdbx", {"profile": "recommended"}, {"readahead": "off", "sync": "each transaction"}),
        (
            "rocksdb",
            {"profile": "recommended", "memory": str(4 << 20)},
            {"use_direct_reads": "1", "use_direct_io_for_flush_and_compaction": "1"}
            | {"cache_index_and_filter_blocks": "true", "block_cache": str(2 << 20)},
        ),
        ("rocksdb", {}, {"use_direct_reads": "0", "cache_index_and_filter_blocks": "false"}),
        (
            "rocksdb",
            {"memory": str(4 << 20)},
            {"write_buffer_size": str(2 << 20), "block_cache": str(2 << 20)},
        ),
        (
            "rocksdb",
            {"write_buffer": str(120 << 20), "block_cache": str(8 << 20)},
            {"write_buffer_size": str(120 << 20), "block_cache": str(8 << 20)},
        ),
        ("rocksdb", {"compression": "zstd"}, {"compression": "zstd"}),
        (
            "rocksdb",
            {},
            {"wal": "on", "level0_triggers": "4 20 36", "disable_auto_compactions": "0"}
            | {"max_background_jobs": "2", "block_size": "4096", "filter_policy": "nullptr"},
        ),
        ("rocksdb", {"log": "off"}, {"wal": "off"}),
        ("rocksdb", {"durability": "none"}, {"wal": "off"}),
        ("rocksdb", {"durability": "none", "log": "on"}, {"wal": "on"}),
        ("rocksdb", {"durability": "sync", "log": "on"}, {"wal": "on", "sync": "each write"}),
        (
            "rocksdb",
            {"background_jobs": "1"},
            {"max_background_jobs": "1", "max_background_compactions": "1"},
        ),
        (
            "rocksdb",
            {"background_jobs": "5"},
            {"max_background_jobs": "5", "max_background_compactions": "5"},
        ),
        (
            "rocksdb",
            {"target_file_size": str(20 << 20), "level_base": str(100 << 20)},
            {"target_file_size_base": str(20 << 20), "max_bytes_for_level_base": str(100 << 20)},
        ),
        ("rocksdb", {"recycled_logs": "4"}, {"recycle_log_file_num": "4"}),
        (
            "rocksdb",
            {"block_size": "8192", "bloom_bits": "10", "memory": str(4 << 20)},
            {"block_size": "8192", "block_cache": str(2 << 20)},
        ),
        (
            "rocksdb",
            {"compression": "zlib", "compress_from_level": "2"},
            {
                "compression_per_level": ":".join(
                    [*["kNoCompression"] * 2, *["kZlibCompression"] * 5]
                )
            },
        ),
        (
            "rocksdb",
            {"bulk_load": "on", "durability": "process"},
            {"disable_auto_compactions": "1", "allow_concurrent_memtable_write": "false"}
            | {"level0_triggers": " ".join([str(1 << 30)] * 3), "wal": "on"},
        ),
        ("bdb", {"page_size": "1024"}, {"page_size": "1024", "environment": "none"}),
        ("bdb", {"durability": "sync"}, {"environment": "transactional", "sync": "each write"}),
        ("bdb", {"memory": str(600 << 20)}, {"cache_size": str(600 << 20)}),
        (
            "wiredtiger-btree",
            {"memory": str(8 << 20), "compression": "zlib"},
            {"cache_size": str(8 << 20), "compression": "zlib"},
        ),
        ("kyoto-tree", {"memory": str(4 << 20)}, {"page_cache": str(4 << 20)}),
        ("kyoto-tree", {}, {"page_size": "8192", "small": "off", "linear": "off"}),
        (
            "kyoto-tree",
            {"page_size": "1024", "small": "on", "linear": "on", "memory": str(1 << 20)},
            {"page_size": "1024", "small": "on", "linear": "on", "page_cache": str(1 << 20)},
        ),
        ("tkrzw-tree", {"memory": str(4 << 20)}, {"max_cached_pages": str((4 << 20) // 8130)}),
        ("tkrzw-hash", {"compression": "lz4"}, {"compression": "lz4"}),
        ("tokyocabinet-tree", {"compression": "zlib"}, {"compression": "zlib"}),
        ("mdbx", {}, {"sync": "each transaction", "page_size": "4096", "writemap": "off"}),
        (
            "mdbx",
            {"durability": "process", "page_size": "16384"},
            {"sync": "off", "page_size": "16384"},
        ),
        (
            "tidesdb",
            {"memory": str(4 << 20), "compression": "zstd"},
            {"write_buffer": str(2 << 20), "block_cache": str(2 << 20), "compression": "zstd"},
        ),
        (
            "tidesdb",
            {"bloom": "off", "block_size": "16384", "value_separation": "4096"},
            {"bloom": "off", "block_size": "16384", "value_separation": "4096", "sync": "off"},
        ),
        ("redb", {"durability": "process"}, {"sync": "off"}),
        (
            "fjall",
            {},
            {"block_size": "4096", "compression": "none none lz4", "kv_separation": "off"},
        ),
        (
            "fjall",
            {"block_size": "8192", "compression": "lz4", "kv_separation": "on"},
            {"block_size": "8192", "compression": "lz4", "kv_separation": "on"},
        ),
        ("fjall", {"memory": str(8 << 20)}, {"block_cache": str(4 << 20)}),
        ("flat/io", {}, {"update": "truncate and write", "sync": "none"}),
        ("flat/io", {"durability": "atomic"}, {"update": "write and rename"}),
        ("lmdb/lmdb", {}, {"sync": "each transaction"}),
        ("lmdb/lmdb", {"durability": "process"}, {"sync": "off"}),
        ("lmdb/lmdb", {"durability": "recoverable"}, {"sync": "data"}),
        ("leveldb/plyvel", {"durability": "sync"}, {"sync": "each write"}),
        ("rocksdb/rocksdict", {"durability": "none"}, {"wal": "off", "sync": "off"}),
        ("rocksdb/python-rocksdb", {"durability": "sync"}, {"wal": "on", "sync": "each write"}),
        ("bdb/berkeleydb", {}, {"environment": "none", "sync": "off"}),
        (
            "bdb/berkeleydb",
            {"durability": "recoverable"},
            {"environment": "transactional", "sync": "off"},
        ),
        ("bdb/berkeleydb", {"durability": "sync"}, {"sync": "each write"}),
        ("sqlite/sqlite3", {}, {"journal_mode": "delete", "synchronous": "2"}),
        ("sqlite/sqlitedict", {}, {"journal_mode": "delete", "synchronous": "0"}),
        ("sqlite/diskcache", {}, {"journal_mode": "wal", "disk_min_file_size": str(32 << 10)}),
        ("sqlite/diskcache", {"durability": "process"}, {"disk_min_file_size": str(32 << 10)}),
        ("sqlite/diskcache", {"durability": "sync"}, {"disk_min_file_size": "990000001"}),
        *(
            (
                f"sqlite/{binding}",
                {"durability": level},
                {"journal_mode": mode, "synchronous": sync},
            )
            for binding in ("sqlite3", "apsw", "diskcache", "sqlitedict")
            for level, mode, sync in (
                ("none", "memory", "0"),
                ("process", "wal", "0"),
                ("recoverable", "wal", "1"),
                ("sync", "wal", "2"),
            )
        ),
    ],
    ids=str,
)
def test_settings_are_read_back_from_the_engine(
    label: str, options: dict[str, str], said: dict[str, str], tmp_path: Path
) -> None:
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    opened = open_store(KNOWN[label], tmp_path, **options)
    effective = opened.effective_options()
    opened.close()
    assert {name: effective[name] for name in said} == said


def test_durability_without_a_log_is_refused(tmp_path: Path) -> None:
    if not KNOWN["rocksdb"].available:
        pytest.skip(KNOWN["rocksdb"].reason)
    for level in ("process", "sync"):
        with pytest.raises(StoreError, match=f"log=off.*durability={level}"):
            open_store(KNOWN["rocksdb"], tmp_path, durability=level, log="off")


def test_rocksdb_states_the_settings_of_its_tables(tmp_path: Path) -> None:
    """The wording differs between versions of RocksDB."""
    if not KNOWN["rocksdb"].available:
        pytest.skip(KNOWN["rocksdb"].reason)
    opened = open_store(KNOWN["rocksdb"], tmp_path, bulk_load="on", bloom_bits="10")
    effective = opened.effective_options()
    opened.close()
    assert "vector" in effective["memtable_factory"].lower()
    assert "bloom" in effective["filter_policy"].lower()


def test_recommended_settings_name_their_source() -> None:
    means = {
        store.name: setting.means
        for store in KNOWN.values()
        for setting in store.settings
        if (setting.name, setting.value) == ("profile", "recommended")
    }
    assert {"lmdb", "sqlite", "leveldb", "rocksdb"} & set(KEEPING) <= set(means)
    assert all("documentation, " in text and "://" in text for text in means.values())


def test_sqlite_maps_its_file_as_recommended(tmp_path: Path) -> None:
    """It lowers the size to its own limit."""
    if not KNOWN["sqlite"].available:
        pytest.skip(KNOWN["sqlite"].reason)
    mapped = []
    for number, options in enumerate(({}, {"profile": "recommended"})):
        folder = tmp_path / str(number)
        folder.mkdir()
        opened = open_store(KNOWN["sqlite"], folder, **options)
        mapped.append(int(opened.effective_options()["mmap_size"]))
        opened.close()
    assert mapped[0] == 0
    assert mapped[1] >= 1 << 30


def test_an_exclusive_lock_refuses_a_second_session(tmp_path: Path) -> None:
    """Otherwise SQLite would wait ten minutes for the lock."""
    if not KNOWN["sqlite"].available:
        pytest.skip(KNOWN["sqlite"].reason)
    opened = open_store(KNOWN["sqlite"], tmp_path, locking_mode="exclusive", journal_mode="wal")
    assert opened.insert(b"key", b"value")
    assert not list(tmp_path.glob("*-shm"))  # the shared memory of a WAL that several processes use
    with pytest.raises(StoreError, match="locking_mode=exclusive"):
        opened.session()
    opened.close()


@pytest.mark.parametrize("asked", [{"bloom_bits": "80"}, {"profile": "recommended"}], ids=str)
@pytest.mark.parametrize("label", ["leveldb", "hyperleveldb", "basho", "rocksdb"])
def test_a_bloom_filter_adds_its_bits_to_the_tables(
    label: str, asked: dict[str, str], tmp_path: Path
) -> None:
    """At 80 bits per key, the filters for 20,000 keys take 200 KB; the recommended filters have 10
    bits per key."""
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    used = []
    for options in ({}, asked | {"write_buffer": str(8 << 20), "block_cache": "1024"}):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        opened = open_store(KNOWN[label], folder, compression="none", **options)
        assert isinstance(opened, OpenShim)
        opened.write_batch([(b"%06d" % number, b"value") for number in range(0, 40_000, 2)])
        assert opened.compact()
        assert [opened.get(b"%06d" % number) for number in (4, 5)] == [b"value", None]
        opened.close()
        tables = (file for file in folder.rglob("*") if file.suffix in (".ldb", ".sst"))
        used.append(sum(file.stat().st_size for file in tables))
    expected = 20_000 * int(asked.get("bloom_bits", "10")) / 8
    assert 0.75 * expected < used[1] - used[0] < 1.5 * expected


@pytest.mark.parametrize(
    ("label", "option"),
    [
        ("leveldb", {"bloom_bits": "1000000"}),
        ("rocksdb", {"background_jobs": str(1 << 32)}),
        ("rocksdb", {"compress_from_level": "7"}),
        ("tidesdb", {"background_threads": "1001"}),
        ("fjall", {"block_size": str(2 << 20)}),
    ],
    ids=str,
)
def test_a_number_beyond_the_range_of_the_engine_is_refused(
    label: str, option: dict[str, str], tmp_path: Path
) -> None:
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    (name,) = option
    with pytest.raises(StoreError, match=f"{name}: more than "):
        open_store(KNOWN[label], tmp_path, **option)


@pytest.mark.parametrize(
    ("store", "option", "told"),
    [
        ("leveldb", {"write_buffer": "2097152"}, {"write_buffer": "2097152"}),
        ("leveldb", {"memory": "8388608"}, {"write_buffer": "4194304", "block_cache": "4194304"}),
        ("leveldb", {"profile": "recommended"}, {"bloom_bits": "10"}),
        ("redb", {"memory": "8388608"}, {"cache": "8388608"}),
    ],
)
def test_settings_that_an_engine_does_not_read_back_are_told(
    store: str, option: dict[str, str], told: dict[str, str], tmp_path: Path
) -> None:
    opened = open_store(KNOWN[store], tmp_path, **option)
    try:
        effective = opened.effective_options()
    finally:
        opened.close()
    assert told.items() <= effective.items()
