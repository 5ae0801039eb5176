"""`kvbench import` reads what other programs write. All samples are made by hand."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kvbench.results import formats
from kvbench.results.tables import read_tables
from support import Run

SAMPLES = Path(__file__).parent / "formats"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


SAID = ["--records", "1M", "--value-size", "100"]
NAMED = [*SAID, "--store", "mine", "--operations", "1000"]
CASES: dict[str, tuple[str, list[str], list[dict[str, Any]]]] = {
    # by the name of a sample: its format, what has to be said, and some of what comes in
    "rocksdb.txt": ("db_bench", [], [
        {"store": "rocksdb", "operation": "fillrandom", "records": 1_000_000, "key_size": 16,
         "record_size": "100 B", "n": 1_000_000, "mean": 3210, "p50_ns": 2250, "p99_ns": 51300,
         "max_ns": 4_321_000, "engine_version": "8.4.2"},
        {"operation": "readrandom", "n": 125_000, "mean": 20100},
    ]),
    "leveldb.txt": ("db_bench", ["--store", "leveldb"], [
        {"operation": "fillrandom", "durability": "sync", "n": 400, "mean": 1_234_500},
        {"operation": "readrandom", "n": 400_000, "mean": 5678},
    ]),
    "lmdb.txt": ("db_bench", [], [{"store": "lmdb", "operation": "readseq", "mean": 125}]),
    "report.tsv": ("report-tsv", SAID, [
        {"store": "rocksdb", "operation": "readrandom", "n": 24_740_700, "mean": 38800,
         "p999_ns": 200_000, "label": "t16"},
        {"operation": "overwrite", "durability": "sync"},
    ]),
    "tidesdb.csv": ("tidesdb", [], [
        {"store": "rocksdb", "operation": "insert", "mean": 2000, "p99_ns": 31000,
         "records": 1_000_000, "label": "write rand"},
        {"durability": "sync", "mean": 1_000_000},
    ]),
    "redb-times.md": ("redb", [*SAID, "--operations", "1M"], [
        {"store": "redb", "operation": "fillrandom", "mean": 3210}, {"store": "lmdb", "mean": 987},
    ]),
    "redb-rates.md": ("redb", [*SAID, "--operations", "1M"], [
        {"store": "redb", "operation": "fillrandom", "mean": 800}, {"store": "lmdb", "mean": 200},
        {"operation": "insert", "mean": 1_066_098}, {},
    ]),
    "ycsb.txt": ("ycsb", [*SAID, "--store", "rocksdb"], [
        {"operation": "get", "n": 4750, "mean": 512_250, "min_ns": 90_000, "p99_ns": 2_100_000},
        {"operation": "update", "n": 250, "mean": 900_000},
    ]),
    "ycsb-cpp.txt": ("ycsb", [*SAID, "--store", "mine"], [
        {"operation": "get", "n": 950, "mean": 1250, "p90_ns": 2000},
    ]),
    "ycsb-go.txt": ("ycsb", [*SAID, "--store", "mine"], [
        {"operation": "get", "n": 950, "mean": 512_000, "p99_ns": 2_100_000},
    ]),
    "crud-bench.csv": ("crud-bench", NAMED, [
        {"operation": "insert", "mean": 220_000, "p50_ns": 200_000, "max_ns": 9_100_000},
    ]),
    "crud-bench.json": ("crud-bench", ["--value-size", "1KiB"], [
        {"store": "rocksdb", "operation": "insert", "records": 100_000, "mean": 220_500,
         "durability": "sync"},
        {"operation": "get", "mean": 20_500, "n": 100_000},
    ]),
    "go.txt": ("go-bench", SAID, [
        {"store": "badger", "operation": "insert", "n": 500_000, "mean": 2345, "p99_ns": 9876,
         "trial": 1},
        {"mean": 2355, "trial": 2},
    ]),
    "benchmark-dotnet.csv": ("benchmark-dotnet", [*SAID, "--operations", "10000"], [
        {"store": "lmdb", "operation": "insert", "mean": 1234},
    ]),
    "benchmark-dotnet-units.csv": ("benchmark-dotnet", [*SAID, "--operations", "10000"],
        [{"store": "lmdb", "operation": "get", "mean": 12_345_600}],
    ),
    "ioarena.txt": ("ioarena", [], [
        {"store": "lmdb", "operation": "insert", "records": 1_000_000, "n": 1_000_000, "mean": 7890,
         "max_ns": 2_500_000, "durability": "sync"},
    ]),
    "rust-storage-bench.jsonl": ("storage-bench", [], [
        {"store": "fjall", "engine_version": "2.6.3", "operation": "insert", "n": 400, "mean": 2400,
         "p99_ns": 21000, "records": 1000, "record_size": "64 B"},
        {"operation": "get", "n": 400, "mean": 950},
    ]),
    "keybench.tsv": ("keybench", SAID, [
        {"store": "rocksdb", "operation": "get", "n": 900_000, "p50_ns": 460, "p999_ns": 8200,
         "label": "mixed 4 threads batch 10"},
    ]),
}  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The operations with their cells."""
    tables = {name: pd.DataFrame(table.to_pylist()) for name, table in read_tables(folder).items()}
    rows = tables["operations"].merge(tables["cells"], on="cell", suffixes=("", "_cell"))
    rows["mean"] = rows.sum_ns / rows.n
    return rows.to_dict("records")


@pytest.mark.parametrize("name", CASES)
def test_what_a_program_writes_comes_in(name: str, kvbench: Run, tmp_path: Path) -> None:
    """Found out by itself, in ns, with the operations of this package."""
    kind, said, wanted = CASES[name]
    path = tmp_path / "results"
    path.write_text(sample(name))
    done = kvbench("import", path, "--out", tmp_path / "out", *said)
    assert done.returncode == 0, done.stderr
    found = rows_of(tmp_path / "out")
    assert len(found) == len(wanted)
    for row, want in zip(found, wanted, strict=True):
        for key, value in want.items():
            exact = isinstance(value, str)
            assert row[key] == (value if exact else pytest.approx(value, rel=1e-6)), key
    assert formats.detected(sample(name)) == kind
    again = kvbench("import", path, "--out", tmp_path / "again", "--format", kind, *said)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1]])
def test_what_a_file_does_not_state_is_asked_for_in_one_line(
    name: str, kvbench: Run, tmp_path: Path
) -> None:
    _, said, _ = CASES[name]
    path = tmp_path / "results"
    path.write_text(sample(name))
    for at in range(0, len(said), 2):
        done = kvbench("import", path, "--out", tmp_path / "out", *said[:at], *said[at + 2 :])
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert re.search(rf"line \d+: no \w+; say it with {said[at]} ", done.stderr), done.stderr
        assert not (tmp_path / "out").exists()


def test_operations_that_are_none_here_are_left_out_and_named(kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(sample("rocksdb.txt"))
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert done.stderr.endswith("left out, since they are no operations here: crc32c\n")
    path.write_text(sample("leveldb.txt"))
    done = kvbench("import", path, "--out", tmp_path / "other", "--store", "leveldb")
    assert done.stderr.endswith("left out, since they are no operations here: readrandom again\n")


HEAD = "engine;test;value size;entries;ops;{}\n"


@pytest.mark.parametrize(
    ("column", "value", "mean"),
    [
        ("mean_us", "1.5", 1500), ("avg latency (ms)", "0.25", 250_000), ("ops/s", "2000", 500_000),
        ("total_s", "0,5", 5000), ("Mean [ns]", "12,5", 12.5), ("throughput", "1e6", 1000),
        ("average_time_us", "1.234,5", 1_234_500),
    ],
)  # fmt: skip
def test_a_table_may_have_usual_names_and_units(
    column: str, value: str, mean: float, kvbench: Run, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEAD.format(column) + f"pebble;put;100;1000;100000;{value}\n")
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (row,) = rows_of(tmp_path / "out")
    assert (row["store"], row["operation"], row["records"]) == ("pebble", "insert", 1000)
    assert row["mean"] == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize("by", [",", ";", "\t", "|"])
def test_columns_are_separated_by_what_the_first_line_has(
    by: str, kvbench: Run, tmp_path: Path
) -> None:
    names, values = (
        ("store", "op", "record_size", "records", "n", "p99_us"),
        ("a", "scan", "1 KiB", "9", "8", "7.5"),
    )
    path = tmp_path / "table"
    path.write_text(by.join(names) + "\n" + by.join(values) + "\n")
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (row,) = rows_of(tmp_path / "out")
    assert (row["operation"], row["p99_ns"]) == ("readseq", 7500)


def test_a_number_that_may_be_a_fraction_or_a_whole_number_is_refused(
    kvbench: Run, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEAD.format("mean_us") + "pebble;put;100;1000;100000;1,234\n")
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "line 2: '1,234' may be a fraction or a whole number" in done.stderr


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("{" * 100_000 + '"creates" "reads" "q99"', "allowed: "),
        ("Keys:\nfillseq : 1" + "9" * 400 + " micros/op;\n", "line 2: "),
        (sample("tidesdb.csv") + "rocksdb,1\n", "line 4: 2 values; allowed: 18"),
        (sample("benchmark-dotnet.csv").replace("4 us", "4 apples"), "has no unit; allowed: ns"),
        (sample("report.tsv").replace("412345", "many"), "line 3: no numbers ops_sec and uptime"),
        (sample("rust-storage-bench.jsonl") + "{", "line 7: not JSON"),
    ],
)
def test_a_file_that_is_damaged_is_refused_in_one_line(
    sample: str, said: str, kvbench: Run, tmp_path: Path
) -> None:
    path = tmp_path / "results"
    path.write_text(sample)
    done = kvbench("import", path, "--out", tmp_path / "out", *NAMED)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert said in done.stderr and not (tmp_path / "out").exists()


def test_a_format_that_is_unknown_or_another_is_refused(kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(sample("ycsb.txt"))
    done = kvbench("import", path, "--out", tmp_path / "out", "--format", "bench")
    assert "--format: 'bench' is unknown; allowed: " in done.stderr
    done = kvbench("import", path, "--out", tmp_path / "out", "--format", "redb")
    assert "not of the table of redb or canopydb" in done.stderr
    assert done.returncode == 2
