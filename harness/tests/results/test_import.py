"""`kvbench import` takes what other programs measured as it is, and refuses the rest by line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from kvbench.common.messages import BadInput
from kvbench.results import importer
from kvbench.results.tables import read_tables, table_of, write_tables
from support import ROOT, Run

from study.common import fields, levels
from study.common.results import Results

LEAST = {"store": "pebble", "operation": "get", "record_size": "1 KiB", "records": 1000, "n": 50}
PLAIN = LEAST | {"mean_ns": 1200.5}
Import = Callable[..., Path]


def text(*rows: dict[str, Any]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame(rows, columns=names, dtype=object).to_csv(index=False)


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Imports rows, and returns the folder."""

    def run(*rows: dict[str, Any]) -> Path:
        (tmp_path / "table.csv").write_text(text(*rows))
        importer.import_table(tmp_path / "table.csv", tmp_path / "out")
        return tmp_path / "out"

    return run


def test_the_command_writes_tables_that_are_read_again(kvbench: Run, tmp_path: Path) -> None:
    """Other programs' stores and keys of any size are taken; sums and live bytes follow."""
    full = {"compressibility": "compressible", "durability": "sync", "key_size": 24, "trial": 2}
    full |= {"disk_bytes": 4096, "min_ns": 900, "p50_ns": 1100, "max_ns": 9000, "cpu": "A, B"}
    path = tmp_path / "table.csv"
    path.write_text("\ufeff" + text(PLAIN | full, PLAIN | full | {"operation": "update"}))
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "1 cells, 2 operations, 1 machines\n")
    tables = {name: table.to_pylist() for name, table in read_tables(tmp_path / "out").items()}
    (cell,), (get, update), (machine,) = tables["cells"], tables["operations"], tables["machines"]
    assert cell["store"] == "pebble"
    assert (cell["durability"], cell["trial"], cell["disk_bytes"]) == ("sync", 2, 4096)
    assert cell["live_bytes"] == 1000 * (24 + 1024)
    assert (get["operation"], update["operation"]) == ("get", "update")
    assert (get["sum_ns"], get["p50_ns"], get["histogram_bin"]) == (60025, 1100, [])
    assert machine["cpu"] == "A, B"


def test_what_is_not_stated_gets_no_default(imported: Import) -> None:
    (cell,) = read_tables(imported(LEAST | {"p50_ns": 5}))["cells"].to_pylist()
    for column in ("durability", "compressibility", "cache", "memory", "trial", "access", "label"):
        assert cell[column] is None, column
    assert cell["live_bytes"] is None


def test_the_same_table_gives_the_same_bytes(imported: Import) -> None:
    first = imported(PLAIN)
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    for path in first.iterdir():
        path.unlink()
    assert {path.name: path.read_bytes() for path in imported(PLAIN).iterdir()} == before


TIMES = {"min_ns": 10, "p50_ns": 20, "p99_ns": 30, "max_ns": 40, "mean_ns": 25}
# The changed fields, the line, and what is said of it.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"n": 0}, "n: '0' is not allowed; allowed: a whole number from 1 to 2^63 - 1"),
    ({"n": "1e3"}, "n: '1e3' is not allowed"),
    ({"n": 2**63}, "n: '9223372036854775808' is not allowed"),
    ({"n": ""}, "n: '' is not allowed"),
    ({"store": ""}, "store: '' is not allowed; allowed: up to 60 letters, digits and _.+-"),
    ({"store": "../x"}, "store: '../x' is not allowed"),
    (
        {"operation": "vacuum"},
        "operation: 'vacuum' is not allowed; allowed: load, insert, get, upd",
    ),
    ({"compressibility": "text"}, "compressibility: 'text' is not allowed; allowed: compressible,"),
    ({"durability": "full"}, "durability: 'full' is not allowed; allowed: default, none, process"),
    ({"access": "java"}, "access: 'java' is not allowed; allowed: c, python"),
    ({"record_size": "big"}, "record_size: 'big' is not allowed; allowed: 1 B to 64 MiB, as"),
    ({"record_size": "0 B"}, "record_size: '0 B' is not allowed"),
    ({"records": "0"}, "records: '0' is not allowed"),
    ({"records": "-1"}, "records: '-1' is not allowed"),
    ({"mean_ns": ""}, "mean_ns: '' is not allowed; allowed: empty where one of sum_ns, p50_ns"),
    ({"mean_ns": "nan"}, "mean_ns: 'nan' is not allowed"),
    ({"mean_ns": "1e999"}, "mean_ns: '1e999' is not allowed"),
    ({"mean_ns": 0}, "mean_ns: 0.0 is not allowed; allowed: more than 0"),
    ({"mean_ns": 1e18}, "mean_ns: 1e+18 is not allowed"),
    ({"sum_ns": 7}, "mean_ns: 1200.5 is not allowed; allowed: sum_ns / n, 0.14, within 1%"),
    (TIMES | {"min_ns": 50}, "p50_ns: 20.0 is not allowed; allowed: 50 or more, which is min_ns"),
    ({"min_ns": 50, "max_ns": 40}, "max_ns: 40 is not allowed; allowed: 50 or more, which is min"),
    (TIMES | {"p99_ns": 15}, "p99_ns: 15.0 is not allowed; allowed: 20.0 or more, which is p50_ns"),
    (TIMES | {"mean_ns": 9}, "mean_ns: 9.0 is not allowed; allowed: 10 or more, which is min_ns"),
    (TIMES | {"mean_ns": 41}, "max_ns: 40 is not allowed; allowed: 41.0 or more, which is mean_ns"),
    ({"cpu": "one\ntwo"}, "cpu: 'one\\ntwo' is not allowed; allowed: up to 1,000 characters on"),
    ({"mean_ns": "1200,5"}, "mean_ns: '1200,5' is not allowed; allowed: a decimal point, not"),
    ({"mean_ns": "-1"}, "mean_ns: '-1' is not allowed"),
    ({"mean_ns": "inf"}, "mean_ns: 'inf' is not allowed"),
    ({"mean_ns": "1e400"}, "mean_ns: '1e400' is not allowed"),
    ({"mean_ns": "", "p50_ns": 0}, "p50_ns: '0' is not allowed; allowed: more than 0, or empty"),
    ({"mean_ns": "", "p99_ns": "0.0"}, "p99_ns: '0.0' is not allowed; allowed: more than 0, or"),
    ({"max_ns": 0}, "max_ns: '0' is not allowed; allowed: more than 0, or empty"),
    ({"live_bytes": 0}, "live_bytes: '0' is not allowed; allowed: a whole number from 1"),
    ({"trial": 2**63 - 1}, "trial: '9223372036854775807' is not allowed; allowed: a whole number"),
    (
        {"trial": 20240101},
        "trial: '20240101' is not allowed; allowed: a whole number from 1 to 10,",
    ),
    ({"trial": 0}, "trial: '0' is not allowed"),
    (
        {"guarantee": "eternal"},
        "guarantee: 'eternal' is not allowed; allowed: none, process, recoverable, sync, atomic",
    ),
    ({"records": 2**62, "key_size": 9}, "records: 4611686018427387904 is not allowed; allowed: so"),
    ({"store": "a b"}, "store: 'a b' is not allowed"),
    ({"disk_bytes": "4 KiB"}, "disk_bytes: '4 KiB' is not allowed; allowed: a whole number from 0"),
]


@pytest.mark.parametrize(("changed", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_bad_row_is_refused_by_line_column_and_value(
    changed: dict[str, Any], said: str, imported: Import, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as refused:
        imported(PLAIN, PLAIN | {"operation": "insert"} | changed)
    assert str(refused.value).startswith(f"{tmp_path}/table.csv: line 3: {said}")
    assert len(str(refused.value).replace(str(tmp_path), "")) <= 200
    assert not (tmp_path / "out").exists()


HEAD = text(PLAIN).encode().splitlines()[0] + b"\n"
LINE = text(PLAIN).encode().splitlines()[1] + b"\n"
FILES = [
    (b"", "empty; allowed: a line with the names of columns, and rows"),
    (b"\n\n", "empty"),
    (HEAD, "no rows; allowed: one for each operation that was measured"),
    (HEAD + LINE + b"\n" + LINE, "line 4: operation: 'get' of this cell is there twice"),
    (HEAD + LINE + LINE.replace(b"pebble", b"caf\xe9"), "line 3: not UTF-8; allowed: text in UTF"),
    (HEAD + LINE + LINE.replace(b"pebble", b"a\0b"), "line 3: a NUL byte; allowed: text in UTF-8"),
    (HEAD + b'"pebble\n\n", get\n' + LINE, "line 2: 2 values; allowed: 6, one for each column"),
    (HEAD + LINE + b'"pebble', "line 3: unexpected end of data; allowed: CSV"),
    (HEAD + b"a" * 200_000, "line 2: field larger than field limit"),
    (HEAD.replace(b"n,", b"n,colour,"), "line 1: column 'colour' is unknown; allowed: "),
    (HEAD.replace(b"n,", b"n,n,"), "line 1: column 'n' is there twice; allowed: once"),
    (
        HEAD.replace(b"records,", b"") + LINE.replace(b"1000,", b""),
        "line 2: no records; say it with --records N",
    ),
    (
        HEAD.replace(b"operation,", b"") + LINE.replace(b"get,", b""),
        "line 1: no column operation; needed: ",
    ),
    (b"sep=;\n" + HEAD, "line 1: 'sep=' is a line for a spreadsheet; allowed: without it"),
    (b"sep=,\n" + HEAD, "line 1: 'sep=' is a line for a spreadsheet; allowed: without it"),
    (HEAD + LINE.replace(b",", b";"), "line 2: 1 values; allowed: 6, one for each column"),
    (HEAD.replace(b"\n", b",\n"), "line 1: a column without a name; allowed: a name for each"),
    (HEAD + LINE.replace(b"\n", b",\n"), "line 2: 7 values; allowed: 6, one for each column"),
    ((HEAD + LINE).decode().encode("utf-16"), "line 1: UTF-16, as some spreadsheets save text;"),
    (HEAD.replace(b",mean_ns", b""), "line 1: no column of times; needed: one of mean_ns, sum_ns"),
    (HEAD.replace(b"mean_ns", b"mean_ps"), "line 1: column 'mean_ps' is unknown; allowed: mean_ns"),
    (HEAD.replace(b"mean_ns", b"x" * 5000), "line 1: column 'xxx"),
]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + HEAD + LINE,
        (HEAD + LINE).replace(b"\n", b"\r\n"),
        HEAD.replace(b",", b" , ") + LINE.replace(b",", b" , "),
        b'"' + HEAD[:-1].replace(b",", b'","') + b'"\n' + LINE,
        HEAD + LINE[:-1],
        (HEAD + LINE).replace(b",", b";"),
        (HEAD + LINE).replace(b",", b"\t"),
        (HEAD + LINE).replace(b",", b"|"),
    ],
    ids=[
        "byte order mark",
        "CRLF",
        "blanks",
        "quotes",
        "no last newline",
        "semicolons",
        "tabs",
        "bars",
    ],
)
def test_the_ways_in_which_programs_write_csv_are_taken(
    data: bytes, kvbench: Run, tmp_path: Path
) -> None:
    (tmp_path / "table.csv").write_bytes(data)
    done = kvbench("import", tmp_path / "table.csv", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "1 cells, 1 operations, 1 machines\n")


def test_a_trial_without_end_is_refused_in_tables_too(imported: Import, kvbench: Run) -> None:
    """Every trial up to the last counts as planned: 2^63 of them fill any memory."""
    out = imported(PLAIN | {"trial": 1}, PLAIN | {"trial": 2, "store": "other"})
    cells = pq.read_table(out / "cells.parquet").to_pylist()
    cells[1]["trial"] = 2**63 - 1
    tables = dict(read_tables(out))
    write_tables(out, tables | {"cells": table_of(out, "cells", cells)})
    command = ("advise", "--record-size", "1KiB", "--records", "1000", "--mix", "get=1")
    for done in (kvbench(*command, "--data", out), kvbench("compare", out, out)):
        assert done.returncode == 2
        assert "trial" in done.stderr and "allowed: a whole number from 1 to 10,000" in done.stderr


@pytest.mark.parametrize(("data", "said"), FILES, ids=lambda value: str(value)[-30:])
def test_a_bad_file_is_one_line(data: bytes, said: str, kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    done = kvbench("import", path, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.startswith(f"kvbench: {path}: {said}")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr.replace(str(path), "")) <= 200
    assert not (tmp_path / "out").exists()


def test_a_huge_file_and_what_is_no_file_are_not_read(kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with open(path, "wb") as file:
        file.truncate(importer.MOST_BYTES + 1)
    for given, said in (
        (path, "8,388,609 B; allowed: 8,388,608 B at most"),
        (tmp_path, "not a file; allowed: a CSV file"),
        (tmp_path / "none.csv", "not a file; allowed: a CSV file"),
    ):
        done = kvbench("import", given, "--out", tmp_path / "out")
        assert (done.returncode, done.stderr) == (2, f"kvbench: {given}: {said}\n")


def test_a_folder_with_other_files_is_left_alone(imported: Import) -> None:
    imported(PLAIN)
    with pytest.raises(BadInput, match="out: holds other files; allowed: a new or empty folder"):
        imported(PLAIN | {"mean_ns": 2})


def test_the_rows_of_a_cell_agree_on_it(imported: Import) -> None:
    with pytest.raises(BadInput, match="line 3: disk_bytes: 200 is not allowed; allowed: 100, as"):
        imported(PLAIN | {"disk_bytes": 100}, PLAIN | {"operation": "insert", "disk_bytes": 200})


@pytest.mark.parametrize("column", ["durability", "trial", "access"])
def test_what_a_sweep_writes_lacks_nothing(column: str, tmp_path: Path) -> None:
    """Only cells without a checksum, which are imported, may lack a factor."""
    tables = dict(read_tables(ROOT / "data" / "cold-cache"))
    rows = tables["cells"].to_pylist()
    rows[0][column] = None
    write_tables(tmp_path, tables | {"cells": table_of(tmp_path, "cells", rows)})
    with pytest.raises(BadInput, match=f"cells: {column}: a value is missing"):
        read_tables(tmp_path)
    assert pq.read_metadata(tmp_path / "cells.parquet").num_rows == len(rows)


MACHINE = "cpu not stated, cores not stated, memory not stated (largest data not stated)"


def test_figures_say_what_is_not_stated(imported: Import) -> None:
    data = Results(str(imported(PLAIN, PLAIN | {"store": "badger", "mean_ns": 900})))
    said = data.conditions()
    for words in (
        "trials not stated, at least 50 operations of each kind a trial",
        "durability not stated; memory budget not stated; compression not stated",
        "page cache not stated",
        "floor of the program that measured not stated",
        MACHINE,
        "file system not stated, read ahead not stated, fsync not stated",
        "kernel not stated, reclaim not stated",
    ):
        assert words in said
    for wrong in ("inf", "nan", "None", "as shipped"):
        assert wrong not in said
    found = fields.best_of(data.operations, "mean_ns", ["record_size", "compressibility"])
    assert found[["store", "compressibility"]].to_numpy().tolist() == [["badger", "not stated"]]
    assert found["value"].tolist() == [pytest.approx(900)]


def test_figures_say_the_least_and_the_most_trials(imported: Import) -> None:
    """A field that is decided early has fewer."""
    early = [PLAIN | {"trial": 1}, PLAIN | {"store": "badger", "trial": 1}]
    longer = [row | {"records": 10, "trial": trial} for row in early for trial in (1, 2, 3)]
    assert ": 1 to 3 trials a cell," in Results(str(imported(*early, *longer))).conditions()


def test_stated_and_unstated_durability_are_not_compared(imported: Import) -> None:
    out = imported(PLAIN, PLAIN | {"store": "badger", "durability": "sync"})
    with pytest.raises(BadInput, match="several levels of durability: sync, not stated"):
        Results(str(out))
    data = Results(str(out), varying=["durability"])
    assert data.level("durability") == ["sync", "not stated"]
    times = levels.times(data.operations, data.operations.record_size, "durability")
    assert sorted(times.level) == ["not stated", "sync"]


def test_without_means_the_figures_are_of_medians(imported: Import) -> None:
    """Of a store without a mean beside others with one nothing is shown, and the foot says so."""
    alone = Results(str(imported(LEAST | {"p50_ns": 700})))
    assert alone.average == "median"
    assert alone.operations.mean_ns.tolist() == [700]
    assert "times are medians where figures have means" in alone.conditions()


def test_a_store_without_a_mean_beside_others_is_blank(imported: Import) -> None:
    rows = [
        PLAIN,
        PLAIN | {"store": "other", "mean_ns": 1300.0},
        LEAST | {"operation": "insert", "p50_ns": 700},
    ]
    data = Results(str(imported(*rows)))
    assert ", but none of 1 for which no mean time is stated" in data.conditions()
    found = fields.best_of(data.operations, "mean_ns", ["operation"]).set_index("operation")
    assert found.store.to_dict() == {"get": "pebble", "insert": ""}
    assert found.reason["insert"] == "not stated"
    alone = fields.best_of(fields.where(data.operations, store="pebble"), "mean_ns", ["operation"])
    assert alone.set_index("operation").reason["get"] == "no store to compare"
    assert fields.quantiles(data.operations, 0.5).isna().all()
