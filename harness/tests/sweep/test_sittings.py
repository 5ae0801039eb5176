"""A further sitting goes on with the trials of earlier ones, and their tables join."""

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kvbench.results.frames import Frames
from kvbench.results.sittings import NONE, earlier
from kvbench.stats.regret import SITTINGS
from support import KNOWN, Run

from study.common.results import Results

WriteGrid = Callable[..., Path]
FAST, SLOW = 1000, 5000  # ns of an operation


@pytest.fixture
def sitting(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> Callable[..., Path]:
    """Measure a sitting of two trials on a day, and return its collected folder. Its times are
    replaced: `flat` is faster than `nested`, but with `close` records only every other day."""

    def measure(day: int, after: Path | None = None, *, close: int = 0, **keys: object) -> Path:
        usual = {"stores": ["flat", "nested"], "records": [50, 100], "trials": 2}
        out = tmp_path / f"day-{day}"
        grid = write_grid(**usual | keys)
        options = ("--after", after) if after else ()
        done = kvbench("sweep", grid, "--out", out, *options)
        assert done.returncode == 0, done.stderr
        for path in out.glob("cells/*"):
            result = json.loads(path.read_text())
            trial, store = result["cell"]["trial"], result["cell"]["store"]
            mean = FAST if store == "flat" else SLOW
            if result["cell"]["records"] == close:
                mean = FAST if store == "flat" else FAST * (1.3 if day % 2 else 1 / 1.3)
            for row in result["operations"]:
                row["sum_ns"] = int(row["n"] * mean * (1 + trial % 3 / 1000))
            started = datetime.datetime.fromisoformat(result["started"])
            result["started"] = (started + datetime.timedelta(days=day)).isoformat(
                timespec="milliseconds"
            )
            path.write_text(json.dumps(result))
        assert kvbench("collect", out).returncode == 0
        return out

    return measure


def _change(path: Path, **values: object) -> None:
    """Replace columns of a table."""
    frame = pd.read_parquet(path).assign(**values)
    table = pa.Table.from_pandas(frame, pq.read_schema(path), preserve_index=False)
    pq.write_table(table, path)


def test_a_further_sitting_has_trials_of_its_own_and_joins(
    sitting: Callable[..., Path], kvbench: Run, tmp_path: Path
) -> None:
    first = sitting(0)
    second = sitting(1, first)
    both = tmp_path / "both"
    done = kvbench("join", first, second, "--out", both)
    assert (done.returncode, done.stdout.strip()) == (0, "16 cells, 80 operations, 1 machines")
    found = Frames.read(both)
    assert set(found.cells.trial) == {1, 2, 3, 4}
    assert dict(zip(found.cells.trial, found.cells.sitting, strict=True)) == {
        1: 1, 2: 1, 3: 2, 4: 2
    }  # fmt: skip
    third = sitting(2, both)
    assert set(Frames.read(third).cells.trial) == {5, 6}
    done = kvbench("join", both, third, "--out", both)  # which is written anew
    assert done.returncode == 0, done.stderr
    assert set(Frames.read(both).cells.sitting) == {1, 2, 3}
    shown = kvbench("advise", "--data", both, "--record-size", "1KiB", "--records", "100")
    assert shown.returncode == 0, shown.stderr


def test_a_further_sitting_is_expected_to_take_as_long(
    sitting: Callable[..., Path], kvbench: Run, tmp_path: Path
) -> None:
    first = sitting(0)
    _change(first / "cells.parquet", wall_s=90.0, settle_s=30.0)
    again = ("sweep", tmp_path / "grid.toml", "--out", tmp_path / "more", "--after", first)
    said = kvbench(*again, "--dry-run").stdout
    assert "2 trials: 8 cells to measure, 0 not," in said
    assert "about 16.0 minutes" in said


@pytest.mark.check
def test_fields_that_sittings_decided_are_measured_no_more(
    sitting: Callable[..., Path], kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    joined = tmp_path / "joined"
    folders: list[Path] = []
    for day in range(max(SITTINGS) + 1):
        found = earlier(joined, KNOWN) if folders else NONE
        left = {50, 100} - {int(records) for records in _records(found.decided)}
        if day < min(SITTINGS):
            assert left == {50, 100}
        elif day < max(SITTINGS):
            assert left == {50}
        else:
            assert left == set()
            break
        folders.append(sitting(day, joined if folders else None, close=50))
        assert set(Frames.read(folders[-1]).cells.records) == left
        assert kvbench("join", *folders, "--out", joined).returncode == 0
    out = tmp_path / "more"
    again = ("sweep", tmp_path / "grid.toml", "--out", out, "--after", joined)
    assert kvbench(*again).stdout.strip() == "no results"
    assert "2 trials: 0 cells to measure" in kvbench(*again, "--dry-run").stdout


def _records(fields: frozenset[tuple[str, ...]]) -> list[str]:
    return [next(level for level in field if level in ("50", "100")) for field in fields]


def test_results_of_other_code_are_no_earlier_sitting(sitting: Callable[..., Path]) -> None:
    first = sitting(0)
    assert earlier(first, KNOWN).last == 2  # the tables are of this code
    _change(first / "cells.parquet", checksum="0" * 12)
    assert earlier(first, KNOWN) == NONE


def test_what_does_not_belong_together_is_not_joined(
    sitting: Callable[..., Path], kvbench: Run, tmp_path: Path
) -> None:
    first = sitting(0)
    copy = Path(shutil.copytree(first, tmp_path / "copy"))
    out = tmp_path / "both"
    done = kvbench("join", first, copy, "--out", out)
    assert done.returncode == 2
    assert f"{copy}: trial 1 is also in {first}; sweep it with --after {first}" in done.stderr
    second = sitting(1, first)
    _change(second / "cells.parquet", checksum="0" * 12)
    done = kvbench("join", first, second, "--out", out)
    assert done.returncode == 2
    assert "several levels of checksum" in done.stderr
    assert not out.exists()
    done = kvbench("join", first, "--out", second)
    assert done.returncode == 2
    assert f"{second}: a sweep measures into it; name another folder" in done.stderr
    done = kvbench("join", first, tmp_path / "nowhere", "--out", out)
    assert (done.returncode, "nowhere" in done.stderr) == (2, True)


def test_sittings_of_two_machines_join_and_say_what_both_are(
    sitting: Callable[..., Path], kvbench: Run, tmp_path: Path
) -> None:
    first = sitting(0)
    second = sitting(1, first)
    _change(second / "cells.parquet", machine="f" * 12)
    _change(second / "machines.parquet", machine="f" * 12, cpu="Another", fsync_ms=3.0)
    both = tmp_path / "both"
    assert kvbench("join", first, second, "--out", both).returncode == 0
    data = Results(str(both))
    one = pd.read_parquet(first / "machines.parquet").iloc[0]
    assert data.machine.cpu == f"{one.cpu} and Another"
    assert data.machine.kernel == one.kernel
    assert data.machine.fsync_ms == pytest.approx((one.fsync_ms + 3) / 2)
    assert "2 machines" in data.conditions()
