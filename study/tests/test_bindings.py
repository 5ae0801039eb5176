"""The tables of packages for Python never mix what guarantees different things."""

from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.factors import OPERATIONS
from kvbench.results.importer import import_table

from study.common.results import Results
from study.experiments import bindings

US = {  # by package: the level set, what it guarantees, and the mean time in us
    "rocksdb/rocksdict": {("default", "process"): 10, ("process",) * 2: 11, ("sync",) * 2: 400},
    "leveldb/plyvel": {("default", "process"): 20, ("process",) * 2: 22, ("sync",) * 2: 300},
    "lmdb/lmdb": {("default", "sync"): 500, ("sync",) * 2: 500},
}
TRIALS = 7


@pytest.fixture
def measured(tmp_path: Path) -> Results:
    rows = [
        {
            "store": package.partition("/")[0],
            "binding": package.partition("/")[2],
            "access": "python",
            "operation": operation,
            "record_size": size,
            "records": 1000,
            "n": 1000,
            "trial": trial,
            "durability": level,
            "guarantee": guarantee,
            "compressibility": "incompressible",
            "mean_ns": 1000 * us * (1 + trial / 1000),
        }
        for package, levels in US.items()
        for (level, guarantee), us in levels.items()
        for size in ("100 B", "1 KiB", "10 KiB")
        for operation in OPERATIONS
        for trial in range(1, TRIALS + 1)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    import_table(tmp_path / "table.csv", tmp_path / "out")
    return Results(str(tmp_path / "out"), access=("python",), varying=["durability"])


def test_packages_are_ranked_within_the_level_that_they_were_set_to(measured: Results) -> None:
    table = bindings.at_levels(measured)
    assert list(zip(table.package, table.level, strict=True)) == [
        ("rocksdb/rocksdict", "process"),
        ("leveldb/plyvel", "process"),
        ("leveldb/plyvel", "sync"),
        ("rocksdb/rocksdict", "sync"),
        ("lmdb/lmdb", "sync"),
    ]
    assert [text.split()[0] for text in table.regret] == ["1", "2", "1", "1.33", "1.67"]
    mean, low, to, high = table["insert, µs"][2].replace("(", "").replace(")", "").split()
    assert to == "to" and float(low) <= 301.2 <= float(high) and float(mean) == 301


def test_packages_as_shipped_are_told_apart_from_those_that_were_set(measured: Results) -> None:
    table = bindings.packages(measured).set_index("package")
    assert dict(table.guarantee) == {
        "lmdb/lmdb": "sync", "rocksdb/rocksdict": "process", "leveldb/plyvel": "process"
    }  # fmt: skip
    assert table.regret["lmdb/lmdb"] == "alone"
    assert table["get"]["rocksdb/rocksdict"] == "10 µs"


def test_without_levels_there_is_no_table(measured: Results) -> None:
    for rows in ("operations", "cells"):
        table = getattr(measured, rows)
        setattr(measured, rows, table[table.durability == "default"])
    assert bindings.at_levels(measured).empty
