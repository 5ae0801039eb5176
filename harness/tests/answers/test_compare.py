"""`kvbench compare`: noise is no change, a slower store is found, what can't be compared is
refused."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from kvbench.answers.compare import Side, compare
from kvbench.results.importer import import_table
from support import Run

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A results folder of eight stores in five fields, whose means differ by 8% from trial to
    trial; `times` slows stores down, `hours` has the one of each trial, `columns` are added to each
    row."""
    made = iter(range(1000))

    def imported(
        seed: int,
        times: Mapping[str, float] | None = None,
        trials: int = 5,
        hours: str = "",
        **columns: Any,
    ) -> Path:
        random = np.random.default_rng(seed)
        rows = [
            {
                **{"store": f"store{store}", "operation": "get", "record_size": f"{size} B"},
                **{"records": 1000, "n": 1000, "trial": trial, "durability": "process"},
                "mean_ns": 1000
                * size
                * (times or {}).get(f"store{store}", 1)
                * np.exp(0.08 * random.standard_normal()),
            }
            | ({"started": f"2026-11-25T0{hours[trial - 1]}:00:00.000+00:00"} if hours else {})
            | columns
            for store in range(8)
            for size in (10, 20, 30, 40, 50)
            for trial in range(1, trials + 1)
        ]
        place = tmp_path / str(next(made))
        place.mkdir()
        pd.DataFrame(rows).to_csv(place / "table.csv", index=False)
        import_table(place / "table.csv", place / "out")
        return place / "out"

    return imported


@pytest.mark.check
def test_noise_is_a_change_in_one_of_20_repeats_at_most(make: Make) -> None:
    changed = 0
    for seed in range(60):
        stores, cells = compare(Side(make(seed)), Side(make(seed + 1000)))
        changed += bool(stores.changed.any() or cells.changed.any())
    assert changed <= 6  # 3 are to be expected, and more than 6 in 3% of such tests


def test_a_store_that_became_slower_is_found_and_fails(kvbench: Run, make: Make) -> None:
    before, after = make(1), make(2, {"store3": 1.2})
    done = kvbench("compare", before, after, "--fail-above", "10%")
    assert done.returncode == 1
    row = next(line for line in done.stdout.splitlines() if line.startswith("| store3"))
    assert "| yes" in row
    ratio = float(re.findall(r"\| (\d\.\d\d) \(", row)[0])
    assert 1.1 < ratio < 1.3
    assert kvbench("compare", before, after, "--fail-above", "40%").returncode == 0
    assert kvbench("compare", before, after).returncode == 0
    found = json.loads(kvbench("compare", before, after, "--json").stdout)
    assert [row["store"] for row in found["stores"] if row["changed"]] == ["store3"]
    assert len(found["operations"]) == 8 * 5


@pytest.mark.parametrize(
    ("before", "after", "turns"),
    [
        ("1357", "2468", True),
        ("1458", "2367", True),
        ("1234", "5678", False),
        ("1235", "4678", False),
    ],
)
def test_trials_that_were_not_taken_in_turn_are_called_so(
    before: str, after: str, turns: bool, kvbench: Run, make: Make
) -> None:
    sides = make(1, trials=4, hours=before), make(2, trials=4, hours=after)
    found = json.loads(kvbench("compare", *sides, "--json").stdout)
    assert found["in_turn"] is turns
    said = "not measured in turn" in kvbench("compare", *sides).stdout
    assert said is not turns


def test_tables_without_times_say_nothing_of_turns(kvbench: Run, make: Make) -> None:
    found = json.loads(kvbench("compare", make(1), make(2), "--json").stdout)
    assert found["in_turn"] is None


def test_what_else_differs_is_listed(kvbench: Run, make: Make) -> None:
    before, after = make(1, engine_version="1.0"), make(2, engine_version="1.1", cpu="other")
    done = kvbench("compare", before, after)
    assert re.search(r"\| engine_version of store0 +\| 1\.0 +\| 1\.1 +\|", done.stdout)
    assert re.search(r"\| cpu +\| not stated +\| other +\|", done.stdout)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"durability": "sync"}, "durability is process in the first folder, sync in the second"),
        ({"trials": 1}, "one trial has no noise to compare with"),
    ],
)
def test_what_can_not_be_compared_is_refused(
    change: dict[str, Any], said: str, kvbench: Run, make: Make
) -> None:
    done = kvbench("compare", make(1), make(2, **change))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_stores_that_cannot_be_compared_are_named(kvbench: Run, tmp_path: Path) -> None:
    """With two labels, a store may be in both folders, but no cell of it."""

    def folder(name: str, *groups: tuple[str, str, int]) -> Path:
        rows = [
            {**{"store": store, "operation": "get", "record_size": "1 KiB", "records": 9, "n": 9},
             "mean_ns": 100 + trial, "trial": trial, "label": label}
            for store, label, trials in groups
            for trial in range(1, trials + 1)
        ]  # fmt: skip
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
        import_table(tmp_path / f"{name}.csv", tmp_path / name)
        return tmp_path / name

    shared, single = ("a", "one", 2), ("f", "two", 1)
    before = folder("before", shared, ("b", "one", 2), ("c", "two", 2), ("d", "two", 2), single)
    after = folder("after", shared, ("b", "two", 2), ("c", "two", 2), ("e", "two", 2), single)
    left_out = {
        "b": "no cell is in both: label is one in the first folder, two in the second",
        "d": "not in the second folder",
        "e": "not in the first folder",
        "f": "one trial has no noise to compare with: measure two or more in both folders",
    }
    found = json.loads(kvbench("compare", before, after, "--json").stdout)
    assert {row["store"]: row["reason"] for row in found["left_out"]} == left_out
    assert sorted(row["store"] for row in found["stores"]) == ["a", "c"]
    text = kvbench("compare", before, after).stdout
    for store, reason in left_out.items():
        assert re.search(rf"\| {store} +\| {reason} +\|", text)
    assert "| d " not in kvbench("compare", after, after).stdout


def test_a_bad_limit_is_refused(kvbench: Run, make: Make) -> None:
    done = kvbench("compare", make(1), make(2), "--fail-above", "much")
    assert done.returncode == 2
    assert "--fail-above: 'much' is not allowed; allowed: a percentage" in done.stderr


def test_what_is_not_stated_is_said_so(kvbench: Run, make: Make) -> None:
    sides = make(1), make(2, cpu="other")
    found = json.loads(kvbench("compare", *sides, "--json").stdout)
    assert {"what": "cpu", "before": None, "after": "other"} in found["differences"]
    text = kvbench("compare", *sides).stdout
    assert "nan" not in text.lower()


@pytest.mark.parametrize("column", ["seed", "engine_version", "binding_version"])
def test_other_records_and_builds_are_no_trials(column: str, kvbench: Run, tmp_path: Path) -> None:
    rows = [
        {**{"store": "a", "operation": "get", "record_size": "1 KiB", "records": 9, "n": 9},
         "mean_ns": 100 + trial, "trial": trial, column: 1 + trial % 2}
        for trial in range(1, 5)
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    done = kvbench("compare", tmp_path / "out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    what = column if column == "seed" else f"{column} of a"
    assert f"several levels of {what}: 1, 2; compare each by itself" in done.stderr


def test_trials_without_numbers_say_nothing_of_turns(kvbench: Run, tmp_path: Path) -> None:
    """Labels tell such trials apart, as cells; a comparison needs two trials of a cell."""
    rows = [
        {**{"store": "a", "operation": "get", "record_size": "1 KiB", "records": 9, "n": 9},
         "mean_ns": 100 + at, "trial": trial}
        for at, trial in enumerate((1, 2, ""))
    ]  # fmt: skip
    pd.DataFrame(rows, dtype=object).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    found = json.loads(kvbench("compare", tmp_path / "out", tmp_path / "out", "--json").stdout)
    assert found["in_turn"] is None


def test_each_binding_is_a_store_of_its_own(tmp_path: Path) -> None:
    rows = [
        {**{"store": "a", "operation": "get", "record_size": "1 KiB", "records": 9, "n": 9},
         "mean_ns": 100 + trial, "trial": trial, "access": "python", "binding": binding,
         "binding_version": version}
        for trial in (1, 2)
        for binding, version in (("p", 1), ("q", 2))
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    stores, _ = compare(Side(tmp_path / "out"), Side(tmp_path / "out"))
    assert sorted(stores.store) == ["a/p", "a/q"]
