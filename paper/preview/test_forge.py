"""docs/paper: the paper as Markdown with its numbers."""

import re
from pathlib import Path

import forge
import pytest
from preview import ROOT, Page, read_yaml

OUT = ROOT / "docs" / "paper"
PROJECT = read_yaml(ROOT / "_quarto.yml")
SOURCES = [ROOT / name for name in PROJECT["project"]["render"] if "this-machine" not in name]
LINK = re.compile(r"\]\(([^)\s]+)\)")
ANCHOR = re.compile(r'<a id="([\w-]+)">')


def written(source: Path) -> Path:
    return forge.folder_of(source, OUT) / f"{source.stem}.md"


def test_there_is_a_page_for_each_and_no_other() -> None:
    assert sorted(OUT.rglob("*.md")) == sorted(map(written, SOURCES))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_committed_page_is_that_of_the_paper(source: Path) -> None:
    variables = read_yaml(ROOT / "_variables.yml")
    text = forge.markdown(Page.load(source), OUT, PROJECT, variables)
    assert text == written(source).read_text(encoding="utf-8"), "run make figures"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_page_has_nothing_that_only_quarto_reads_and_no_dead_link(source: Path) -> None:
    page = written(source)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\{\{<|\{#|:::|\[@|(?<![\w.])@(?:tbl|fig|sec)-", text)
    assert str(ROOT) not in text
    for target in LINK.findall(text):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.is_file(), target
        if anchor and other.is_relative_to(OUT):
            assert anchor in ANCHOR.findall(other.read_text(encoding="utf-8")), target


def test_readme_leads_to_every_question() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\(docs/paper/supplement/questions\.md#([\w-]+)\)", readme)
    source = (ROOT / "paper/supplement/questions.qmd").read_text(encoding="utf-8")
    asked = re.findall(r"^# .+ \{#([\w-]+)\}$", source, re.MULTILINE)
    assert list(dict.fromkeys(linked)) == [
        "q-beyond",
        *(name for name in asked if name != "q-beyond"),
    ]
    assert set(asked) <= set(
        ANCHOR.findall(written(ROOT / "paper/supplement/questions.qmd").read_text())
    )
