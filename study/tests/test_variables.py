"""The values that the notebooks publish are those that the pages use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from support import ROOT

from study.common import publish

USE = re.compile(r"\{\{<\s*var\s+([\w.-]+)")


def names(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The names of single values, levels separated by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from names(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def test_each_published_value_is_used_and_each_used_one_is_published() -> None:
    """`make figures` writes _variables.yml. Captions of notebooks may use values, as pages do."""
    published = set(names(yaml.safe_load((ROOT / "_variables.yml").read_text(encoding="utf-8"))))
    pages = [*(ROOT / "paper").glob("*.qmd"), *(ROOT / "paper" / "supplement").glob("*.qmd")]
    pages += (ROOT / "notebooks").glob("*.ipynb")
    used = {name for page in pages for name in USE.findall(page.read_text(encoding="utf-8"))}
    assert sorted(used - published) == [], "used in a page, written by no notebook"
    assert sorted(published - used) == [], "written by a notebook, used in no page"


def test_values_are_picked_by_their_names() -> None:
    values = {"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": 4}
    assert publish.pick(values, "f b.d.e b.x g.h") == {"f": 4, "b": {"d": {"e": 3}}, "g": {}}
    assert publish.pick(values, "b") == {"b": values["b"]}
