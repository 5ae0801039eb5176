"""The experiment with data larger than memory, at a tiny scale, and its analysis."""

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from kvbench.cell.factors import LEVELS
from kvbench.machine.control_group import refused
from support import SHIMS, Run

from study.common.results import Results
from study.experiments import beyond

GRID = SHIMS.parent / "grids" / "beyond-memory.toml"


@pytest.mark.check
@pytest.mark.skipif(bool(refused()), reason=refused())
def test_the_study_sets_recommended_beside_shipped(kvbench: Run, on_disk: Path) -> None:
    out = on_disk / "out"
    assert kvbench("sweep", GRID, "--scale", "tiny", "--out", out).returncode in (0, 3)
    assert kvbench("collect", out).returncode == 0
    data = Results(str(out), varying=[*LEVELS, "memory", "memory_max"])
    rows = beyond.steps(data)
    assert set(rows.kind) == set(beyond.KINDS)
    assert set(rows.label) == set(beyond.LABELS)
    assert set(rows.share) == {0.5, 2}
    assert beyond.facts(rows, data)["most"] == "2"
    failed = beyond.lost(data)
    assert all(reason.startswith("needs more memory") for reason in failed.reason)
    assert len(beyond.draw(rows, "get", "time", "get [µs]", data).axes) >= 2
    plt.close("all")
