"""Cells record other activity on the machine, and trials that disagree are reported."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.machine import noise
from support import Run, calm

WriteGrid = Callable[..., Path]


def test_a_cell_records_other_activity(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    result = json.loads(next(out.glob("cells/*")).read_text())
    assert result["load_before"] >= 0
    assert result["steal_s"] >= 0
    assert 0 <= result["stopped_s"] < noise.LEAST
    assert 0 <= result["clock_jump_s"] < noise.LEAST
    assert (result["memory_stall_s"] is not None) == noise.PRESSURE.exists()
    assert result["frequency_mhz"] is None or result["frequency_mhz"] > 0


def test_trials_that_disagree_are_reported_and_kept(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(trials=3)
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    paths = sorted(out.glob("cells/*"))
    for path in paths:  # all trials are equal except for the gets of one
        result = json.loads(path.read_text())
        for row in result["operations"]:
            late = path == paths[1] and row["operation"] == "get"
            row["sum_ns"] = row["n"] * (2500 if late else 1000)
        path.write_text(json.dumps(result))
    for command in (("status", out), ("sweep", grid, "--out", out)):
        done = kvbench(*command)
        assert (done.returncode, done.stdout.strip()) == (0, "3 ok")
        assert "unsteady: in 1 operations" in done.stderr
        assert "get" in done.stderr.splitlines()[-1]
        files, *_, trials, spread = done.stderr.splitlines()[-1].split()
        assert (trials, spread) == ("3", "2.50")
        assert sorted(out.glob(f"cells/{files}")) == paths
    assert "3 cells, 15 operations" in kvbench("collect", out).stdout


@pytest.mark.parametrize(
    ("column", "capped", "seconds", "shown"),
    [
        ("steal_s", False, 3.0, "processors withheld 30%"),
        ("steal_s", True, 0.51, "processors withheld 5%"),
        ("steal_s", False, 0.49, ""),
        ("memory_stall_s", False, 0.6, "memory stalls 6%"),
        ("memory_stall_s", True, 3.0, ""),
        ("stopped_s", False, 0.2, "stopped or suspended 0.2 s"),
        ("clock_jump_s", False, 3600.0, "clock set 3600.0 s"),
        ("clock_jump_s", False, 0.09, ""),
    ],
)
def test_what_disturbs_a_cell_of_ten_seconds(
    column: str, capped: bool, seconds: float, shown: str
) -> None:
    cell = {"status": "ok", "memory_max": "64 MiB" if capped else "none", "wall_s": 10.0}
    found = noise.disturbances(cell | {column: seconds})
    assert " ".join(" ".join(pair) for pair in found.items()) == shown
    assert not noise.disturbances(cell | {column: seconds, "status": "failed"})


def test_ticks_in_a_short_cell_and_unknown_values_disturb_nothing() -> None:
    assert not noise.disturbances({"status": "ok", "wall_s": 0.15, "steal_s": 0.02})
    assert not noise.disturbances({"status": "ok", "wall_s": None, "steal_s": float("nan")})


def test_cells_that_the_host_disturbed_are_reported_and_measured_again(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(trials=3)
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    calm(out)
    paths = sorted(out.glob("cells/*"))
    for path, stolen in zip(paths, (3.0, 0.49, 0.51), strict=True):
        result = json.loads(path.read_text()) | {"wall_s": 10.0, "steal_s": stolen}
        path.write_text(json.dumps(result))
    done = kvbench("status", out)
    assert (done.returncode, done.stdout.strip()) == (0, "3 ok")
    report = done.stderr[done.stderr.index("disturbed: the machine's host disturbed 2 cells") :]
    assert [line.split() for line in report.splitlines()[3:5]] == [
        [paths[0].name, "processors", "withheld", "30%"],
        [paths[2].name, "processors", "withheld", "5%"],
    ]
    again = ("sweep", grid, "--out", out, "--repeats", "1")
    assert "left: 2 cells to measure" in kvbench(*again, "--dry-run").stdout
    done = kvbench(*again)
    assert (done.returncode, done.stdout.strip()) == (0, "3 ok")
    assert "measured again: 2 trials" in done.stderr
    assert "2 cells processors withheld" in done.stderr
    assert "left: 0 cells to measure" in kvbench(*again, "--dry-run").stdout
