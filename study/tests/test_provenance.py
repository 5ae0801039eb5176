"""The page of `python -m study.answers.provenance` on the committed data."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT, forked

from study.answers import provenance

DATA = ROOT / "data"


def test_the_committed_page_is_that_of_the_data() -> None:
    assert (DATA / "PROVENANCE.md").read_text() == provenance.page(DATA), "run make figures"


def test_the_page_has_every_folder_of_measurements() -> None:
    page = provenance.page(DATA)
    for path in DATA.glob("*/cells.parquet"):
        (line,) = (one for one in page.splitlines() if one.startswith(f"| {path.parent.name} "))
        cells = pd.read_parquet(path, columns=["machine", "revision", "started"])
        for value in {*cells.machine, *cells.started.str[:10].agg(["min", "max"])}:
            assert value in line
        for revision in set(cells.revision):
            assert revision[: provenance.SHORT] in line
            assert revision.endswith("-dirty") <= ("-dirty" in line)


def test_folders_of_the_same_code_share_a_letter() -> None:
    names = {"a": ["1", "2"], "b": ["3"], "c": ["2", "4"], "d": ["4", None], "e": [None]}
    cells = {name: pd.DataFrame({"checksum": sums, "access": "c"}) for name, sums in names.items()}
    cells["f"] = cells["a"].assign(access="python")
    assert provenance.codes(cells) == ["A", "B", "A", "A", "", ""]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return forked(provenance.main, *arguments)


def test_the_command_writes_the_page_of_any_folder(tmp_path: Path) -> None:
    (tmp_path / "space").symlink_to(DATA / "space")
    done = run(tmp_path, "--out", tmp_path / "page.md")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "| space " in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize("name", ["missing", ""])
def test_a_folder_without_data_is_refused(tmp_path: Path, name: str) -> None:
    done = run(tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and str(tmp_path / name) in done.stderr
