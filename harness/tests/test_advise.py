"""`kvbench advise`: what it says of measured fields, between them and beyond them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Run
from kvbench import BadInput
from kvbench.advise import Measured, Query, advise, report, weights
from kvbench.factors import OPERATIONS
from kvbench.importer import import_table
from kvbench.regret import by_trial, rank

from study import advice

Speeds = Mapping[str, Callable[[int, int, str], float]]
Make = Callable[..., Path]
REFERENCE = Path(__file__).parents[2] / "data" / "reference"
SIZES, COUNTS = {"100 B": 100, "1 KiB": 1024, "10 KiB": 10240}, (100, 1000, 10_000)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Results in which each store takes so many ns, by size, number and operation."""

    def imported(speeds: Speeds, deviation: float = 0.01, level: str = "process") -> Path:
        random = np.random.default_rng(1)
        rows = [
            {
                **{"store": store, "operation": operation, "record_size": size},
                **{"records": count, "n": 1000, "trial": trial, "durability": level},
                **{"compressibility": "incompressible", "memory": "default", "access": "c"},
                "mean_ns": speed(SIZES[size], count, operation)
                * np.exp(deviation * random.standard_normal()),
            }
            for store, speed in speeds.items()
            for size in SIZES
            for count in COUNTS
            for operation in OPERATIONS
            for trial in range(1, 8)
        ]
        pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
        import_table(tmp_path / "table.csv", tmp_path / "out")
        return tmp_path / "out"

    return imported


def by_size(size: int, records: int, operation: str) -> float:
    return 10.0 * size**0.5 * records**0.1


def even(size: int, records: int, operation: str) -> float:
    return 500.0


def test_between_measured_fields_the_logs_are_linear(make: Make) -> None:
    data = Measured.of(make({"lmdb": by_size, "leveldb": even}, deviation=0))
    for size, records in ((100, 100), (300, 5000), (1024, 500), (7000, 9999)):
        found = advise(data, Query(size, records, {"get": 1.0}, "process"))
        assert found.times["lmdb"] == pytest.approx(by_size(size, records, "get"), rel=1e-4)
        assert sum(found.rests_on.values()) == pytest.approx(1)


def test_a_mix_is_the_sum_of_its_operations(make: Make) -> None:
    def writes_slowly(size: int, records: int, operation: str) -> float:
        return 100.0 if operation == "get" else 2000.0

    data = Measured.of(make({"lmdb": writes_slowly, "leveldb": even}))
    reads = advise(data, Query(1024, 1000, {"get": 0.95, "update": 0.05}, "process"))
    assert reads.times["lmdb"] == pytest.approx(195, rel=0.02)
    assert next(iter(reads.ranking.regrets)) == "lmdb"
    writes = advise(data, Query(1024, 1000, {"get": 1, "update": 1}, "process"))
    assert writes.times["lmdb"] == pytest.approx(1050, rel=0.02)
    assert next(iter(writes.ranking.regrets)) == "leveldb"


@pytest.mark.parametrize("given", [("--record-size", "99B"), ("--records", "10001")])
def test_beyond_what_was_measured_nothing_is_said(
    given: tuple[str, str], kvbench: Run, make: Make
) -> None:
    folder = make({"lmdb": by_size, "leveldb": even})
    plain = {"--record-size": "1KiB", "--records": "1000"} | dict([given])
    command = [word for pair in plain.items() for word in pair]
    done = kvbench("advise", *command, "--data", folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is beyond what was measured; allowed: between 100 B x 100 to 10,000" in done.stderr


BAD = {
    "--mix": ("get=0.9,scan=0.1", "'scan=0.1' is not allowed"),
    "--records": ("many", "'many' is not a number; allowed: 1000, 100k, 1M"),
    "--record-size": ("4 parsecs", "'4 parsecs' is not a size"),
    "--durability": ("sync", "'sync' was not measured in"),
    "--memory": ("4MiB", "'4 MiB' was not measured in"),
    "--sync-time": ("2 hours", "'2 hours' is not a time"),
    "--measure": ("0s", "'0s' is not a time"),
}


@pytest.mark.parametrize("option", BAD)
def test_bad_input_is_named(option: str, kvbench: Run, make: Make) -> None:
    value, said = BAD[option]
    given = {"--record-size": "1KiB", "--records": "1k", "--data": make({"lmdb": even})}
    command = [word for pair in (given | {option: value}).items() for word in pair]
    done = kvbench("advise", *command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_the_report_names_stores_settings_and_what_it_rests_on(kvbench: Run, make: Make) -> None:
    folder = make({"lmdb": lambda *_: 400.0, "leveldb": even, "redb": lambda *_: 404.0})
    command = ("advise", "--record-size", "4KiB", "--records", "2k", "--mix", "get=90,update=10")
    found = json.loads(kvbench(*command, "--data", folder, "--json").stdout)
    assert [row["store"] for row in found["stores"]] == ["lmdb", "redb", "leveldb"]
    assert [row["verdict"] for row in found["stores"]] == ["in", "in", "out"]
    assert found["stores"][2]["regret"] == pytest.approx(1.25, rel=0.02)
    assert found["stores"][0]["licence"]
    assert "MDB_NOSYNC" in found["stores"][0]["settings"]
    assert 2 <= len(found["rests_on"]) <= 3
    text = kvbench(*command, "--data", folder).stdout
    assert text.startswith("use lmdb or redb\n")
    assert "interpolated between" in text


def test_a_file_that_only_grows_is_named_and_ranked_on_demand(kvbench: Run, make: Make) -> None:
    folder = make({"tkrzw-hash": lambda *_: 100.0, "lmdb": even, "leveldb": lambda *_: 900.0})
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", folder)
    text = kvbench(*command).stdout
    assert text.startswith("use lmdb\n")
    assert "left out: tkrzw-hash (its file only grows with this mix; --may-grow" in text
    assert kvbench(*command, "--may-grow").stdout.startswith("use tkrzw-hash\n")
    assert kvbench(*command, "--mix", "insert=1").stdout.startswith("use tkrzw-hash\n")


def test_a_trial_that_no_store_has_was_still_planned(make: Make) -> None:
    """Else the look would be another one, which may spend more of the error."""
    data = Measured.of(make({"lmdb": even, "leveldb": lambda *_: 600.0}))
    data.rows = data.rows[data.rows.trial != 3]
    own = advise(data, Query(1024, 1000, {"get": 1.0}, "process")).ranking.regrets["leveldb"]
    rows = data.rows.query("record_size == 1024 and records == 1000 and operation == 'get'")
    means = by_trial(rows.set_index(["store", "trial"]).mean_ns)
    assert own.high == pytest.approx(rank(means, range(1, 8)).regrets["leveldb"].high, rel=1e-6)
    assert own.high > rank(means).regrets["leveldb"].high


def test_another_device_changes_only_what_waits_for_it(tmp_path: Path, make: Make) -> None:
    plain = Measured.of(make({"lmdb": lambda *_: 1000.0, "leveldb": lambda *_: 2000.0}))
    with pytest.raises(BadInput, match="--sync-time: allowed with --durability sync"):
        advise(plain, Query(1024, 1000, {"update": 1}, "process", sync_ns=1e6))


def test_fields_of_another_size_say_nothing_of_more_records() -> None:
    """Of 10 KiB, 10,000 records are the most. A million of 100 B is no evidence for more."""
    data = Measured.of(REFERENCE)
    query = Query(10 << 10, 20_000, {"get": 0.9, "update": 0.1}, "sync")
    with pytest.raises(BadInput, match="the nearest field is 10 KiB x 10,000"):
        advise(data, query)
    advise(data, replace(query, size=300, records=100_000))


def test_stores_that_c_cannot_call_are_left_out_on_demand() -> None:
    data = Measured.of(REFERENCE)
    query = Query(100 << 10, 10_000, {"get": 0.9, "update": 0.1}, "sync")
    found = advise(data, replace(query, c_interface=True))
    assert {"redb", "fjall"} <= set(advise(data, query).ranking.regrets)
    assert not {"redb", "fjall"} & set(found.ranking.regrets)
    assert "interface for C" in found.left_out["redb"]


def test_a_store_that_syncs_at_process_is_not_told_for_another_device() -> None:
    """TidesDB syncs its log of values; what its own time at level sync has of the device's is not
    known. Nor is any percentile of a write there."""
    data = Measured.of(REFERENCE)
    query = Query(10 << 10, 10_000, {"update": 1.0}, "sync")
    here, there = advise(data, query), advise(data, replace(query, sync_ns=1e7))
    assert "tidesdb" in here.ranking.regrets and "tidesdb" not in there.ranking.regrets
    assert "syncs at level process" in there.left_out["tidesdb"]
    assert "sqlite" in there.ranking.regrets
    assert {row["p99_ns"] for row in report(data, there)["stores"]} == {None}


def test_measuring_here_ranks_the_candidates(kvbench: Run, make: Make, tmp_path: Path) -> None:
    folder = make({"lmdb": even, "leveldb": even, "sqlite": lambda *_: 5000.0})
    out = tmp_path / "mine"
    command = ("advise", "--record-size", "100B", "--records", "100", "--data", folder)
    done = kvbench(*command, "--measure", "3s", "--out", out, "--json")
    found = json.loads(done.stdout)
    assert {row["store"] for row in found["stores"]} == {"lmdb", "leveldb"}
    assert found["trials"] >= 1
    assert (out / "cells").is_dir()


def test_weights_meet_their_target() -> None:
    points = np.array([[0, 0], [0, 4], [4, 0], [4, 4]], dtype=float)
    for target in ([1, 2], [0, 3], [4, 4], [3.5, 0.5]):
        found = weights(points, np.array(target, dtype=float))
        assert sum(found.values()) == pytest.approx(1)
        assert min(found.values()) > 0
        middle = sum(weight * points[at] for at, weight in found.items())
        assert middle == pytest.approx(target)
    assert weights(points, np.array([5.0, 0.0])) == {}
    line = points[:2]
    assert weights(line, np.array([0.0, 1.0])) == pytest.approx({0: 0.75, 1: 0.25})
    assert weights(line, np.array([1.0, 1.0])) == {}
    assert weights(line[:1], np.array([1.0, 1.0])) == {}


def test_advice_is_validated_against_the_field_that_was_left_out(make: Make) -> None:
    data = Measured.of(make({"lmdb": by_size, "leveldb": even, "sqlite": lambda *_: 5000.0}))
    found = advice.validation(data).set_index("rule")
    assert found.fields.min() > 0
    assert found["mean"]["advise, from the fields around"] < found["mean"]["always sqlite"]
    assert (found["mean"] >= 1).all() and (found.good <= 1).all()
