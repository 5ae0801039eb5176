"""The files that describe this work agree with CITATION.cff, which is their only source."""

import json
import tomllib

import pytest
import yaml

from study.answers import citation
from study.common.notebook import root

CITED = yaml.safe_load((root() / citation.SOURCE).read_text())


@pytest.mark.parametrize("name", citation.WRITTEN)
def test_a_file_is_what_would_be_written(name: str) -> None:
    text = (root() / name).read_text()
    assert text == citation.texts(root())[name]
    found = json.loads(text)
    assert found["version"] == CITED["version"]
    assert CITED["title"] in (found.get("title"), found.get("name"))


@pytest.mark.parametrize("path", ["pyproject.toml", "study/pyproject.toml"])
def test_the_version_is_that_of_the_packages(path: str) -> None:
    project = tomllib.loads((root() / path).read_text())["project"]
    assert project["version"] == CITED["version"]


def test_the_latest_release_of_the_changelog_is_cited() -> None:
    text = (root() / "CHANGELOG.md").read_text()
    latest = next(line for line in text.splitlines() if line.startswith("## 0") or "## 1" in line)
    assert latest == f"## {CITED['version']}, {CITED['date-released']}"
