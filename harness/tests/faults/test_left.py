"""What a child process reports of a store that is whole, refuses to open, hangs or ends the
process."""

import contextlib
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.store import Store
from kvbench.faults.apart import HANGS, apart
from kvbench.faults.left import digest, look
from kvbench.stores.opened import OpenStore, open_store

KEYS = [b"key %d" % i for i in range(30)]
ENDS = """
#include <signal.h>
#include <unistd.h>
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t room, size_t *size)
{
    if (key.size == 5 && memcmp(key.data, "key 7", 5) == 0) {
        fprintf(stderr, "a failed check\\n");
        END;
    }
    return honest.get(kv, key, buffer, room, size);
}
"""

SCANS = """
static int my_scan(struct kv *kv, struct kv_slice from, enum kv_direction direction,
                   kv_visit visit, void *context)
{
    (void)from, (void)direction;
    if (FAILS)
        return KV_ERROR;
    char value[100];
    for (int i = 0; i < 20; i++) {
        char key[10];
        size_t size = (size_t)snprintf(key, sizeof key, "key %d", 10 + i), length;
        struct kv_slice slice = {key, size};
        if (i == 9 || honest.get(kv, slice, value, sizeof value, &length))
            continue;
        if (visit(context, slice, (struct kv_slice){i == 8 ? "other" : value, 5}))
            break;
    }
    return KV_OK;
}
"""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed store."""
    folder = tmp_path / "filled"
    folder.mkdir()
    opened = open_store(Store("gdbm"), folder)
    for key in KEYS[:-1]:
        opened.insert(key, key * 3)
    opened.close()
    return folder


def test_each_key_has_its_value_or_is_missing(filled: Path) -> None:
    left = look(Store("gdbm"), filled, KEYS)
    assert left == ("", "", (*(digest(key * 3) for key in KEYS[:-1]), None), 0, "", "", "")


def test_keys_that_nobody_asked_for_are_counted(tmp_path: Path) -> None:
    opened = open_store(Store("lmdb"), tmp_path)
    for key in KEYS:
        opened.insert(key, b"value")
    opened.close()
    assert look(Store("lmdb"), tmp_path, KEYS[:20], scan=True).extra == 10


@pytest.mark.parametrize(
    ("fails", "why"), [(1, "scan: "), (0, "scan: unlike the reads: 2 records")]
)
def test_a_scan_that_fails_or_differs_from_the_reads_is_reported(
    alter_shim: Callable[..., Store], fails: int, why: str, tmp_path: Path
) -> None:
    store = alter_shim("lmdb", SCANS.replace("FAILS", str(fails)), "scan", name=f"scans{fails}")
    (folder := tmp_path / "store").mkdir()
    opened = open_store(store, folder)
    for key in KEYS[10:]:
        opened.insert(key, b"value")
    opened.close()
    left = look(store, folder, KEYS, scan=True, then=lambda _: "")
    assert (left.after.startswith(why), left.extra) == (True, 0), left


def test_the_store_is_handed_on_after_the_reads(filled: Path) -> None:
    def then(opened: OpenStore) -> str:
        opened.update(KEYS[0], b"new")
        return f"holds {opened.get(KEYS[0])!r}"

    left = look(Store("gdbm"), filled, KEYS[:1], then=then)
    assert (left.found, left.after) == ((digest(KEYS[0] * 3),), "holds b'new'")


def test_a_store_that_does_not_open_says_why(filled: Path) -> None:
    (file,) = filled.iterdir()
    file.write_bytes(b"no database")
    left = look(Store("gdbm"), filled, KEYS)
    assert left.refused
    assert (left.ended, left.found) == ("", ())


@pytest.mark.check
@pytest.mark.parametrize(
    ("end", "ended"),
    [("raise(SIGSEGV)", "signal SIGSEGV"), ("_exit(3)", "exit status 3"), ("pause()", HANGS)],
)
def test_a_child_that_ends_early_says_how(
    alter_shim: Callable[..., Store], end: str, ended: str, tmp_path: Path
) -> None:
    store = alter_shim("template", ENDS.replace("END", end), "get", name=f"ends{len(ended)}")
    opened = open_store(store, tmp_path)
    opened.insert(KEYS[7], b"value")
    opened.close()
    left = look(store, tmp_path, KEYS[6:8], limit=5)
    assert left == (ended, "", (None,), 0, "", "", "a failed check")


def test_a_process_with_many_open_files_is_answered() -> None:
    """select(2) takes descriptors below 1,024 only."""
    many = 1100
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < many + 100:
        pytest.skip("fewer files may be open here")
    with contextlib.ExitStack() as opened:
        for _ in range(many):
            opened.enter_context(open(os.devnull, "rb"))
        assert apart(lambda: "an answer").value == "an answer"
