"""The table of experiments in REPRODUCING.md."""

import re
from pathlib import Path

import pytest
from kvbench.common.messages import BadInput
from kvbench.experiment.listed import Experiment, read
from support import ROOT

from study.answers import repeating, verify
from study.sources import claims

EXPERIMENTS = read(ROOT).experiment


def test_the_committed_table_is_that_of_the_list_and_the_data() -> None:
    text = (ROOT / repeating.PAGE).read_text()
    assert repeating.page(text, repeating.table(ROOT)) == text, "run make figures"


def test_a_page_without_the_markers_is_refused() -> None:
    with pytest.raises(BadInput, match=r"REPRODUCING\.md: no table between"):
        repeating.page("text", "table")


def test_each_experiment_is_judged_as_its_entry_says() -> None:
    for name, one in EXPERIMENTS.items():
        found = {finding.name[0] for finding in verify.FINDINGS if finding.experiment == name}
        assert set(re.findall(r"\b\d\b", one.judged)) == found, name
        assert ("claims" in one.judged) == (name in claims.EXPERIMENTS), name


def test_an_experiment_that_was_not_measured_yet_has_a_row(tmp_path: Path) -> None:
    one = Experiment(("mine",), "My question", name="mine")
    row = " | ".join(repeating.row(one, tmp_path))
    assert row == "My question | `mine` | `mine` |  |  |  |  | `kvbench compare`"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bindings", ["no", "34 min", "27 (6.7) GB", "1.5 GB"]),
        ("files-or-store", ["16 of 844 cells", "90 min", "44 (46) GB", "8.0 GB"]),
        ("durability", ["power failures", "38 min, sharing 5 min, evidence 60 min"]),
        ("cold-cache", ["to evict names and inodes"]),
        ("age", ["all cells, power failures", "12 min, crashes 20 min, openings 40 min"]),
        ("reference-xfs", ["all cells", "30 min"]),
        ("builds", ["no", "8 min, installed 1 min", "at most half of what is free", "0.2 GB"]),
    ],
)
def test_rights_time_and_room_follow_from_the_data(name: str, said: list[str]) -> None:
    found = [*repeating.row(EXPERIMENTS[name], ROOT / "data" / name)]
    assert found[3 : 3 + len(said)] == said
