"""What is said of results that others submitted: machine, versions and days."""

from pathlib import Path

import pytest
from kvbench.common.messages import BadInput
from kvbench.results.bundle import accept, submit

from study.answers import submitted
from study.common.notebook import root


def test_an_accepted_folder_names_its_machine_versions_and_days(tmp_path: Path) -> None:
    submit(root() / "data/logs", tmp_path / "mine.zip")
    out = accept(tmp_path / "mine.zip", tmp_path / "submitted")
    found = submitted.facts(out)
    assert found["name"] == out.name
    assert found["machines"].startswith("AMD EPYC, 2 cores, ")
    assert found["measured"] == "2026-11-28"
    assert "rocksdb 1" in found["engines"]
    assert found["cells"] == 42
    with pytest.raises(BadInput, match="those of"):
        accept(tmp_path / "mine.zip", tmp_path / "submitted")
