"""The loops in Python and in C write the same records and make the same checks."""

import ctypes
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kvbench.cell.bindings import Binding, load
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import KEY_ORDER, OPERATIONS, Cell, RecordSize
from kvbench.cell.library import Constant, filled, shims_folder, structure
from kvbench.cell.loop import CHURN, CHURNING, WALL, Loop, PythonLoop, ShimLoop, make_loop
from kvbench.cell.meter import SECOND
from kvbench.cell.phase import Phase
from kvbench.cell.plan import SAMPLES, Records, make_pool
from kvbench.cell.store import Store
from kvbench.durability.operations import plan_of, run_into
from kvbench.stores import catalogue
from kvbench.stores.opened import open_store
from support import BOUND, KEEPING, SHIMS

KNOWN = catalogue.known()
SIZE = RecordSize.parse("100-200 B")
POOL = make_pool("incompressible", SIZE.high, 1)


def cell(store: str, binding: str = "", **levels: Any) -> Cell:
    plain = Cell(store, binding, SIZE, 2500, "incompressible", OPERATIONS, trial=1, seed=1)
    return dataclasses.replace(plain, **levels)


def open_loop(store: Store, records: Records, folder: Path) -> Any:
    loop = make_loop(store, records, POOL)
    loop.open(folder, {})
    return loop


def loaded(store: Store, folder: Path, **levels: Any) -> tuple[Any, Records]:
    """An open loop on a loaded store, and its records."""
    records = Records(cell(store.name, store.binding, **levels))
    loop = open_loop(store, records, folder)
    loop.load(records.live("insert"))
    return loop, records


def state(records: Records) -> npt.NDArray[np.uint8]:
    """The versions, as C keeps them."""
    kept = (ctypes.c_uint8 * records.universe).from_address(records.c.state)
    return np.frombuffer(kept, np.uint8)


def run_rounds(loop: Loop) -> None:
    phases = loop.rounds(OPERATIONS, SAMPLES, 0)
    assert set(phases) == set(OPERATIONS)
    for phase in phases.values():
        assert phase.latency.n == phase.items == SAMPLES
        assert phase.latency.min is not None
        assert 0 < phase.latency.min <= phase.latency.max


def check_all(loop: Loop, records: Records) -> None:
    """As the worker does at the end of a cell."""
    for plan in records.refused():
        loop.refuse(plan)
    loop.check()


@pytest.mark.parametrize("label", ["flat/io", "bdb/bsddb3", "sqlite/sqlite3"])
@pytest.mark.parametrize("first", ["c", "python"])
def test_both_loops_write_and_read_the_same_records(label: str, first: str, tmp_path: Path) -> None:
    binding = KNOWN[label]
    if not binding.available:
        pytest.skip(binding.reason)
    order = [KNOWN[binding.name], binding]
    writer, reader = order if first == "c" else order[::-1]
    records = Records(cell(binding.name))
    loop = open_loop(writer, records, tmp_path)
    load = loop.load(records.live("insert"))
    assert (load.latency.n, load.items) == (3, 2500)  # batches of at most a thousand records
    run_rounds(loop)
    loop.close()
    loop = open_loop(reader, records, tmp_path)
    assert loop.run(records.live("get"))[""].latency.n == 2500
    check_all(loop, records)
    run_rounds(loop)
    check_all(loop, records)
    loop.close()


@pytest.mark.check
@pytest.mark.parametrize("label", [*KEEPING, *BOUND])
@pytest.mark.parametrize("key_size", [8, 24, 64])
def test_every_store_keeps_keys_of_every_size(label: str, key_size: int, tmp_path: Path) -> None:
    store = KNOWN[label]
    loop, records = loaded(store, tmp_path, key_size=key_size, records=100)
    for operation in OPERATIONS:
        assert loop.burst(operation, records.churn).latency.n == records.churn
    check_all(loop, records)
    loop.close()
    loop = open_loop(store, records, tmp_path)
    check_all(loop, records)
    loop.close()


@pytest.mark.parametrize("key_order", KEY_ORDER)
@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_rounds_of_c_keep_to_the_records(key_order: str, count: int, tmp_path: Path) -> None:
    """The store refuses each operation that is not valid and gives each value written last."""
    loop, records = loaded(KNOWN["lmdb"], tmp_path, key_order=key_order, records=count)
    phases = loop.rounds(OPERATIONS, SAMPLES, 0)
    for phase in phases.values():
        assert SAMPLES <= phase.latency.n < SAMPLES + records.churn
    assert records.total()["live_records"] == count
    check_all(loop, records)
    loop.close()


@pytest.mark.parametrize("label", ["null", "null/null"])
@pytest.mark.parametrize(
    ("timed", "done"),
    [
        (("get",), {"get"}),
        (("insert",), {"insert", "remove"}),  # they go together
        (("remove", "update"), {"insert", "update", "remove"}),
        (OPERATIONS, set(OPERATIONS)),
    ],
)
def test_rounds_end_after_their_samples_and_their_least_time(
    label: str, timed: tuple[str, ...], done: set[str], tmp_path: Path
) -> None:
    """Inserts and removes are done equally often, so the time of both together is enough; and no
    operation goes on where the harness needs most of the time."""
    loop, records = loaded(KNOWN[label], tmp_path)
    once = loop.rounds(timed, SAMPLES, 0)
    assert {name: phase.latency.n for name, phase in once.items()} == dict.fromkeys(done, SAMPLES)
    least_s = 0.01
    phases = loop.rounds(timed, SAMPLES, least_s)
    assert set(phases) == done
    both = sum(phases[name].wall_s for name in CHURNING if name in phases)
    for name in timed:
        phase = phases[name]
        assert phase.latency.n >= SAMPLES
        enough = phase.latency.sum >= least_s * SECOND or phase.wall_s >= WALL * least_s
        assert enough or (name in CHURNING and both >= CHURN * least_s)
    assert records.total()["live_records"] == 2500
    loop.close()


@pytest.mark.parametrize("label", ["lmdb", "lmdb/lmdb", "flat", "flat/io"])
@pytest.mark.parametrize("order", KEY_ORDER)
@pytest.mark.parametrize("batch", [1, 7, 250])
def test_updates_in_batches(label: str, order: str, batch: int, tmp_path: Path) -> None:
    """A batch has `batch` records, which the store then holds in their last versions."""
    loop, _ = loaded(KNOWN[label], tmp_path, batch=batch, key_order=order)
    phases = loop.rounds(("get", "update"), SAMPLES, 0.01)
    assert phases["update"].items == batch * phases["update"].latency.n >= SAMPLES
    assert phases["get"].items == phases["get"].latency.n >= SAMPLES
    loop.check()
    loop.close()


# LMDB, which refuses batches with a key that comes twice.
DISTINCT = """
#include <string.h>
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (memcmp(records[i].key.data, records[j].key.data, records[i].key.size) == 0)
                return kv_fail("a key twice in one batch");
    return honest.write(kv, mode, records, count);
}
"""


def test_the_keys_of_a_batch_are_distinct(tmp_path: Path, alter_shim: Callable[..., Store]) -> None:
    store = alter_shim("lmdb", DISTINCT, "write")
    loop, _ = loaded(store, tmp_path, batch=250, key_order="zipfian")
    loop.rounds(("update",), 10 * SAMPLES, 0)
    loop.check()
    loop.close()


@pytest.mark.parametrize("label", ["null", "null/null"])
def test_drawn_operations_go_on_for_their_least_time(label: str, tmp_path: Path) -> None:
    loop, records = loaded(KNOWN[label], tmp_path)
    phase = loop.run(records.drawn("get", 10), 0.05)[""]
    assert phase.wall_s >= 0.05
    assert phase.latency.n == phase.items > 10
    assert loop.run(records.drawn("get", 10))[""].latency.n == 10
    loop.close()


# The null store, which notes when its first call began and its last one ended.
NOTED = """
#include "clock.h"
uint64_t first, last;
static int my_get(struct kv *kv, struct kv_slice key, void *b, size_t c, size_t *n)
{
    first = first == 0 ? now() : first;
    int status = honest.get(kv, key, b, c, n);
    last = now();
    return status;
}
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{
    first = first == 0 ? now() : first;
    int status = honest.write(kv, mode, records, n);
    last = now();
    return status;
}
"""


def test_all_time_from_the_first_operation_to_the_last_is_charged(
    alter_shim: Callable[..., Store], tmp_path: Path
) -> None:
    """What the harness does between two operations is in the wall time of a phase, too."""
    store = alter_shim("null", NOTED, "get", "write", name="null")
    loop, records = loaded(store, tmp_path)
    library = ctypes.CDLL(str(shims_folder() / "null.so"))
    first, last = (ctypes.c_uint64.in_dll(library, name) for name in ("first", "last"))

    def charged(run: Callable[[], list[Phase]]) -> None:
        first.value, start = 0, time.monotonic()
        phases = run()
        passed = time.monotonic() - start
        wall_s = sum(phase.wall_s or 0 for phase in phases)
        assert (last.value - first.value) / SECOND < wall_s <= passed
        assert all((phase.paused_s or 0) <= (phase.wall_s or 0) for phase in phases)

    charged(lambda: list(loop.rounds(OPERATIONS, SAMPLES, 0.01).values()))
    charged(lambda: list(loop.rounds(("update", "insert"), SAMPLES, 0).values()))
    charged(lambda: [loop.run(records.drawn("get", 5000))[""]])
    charged(lambda: [loop.run(records.live("get"))[""]])
    charged(lambda: [loop.load(records.live("insert"), 1)])
    loop.close()


def test_a_gap_between_operations_is_counted(tmp_path: Path) -> None:
    """Among millions of removed records, finding the next that lives takes more than 5 us. In an
    open loop the harness waits, because the rate demands it."""
    count = 3_000_000
    workload = "deleterandom, readrandom"
    records = Records(cell("null", workload=workload, records=count))
    loop = open_loop(KNOWN["null"], records, tmp_path)
    loop.run(records.shuffled("remove", count - 3))
    phase = loop.run(records.live("get"))[""]
    assert phase.latency.n == 3
    assert 5e-6 < phase.paused_s < phase.wall_s
    assert phase.row("readrandom")["paused_share"] == phase.paused_s / phase.wall_s
    loop.pace(10**9)
    assert loop.run(records.live("get"))[""].paused_s == 0
    loop.close()


SCANNING = [
    label for label, store in KNOWN.items() if store.available and "scan" in store.capabilities
]


@pytest.mark.parametrize("name", [label for label in SCANNING if not KNOWN[label].binding])
def test_a_check_by_scan_finds_every_record_and_no_other(name: str, tmp_path: Path) -> None:
    loop, records = loaded(KNOWN[name], tmp_path)
    run_rounds(loop)
    loop.check()
    versions = state(records)
    live = [number for _, number, *_ in records.taken(records.live("get"))]
    for number in (live[0], live[7], live[-1]):
        versions[number] ^= Constant.PLAN_DEAD
        with pytest.raises(StoreError, match=r"scan: a record that was removed.*: key exists"):
            loop.check()
        versions[number] ^= Constant.PLAN_DEAD
        versions[number] += 1
        with pytest.raises(StoreError, match=f"wrong answer: get of record {number}:"):
            loop.check()
        versions[number] -= 1
        loop.check()
        loop.run(plan_of(records, ["remove"], [number], [0]))
        with pytest.raises(StoreError, match=f"scan: record {number}: key not found"):
            loop.check()
        versions[number] ^= Constant.PLAN_DEAD
        loop.check()
    loop.close()


@pytest.mark.parametrize("label", SCANNING)
def test_a_check_finds_records_outside_the_plan(label: str, tmp_path: Path) -> None:
    """Such records lie before the first key, after the last one, or between."""
    store = KNOWN[label]
    loop, records = loaded(store, tmp_path)
    loop.close()

    def check() -> None:
        loop = open_loop(store, records, tmp_path)
        try:
            loop.check()
        finally:
            loop.close()

    check()
    for key in (b"\0", b"\xff" * 20):
        opened = open_store(store, tmp_path)
        assert opened.insert(key, b"not of the plan")
        opened.close()
        with pytest.raises(StoreError, match="scan: "):
            check()
        opened = open_store(store, tmp_path)
        assert opened.remove(key)
        opened.close()
    dead = int(np.flatnonzero(state(records) & Constant.PLAN_DEAD)[0])
    loop = open_loop(store, records, tmp_path)
    loop.run(plan_of(records, ["insert"], [dead], [0]))
    loop.close()
    with pytest.raises(StoreError, match="scan: "):
        check()


def test_a_store_that_says_it_keeps_nothing_is_refused(tmp_path: Path) -> None:
    """The harness would not check its answers."""
    forgetful = dataclasses.replace(KNOWN["lmdb/lmdb"], binding="null")
    loop = PythonLoop(forgetful, Records(cell("lmdb", "lmdb")), POOL)
    with pytest.raises(StoreError, match="says that it keeps nothing"):
        loop.open(tmp_path, {})


def altered(**methods: Callable[..., Any]) -> type[Binding]:
    """A binding that answers incorrectly."""
    return type("Altered", (load("plyvel"),), methods)


class Whole:
    """The methods of the correct store."""

    get = staticmethod(load("plyvel").get)
    insert = staticmethod(load("plyvel").insert)
    update = staticmethod(load("plyvel").update)


def shortened(store: Any, key: bytes) -> bytes | None:
    value = Whole.get(store, key)
    return None if value is None else value[:-1]


def mistaken(store: Any, key: bytes) -> bytes | None:
    return Whole.get(store, key) or b"never written"


def broken(store: Any, key: bytes) -> bool:
    raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"get": shortened}, r"get of record \d+: wrong answer: \d+ bytes, not the \d+"),
        ({"get": lambda store, key: None}, r"get of record \d+: key not found"),
        ({"get": mistaken}, r"get of record \d+: done, though its key does not exist"),
        (
            {"insert": lambda store, key, value: Whole.insert(store, key, value) or True},
            r"insert of record \d+: done, though its key exists",
        ),
        ({"remove": lambda store, key: False}, r"remove of record \d+: key not found"),
        (
            {"update": lambda store, key, value: Whole.get(store, key) is not None},
            r"get of record \d+: wrong answer",
        ),
        (
            {"update": lambda store, key, value: True},
            r"update of record \d+: done, though its key does not exist",
        ),
        ({"remove": broken}, r"remove of record \d+: RuntimeError: out of order"),
    ],
)
def test_a_wrong_answer_is_found(
    methods: dict[str, Callable[..., Any]],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for where in ("kvbench.cell.loop.load", "kvbench.cell.bindings.load"):
        monkeypatch.setattr(where, lambda name: altered(**methods))
    loop, records = loaded(KNOWN["leveldb/plyvel"], tmp_path)
    with pytest.raises(StoreError, match=said):
        for plan in records.refused():
            loop.refuse(plan)
        loop.rounds(OPERATIONS, SAMPLES, 0)
        loop.check()
    loop.close()


@pytest.mark.parametrize("size", [RecordSize(1, 1), RecordSize(1, 5)], ids=str)
@pytest.mark.parametrize("key_order", KEY_ORDER)
@pytest.mark.parametrize("count", [1, 100])
def test_every_update_by_a_binding_changes_the_value(
    count: int, key_order: str, size: RecordSize, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one byte, too, and more often than a record has versions."""
    updated: Counter[bytes] = Counter()

    def update(store: Any, key: bytes, value: bytes) -> bool:
        assert Whole.get(store, key) != value
        updated[key] += 1
        return Whole.update(store, key, value)

    for where in ("kvbench.cell.loop.load", "kvbench.cell.bindings.load"):
        monkeypatch.setattr(where, lambda name: altered(update=update))
    levels = {"records": count, "record_size": size, "key_order": key_order}
    loop, _ = loaded(KNOWN["leveldb/plyvel"], tmp_path, **levels)
    loop.rounds(OPERATIONS, SAMPLES, 0)
    assert updated.total() == SAMPLES
    assert count > 1 or updated.most_common(1)[0][1] > 128
    loop.close()


# The same for a store in C. Each statement runs in the 300th call that it applies to.
WRONG = """
static int calls;
#define DUE(applies) ((applies) && ++calls == 300)
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{{
    int status = honest.get(kv, key, buffer, capacity, size);
    unsigned char *bytes = buffer;
    (void)bytes;
    {get}
    return status;
}}
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{{
    struct kv_record one = records[0];
    {before}
    int status = honest.write(kv, mode, n == 1 ? &one : records, n);
    {after}
    return status;
}}
"""
FOUND = "if (DUE(status == KV_OK)) "
WRITTEN = "if (DUE(mode == {})) "


@pytest.mark.parametrize(
    ("get", "before", "after", "said"),
    [
        (FOUND + "bytes[*size - 1] ^= 1;", "", "", r"wrong answer: get of record \d+: \d+ bytes"),
        (FOUND + "bytes[0] ^= 128;", "", "", "first difference at byte 0"),
        (FOUND + "--*size;", "", "", "wrong answer: get of record"),
        (FOUND + "*size += 5000;", "", "", "wrong answer: get of record"),
        (FOUND + "return KV_NOT_FOUND;", "", "", r"get of record \d+: key not found"),
        (FOUND + "return 77;", "", "", r"get of record \d+: undefined status 77"),
        (
            "if (status == KV_NOT_FOUND) return KV_OK;",
            "",
            "",
            "done, though its key does not exist",
        ),
        ("", "if (mode == KV_UPDATE) return KV_OK;", "", "wrong answer: get of record"),
        ("", WRITTEN.format("KV_INSERT") + "return KV_OK;", "", "though its key exists"),
        ("", WRITTEN.format("KV_REMOVE") + "return KV_OK;", "", "key exists"),
        ("", "if (n > 1) --n;", "", "key not found"),
        ("", "", "if (status == KV_EXISTS) return KV_OK;", "done, though its key exists"),
    ],
)
def test_a_wrong_answer_of_a_store_in_c_is_found(
    get: str,
    before: str,
    after: str,
    said: str,
    alter_shim: Callable[..., Store],
    tmp_path: Path,
) -> None:
    code = WRONG.format(get=get, before=before, after=after)
    loop, records = loaded(alter_shim("lmdb", code, "get", "write"), tmp_path)
    with pytest.raises(StoreError, match=said):
        loop.rounds(OPERATIONS, SAMPLES, 0)
        check_all(loop, records)
    loop.close()


IDLE = """
static int calls;
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    static char aside[200];
    return honest.get(kv, key, ++calls > 3 ? aside : buffer, capacity, size);
}
"""


@pytest.mark.parametrize("size", ["1 B", "4 B", "5 B", "100-200 B"])
def test_a_get_that_copies_nothing_never_passes(
    size: str, alter_shim: Callable[..., Store], tmp_path: Path
) -> None:
    """Not even of the record that was read just before, whose value is in the buffer."""
    store = alter_shim("lmdb", IDLE, "get")
    loop, records = loaded(store, tmp_path, record_size=RecordSize.parse(size))
    loop.run(plan_of(records, ["get"] * 3, [7] * 3, [0] * 3))
    with pytest.raises(StoreError, match="wrong answer: get of record 7: "):
        loop.run(plan_of(records, ["get"], [7], [0]))
    loop.close()


TEMPLATE = (SHIMS / "stores" / "template.c").read_text()
VISITED = "record_at(kv, place, &next);\n        if (visit("
STOPPED = "!= 0)\n            return KV_OK;"


@pytest.fixture
def altered_scan(
    compile_shim: Callable[..., Path], own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[ShimLoop, Records]]:
    """Builds an open, loaded loop on an altered template. Its scans run the statement `each` for
    every record, and the statement `end` when stopped."""

    def build(
        folder: Path, each: str, end: str = "return KV_OK;", **levels: Any
    ) -> tuple[ShimLoop, Records]:
        assert VISITED in TEMPLATE
        assert STOPPED in TEMPLATE
        before, after = VISITED.split("\n")
        source = TEMPLATE.replace(VISITED, f"{before}{each}\n{after}")
        compile_shim("altered", source.replace(STOPPED, f"!= 0)\n            {end}"))
        monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
        return loaded(Store("altered"), folder, **levels)

    return build


def test_a_wrong_answer_is_reported_even_if_the_engine_fails_after_it(
    altered_scan: Callable[..., tuple[ShimLoop, Records]], tmp_path: Path
) -> None:
    end = 'return kv_fail("told to stop");'
    loop, records = altered_scan(tmp_path, " record.value.size--;", end)
    _, first, *_ = next(records.taken(records.live("get")))
    with pytest.raises(StoreError, match=f"wrong answer: get of record {first}:"):
        loop.check()
    loop.close()


def test_a_scan_that_fails_has_no_time(
    altered_scan: Callable[..., tuple[ShimLoop, Records]], tmp_path: Path
) -> None:
    """The tenth value is too large for the buffer, so its scan cannot be timed to its end."""
    each = " static int count; if (++count == 10) record.value.size += 4096;"
    loop, records = altered_scan(tmp_path, each, workload="ycsb-e")
    twin = Records(records.cell)
    twin.c.random = records.c.random
    visited, before = 0, 0  # operations
    for kind, _, _, length in twin.taken(twin.mixed(twin.steps[0])):
        visited += length if kind == "scan" else 0
        if visited >= 10:
            break
        before += 1
    nanoseconds = np.zeros(100, np.uint64)
    with pytest.raises(StoreError, match="wrong answer: get of record"):
        run_into(loop, records.mixed(records.steps[0]), nanoseconds)
    assert (nanoseconds[:before] > 0).all()
    assert (nanoseconds[before:] == 0).all()
    loop.close()


def test_a_record_beyond_the_limits_is_refused_before_the_store_is_opened(tmp_path: Path) -> None:
    limit = KNOWN["nested"].max_value
    loop = ShimLoop(KNOWN["nested"], Records(cell("nested")), POOL)
    loop.c.capacity = limit + 1
    with pytest.raises(StoreError, match=rf"values of {limit + 1}; the store holds at most"):
        loop.open(tmp_path, {})


LIBRARY = ("loop", "traffic", "plan", "records", "tally", "store", "layout", "meter")


@pytest.mark.parametrize(
    ("header", "honest", "altered", "said"),
    [
        ("loop.h", "uint64_t stride;", "uint64_t stride, forgotten;", "struct loop: "),
        ("traffic.h", "uint64_t *done;", "uint64_t *done[2];", "struct traffic: "),
        ("kv.h", "uint32_t capabilities;", "uint32_t capabilities, more[2];", "struct kv_driver: "),
        ("plan.h", "{ PLAN_INSERT,", "{ PLAN_OTHER, PLAN_INSERT,", "PLAN_INSERT is 1"),
        ("kv.h", "KV_ABI 5", "KV_ABI 6", "KV_ABI is 6 there, and 5 in library.py"),
    ],
)
def test_a_library_with_another_layout_is_refused(
    header: str,
    honest: str,
    altered: str,
    said: str,
    own_shims: Path,
    tmp_path: Path,
) -> None:
    """One line names the library; the stores are not named one by one."""
    sources = tmp_path / "sources"
    shutil.copytree(SHIMS, sources)
    text = (sources / header).read_text()
    assert honest in text
    (sources / header).write_text(text.replace(honest, altered))
    files = [sources / f"{name}.c" for name in LIBRARY]
    compiler = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", *map(str, files), "-lm"]
    subprocess.run([*compiler, "-o", str(own_shims / "libloop.so")], check=True)
    done = subprocess.run(  # a fork of this process would have loaded the correct library
        [sys.executable, "-m", "kvbench.cli", "stores"],
        env={**os.environ, "KVBENCH_SHIMS": str(own_shims)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_structure_has_only_the_fields_of_c() -> None:
    pace = structure("loop_pace")(rate=5)
    with pytest.raises(AttributeError, match="interval"):
        pace.interval = 5


def test_fields_named_like_factors_are_filled_from_the_cell() -> None:
    small = dataclasses.replace(cell("flat"), key_size=8)
    assert filled("loop", small, stride=5).key_size == 8
    assert filled("loop", small, key_size=9).key_size == 9  # an explicit value takes precedence


def test_a_failing_batch_is_named(tmp_path: Path) -> None:
    loop, records = loaded(KNOWN["lmdb/lmdb"], tmp_path)
    loop.close()
    with pytest.raises(StoreError, match="load: "):
        loop.load(records.live("insert"))


@pytest.mark.parametrize("label", ["null", "null/null"])
def test_batches_end_with_their_number_of_records_or_their_bytes(
    label: str, tmp_path: Path
) -> None:
    """A batch has at most 4 MiB of values, but at least one record."""
    store, found = KNOWN[label], []
    for size, count, most in (("100 B", 10_500, 1000), ("1 MiB", 9, 1000), ("5 MiB", 5, 7)):
        levels = {"record_size": RecordSize.parse(size), "records": count}
        records = Records(cell(store.name, store.binding, **levels))
        loop = make_loop(store, records, make_pool("incompressible", records.size.high, 1))
        loop.open(tmp_path, {})
        phase = loop.load(records.live("insert"), most)
        assert phase.items == count
        found.append(phase.latency.n)
        loop.close()
    assert found == [11, 3, 5]
