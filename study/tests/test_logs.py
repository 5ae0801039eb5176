"""Growing and recycled logs, on the committed data."""

from collections.abc import Mapping

import pandas as pd
import pytest
from support import ROOT

from study.common.results import Results
from study.experiments import logs

SIZES = ["100 B", "1 KiB", "10 KiB"]


@pytest.fixture
def places() -> Mapping[str, Results]:
    folders = {"ext4": "logs", "XFS": "logs-xfs"}
    return {
        name: Results(str(ROOT / "data" / folder), varying=["label", "options"])
        for name, folder in folders.items()
    }


def test_each_place_and_size_has_a_row(places: Mapping[str, Results]) -> None:
    shown = logs.table(logs.costs(places))
    assert shown["file system"].tolist() == ["ext4"] * 3 + ["XFS"] * 3
    assert shown["record size"].tolist() == SIZES * 2


def test_exchanging_the_logs_inverts_the_ratio(places: Mapping[str, Results]) -> None:
    before = logs.costs(places)
    for data in places.values():
        names = {logs.GROWING: logs.RECYCLED, logs.RECYCLED: logs.GROWING}
        data.operations = data.operations.assign(label=data.operations.label.map(names))
    after = logs.costs(places)
    assert after["median"].to_numpy() == pytest.approx(1 / before["median"].to_numpy())
    for value in ("mean_ns", "written"):
        swapped = after[f"{logs.GROWING}: {value}"], before[f"{logs.RECYCLED}: {value}"]
        assert swapped[0].tolist() == swapped[1].tolist()


def test_the_text_has_what_the_table_has(places: Mapping[str, Results]) -> None:
    found = logs.costs(places)
    writes = pd.DataFrame({"store": ["a", "b", "c"], "journal commits": [1.0, 0.25, 0.9]})
    text = logs.facts(found, writes, places["ext4"])
    assert (text["committing"], text["seldom"]) == ("a and c", "0.25")
    shown = logs.table(found).set_index(["file system", "record size"])
    assert text["ratio"]["XFS"]["1_KiB"] == shown.ratio["XFS", "1 KiB"]
    assert text["trials"] == 7


def test_stores_are_ordered_by_what_they_write() -> None:
    main = Results(str(ROOT / "data/reference"), varying=["durability"])
    evidence = pd.DataFrame({"store": ["lmdb"], "durability": "sync", "syncs_per_write": 2.0})
    found = logs.written(main, evidence).set_index("store")
    assert found["insert: written"].is_monotonic_increasing
    assert found.syncs["lmdb"] == 2 and found["journal commits"].isna().all()
