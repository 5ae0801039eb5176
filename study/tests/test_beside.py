"""The page that compares a reader's results with the paper's, on committed data."""

import re
import subprocess
from pathlib import Path

import pytest
from support import forked

from study.answers import beside as page


def beside(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked(page.main, *arguments)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.check
def test_the_paper_beside_itself_shows_each_value_twice(tmp_path: Path) -> None:
    out = tmp_path / "beside.md"
    assert beside("data/reference", "--out", str(out)).returncode == 0
    heads = {"operation", "store"}
    found = [row for row in rows(out.read_text()) if row[0] not in heads and len(row) > 1]
    facts, fields, stores = (
        [row for row in found if len(row) == width and condition(row)]
        for width, condition in (
            (3, lambda row: not re.fullmatch(r"\d+\.\d\d", row[1])),
            (7, lambda _: True),
            (3, lambda row: re.fullmatch(r"\d+\.\d\d", row[1])),
        )
    )
    assert len(facts) >= 6 and all(row[1] == row[2] for row in facts if row[1] != "the paper")
    assert len(fields) >= 40 and all(row[4] == row[5] and row[6] == "1.00" for row in fields)
    assert len(stores) >= 13 and all(row[1] == row[2] for row in stores)


@pytest.mark.check
def test_another_machine_is_compared_in_the_fields_that_both_have() -> None:
    done = beside("data/second-machine")
    assert done.returncode == 0
    fields = [row for row in rows(done.stdout) if len(row) == 7][1:]
    assert fields and all(float(row[6]) >= 1 for row in fields if row[6] != "not ranked")
    assert any(row[4] != row[5] for row in fields)


def test_results_of_other_fields_are_named_so() -> None:
    done = beside("data/durability")
    assert done.returncode == 0
    assert done.stdout.startswith("The paper has no field of these results")


def test_a_folder_that_is_not_there_is_an_error_of_one_line() -> None:
    done = beside("build/none")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("beside: ")
