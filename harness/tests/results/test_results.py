"""What identifies a result, which of several results counts, and what `collect` never loses."""

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, one_line
from kvbench.experiment.grid import Grid
from kvbench.results import tables
from kvbench.results.folder import Folder, answer_of
from kvbench.stores import catalogue
from kvbench.sweep.sweep import Sweep
from support import ROOT, Run

DATA = ROOT / "data"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with its tables. The byte limit skips all cells, because these tests need no
    measurements."""
    out = tmp_path_factory.mktemp("swept") / "out"
    values = {"stores": ["flat"], "records": [100], "trials": 3, "byte_limit": 1}
    Sweep([Grid.from_values(values, catalogue.names())], out).run()
    Folder(out).collect()
    return out


@pytest.fixture
def collected(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "out"))


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["cells", "grids", "machines"])
@pytest.mark.parametrize("link", [True, False])
def test_a_folder_that_is_gone_costs_no_table(
    kvbench: Run, collected: Path, kind: str, link: bool
) -> None:
    shutil.rmtree(collected / kind)
    if link:  # not even root can read it
        (collected / kind).symlink_to(kind)
    before = files(collected)
    done = kvbench("status" if kind == "grids" else "collect", collected)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{collected / kind}: can't be read" in done.stderr
    assert files(collected) == before


def test_tables_are_never_replaced_by_empty_ones(collected: Path) -> None:
    for path in (collected / "cells").iterdir():
        path.unlink()
    before = files(collected)
    with pytest.raises(BadInput, match=r"cells: no results, but cells.parquet"):
        Folder(collected).collect()
    assert files(collected) == before
    (collected / "cells.parquet").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"cells.parquet has some, or can't be read"):
        Folder(collected).collect()
    (collected / "cells.parquet").unlink()
    assert Folder(collected).collect()["cells"].num_rows == 0


def test_a_sweep_goes_on_from_collected_tables(kvbench: Run, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'stores = ["lmdb", "null"]\nrecords = [100]\noperations = ["get", "update"]\ntrials = 2\n'
        'durability = ["default", "process"]\nleast_ms = 0\n'
    )
    first, second = tmp_path / "first", tmp_path / "second"
    assert kvbench("sweep", grid, "--out", first).returncode == 0
    assert kvbench("collect", first).returncode == 0
    before = tables.read_tables(first)

    assert kvbench("restore", first, "--out", second).stdout == "8 cells\n"
    assert kvbench("sweep", grid, "--out", second, "--dry-run").stdout.endswith(
        "left: 0 cells to measure, 0 not, 0 bytes to load, about 0.0 minutes\n"
    )
    assert kvbench("sweep", grid, "--out", second).returncode == 0
    assert kvbench("collect", second).returncode == 0
    after = tables.read_tables(second)
    assert before.keys() == after.keys()
    for name in ("cells", "operations"):
        assert before[name].equals(after[name])
    refused = kvbench("restore", first, "--out", second)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "allowed: a new or empty folder" in refused.stderr


def test_restoring_names_several_seeds_and_labels(kvbench: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for seed in (1, 2):
        grid = tmp_path / f"{seed}.toml"
        grid.write_text(
            f'stores = ["null"]\nrecords = [100]\noperations = ["get"]\ntrials = 1\nleast_ms = 0\n'
            f'seed = {seed}\n[[parts]]\nlabel = "one"\n[[parts]]\nlabel = "two"\n'
        )
        assert kvbench("sweep", grid, "--out", first).returncode == 0
    assert kvbench("collect", first).returncode == 0
    cells, seeds, labels = kvbench("restore", first, "--out", second).stdout.splitlines()
    assert cells == "4 cells"
    assert seeds.startswith("several levels of seed: 1, 2; ")
    assert labels.startswith("several levels of label: one, two; ")


def test_imported_tables_are_not_restored(kvbench: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("store,record_size,records,operation,n,mean_ns\nflat,1 KiB,1000,get,1000,5\n")
    imported = kvbench("import", rows, "--out", tmp_path / "imported")
    assert imported.returncode == 0, imported.stderr
    refused = kvbench("restore", tmp_path / "imported", "--out", tmp_path / "out")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the tables do not say which operations to time" in refused.stderr
    assert not (tmp_path / "out").exists()


def change(path: Path, copy: str = "", **keys: object) -> None:
    """Changes keys of a result or of its cell, in a copy if a name is given."""
    result = json.loads(path.read_bytes())
    for key, value in keys.items():
        (result["cell"] if key in result["cell"] else result)[key] = value
    (path.with_name(copy) if copy else path).write_text(json.dumps(result))


BAD_TABLES: dict[str, Callable[[dict[str, pd.DataFrame]], None]] = {
    "no packages": lambda frames: frames["machines"].__setitem__("packages", None),
    "deep packages": lambda frames: frames["machines"].__setitem__(
        "packages", "[" * 40_000 + "]" * 40_000
    ),
    "packages that are a list": lambda frames: frames["machines"].__setitem__("packages", "[]"),
    "engines that are no JSON": lambda frames: frames["machines"].__setitem__("engines", "{"),
    "a cell with a long name": lambda frames: rename(frames, "cell", "c" * 300),
    "a cell without a name": lambda frames: rename(frames, "cell", ""),
    "a cell that is hidden": lambda frames: rename(frames, "cell", ".hidden"),
    "a machine with a long name": lambda frames: rename(frames, "machine", "m" * 300),
    "a machine called ..": lambda frames: rename(frames, "machine", ".."),
    "no timed operation": lambda frames: frames["cells"].__setitem__("timed", ""),
    "an unknown timed operation": lambda frames: frames["cells"].__setitem__("timed", "get dance"),
}


def rename(frames: dict[str, pd.DataFrame], column: str, name: str) -> None:
    """Renames a cell, or the machine, in all tables."""
    old = frames["cells"][column].iloc[0]
    for frame in frames.values():
        if column in frame:
            frame[column] = frame[column].replace(old, name)


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_no_folder_can_be_made_of_leave_none(
    name: str, collected: Path, kvbench: Run, tmp_path: Path
) -> None:
    frames = {key: table.to_pandas() for key, table in tables.read_tables(collected).items()}
    BAD_TABLES[name](frames)
    source, out = tmp_path / "source", tmp_path / "restored"
    source.mkdir()
    schema = tables.SCHEMAS
    tables.write_tables(source, {k: pa.Table.from_pandas(f, schema[k]) for k, f in frames.items()})
    done = kvbench("restore", source, "--out", out)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kvbench: {source}")
    assert len(line) < 350
    assert not out.exists()


@pytest.mark.parametrize("what", ["pipe", "folder", "binary", "deep", "dangling", "empty"])
@pytest.mark.parametrize("kind", ["cells", "machines", "grids"])
def test_a_file_that_is_no_result_is_named_with_the_way_on(
    kind: str, what: str, collected: Path, kvbench: Run
) -> None:
    path = collected / kind / "other.json"
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "binary": lambda: path.write_bytes(bytes(range(256))),
        "deep": lambda: path.write_text("[" * 90_000 + "]" * 90_000),
        "dangling": lambda: path.symlink_to("nowhere"),
        "empty": path.touch,
    }
    make[what]()
    done = kvbench("status" if kind == "grids" else "collect", collected)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    said = "not a file of kvbench's results; to go on without it, move this file away"
    assert done.stderr == f"kvbench: {path}: {said}\n"
    path.rename(collected.parent / "away")
    assert kvbench("collect", collected).returncode == 0


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("guarantee", "<b>forever</b>", "guarantee: '<b>forever</b>' is not allowed"),
        ("engine_version", "v" * 100_001, "engine_version"),
        ("floor_ns", -1, "floor_ns: -1.0 is not allowed"),
        ("machine", "elsewhere", "machine 'elsewhere' is not described"),
        ("operations", [], "not a result of kvbench"),
        ("timeline", [7], "not a result of kvbench"),
    ],
)
def test_the_file_of_a_cell_that_does_not_fit_is_named(
    key: str, value: object, said: str, collected: Path, kvbench: Run
) -> None:
    """And without it the results of all others can be read."""
    path = max(collected.glob("cells/*.json"))
    change(path, **{key: value})
    for command in ("collect", "status"):
        done = kvbench(command, collected)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"kvbench: {path}: ")
        assert said in done.stderr
        assert done.stderr.endswith("to go on without it, move this file away\n")
    path.unlink()
    assert kvbench("collect", collected).returncode == 0


def test_a_file_is_written_through_no_link(tmp_path: Path) -> None:
    """Anybody may make a link of its temporary name where all may write."""
    path, precious = tmp_path / "table.csv", tmp_path / "precious"
    precious.write_text("kept")
    Path(f"{path}.{os.getpid()}.tmp").symlink_to(precious)
    write_whole(path, b"new")
    assert (path.read_text(), precious.read_text()) == ("new", "kept")
    assert sorted(tmp_path.iterdir()) == [precious, path]


def test_the_newest_result_is_that_of_the_installed_code_then_the_last_written(
    collected: Path,
) -> None:
    folder = Folder(collected)
    (name, result), *others = folder.current().items()
    path = collected / "cells" / f"{name}.json"
    assert {result["order"], *(other["order"] for _, other in others)} == set(
        range(1, len(others) + 2)
    )

    def chosen() -> str:
        (found,) = (
            key for key, other in Folder(collected).current().items()
            if other["cell"] == result["cell"]
        )  # fmt: skip
        return found

    change(path, "later.json", checksum="other", started="2999-01-01", order=99)
    assert chosen() == name  # the result of the installed code, whatever its time and order
    change(path, checksum="another")
    assert chosen() == "later"
    change(path, started="3000-01-01", order=100)
    assert chosen() == name
    folder.write("last", result | {"checksum": "third"})
    assert json.loads((collected / "cells" / "last.json").read_bytes())["order"] == 101


def test_a_measured_result_outlives_a_skip_and_old_ones_go_by_the_clock(collected: Path) -> None:
    (name, result), *_ = Folder(collected).current().items()
    path = collected / "cells" / f"{name}.json"

    def chosen() -> set[str]:
        found = Folder(collected).current().items()
        return {key for key, other in found if other["cell"] == result["cell"]}

    # The installed code skips what older code had measured.
    assert result["status"] == "skipped"
    change(path, "a.json", status="ok", checksum="old", started="2025-01-01", order=0)
    change(path, "b.json", status="ok", checksum="older", started="2024-01-01", order=0)
    assert chosen() == {"a"}
    change(path, "c.json", status="failed", started="2023-01-01", order=1)  # its own measurement
    assert chosen() == {"c"}


def test_a_reason_of_any_length_fits_the_tables(collected: Path) -> None:
    reason = answer_of({"status": "failed", "reason": "x" * (tables.MOST_CHARACTERS + 1)})["reason"]
    name = next(iter(Folder(collected).current()))
    change(collected / "cells" / f"{name}.json", status="failed", reason=f"no space: {reason}")
    assert "failed" in Folder(collected).tables()["cells"]["status"].to_pylist()


def test_a_revision_by_a_tag_with_a_slash_fits_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = catalogue.build_facts() | {"revision": "release/1.0-3-g0123abc-dirty"}
    (tmp_path / "build.json").write_text(json.dumps(facts))
    monkeypatch.setenv("KVBENCH_SHIMS", str(tmp_path))
    assert catalogue.build_facts() == facts | {"revision": "release-1.0-3-g0123abc-dirty"}


HOSTILE = ("<img src=x onerror=alert(1)>", "a\nb", "../../etc", "x" * 1000, "\u202egpj")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("key", ["store", "binding", "label", "machine", "checksum"])
def test_names_in_foreign_results_have_plain_characters(
    collected: Path, key: str, text: str
) -> None:
    before = files(collected)
    path = next((collected / "cells").iterdir())
    change(path, **{key: text})
    with pytest.raises(BadInput, match="allowed"):
        Folder(collected).collect()
    assert {**files(collected), path: before[path]} == before


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    ("name", "column"),
    [
        *(("cells", column) for column in ("cell", "store", "label", "durability", "machine")),
        *(("cells", column) for column in ("status", "eviction", "guarantee", "revision")),
        ("operations", "operation"),
        ("machines", "machine"),
    ],
)
def test_names_in_foreign_tables_have_plain_characters(
    tmp_path: Path, name: str, column: str, text: str
) -> None:
    for table in tables.TABLES:
        found = pq.read_table(DATA / "builds" / f"{table}.parquet")
        if table == name:
            at = found.column_names.index(column)
            values = pa.array([text, *found[column].to_pylist()[1:]])
            found = found.set_column(at, found.schema.field(at), values)
        pq.write_table(found, tmp_path / f"{table}.parquet")
    with pytest.raises(BadInput, match=f"{name}: .*allowed") as caught:
        tables.read_tables(tmp_path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula(collected: Path, text: str) -> None:
    change(next((collected / "cells").iterdir()), engine_version=text)
    tables.export(Folder(collected).collect(), collected, csv=True, xlsx=True)
    with (collected / "cells.csv").open(newline="") as file:
        shown = {row["engine_version"] for row in csv.DictReader(file)}
    sheet = openpyxl.load_workbook(collected / "results.xlsx")["cells"]
    assert "f" not in {cell.data_type for row in sheet for cell in row}
    assert one_line(f"'{text}") in shown
    assert text in set(pd.read_parquet(collected / "cells.parquet").engine_version)


@pytest.mark.check
@pytest.mark.parametrize("name", ["cells", "operations"])
def test_a_small_file_that_expands_to_gigabytes_is_not_read(tmp_path: Path, name: str) -> None:
    """The file repeats a long text, or a list, 30,000 times."""
    for table in tables.TABLES:
        shutil.copy(DATA / "builds" / f"{table}.parquet", tmp_path)
    path = tmp_path / f"{name}.parquet"
    column = {"cells": "reason", "operations": "timeline"}[name]
    row = pq.read_table(path).slice(0, 1)
    at = row.column_names.index(column)
    value = "x" * 50_000 if name == "cells" else [0] * 5000
    row = row.set_column(at, row.schema.field(at), pa.array([value], row.schema.field(at).type))
    with pq.ParquetWriter(path, row.schema, compression="zstd") as writer:
        writer.write_table(row.take([0] * 30_000))
    assert path.stat().st_size < 2 << 20
    with pytest.raises(BadInput, match=r"bytes in memory; allowed: [\d,]+ at most"):
        tables.read_tables(tmp_path)


def test_without_steps_there_is_no_timeline_and_that_of_an_earlier_collection_goes(
    kvbench: Run, write_grid: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    (out / "timeline.parquet").write_bytes(b"of another collection")
    assert kvbench("collect", out, "--csv").returncode == 0
    assert not (out / "timeline.parquet").exists()
    assert set(tables.read_tables(out)) == {"cells", "operations", "machines"}
