"""The explorer's data have space after equal work, guarantees beside times, and every value."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kvbench.common.messages import BadInput
from kvbench.results.importer import import_table
from support import ROOT

from study.answers import explorer
from study.common.results import Results

DATA = ROOT / "data"
MEASURED = {"record_size": "1 KiB", "records": 1000, "n": 50, "operation": "get", "mean_ns": 9.5}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    others = {name: str(DATA / name) for name in ("durability", "python", "bindings")}
    experiments = explorer.load(str(DATA / "reference"), others)
    return explorer.answers(experiments, space=explorer.load_space(str(DATA / "space")))


@pytest.mark.check
def test_space_is_that_after_equal_work(found: dict[str, Any]) -> None:
    """Rounds end by the clock: after them `tkrzw-hash`, which frees nothing, took over a hundred
    times the space of its data."""
    cells = pd.read_parquet(DATA / "space" / "cells.parquet")
    cells = cells[cells.workload.str.endswith("overwrite") & (cells.status == "ok")]
    known = {(size, count) for size, count in zip(cells.record_size, cells.records, strict=True)}
    seen = set()
    for field in found["fields"]:
        place = field["size"], field["records"]
        plain = field["access"] == "c" and field["memory"] == "default"
        covered = plain and field["durability"] == "process" and place in known
        for store, own in field["stores"].items():
            rows = cells[(cells.store == store) & (cells.record_size == field["size"])]
            rows = rows[(rows.records == field["records"]) & covered]
            if rows.empty or field["data"] != "incompressible":
                assert own["space"] is None, (place, store)
            else:
                ratio = (rows.disk_bytes / rows.live_bytes).median()
                assert own["space"] == pytest.approx(ratio, rel=1e-3)
                seen.add(store)
    assert "tkrzw-hash" in seen and len(seen) > 10
    assert "overwritten once" in found["space"]


def test_beside_each_time_stands_what_the_store_survives(found: dict[str, Any]) -> None:
    for field in found["fields"]:
        for store, own in field["stores"].items():
            level = field["durability"]
            assert own["guarantee"] == level or level == "default"
            assert own["guarantee"] in found["guarantees"], store
            said = found["stores"][store]["consequence"].get(level, "")
            if own["guarantee"] in ("none", "process"):
                assert "loss of power" in said, (store, level)


def test_every_package_for_python_that_was_measured_is_there(found: dict[str, Any]) -> None:
    named = {
        store
        for field in found["fields"]
        if field["access"] == "python"
        for store in (*field["stores"], *field["cooled"])
    }
    for name in ("python", "bindings"):
        cells = pd.read_parquet(DATA / name / "cells.parquet")
        own = cells[(cells.access == "python") & (cells.status == "ok") & (cells.store != "null")]
        assert set(own.store + "/" + own.binding) <= named
    assert {"sqlite/diskcache", "sqlite/sqlitedict"} <= named


def _results(tmp_path: Path, *rows: dict[str, Any], varying: Sequence[str] = ()) -> Results:
    pd.DataFrame([MEASURED | row for row in rows]).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    return Results(str(tmp_path / "out"), varying=varying)


def test_two_values_of_a_trial_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="several levels of label: x, y; "):
        _results(tmp_path, {"store": "a", "label": "x"}, {"store": "a", "label": "y"})


def test_space_of_several_levels_is_refused(tmp_path: Path) -> None:
    rows = [
        {"store": "a", "workload": f"{fill}, overwrite", "live_bytes": 9, "disk_bytes": 9}
        for fill in ("fillseq", "fillrandom")
    ]
    data = _results(tmp_path, *rows, varying=["workload"])
    with pytest.raises(BadInput, match="several levels of workload: fillrandom, overwrite, fills"):
        explorer.equal_space(data)


def test_a_trial_that_is_not_numbered_is_the_first(tmp_path: Path) -> None:
    found = explorer.answers({"mine": _results(tmp_path, {"store": "a"}, {"store": "b"})})
    (field,) = found["fields"]
    assert field["trials"] == 1
    assert {tuple(own["mean"]["get"]) for own in field["stores"].values()} == {(9.5,)}


def test_no_look_counts_more_trials_than_the_last(tmp_path: Path) -> None:
    rows = [{"store": store, "trial": trial} for store in "ab" for trial in (1, 2, 16, 9999)]
    (field,) = explorer.answers({"mine": _results(tmp_path, *rows)})["fields"]
    assert field["trials"] == 2


def of_sittings(tmp_path: Path, number: int) -> Results:
    """Results of so many sittings of five trials, a day each."""
    tmp_path.mkdir()
    rows = [{"store": store, "trial": 1 + at} for store in "ab" for at in range(5 * number)]
    path = _results(tmp_path, *rows).folder / "cells.parquet"
    cells = pd.read_parquet(path)
    days = pd.to_timedelta((cells.trial - 1) // 5, unit="D")
    started = (pd.Timestamp("2026-11-01", tz="UTC") + days).map(pd.Timestamp.isoformat)
    table = pa.Table.from_pandas(cells.assign(started=started), pq.read_schema(path))
    pq.write_table(table, path)
    return Results(str(path.parent))


def test_of_enough_sittings_the_last_look_counts_sittings(tmp_path: Path) -> None:
    """So more trials may count than of one sitting."""
    few = explorer.answers({"reference": of_sittings(tmp_path / "few", 2)})
    assert few["fields"][0]["trials"] == 2 * 5
    many = explorer.answers({"reference": of_sittings(tmp_path / "many", 12)})
    assert many["fields"][0]["trials"] == 5 * 10
    assert many["sittings"] == [[sitting for sitting in range(1, 11) for _ in range(5)]]


def test_other_seeds_are_no_trials(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="several levels of seed: 1, 2"):
        _results(tmp_path, {"store": "a", "seed": 1}, {"store": "a", "seed": 2, "trial": 2})


def test_a_package_has_the_settings_of_the_levels_at_which_it_was_measured(
    tmp_path: Path, found: dict[str, Any]
) -> None:
    rows = [
        {"store": "sqlite", "binding": "sqlitedict", "access": "python", "durability": level}
        for level in ("default", "sync")
    ]
    pd.DataFrame([MEASURED | row for row in rows]).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    data = Results(str(tmp_path / "out"), ("python",), ["durability"])
    own = explorer.answers({"mine": data})["stores"]["sqlite/sqlitedict"]
    assert own["settings"] == {"sync": "journal_mode=WAL, synchronous=FULL"}
    assert list(own["consequence"]) == ["default"]
    assert "settings" not in found["stores"]["sqlite/sqlitedict"]  # the published data, as shipped
