"""README.md and docs/ name only existing things, and the number that README traces is right."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from kvbench.experiment.grid import read_grids
from kvbench.stores import about, catalogue
from support import ROOT

from study.common import formats

PAGES = [
    "README.md",
    "REPRODUCING.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The rows of the table whose first column has this header, as cells."""
    rows = README.partition(f"\n| {header} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def trace() -> dict[str, tuple[Path, list[str]]]:
    """The file of each step of the trace, and the code that README quotes from it."""
    unlinked = re.compile(r"\[`[^]]*`\]\([^)]*\)")
    return {
        step: (ROOT / code(place)[0], code(unlinked.sub("", says)))
        for step, place, says in table("step")
    }


TRACE = trace()
((OPERATION, STORE, NUMBER),) = re.findall(
    r"a single (\w+) in `([\w-]+)` took \*\*(.+?)\*\*", README
)


def test_the_stores_that_a_loss_of_power_may_cost_are_named() -> None:
    """Of the main grid, but for those whose file only grows, which README ranks apart: those that
    may lose everything, and those that in crash states lost more than the last writes."""
    path = ROOT / "harness/grids/reference.toml"
    stores = read_grids(path, catalogue.names(), scale="sitting")[0].stores
    names = {"lmdb": "LMDB", "mdbx": "MDBX", "sqlite": "SQLite", "redb": "redb"}
    lost = [store for store in stores if about.loses_all(store, "process")]
    assert formats.listed([names[store] for store in lost if about.reuses(store)], "and") in README
    names |= {"flat": "files", "bdb": "Berkeley DB", "tidesdb": "TidesDB"}
    states = pd.read_csv(ROOT / "data/faults/states.csv").query("durability == 'process'")
    broken = states[states.recoverable + states.cannot_be_mounted < states.states]
    (sentence,) = re.findall(r"a loss of power may cost more than the last writes: .*?\.", README)
    for store in broken.store:
        assert not about.reuses(store) or names[store] in sentence


def test_the_three_lines_say_what_the_paper_says() -> None:
    """The stores with the least bound, and each bound, in the order of README."""
    variables: Any = yaml.safe_load((ROOT / "_variables.yml").read_text(encoding="utf-8"))
    found, needs = (variables["reference"][name] for name in ("safest", "needs"))
    process, recoverable, from_c, small, large = (
        found[name]
        for name in ("process", "recoverable", "recoverable_c", "sync_small", "sync_large")
    )
    said = README.partition("## The answer in three lines")[2].partition("\n## ")[0]
    flat = [
        needs[f"equal_mix_{size}_{level}"]["flat"]
        for level in ("process", "sync")
        for size in ("100_B", "1_MiB")
    ]
    named = [
        (own["store"], own["most"], own["limit"])
        for own in (process, recoverable, from_c, small, large)
    ]
    assert re.findall(r"`([a-z][a-z-]+)`[^()]*\(([\d.]+); ([\d.]+)\)", said) == named
    files = re.findall(
        r"take ([\d.]+) times as long .*? 100 B,? and ([\d.]+) times for 1 MiB", said
    )
    assert [number for pair in files for number in pair] == flat
    reached = [(own["store"], own["anywhere"]) for own in (process, recoverable, small, large)]
    assert f"from C, RocksDB took {from_c['anywhere']} times" in said
    single = said.partition("On single machines and file systems,")[2]
    assert re.findall(r"`([a-z-]+)` (?:reached )?([\d.]*\d)", single) == reached
    assert f"{process['anywhere']} ({process['place']})" in single


@pytest.mark.parametrize("step", ["sentence", "variable", "notebook", "grid", "clock"])
def test_every_step_of_the_trace_is_where_readme_says(step: str) -> None:
    path, quoted = TRACE[step]
    text = path.read_text(encoding="utf-8")
    assert [part for part in quoted if part not in text] == []


def test_the_traced_number_follows_from_its_row() -> None:
    variables: Any = yaml.safe_load((ROOT / "_variables.yml").read_text(encoding="utf-8"))
    stall = variables["latency"]["stall"]
    assert (stall["operation"], stall["store"], stall["slowest"]) == (OPERATION, STORE, NUMBER)
    (table_of_rows, (column, value, _, operation, _)), (table_of_cells, (name,)) = (
        TRACE["row"],
        TRACE["cell"],
    )
    rows = pd.read_parquet(table_of_rows).merge(pd.read_parquet(table_of_cells), on="cell")
    row = rows[(rows.cell == name) & (rows.operation == operation)].squeeze()
    assert row[column] == int(value)
    assert formats.time(row[column]) == NUMBER
    assert (row.store, row.operation, row.access) == (STORE, OPERATION, "c")
    # README traces the row whose slowest call took the largest share of the trial's time.
    rows = rows[(rows.durability == "process") & (rows.operation != "load")]
    assert (rows.max_ns / rows.sum_ns).idxmax() == row.name


@pytest.mark.parametrize("page", [*PAGES, "data/README.md", "harness/shims/stores/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [name for name in local if not (ROOT / page).parent.joinpath(name).exists()] == []


@pytest.mark.check
@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in set(re.findall(r"(?<=[`\n])make ([a-z-]+)", text)):
        run = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False)
        assert b"No rule to make target" not in run.stderr, target
    for command in set(re.findall(r"(?<=[`\n])kvbench ([a-z-]+)", text)):
        run = subprocess.run(["kvbench", command, "--help"], capture_output=True, check=False)
        assert run.returncode == 0, command
    files = re.findall(r"(?<![\w/])(?:harness|notebooks|paper)/[\w./-]+\.\w+", text)
    assert [name for name in files if not (ROOT / name).exists()] == []


def overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def test_the_layout_names_every_folder() -> None:
    named = {name for row in table("folder") for name in code(row[0])}
    assert [name for name in named if not (ROOT / name).is_dir()] == []
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {path.rpartition("/")[0] for path in run.stdout.splitlines()} - {"", ".ci"}
    assert [one for one in sorted(folders) if not any(overlap(one, other) for other in named)] == []


def test_make_help_lists_the_commands_for_users() -> None:
    run = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [
        name for name in ("paper", "test", "render", "bench") if f"make {name} " not in run.stdout
    ] == []


def test_conda_installs_what_pip_does() -> None:
    conda = (ROOT / "environment.yml").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    names = {*project["dependencies"], *(name for extra in extras for name in extra)}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", conda)] == []
