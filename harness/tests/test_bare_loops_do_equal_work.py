"""The loops with which we compare the harness do the same work as the harness."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from kvbench import stores
from kvbench.library import loop_library
from kvbench.loop import ShimLoop, make_pool

BENCH = Path(__file__).parents[1] / "checks/bench"
sys.path.insert(0, str(BENCH))
import loops  # noqa: E402 - not part of the package
import measures  # noqa: E402
import upkeep  # noqa: E402

RECORDS = 3000


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
    library = bare_loops / f"{engine}.so"
    assert library.exists() == stores.known()[engine].available
    measures.in_fresh_process(
        loops.run_loop, loops.BareLoop, str(library), True, RECORDS, 1, str(tmp_path)
    )
    work = loops.plans(RECORDS, 1)
    loop = ShimLoop(
        stores.known()[engine], loops.stride(RECORDS), 100, make_pool("incompressible", 100, 1)
    )
    loop.open(tmp_path, loops.DURABILITY)
    for part in loops.chunks(work["get"]):
        loop.run(part)  # compares each value with the one written last
    loop.close()


def test_a_bare_loop_reports_its_failure(bare_loops: Path, tmp_path: Path) -> None:
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).bare_open(sys.argv[2].encode())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(bare_loops / "leveldb.so"), str(tmp_path / "a" / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "bare loop: open failed\n")


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
    assert "timed loop over two clock reads, 1 thread" in done.stdout


def test_a_run_whose_time_is_over_has_a_value_of_each_line(
    bare_loops: Path, tmp_path: Path
) -> None:
    arguments = ("--only", "bare", "--seconds", 0)
    done = run("--out", tmp_path, "--bare-loops", bare_loops, "--small", *arguments)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "speed.csv", keep_default_na=False)
    assert set(table.n) == {1}
    assert set(table.met) == {"open"}


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
