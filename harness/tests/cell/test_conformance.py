"""Every store, from C and from Python, must pass the same cases on real files. At the end, `pytest`
prints how many cases each store passed."""

import contextlib
import ctypes
import errno
import itertools
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kvbench.cell.contract import StoreError, TooLarge
from kvbench.cell.factors import Cell, RecordSize
from kvbench.cell.library import Direction, structure, visit_type
from kvbench.cell.loop import ShimLoop, Traffic, make_loop
from kvbench.cell.plan import Records, make_pool
from kvbench.cell.store import Store
from kvbench.stores import catalogue
from kvbench.stores.opened import OpenShim, OpenStore, open_store
from support import AVAILABLE, SHIMS, Run

LARGEST_TRIED = 1 << 20  # bytes
KNOWN = catalogue.known()
KYOTO = {"small": "on", "linear": "on", "compression": "lzo"}


def variants(store: Store) -> list[dict[str, str]]:
    """Settings that change how a store works. Each of them must pass all cases, too."""
    found = [KYOTO] if store.full_name in ("kyoto-tree", "kyoto-hash") else []
    if any(setting.name == "threads" for setting in store.settings):
        found.append({"durability": "process", "threads": "on"})
    return found + [
        {"durability": setting.value}
        for setting in store.settings
        if setting.name == "durability" and setting.means and setting.value != "none"
    ]


class Subject(NamedTuple):
    """A store with its default settings, or with those of a variant."""

    store: Store
    options: dict[str, str]

    def open(self, folder: Path) -> OpenStore:
        return open_store(self.store, folder, **self.options)

    def __str__(self) -> str:
        return ",".join((self.store.full_name, *(f"{k}={v}" for k, v in self.options.items())))


def subjects(capability: str = "") -> list[Subject]:
    """All available stores that keep what they are given, with their variants."""
    found = []
    for store in KNOWN.values():
        kept = store.available and "forgets" not in store.capabilities
        if kept:
            found += [
                Subject(store, options)
                for options in ({}, *variants(store))
                if not capability or store.can(capability, options)
            ]
    return found


EVERY = pytest.mark.parametrize("subject", subjects(), ids=str)


@pytest.fixture(params=[own for own in subjects() if not own.options], ids=str)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each store with its default settings. A test that settings may change is marked EVERY."""
    found: Subject = request.param
    return found


@pytest.fixture
def store(subject: Subject, tmp_path: Path) -> Iterator[OpenStore]:
    opened = subject.open(tmp_path)
    yield opened
    opened.close()


def test_an_empty_value_is_kept(store: OpenStore) -> None:
    assert store.insert(b"key", b"")
    assert store.get(b"key") == b""
    assert store.update(b"key", b"more")
    assert store.update(b"key", b"")
    assert store.get(b"key") == b""


@EVERY
def test_values_of_every_size_are_kept(store: OpenStore) -> None:
    for size in (1, 100, 1023, 4096, 10240, 102400, LARGEST_TRIED):
        value = random.Random(size).randbytes(size)
        assert store.insert(b"%d" % size, value)
        assert store.get(b"%d" % size) == value


def test_keys_may_have_any_bytes(store: OpenStore) -> None:
    keys = [bytes([byte]) for byte in range(256)]
    keys += [b"\0\0", b"a\0b", b"..", b"../x", b"a/b", b"aA", b"%00", b"\xff" * 9, b"\0" * 16]
    expected = {key: b"value of " + key for key in keys}
    for key, value in expected.items():
        assert store.insert(key, value), key
    for key, value in expected.items():
        assert store.get(key) == value, key


def test_the_longest_key_is_kept(store: OpenStore, subject: Subject) -> None:
    longest = min(subject.store.max_key, LARGEST_TRIED)
    key = random.Random(1).randbytes(longest)
    near = key[:-1] + bytes([key[-1] ^ 1])
    assert store.insert(key, b"value")
    assert store.get(near) is None
    assert store.get(key) == b"value"


def test_keys_with_a_long_common_prefix_stay_distinct(store: OpenStore, subject: Subject) -> None:
    """One of the keys is so long that Berkeley DB keeps it on overflow pages."""
    longest = min(subject.store.max_key, 1100)
    expected = {b">": b"value", b">" * longest: b"", b"\0": b"", b">>": b"v", b">\0": b"w"}
    for key, value in expected.items():
        assert store.insert(key, value)
    for key, value in expected.items():
        assert store.get(key) == value, key


def test_a_key_beyond_the_limits_is_refused_and_leaves_no_trace(
    store: OpenStore, subject: Subject, tmp_path: Path
) -> None:
    store.insert(b"a", b"value")
    too_long = subject.store.max_key + 1
    keys = [b""] + ([b"k" * too_long] if too_long <= 2 * LARGEST_TRIED else [])
    refused: list[Callable[[bytes], object]] = [
        lambda key: store.insert(key, b"value"),
        lambda key: store.update(key, b"value"),
        store.get,
        store.remove,
        lambda key: store.write_batch([(b"b", b"value"), (key, b"value")]),
    ]
    before = sorted(os.listdir(tmp_path))
    for key, operation in itertools.product(keys, refused):
        with pytest.raises(TooLarge):
            operation(key)
    assert store.get(b"b") is None
    assert store.get(b"a") == b"value"
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("subject", [s for s in subjects() if not s.store.binding], ids=str)
def test_a_value_larger_than_the_buffer_is_refused(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    store.insert(b"key", b"twelve bytes")
    with pytest.raises(TooLarge):
        store.get(b"key", capacity=11)  # type: ignore[call-arg]
    assert store.get(b"key", capacity=12) == b"twelve bytes"  # type: ignore[call-arg]
    store.close()


def test_missing_keys_are_reported(store: OpenStore) -> None:
    store.insert(b"other", b"value")
    assert store.get(b"key") is None
    assert not store.update(b"key", b"value")
    assert not store.remove(b"key")
    assert store.get(b"key") is None
    assert store.get(b"other") == b"value"


@EVERY
def test_duplicate_keys_are_refused(store: OpenStore) -> None:
    assert store.insert(b"key", b"first")
    assert not store.insert(b"key", b"second")
    assert store.get(b"key") == b"first"
    assert store.remove(b"key")
    assert not store.remove(b"key")
    assert store.insert(b"key", b"third")
    assert store.get(b"key") == b"third"


@pytest.mark.parametrize("sizes", [(5, 50_000, 5), (50_000, 5, 50_000)])
def test_shorter_and_longer_values_replace_a_value(
    store: OpenStore, sizes: tuple[int, ...]
) -> None:
    store.insert(b"key", b"x")
    for size in sizes:
        value = random.Random(size).randbytes(size)
        assert store.update(b"key", value)
        assert store.get(b"key") == value


@EVERY
def test_a_batch_writes_every_record_and_overwrites(store: OpenStore) -> None:
    store.insert(b"k005", b"old")
    records = [(b"k%03d" % i, b"v" * i) for i in range(500)]
    store.write_batch(records)
    store.write_batch([])
    for key, value in records:
        assert store.get(key) == value


def run_random(
    store: OpenStore, count: int, choose: random.Random, model: dict[bytes, bytes]
) -> None:
    """Runs random operations on the store and on a dict, and compares every answer."""
    for _ in range(count):
        key = b"%04d" % choose.randrange(500)
        value = choose.randbytes(choose.choice([0, 1, 10, 100, 1000, 5000]))
        match choose.randrange(4):
            case 0:
                assert store.insert(key, value) == (key not in model)
                model.setdefault(key, value)
            case 1:
                assert store.update(key, value) == (key in model)
                if key in model:
                    model[key] = value
            case 2:
                assert store.remove(key) == (key in model)
                model.pop(key, None)
            case 3:
                assert store.get(key) == model.get(key)


@EVERY
def test_random_operations_match_a_dict_and_survive_reopening(
    subject: Subject, tmp_path: Path
) -> None:
    store = subject.open(tmp_path)
    choose, model = random.Random(7), dict[bytes, bytes]()
    run_random(store, 5000, choose, model)
    store.sync()
    run_random(store, 5000, choose, model)
    store.close()
    store = subject.open(tmp_path)
    for number in range(500):
        key = b"%04d" % number
        assert store.get(key) == model.get(key)
    if "scan" in subject.store.capabilities:
        assert list(store.scan()) == sorted(model.items())
    store.close()


@pytest.mark.parametrize("subject", subjects("scan"), ids=str)
def test_a_scan_is_in_key_order(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    assert list(store.scan()) == []
    keys = random.Random(3).sample(range(65536), 300)
    expected = {number.to_bytes(2, "big"): b"v%d" % number for number in keys}
    expected |= {b"\x10\x00\x00": b"", b"\x00": b"first", b"\xff\xff\xfe": b"last"}
    for key, value in expected.items():
        assert store.insert(key, value)
    ordered = sorted(expected.items())
    assert list(store.scan()) == ordered
    for start in (b"\x00", b"\x10\x00\x00", b"\x80", ordered[7][0], ordered[7][0] + b"\x00"):
        assert list(store.scan(start)) == [item for item in ordered if item[0] >= start]
    first = list(itertools.islice(store.scan(b"\x80"), 5))  # and then no more of it
    assert first == [item for item in ordered if item[0] >= b"\x80"][:5]
    assert store.remove(first[0][0])
    assert next(iter(store.scan(b"\x80"))) == first[1]
    assert list(store.scan(b"\xff\xff\xff")) == []
    store.close()


def shims(capability: str = "") -> list[Subject]:
    return [subject for subject in subjects(capability) if not subject.store.binding]


@pytest.mark.parametrize("subject", shims("scan"), ids=str)
def test_a_backward_scan_is_in_reverse_key_order(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    for start in (b"", b"\x00", b"key", b"\xff" * 20):
        assert list(store.scan(start, backwards=True)) == []
    assert store.insert(b"key", b"only")
    for start, found in ((b"kex", 0), (b"ke", 0), (b"key", 1), (b"key\x00", 1), (b"z", 1)):
        assert list(store.scan(start, backwards=True)) == [(b"key", b"only")] * found, start
    assert not store.insert(b"key", b"again")
    # An earlier refusal must not affect a scan.
    assert list(store.scan(b"", backwards=True)) == []
    assert store.remove(b"key")
    numbers = random.Random(5).sample(range(1 << 15), 1500)  # enough for many pages
    expected = {number.to_bytes(2, "big"): b"v%d" % number * (number % 70) for number in numbers}
    expected |= {b"\x00\x00\x00": b"", b"\x10\x00\x00": b"longer", b"\x7f\xff\xfe": b"last"}
    for key, value in expected.items():
        assert store.insert(key, value)
    rising = sorted(expected.items())
    falling = rising[::-1]
    assert list(store.scan(b"\xff" * 20, backwards=True)) == falling  # starts after the last key
    for start in (b"", b"\x00", b"\x00\x00"):  # starts before the first key
        assert list(store.scan(start, backwards=True)) == [
            item for item in falling if item[0] <= start
        ]
    keys = [key for key, _ in rising]
    for key in (keys[0], keys[1], b"\x10\x00\x00", keys[700], keys[-2], keys[-1]):
        for start in (key, key + b"\x00", key[:-1], key[:-1] + b"\xff" * 3):  # at keys and between
            assert list(store.scan(start, backwards=True)) == [
                item for item in falling if item[0] <= start
            ]
            assert list(store.scan(start)) == [item for item in rising if item[0] >= start]
    store.close()


@pytest.mark.parametrize("subject", shims("scan"), ids=str)
def test_scans_in_both_directions_can_be_stopped(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    records = [(b"%04d" % number, b"value %d" % number) for number in range(500)]
    store.write_batch(records)
    forth, back = store.scan(b"0250"), store.scan(b"0249", backwards=True)
    for number in range(250):  # both scans advance in turn, each in chunks
        assert next(forth) == records[250 + number]
        assert next(back) == records[249 - number]
        if number % 50 == 0:
            assert store.update(b"0499", b"value 499")
    assert [next(forth, None), next(back, None)] == [None, None]
    first = list(
        itertools.islice(store.scan(b"0300x", backwards=True), 5)
    )  # and then no more of it
    assert first == records[300:295:-1]
    assert store.remove(b"0300")
    assert next(store.scan(b"0300x", backwards=True)) == records[299]
    assert next(store.scan(b"0300")) == records[301]
    session = store.session()
    assert next(session.scan(b"0100", backwards=True)) == records[100]
    session.end()
    store.close()


@pytest.mark.parametrize("subject", shims("scan"), ids=str)
def test_a_scan_never_passes_null(subject: Subject, tmp_path: Path) -> None:
    """An empty value has a valid pointer, too: callers pass it to memcpy."""
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    assert store.insert(b"key", b"")
    visits: list[tuple[bool, bool]] = []

    slice_ = structure("kv_slice")

    @visit_type(slice_)  # type: ignore[untyped-decorator]
    def visit(_context: object, key: Any, value: Any) -> int:
        visits.append((bool(key.data), bool(value.data)))
        return 0

    driver = subject.store.driver()
    place = ctypes.create_string_buffer(b"key")
    start = slice_(ctypes.addressof(place), 3)
    for direction in Direction:
        assert driver.scan(store._kv, start, direction, visit, None) == 0
    store.close()
    assert visits == [(True, True)] * 2


@pytest.mark.parametrize("subject", shims("scan"), ids=str)
def test_a_scan_does_not_report_an_earlier_refusal(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    assert store.insert(b"key", b"value")
    for start in (b"", b"a", b"key", b"z"):
        assert not store.insert(b"key", b"again")
        assert list(store.scan(start, backwards=True)) == [(b"key", b"value")] * (start >= b"key")
        assert not store.remove(b"missing")
        assert list(store.scan(start)) == [(b"key", b"value")] * (start <= b"key")
    store.close()


@pytest.mark.parametrize("subject", shims(), ids=str)
def test_stores_that_can_scan_have_the_function(subject: Subject) -> None:
    assert bool(subject.store.driver().scan) == ("scan" in subject.store.capabilities)


@pytest.mark.parametrize("subject", shims(), ids=str)
def test_compact_loses_no_record(subject: Subject, tmp_path: Path) -> None:
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    if not store.compact():  # on an empty store
        store.close()
        pytest.skip("the engine has no such call")
    choose, model = random.Random(11), dict[bytes, bytes]()
    for _ in range(2):
        run_random(store, 3000, choose, model)
        assert store.compact()
        assert list(store.scan()) == sorted(model.items())
        assert list(store.scan(b"z", backwards=True)) == sorted(model.items(), reverse=True)
    run_random(store, 1000, choose, model)
    store.close()
    store = subject.open(tmp_path)
    assert isinstance(store, OpenShim)
    assert store.compact()
    for number in range(500):
        assert store.get(b"%04d" % number) == model.get(b"%04d" % number)
    store.close()


def tables(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix in (".ldb", ".sst")]


# Engines that keep sorted tables, with settings that delay their merging.
PIECES: dict[str, dict[str, str]] = {
    "leveldb": {},
    "hyperleveldb": {},
    "basho": {"write_buffer": str(1 << 20)},
    "rocksdb": {"bulk_load": "on", "write_buffer": str(1 << 20)},
}


@pytest.mark.check
@pytest.mark.parametrize("name", PIECES)
def test_compact_leaves_one_version_of_each_record(name: str, tmp_path: Path) -> None:
    """Writes forty versions of 2 MiB of records; the size of the table files shows what is kept."""
    if not KNOWN[name].available:
        pytest.skip(KNOWN[name].reason)
    used = []
    for compact in (False, True):
        folder = tmp_path / str(compact)
        folder.mkdir()
        store = open_store(KNOWN[name], folder, **PIECES[name])
        assert isinstance(store, OpenShim)
        for version in range(40):  # enough to reach Basho's level 2, see basho.c
            choose = random.Random(version)
            records = [(b"%04d" % number, choose.randbytes(1024)) for number in range(2048)]
            store.write_batch(records)
        if compact:
            assert store.compact()
        used.append(sum(file.stat().st_size for file in tables(folder)))
        assert list(store.scan()) == records
        store.close()
    assert used[1] < 2.5 * (1 << 20)
    assert used[1] < used[0]


@pytest.mark.parametrize("subject", subjects("threads"), ids=str)
def test_four_readers_beside_a_writer(subject: Subject, tmp_path: Path) -> None:
    """Readers must see only complete values: each repeats one number."""
    store = subject.open(tmp_path)
    keys = [b"key%02d" % number for number in range(20)]
    for key in keys:
        store.insert(key, b"0" * 500)
    wrong: list[object] = []
    reads = [0] * 4
    done = threading.Event()

    def read(reader: int) -> None:
        try:
            session = store.session()
            choose = random.Random(reader)
            while not done.is_set() or reads[reader] == 0:
                value = session.get(choose.choice(keys))
                reads[reader] += 1
                if value is None or len(value) != 500 or len(set(value)) != 1:
                    wrong.append(value)
            session.end()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    choose = random.Random(9)
    written = [
        store.update(choose.choice(keys), b"%d" % (number % 10) * 500) for number in range(300)
    ]
    done.set()
    for thread in threads:
        thread.join()
    store.close()
    assert not wrong
    assert all(written)
    assert all(reads)


@pytest.mark.parametrize("subject", shims("writers"), ids=str)
def test_several_writers_at_a_time(subject: Subject, tmp_path: Path) -> None:
    """Four threads of the timed loop write for a while, beside two readers where the store allows
    it. Then every record has the last version that was written, also after opening again."""
    size = RecordSize.parse("100-300 B")
    cell = Cell(subject.store.name, "", size, 2000, "incompressible", (), 1, 1, workload="readseq")
    records = Records(cell)
    loop = make_loop(subject.store, records, make_pool("incompressible", size.high, 1))
    assert isinstance(loop, ShimLoop)
    loop.open(tmp_path, subject.options)
    loop.load(records.live("insert"))
    readers = 2 if subject.store.can("threads", subject.options) else 0
    found = loop.traffic(Traffic(readers, writers=4, reads=0, writes=0, seconds=0.2, seed=1))
    assert found["write"].latency.n >= 4
    loop.check()
    loop.close()
    loop.open(tmp_path, subject.options)
    loop.check()
    loop.close()


def backups() -> list[Subject]:
    return [subject for subject in shims() if "backup" in subject.store.capabilities]


@pytest.mark.parametrize("subject", backups(), ids=str)
def test_a_backup_beside_a_writer_is_the_store_as_it_was_at_one_moment(
    subject: Subject, tmp_path: Path
) -> None:
    """The writer stores its count in one record after the other: the copy has those of one count,
    which the writer had reached meanwhile, and the store goes on. Without threads, the backup is
    alone."""
    folder, copy = tmp_path / "store", tmp_path / "copy"
    folder.mkdir()
    store = subject.open(folder)
    assert isinstance(store, OpenShim)
    keys = [b"key%03d" % number for number in range(500)]
    store.write_batch([(key, b"%08d" % 0 * 500) for key in keys])
    written, done = 0, threading.Event()
    faults: list[Exception] = []

    def write() -> None:
        nonlocal written
        try:
            session = store.session()
            while not done.is_set() or written < len(keys):
                assert session.update(keys[written % len(keys)], b"%08d" % (written + 1) * 500)
                written += 1
            session.end()
        except Exception as error:
            faults.append(error)

    threaded = subject.store.can("threads", subject.options)
    for _ in range(3):
        copy.mkdir()
        done.clear()
        threads = [threading.Thread(target=write)] * threaded
        for thread in threads:
            thread.start()
        before = written
        store.backup(copy)
        after = written + 1  # one may be on its way
        done.set()
        for thread in threads:
            thread.join()
        assert not faults
        opened = subject.open(copy)
        values = [opened.get(key) for key in keys]
        counts = [int(value[:8]) for value in values if value]
        assert values == [b"%08d" % count * 500 for count in counts]
        last = max(counts)
        assert before <= last <= after
        expected = [0] * len(keys)
        for count in range(max(0, last - len(keys)), last):
            expected[count % len(keys)] = count + 1
        assert counts == expected
        assert opened.insert(b"new", b"in the copy")
        opened.close()
        assert store.get(b"new") is None
        shutil.rmtree(copy)
    for number, key in enumerate(keys):
        value = store.get(key)
        assert value
        assert int(value[:8]) in (0, *range(number + 1, written + 1, len(keys)))
    store.close()


def test_an_unknown_option_is_refused_by_name(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no_such_option"):
        open_store(subject.store, tmp_path, no_such_option="1")


@EVERY
def test_effective_options_are_stated(store: OpenStore, subject: Subject) -> None:
    options = store.effective_options()
    assert options
    assert all(options.values())
    told = {name: options[name] for name in subject.options if name in options}
    assert told.items() <= subject.options.items()
    assert ("compression" in told) == ("compression" in subject.options)


@pytest.mark.parametrize("option", [{"small": "yes"}, {"compression": "gzip"}])
@pytest.mark.parametrize("name", ["kyoto-tree", "kyoto-hash"])
def test_a_wrong_setting_is_refused_with_the_allowed_ones(
    name: str, option: dict[str, str], tmp_path: Path
) -> None:
    if not KNOWN[name].available:
        pytest.skip(KNOWN[name].reason)
    (value,) = option.values()
    with pytest.raises(StoreError, match=f"'{value}' is not allowed; allowed: "):
        open_store(KNOWN[name], tmp_path, **option)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("label", ["sqlite", "sqlite/sqlite3", "sqlite/apsw"])
def test_sqlite_defaults_are_read_back(label: str, tmp_path: Path) -> None:
    """The study relies on this: by default SQLite syncs every write."""
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    store = open_store(KNOWN[label], tmp_path)
    options = store.effective_options()
    assert (options["journal_mode"], options["synchronous"]) == ("delete", "2")
    store.close()


@pytest.mark.parametrize("label", ["flat", "nested", "flat/io"])
def test_folder_stores_stay_in_their_folder(label: str, tmp_path: Path) -> None:
    inside = tmp_path / "store"
    inside.mkdir()
    store = open_store(KNOWN[label], inside)
    for key in (b"..", b"../x", b"/tmp/x", b"a/../../x"):
        assert store.insert(key, b"value")
    store.close()
    assert os.listdir(tmp_path) == ["store"]


def test_nested_folders_follow_the_key(tmp_path: Path) -> None:
    store = open_store(KNOWN["nested"], tmp_path)
    store.insert(bytes.fromhex("12abff"), b"value")
    store.insert(b"\x05", b"value")
    store.close()
    assert (tmp_path / "12" / "ab" / "12abff").read_bytes() == b"value"
    assert (tmp_path / "05" / "__" / "05").read_bytes() == b"value"


@pytest.mark.parametrize(
    "binding", ["flat/io", "bdb/bsddb3", "bdb/berkeleydb", "sqlite/sqlite3", "gdbm/dbm.gnu"]
)
def test_a_binding_reads_what_the_shim_wrote(binding: str, tmp_path: Path) -> None:
    """Binding and shim differ only in access: they share the files, the table and the keys."""
    if not KNOWN[binding].available:
        pytest.skip(KNOWN[binding].reason)
    written = open_store(KNOWN[KNOWN[binding].name], tmp_path)
    written.insert(b"\x00key", b"value")
    written.close()
    store = open_store(KNOWN[binding], tmp_path)
    assert store.get(b"\x00key") == b"value"
    store.close()


@pytest.mark.parametrize(
    ("label", "file", "query"),
    [
        ("sqlite/diskcache", "cache.db", "SELECT key, value FROM Cache"),
        ("sqlite/sqlitedict", "records.sqlite", "SELECT key, value FROM unnamed"),
    ],
)
def test_packages_that_would_pickle_get_bytes_and_keep_them(
    label: str, file: str, query: str, tmp_path: Path
) -> None:
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    store = open_store(KNOWN[label], tmp_path)
    store.insert(b"key", b"value")
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / file)) as database:
        assert database.execute(query).fetchall() == [(b"key", b"value")]


def test_diskcache_evicts_nothing_and_keeps_large_values_in_files(tmp_path: Path) -> None:
    label = "sqlite/diskcache"
    if not KNOWN[label].available:
        pytest.skip(KNOWN[label].reason)
    store, value = open_store(KNOWN[label], tmp_path), random.Random(1).randbytes(32 << 10)
    assert store.insert(b"key", value)
    assert store.effective_options()["eviction_policy"] == "none"
    store.close()
    assert [file.read_bytes() for file in tmp_path.rglob("*.val")] == [value]


FAMILY = {  # with a file that only the engine's own code creates
    "leveldb": "*.ldb",
    "hyperleveldb": "*.sst",
    "basho": "sst_0",
    "leveldb/plyvel": "*.ldb",
}


FILE_LIMIT = 1_000_000  # bytes
OUTGROW = f"""
import os, random, resource, signal, sys
from pathlib import Path
from kvbench.stores import catalogue
from kvbench.stores.opened import open_store
from kvbench.cell.contract import StoreError
label, folder, options = sys.argv[1], Path(sys.argv[2]), dict(o.split("=") for o in sys.argv[3:])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = open_store(catalogue.known()[label], folder, **options)
resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_LIMIT}, {FILE_LIMIT}))
try:
    while True:
        store.insert(random.randbytes(16), random.randbytes(1000))
except StoreError as error:
    print(error, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("label", ["wiredtiger-btree", "wiredtiger-lsm"])
def test_a_panic_states_its_cause(label: str, tmp_path: Path) -> None:
    """A limit on the size of files makes writing the log fail."""
    command = [sys.executable, "-c", OUTGROW, label, str(tmp_path), "durability=process"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert "WT_PANIC" in done.stdout
    assert os.strerror(errno.EFBIG) in done.stdout


def test_leveldb_and_its_forks_live_in_one_process(tmp_path: Path) -> None:
    """LevelDB and its forks share function names. Each must call its own functions."""
    folders = {label: tmp_path / label.replace("/", "-") for label in FAMILY}
    opened = {}
    for label, folder in folders.items():
        if not KNOWN[label].available:
            pytest.skip(f"{label}: {KNOWN[label].reason}")
        folder.mkdir()
        opened[label] = open_store(KNOWN[label], folder)
    for number in range(3000):  # enough to write tables as well as logs
        for label, store in opened.items():
            assert store.insert(b"%06d" % number, label.encode() * 400)
    for label, store in opened.items():
        records = list(store.scan())
        assert len(records) == 3000
        assert {value for _, value in records} == {label.encode() * 400}
        store.close()
        assert list(folders[label].glob(FAMILY[label])), label


TWICE = [name for name in KNOWN if {name, f"{name}-debian"} <= set(AVAILABLE)]


@pytest.mark.parametrize("name", TWICE)
def test_two_builds_of_an_engine_live_in_one_process(name: str, tmp_path: Path) -> None:
    """Their functions share names. The version tells the builds apart."""
    opened = {}
    for label in (name, f"{name}-debian"):
        (tmp_path / label).mkdir()
        opened[label] = open_store(KNOWN[label], tmp_path / label, durability="process")
        assert re.fullmatch(r"[0-9.]+ \(.+\)", KNOWN[label].version)
    for number in range(3000):  # enough to write tables as well as logs
        for label, store in opened.items():
            assert store.insert(b"%06d" % number, label.encode() * 300)
    for label, store in opened.items():
        assert {value for _, value in store.scan()} == {label.encode() * 300}
        store.close()


TEMPLATE = (SHIMS / "stores" / "template.c").read_text()


def run_suite(shims: Path, which: str) -> subprocess.CompletedProcess[str]:
    """Runs this file in a new process, on other shims."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "KVBENCH_SHIMS": str(shims)}
    return subprocess.run(
        [*command, "-k", which], env=environment, capture_output=True, text=True, check=False
    )


def test_the_template_conforms(compile_shim: Callable[..., Path], own_shims: Path) -> None:
    """The template, which new shims start from, passes every case of its capabilities."""
    compile_shim("template", TEMPLATE, "-Wall", "-Werror")
    run = run_suite(own_shims, "template and not the_template")
    assert run.returncode == 0, run.stdout
    assert re.search(r"template: [12]\d cases passed", run.stdout)


def built(sources: Path, folder: Path, *stores: str) -> subprocess.CompletedProcess[str]:
    """Builds stores as set-up does; the shims are then in the folder."""
    options = f"-DKV_STORES={';'.join(stores)}", "-DKV_WERROR=ON"
    configure = ["cmake", "-S", str(sources), "-B", str(folder), *options]
    done = subprocess.run(configure, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        build = ["cmake", "--build", str(folder)]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
    return done


@pytest.mark.check
def test_a_copy_of_two_files_is_a_store(tmp_path: Path, kvbench: Run) -> None:
    """What README.md beside the template promises: copy them, build, and every case passes."""
    sources, folder = tmp_path / "sources", tmp_path / "built"
    shutil.copytree(SHIMS, sources)
    for suffix in ("c", "toml"):
        shutil.copy(sources / f"stores/template.{suffix}", sources / f"stores/mine.{suffix}")
    done = built(sources, folder, "mine", "null")
    assert done.returncode == 0, done.stderr
    assert '"template"' not in (folder / "stores.json").read_text()
    listed = kvbench("stores", env={"KVBENCH_SHIMS": str(folder)}).stdout
    assert re.search("^mine +c +1 ", listed, re.MULTILINE)
    assert "mine: " not in listed
    run = run_suite(folder, "mine")
    assert run.returncode == 0, run.stdout
    assert re.search(r"mine: [12]\d cases passed", run.stdout)


@pytest.mark.check
def test_what_cmake_cannot_read_of_a_store_is_named(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(SHIMS, sources)
    file = sources / "stores/flat.toml"
    file.write_text(file.read_text() + "[build] # of nothing\nheader = 'flat.h'\n")
    done = built(sources, tmp_path / "built", "null")
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "stores/flat.toml: [build]: header = 'flat.h': not a line KEY = \"TEXT\"" in said


@pytest.mark.check
@pytest.mark.parametrize(
    ("honest", "altered", "fails"),
    [
        (
            "        if (visit(context",
            "        static int turn;\n        if (turn++ % 2 == 0 && visit(context",
            "test_a_scan_is_in_key_order",
        ),
        (
            "find(kv, from, &place, &end)",
            "place = 0, end = kv->size",
            "test_a_scan_is_in_key_order",
        ),
        (
            "from, &place, &end);",
            "from, &place, &end), end = place;",
            "test_a_backward_scan_is_in_reverse_key_order",
        ),
        ("found ? mode == KV_INSERT :", "found ? false :", "test_duplicate_keys_are_refused"),
        ("buffer, capacity, size)\n", "buffer, ROOM, size)\n", "test_a_value_larger"),
        ("MAP_SHARED", "MAP_PRIVATE", "test_random_operations_match_a_dict_and_survive_reopening"),
    ],
)
def test_the_template_altered_fails(
    honest: str, altered: str, fails: str, compile_shim: Callable[..., Path], own_shims: Path
) -> None:
    """The suite must detect a store that lacks what it claims."""
    assert honest in TEMPLATE
    compile_shim("template", TEMPLATE.replace(honest, altered), "-w")
    run = run_suite(own_shims, f"{fails} and template and not the_template")
    assert f"FAILED {Path(__file__).relative_to(Path.cwd())}::{fails}" in run.stdout, run.stdout
