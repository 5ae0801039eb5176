"""A trial of a field that the machine's host disturbed is measured again, with all its stores. The
disturbance is real: a signal stops a worker."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kvbench.machine.noise import LEAST
from kvbench.sweep import REPEATS
from kvbench.sweep.again import disturbed
from support import Run

Sweep = Callable[..., Any]


@pytest.fixture
def sweep(
    kvbench: Run,
    write_grid: Callable[..., Path],
    eventful: Callable[[str], dict[str, str]],
    tmp_path: Path,
) -> Sweep:
    """Sweep the stores null and flat while `events` happen to the workers."""

    def run(events: str, *options: str, **keys: Any) -> Any:
        usual = {"stores": ["null", "flat"], "records": [10], "operations": ["get"]}
        grid = write_grid(**usual | keys)
        return kvbench("sweep", grid, "--out", tmp_path / "out", *options, env=eventful(events))

    return run


def results(folder: Path) -> pd.DataFrame:
    """A row for each file, indexed by store and trial."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    rows = [
        {"store": own["cell"]["store"], "trial": own["cell"]["trial"], "disturbed": disturbed(own)}
        | {name: own[name] for name in ("stopped_s", "repeated", "order", "status")}
        for own in found
    ]
    return pd.DataFrame(rows).set_index(["store", "trial"]).sort_index()


def test_the_trial_of_all_stores_is_measured_again_and_no_other_one(
    sweep: Sweep, kvbench: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = sweep("--s---", trials=3)
    assert (done.returncode, done.stdout.strip()) == (0, "6 ok")
    before, after = results(out / "disturbed"), results(out / "cells")
    assert before.stopped_s[:, 2].max() > LEAST
    assert (after.stopped_s < LEAST).all()
    assert (after.repeated[:, 2] >= 1).all()  # the host may disturb this trial, or another one
    for trial in (1, 2, 3):
        aside = before[before.index.get_level_values("trial") == trial]
        assert (after.repeated[:, trial] == len(aside) / 2).all()
        for _, both in aside.groupby("repeated"):
            assert list(both.index.get_level_values("store")) == ["flat", "null"]
            assert any(both.disturbed)
    again = f"measured again: {(after.repeated['null'] > 0).sum()} trials"
    for text in (done.stderr, kvbench("status", out).stderr):
        assert again in text
        assert "cells stopped or suspended" in text
    assert kvbench("collect", out).returncode == 0
    cells = pd.read_parquet(out / "cells.parquet").set_index(["store", "trial"]).sort_index()
    assert (cells.repeated == after.repeated).all()
    assert len(cells) == 6
    assert (cells.stopped_s < LEAST).all()


def test_a_trial_that_stays_disturbed_is_kept_and_reported(sweep: Sweep, tmp_path: Path) -> None:
    for events in ("s-s-s-", "------"):  # the second sweep measures nothing
        done = sweep(events)
        assert (done.returncode, done.stdout.strip()) == (0, "2 ok")
        assert "disturbed: the machine's host disturbed" in done.stderr
        assert (tmp_path / "starts").read_text() == "++" * (1 + REPEATS)
    after = results(tmp_path / "out" / "cells")
    assert (after.repeated == REPEATS).all()
    assert after.stopped_s.max() > LEAST
    names = sorted(path.name.split(".")[1] for path in (tmp_path / "out" / "disturbed").iterdir())
    assert names == ["again-1", "again-1", "again-2", "again-2"]


def test_without_repeats_a_disturbed_trial_is_kept_at_once(sweep: Sweep, tmp_path: Path) -> None:
    done = sweep("s---", "--repeats", "0")
    assert (done.returncode, done.stdout.strip()) == (0, "2 ok")
    assert "as often as --repeats allows" in done.stderr
    assert (tmp_path / "starts").read_text() == "++"
    assert not (tmp_path / "out" / "disturbed").exists()
    assert "left: 2 cells to measure" in sweep("", "--repeats", "1", "--dry-run").stdout
    assert sweep("", "--repeats", "1").stdout.strip() == "2 ok"
    assert (results(tmp_path / "out" / "cells").repeated == 1).all()


def test_a_killed_sweep_goes_on_with_the_trial(sweep: Sweep, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sweep("s-k").returncode == -signal.SIGKILL
    assert not any(out.glob("cells/*"))
    assert sweep("s-k").stdout.strip() == "2 ok"
    assert (results(out / "cells").repeated >= 1).all()
    assert (results(out / "cells").stopped_s < LEAST).all()


def test_a_sweep_that_was_killed_while_it_set_a_trial_aside_measures_all_its_stores(
    sweep: Sweep, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert sweep("", trials=2).stdout.strip() == "4 ok"
    (out / "disturbed").mkdir(exist_ok=True)
    path = next(out.glob("cells/null*_t2_*.json"))
    path.rename(out / "disturbed" / f"{path.stem}.again-1.json")
    before = results(out / "cells")
    assert sweep("", trials=2).stdout.strip() == "4 ok"
    after = results(out / "cells")
    assert (after.repeated[:, 2] > before.repeated["flat", 2]).all()
    assert len(results(out / "disturbed").order[:, 2]) == after.repeated[:, 2].sum()


def test_a_stopped_sweep_keeps_a_disturbed_trial_until_it_goes_on(
    sweep: Sweep, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert sweep("s-i", trials=2).stdout.startswith("3 ok, 1 to do")
    assert results(out / "cells").stopped_s[:, 1].max() > LEAST
    assert "left: 3 cells to measure" in sweep("", "--dry-run", trials=2).stdout
    assert sweep("", trials=2).stdout.strip() == "4 ok"
    assert (results(out / "cells").stopped_s < LEAST).all()


def test_a_field_is_decided_by_trials_that_were_measured_again(
    sweep: Sweep, tmp_path: Path
) -> None:
    done = sweep("----s", trials="7-15")
    assert done.stdout.strip() in ("14 ok", "20 ok", "30 ok")
    after = results(tmp_path / "out" / "cells")
    assert (after.repeated[:, 3] >= 1).all()
    assert (after.stopped_s < LEAST).all()


def test_a_file_that_was_set_aside_and_is_damaged_is_named(sweep: Sweep, tmp_path: Path) -> None:
    assert sweep("s").returncode == 0
    path = next((tmp_path / "out" / "disturbed").iterdir())
    path.write_text(path.read_text().replace('"repeated": 0', '"repeated": "none"'))
    done = sweep("")
    assert done.returncode == 2
    assert "disturbed" in done.stderr
    assert "Traceback" not in done.stderr
