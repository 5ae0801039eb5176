"""`kvbench import` reads what other programs write. All samples are made by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kvbench.results import formats
from kvbench.results.tables import read_tables
from support import Run

ROCKSDB = """RocksDB:    version 8.4.2
Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
Values:     100 bytes each (50 bytes after compression)
Entries:    1000000
------------------------------------------------
fillrandom   :       3.210 micros/op 311526 ops/sec 3.210 seconds 1000000 operations;   34.5 MB/s
Microseconds per write:
Count: 1000000 Average: 3.2100  StdDev: 7.50
Min: 1  Median: 2.2500  Max: 4321
Percentiles: P50: 2.25 P75: 4.10 P99: 51.30 P99.9: 98.70 P99.99: 410.00
crc32c       :       1.000 micros/op 1000000 ops/sec;
readrandom   :      20.100 micros/op 397900 ops/sec; (98765 of 125000 found)
"""
LEVELDB = """Keys:       16 bytes each
Values:     200 bytes each (100 bytes after compression)
Entries:    400000
fillsync     :    1234.500 micros/op;    0.2 MB/s (400 ops)
readrandom   :       5.678 micros/op; (345678 of 400000 found)
readrandom   :       4.000 micros/op; (345678 of 400000 found)
"""
LMDB = """LMDB: version LMDB 0.9.70
Keys:\t   16 bytes each
Values:\t   100 bytes each (50 bytes after compression)
Entries:\t1000000
readseq       :       0.125 micros/op 8000000 ops/sec;  885.5 MB/s
"""
REPORT = """# ops_sec - operations per second
ops_sec\tmb_sec\tlsm_sz\tblob_sz\tusec_op\tp50\tp99\tp99.9\tpmax\tuptime\ttest\tdate\tversion\tjob_id
412345\t165.2\t12GB\t\t38.8\t30.1\t90.5\t200.0\t9000\t60\treadrandom.t16\t2026-01-02T03:04:05\t8.4.2\t
1000\t0.4\t12GB\t\t1000.0\t900\t2000\t3000\t9000\t60\toverwrite.t1.s1\t2026-01-02T03:04:05\t8.4.2\t
"""
TIDESDB = (
    "engine,test_name,operation,ops_per_sec,duration_sec,avg_latency_us,p50_us,p99_us,min_us,max_us,"
    "peak_rss_mb,workload,threads,num_operations,batch_size,key_size,value_size,sync_enabled\n"
    "rocksdb,write_rand,PUT,500000.00,2.000,2.10,2.00,31.00,1.00,2210.00,210.50,write,1,1000000,1,16,"
    "100,0\n"
    "rocksdb,write_sync,PUT,1000.00,2.000,1000.00,990.00,3000.00,1.00,9000.00,210.50,write,1,2000,1,16,"
    "100,1\n"
)
REDB_OLD = """
|                           | redb       | lmdb    |
|---------------------------|------------|---------|
| bulk load                 | 3210ms     | **987ms** |
| uncompacted size          | 4.10 GiB   | 2.62 GiB |
"""
REDB_NEW = """
|                           | redb  | lmdb      |
|---------------------------|-------|-----------|
| bulk load (key/s)         | 1.25M | **5.00M** |
| individual writes (txn/s) | 938   | 9.20K     |
"""
YCSB = """[OVERALL], RunTime(ms), 12345
[OVERALL], Throughput(ops/sec), 45678.9
[READ], Operations, 4750
[READ], AverageLatency(us), 512.25
[READ], MinLatency(us), 90
[READ], MaxLatency(us), 9000
[READ], 99thPercentileLatency(us), 2100
[READ], Return=OK, 4750
[UPDATE], Operations, 250
[UPDATE], AverageLatency(us), 900.0
[CLEANUP], Operations, 1
[CLEANUP], AverageLatency(us), 3.0
"""
YCSB_CPP = """2026-01-02 03:04:05 1 sec: 10 operations; [READ: Count=5 Max=9.10 Min=0.40 Avg=1.00 90=2.0 99=4.0]
2026-01-02 03:04:06 2 sec: 1000 operations; [READ: Count=950 Max=9.10 Min=0.40 Avg=1.25 90=2.0 99=4.0]
Run throughput(ops/sec): 123457
"""
YCSB_GO = """READ   - Takes(s): 9.9, Count: 950, OPS: 96.0, Avg(us): 512, Min(us): 90, Max(us): 9000, 99th(us): 2100
READ_ERROR - Takes(s): 9.9, Count: 5, OPS: 1.0, Avg(us): 5, Min(us): 9, Max(us): 9, 99th(us): 9
"""
CRUD = """Test,Total time,Mean,Max,99th,95th,75th,50th,25th,1st,Min,IQR,OPS
[C]reate,5s 678ms,0.22 ms,9.10 ms,0.61 ms,0.45 ms,0.28 ms,0.20 ms,0.15 ms,0.09 ms,0.05 ms,0.13 ms,17612.34
[S]can::limit (10),5s 678ms,0.22 ms,9.10 ms,0.61 ms,0.45 ms,0.28 ms,0.20 ms,0.15 ms,0.09 ms,0.05 ms,0.13 ms,17612.34
[D]elete,-,-,-,-,-,-,-,-,-,-,-,-
"""
CRUD_JSON = json.dumps(
    {
        "database": "Rocksdb", "metadata": {"samples": 100_000, "sync": True},
        "creates": {"mean": 220.5, "min": 50, "max": 9100, "q50": 200, "q99": 610, "samples": 100_000},
        "reads": {"mean": 20.5, "min": 5, "max": 910, "q50": 20, "q99": 61}, "scans": [], "updates": None,
    }
)  # fmt: skip
GO = """goos: linux
cpu: A Processor
BenchmarkBadger/put-8   \t  500000\t      2345 ns/op\t      9876 p99-ns\t     128 B/op
BenchmarkBadger/put-8   \t  500000\t      2355 ns/op\t      9886 p99-ns\t     128 B/op
BenchmarkHash-8   \t  500000\t      2345 ns/op
PASS
"""
DOTNET = 'Method;Job;N;Mean;Error;StdDev;Allocated\nPutLmdb;DefaultJob;10000;"1,234 us";210.30 us;98.70 us;1.58 KB\n'
DOTNET_HEAD = 'Method,Job,Mean [us],Error [us]\nLmdbGet,DefaultJob,"12,345.60",0.2\n'
IOARENA = """IOARENA (embedded storage benchmarking)
  engine       = lmdb
  durability   = sync
  operations   = 1000000
  key size     = 16
  value size   = 32
>>>> set(1000000)
[ltn_from     ltn_to   ]  ops_count  %
[  9.000us, 11.999us ]  12345  12.34%
   min latency: 1.234us/op
   avg latency: 7.890us/op
   max latency: 2.500ms/op
 throughput: 123.456Kops/s
>>>> crud(1000)
   avg latency: 7.890us/op
"""
STORAGE = """{"allocator":"mimalloc","cpu":"A Processor","kernel":"6.1","mem":1,"os":"Linux","ts":1}
{"backend":"fjall","display_name":"fjall 2.6.3","item_count":1000,"value_size":64,"fsync":true}
["time_ms","cpu","write_ops","point_read_ops","write_latency","point_read_latency"]
[1000,52.5,100,400,4000,950]
[2000,52.5,400,400,2000,950]
{"histogram":true,"type":"write","unit":"ns","mean":2400,"p50":3100,"p90":6200,"p99":21000}
"""
KEYBENCH = (
    "workload\tengine\tthreads\tsweep_param\tsweep_value\top\tcount\tp50_ns\tp99_ns\tp999_ns\tmax_ns\t"
    "hit_rate\twu_per_s\tops_per_s\n"
    "mixed\trocksdb 11.1.1\t4\tbatch\t10\tget\t900000\t460\t1900\t8200\t912000\t0.92\t210000.0\t420000.0\n"
)
SAID = ["--records", "1M", "--value-size", "100"]
NAMED = [*SAID, "--store", "mine", "--operations", "1000"]
CASES: dict[str, tuple[str, str, list[str], list[dict[str, Any]]]] = {
    # the format, a sample, what has to be said, and some of what comes in
    "RocksDB": ("db_bench", ROCKSDB, [], [
        {"store": "rocksdb", "operation": "fillrandom", "records": 1_000_000, "key_size": 16,
         "record_size": "100 B", "n": 1_000_000, "mean": 3210, "p50_ns": 2250, "p99_ns": 51300,
         "max_ns": 4_321_000, "engine_version": "8.4.2"},
        {"operation": "readrandom", "n": 125_000, "mean": 20100},
    ]),
    "LevelDB": ("db_bench", LEVELDB, ["--store", "leveldb"], [
        {"operation": "fillrandom", "durability": "sync", "n": 400, "mean": 1_234_500},
        {"operation": "readrandom", "n": 400_000, "mean": 5678},
    ]),
    "LMDB": ("db_bench", LMDB, [], [{"store": "lmdb", "operation": "readseq", "mean": 125}]),
    "benchmark.sh": ("report-tsv", REPORT, SAID, [
        {"store": "rocksdb", "operation": "readrandom", "n": 24_740_700, "mean": 38800,
         "p999_ns": 200_000, "label": "t16"},
        {"operation": "overwrite", "durability": "sync"},
    ]),
    "TidesDB": ("tidesdb", TIDESDB, [], [
        {"store": "rocksdb", "operation": "insert", "mean": 2000, "p99_ns": 31000, "records": 1_000_000,
         "label": "write_rand"},
        {"durability": "sync", "mean": 1_000_000},
    ]),
    "redb, times": ("redb", REDB_OLD, [*SAID, "--operations", "1M"], [
        {"store": "redb", "operation": "fillrandom", "mean": 3210}, {"store": "lmdb", "mean": 987},
    ]),
    "redb, rates": ("redb", REDB_NEW, [*SAID, "--operations", "1M"], [
        {"store": "redb", "operation": "fillrandom", "mean": 800}, {"store": "lmdb", "mean": 200},
        {"operation": "insert", "mean": 1_066_098}, {},
    ]),
    "YCSB": ("ycsb", YCSB, [*SAID, "--store", "rocksdb"], [
        {"operation": "get", "n": 4750, "mean": 512_250, "min_ns": 90_000, "p99_ns": 2_100_000},
        {"operation": "update", "n": 250, "mean": 900_000},
    ]),
    "YCSB in C++": ("ycsb", YCSB_CPP, [*SAID, "--store", "mine"], [
        {"operation": "get", "n": 950, "mean": 1250, "p90_ns": 2000},
    ]),
    "YCSB in Go": ("ycsb", YCSB_GO, [*SAID, "--store", "mine"], [
        {"operation": "get", "n": 950, "mean": 512_000, "p99_ns": 2_100_000},
    ]),
    "crud-bench, CSV": ("crud-bench", CRUD, NAMED, [
        {"operation": "insert", "mean": 220_000, "p50_ns": 200_000, "max_ns": 9_100_000},
    ]),
    "crud-bench, JSON": ("crud-bench", CRUD_JSON, ["--value-size", "1KiB"], [
        {"store": "rocksdb", "operation": "insert", "records": 100_000, "mean": 220_500, "durability": "sync"},
        {"operation": "get", "mean": 20_500, "n": 100_000},
    ]),
    "Go": ("go-bench", GO, SAID, [
        {"store": "badger", "operation": "insert", "n": 500_000, "mean": 2345, "p99_ns": 9876, "trial": 1},
        {"mean": 2355, "trial": 2},
    ]),
    "BenchmarkDotNet": ("benchmark-dotnet", DOTNET, [*SAID, "--operations", "10000"], [
        {"store": "lmdb", "operation": "insert", "mean": 1234},
    ]),
    "BenchmarkDotNet, units in the head": (
        "benchmark-dotnet", DOTNET_HEAD, [*SAID, "--operations", "10000"],
        [{"store": "lmdb", "operation": "get", "mean": 12_345_600}],
    ),
    "ioarena": ("ioarena", IOARENA, [], [
        {"store": "lmdb", "operation": "insert", "records": 1_000_000, "n": 1_000_000, "mean": 7890,
         "max_ns": 2_500_000, "durability": "sync"},
    ]),
    "rust-storage-bench": ("storage-bench", STORAGE, [], [
        {"store": "fjall", "engine_version": "2.6.3", "operation": "insert", "n": 400, "mean": 2400,
         "p99_ns": 21000, "records": 1000, "record_size": "64 B"},
        {"operation": "get", "n": 400, "mean": 950},
    ]),
    "keybench": ("keybench", KEYBENCH, SAID, [
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
    kind, sample, said, wanted = CASES[name]
    path = tmp_path / "results"
    path.write_text(sample)
    done = kvbench("import", path, "--out", tmp_path / "out", *said)
    assert done.returncode == 0, done.stderr
    found = rows_of(tmp_path / "out")
    assert len(found) == len(wanted)
    for row, want in zip(found, wanted, strict=True):
        for key, value in want.items():
            exact = isinstance(value, str)
            assert row[key] == (value if exact else pytest.approx(value, rel=1e-6)), key
    assert formats.detected(sample) == kind
    again = kvbench("import", path, "--out", tmp_path / "again", "--format", kind, *said)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2]])
def test_what_a_file_does_not_state_is_asked_for_in_one_line(
    name: str, kvbench: Run, tmp_path: Path
) -> None:
    _, sample, said, _ = CASES[name]
    path = tmp_path / "results"
    path.write_text(sample)
    for at in range(0, len(said), 2):
        done = kvbench("import", path, "--out", tmp_path / "out", *said[:at], *said[at + 2 :])
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert re.search(rf"line \d+: no \w+; say it with {said[at]} ", done.stderr), done.stderr
        assert not (tmp_path / "out").exists()


def test_operations_that_are_none_here_are_left_out_and_named(kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text(ROCKSDB)
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert done.stderr.endswith("left out, since they are no operations here: crc32c\n")
    path.write_text(LEVELDB)
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
        (TIDESDB + "rocksdb,1\n", "line 4: 2 values; allowed: 18"),
        (DOTNET.replace("1,234 us", "1,234 apples"), "has no unit; allowed: ns"),
        (REPORT.replace("412345", "many"), "line 3: no numbers ops_sec and uptime"),
        (STORAGE + "{", "line 7: not JSON"),
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
    path.write_text(YCSB)
    done = kvbench("import", path, "--out", tmp_path / "out", "--format", "bench")
    assert "--format: 'bench' is unknown; allowed: auto, table, db_bench" in done.stderr
    done = kvbench("import", path, "--out", tmp_path / "out", "--format", "redb")
    assert "not of the table of redb or canopydb" in done.stderr
    assert done.returncode == 2
