"""docs/questions.md, the fifteen questions with their numbers."""

import re

from support import ROOT

from study.answers import questions

PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")


def test_the_committed_page_is_that_of_the_paper() -> None:
    assert questions.page() == PAGE, "run make figures"


def test_the_page_has_every_question_and_nothing_that_only_quarto_reads() -> None:
    source = (ROOT / questions.SOURCE).read_text(encoding="utf-8")
    titles = re.findall(r"^# (.+?) \{#(.+)\}$", source, re.MULTILINE)
    assert len(titles) == 15
    for title, name in titles:
        assert f'<a id="{name}"></a>\n\n## {title}\n' in PAGE
    assert not re.search(r"\{\{<|@\w+-|\{#|\]\((?!https)[^)]*\.html", PAGE)


def test_readme_leads_to_every_question() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\(docs/questions\.md#([\w-]+)\)", readme)
    assert linked == re.findall(r'<a id="([\w-]+)"></a>', PAGE)
