"""Each notebook draws what partial results allow, or says in one line what they lack."""

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from executed import code_cells, run
from IPython.core.interactiveshell import InteractiveShell
from kvbench.common.messages import BadInput
from kvbench.experiment.listed import read
from kvbench.results.importer import import_table
from kvbench.results.tables import SCHEMAS, read_tables, write_tables
from kvbench.stats import simulated
from support import ROOT

LISTED = read(ROOT).experiment
CSV = {"stores", "faults"}  # notebooks that draw tables which no sweep wrote
MANY = {"verdicts"}  # notebooks that draw a folder of experiments
# The notebooks of collected results, with the experiment that each one's refusals name: the quick
# look at a machine, or else the first that it draws.
GRIDS = {
    notebook: one.name
    for one in reversed([LISTED["quick"], *LISTED.values()])
    for notebook in one.notebooks
    if notebook not in CSV | MANY
}
# Those that show single operations, which most grids have.
PLAIN = {
    "best-option", "cold-cache", "compression", "durability", "latency", "memory-budget",
    "reference", "space",
}  # fmt: skip
Frames = dict[str, pd.DataFrame]


def _read(folder: Path) -> Frames:
    return {name: table.to_pandas() for name, table in read_tables(folder).items()}


def _write(frames: Frames, folder: Path) -> Path:
    folder.mkdir()
    tables = {
        name: pa.Table.from_pandas(frame[SCHEMAS[name].names], SCHEMAS[name], preserve_index=False)
        for name, frame in frames.items()
    }
    write_tables(folder, tables)
    return folder


def _only(frames: Frames, cells: pd.DataFrame) -> Frames:
    """The tables with only these cells."""
    measured = set(cells.cell[cells.status == "ok"])
    kept = {
        name: frame[frame.cell.isin(measured)] for name, frame in frames.items() if "cell" in frame
    }
    machines = frames["machines"]
    return kept | {"cells": cells, "machines": machines[machines.machine.isin(cells.machine)]}


def _one(column: str, first: bool) -> Callable[[Frames], Frames]:
    """Only the most or the least frequent level of a factor."""

    def kept(frames: Frames) -> Frames:
        cells = frames["cells"]
        levels = cells[cells.status == "ok"][column].value_counts(sort=False).sort_index()
        level = levels.idxmax() if first else levels.idxmin()
        return _only(frames, cells[cells[column] == level])

    return kept


def _cooled(frames: Frames) -> Frames:
    return frames | {"cells": frames["cells"].assign(cached_share=0.1, cached_end=0.1)}


def _plain_machine(frames: Frames) -> Frames:
    """Remove the facts that only some machines state."""
    machines = frames["machines"].copy()
    for column in ("sync_p50_us", "memory_rate", "probe", "compiler", "python"):
        machines[column] = None
    return frames | {"machines": machines}


PARTS: dict[str, Callable[[Frames], Frames]] = {
    "one store": _one("store", True),
    "another store": _one("store", False),
    "one trial": _one("trial", True),
    "one size": _one("record_size", True),
    "one count": _one("records", True),
    "one part": _one("label", True),
    "another part": _one("label", False),
    "one workload": _one("workload", False),
    "one level": _one("durability", True),
    "one kind of data": _one("compressibility", False),
    "one budget": _one("memory", True),
    "one cap": _one("memory_max", False),
    "one state of the cache": _one("cache", False),
    "one cell": lambda frames: _only(
        frames, frames["cells"][frames["cells"].status == "ok"].head(1)
    ),
    "no warm cell": _cooled,
    "a plain machine": _plain_machine,
}


@pytest.fixture(scope="module", autouse=True)
def few_simulated() -> Iterator[None]:
    """Some tables of a notebook do not depend on results: they are made once, and smaller."""
    few = functools.cache(functools.partial(simulated.table, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "table", lambda _, *noises: few(*noises).copy())
        yield


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of single operations, as of a quick look at a machine."""
    place = tmp_path_factory.mktemp("swept")
    grid = 'stores = ["flat", "leveldb", "lmdb"]\nrecord_sizes = ["100 B", "1 KiB"]\nleast_ms = 0\n'
    grid += 'records = [100]\ndurability = ["process"]\ntrials = 2\n'
    (place / "grid.toml").write_text(grid)
    for command in (["sweep", place / "grid.toml", "--out"], ["collect"]):
        # Not in this process: a command that has ended ignores signals, as do those started after.
        arguments = [sys.executable, "-m", "kvbench.cli", *map(str, (*command, place / "out"))]
        subprocess.run(arguments, check=True, capture_output=True)
    return place / "out"


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported steps, of which nothing but their means is stated."""
    place = tmp_path_factory.mktemp("steps")
    rows = [
        f"{store},{step},1 KiB,1000,{store}.{step},1000,{mean}"
        for store, mean in (("rocksdb", 900), ("badger", 1100))
        for step in ("fillseq", "readrandom", "overwrite")
    ]
    head = "store,operation,record_size,records,label,n,mean_ns"
    (place / "table.csv").write_text("\n".join([head, *rows]) + "\n")
    import_table(place / "table.csv", place / "out")
    return place / "out"


def refusal(shell: InteractiveShell, stem: str, folder: Path) -> str:
    """Return the message with which the notebook refuses the results; other errors are raised."""
    try:
        run(shell, stem, results=str(folder))
    except BadInput as error:
        return str(error)
    return ""


def _says(said: str, stem: str, folder: Path) -> bool:
    """One line that names the folder, what was not measured, and the grid that measures it."""
    grid = GRIDS[stem]
    named = f"make reference EXPERIMENT={grid}" in said and f"harness/grids/{grid}.toml" in said
    return said.startswith(f"{folder}: no ") and named and len(said) - len(str(folder)) < 200


def _own(stem: str) -> Path:
    """The results that the notebook draws unless others are given."""
    declared: dict[str, str] = {}
    exec(code_cells(stem)[0], declared)
    return ROOT / declared["results"]


COMMITTED = [stem for stem in GRIDS if _own(stem).exists()]  # load draws the reader's own results


@pytest.mark.check
@pytest.mark.parametrize("stem", GRIDS)
def test_results_without_a_notebooks_experiment_are_refused_by_name(
    stem: str, shell: InteractiveShell, swept: Path
) -> None:
    said = refusal(shell, stem, swept)
    assert said == "" if stem in PLAIN else _says(said, stem, swept), said


@pytest.mark.parametrize("stem", GRIDS)
def test_an_empty_folder_is_refused_by_name(
    stem: str, shell: InteractiveShell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(shell, stem, tmp_path)
    assert _says(said, stem, tmp_path), said
    assert capsys.readouterr().out.strip() == f"BadInput: {said}"  # without a traceback


@pytest.mark.parametrize("stem", COMMITTED)
def test_results_of_failed_cells_alone_are_refused_with_the_reason(
    stem: str, shell: InteractiveShell, tmp_path: Path
) -> None:
    frames = _read(_own(stem))
    cells = frames["cells"].assign(status="failed", reason="no space left")
    folder = _write(_only(frames, cells), tmp_path / "failed")
    said = refusal(shell, stem, folder)
    assert _says(said, stem, folder) and "the first: no space left" in said, said


@pytest.mark.parametrize("stem", GRIDS)
def test_imported_steps_are_refused_by_name_or_drawn(
    stem: str, shell: InteractiveShell, steps: Path
) -> None:
    said = refusal(shell, stem, steps)
    several = said.startswith(f"{steps}: several levels of label: ")
    assert several or _says(said, stem, steps), said


# Every fourth part for each notebook, each time others: all of them take half an hour.
TRIED = [
    (stem, part)
    for at, stem in enumerate(COMMITTED)
    for number, part in enumerate(PARTS)
    if (at + number) % 4 == 0
]


@pytest.mark.check
@pytest.mark.parametrize(("stem", "part"), TRIED)
def test_a_part_of_an_experiment_is_drawn_or_refused_by_name(
    stem: str, part: str, shell: InteractiveShell, tmp_path: Path
) -> None:
    folder = _write(PARTS[part](_read(_own(stem))), tmp_path / "part")
    said = refusal(shell, stem, folder)
    assert not said or _says(said, stem, folder) or "; allowed:" in said, said
