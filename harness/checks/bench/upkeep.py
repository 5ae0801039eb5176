"""Measures a cell's cost besides its timed operations, the growth of memory, and the time of
analysis."""

import functools
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench.cell.factors import Cell
from kvbench.cell.worker import QUIET_S
from kvbench.common.messages import BadInput
from kvbench.experiment.estimate import seconds
from kvbench.experiment.grid import read_grids
from kvbench.machine import description
from kvbench.machine.scratch import scratch
from kvbench.results.folder import Folder
from kvbench.results.tables import read_tables
from kvbench.stores import catalogue
from kvbench.sweep.sweep import Sweep
from measures import ROOT, Line, Rounds, Scale, Timer, in_folder, in_fresh_process
from pauses import make_cell, run_whole

NOTEBOOKS = ("best-option", "latency", "space")


PHASES = ("open", "load", "rounds", "check", "close")


def _null_cell(records: int, **levels: Any) -> Cell:
    return make_cell("null", records, 1, least_ms=1, **levels)


def _peak(records: int, folder: str) -> int:
    """The peak memory of a worker in bytes."""
    run_whole(_null_cell(records, workload="fillseq batch=1000, readrandom ops=1000"), folder)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def cells(place: Path, results: Path) -> dict[str, Rounds]:
    """Yield the costs of cells; `results` are those of the quick grid."""
    return {"process": _process(place), "quick grid": _quick_grid(results)}


def _process(place: Path) -> Rounds:
    line = Line("cell", "start, import and end of a cell's process", "ms", high=150)
    while True:
        answer = in_folder(place, run_whole, _null_cell(100))
        phases = QUIET_S + sum(answer[f"{phase}_s"] for phase in PHASES)
        yield {line: (answer["wall_s"] - phases) * 1000}


def _quick_grid(results: Path) -> Rounds:
    """Measure one round, over all cells of the quick grid."""
    rows = Folder(results).collect()["cells"].to_pandas()
    rows = rows[rows.status == "ok"]
    shares = rows.check_s / rows.wall_s
    worst = ", ".join(map(str, rows.loc[shares.idxmax(), ["store", "record_size", "records"]]))
    job = Sweep(read_grids(ROOT / "harness/grids/quick.toml", catalogue.names()), results)
    fsync = description.fsync_milliseconds(results)
    planned = sum(
        seconds(cell, fsync)
        for _, cell, why in job.plan()
        if not why and job.stores[cell.full_name].available
    )
    line = functools.partial(Line, "cell", sample=False)
    check, estimate = "checking, share of", "estimate of the dry run over the truth, quick grid"
    most = line(f"{check} a cell's wall time: the largest of the quick grid", high=0.15, note=worst)
    yield {
        most: shares.max(),
        line(f"{check} all wall time of the quick grid", high=0.15): (
            rows.check_s.sum() / rows.wall_s.sum()
        ),
        line(estimate, low=0.7, high=1.3): planned / (rows.wall_s + rows.settle_s).sum(),
    }


def memory(scale: Scale, place: Path) -> dict[str, Rounds]:
    return {"memory": _memory(scale.many_operations, place)}


def _memory(operations: int, place: Path) -> Rounds:
    few, many = (in_folder(place, _peak, records) for records in (1000, operations))
    name = f"peak memory of the harness, {operations:,} operations over 1,000"
    yield {Line("scale", name, low=0.95, high=1.05, sample=False): many / few}


def _command(command: Sequence[str]) -> tuple[float, float]:
    """The seconds of a command, and the peak memory of its largest process in GiB."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    with Timer() as timer:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return timer.seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def _ten_times(source: Path, target: Path) -> None:
    """Copy results with ten times as many trials."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    for name, table in read_tables(source).items():
        frame = table.to_pandas()
        if name != "machines":
            copies = [frame.assign(cell=frame.cell + f"-{i}") for i in range(10)]
            if name == "cells":
                copies = [copy.assign(trial=copy.trial + 100 * i) for i, copy in enumerate(copies)]
            frame = pd.concat(copies)
        pq.write_table(
            pa.Table.from_pandas(frame, table.schema, preserve_index=False),
            target / f"{name}.parquet",
        )


def analysis(scale: Scale, place: Path, results: Path) -> dict[str, Rounds]:
    """Yield the costs of the analysis; `results` are those of the quick grid."""
    found = {"notebooks": _notebooks(place), "collect": _collect(scale.cell_files, place, results)}
    for name, command in renderings().items():
        line = Line("analysis", name, "s", high=60, sample=False)
        found[name] = _timed(line, command)
    return {name: itertools.islice(rounds, scale.repeats) for name, rounds in found.items()}


def _notebooks(place: Path) -> Rounds:
    names = ", ".join(NOTEBOOKS)
    line = functools.partial(Line, "analysis", sample=False)
    ratio = line("time of the notebooks on ten times the rows", high=2, note=names)
    memory = line("their peak memory", "GiB", high=1)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _ten_times(ROOT / "data/reference", Path(folder))
        while True:
            taken = []
            for results in ("data/reference", folder):
                runs = [
                    in_fresh_process(_command, ["papermill", "--no-progress-bar", "-k", "python3",
                        f"notebooks/{name}.ipynb", os.devnull, "-p", "results", results])
                    for name in NOTEBOOKS
                ]  # fmt: skip
                taken.append(sum(seconds for seconds, _ in runs))
            yield {ratio: taken[1] / taken[0], memory: max(peak for _, peak in runs)}


def original(out: Path) -> dict[str, Rounds]:
    return {"original": itertools.islice(_original(out), 1)}


def _original(out: Path) -> Rounds:
    """Sweep the grid `original`. Its file system, which only root can make, needs no removal of
    files."""
    fs = ["--fs", "ext4"] if os.geteuid() == 0 else []
    grid = str(ROOT / "harness/grids/original.toml")
    name, note = "three trials of the grid original.toml", " ".join(fs)
    with scratch(out) as folder:
        results = str(folder / "results")
        command = [sys.executable, "-m", "kvbench.cli", "sweep", grid, "--out", results, *fs]
        yield from _timed(Line("cell", name, "s", high=900, note=note, sample=False), command)


def _collect(count: int, place: Path, results: Path) -> Rounds:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _many_cells(results, Path(folder), count)
        command = [sys.executable, "-m", "kvbench.cli", "collect", folder]
        line = Line("analysis", f"collecting {count:,} cells", "s", high=30, sample=False)
        yield from _timed(line, command)


def _timed(line: Line, command: Sequence[str]) -> Rounds:
    while True:
        yield {line: in_fresh_process(_command, command)[0]}


def renderings() -> dict[str, list[str]]:
    """The ways to render the paper here: the name of the measurement, and the command."""
    names = {"make render, as a preview": ["make", "render", "RENDERER=preview"]}
    if shutil.which("quarto"):
        names["make render, with Quarto"] = ["make", "render"]
    return names


def _many_cells(source: Path, target: Path, count: int) -> None:
    """A results folder with `count` cells: copies of another folder's cells as other trials."""
    Folder.make(target)
    shutil.copytree(source / "machines", target / "machines", dirs_exist_ok=True)
    found = [json.loads(path.read_text()) for path in sorted((source / "cells").glob("*.json"))]
    for i in range(count):
        result = found[i % len(found)]
        result["cell"]["trial"] = 1 + i
        (target / "cells" / f"{i:08}.json").write_text(json.dumps(result))
