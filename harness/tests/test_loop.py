"""The loops in Python and in C write the same records and make the same checks."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SHIMS
from kvbench import stores
from kvbench.bindings import Binding, load
from kvbench.contract import StoreError
from kvbench.factors import Cell, RecordSize
from kvbench.library import filled, structure
from kvbench.loop import END, PythonLoop, ShimLoop, make_loop, make_pool
from kvbench.plan import CHUNK, CODES, Plan, Population

KNOWN = stores.known()
SIZE = RecordSize.parse("100-200 B")


def cell(store: str, binding: str = "") -> Cell:
    every = ("insert", "get", "update", "remove")
    return Cell(store, binding, SIZE, 2500, "incompressible", every, trial=1, seed=1)


def run_rounds(loop: PythonLoop | ShimLoop, population: Population) -> None:
    for steps in population.rounds(("insert", "get", "update", "remove")):
        for _, plan in steps:
            nanoseconds = loop.run(plan)
            assert len(nanoseconds) == len(plan)
            assert (nanoseconds > 0).all()


@pytest.mark.parametrize("label", ["flat/io", "bdb/bsddb3", "sqlite/sqlite3"])
@pytest.mark.parametrize("first", ["c", "python"])
def test_both_loops_write_and_read_the_same_records(label: str, first: str, tmp_path: Path) -> None:
    binding = KNOWN[label]
    if not binding.available:
        pytest.skip(binding.reason)
    order = [KNOWN[binding.name], binding]
    writer, reader = order if first == "c" else order[::-1]
    population = Population(cell(binding.name))
    pool = make_pool("incompressible", SIZE.high, population.random.integers(1 << 40))
    loop: Any = make_loop(writer, population, pool)
    loop.open(tmp_path, {})
    batches = [len(loop.load(plan)) for plan in population.live("insert")]
    assert batches == [3]  # of at most a thousand records
    run_rounds(loop, population)
    loop.close()
    loop = make_loop(reader, population, pool)
    loop.open(tmp_path, {})
    for plan in population.live("get"):
        loop.run(plan)
    for plan in population.refused():
        loop.refuse(plan)
    run_rounds(loop, population)
    loop.close()


SCANNING = [
    label for label, store in KNOWN.items() if store.available and "scan" in store.capabilities
]


@pytest.mark.parametrize("name", [label for label in SCANNING if not KNOWN[label].binding])
def test_a_check_by_scan_finds_every_record_and_no_other(name: str, tmp_path: Path) -> None:
    large = dataclasses.replace(cell(name), records=CHUNK + 500)
    population = Population(large)
    loop = ShimLoop(
        KNOWN[name], population.stride, SIZE.high, make_pool("incompressible", SIZE.high, 1)
    )
    loop.open(tmp_path, {})
    for plan in population.live("insert"):
        loop.load(plan)
    run_rounds(loop, population)
    first, last = population.live("get")
    loop.check(first, 0, CHUNK)
    loop.check(last, CHUNK, population.universe)

    def without(plan: Plan, i: int) -> Plan:
        columns = (plan.operation, plan.number, plan.offset, plan.size)
        return Plan(*(np.delete(column, i) for column in columns))

    i = 7  # neither the first nor the last
    for missing in (0, i, -1):
        with pytest.raises(StoreError, match=r"scan: a record that was removed.*: key exists"):
            loop.check(without(last, missing), CHUNK, population.universe)
    with pytest.raises(StoreError, match=f"wrong answer: get of record {last.number[i]}:"):
        longer = last.size.copy()
        longer[i] += 1
        loop.check(dataclasses.replace(last, size=longer), CHUNK, population.universe)
    for place in (0, i, -1):
        gone = Plan(
            np.array([CODES["remove"]], np.uint8),
            *(column[place].reshape(1) for column in (last.number, last.offset, last.size)),
        )
        loop.run(gone)
        with pytest.raises(StoreError, match=f"scan: record {gone.number[0]}: key not found"):
            loop.check(last, CHUNK, population.universe)
        last = without(last, place)
        loop.check(last, CHUNK, population.universe)
    loop.close()


@pytest.mark.parametrize("label", SCANNING)
def test_a_check_finds_records_outside_the_plan(label: str, tmp_path: Path) -> None:
    """Such records lie before the first key, after the last one, or between."""
    store = KNOWN[label]
    population = Population(dataclasses.replace(cell(store.name, store.binding), records=CHUNK + 9))
    pool = make_pool("incompressible", SIZE.high, 1)
    first, last = population.live("get")

    def check() -> None:
        loop = make_loop(store, population, pool)
        loop.open(tmp_path, {})
        try:
            loop.check(first, 0, CHUNK)
            loop.check(last, CHUNK, END)
        finally:
            loop.close()

    loop = make_loop(store, population, pool)
    loop.open(tmp_path, {})
    for plan in population.live("insert"):
        loop.load(plan)
    loop.close()
    check()
    for key in (b"\0", b"\xff" * 20):
        opened = store.open(tmp_path)
        assert opened.insert(key, b"not of the plan")
        opened.close()
        with pytest.raises(StoreError, match="scan: "):
            check()
        opened = store.open(tmp_path)
        assert opened.remove(key)
        opened.close()
    dead = population.plan("insert", population.dead_ones()[:1], np.zeros(1, np.uint64))
    loop.open(tmp_path, {})
    loop.run(dead)
    loop.close()
    with pytest.raises(StoreError, match="scan: "):
        check()


def test_a_store_that_says_it_keeps_nothing_is_refused(tmp_path: Path) -> None:
    """The harness would not check its answers."""
    forgetful = dataclasses.replace(KNOWN["lmdb/lmdb"], binding="null")
    loop = PythonLoop(forgetful, 1, make_pool("incompressible", 200, 1))
    with pytest.raises(StoreError, match="says that it keeps nothing"):
        loop.open(tmp_path, {})


def altered(**methods: Callable[..., Any]) -> type[Binding]:
    """A binding that answers incorrectly."""
    return type("Altered", (load("plyvel"),), methods)


class Whole:
    """The methods of the correct store."""

    get = staticmethod(load("plyvel").get)
    insert = staticmethod(load("plyvel").insert)


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
    for where in ("kvbench.loop.load", "kvbench.bindings.load"):
        monkeypatch.setattr(where, lambda name: altered(**methods))
    population = Population(cell("leveldb", "plyvel"))
    loop = PythonLoop(
        KNOWN["leveldb/plyvel"], population.stride, make_pool("incompressible", 200, 1)
    )
    loop.open(tmp_path, {})
    for plan in population.live("insert"):
        loop.load(plan)
    with pytest.raises(StoreError, match=said):
        for plan in population.refused():
            loop.refuse(plan)
        run_rounds(loop, population)
        for plan in population.live("get"):
            loop.run(plan)
    loop.close()


TEMPLATE = (SHIMS / "stores" / "template.c").read_text()
VISITED = "record_at(kv, place, &next);\n        if (visit("
STOPPED = "!= 0)\n            return KV_OK;"


@pytest.fixture
def altered_scan(
    compile_shim: Callable[..., Path], own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[ShimLoop, Population]]:
    """Builds an open, loaded loop on an altered template. Its scans run the statement `each` for
    every record, and the statement `end` when stopped."""

    def build(folder: Path, each: str, end: str = "return KV_OK;") -> tuple[ShimLoop, Population]:
        assert VISITED in TEMPLATE
        assert STOPPED in TEMPLATE
        before, after = VISITED.split("\n")
        source = TEMPLATE.replace(VISITED, f"{before}{each}\n{after}")
        compile_shim("altered", source.replace(STOPPED, f"!= 0)\n            {end}"))
        monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
        population = Population(cell("altered"))
        pool = make_pool("incompressible", SIZE.high, 1)
        loop = make_loop(stores.Store("altered"), population, pool)
        assert isinstance(loop, ShimLoop)
        loop.open(folder, {})
        for plan in population.live("insert"):
            loop.load(plan)
        return loop, population

    return build


def test_a_wrong_answer_is_reported_even_if_the_engine_fails_after_it(
    altered_scan: Callable[..., tuple[ShimLoop, Population]], tmp_path: Path
) -> None:
    end = 'return kv_fail("told to stop");'
    loop, population = altered_scan(tmp_path, " record.value.size--;", end)
    (plan,) = population.live("get")
    with pytest.raises(StoreError, match=f"wrong answer: get of record {plan.number[0]}:"):
        loop.check(plan, 0, population.universe)
    loop.close()


def test_a_scan_that_fails_has_no_time(
    altered_scan: Callable[..., tuple[ShimLoop, Population]], tmp_path: Path
) -> None:
    """The third value is too large for the buffer, so the scan cannot be timed to its end."""
    each = " static int count; if (++count == 3) record.value.size += 4096;"
    loop, population = altered_scan(tmp_path, each)
    (plan,) = population.live("get")
    start = np.flatnonzero(plan.number[2:] - plan.number[:-2] == 2)[0]  # three in a row
    scan = Plan(
        np.array([CODES["scan"]], np.uint8),
        plan.number[start : start + 1],
        np.zeros(1, np.uint32),
        np.array([3], np.uint32),
    )
    nanoseconds = np.zeros(1, np.uint64)
    with pytest.raises(StoreError, match="wrong answer: get of record"):
        loop.run_into(scan, nanoseconds)
    assert nanoseconds[0] == 0
    loop.close()


def test_a_record_beyond_the_limits_is_refused_before_the_store_is_opened(tmp_path: Path) -> None:
    pool = make_pool("incompressible", 8, 1)
    limit = KNOWN["nested"].max_value
    loop = ShimLoop(KNOWN["nested"], 1, 8, pool)
    loop._loop.capacity = limit + 1
    with pytest.raises(StoreError, match=rf"values of {limit + 1}; the store holds at most"):
        loop.open(tmp_path, {})


@pytest.mark.parametrize(
    ("header", "honest", "altered", "said"),
    [
        ("loop.h", "uint64_t stride;", "uint64_t stride, forgotten;", "struct loop: "),
        ("traffic.h", "size_t readers;", "size_t readers[2];", "struct traffic: "),
        ("kv.h", "uint32_t capabilities;", "uint32_t capabilities, more[2];", "struct kv_driver: "),
        ("loop.h", "    LOOP_INSERT,\n", "    LOOP_OTHER,\n    LOOP_INSERT,\n", "LOOP_INSERT is 1"),
        ("kv.h", "KV_ABI 4", "KV_ABI 5", "KV_ABI is 5 there, and 4 in library.py"),
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
    files = [sources / f"{name}.c" for name in ("loop", "traffic", "records", "store", "layout")]
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
    population = Population(cell("lmdb", "lmdb"))
    loop = PythonLoop(KNOWN["lmdb/lmdb"], population.stride, make_pool("incompressible", 200, 1))
    loop.open(tmp_path, {})
    loop.close()
    with pytest.raises(StoreError, match="load: "):
        loop.load(next(population.live("insert")))


def test_large_values_are_batches_of_their_own(tmp_path: Path) -> None:
    """As in loop.c, a batch has at most 4 MiB of values, but at least one record."""
    size = RecordSize.parse("3 MiB")
    counts = []
    for store in (KNOWN["null"], KNOWN["null/null"]):
        huge = Cell(store.name, store.binding, size, 5, "incompressible", ("get",), 1, 1)
        population = Population(huge)
        loop = make_loop(store, population, make_pool("incompressible", size.high, 1))
        loop.open(tmp_path, {})
        counts.append(sum(len(loop.load(plan)) for plan in population.live("insert")))
        loop.close()
    assert counts == [5, 5]
    assert np.diff(counts) == 0
