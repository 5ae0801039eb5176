"""`kvbench advise`: what it says of measured fields, between them and beyond them."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from kvbench.answers.advise import Query, advise, around, edge, nearest
from kvbench.answers.needs import NEEDS, Needs, Observed
from kvbench.answers.report import report
from kvbench.cell.bindings import full_name
from kvbench.cell.factors import OPERATIONS
from kvbench.common.messages import BadInput
from kvbench.results.importer import import_table
from kvbench.results.measured import Measured
from kvbench.stats.regret import by_trial, rank
from kvbench.stores import catalogue
from kvbench.stores.bindings import BINDINGS
from support import ROOT, Run

from study.answers import advice

Speeds = Mapping[str, Callable[[int, int, str], float]]
Make = Callable[..., Path]
REFERENCE = ROOT / "data" / "reference"
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


@pytest.mark.parametrize("changed", [("--record-size", "99B"), ("--records", "10001")])
def test_beyond_what_was_measured_the_answer_is_that_of_the_nearest_field(
    changed: tuple[str, str], kvbench: Run, make: Make
) -> None:
    folder = make({"lmdb": by_size, "leveldb": even})
    plain = {"--record-size": "1KiB", "--records": "1000"} | dict([changed])
    command = [word for pair in plain.items() for word in pair]
    done = kvbench("advise", *command, "--data", folder)
    near = "100 B x 1,000" if "--record-size" in changed else "1 KiB x 10,000"
    said = f"extrapolated from {near}, not measured: probably "
    assert done.stdout.startswith(said)
    measuring = " ".join(["kvbench advise", *command, "--mix insert=0.05,get=0.9,update=0.05"])
    assert f"here: {measuring} --durability process --measure 10min" in done.stdout
    found = json.loads(kvbench("advise", *command, "--data", folder, "--json").stdout)
    assert found["grade"] == "extrapolated" and found["beyond_memory"] is None


@pytest.mark.parametrize(
    ("records", "grade"), [("1000", "measured"), ("2000", "interpolated"), ("1M", "extrapolated")]
)
def test_each_answer_has_a_grade(records: str, grade: str, kvbench: Run, make: Make) -> None:
    folder = make({"lmdb": by_size, "leveldb": even})
    command = ("advise", "--record-size", "1KiB", "--records", records, "--data", folder)
    assert json.loads(kvbench(*command, "--json").stdout)["grade"] == grade
    assert ("to measure your records here" in kvbench(*command).stdout) == (grade != "measured")


@pytest.mark.parametrize(
    ("size", "records", "ratio"),
    [("10KiB", "10M", 8), ("30KiB", "5M", 8), ("2KiB", "1e9", 8), ("1KiB", "20M", 2)],
)
def test_of_data_larger_than_memory_the_answer_is_that_of_as_little_memory(
    size: str, records: str, ratio: float, kvbench: Run
) -> None:
    command = ("advise", "--record-size", size, "--records", records, "--data", REFERENCE)
    memory = ("--machine-memory", "16GiB")
    found = json.loads(kvbench(*command, *memory, "--json").stdout)["beyond_memory"]
    assert found["ratio"] > 1 and found["nearest"] == ratio
    assert len(found["stores"]) > 5 and found["stores"][0]["regret"] == 1
    text = kvbench(*command, *memory).stdout
    assert "\nlarger than memory: the data are " in text
    assert "\nif memory held the data: " in text
    found = json.loads(kvbench(*command, "--machine-memory", "9999GiB", "--json").stdout)
    assert found["beyond_memory"] is None


def test_of_data_larger_than_memory_it_is_said_what_was_not_measured(
    kvbench: Run, make: Make
) -> None:
    small = ("--record-size", "1KiB", "--records", "1000", "--machine-memory", "100KiB")
    folder = make({"lmdb": by_size, "leveldb": even})
    text = kvbench("advise", *small, "--data", folder).stdout
    assert text.startswith("larger than memory: the data are 10 times as large as the memory, and ")
    assert f"there is no {folder.parent / 'beyond-memory'}" in text
    command = ("advise", *small, "--data", REFERENCE, "--durability", "sync")
    assert "no such data at durability sync" in kvbench(*command).stdout


BAD = {
    "--mix": ("get=0.9,scan=0.1", "'scan=0.1' is not allowed"),
    "--records": ("many", "'many' is not a number of records; allowed: 1000, 100k, 1M"),
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
    folder = make({"lmdb": lambda *_: 300.0, "leveldb": even, "redb": lambda *_: 303.0})
    command = ("advise", "--record-size", "4KiB", "--records", "2k", "--mix", "get=90,update=10")
    found = json.loads(kvbench(*command, "--data", folder, "--json").stdout)
    assert [row["store"] for row in found["stores"]] == ["lmdb", "redb", "leveldb"]
    assert [row["verdict"] for row in found["stores"]] == ["in", "in", "out"]
    assert found["stores"][2]["regret"] == pytest.approx(1.667, rel=0.02)
    assert found["stores"][0]["licence"]
    assert "MDB_NOSYNC" in found["stores"][0]["settings"]
    assert len(found["rests_on"]) == 4
    text = kvbench(*command, "--data", folder).stdout
    assert text.startswith("use lmdb or redb\n")
    assert "interpolated between" in text


def test_a_file_that_only_grows_is_named_and_ranked_on_demand(kvbench: Run, make: Make) -> None:
    folder = make({"tkrzw-hash": lambda *_: 100.0, "lmdb": even, "leveldb": lambda *_: 900.0})
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", folder)
    text = kvbench(*command).stdout
    assert text.startswith("use lmdb\n")
    assert "left out: tkrzw-hash (its file only grows with updates and removes; --may-grow" in text
    assert kvbench(*command, "--may-grow").stdout.startswith("use tkrzw-hash\n")
    assert kvbench(*command, "--mix", "insert=1").stdout.startswith("use lmdb\n")  # one rule


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
    data = Measured.of(ROOT / "data/earlier")
    query = Query(10 << 10, 20_000, {"get": 0.9, "update": 0.1}, "sync")
    found = advise(data, query)
    assert (found.grade, found.rests_on) == ("extrapolated", {(10 << 10, 10_000): 1.0})
    assert advise(data, replace(query, size=300, records=5_000)).grade == "interpolated"
    assert advise(data, replace(query, size=300, records=100_000)).grade == "extrapolated"


def test_stores_that_c_cannot_call_are_left_out_on_demand() -> None:
    data = Measured.of(REFERENCE)
    query = Query(100 << 10, 10_000, {"get": 0.9, "update": 0.1}, "sync")
    found = advise(data, replace(query, needs=Needs(("c-interface",))))
    assert {"redb", "fjall"} <= set(advise(data, query).ranking.regrets)
    assert not {"redb", "fjall"} & set(found.ranking.regrets)
    assert "interface for C" in found.left_out["redb"]


LACKING = {  # by need, stores that lack it, and stores that do not
    "c-interface": ({"redb", "fjall"}, {"lmdb", "flat"}),
    "ordered": ({"flat", "tkrzw-hash", "sqlite/sqlitedict"}, {"lmdb", "sqlite"}),
    "processes": ({"leveldb", "bdb", "redb"}, {"lmdb", "mdbx", "sqlite", "flat"}),
    "transactions": ({"flat", "kyoto-hash", "sqlite/diskcache"}, {"leveldb", "sqlite"}),
    "comes-back": ({"flat"}, {"rocksdb"}),
    "reports-rot": ({"lmdb", "sqlite"}, {"wiredtiger-btree"}),
    "backup": ({"flat", "leveldb"}, {"sqlite", "lmdb"}),
    "one-file": ({"flat", "leveldb", "rocksdb"}, {"lmdb", "sqlite", "redb"}),
    "opens-soon": ({"rocksdb", "bdb", "fjall", "tokyocabinet-tree"}, {"lmdb", "sqlite", "flat"}),
    "small": ({"rocksdb", "lmdb/lmdb"}, {"lmdb", "sqlite", "leveldb", "flat"}),
    "packaged": ({"mdbx", "fjall", "tidesdb"}, {"lmdb", "leveldb", "flat"}),
    "no-copyleft": ({"wiredtiger-btree", "bdb", "basho"}, {"rocksdb", "lmdb", "flat"}),
    "maintained": ({"leveldb", "wiredtiger-btree"}, {"lmdb", "rocksdb", "sqlite", "flat"}),
    "linux": (set(), {"lmdb", "flat"}),
    "macos": (set(), {"lmdb", "fjall"}),
    "windows": ({"fjall"}, {"lmdb", "leveldb"}),
}


@pytest.mark.parametrize("need", NEEDS)
def test_stores_that_lack_a_need_are_named_with_the_reason(need: str) -> None:
    asked = Needs((need,), Observed(REFERENCE))
    lacking, meeting = LACKING[need]
    refused = {store: asked.refuses(store, "process") for store in lacking | meeting}
    assert {store for store, why in refused.items() if why} == lacking


def test_needs_are_given_together_or_one_by_one(kvbench: Run) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", REFERENCE, "--json")
    found = json.loads(kvbench(*command, "--needs", "ordered,processes").stdout)
    again = kvbench(*command, "--needs", "processes", "--needs", "ordered, processes").stdout
    assert {row["store"] for row in found["stores"]} == {"lmdb", "mdbx", "sqlite"}
    assert {row["store"] for row in json.loads(again)["stores"]} == {"lmdb", "mdbx", "sqlite"}
    assert found["left_out"]["leveldb"] == "a second process is refused"
    assert found["query"]["needs"] == ["ordered", "processes"]
    done = kvbench(*command, "--needs", "ordered,fast")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--needs: 'fast' is unknown; allowed: c-interface, ordered" in done.stderr


@pytest.mark.parametrize(
    ("need", "table", "text", "said"),
    [
        (
            "processes",
            "durability/sharing.csv",
            None,
            "there is no .*sharing.csv; `kvbench sharing",
        ),
        ("processes", "durability/sharing.csv", "store,opens\nlmdb,yes\n", "no column 'reads'"),
        (
            "reports-rot",
            "faults/rot.csv",
            "store,checks,wrong,damages\nlmdb,default,x,1\n",
            "inval",
        ),
        ("reports-rot", "faults/rot.csv", "store,checks,wrong,damages\nlmdb\n", "int"),
        ("small", "builds/installed.csv", None, "there is no .*installed.csv; `kvbench installed"),
        ("small", "builds/installed.csv", "store,bytes\nlmdb,few\n", "invalid literal"),
        ("opens-soon", "age/openings.csv", None, "there is no .*openings.csv; `kvbench crash"),
        ("opens-soon", "age/openings.csv", "store,records\nlmdb,1\n", "no column 'durability'"),
        (
            "opens-soon",
            "age/openings.csv",
            "store,durability,crash,records,open_ms\nlmdb,sync,clean close,100000,soon\n",
            "could not convert",
        ),
    ],
)
def test_tables_of_what_stores_do_that_cannot_be_used_are_refused(
    need: str, table: str, text: str | None, said: str, kvbench: Run, make: Make
) -> None:
    folder = make({"lmdb": by_size, "leveldb": even})
    path = folder.parent / table
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", folder)
    done = kvbench(*command, "--needs", need)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search(said, done.stderr)


def test_stores_whose_limits_are_too_small_are_left_out(kvbench: Run) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", REFERENCE, "--json")
    found = json.loads(kvbench(*command, "--largest-key", "2KiB").stdout)
    assert found["left_out"]["lmdb"] == "its largest key is 511 B"
    assert "sqlite" in {row["store"] for row in found["stores"]}
    found = json.loads(kvbench(*command, "--largest-value", "64 MiB").stdout)
    assert not [why for why in found["left_out"].values() if why.startswith("its largest value")]


def test_stores_are_compared_among_themselves(kvbench: Run) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "10k", "--data", REFERENCE, "--json")
    every = json.loads(kvbench(*command).stdout)
    found = json.loads(kvbench(*command, "--stores", "sqlite, rocksdb,sqlite").stdout)
    times = {row["store"]: row["time_ns"] for row in every["stores"]}
    assert {row["store"]: row["time_ns"] for row in found["stores"]} == {
        name: times[name] for name in ("sqlite", "rocksdb")
    }
    ratio = max(times["sqlite"], times["rocksdb"]) / min(times["sqlite"], times["rocksdb"])
    regrets = [row["regret"] for row in found["stores"]]
    assert regrets == pytest.approx([1, ratio], rel=0.05)  # trials of a sitting count as one
    assert found["left_out"]["lmdb"] == "not among the stores asked for"
    packages = {row["store"].split("/")[0] for row in found["python"]["packages"]}
    assert packages <= {"sqlite", "rocksdb"}
    assert "not among" not in kvbench(*command[:-1], "--stores", "sqlite,rocksdb").stdout


def test_stores_that_take_more_memory_are_left_out(kvbench: Run) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "10k", "--data", REFERENCE, "--json")
    every = json.loads(kvbench(*command).stdout)
    taken = {row["store"]: row["memory_bytes"] for row in every["stores"]}
    found = json.loads(kvbench(*command, "--most-memory", "32MiB").stdout)
    small = {store for store, own in taken.items() if own <= 32 << 20}
    assert {row["store"] for row in found["stores"]} == small and 0 < len(small) < len(taken)
    for store in set(taken) - small:
        assert found["left_out"][store] == f"took {taken[store] / 2**20:.0f} MiB of memory"
    assert found["query"]["most_memory"] == "32 MiB"
    everywhere = {row["store"] for row in every["python"]["packages"]}
    assert {row["store"] for row in found["python"]["packages"]} < everywhere


def test_stores_that_open_soon_are_those_of_the_table(kvbench: Run) -> None:
    """A store that has a slow opening at one level or after one kind of end is left out."""
    command = ("advise", "--record-size", "1KiB", "--records", "10k", "--data", REFERENCE, "--json")
    found = json.loads(kvbench(*command, "--needs", "opens-soon").stdout)
    table = pd.read_csv(ROOT / "data/age/openings.csv").query("records == 100_000")
    medians = table.groupby(["store", "durability", "crash"]).open_ms.median()
    slowest = medians.groupby("store").max()
    assert {row["store"] for row in found["stores"]} == set(slowest[slowest < 100].index)
    slow = slowest[slowest >= 100]
    assert len(slow) and all(
        found["left_out"][store] == f"took {time:.3g} ms" for store, time in slow.items()
    )


STATES = """store,durability,states,recoverable,cannot_be_mounted,does_not_open
leveldb,process,2000,2000,0,0
lmdb,process,2000,1988,0,12
flat,process,199,199,0,0
rocksdb,process,203,200,3,0
"""


@pytest.fixture
def tried(make: Make) -> Path:
    """Results of five stores, with crash states of four of them beside the folder."""
    names = ("lmdb", "flat", "leveldb", "rocksdb", "sqlite")
    folder = make({name: lambda *_, ns=ns: 100.0 * ns for ns, name in enumerate(names, 1)})
    (folder.parent / "faults").mkdir()
    (folder.parent / "faults/states.csv").write_text(STATES)
    return folder


def test_only_stores_that_come_back_after_a_loss_of_power_are_ranked_on_demand(
    kvbench: Run, tried: Path
) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", tried)
    found = json.loads(kvbench(*command, "--needs", "comes-back", "--json").stdout)
    assert [row["store"] for row in found["stores"]] == ["leveldb", "rocksdb"]
    assert [row["crash_states"] for row in found["stores"]] == [2000, 200]
    left = found["left_out"]
    assert left["lmdb"] == "did not come back from 12 of 2,000 crash states at process"
    assert left["flat"] == "tested in only 199 crash states; 200 are needed"
    assert left["sqlite"].startswith("not tested: ") and "states.csv has no row" in left["sqlite"]
    said = kvbench(*command, "--needs", "comes-back").stdout
    assert said.startswith("use leveldb\n")
    assert "crash states from which each came back: leveldb 2,000\n" in said
    assert "left out: lmdb (did not come back from 12 of 2,000 crash states" in said
    (tried.parent / "faults/states.csv").write_text("".join(STATES.splitlines(True)[:2]))
    said = kvbench(*command, "--needs", "comes-back").stdout
    assert said.startswith("leveldb alone is known to come back, so it is not ranked\n")
    (tried.parent / "faults/states.csv").write_text(STATES.splitlines(True)[0])
    said = kvbench(*command, "--needs", "comes-back").stdout
    assert said.startswith("no two stores are known to come back, so none is ranked\n")


def test_broken_states_of_torn_blocks_alone_are_told_apart(kvbench: Run, tried: Path) -> None:
    table = tried.parent / "faults/states.csv"
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", tried)
    for torn, said in (("12", ", all with a torn block of 4 KiB"), ("11", ""), ("", "")):
        head, *rows = STATES.splitlines()
        counted = [f"{row},{torn}" for row in rows]
        table.write_text("\n".join([f"{head},violations_torn", *counted]) + "\n")
        found = json.loads(kvbench(*command, "--needs", "comes-back", "--json").stdout)["left_out"][
            "lmdb"
        ]
        assert found == f"did not come back from 12 of 2,000 crash states at process{said}"


def test_what_breaks_a_store_at_recoverable_counts_for_weaker_levels(
    kvbench: Run, tried: Path
) -> None:
    table = tried.parent / "faults/states.csv"
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", tried)
    table.write_text(f"{STATES}leveldb,recoverable,2000,1995,0,5\n")
    left = json.loads(kvbench(*command, "--needs", "comes-back", "--json").stdout)["left_out"]
    assert left["leveldb"] == "did not come back from 5 of 2,000 crash states at recoverable"


def test_a_recommended_store_that_does_not_come_back_is_named(kvbench: Run, tried: Path) -> None:
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", tried)
    said = kvbench(*command).stdout
    assert said.startswith(
        "use lmdb\n\nlmdb did not come back from 12 of 2,000 crash states at process; "
        "--needs comes-back"
    )
    (tried.parent / "faults/states.csv").unlink()
    assert "crash states" not in kvbench(*command).stdout


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "--needs: there is no .*faults/states.csv"),
        ("store,durability,states\nlmdb,process,5\n", "no column 'recoverable'"),
        (STATES.replace("1988", "many"), "invalid literal"),
        (STATES.replace("1988", "3000"), "lmdb: 3000 of 2000 states"),
    ],
)
def test_crash_states_that_cannot_be_used_are_refused(
    table: str | None, said: str, kvbench: Run, tried: Path
) -> None:
    path = tried.parent / "faults/states.csv"
    path.unlink() if table is None else path.write_text(table)
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", tried)
    done = kvbench(*command, "--needs", "comes-back")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search(said, done.stderr)


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


def test_measuring_that_ends_too_soon_leaves_the_answer_as_it_was(
    kvbench: Run, make: Make, tmp_path: Path
) -> None:
    """The answer rests on what was known, and the status says so."""
    folder = make({"lmdb": lambda *_: 480.0, "leveldb": even, "sqlite": lambda *_: 5000.0})
    out = tmp_path / "mine"
    command = ("advise", "--record-size", "100B", "--records", "100", "--data", folder)
    known = json.loads(kvbench(*command, "--json").stdout)
    done = kvbench(*command, "--measure", "1us", "--out", out, "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    measured = found.pop("measured")
    assert found == known
    assert measured == {"finished": False, "why": "its 1e-06 s were over", "report": None}
    again = kvbench(*command, "--measure", "1us", "--out", out)
    assert again.returncode == 3
    first = "measuring did not finish: its 1e-06 s were over, after 0 whole trials"
    assert again.stdout.startswith(first)
    assert f"the answer rests on {folder}\n\nuse lmdb or leveldb\n" in again.stdout


@pytest.mark.check
def test_measuring_that_comes_to_its_end_is_the_answer(
    kvbench: Run, make: Make, tmp_path: Path
) -> None:
    """LMDB gets a record many times as fast as SQLite does, so seven trials decide it."""
    folder = make({"lmdb": lambda *_: 480.0, "sqlite": even, "flat": lambda *_: 5000.0})
    command = ("advise", "--record-size", "100B", "--records", "100", "--mix", "get=1")
    rest = ("--data", folder, "--measure", "5min", "--out", tmp_path / "mine")
    done = kvbench(*command, *rest, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["measured"]["finished"] and found["trials"] >= 7
    assert [row["store"] for row in found["stores"]] == ["lmdb", "sqlite"]
    assert found["known"]["data"] == str(folder)
    text = kvbench(*command, *rest).stdout
    assert text.startswith("measured here\n\nuse lmdb\n")
    assert f"beside it, {folder} says\n\nuse lmdb or sqlite\n" in text


@pytest.mark.check
def test_an_interrupt_is_no_answer_from_a_trial(make: Make, tmp_path: Path) -> None:
    folder = make({"lmdb": lambda *_: 480.0, "leveldb": even, "sqlite": lambda *_: 5000.0})
    out = tmp_path / "mine"
    command = [sys.executable, "-m", "kvbench.cli", "advise", "--record-size", "100B"]
    command += ["--records", "100", "--data", str(folder), "--measure", "9min", "--out", str(out)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while started.poll() is None and not list(out.glob("cells/*.json")):
        time.sleep(0.001)
    started.send_signal(signal.SIGINT)
    said, errors = started.communicate()
    assert started.returncode == 130, said + errors
    assert said.startswith("measuring did not finish: it was interrupted, after ")
    assert "use lmdb or leveldb\n" in said


def test_with_one_candidate_there_is_nothing_to_measure(kvbench: Run, make: Make) -> None:
    folder = make({"lmdb": even, "leveldb": lambda *_: 5000.0})
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", folder)
    done = kvbench(*command, "--measure", "9s")
    assert done.returncode == 0
    assert done.stdout.startswith("nothing to measure: ")
    assert "\n\nuse lmdb\n" in done.stdout


FIELDS = [(size, count) for size in (100, 1000, 10_000) for count in (10, 1000)]


def test_weights_meet_their_target() -> None:
    """In the logs, whatever is around."""
    for size, records in ((100, 10), (300, 50), (1000, 999), (10_000, 1000), (9999, 11)):
        found = around(FIELDS, size, records)
        assert sum(found.values()) == pytest.approx(1) and min(found.values()) > 0
        middle = sum(np.log(point) * weight for point, weight in found.items())
        assert np.exp(middle) == pytest.approx((size, records))
    assert around(FIELDS, 1000, 10) == {(1000, 10): 1.0}
    assert len(around(FIELDS, 1000, 100)) == 2 and len(around(FIELDS, 500, 100)) == 4


def test_nothing_is_around_what_lies_beyond_the_fields() -> None:
    assert around([], 100, 10) == {}
    for size, records in ((99, 10), (10_001, 10), (1000, 9), (1000, 1001)):
        assert around(FIELDS, size, records) == {}
    assert around([(100, 10), (10_000, 10)], 1500, 10) == {}  # a size of 10,000 B is near, 100 not


def test_beyond_the_fields_the_size_still_counts() -> None:
    """The number is the nearest of each size, and the size the nearest if it is beyond, too."""
    assert edge([], 100, 10) == {}
    assert edge(FIELDS, 1000, 5000) == {(1000, 1000): 1.0}
    assert edge(FIELDS, 10, 1) == {(100, 10): 1.0}
    assert edge(FIELDS, 10**6, 100).keys() == {(10_000, 10), (10_000, 1000)}
    found = edge(FIELDS, 3162, 10**6)
    assert found == pytest.approx({(1000, 1000): 0.5, (10_000, 1000): 0.5}, rel=0.001)
    assert edge([(100, 10), (10_000, 10)], 1500, 10) == {(10_000, 10): 1.0}
    mixed = edge([*FIELDS, (5000, 10)], 7071, 1000)
    assert mixed == pytest.approx({(5000, 10): 0.5, (10_000, 1000): 0.5}, rel=0.001)


def test_a_size_without_these_numbers_is_passed_over() -> None:
    points = [*FIELDS, (5000, 10)]
    assert {size for size, _ in around(points, 5000, 100)} == {1000, 10_000}
    assert around(points, 5000, 10) == {(5000, 10): 1.0}


def test_advice_is_validated_against_the_field_that_was_left_out(make: Make) -> None:
    data = Measured.of(make({"lmdb": by_size, "leveldb": even, "sqlite": lambda *_: 5000.0}))
    found = advice.validation(data).set_index("rule")
    assert found.fields.min() > 0
    assert found["mean"]["advise, from the fields around"] < found["mean"]["always sqlite"]
    assert (found["mean"] >= 1).all() and (found.good <= 1).all()


def test_advice_is_followed_in_other_places(make: Make) -> None:
    """In one the stores have changed places, so the advice fails wherever they differ."""
    folder = make({"lmdb": lambda *_: 100.0, "leveldb": lambda *_: 300.0})
    data = Measured.of(folder)
    shutil.rmtree(folder)
    other = Measured.of(make({"lmdb": lambda *_: 300.0, "leveldb": lambda *_: 100.0}))
    found = advice.elsewhere(data, {"same": data, "other": other}).set_index("place")
    assert found.good.to_dict() == {"same": 1.0, "other": 0.0}
    assert found["mean"].to_dict() == pytest.approx({"same": 1.0, "other": 3.0}, rel=0.02)
    assert found.fields["other"] == found.fields["same"] == 9 * 4


POINTS = strategies.lists(
    strategies.tuples(strategies.integers(1, 1 << 26), strategies.integers(1, 10**8)), min_size=1
)


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(POINTS, strategies.integers(1, 1 << 26), strategies.integers(1, 10**8))
def test_no_measured_size_is_nearer_than_that_of_the_nearest_field(
    points: list[tuple[int, int]], size: int, records: int
) -> None:
    found = nearest(points, size, records)
    assert found in points

    def away(value: int, wanted: int) -> float:
        return abs(np.log(value / wanted))

    assert away(found[0], size) == min(away(point[0], size) for point in points)
    same = [point[1] for point in points if point[0] == found[0]]
    assert away(found[1], records) == min(away(count, records) for count in same)


def test_a_computed_time_recommends_nothing(kvbench: Run) -> None:
    """What it says first is that it is computed, and it names whatever may be good enough."""
    command = ("advise", "--record-size", "100B", "--records", "10k", "--data", REFERENCE)
    device = ("--durability", "sync", "--sync-time", "10ms")
    said = kvbench(*command, *device).stdout
    first, second, *_ = said.split("\n\n")
    assert first == "computed, not measured: times as on a device that syncs in 10 ms"
    assert second.startswith("to measure there: ") and second.count(",") >= 1
    assert not re.search(r"^use ", said, re.MULTILINE)
    found = json.loads(kvbench(*command, *device, "--json").stdout)
    assert found["computed"] is True
    assert not any(row["recommended"] for row in found["stores"])


DOCUMENTED = """store,operation,record_size,records,n,mean_ns,p50_ns,p99_ns
pebble,insert,1 KiB,100000,50000,5210.4,4100,21000
pebble,get,1 KiB,100000,50000,1890,1500,6200
badger,get,1 KiB,100000,50000,2040,,
"""
ASKED = ("--record-size", "1KiB", "--records", "100k", "--mix", "get=1")


def _imported(text: str, tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(text)
    import_table(tmp_path / "table.csv", tmp_path / "theirs")
    return tmp_path / "theirs"


def _stated(columns: Mapping[str, str]) -> str:
    """The documented table with more columns."""
    head, *rows = DOCUMENTED.splitlines()
    names = "".join(f",{name}" for name in columns)
    values = "".join(f",{value}" for value in columns.values())
    return "\n".join([head + names, *(row + values for row in rows), ""])


@pytest.mark.parametrize(
    "columns",
    [
        {}, {"memory": "default"}, {"durability": "process", "memory": "default"},
        {"durability": "process"}, {"durability": "default"}, {"trial": "1", "cpu": "A"},
        {"durability": "default", "guarantee": "process"}, {"live_bytes": "5", "disk_bytes": "0"},
    ],
    ids=str,
)  # fmt: skip
def test_what_an_import_does_not_state_stays_so(
    columns: dict[str, str], kvbench: Run, tmp_path: Path
) -> None:
    folder = _imported(_stated(columns), tmp_path)
    level = ("--durability", "default") if columns.get("durability") == "default" else ()
    done = kvbench("advise", "--data", folder, *ASKED, *level)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("not told apart: pebble, badger\n")
    for wrong in ("nan", "None", "inf", "NaN"):
        assert not re.search(rf"\b{wrong}\b", done.stdout)
    found = json.loads(kvbench("advise", "--data", folder, *ASKED, *level, "--json").stdout)
    found = found["guarantees"][0] if level else found
    assert found["query"]["durability"] == columns.get("durability")
    assert found["query"]["memory"] == columns.get("memory")
    assert found["machine"] == columns.get("cpu")
    assert found["query"]["access"] is None
    assert {row["space"] for row in found["stores"]} == {None}
    assert found["stores"][1]["p99_ns"] is None


def test_a_level_that_is_not_stated_is_no_level(kvbench: Run, tmp_path: Path) -> None:
    folder = _imported(DOCUMENTED, tmp_path)
    for option, level in (("--durability", "process"), ("--memory", "default")):
        done = kvbench("advise", "--data", folder, *ASKED, option, level)
        assert done.returncode == 2
        assert done.stderr.endswith("allowed: not stated\n")
        again = kvbench("advise", "--data", folder, *ASKED, option, "not stated")
        assert again.returncode == 0


def test_medians_stand_in_where_no_mean_is_stated(kvbench: Run, tmp_path: Path) -> None:
    rows = [*DOCUMENTED.splitlines()[:3], "badger,get,1 KiB,100000,50000,,2000,"]
    medians = "\n".join(",".join((*row.split(",")[:5], row.split(",")[6])) for row in rows)
    said = kvbench("advise", "--data", _imported(medians, tmp_path), *ASKED).stdout
    assert "median time" in said and "times are medians" in said
    assert "badger" in said


LEVELS = {
    "key_size": ("16", "32"), "label": ("a", "b"), "seed": ("1", "2"), "least_ms": ("250", "1000"),
    "engine_version": ("1.0", "2.0"), "binding_version": ("1", "2"), "cpu": ("A", "B"),
}  # fmt: skip


@pytest.mark.parametrize("column", LEVELS)
def test_nothing_but_trials_is_averaged(column: str, kvbench: Run, tmp_path: Path) -> None:
    """Two levels of any column are refused by name, and one can be chosen."""
    parts = [_stated({"trial": str(at), column: LEVELS[column][at - 1]}) for at in (1, 2)]
    folder = _imported("".join([parts[0], *parts[1].splitlines(keepends=True)[1:]]), tmp_path)
    done = kvbench("advise", "--data", folder, *ASKED)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    name = "machine" if column == "cpu" else column
    assert re.search(f"several levels of {name}( of badger)?: ", done.stderr)
    found = re.search(r"as --where (\S+=\S+)", done.stderr)
    assert found
    chosen = kvbench("advise", "--data", folder, *ASKED, "--where", found[1], "--json")
    assert {row["store"] for row in json.loads(chosen.stdout)["stores"]} == {"pebble", "badger"}


def test_where_replaces_a_level_that_is_usual(kvbench: Run, make: Make) -> None:
    folder = make({"lmdb": even, "leveldb": even})
    command = ("advise", "--record-size", "1KiB", "--records", "100", "--data", folder)
    plain = kvbench(*command).stdout
    assert kvbench(*command, "--where", "compressibility=incompressible").stdout == plain
    done = kvbench(*command, "--where", "compressibility=compressible")
    assert done.returncode == 2
    assert done.stderr.endswith("allowed: incompressible\n")


SHIPPED = ("advise", "--access", "python", "--record-size", "1KiB", "--records", "10k")
PYTHON = REFERENCE.parent / "python"


def test_packages_are_ranked_with_those_that_survive_the_same(kvbench: Run) -> None:
    """None that survives less is named, and each of the data has its place."""
    for level, expected in (("process", ["process", "sync"]), ("sync", ["sync"])):
        done = kvbench(*SHIPPED, "--data", PYTHON, "--durability", level, "--json")
        found = json.loads(done.stdout)["guarantees"]
        assert [own["query"]["guarantee"] for own in found] == expected
        ranked = {row["store"] for own in found for row in own["stores"]}
        assert not {"bdb/bsddb3", "bdb/berkeleydb"} & ranked
        assert "survive less: none" in found[0]["left_out"]["bdb/bsddb3"]
        assert found[0]["left_out"]["gdbm/dbm.gnu"].startswith("unavailable")
        every = {full_name(entry.store, name) for name, entry in BINDINGS.items()} - {"null/null"}
        other = {name for name in every if name.endswith("/shelve")}  # of another store by version
        assert every - other <= ranked | set(found[0]["left_out"])
    assert {"sqlite/diskcache", "sqlite/sqlitedict"} <= set(found[0]["left_out"])
    said = kvbench(*SHIPPED, "--data", PYTHON).stdout
    assert said.startswith("use rocksdb/rocksdict")
    assert "bdb/bsddb3 (as shipped, its writes survive less: none)" in said


def test_stores_as_shipped_are_never_ranked_across_guarantees(kvbench: Run) -> None:
    for access in ("c", "python"):
        command = ("advise", "--record-size", "1KiB", "--records", "10k", "--access", access)
        done = kvbench(*command, "--data", REFERENCE.parent / "bindings", "--durability", "default",
                       "--json")  # fmt: skip
        for found in json.loads(done.stdout)["guarantees"]:
            for row in found["stores"]:
                store = catalogue.known()[row["store"]]
                assert store.default_durability == found["query"]["guarantee"], row["store"]


PACKAGES = {  # us of an operation, by package, and by the level set and what it guarantees
    "rocksdb/rocksdict": {
        ("default", "process"): 9,
        ("process", "process"): 10,
        ("sync", "sync"): 400,
    },
    "leveldb/plyvel": {
        ("default", "process"): 20,
        ("process", "process"): 20,
        ("sync", "sync"): 300,
    },
    "sqlite/dbm.sqlite3": {("default", "sync"): 600},
}


@pytest.fixture
def from_python(tmp_path: Path) -> Path:
    """Results of packages at several levels, beside those of make()."""
    random = np.random.default_rng(2)
    rows = [
        {
            **{"store": store, "binding": binding, "access": "python", "operation": operation},
            **{"record_size": size, "records": 10_000, "n": 1000, "trial": trial},
            **{"durability": level, "guarantee": guarantee, "memory": "default"},
            **{"compressibility": "incompressible"},
            "mean_ns": 1000 * us * np.exp(0.01 * random.standard_normal()),
        }
        for package, levels in PACKAGES.items()
        for store, _, binding in [package.partition("/")]
        for (level, guarantee), us in levels.items()
        for size in ("100 B", "10 KiB")
        for operation in OPERATIONS
        for trial in range(1, 8)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "packages.csv", index=False)
    import_table(tmp_path / "packages.csv", tmp_path / "python")
    return tmp_path / "python"


@pytest.mark.parametrize(
    ("level", "order"),
    [
        ("process", ["rocksdb/rocksdict", "leveldb/plyvel"]),
        ("sync", ["leveldb/plyvel", "rocksdb/rocksdict", "sqlite/dbm.sqlite3"]),
    ],
)
def test_beside_every_answer_stand_the_packages_of_its_guarantee(
    level: str, order: list[str], kvbench: Run, make: Make, from_python: Path
) -> None:
    """Each as set to the level or, if it was not, as shipped; in the nearest measured fields."""
    folder = make({"lmdb": by_size, "leveldb": even}, level=level)
    command = ("advise", "--record-size", "7KiB", "--records", "1k", "--data", folder)
    done = kvbench(*command, "--durability", level, "--json")
    found = json.loads(done.stdout)["python"]
    assert (found["guarantee"], found["why"], found["trials"]) == (level, "", 7)
    (near,) = found["rests_on"]
    assert (near["record_size"], near["records"]) == ("10 KiB", 10_000)
    assert found["grade"] == "extrapolated"
    assert [row["store"] for row in found["packages"]] == order
    set_to = {row["store"]: row["durability"] for row in found["packages"]}
    assert set_to == {name: "default" if "dbm" in name else level for name in order}
    best, second = found["packages"][:2]
    times = [PACKAGES[name][level, level] for name in order[:2]]
    assert second["low"] < times[1] / times[0] < second["high"]
    assert best["time_ns"] == pytest.approx(1000 * times[0], rel=0.02)
    said = kvbench(*command, "--durability", level).stdout
    assert f"not measured: probably {order[0]}" in said
    assert f"at durability {level}, from 10 KiB x 10,000 of {from_python}" in said


def test_one_line_says_that_no_package_has_the_guarantee(
    kvbench: Run, make: Make, from_python: Path
) -> None:
    folder = make({"lmdb": by_size, "leveldb": even}, level="none")
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", folder)
    said = kvbench(*command, "--durability", "none").stdout.splitlines()
    assert said[-1] == f"from Python: {from_python} has no package at durability none"
    shutil.rmtree(from_python)
    said = kvbench(*command, "--durability", "none").stdout.splitlines()
    assert said[-1] == f"from Python: there is no {from_python}"


def test_packages_that_were_set_to_the_level_come_first(kvbench: Run) -> None:
    command = ("advise", "--data", REFERENCE, "--record-size", "1KiB", "--records", "10k", "--json")
    for level in ("sync", "process"):
        found = json.loads(kvbench(*command, "--durability", level).stdout)["python"]
        assert found["data"].endswith("python-levels")
        assert {row["durability"] for row in found["packages"]} == {level}
        assert {"lmdb/lmdb", "sqlite/sqlite3"} <= {row["store"] for row in found["packages"]}


def test_an_answer_of_packages_has_none_beside_it(kvbench: Run) -> None:
    done = kvbench(*SHIPPED, "--data", PYTHON, "--durability", "sync", "--json")
    assert all("python" not in found for found in json.loads(done.stdout)["guarantees"])


@pytest.mark.check
def test_space_is_that_after_equal_work_or_not_said(kvbench: Run) -> None:
    """In rounds, which end by the clock, a fast store has written more."""
    command = ("advise", "--data", REFERENCE, "--may-grow", "--json", "--mix", "get=0.9,update=0.1")
    for size, records, covered in (("1KiB", "10k", True), ("100B", "1M", False)):
        found = json.loads(kvbench(*command, "--record-size", size, "--records", records).stdout)
        spaces = {row["store"]: row["space"] for row in found["stores"]}
        assert all((value is not None) == covered for value in spaces.values())
    cells = pd.read_parquet(REFERENCE.parent / "space" / "cells.parquet")
    own = cells[cells.workload.str.endswith("overwrite") & (cells.store == "tkrzw-hash")]
    own = own[(own.record_size == "1 KiB") & (own.records == 10_000)]
    found = json.loads(kvbench(*command, "--record-size", "1KiB", "--records", "10k").stdout)
    (row,) = (row for row in found["stores"] if row["store"] == "tkrzw-hash")
    assert row["space"] == pytest.approx((own.disk_bytes / own.live_bytes).median())
    sync = kvbench(*command, "--record-size", "1KiB", "--records", "10k", "--durability", "sync")
    assert {row["space"] for row in json.loads(sync.stdout)["stores"]} == {None}


def test_beside_a_setting_stands_what_a_crash_may_cost(kvbench: Run, make: Make) -> None:
    folder = make({name: even for name in ("lmdb", "mdbx", "sqlite", "redb", "leveldb")})
    command = ("advise", "--record-size", "1KiB", "--records", "1k", "--data", folder)
    found = json.loads(kvbench(*command, "--json").stdout)
    said = {row["store"]: row["consequence"] for row in found["stores"]}
    assert {name for name, text in said.items() if "corrupt" in text} == set(said) - {"leveldb"}
    assert "what a crash may cost" in kvbench(*command).stdout


def test_where_no_level_is_asked_for_the_others_answer_beside_it(kvbench: Run) -> None:
    """As they do when they are asked for; of a level without data it is said."""
    asked = ["advise", "--record-size", "4KiB", "--records", "10k", "--mix", "get=9,update=1"]
    asked += ["--data", str(ROOT / "data/earlier")]
    besides = json.loads(kvbench(*asked, "--json").stdout)["other_levels"]
    assert [own["durability"] for own in besides] == ["recoverable", "sync"]
    missing, sync = besides
    assert missing["grade"] is None
    alone = json.loads(kvbench(*asked, "--durability", "sync", "--json").stdout)
    assert "other_levels" not in alone
    assert sync["recommended"] == [row["store"] for row in alone["stores"] if row["recommended"]]
    assert sync["grade"] == alone["grade"]
    said = kvbench(*asked).stdout
    assert "at level recoverable: not measured\n" in said
    assert f"at level sync: use {' or '.join(sync['recommended'])}\n" in said
