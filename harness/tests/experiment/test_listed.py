"""The list of experiments: it is complete, and `make reference` measures what it names."""

import functools
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.factors import UNCAPPED
from kvbench.common.messages import BadInput
from kvbench.experiment.grid import read_grids
from kvbench.experiment.listed import LIST, read
from kvbench.machine.control_group import refused
from kvbench.machine.served import Delays
from kvbench.stores import catalogue
from support import ROOT

KNOWN = read(ROOT)
EXPERIMENTS = KNOWN.experiment.values()


def names(pattern: str) -> list[str]:
    return sorted(path.stem for path in ROOT.glob(pattern))


def test_each_grid_is_listed_or_an_exception() -> None:
    own = {one.grid for one in EXPERIMENTS}
    assert names("harness/grids/*.toml") == sorted([*own, *KNOWN.other.grids])


def test_each_notebook_is_listed_or_an_exception() -> None:
    own = {name for one in EXPERIMENTS for name in one.notebooks}
    assert names("notebooks/*.ipynb") == sorted([*own, *KNOWN.other.notebooks])


def test_each_folder_of_results_is_listed_or_an_exception() -> None:
    own = {one.name for one in KNOWN.served()}
    folders = sorted(path.parent.name for path in ROOT.glob("data/*/cells.parquet"))
    assert folders == sorted([*own, *KNOWN.other.data])


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.name)
def test_a_grid_with_a_scale_for_the_reference_is_listed_at_it(one: object) -> None:
    scales = tomllib.loads((ROOT / f"harness/grids/{one.grid}.toml").read_text()).get("scale", {})
    assert one.scale in {"1", *scales}
    assert ("reference" in scales) == (one.scale == "reference")


def test_make_headline_caps_memory_where_the_grid_says_so() -> None:
    names = catalogue.names()
    for one in EXPERIMENTS:
        if how := one.headline:
            grids = read_grids(ROOT / f"harness/grids/{how.grid}.toml", names, scale=how.scale)
            caps = {cell.memory_max for grid in grids for cell in grid.cells()}
            assert how.capped == (caps != {UNCAPPED}), one.name


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("notebooks =", "notebook =", "unknown field `notebook`"),
        ("[other.data]", "[other.data", "line"),
        ("{ crashes = 20,", "{ rain = 15,", "'rain'"),
        ("capped = true", "capped = 1", "bool"),
    ],
)
def test_a_list_that_is_not_right_is_refused_by_place(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / LIST
    path.parent.mkdir()
    path.write_text((ROOT / LIST).read_text().replace(old, new))
    with pytest.raises(BadInput, match=f"^{path}: .*{said}"):
        read(tmp_path)


FAKE = """#!/bin/sh
echo "$@" | sed "s, build/reference, OUT,g" >> "$LOG"
case "$*" in *--dry-run*) echo "5 trials: so many"; echo "something else" ;; esac
case "$*" in
*"$INTERRUPT"*) kill -INT $PPID ;;
*"$HANG"*) echo $$ > "$LOG.hung"; exec sleep 60 ;;
esac
case "$*" in *"$ENDS"*) exit $STATUS ;; esac
"""
NEVER = {"INTERRUPT": "none", "HANG": "none", "ENDS": "none", "FS": ""}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a command with a `kvbench` that notes its arguments and measures nothing: it
    interrupts or hangs where its arguments hold a text, or ends with STATUS."""
    (tmp_path / "kvbench").write_text(FAKE)
    (tmp_path / "kvbench").chmod(0o755)
    (tmp_path / "harness").symlink_to(ROOT / "harness")

    def begin(*command: object, **environment: str) -> "subprocess.Popen[str]":
        path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "LOG": str(tmp_path / "log"), **NEVER, **environment}
        return subprocess.Popen(
            list(map(str, command)), cwd=tmp_path, env=os.environ | own, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return begin


@pytest.fixture
def reference(start: Start) -> Start:
    """Starts harness/reference.py with these arguments."""
    return functools.partial(start, sys.executable, "harness/reference.py")


def ran(start: Start, tmp_path: Path, *arguments: object, **environment: str) -> list[str]:
    """The calls of `kvbench`, in order."""
    _, errors = start(*arguments, **environment).communicate()
    assert errors == "", errors
    return (tmp_path / "log").read_text().splitlines()


def swept(calls: list[str]) -> list[str]:
    """The experiments that were swept."""
    return [re.findall(r"--out \S+/(\S+)", call)[0] for call in calls if call.startswith("sweep")]


def test_a_sitting_measures_all_between_the_core_fields(reference: Start, tmp_path: Path) -> None:
    calls = ran(reference, tmp_path, 60)
    others = [one.name for one in KNOWN.served() if one.name != "core"]
    assert swept(calls) == ["core", *others, "core"]
    core = "sweep harness/grids/core.toml --scale 1 --out OUT/core --fs ext4 --again"
    assert calls[0] == core
    grid = "harness/grids/reference.toml"
    assert f"sweep {grid} --scale elsewhere --out OUT/reference-xfs --fs xfs --minutes 59" in calls
    assert calls[-2:] == [calls[0], "collect OUT/core"]
    assert [call for call in calls if call.startswith(("sharing", "evidence", "crash"))] == [
        "sharing --out OUT/durability/sharing.csv",
        "evidence --out OUT/durability/evidence.csv",
        "crash --place build --out OUT/age/crashes.csv",
        "crash --place build --clean --records 1000,10000,100000 --crashes 6 --seconds 0.25 "
        "--out OUT/age/openings.csv",
    ]


def test_a_sitting_on_another_file_system_leaves_out_other_file_systems(
    reference: Start, tmp_path: Path
) -> None:
    calls = ran(reference, tmp_path, 60, FS="own")
    assert calls[0] == "sweep harness/grids/core.toml --scale 1 --out OUT-own/core --again"
    elsewhere = {"reference-xfs", "reference-btrfs", "logs-xfs", "devices-1ms"}
    assert not elsewhere & set(swept(calls))
    assert swept(calls)[-2:] == ["logs", "core"]


def test_a_sitting_whose_time_is_over_closes_with_the_core_fields(
    reference: Start, tmp_path: Path
) -> None:
    calls = ran(reference, tmp_path, 60, ENDS="sweep harness/grids/python.toml", STATUS="130")
    assert swept(calls) == ["core", "reference", "bindings", "python", "core"]
    assert "collect OUT/python" in calls


def test_a_named_experiment_is_measured_whole_and_says_how_it_is_published(
    reference: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "build/reference/age"
    folder.mkdir(parents=True)
    (folder / "cells.parquet").touch(), (folder / "crashes.csv").touch()
    (folder / "openings.csv").touch()
    process = reference("age", ENDS="sweep", STATUS="3")  # some cells failed
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert (tmp_path / "log").read_text().splitlines() == [
        "sweep harness/grids/age.toml --scale reference --out OUT/age --fs ext4",
        "collect OUT/age",
    ]
    names = ("cells.parquet", "crashes.csv", "openings.csv")
    files = " ".join(f"build/reference/age/{name}" for name in names)
    assert output == f"To publish it: mkdir -p data/age && cp {files} data/age && make figures\n"


def test_an_experiment_on_a_slowed_disk_says_by_how_much(reference: Start, tmp_path: Path) -> None:
    for one in (one for one in EXPERIMENTS if one.device):
        (tmp_path / "log").unlink(missing_ok=True)
        first, *_ = ran(reference, tmp_path, one.name, FS="own")
        assert first == (
            f"sweep harness/grids/devices.toml --scale {one.scale} --out OUT-own/{one.name} "
            f"--fs ext4 --device {one.device} --probe"
        )
        Delays.parse(one.device)


def test_a_dry_run_prints_what_is_left_of_each(reference: Start, tmp_path: Path) -> None:
    output, _ = reference("--dry-run").communicate()
    others = [one.name for one in KNOWN.served() if one.name != "core"]
    assert output == "".join(f"{name}:\n5 trials: so many\n" for name in ("core", *others))


@pytest.mark.parametrize("arguments", [["spcae"], ["--dry-run", "spcae"], ["age", "spcae"]])
def test_an_unknown_experiment_is_refused_before_anything_is_measured(
    arguments: list[str], reference: Start, tmp_path: Path
) -> None:
    process = reference(*arguments)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert errors.startswith("EXPERIMENT: 'spcae' is not listed; allowed: space")
    assert errors.endswith("see harness/experiments.toml\n") and errors.count("\n") == 1
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("status", ["0", "130"])
def test_an_interrupt_ends_a_sitting_with_the_running_command(
    status: str, reference: Start, tmp_path: Path
) -> None:
    """Even where the command itself ended well."""
    process = reference(60, INTERRUPT="grids/bindings", ENDS="grids/bindings", STATUS=status)
    process.communicate()
    assert process.returncode == 130
    *_, last = (tmp_path / "log").read_text().splitlines()
    assert last.startswith("sweep harness/grids/bindings")


@pytest.mark.check
def test_make_headline_measures_what_the_list_says(start: Start, tmp_path: Path) -> None:
    """At the end, there are no results to compare."""
    (tmp_path / "_quarto.yml").touch()  # marks the root of a repository
    process = start("sh", "harness/headline.sh")
    process.communicate()
    assert process.returncode == 2
    *calls, last = (tmp_path / "log").read_text().splitlines()
    runs = [line.split() for line in KNOWN.headlines()]
    runs = [run for run in runs if run[3] == "free" or not refused()]
    assert swept(calls) == [name for name, *_ in runs]
    for call, (_, grid, scale, _) in zip(calls[::2], runs, strict=True):
        assert call.startswith(f"sweep harness/grids/{grid}.toml --scale {scale} --out build/headl")
    assert last.startswith("evidence sqlite --out build/headline")


def test_a_command_ends_with_the_sitting(reference: Start, tmp_path: Path) -> None:
    process = reference(60, HANG="sweep")
    hung = tmp_path / "log.hung"
    while not (hung.exists() and hung.read_text().endswith("\n")):
        assert process.poll() is None
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    process.communicate()  # ends once nobody writes any more, the hanging command included
