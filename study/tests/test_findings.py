"""The words of the paper follow from its data, and would not from others (`make falsify`)."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from executed import run
from IPython.core.interactiveshell import InteractiveShell
from kvbench.results.tables import TABLES, read_tables, write_tables
from kvbench.stats import simulated
from support import ROOT

from study.answers import findings
from study.answers.findings import FINDINGS
from study.sources import claims

PARAGRAPHS = [
    " ".join(part.split())
    for part in re.split(
        r"\n\n|\n(?=\d\. )", (ROOT / "paper" / "index.qmd").read_text(encoding="utf-8")
    )
]
USE = re.compile(r"\{\{<\s*var\s+([\w.-]+)")
Change = Callable[[Path], None]


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "_variables.yml").read_text(encoding="utf-8"))
    return found


def paragraph(name: str) -> str:
    """The one that says the words of a finding."""
    (found,) = (part for part in PARAGRAPHS if FINDINGS[name].words in part)
    return found


def test_the_data_support_the_words_of_the_paper() -> None:
    assert list(findings.unsupported(values())) == []
    assert findings.main() == 0
    for name in FINDINGS:
        assert USE.findall(paragraph(name)), "no number stands beside the words"


def timed(factor: float, **levels: str) -> Change:
    """Multiply the times of all operations of the cells at these levels."""

    def change(folder: Path) -> None:
        tables = read_tables(folder)
        cells = tables["cells"].to_pandas()
        own = cells.cell[(cells[list(levels)] == pd.Series(levels)).all(axis=1)]
        assert len(own)
        rows = tables["operations"].to_pandas()
        rows["sum_ns"] = rows.sum_ns.where(~rows.cell.isin(own), rows.sum_ns * factor)
        rows["sum_ns"] = rows.sum_ns.round().astype("int64")
        changed = pa.Table.from_pandas(rows, TABLES["operations"], preserve_index=False)
        write_tables(folder, tables | {"operations": changed})

    return change


def scanned_soon(folder: Path) -> None:
    tables = read_tables(folder)
    cells = tables["cells"].to_pandas()
    cells.loc[cells.label == "recommended", "check_s"] /= 1000
    changed = pa.Table.from_pandas(cells, TABLES["cells"], preserve_index=False)
    write_tables(folder, tables | {"cells": changed})


def undamaged(folder: Path) -> None:
    path = folder / "crashes.csv"
    pd.read_csv(path).assign(damaged_records=0).to_csv(path, index=False)


def unsynced(folder: Path) -> None:
    path = folder / "states.csv"
    states = pd.read_csv(path)
    at = states.durability == "sync"
    states.loc[at, ["lost_an_acknowledged_write", "violations"]] += 1
    states.to_csv(path, index=False)


def tried_once(folder: Path) -> None:
    """Of one trial there is no interval, which a replicated claim needs."""
    for name in claims.EXPERIMENTS:
        tables = read_tables(folder / name)
        cells = tables["cells"].filter(pc.equal(tables["cells"]["trial"], 1))
        kept = {"cells": cells, "machines": tables["machines"]}
        for own in tables.keys() - kept.keys():
            kept[own] = tables[own].filter(pc.is_in(tables[own]["cell"], cells["cell"]))
        write_tables(folder / name, kept)


# What makes the words of each finding wrong, and leaves those of the others alone.
FALSE: dict[str, Change] = {
    "spread": timed(1e5, durability="sync", store="lmdb"),
    "default": timed(0.01, durability="default", store="sqlite"),
    "read-ahead": timed(100, label="recommended", store="lmdb"),
    "scans": scanned_soon,
    "power": unsynced,
    "claims": tried_once,
    "crashes": undamaged,
    "levels": timed(1e-4, store="leveldb", record_size="100 B"),
    "files": timed(10, store="flat", record_size="1 MiB"),
}
FOLDERS = {"verdicts": claims.EXPERIMENTS}  # of a notebook that reads several
NOTEBOOKS = sorted({finding.notebook for finding in FINDINGS.values()})


@pytest.mark.check
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_data_that_contradict_the_words_fail(
    notebook: str,
    shell: InteractiveShell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And change a number that stands beside them."""
    folder = tmp_path / "data"
    for name in FOLDERS.get(notebook, [notebook]):
        shutil.copytree(ROOT / "data" / name, folder / name)
    folder /= "" if notebook in FOLDERS else notebook
    own = [name for name, finding in FINDINGS.items() if finding.notebook == notebook]
    for name in own:
        FALSE[name](folder)
    monkeypatch.setenv("KVBENCH_FIGURES", str(tmp_path / "figures"))
    table = simulated.table  # no finding rests on the simulations, which take a minute
    monkeypatch.setattr(simulated, "table", lambda _, *noises: table(2, *noises))
    run(shell, notebook, results=str(folder))
    before, after = values(), values()
    for path in (tmp_path / "figures").glob("*.yml"):
        after |= yaml.safe_load(path.read_text(encoding="utf-8"))
    assert sorted(findings.unsupported(after)) == sorted(own)
    for name in own:
        used = USE.findall(paragraph(name))
        assert any(value(before, one) != value(after, one) for one in used), name


def value(found: Any, name: str) -> object:
    """A published value by its name, levels separated by dots; None if it is not there."""
    for key in name.split("."):
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found or None
