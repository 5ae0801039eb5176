"""Grids: what they accept, and one clear line for anything else."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kvbench.cell.factors import Cell, RecordSize, format_bytes, parse_bytes
from kvbench.common.messages import BadInput
from kvbench.experiment.decide import needed
from kvbench.experiment.estimate import seconds
from kvbench.experiment.factors import non_default
from kvbench.experiment.grid import Grid, read_grids
from kvbench.experiment.listed import read
from kvbench.stores import catalogue
from kvbench.stores.about import DISTRIBUTED, family
from kvbench.stores.catalogue import compared
from kvbench.sweep.sweep import Sweep
from support import KNOWN, ROOT

GRIDS = ROOT / "harness/grids"
STORES = ["null", "flat", "lmdb", "sqlite"]


def grid(**values: Any) -> Grid:
    return Grid.from_values(values, STORES)


def test_a_store_with_an_unsafe_name_is_refused() -> None:
    with pytest.raises(BadInput, match=r"stores: 'my store' is not allowed; allowed: up to 60"):
        Grid.from_values({"stores": ["flat", "my store"]}, ["flat", "my store"])


def test_a_level_that_is_listed_twice_counts_once() -> None:
    twice = {
        "operations": ["get", "update", "get"],
        "records": [10, 10],
        "durability": ["none"] * 2,
    }
    once = {"operations": ["get", "update"], "records": [10], "durability": ["none"]}
    assert list(grid(**twice).cells()) == list(grid(**once).cells())


@pytest.mark.parametrize(
    ("text", "low", "high", "shown"),
    [
        ("100 B", 100, 100, "100 B"),
        ("1KiB", 1024, 1024, "1 KiB"),
        ("1024 B", 1024, 1024, "1 KiB"),
        ("1-10 KiB", 1024, 10240, "1-10 KiB"),
        ("1 B-1 KiB", 1, 1024, "1 B-1 KiB"),
        ("100 KiB-1 MiB", 102400, 1 << 20, "100 KiB-1 MiB"),
        (4096, 4096, 4096, "4 KiB"),
    ],
)
def test_record_sizes_are_parsed(text: object, low: int, high: int, shown: str) -> None:
    size = RecordSize.parse(text)
    assert (size.low, size.high, str(size)) == (low, high, shown)
    assert RecordSize.parse(str(size)) == size


@pytest.mark.parametrize("count", [0, 1, 1000, 1024, 1536, 1 << 20, 50 << 30])
def test_bytes_survive_formatting(count: int) -> None:
    if count:
        assert parse_bytes(format_bytes(count)) == count
    assert parse_bytes(count) == count


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"stores": ["mongodb"]}, ["mongodb", "flat, lmdb", "of families: all, files, main"]),
        ({"stores": ["files"]}, ["stores: files", "'nested'", "flat, lmdb"]),
        ({"stores": "flat"}, ["stores", "'flat'", "list"]),
        ({"stores": []}, ["stores", "[]"]),
        ({"operations": ["scan"]}, ["scan", "insert, get, update, remove"]),
        ({"record_sizes": ["1 KB"]}, ["1 KB", "1 KiB"]),
        ({"record_sizes": ["0 B"]}, ["0 B", "1 B to 64 MiB"]),
        ({"record_sizes": ["10-1 KiB"]}, ["10-1 KiB"]),
        ({"record_sizes": [None]}, ["None"]),
        ({"record_sizes": 100}, ["record_sizes", "100", "list"]),
        ({"records": [-5]}, ["records", "-5", "from 1"]),
        ({"records": [1.5]}, ["records", "1.5"]),
        ({"records": [True]}, ["records", "True"]),
        ({"trials": 0}, ["trials", "0", "from 1"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"byte_limit": "lots"}, ["byte_limit", "lots"]),
        ({"compressibility": ["half"]}, ["half", "compressible, incompressible"]),
        ({"access": ["rust"]}, ["access", "rust", "c, python"]),
        (
            {"access": ["python"], "bindings": ["leveldb"]},
            ["bindings", "'leveldb'", "allowed: ", "`kvbench stores`"],
        ),
        ({"bindings": ["plyvel"]}, ["bindings", "access"]),
        (
            {"stores": ["flat"], "access": ["python"], "bindings": ["plyvel"]},
            ["access", "flat", "plyvel", "leveldb"],
        ),
        ({"durability": ["fsync"]}, ["fsync", "default, none, process, recoverable, sync, atomic"]),
        ({"compression": ["gzip"]}, ["gzip", "snappy, zlib, lz4"]),
        ({"memory": ["4 MB"]}, ["memory", "4 MB", "default", "4 MiB"]),
        ({"memory": "4 MiB"}, ["memory", "4 MiB", "list"]),
        ({"memory_max": ["lots"]}, ["memory_max", "lots", "none"]),
        ({"cache": ["hot"]}, ["hot", "warm, cold"]),
        ({"cache": ["cold"], "operations": ["insert"]}, ["cold", "get or update"]),
        ({"batch": [10], "operations": ["insert"]}, ["batch", "get or update"]),
        ({"batch": [10], "cache": ["cold"]}, ["batch", "cold", "allowed: 0"]),
        ({"batch": [10], "workloads": ["fillseq"]}, ["batch", "of no use", "rounds"]),
        ({"batch": [-1]}, ["batch", "-1", "0 to 100,000"]),
        ({"batch": [100_001]}, ["batch", "100001", "0 to 100,000"]),
        ({"batch": ["many"]}, ["batch", "many", "0 to 100,000"]),
        ({"key_order": ["random"]}, ["random", "uniform, sequential, zipfian"]),
        ({"options": {"bdb": {}}}, ["options", "bdb", "flat, lmdb, sqlite"]),
        ({"options": ["page_size"]}, ["options", "page_size", "table"]),
        ({"options": {"sqlite": {"memory": 1}}}, ["options", "memory", "grid itself"]),
        ({"label": "<b>"}, ["label", "<b>", "letters"]),
        ({"label": ["equal"]}, ["label", "equal"]),
        ({"threads": [0]}, ["threads", "0", "1 to 1024"]),
        *(
            ({"trials": trials}, ["trials", repr(trials), 'two of 7, 10 and 15, as "7-15"'])
            for trials in ("7", "7-11", "15-7", "7-10-15", "", "7-", "five")
        ),
        ({"thread": 4}, ["thread", "allowed: threads", "`kvbench grid-keys`"]),
    ],
)
def test_bad_values_are_named_with_what_is_allowed(
    values: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(BadInput) as caught:
        grid(**values)
    assert "\n" not in str(caught.value)
    for word in named:
        assert word in str(caught.value)


def test_each_trial_shuffles_fields_and_the_stores_of_each() -> None:
    levels = grid(records=[10, 20, 30, 40], trials=3, stores=["flat", "lmdb"])
    cells = list(levels.cells())
    assert [cell.trial for cell in cells] == [1] * 8 + [2] * 8 + [3] * 8
    blocks = [[(cell.store, cell.records) for cell in cells if cell.trial == t] for t in (1, 2, 3)]
    assert sorted(blocks[0]) == sorted(blocks[1]) == sorted(blocks[2])
    assert blocks[0] != blocks[1] != blocks[2]
    fields = list(zip(cells[::2], cells[1::2], strict=True))
    assert all(one.records == other.records for one, other in fields)
    assert {one.store for one, _ in fields} == {"flat", "lmdb"}
    assert cells == list(levels.cells())


def test_a_trial_shuffles_the_fields_of_all_parts_together(tmp_path: Path) -> None:
    parts = [grid(records=[*range(10, 18)], durability=[level], trials=2, stores=["flat", "lmdb"])
             for level in ("process", "sync")]  # fmt: skip
    cells = [cell for _, cell, _ in Sweep(parts, tmp_path / "out", False).plan()]
    assert [cell.trial for cell in cells] == [1] * 32 + [2] * 32
    for trial in (cells[:32], cells[32:]):
        assert all(one.records == other.records and one.durability == other.durability
                   for one, other in zip(trial[::2], trial[1::2], strict=True))  # fmt: skip
        order = "".join(cell.durability[0] for cell in trial[::2])
        assert order not in ("p" * 8 + "s" * 8, "s" * 8 + "p" * 8)


def test_trials_until_decided_are_looked_at_three_times_at_most() -> None:
    levels = grid(trials="7-15")
    assert levels.looks() == [7, 10, 15]
    assert max(cell.trial for cell in levels.cells()) == 15
    assert Grid.from_values(levels.values(), STORES) == levels
    assert grid(trials="10-15").looks() == [10, 15]
    assert grid(trials=7).looks() == [7]


def done(levels: Grid, trials: int, *decided: int) -> dict[Cell, dict[str, float]]:
    """What the cells of so many trials measured; stores differ in the fields of the decided record
    counts alone, and one store failed."""
    random = np.random.default_rng(1)
    return {
        cell: {
            "get": float(random.normal(100, 1)),
            "update": (1 + (cell.records in decided) * 9 * STORES.index(cell.store))
            * float(random.normal(100, 20)),
        }
        if cell.store != "lmdb"
        else {}
        for cell in levels.cells()
        if cell.trial <= trials
    }


@pytest.mark.parametrize(
    ("trials", "decided", "wanted"),
    [
        (0, [], (7, 7)),
        (6, [], (7, 7)),
        (7, [], (10, 10)),
        (7, [10], (7, 10)),
        (7, [10, 20], (7, 7)),
        (9, [10], (7, 10)),
        (10, [10], (7, 15)),
        (15, [10], (7, 15)),
    ],
)
def test_fields_that_are_not_decided_get_further_trials_of_all_stores(
    trials: int, decided: list[int], wanted: tuple[int, int]
) -> None:
    """A field is decided when all its operations are; what is not complete is not looked at."""
    levels = grid(stores=STORES, trials="7-15", records=[10, 20], operations=["get", "update"])
    found = needed(levels, done(levels, trials, *decided))
    for count, most in zip((10, 20), wanted, strict=True):
        cells = [cell for cell in found if cell.records == count]
        assert sorted((cell.trial, cell.store) for cell in cells) == [
            (trial, store) for trial in range(1, most + 1) for store in sorted(STORES)
        ]


def test_a_fixed_number_of_trials_is_needed_whatever_they_show() -> None:
    levels = grid(trials=3)
    assert needed(levels, {}) == needed(levels, done(levels, 3)) == list(levels.cells())


def test_access_chooses_shims_and_bindings() -> None:
    levels = grid(
        stores=["flat", "lmdb", "sqlite"],
        access=["c", "python"],
        bindings=["apsw", "sqlite3", "lmdb"],
    )
    expected = {"flat", "lmdb", "sqlite", "lmdb/lmdb", "sqlite/sqlite3", "sqlite/apsw"}
    assert {cell.full_name for cell in levels.cells()} == expected
    assert {cell.access for cell in levels.cells() if cell.binding} == {"python"}
    plain = grid(stores=["flat", "lmdb", "sqlite"])
    assert {cell.full_name for cell in plain.cells()} == {"flat", "lmdb", "sqlite"}
    again = [Cell.from_factors(cell.factors()) for cell in levels.cells()]
    assert again == list(levels.cells())


def test_levels_become_the_settings_of_a_store() -> None:
    levels = grid(
        stores=["sqlite", "flat"],
        durability=["default", "sync"],
        memory=["default", "4096 KiB"],
        compression=["none"],
        options={"sqlite": {"page_size": "1 KiB"}},
        trials=1,
    )
    found = {(cell.store, cell.durability, cell.memory): cell.settings() for cell in levels.cells()}
    assert found["sqlite", "sync", "4 MiB"] == {
        "durability": "sync",
        "memory": str(4 << 20),
        "compression": "none",
        "page_size": "1024",
    }
    assert found["flat", "default", "default"] == {"compression": "none"}
    again = Grid.from_values(levels.values(), STORES)
    assert (again, list(again.cells())) == (levels, list(levels.cells()))
    assert [Cell.from_factors(cell.factors()) for cell in levels.cells()] == list(levels.cells())


def test_a_default_cell_has_no_settings() -> None:
    for cell in grid().cells():
        assert (cell.settings(), non_default(cell)) == ({}, [])


def test_a_cell_over_the_byte_limit_is_skipped_with_the_reason() -> None:
    levels = grid(record_sizes=["1 KiB"], records=[10, 1000], byte_limit="100 KiB", trials=1)
    reasons = {cell.records: levels.skip_reason(cell) for cell in levels.cells()}
    assert reasons[10] == ""
    assert "102,400" in reasons[1000]


def test_parts_that_differ_only_in_their_label_are_measured_separately() -> None:
    first, second = (grid(label=label, trials=1) for label in ("as shipped", "equal settings"))
    assert not {*first.cells()} & {*second.cells()}
    (cell,) = (cell for cell in second.cells() if cell.store == "lmdb")
    assert (non_default(cell), cell.settings()) == (["equal settings"], {})
    assert Grid.from_values(second.values(), STORES) == second


def test_factors_survive_a_result_file() -> None:
    for cell in grid(record_sizes=["1-10 KiB"]).cells():
        assert Cell.from_factors(cell.factors()) == cell


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_grids_are_valid(path: Path) -> None:
    scales = tomllib.loads(path.read_text()).get("scale", {"": None})
    for scale in scales:
        for levels in read_grids(path, catalogue.names(), scale=scale or None):
            assert Grid.from_values(levels.values(), catalogue.names()) == levels


def test_a_family_stands_for_its_members() -> None:
    known = catalogue.names()
    found = Grid.from_values({"stores": ["bdb-hash", "files", "flat"]}, known)
    assert found.stores == ("bdb-hash", "flat", "nested")
    assert Grid.from_values({"stores": ["main"]}, known).stores == tuple(family("main"))


@pytest.mark.check
def test_a_sitting_of_the_reference_run_can_plan_every_experiment() -> None:
    command = [sys.executable, "harness/reference.py", "--dry-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    planned = re.findall(r"^([a-z0-9-]+):$", done.stdout, re.MULTILINE)
    assert sorted(planned) == sorted(one.name for one in read(ROOT).served())
    assert len(re.findall(r"cells to measure|^left", done.stdout, re.MULTILINE)) >= len(planned)


LIKE = """
stores = ["lmdb"]
record_sizes = ["1 KiB"]
records = [1000]
[scale.small]
factor = 0.1
trials = 1
[scale.again]
like = "small"
trials = 4
[[parts]]
label = "one"
small.memory = ["4 MiB"]
[[parts]]
label = "two"
small.memory = ["4 MiB"]
again.memory = ["8 MiB"]
"""


def test_a_scale_that_is_like_another_has_its_keys_but_for_its_own(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(LIKE)
    found = [
        (levels.label, levels.trials, *levels.levels["records"], *levels.levels["memory"])
        for levels in read_grids(path, STORES, scale="again")
    ]
    assert found == [("one", (4, 4), 100, "4 MiB"), ("two", (4, 4), 100, "8 MiB")]


@pytest.mark.parametrize("like", ["again", "other"])
def test_a_scale_can_only_be_like_another_of_the_file(like: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(LIKE.replace('like = "small"', f'like = "{like}"'))
    with pytest.raises(BadInput, match=f"like: '{like}' is not allowed; allowed: small"):
        read_grids(path, STORES, scale="again")


def test_the_main_grid_has_every_store_in_each_of_its_fields() -> None:
    """With the trials of a sitting; no folder holds a million files."""
    grids = read_grids(GRIDS / "reference.toml", catalogue.names(), scale="sitting")
    trials: dict[tuple[object, ...], dict[str, int]] = {}
    for levels in grids:
        for cell in levels.cells():
            field = trials.setdefault((str(cell.record_size), cell.records, cell.durability), {})
            field[cell.store] = cell.trial
    assert len(trials) == 3 * (4 * 2 + 1 + 1)
    for (size, records, _), found in trials.items():
        files = {"flat", "nested"} & set(found)
        assert len(files) == (0 if records == 1_000_000 else 2), (size, records)
        assert len(set(found) - files) == 11
        assert set(found.values()) == {2}


def test_an_engine_is_measured_in_one_build_unless_both_are_named() -> None:
    known = [*STORES, "lmdb-debian"]
    usual = Grid.from_values({}, known)
    assert {cell.store for cell in usual.cells()} == {"flat", "lmdb", "sqlite"}
    both = Grid.from_values({"stores": ["lmdb", "lmdb-debian"]}, known)
    assert {cell.store for cell in both.cells()} == {"lmdb", "lmdb-debian"}


def estimate(label: str, records: int = 1_000) -> float:
    store, _, binding = label.partition("/")
    size, operations = RecordSize(100, 100), ("insert", "get")
    cell = Cell(store, binding, size, records, "incompressible", operations, trial=1, seed=1)
    return seconds(cell, fsync_ms=1)


@pytest.mark.parametrize("label", KNOWN)
def test_every_store_has_an_estimate_that_grows_with_the_records(label: str) -> None:
    few, many = (estimate(label, records) for records in (1_000, 1_000_000))
    assert 0.5 < few < 60
    assert few < many < 3600


@pytest.mark.parametrize("label", [name for name in KNOWN if compared(name) and "/" not in name])
def test_an_estimate_is_the_store_s_own(label: str) -> None:
    """Not that of an unknown one. The second build of an engine has the estimate of the first."""
    unknown = estimate("unheard-of", 1_000_000)
    if label != "tokudb":  # never measured here: no registry has it
        assert estimate(label, 1_000_000) != unknown
    assert estimate(label + DISTRIBUTED) == estimate(label)
    assert estimate(f"{label}/unheard-of") > estimate(label)
