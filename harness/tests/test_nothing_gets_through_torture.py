"""In the short form of torture, no cell is lost, no fault is missed and nothing crashes."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

TORTURE = Path(__file__).parents[1] / "checks/torture"
COUNTS = ["cells_lost", "answers_missed", "crashes"]
PARTS = ["kills", "disks", "lies", "stateful", "mutations", "sanitizers"]


@pytest.mark.check
@pytest.mark.parametrize("part", PARTS)
def test_nothing_gets_through(part: str, tmp_path: Path) -> None:
    # A job in the background ignores Ctrl-C. The sweeps that it starts must not ignore it.
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    command = [*background, sys.executable, str(TORTURE), part, "--short", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    table = pd.read_csv(tmp_path / "torture.csv")
    assert set(zip(table.form, table.seed, strict=True)) == {("short", 1)}
    assert (table[COUNTS] == 0).all(axis=None)
    tried = table.faults + table.inputs > 0
    assert (tried | (table.what == "not tried")).all()
