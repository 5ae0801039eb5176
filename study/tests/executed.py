"""Runs notebooks in the process of the tests, as a kernel runs them."""

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from support import ROOT
from traitlets.config import Config

NOTEBOOKS = ROOT / "notebooks"


@pytest.fixture(scope="module")
def interactive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        yield InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        InteractiveShell.clear_instance()


@pytest.fixture
def shell(interactive: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """The shell with which a kernel runs cells, in the folder of a notebook."""
    monkeypatch.chdir(NOTEBOOKS)
    interactive.reset()
    plt.close("all")
    return interactive


def code_cells(stem: str) -> list[str]:
    """The sources of a notebook's code cells; the first declares the parameters."""
    cells = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", 4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def run(shell: InteractiveShell, stem: str, **parameters: object) -> dict[str, Any]:
    """What the cells of a notebook evaluate to, by their labels. The parameters follow the cell
    that declares them, as papermill has it. What a cell raises is raised."""
    declared, *sources = code_cells(stem)
    given = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    found = {}
    for source in (declared, given, *sources):
        done = shell.run_cell(source, store_history=True)
        done.raise_error()
        found[source.partition("\n")[0].removeprefix("#| label: ")] = done.result
    return found
