"""The supplement's fifteen questions as a page that a forge can show, with their numbers.

python -m study.answers.questions --out docs/questions.md
"""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any

import nbformat
import yaml

from study.common.notebook import root
from study.common.publish import print_page

SOURCE = "paper/supplement/questions.qmd"
NOTE = (
    f"<!-- Written from {SOURCE}, _variables.yml and the notebooks by "
    "python -m study.answers.questions; not by hand. -->"
)
VARIABLE = re.compile(r"\{\{< var ([\w.-]+) >\}\}")
EMBED = re.compile(r"\{\{< embed \S*/(notebooks/[\w-]+\.ipynb)#([\w-]+) >\}\}")
HEADING = re.compile(r"^# (.+) \{#([\w-]+)\}$", re.MULTILINE)
LINK = re.compile(r"\]\((\.\./)?([\w-]+)\.qmd(?:#[\w-]+)?\)")


def page() -> str:
    """Return the page as Markdown."""
    source = (root() / SOURCE).read_text(encoding="utf-8")
    values = yaml.safe_load((root() / "_variables.yml").read_text(encoding="utf-8"))
    _, head, text = source.split("---\n", 2)
    text = VARIABLE.sub(lambda found: str(_value(values, found[1])), text)
    text = EMBED.sub(lambda found: _table(*found.groups()), text)
    text = HEADING.sub(r'<a id="\2"></a>\n\n## \1', text)
    text = re.sub(r"@tbl-[\w-]+", "the table below", text)
    text = re.sub(r"(^|\. )the table", lambda found: f"{found[1]}The table", text, flags=re.M)
    text = LINK.sub(lambda found: f"]({_page(*found.groups())})", text)
    text = text.replace("](../explorer.html)", "](measuring.md#the-explorer)")
    return f"{NOTE}\n\n# {yaml.safe_load(head)['title']}\n{text}"


def _value(values: Any, name: str) -> object:
    for key in name.split("."):
        values = values[key]
    return values


def _page(above: str | None, name: str) -> str:
    """Return the link to a page of the paper, whose source a forge shows."""
    return f"../paper/{name}.qmd" if above else f"../paper/supplement/{name}.qmd"


def _table(path: str, label: str) -> str:
    """Return the caption and the table that a cell of a notebook shows."""
    (cell,) = (
        cell
        for cell in nbformat.read(root() / path, 4).cells  # type: ignore[no-untyped-call]
        if f"#| label: {label}\n" in cell.source
    )
    caption = re.search(r'#\| tbl-cap: "(.*)"\n', cell.source)
    (shown,) = (output.data["text/markdown"] for output in cell.outputs if "data" in output)
    return f"*{caption[1] if caption else label}*\n\n{shown.strip()}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m study.answers.questions",
        description="Write the fifteen questions with their numbers.",
    )
    return print_page(parser, lambda given: page(), arguments)


if __name__ == "__main__":
    sys.exit(main())
