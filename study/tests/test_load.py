"""Latency under load: the figure and the tables of a sweep."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kvbench.cell.factors import LEVELS
from support import Run, calm

from study.common.results import Results
from study.experiments import load

STEPS = "mix reads=90 seconds=1, mix reads=90 seconds=1 load=50, mix reads=90 ops=500 load=20"
OWN = (
    "mix reads=90 ops=20000, mix reads=90 ops=20000 load=50, "
    "mix reads=90 ops=2000 rate=10000 gaps=exponential"
)


@pytest.fixture
def data(kvbench: Run, write_grid: Callable[..., Path], tmp_path: Path) -> Results:
    out = tmp_path / "out"
    for store, steps in (("lmdb", STEPS), ("null", OWN)):
        grid = write_grid(stores=[store], records=[2000], record_sizes=["1 KiB"], workloads=[steps])
        assert kvbench("sweep", grid, "--out", out).returncode == 0
    calm(out)
    assert kvbench("collect", out).returncode == 0
    return Results(str(out), varying=LEVELS)


def test_the_figure_and_the_tables_follow_from_a_sweep(data: Results) -> None:
    rows = load.steps(data)
    own = rows[rows.store == "lmdb"].set_index("load")
    assert own.index.tolist() == [0, 50, 20]
    assert (own.reads == 90).all()
    assert own.loc[20, "n"] < 1000  # too few for a P99
    assert own.loc[20, ["p99_ns", "p999_ns"]].isna().all()
    assert own.loc[50, ["p50_ns", "p99_ns"]].notna().all()

    below = load.bounds(rows)
    assert below.asked_rate.tolist() == sorted(below.asked_rate)
    assert below.asked_rate.iloc[0] == 10_000
    assert np.isnan(below.p999_ns.iloc[0])
    found = load.curves(rows)
    at = found[(found.load == 50) & (found.percentile == "p50_ns")].iloc[0]
    assert at.rate == pytest.approx(0.5 * own.closed_rate.iloc[0], abs=1)
    assert at.bound in set(below.p50_ns)

    shown = load.table(found).iloc[0]
    assert shown["P99.9 at 20%"] == "too few"
    assert shown["gets in %"] == 90
    assert len(load.pacer_table(below)) == 2
    assert len(load.draw(rows, data).axes) == 3


def test_the_bound_is_the_greater_of_the_nearest_rates() -> None:
    below = pd.DataFrame({"reads": 95, "asked_rate": [1e3, 1e4, 1e5], "p99_ns": [9.0, 4.0, 7.0]})
    for rate, expected in ((500, 9), (1000, 9), (5000, 9), (2e4, 7), (1e6, 7)):
        assert load.bound(below, 95, rate, "p99_ns") == expected
