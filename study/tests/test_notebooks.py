"""The notebooks are committed as executed from top to bottom, and refuse bad parameters."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from executed import NOTEBOOKS as FOLDER
from executed import run
from IPython.core.interactiveshell import InteractiveShell
from kvbench.common.messages import BadInput
from kvbench.results.importer import import_table
from kvbench.results.tables import read_tables
from support import ROOT

from study.common.results import Results

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def papermill(notebook: str, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / notebook), str(output)]
    flags = ["-k", "python3", "--no-progress-bar", *arguments]
    return subprocess.run([*command, *flags], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebooks_are_executed_from_top_to_bottom(path: Path) -> None:
    """`pytest --nbval` passes a notebook that was never run, so it cannot check this."""
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in cells if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    for cell in cells:
        labelled = cell.source.startswith("#| label:")
        assert not labelled or cell.outputs, f"no output: {cell.source.splitlines()[0]}"
        assert not any(output.output_type == "error" for output in cell.outputs)


def test_each_figure_and_table_has_a_caption_of_its_own() -> None:
    captions = [
        line
        for path in NOTEBOOKS
        for cell in nbformat.read(path, 4).cells
        for line in cell.source.splitlines()
        if line.startswith(("#| fig-cap:", "#| tbl-cap:"))
    ]
    assert captions
    assert [line for line, times in Counter(captions).items() if times > 1] == []


def test_an_unknown_parameter_fails_first_and_is_named(tmp_path: Path) -> None:
    out = ROOT / "build" / "never"
    done = papermill(
        "sweep.ipynb", tmp_path / "out.ipynb", "-p", "recrods", "100", "-p", "out", str(out)
    )
    assert done.returncode != 0
    assert "unknown parameter 'recrods'; allowed:" in done.stderr
    assert not out.exists()


def test_an_unknown_parameter_of_an_analysis_is_named(shell: InteractiveShell) -> None:
    with pytest.raises(BadInput, match="unknown parameter 'out'; allowed: results"):
        run(shell, "best-option", out="build/never")


def test_a_bad_value_fails_before_anything_is_measured(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="'mongodb' is unknown; allowed:"):
        run(shell, "sweep", stores=["mongodb"], out=str(tmp_path / "never"))
    assert not (tmp_path / "never").exists()


FOLDERS = [
    *((path.stem, "out" if path.stem == "sweep" else "results") for path in NOTEBOOKS),
    ("speed", "reference"),
]


@pytest.mark.parametrize(
    ("stem", "name", "value"),
    [(*folder, 5) for folder in FOLDERS]
    + [("best-option", "results", {"a": 1}), ("best-option", "results", "9" * 300)],
    ids=lambda value: str(value)[:20],
)
def test_a_parameter_that_is_not_a_folder_is_refused_by_name(
    stem: str, name: str, value: object, shell: InteractiveShell
) -> None:
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    declared, check = (cell.source for cell in nbformat.read(path, 4).cells[1:3])
    shell.run_cell(declared, store_history=True).raise_error()
    shell.run_cell(f"{name} = {value!r}", store_history=True).raise_error()
    with pytest.raises(BadInput, match=re.escape(f"{name}: {value!r} is no folder")):
        shell.run_cell(check, store_history=True).raise_error()


@pytest.mark.parametrize("value", ["1-", -1, {"age": 5}, {1: "data/age"}], ids=str)
@pytest.mark.parametrize("stem", ["explorer", "reference"])
def test_other_experiments_that_are_no_folders_by_name_are_refused(
    stem: str, value: object, shell: InteractiveShell
) -> None:
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4).cells[1:3]
    shell.run_cell(cells[0].source, store_history=True).raise_error()
    shell.run_cell(f"others = {value!r}", store_history=True).raise_error()
    with pytest.raises(BadInput, match=r"^others"):
        shell.run_cell(cells[1].source, store_history=True).raise_error()


COLUMN_GONE, NO_NUMBER, NO_ROWS = "a column gone", "no number", "no rows"


@pytest.mark.parametrize("damage", [COLUMN_GONE, NO_NUMBER, NO_ROWS])
@pytest.mark.parametrize(("stem", "number"), [("speed", "value"), ("torture", "crashes")])
def test_a_damaged_csv_is_refused_by_name(
    stem: str, number: str, damage: str, shell: InteractiveShell, tmp_path: Path
) -> None:
    table = pd.read_csv(ROOT / "data" / stem / f"{stem}.csv", dtype=str, keep_default_na=False)
    damaged = {
        COLUMN_GONE: table.drop(columns=number),
        NO_NUMBER: table.assign(**{number: "many"}),
        NO_ROWS: table.head(0),
    }
    path = tmp_path / f"{stem}.csv"
    damaged[damage].to_csv(path, index=False)
    wrong = {COLUMN_GONE: number, NO_NUMBER: "many", NO_ROWS: "no rows"}
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", 4).cells[1:3]
    shell.run_cell(cells[0].source, store_history=True).raise_error()
    shell.run_cell(f"results = {str(tmp_path)!r}", store_history=True).raise_error()
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: .*{wrong[damage]}"):
        shell.run_cell(cells[1].source, store_history=True).raise_error()


FACTORS = {
    "durability": ["durability"],
    "memory-budget": ["memory", "memory_max"],
    "compression": ["compression"],
    "cold-cache": ["cache"],
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_figure_states_its_conditions(name: str) -> None:
    """Each figure must be drawn by the function that states its conditions, which must be complete.
    nbval executes the notebooks."""
    sources = [cell.source for cell in nbformat.read(ROOT / f"notebooks/{name}.ipynb", 4).cells]
    drawn = [source for source in sources if source.startswith("#| label: fig-")]
    assert drawn
    assert all("figures.level_figure(" in source for source in drawn)
    said = Results(f"data/{name}", varying=FACTORS[name]).conditions()
    for word in (
        "durability",
        "memory budget",
        "page cache",
        "floor",
        "GiB of memory (largest data",
        "fsync",
    ):
        assert word in said


@pytest.mark.parametrize("given", [5, None, "", ["data"], "x" * 300, "a\0b", "README.md"])
def test_a_results_parameter_that_is_not_a_folder_is_refused(given: object) -> None:
    with pytest.raises(BadInput, match=r"results: .* is no folder"):
        Results(given)  # type: ignore[arg-type]


def test_mixed_levels_are_refused_unless_their_factor_is_the_question() -> None:
    with pytest.raises(BadInput, match="several levels of durability: atomic, default"):
        Results("data/durability")


def test_the_refusal_of_mixed_factors_is_the_same_in_every_run(tmp_path: Path) -> None:
    """It does not depend on the seed of hashes, and lists numeric levels in order."""
    mixed = {"key_size": [16, 8], "place": ["tmpfs", "disk"]}
    for name, table in read_tables(ROOT / "data" / "builds").items():
        rows = table.to_pandas()
        for factor, levels in mixed.items() if name == "cells" else ():
            rows[factor] = [levels[n % 2] for n in range(len(rows))]
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pandas(rows, table.schema, preserve_index=False), path)
    read = f"from study.common.results import Results; Results({str(tmp_path)!r})"
    for seed in "123":
        done = subprocess.run(
            [sys.executable, "-c", read],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stderr.splitlines()[-1]
        assert said.endswith("several levels of key_size: 8, 16; collect each by itself")


@pytest.mark.check
def test_best_option_reads_the_results_of_sweep(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure uses only the cells of this sweep, and of these only the ones from C."""
    swept = tmp_path / "swept"
    values = {
        "stores": ["flat", "leveldb", "lmdb"],
        "access": ["c", "python"],
        "bindings": ["plyvel"],
        "record_sizes": ["1 KiB"],
        "records": [100],
        "trials": 2,
        "out": str(swept),
    }
    done = papermill("sweep.ipynb", tmp_path / "sweep.ipynb", "-y", json.dumps(values))
    assert done.returncode == 0, done.stderr
    assert len(list((swept / "cells").glob("*.json"))) == 8
    assert set(Results(str(swept)).cells.access) == {"c"}
    both = Results(str(swept), access=("c", "python"))
    assert len(both.cells) == 8
    floors = both.cells.groupby("access").floor_ns.median()
    assert 0 < floors["c"] < floors["python"]
    assert not both.operations[both.operations.access == "c"].near_floor.any()
    assert "floor of the harness" in both.conditions()
    assert " from Python an operation" in both.conditions()
    monkeypatch.setenv("KVBENCH_FIGURES", str(tmp_path))
    shown = run(shell, "best-option", results=str(swept))
    text = shown["tbl-best-option"].data
    assert text.startswith("Durability level default:")
    assert text.count("| 1 KiB | 100 | incompressible |") == 4  # operations
    assert "<svg" in (tmp_path / "best-option.svg").read_text()
    added = run(shell, "bindings", results=str(swept))["tbl-added"]
    assert added.data.splitlines()[2].startswith("| leveldb | plyvel")


@pytest.mark.parametrize("level", ["none", "atomic"])
def test_best_option_shows_whichever_level_was_measured(
    level: str, shell: InteractiveShell, tmp_path: Path
) -> None:
    lines = [
        f"{store},insert,1 KiB,100,{trial},{level},incompressible,1000,{mean}"
        for store, mean in (("flat", 900), ("nested", 1100))
        for trial in (1, 2)
    ]
    head = "store,operation,record_size,records,trial,durability,compressibility,n,mean_ns"
    (tmp_path / "table.csv").write_text("\n".join([head, *lines]) + "\n")
    import_table(tmp_path / "table.csv", tmp_path / "out")
    shown = run(shell, "best-option", results=str(tmp_path / "out"))
    assert shown["tbl-best-option"].data.startswith(f"Durability level {level}:")
