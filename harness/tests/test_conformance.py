"""Every store through the same cases: one contract, real engines, real files."""

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import KEEPING
from kvbench import stores
from kvbench.stores import OpenStore, Status

LARGEST_TRIED = 1 << 20  # bytes


def capable(capability: str) -> list[str]:
    known = stores.known()
    return [name for name in KEEPING if capability in known[name].capabilities]


@pytest.fixture(params=KEEPING)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(name: str, tmp_path: Path) -> Iterator[OpenStore]:
    opened = OpenStore(stores.known()[name], tmp_path)
    yield opened
    opened.close()


def test_empty_value(store: OpenStore) -> None:
    assert store.insert(b"key", b"") == Status.OK
    assert store.get(b"key") == (Status.OK, b"")
    assert store.update(b"key", b"more") == Status.OK
    assert store.update(b"key", b"") == Status.OK
    assert store.get(b"key") == (Status.OK, b"")


@pytest.mark.parametrize("size", [1, 100, 1023, 4096, 10240, 102400, LARGEST_TRIED])
def test_value_sizes(store: OpenStore, size: int) -> None:
    value = random.Random(size).randbytes(size)
    assert store.insert(b"key", value) == Status.OK
    assert store.get(b"key") == (Status.OK, value)


def test_keys_of_any_bytes(store: OpenStore) -> None:
    keys = [bytes([byte]) for byte in range(256)]
    keys += [
        b"\0",
        b"\0\0",
        b"a\0b",
        b"..",
        b"../x",
        b"/",
        b"a/b",
        b"a",
        b"A",
        b"%00",
        b" ",
        b"\xff" * 9,
    ]
    expected = {key: b"value of " + key for key in keys}
    for key, value in expected.items():
        assert store.insert(key, value) == Status.OK, key
    for key, value in expected.items():
        assert store.get(key) == (Status.OK, value), key


def test_longest_key(store: OpenStore, name: str) -> None:
    longest = min(stores.known()[name].max_key, LARGEST_TRIED)
    key = random.Random(1).randbytes(longest)
    near = key[:-1] + bytes([key[-1] ^ 1])
    assert store.insert(key, b"value") == Status.OK
    assert store.get(near)[0] == Status.NOT_FOUND
    assert store.get(key) == (Status.OK, b"value")


def test_limits_refuse_and_leave_no_trace(store: OpenStore, name: str, tmp_path: Path) -> None:
    store.insert(b"a", b"value")
    too_long = stores.known()[name].max_key + 1
    keys = [b""] + ([b"k" * too_long] if too_long <= 2 * LARGEST_TRIED else [])
    before = sorted(os.listdir(tmp_path))
    for key in keys:
        assert store.insert(key, b"value") == Status.TOO_LARGE
        assert store.update(key, b"value") == Status.TOO_LARGE
        assert store.get(key)[0] == Status.TOO_LARGE
        assert store.remove(key) == Status.TOO_LARGE
        assert store.write_batch([(b"b", b"value"), (key, b"value")]) == Status.TOO_LARGE
    assert store.get(b"b")[0] == Status.NOT_FOUND
    assert store.get(b"a") == (Status.OK, b"value")
    assert sorted(os.listdir(tmp_path)) == before


def test_value_larger_than_the_buffer(store: OpenStore) -> None:
    store.insert(b"key", b"twelve bytes")
    assert store.get(b"key", capacity=11)[0] == Status.TOO_LARGE
    assert store.get(b"key", capacity=12) == (Status.OK, b"twelve bytes")


def test_missing_keys(store: OpenStore) -> None:
    store.insert(b"other", b"value")
    assert store.get(b"key")[0] == Status.NOT_FOUND
    assert store.update(b"key", b"value") == Status.NOT_FOUND
    assert store.remove(b"key") == Status.NOT_FOUND
    assert store.get(b"key")[0] == Status.NOT_FOUND
    assert store.get(b"other") == (Status.OK, b"value")


def test_double_keys(store: OpenStore) -> None:
    assert store.insert(b"key", b"first") == Status.OK
    assert store.insert(b"key", b"second") == Status.EXISTS
    assert store.get(b"key") == (Status.OK, b"first")
    assert store.remove(b"key") == Status.OK
    assert store.remove(b"key") == Status.NOT_FOUND
    assert store.insert(b"key", b"third") == Status.OK
    assert store.get(b"key") == (Status.OK, b"third")


@pytest.mark.parametrize("sizes", [(5, 50_000, 5), (50_000, 5, 50_000)])
def test_overwrite_by_shorter_and_longer(store: OpenStore, sizes: tuple[int, ...]) -> None:
    store.insert(b"key", b"x")
    for size in sizes:
        value = random.Random(size).randbytes(size)
        assert store.update(b"key", value) == Status.OK
        assert store.get(b"key") == (Status.OK, value)


def test_batch_writes_all_and_overwrites(store: OpenStore) -> None:
    store.insert(b"k005", b"old")
    records = [(b"k%03d" % i, b"v" * i) for i in range(500)]
    assert store.write_batch(records) == Status.OK
    assert store.write_batch([]) == Status.OK
    for key, value in records:
        assert store.get(key) == (Status.OK, value)


def random_operations(store: OpenStore, count: int, seed: int) -> dict[bytes, bytes]:
    """Runs them against a dict as well, comparing every answer. Returns the dict."""
    choose = random.Random(seed)
    model: dict[bytes, bytes] = {}
    for _ in range(count):
        key = b"%04d" % choose.randrange(500)
        value = choose.randbytes(choose.choice([0, 1, 10, 100, 1000, 5000]))
        match choose.randrange(4):
            case 0:
                expected = Status.EXISTS if key in model else Status.OK
                assert store.insert(key, value) == expected
                model.setdefault(key, value)
            case 1:
                expected = Status.OK if key in model else Status.NOT_FOUND
                assert store.update(key, value) == expected
                if key in model:
                    model[key] = value
            case 2:
                expected = Status.OK if key in model else Status.NOT_FOUND
                assert store.remove(key) == expected
                model.pop(key, None)
            case 3:
                found = (Status.OK, model[key]) if key in model else (Status.NOT_FOUND, b"")
                assert store.get(key) == found
    return model


def test_random_operations_then_reopen(name: str, tmp_path: Path) -> None:
    store = OpenStore(stores.known()[name], tmp_path)
    model = random_operations(store, 3000, seed=7)
    assert store.sync() == Status.OK
    store.close()
    store = OpenStore(stores.known()[name], tmp_path)
    for number in range(500):
        key = b"%04d" % number
        found = (Status.OK, model[key]) if key in model else (Status.NOT_FOUND, b"")
        assert store.get(key) == found
    store.close()


@pytest.mark.parametrize("name", capable("scan"))
def test_ordered_scan(name: str, tmp_path: Path) -> None:
    store = OpenStore(stores.known()[name], tmp_path)
    keys = random.Random(3).sample(range(65536), 300)
    expected = {number.to_bytes(2, "big"): b"v%d" % number for number in keys}
    expected[b"\x10\x00\x00"] = b""
    for key, value in expected.items():
        store.update(key, value) if store.get(key)[0] == Status.OK else store.insert(key, value)
    ordered = sorted(expected.items())
    assert store.scan() == ordered
    assert store.scan(b"\x10\x00\x00") == [item for item in ordered if item[0] >= b"\x10\x00\x00"]
    assert store.scan(b"\x80", limit=5) == [item for item in ordered if item[0] >= b"\x80"][:5]
    assert store.scan(b"\xff\xff\xff") == []
    store.close()


@pytest.mark.parametrize("name", capable("threads"))
def test_four_readers_beside_a_writer(name: str, tmp_path: Path) -> None:
    """Readers see, for each key, a value that was written whole: its number over and over."""
    store = OpenStore(stores.known()[name], tmp_path)
    keys = [b"key%02d" % number for number in range(20)]
    for key in keys:
        store.insert(key, b"0" * 500)
    wrong: list[object] = []
    reads = [0] * 4
    done = threading.Event()

    def read(reader: int) -> None:
        session = store.session()
        choose = random.Random(reader)
        while not done.is_set() or reads[reader] == 0:
            status, value = session.get(choose.choice(keys))
            reads[reader] += 1
            if status != Status.OK or len(value) != 500 or len(set(value)) != 1:
                wrong.append((status, value))
        session.end()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    choose = random.Random(9)
    for number in range(300):
        assert store.update(choose.choice(keys), b"%d" % (number % 10) * 500) == Status.OK
    done.set()
    for thread in threads:
        thread.join()
    store.close()
    assert not wrong
    assert all(reads)


def test_unknown_option_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(stores.StoreError, match="no_such_option"):
        OpenStore(stores.known()[name], tmp_path, no_such_option="1")


def test_effective_options_are_stated(store: OpenStore) -> None:
    options = store.effective_options()
    assert options
    assert all(options.values())


def test_sqlite_defaults_are_read_back(tmp_path: Path) -> None:
    """What design rests on: as shipped, SQLite syncs every write."""
    store = OpenStore(stores.known()["sqlite"], tmp_path)
    options = store.effective_options()
    assert (options["journal_mode"], options["synchronous"]) == ("delete", "2")
    store.close()


@pytest.mark.parametrize("name", [name for name in ("flat", "nested") if name in KEEPING])
def test_folder_stores_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "store"
    inside.mkdir()
    store = OpenStore(stores.known()[name], inside)
    for key in (b"..", b"../x", b"/tmp/x", b"a/../../x"):
        assert store.insert(key, b"value") == Status.OK
    store.close()
    assert os.listdir(tmp_path) == ["store"]


def test_nested_folders_follow_the_key(tmp_path: Path) -> None:
    store = OpenStore(stores.known()["nested"], tmp_path)
    store.insert(bytes.fromhex("12abff"), b"value")
    store.insert(b"\x05", b"value")
    store.close()
    assert (tmp_path / "12" / "ab" / "12abff").read_bytes() == b"value"
    assert (tmp_path / "05" / "__" / "05").read_bytes() == b"value"
