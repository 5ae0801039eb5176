"""The loops with which we compare the harness do the same work as the harness."""

import contextlib
import ctypes
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.library import loop_library
from kvbench.cell.loop import PythonLoop
from kvbench.cell.store import Store
from kvbench.stores import catalogue
from support import ROOT

BENCH = ROOT / "harness/checks/bench"
sys.path.insert(0, str(BENCH))
import loops  # noqa: E402 - not part of the package
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


@pytest.mark.parametrize("engine", loops.ENGINES)
def test_a_bare_loop_leaves_the_same_records_as_the_harness(
    engine: str, bare_loops: Path, tmp_path: Path
) -> None:
    """But for the tag at the end of each value, by which the harness checks it."""
    library = bare_loops / f"{engine}.so"
    assert library.exists() == catalogue.known()[loops.packaged(engine)].available
    what = (str(library), "update", RECORDS, 1)
    times = measures.in_fresh_process(loops.run_loop, *what, str(tmp_path))
    assert all(times.values())
    records = loops.make_records(RECORDS, 1)
    for plan in (records.live("insert"), records.drawn("update", RECORDS)):
        for _ in records.taken(plan):
            pass
    expected = PythonLoop(Store("null", "null"), records, loops.pool(records))
    with contextlib.closing(Store(engine).open(tmp_path)) as store:
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


@pytest.mark.parametrize("engine", loops.LOOKING_UP)
def test_a_bare_loop_looks_up_what_it_updates(
    engine: str, bare_loops: Path, tmp_path: Path
) -> None:
    """An insert is blind: it writes over whatever is there, or nothing."""
    done = run_bare(bare_loops / f"{engine}.so", tmp_path, "update")
    assert (done.returncode, done.stderr) == (1, "bare loop: update failed\n")
    (tmp_path / "other").mkdir()
    done = run_bare(bare_loops / f"{engine}.so", tmp_path / "other", "insert", "update", "get")
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
