"""What is recorded of the machine: its limits, and what may reclaim memory behind a cell."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvbench.machine import description
from support import Run

WriteGrid = Callable[..., Path]


def machine_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(out.glob("machines/*")).read_text())
    return found


@pytest.mark.check
def test_the_limits_of_the_machine_are_measured_once(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(least_ms=0), "--out", out).returncode == 0
    assert machine_of(out)["probe"].startswith("not measured: ")
    grid = write_grid(records=[110], least_ms=0)
    assert kvbench("sweep", grid, "--out", out, "--probe").returncode == 0
    found = machine_of(out)
    assert found["memory_rate"] > 1e8
    assert 1 < found["clock_ns"] < 1e5
    if shutil.which("fio"):
        assert re.fullmatch(r"fio-[0-9.]+\S*", found["probe"])
        times = [found[f"sync_{which}_us"] for which in ("p50", "p90", "p99", "max")]
        assert 0 < times[0] <= times[1] <= times[2] <= times[3]
        assert found["random_read_us"] > 0
        assert min(found["write_rate"], found["read_rate"]) > 1e5
    else:
        assert found["probe"] == "fio is not installed (Debian: fio)"
    assert not (out / "stores").exists()
    assert kvbench("sweep", write_grid(records=[120], least_ms=0), "--out", out).returncode == 0
    again = machine_of(out)
    assert {name: again.get(name) for name in description.LIMITS} == {
        name: found.get(name) for name in description.LIMITS
    }


def test_without_fio_the_machine_says_so(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out, env = tmp_path / "out", {"PATH": str(tmp_path)}
    assert (
        kvbench("sweep", write_grid(least_ms=0), "--out", out, "--probe", env=env).returncode == 0
    )
    found = machine_of(out)
    assert found["probe"] == "fio is not installed (Debian: fio)"
    assert "sync_p50_us" not in found
    assert found["memory_rate"] > 1e8
    assert kvbench("collect", out).returncode == 0


def test_a_sweep_that_is_killed_while_it_probes_leaves_nothing_in_the_way(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out, grid = tmp_path / "out", write_grid(least_ms=0)
    command = [sys.executable, "-m", "kvbench.cli", "sweep", str(grid), "--out", str(out)]
    with subprocess.Popen([*command, "--probe"]) as process:
        while not (out / "stores" / description.PROBE).exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "1 ok"
    assert not (out / "stores").exists()


def test_proactive_reclaim_is_recorded(
    kvbench: Run,
    write_grid: WriteGrid,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = tmp_path / "kdamonds"
    monkeypatch.setattr(description, "DAMON", system)
    monkeypatch.setattr(description, "DAMON_RECLAIM", tmp_path / "enabled")

    def said(name: str) -> str:
        out = tmp_path / name
        assert kvbench("sweep", write_grid(least_ms=0), "--out", out).returncode == 0
        return str(machine_of(out)["proactive_reclaim"])

    assert said("no-damon") == "none found"
    scheme = system / "0/contexts/0/schemes/0"
    scheme.mkdir(parents=True)
    (scheme / "action").write_text("pageout\n")
    (system / "0/state").write_text("off\n")
    assert said("off") == "none found"
    (system / "0/state").write_text("on\n")
    assert said("on") == "DAMON pageout"
    (tmp_path / "enabled").write_text("Y\n")
    assert said("both") == "DAMON pageout, reclaim"
