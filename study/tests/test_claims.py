"""A claim is a row of claims.csv."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
from kvbench.common.messages import BadInput
from kvbench.experiment import listed
from kvbench.experiment.grid import read_grids
from kvbench.stores.catalogue import names
from support import ROOT

from study.sources import claims
from study.sources.table import Source, limit
from study.sources.verdicts import Claim, Figure, Limit, Side

ROW = {
    "id": "X-1", "source": "someone", "section": "1", "claim": "b reads faster than a, {times}",
    "statistic": "ratio", "store": "a", "operation": "get", "settings": "theirs", "versus": "b",
    "equal": "ours", "limit": "> 1", "published": "{times}",
}  # fmt: skip
SOURCE = Source("", "e", stores=("a", "b", "c"), text=lambda name, row: f"{row.store} {name}")


def read(folder: Path, source: Source = SOURCE, **cells: str) -> Claim:
    row = ROW | cells
    lines = [",".join(f'"{cell}"' for cell in part) for part in (row, row.values())]
    (folder / "claims.csv").write_text("\n".join(lines) + "\n")
    (claim,) = dataclasses.replace(source, file=str(folder / "claims.py")).claims()
    return claim


def of(figure: Figure | str | None) -> Figure:
    assert isinstance(figure, Figure)
    return figure


def sides(figure: Figure | str | None) -> list[tuple[str, str, Any]]:
    return [(one.store, one.operation, one.where["label"]) for one in of(figure).sides]


def test_a_ratio_has_two_sides_at_two_settings(tmp_path: Path) -> None:
    claim = read(tmp_path)
    assert (claim.claim, claim.published) == ("b reads faster than a, a times", "a times")
    assert of(claim.source).text == "time, get: a / b"
    assert sides(claim.source) == [("a", "get", "theirs"), ("b", "get", "theirs")]
    assert sides(claim.equal) == [("a", "get", "ours"), ("b", "get", "ours")]


def test_another_side_differs_in_what_the_row_names(tmp_path: Path) -> None:
    cells = {"versus": "", "versus_operation": "put", "versus_settings": "plain", "equal": ""}
    claim = read(tmp_path, **cells)
    assert sides(claim.source) == [("a", "get", "theirs"), ("a", "put", "plain")]
    assert claim.equal is None


def test_a_row_says_why_there_is_no_figure(tmp_path: Path) -> None:
    claim = read(tmp_path, settings="none: {nothing} like it", equal="")
    assert claim.source == "a nothing like it"


def test_several_stores_make_one_extreme(tmp_path: Path) -> None:
    claim = read(tmp_path, statistic="least-ratio", store="a;c", text="the best of a, c / b")
    assert of(claim.source).text == "the best of a, c / b"
    assert [store for store, *_ in sides(claim.source)] == ["a", "b", "c", "b"]


@pytest.mark.parametrize(
    ("statistic", "text"),
    [
        ("share", "share of fields (all) with a best"),
        ("share 1.1", "share of fields (all) with a within 10% of the best"),
        ("place 1", "times as good as the best of the others (all): a"),
        ("spread", "median over fields (all): greatest / least"),
        ("median", "median over fields (all): 1,000 / 100"),
        ("greatest", "greatest over fields (all): 1,000 / 100"),
    ],
)
def test_statistics_of_fields(statistic: str, text: str, tmp_path: Path) -> None:
    steps = {"by": "records", "levels": "1000;100"} if statistic in ("median", "greatest") else {}
    claim = read(tmp_path, statistic=statistic, name="all", **steps)
    assert of(claim.source).text == text


def test_a_source_has_statistics_and_settings_of_its_own(tmp_path: Path) -> None:
    source = dataclasses.replace(
        SOURCE,
        terms=lambda store, operation, settings: {"label": f"{store} as {settings}"},
        statistics={"odd": lambda case, word: Figure(f"{word} {case.settings}", None, (case.one,))},
    )
    claim = read(tmp_path, source, statistic="odd very")
    assert of(claim.source).text == "very theirs"
    assert of(claim.source).sides == (Side("e", "get", {"store": "a", "label": "a as theirs"}),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("> 1", Limit(">", 1)),
        ("<= 4 theirs", Limit("<=", 4, theirs=True)),
        ("> 0.5 once", Limit(">", 0.5, once=True)),
        ("within 0.8 x 1.1", Limit("within", 0.8, 1.1)),
        ("within 9 x 1/0.98", Limit("within", 9, 1 / 0.98)),
        ("> 64/2", Limit(">", 32)),
    ],
)
def test_limits_are_read(text: str, found: Limit) -> None:
    assert limit(text) == found


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"statistic": "ration"}, "X-1: statistic 'ration' is unknown; allowed: .*'ratio'"),
        ({"limit": "about 1"}, "X-1: limit 'about 1': allowed: > 1, "),
        ({"sort": "x"}, r"claims.csv: unknown columns \['sort'\]; allowed: .*'statistic'"),
    ],
)
def test_a_wrong_row_is_refused_by_name(cells: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        read(tmp_path, **cells)


@functools.cache
def labels(experiment: str) -> set[str]:
    """The labels of the parts of an experiment's grid, at the scale at which it is measured."""
    own = listed.read(ROOT).experiment[experiment]
    grid = ROOT / "harness/grids" / f"{own.grid}.toml"
    return {part.label for part in read_grids(grid, names(), {}, own.scale)}


@pytest.mark.parametrize("module", claims.MODULES, ids=lambda module: module.SOURCE.experiment)
def test_settings_are_parts_of_the_experiment(module: Any) -> None:
    """A misspelt one would only find that nothing was measured."""
    figures = [one for claim in module.SOURCE.claims() for one in (claim.source, claim.equal)]
    for figure in (one for one in figures if isinstance(one, Figure)):
        for side in figure.sides:
            named = side.where.get("label", "")
            known = labels(side.experiment)
            assert {named} <= known if isinstance(named, str) else set(named) <= known, figure.text
