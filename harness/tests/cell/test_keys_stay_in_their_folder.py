"""Stores with one file per record never leave their folder, whatever the key or link."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from kvbench.cell.contract import StoreError, TooLarge
from kvbench.stores import catalogue
from kvbench.stores.opened import open_store

KNOWN = catalogue.known()
VARIANTS = [
    (label, options)
    for label in ("flat", "nested", "flat/io")
    for options in ({}, *({"durability": level} for level in ("recoverable", "sync", "atomic")))
    if not (options and KNOWN[label].binding)
]
KEYS = [
    b".", b"..", b"../x", b"../../x", b"/", b"/etc/passwd", b"a/../../x", b"\0", b"x\0", b"\0x",
    b"x\0/../y", b"~", b"%2e%2e", b"-rf", b"con", b"new\nline", b"\xff\xfe", b"A" * 127,
]  # fmt: skip
CASES = [b"key", b"Key", b"KEY", b"kEY", "\u00e9".encode(), "e\u0301".encode()]


def label(variant: tuple[str, dict[str, str]]) -> str:
    return ",".join((variant[0], *variant[1].values()))


@pytest.fixture(params=VARIANTS, ids=label)
def variant(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a store, next to a file and a folder that are not the store's."""
    (tmp_path / "x").write_bytes(b"beside")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "y").write_bytes(b"apart")
    inner = tmp_path / "store"
    inner.mkdir()
    return inner


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file outside the store, with its inode and content."""
    return {
        str(path.relative_to(folder.parent)): (
            path.stat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.parent.rglob("*")
        if folder not in path.parents
    }


def opened(variant: tuple[str, dict[str, str]], folder: Path) -> Any:
    name, options = variant
    return open_store(KNOWN[name], folder, **options)


def test_no_key_leaves_the_folder(variant: Any, folder: Path) -> None:
    before = listing(folder)
    store = opened(variant, folder)
    for key in KEYS:
        value = b"value of " + key
        assert store.get(key) is None, key
        assert not store.update(key, value)
        assert not store.remove(key)
        assert store.insert(key, value)
        assert not store.insert(key, b"another")
        assert store.get(key) == value
        assert store.update(key, value * 2)
    store.write_batch([(key, b"batch " + key) for key in KEYS])
    assert [store.get(key) for key in KEYS] == [b"batch " + key for key in KEYS]
    store.sync()
    for key in KEYS[::2]:
        assert store.remove(key)
    store.close()
    assert listing(folder) == before
    store = opened(variant, folder)
    for number, key in enumerate(KEYS):
        assert store.get(key) == (b"batch " + key if number % 2 else None)
    store.close()
    assert not [path for path in folder.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("key", [b"", b"k" * 300, b"../" * 100, b"\0" * 300])
def test_an_empty_or_too_long_key_is_refused(variant: Any, key: bytes, folder: Path) -> None:
    before = listing(folder)
    store = opened(variant, folder)
    assert len(key) == 0 or len(key) > KNOWN[variant[0]].max_key
    refused = (
        lambda: store.get(key),
        lambda: store.insert(key, b"value"),
        lambda: store.update(key, b"value"),
        lambda: store.remove(key),
        lambda: store.write_batch([(b"fine", b"value"), (key, b"value")]),
    )
    for operation in refused:
        with pytest.raises(TooLarge):
            operation()
    store.close()
    assert list(folder.iterdir()) == []
    assert listing(folder) == before


def test_names_that_differ_in_case_only_stay_distinct(variant: Any, folder: Path) -> None:
    store = opened(variant, folder)
    for number, key in enumerate(CASES):
        assert store.insert(key, b"%d" % number), key
    assert store.update(CASES[1], b"new")
    assert store.remove(CASES[2])
    expected = [b"0", b"new", None, *(b"%d" % number for number in range(3, len(CASES)))]
    assert [store.get(key) for key in CASES] == expected
    store.close()
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert len({name.lower() for name in names}) == len(CASES) - 1


@pytest.mark.parametrize("operation", ["get", "insert", "update", "remove", "write_batch"])
@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v[0] != "flat/io"], ids=label)
def test_no_link_is_followed(variant: Any, operation: str, dangling: bool, folder: Path) -> None:
    """A link in place of a record points to a file outside. The test omits the binding flat/io:
    Python's own open() follows the link, and we measure the binding as programs use it."""
    store = opened(variant, folder)
    assert store.insert(b"key", b"value")
    [record] = [path for path in folder.rglob("*") if path.is_file()]
    record.unlink()
    record.symlink_to(folder.parent / ("missing" if dangling else "x"))
    before = listing(folder)
    calls = {
        "get": lambda: store.get(b"key"),
        "insert": lambda: store.insert(b"key", b"written"),
        "update": lambda: store.update(b"key", b"written"),
        "remove": lambda: store.remove(b"key"),
        "write_batch": lambda: store.write_batch([(b"key", b"written")]),
    }
    answer = None
    with contextlib.suppress(StoreError):  # refused
        answer = calls[operation]()
    store.close()
    assert listing(folder) == before
    assert answer != b"beside"
    if operation == "remove":
        assert not os.path.lexists(record)  # the link itself


@pytest.mark.parametrize("operation", ["insert", "update", "write_batch"])
def test_no_link_in_place_of_a_temporary_file_is_followed(operation: str, folder: Path) -> None:
    """An atomic write begins with a temporary file next to the record."""
    store: Any = open_store(KNOWN["flat"], folder, durability="atomic")
    if operation != "insert":
        assert store.insert(b"key", b"value")
    (folder / (b"key".hex() + "~")).symlink_to(folder.parent / "x")
    before = listing(folder)
    with contextlib.suppress(StoreError):  # refused
        if operation == "write_batch":
            store.write_batch([(b"key", b"written")])
        else:
            getattr(store, operation)(b"key", b"written")
    store.close()
    assert listing(folder) == before
