"""Imports form no cycle, the harness does not import the study, and a plain install is complete."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support import ROOT

HARNESS = [*(ROOT / "harness/kvbench").rglob("*.py"), *(ROOT / "harness/checks").rglob("*.py")]
STUDY = [*(ROOT / "study").rglob("*.py")]


def name_of(path: Path) -> str:
    base = ROOT if path.is_relative_to(ROOT / "study") else ROOT / "harness"
    return ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in HARNESS + STUDY}


def imported(path: Path, late: bool) -> set[str]:
    """The names that a module imports, each with its module; `late` includes those in functions."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if late else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_of(name: str) -> str:
    """The module of an imported name: a module itself, or the package that has the name."""
    return name if name in MODULES else name.rpartition(".")[0]


def test_imports_form_no_cycle() -> None:
    graph = {
        name: set(map(module_of, imported(path, late=False))) & MODULES.keys() - {name}
        for name, path in MODULES.items()
    }
    assert graph["study.common.results"] >= {"study.common.fields", "kvbench.cell.factors"}
    list(TopologicalSorter(graph).static_order())


# Each room imports only those before it. `cell` imports no more than messages and processes.
ROOMS = [
    "common", "cell", "stats", "stores", "experiment", "machine", "results", "sweep", "durability",
    "faults", "answers", "trace", "cli",
]  # fmt: skip


def test_each_room_imports_only_those_below_it() -> None:
    package = ROOT / "harness/kvbench"
    assert {path.parent.name for path in package.glob("*/*.py")} == {*ROOMS}
    assert [path.name for path in package.glob("*.py")] == ["__init__.py"]
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0]
        names = [name for name in imported(path, late=True) if name.startswith("kvbench.")]
        for name in names:
            below = ROOMS[: ROOMS.index(room) + 1]
            assert name.split(".")[1] in below, f"{path} imports {name}"


def test_the_list_of_rooms_in_the_package_is_in_this_order() -> None:
    text = (ROOT / "harness/kvbench/__init__.py").read_text()
    assert re.findall(r"^    (\w+)  ", text, re.M) == ROOMS


def test_only_the_room_of_results_reads_tables() -> None:
    """All others have results.frames, so that they agree on what is averaged and not stated."""
    for path in [*(ROOT / "harness/kvbench").rglob("*.py"), *STUDY]:
        if path.parent.name not in ("results", "tests"):
            names = imported(path, late=True)
            assert "kvbench.results.tables.read_tables" not in names, path
            assert "read_parquet" not in path.read_text(), path


def test_the_harness_imports_nothing_of_the_study() -> None:
    for path in HARNESS:
        packages = {name.partition(".")[0] for name in imported(path, late=True)}
        assert not packages & {"study", "matplotlib", "seaborn"}, path


CHECKS = [*(ROOT / "harness/checks").rglob("*.py")]


def test_checks_import_only_kvbench_and_their_own_folder() -> None:
    """Except that recalled engines become shims as planted bugs do."""
    recall = ROOT / "harness/checks/recall"
    ours = {path.stem: path.parent for path in CHECKS} | dict.fromkeys(["study", "conftest"], ROOT)
    for path in CHECKS:
        packages = {name.partition(".")[0] for name in imported(path, late=True)}
        allowed = {path.parent} | ({recall.with_name("liars")} if path.parent == recall else set())
        assert {ours[name] for name in packages & ours.keys()} <= allowed, path


def test_only_tests_import_checks() -> None:
    names = {path.stem for path in CHECKS}
    notebooks = [*(ROOT / "notebooks").glob("*.py"), *(ROOT / "paper").rglob("*.py")]
    for path in [*(ROOT / "harness/kvbench").rglob("*.py"), *STUDY, *notebooks]:
        if not path.name.startswith("test_"):
            assert not names & {name.partition(".")[0] for name in imported(path, late=True)}, path


def needed(distribution: str, seen: set[str]) -> set[str]:
    """The distributions that a plain install brings: itself and its requirements, no extras."""
    if distribution not in seen:
        seen.add(distribution)
        try:
            stated = requires(distribution) or []
        except PackageNotFoundError:
            return seen
        for requirement in map(Requirement, stated):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(requirement.name.lower().replace("_", "-"), seen)
    return seen


PLAIN = """
import importlib, importlib.metadata, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        owners = OWNERS.get(name.partition(".")[0])
        if owners and not PRESENT & {owner.lower().replace("_", "-") for owner in owners}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

OWNERS = importlib.metadata.packages_distributions()
PRESENT = set(sys.argv[1:])
sys.meta_path.insert(0, Absent())
import kvbench
for module in pkgutil.walk_packages(kvbench.__path__, "kvbench."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        # These are imported on first use, and the extra that they need is named then.
        if not module.name.startswith(("kvbench.cell.bindings.", "kvbench.sweep.distributed")):
            raise
    print(module.name)
"""


@pytest.mark.check
def test_a_plain_install_imports_everything_it_installs() -> None:
    """Only what `pip install kvbench` brings can be imported, whatever is installed here."""
    present = needed("kvbench", set())
    assert not present & {"matplotlib", "seaborn", "kvbench-study", "ipython"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", PLAIN, *present], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "kvbench.cell.worker" in done.stdout.split()
