"""The first look at a program's conditions: what the tables show of the committed data."""

import pytest
from support import ROOT

from study.common.results import Results
from study.experiments import factors

DATA = ROOT / "data/factors"
VARYING = ("label", "durability", "batch", "key_order", "workload", "least_ms", "options")


@pytest.fixture(scope="module")
def data() -> Results:
    return Results(str(DATA), varying=VARYING, experiment="factors")


def test_the_time_of_a_record_is_that_of_its_batch_over_its_records(data: Results) -> None:
    found = factors.per_record(data)
    assert set(found.panel) == {"process", "sync"}
    rows = data.operations
    rows = rows[(rows.label == factors.BATCHES) & (rows.operation == "update")]
    own = rows[(rows.store == "lmdb") & (rows.durability == "sync") & (rows.batch == 1000)]
    shown = found[(found.store == "lmdb") & (found.panel == "sync") & (found.level == 1000)]
    expected = (own.sum_ns / own.n / 1000 / 1000).median()
    assert shown["median"].iloc[0] == pytest.approx(expected)


def test_ratios_are_those_of_the_same_trial(data: Results) -> None:
    rows = data.operations
    rows = rows[(rows.label == factors.KEYS) & (rows.store == "flat") & (rows.operation == "get")]
    wide = rows.pivot(index="trial", columns="key_order", values="mean_ns")
    expected = (wide.zipfian / wide.uniform).median()
    table = factors.key_table(data).set_index("store")
    assert table.loc["flat", "get, 1 KiB"].startswith(f"{expected:.2f}")
    assert all("load" not in head for head in table)


@pytest.mark.parametrize("label", [factors.COMMITS, factors.SHARED])
def test_gains_begin_with_one(data: Results, label: str) -> None:
    found = factors.gains(data, label)
    alone = found[(found.number == 1) & found.kind.str.endswith("alone")]
    assert len(alone) > 0
    assert (alone["median"] == 1).all()


def test_a_tenth_of_the_records_needs_space(data: Results) -> None:
    found = factors.space(data)
    assert (found["median"] > 0.1).all()
    assert set(found.operation) == {"fillrandom", "deleterandom", "compact"}


def test_each_table_has_rows_and_each_fact_a_store(data: Results) -> None:
    tables = [factors.batch_table(data), factors.backups(data), factors.space_table(data)]
    assert all(len(table) > 3 for table in tables)
    stores = set(data.cells.store)
    assert factors.backup_facts(data)["most_store"] in stores
