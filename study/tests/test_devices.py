"""Slowed disks, on imported data whose answer is known: a store that waits for two syncs a write,
and one that waits for one but takes longer itself."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from kvbench.results.importer import import_table

from study.common import formats
from study.common.results import Results
from study.experiments import devices

SYNCS = {"files": 2, "lean": 1, "slow": 1}  # of each write
OWN = {"files": 100.0, "lean": 600.0, "slow": 3000.0}  # µs
CHAIN = 300.0  # µs that a sync takes on the floor


@pytest.fixture
def measured(tmp_path: Path) -> Mapping[str, Results]:
    return import_disks(tmp_path, trials=3)


def import_disks(tmp_path: Path, trials: int) -> Mapping[str, Results]:
    found = {}
    for asked in (10_000, 1, 1000):  # µs
        sync = max(asked, CHAIN)
        table = pd.DataFrame(
            {
                **{"store": store, "trial": trial, "operation": operation, "records": 10_000},
                **{"record_size": "1 KiB", "n": 200, "sync_p50_us": sync, "asked_sync_us": asked},
                "mean_ns": 1000 * (OWN[store] + syncs * sync) * (1 + trial / 1000),
            }
            for store, syncs in SYNCS.items()
            for operation in ("overwrite", "insertrandom", "load")
            for trial in range(1, trials + 1)
        )
        folder = tmp_path / f"devices-{asked}us"
        table.to_csv(tmp_path / "table.csv", index=False)
        import_table(tmp_path / "table.csv", folder)
        found[str(asked)] = Results(str(folder))
    return found


def test_the_folders_are_those_beside(measured: Mapping[str, Results], tmp_path: Path) -> None:
    names = [Path(folder).name for folder in devices.named(tmp_path / "devices")]
    assert names == ["devices-10000us", "devices-1000us", "devices-1us"]
    assert devices.named(tmp_path / "device") == []


def test_what_was_asked_and_what_was_measured(measured: Mapping[str, Results]) -> None:
    found = devices.disks(measured).set_index("asked")
    assert found.request.tolist() == ["sync"] * 3
    assert found["median"].to_dict() == {"1.0 µs": "300 µs", "1.0 ms": "1.0 ms", "10 ms": "10 ms"}
    assert found.beyond["1.0 µs"] == "299 µs"
    assert set(found.p99) == {"not stated"}


def test_a_store_costs_as_many_syncs_as_it_waits_for(measured: Mapping[str, Results]) -> None:
    found = devices.costs(measured, "sync").set_index(["operation", "store"])
    assert list(found) == ["record_size", "records", "1.0 µs", "1.0 ms", "10 ms", "waits"]
    assert found.loc["insert"].index.tolist() == ["files", "lean", "slow"]  # as on the floor
    assert found["10 ms"]["update", "files"] == pytest.approx(20.1e6 * 1.002)
    for store, syncs in SYNCS.items():
        assert found.waits["update", store] == pytest.approx(syncs, rel=0.01)


def test_stores_that_a_disk_turns_around_are_named(measured: Mapping[str, Results]) -> None:
    found = devices.order(measured, "sync").set_index(["operation", "disk"])
    assert set(found.pairs) == {3}
    assert found.turned["update"].to_dict() == {"1.0 ms": 1, "10 ms": 2}
    assert found["such as"]["update", "1.0 ms"] == "lean before files"
    assert found["such as"]["update", "10 ms"] == "lean before files, slow before files"
    assert found.best["update", "10 ms"] == "lean, slow"


def test_the_text_says_what_the_slowest_disk_turns_around(measured: Mapping[str, Results]) -> None:
    """The slow store and the lean one each pass the one with two syncs, in both operations."""
    own = {"floor": "300 µs", "slowest": "10 ms", "turned": "4 of 6", "disturbed": "0 of 27"}
    assert devices.facts(measured) == {"sync": own}


def test_of_one_trial_nothing_is_said_to_turn(tmp_path: Path) -> None:
    own = {"floor": "300 µs", "slowest": "10 ms", "disturbed": "0 of 9"}
    assert devices.facts(import_disks(tmp_path, trials=1)) == {"sync": own}


def test_without_slowed_reads_there_is_nothing_to_show(measured: Mapping[str, Results]) -> None:
    assert devices.costs(measured, "read").empty
    assert formats.table(devices.order(measured, "read")) == formats.NO_ROWS
