"""Cells record other activity on the machine, and trials that disagree are reported."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pytest
from kvbench.machine import noise
from support import Run

WriteGrid = Callable[..., Path]


def test_a_cell_records_other_activity(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    result = json.loads(next(out.glob("cells/*")).read_text())
    assert result["load_before"] >= 0
    assert result["steal_s"] >= 0
    assert 0 <= result["stopped_s"] < noise.STOPPED
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


def test_cells_that_the_host_disturbed_are_reported(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """More than 5% of the time withheld is reported; less is not, nor ticks in a short cell."""
    out = tmp_path / "out"
    grid = write_grid(trials=4)
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    paths = sorted(out.glob("cells/*"))
    told = zip(paths, ((10.0, 3.0), (10.0, 0.49), (0.15, 0.02), (10.0, 0.51)), strict=True)
    for path, (wall, stolen) in told:
        result = json.loads(path.read_text()) | {"wall_s": wall, "steal_s": stolen}
        path.write_text(json.dumps(result))
    for command in (("status", out), ("sweep", grid, "--out", out)):
        done = kvbench(*command)
        assert (done.returncode, done.stdout.strip()) == (0, "4 ok")
        report = done.stderr[done.stderr.index("disturbed: during 2 cells") :]
        assert [line.split() for line in report.splitlines()[3:5]] == [
            [paths[0].name, "30%"], [paths[3].name, "5%"]
        ]  # fmt: skip


STOPPING = r"""
#include <signal.h>
#include <stdlib.h>
#include "null.c"
__attribute__((constructor)) static void stop(void) { if (getenv("KVBENCH_CELL")) raise(SIGSTOP); }
"""


@pytest.mark.check
def test_a_worker_that_was_stopped_is_reported(
    kvbench: Run,
    write_grid: WriteGrid,
    own_shims: Path,
    compile_shim: Callable[..., Path],
    tmp_path: Path,
) -> None:
    compile_shim("null", STOPPING)
    out, env = tmp_path / "out", {"KVBENCH_SHIMS": str(own_shims)}
    sweep = ["sweep", str(write_grid(stores=["null"])), "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "kvbench.cli", *sweep],
        env=os.environ | env,
        stderr=subprocess.PIPE,
        text=True,
    )
    stopped: list[psutil.Process] = []
    while process.poll() is None and not stopped:
        with contextlib.suppress(psutil.NoSuchProcess):  # a store's probe has ended
            workers = psutil.Process(process.pid).children()
            stopped = [one for one in workers if one.status() == psutil.STATUS_STOPPED]
    assert stopped
    # Starting a process takes longer than the shortest stop that is reported.
    status = [sys.executable, "-m", "kvbench.cli", "status", str(out)]
    counts = subprocess.run(status, capture_output=True, text=True, check=False).stdout
    stopped[0].resume()
    _, said = process.communicate()
    assert counts.strip() == "1 to do"
    result = json.loads(next(out.glob("cells/*")).read_text())
    assert (result["status"], result["stopped_s"] > noise.STOPPED) == ("ok", True)
    for text in (said, kvbench("status", out).stderr):
        assert "stopped: 1 cells" in text
        assert next(out.glob("cells/*")).name in text
    assert kvbench("collect", out).returncode == 0
    assert pd.read_parquet(out / "cells.parquet").stopped_s.tolist() == [result["stopped_s"]]
