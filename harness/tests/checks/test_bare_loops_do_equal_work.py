"""The loops with which we compare the harness do the same work as the harness."""

import contextlib
import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.library import loop_library
from kvbench.cell.loop import PythonLoop
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.stores import catalogue
from kvbench.stores.opened import open_store
from support import ROOT, SHIMS

BENCH = ROOT / "harness/checks/bench"
sys.path.insert(0, str(BENCH))
import instructions  # noqa: E402 - not part of the package
import loops  # noqa: E402
import measures  # noqa: E402
import pauses  # noqa: E402
import upkeep  # noqa: E402

RECORDS = 3000
TAG = 4  # RECORDS_TAG of records.h


@pytest.fixture(scope="session")
def bare_loops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    for command in (["cmake", "-S", BENCH, "-B", folder], ["cmake", "--build", folder]):
        subprocess.run(command, check=True, capture_output=True)
    return folder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH / "speed.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.check
@pytest.mark.parametrize("engine", loops.ENGINES)
def test_a_bare_loop_leaves_the_same_records_as_the_harness(
    engine: str, bare_loops: Path, tmp_path: Path
) -> None:
    """But for the tag at the end of each value, by which the harness checks it."""
    library = bare_loops / f"{engine}.so"
    assert library.exists() == catalogue.known()[loops.packaged(engine)].available
    what = (str(library), RECORDS, 1)
    times = measures.in_fresh_process(loops.run_loop, *what, str(tmp_path))
    assert all(times.values())
    records = loops.make_records(RECORDS, 1)
    for plan in (records.live("insert"), records.drawn("update", RECORDS)):
        for _ in records.taken(plan):
            pass
    expected = PythonLoop(Store("null", "null"), records, loops.pool(records))
    with contextlib.closing(open_store(Store(engine), tmp_path)) as store:
        for _, _, key, value in expected.taken(records.live("get")):
            found = store.get(key)
            assert found is not None
            assert found[:-TAG] == value[:-TAG]
            assert len(found) == len(value)


def run_bare(library: Path, folder: Path, *work: str) -> subprocess.CompletedProcess[str]:
    """Open a store of one record, and do each of these operations."""
    code = (
        "import pathlib, sys, loops\n"
        "records = loops.make_records(1, 1)\n"
        "loop = loops.BareLoop(sys.argv[1], records)\n"
        "loop.open(pathlib.Path(sys.argv[2]), {})\n"
        "for operation in sys.argv[3:]:\n"
        "    loop.run(records.drawn(operation, 1))\n"
    )
    command = [sys.executable, "-c", code, str(library), str(folder), *work]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=BENCH)


@pytest.mark.check
@pytest.mark.parametrize("engine", loops.ENGINES)
def test_a_bare_loop_looks_up_what_it_writes(engine: str, bare_loops: Path, tmp_path: Path) -> None:
    """Unless it is blind, which the loop on files cannot be."""
    refused = [("update",), ("remove",), ("insert", "insert")]
    for number, work in enumerate(refused):
        (folder := tmp_path / str(number)).mkdir()
        done = run_bare(bare_loops / f"{engine}.so", folder, *work)
        assert (done.returncode, done.stderr) == (1, "bare loop: write failed\n"), work
    (folder := tmp_path / "told").mkdir()
    done = run_bare(bare_loops / f"{engine}.so", folder, "insert", "update", "get", "remove")
    assert (done.returncode, done.stderr) == (0, "")
    if engine in loops.LOOKING_UP:
        (folder := tmp_path / "blind").mkdir()
        blind = bare_loops / f"{engine}-blind.so"
        done = run_bare(blind, folder, "update", "insert", "insert", "get")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_bare_loop_reports_its_failure(bare_loops: Path, tmp_path: Path) -> None:
    done = run_bare(bare_loops / "leveldb.so", tmp_path / "a" / "b")
    assert (done.returncode, done.stderr) == (1, "bare loop: open failed\n")


@pytest.mark.check
def test_the_table_has_every_comparison(bare_loops: Path, tmp_path: Path) -> None:
    only = ("--only", "floor", "--only", "bare")
    done = run("--out", tmp_path, "--bare-loops", bare_loops, "--small", *only)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "speed.csv", keep_default_na=False)
    for engine in loops.ENGINES:
        own = table[table.measure.str.startswith(f"{engine}: ")]
        assert len(own) == (5 if engine in loops.LOOKING_UP else 4)
    assert (table.low <= table.value).all()
    assert (table.value <= table.high).all()
    assert (table[table.group != "floor"].value > 0).all()
    judged = table[table.goal != ""]
    assert set(judged.met) == {"open"}  # two rounds are too few
    assert set(judged.interval) == {"too few values"}
    assert set(judged.n) == {2}
    assert "timed loop on the null store, 1 thread" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--peer", "leveldb"), "--peer leveldb: no such program"),
        (("--peer", "oracle=/bin/true"), "--peer oracle=/bin/true: no such program"),
        (("--only", "cells"), "need --results"),
        (("--seconds", "an hour"), "'an hour' is not a valid float"),
        (("--only", "all"), "'all' is not one of"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: tuple[str, ...], said: str, bare_loops: Path, tmp_path: Path
) -> None:
    done = run("--out", tmp_path, "--bare-loops", bare_loops, "--small", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.check
def test_every_pause_and_rest_has_a_line(bare_loops: Path, tmp_path: Path) -> None:
    """No time leaves one round, which decides nothing that is sampled."""
    arguments = ("--only", "pauses", "--only", "scale", "--seconds", 0)
    done = run("--out", tmp_path, "--bare-loops", bare_loops, "--small", *arguments)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "speed.csv", keep_default_na=False)
    for store in pauses.PAUSED:
        timed = [f"{store}: {name}" for name in pauses.TIMED]
        assert set(timed) < set(table[table.group == "pauses"].measure)
    assert (table[table.group == "rest"].value > 0).all()
    assert sum(table.group == "rest") == len(pauses.CHECKED) + 2
    assert set(table.interval) == {"too few values", "range"}
    sampled = table[table.interval == "too few values"]
    assert set(sampled.n) == {1}
    assert set(sampled.met) == {"open", ""}


needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason=f"valgrind is missing: {instructions.INSTALL}"
)


@needs_valgrind
def test_two_runs_execute_as_many_instructions(bare_loops: Path, tmp_path: Path) -> None:
    """Within 0.5 %. Of the loop on the null store, values are a part that is known."""
    counter = instructions.Counter(bare_loops, 500, tmp_path)
    runs = [[counter.harness("null"), counter.bare_loop("lmdb")] for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        for step in instructions.STEPS:
            assert one[step] == pytest.approx(other[step], rel=0.005, abs=0.5)
            assert 0 <= one[step]["values"] + one[step]["memory"] < one[step]["whole"]
    null = runs[0][0]
    assert null["insert"]["values"] == null["update"]["values"] > null["get"]["values"] > 0
    assert null["remove"]["values"] == 0


@needs_valgrind
def test_a_store_that_executes_300_more_instructions_misses_the_goal(
    bare_loops: Path, tmp_path: Path
) -> None:
    """In removes from a flat folder, where the shim as it is meets it."""
    honest = (SHIMS / "stores" / "folder.h").read_text()
    begins = "    if (mode == KV_REMOVE) {\n"
    wait = 'for (int i = 0; i < 150; i++) __asm__ volatile("");'  # two instructions each
    assert begins in honest
    shutil.copytree(SHIMS, tmp_path / "shims", ignore=shutil.ignore_patterns("rust"))
    stores = tmp_path / "shims" / "stores"
    (stores / "folder.h").write_text(honest.replace(begins, f"{begins}{wait}\n"))
    slow = stores / "slow.so"
    build = ["cc", "-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", '-DKV_NAME="flat"', '-DKV_BUILD=""']
    subprocess.run([*build, "-o", slow, stores / "flat.c"], check=True)
    counter = instructions.Counter(bare_loops, measures.Scale().counted, tmp_path)
    found = {}
    for store in ("flat", str(slow)):
        lines = next(instructions.beside_bare_loop(counter, "flat", store))
        found[store] = {line.name: (value, line.judge([value], 1)) for line, value in lines.items()}
    name = "flat: remove, overhead"
    (plain, one), (heavy, other) = found["flat"][name], found[str(slow)][name]
    assert heavy - plain == pytest.approx(300, abs=10)
    assert (one["met"], other["met"]) == ("met", "missed")


def test_a_profile_tells_calls_of_a_part_apart_once() -> None:
    """Not what such a function calls for itself. Callgrind adds suffixes to names."""
    text = """desc: Trigger: Client Request: update
totals: 1000
fn=(below main)
0 5
cfn=make_value.isra.0
calls=2 0
0 300
fn=make_value.isra.0
0 200
cob=/lib/other.so
cfi=???
cfn=records_size
calls=2 0
0 100
fn=run'2
0 7
cob=/lib/libc.so.6
cfn=malloc@@GLIBC_2.2.5
calls=1 0
0 40
"""
    counts = {"whole": 1000, "values": 300, "memory": 40}
    assert instructions.read_profile(text) == ("update", counts)
    with pytest.raises(BadInput, match="no totals"):
        instructions.read_profile("")


def test_without_valgrind_a_line_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    groups = instructions.instructions(measures.Scale(), [], tmp_path, tmp_path)
    series = measures.Series("instructions", groups["instructions"], (2,))
    series.run_round()
    (row,) = series.rows()
    assert "apt-get install" in row["note"]
    assert (row["measure"], row["met"]) == ("not counted", "")
    assert pd.isna(row["value"])


def test_reading_the_clock_reports_every_pair() -> None:
    times = (ctypes.c_uint64 * 1000)()
    loop_library().loop_clock(ctypes.c_size_t(1000), times)
    assert all(times)


def test_both_renderers_are_measured_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(upkeep.renderings()) == ["make render, as a preview"]
    (tmp_path / "quarto").touch(0o755)
    assert list(upkeep.renderings()) == ["make render, as a preview", "make render, with Quarto"]
