"""Writes the table of stores in docs/stores.md, from the facts about them.

python -m kvbench.stores.page docs/stores.md
"""

import re
import sys
from pathlib import Path

from kvbench.stores.about import described
from kvbench.stores.bindings import BINDINGS

TABLE = re.compile(r"(<!-- from the stores' TOML files.*? -->\n).*?(?=<!-- end -->)", re.DOTALL)


def table() -> str:
    """The Markdown table of stores: the name, engine and families of each, and the bindings that
    use the engine as its shim does."""
    bound: dict[str, list[str]] = {}
    for name, binding in BINDINGS.items():
        if binding.counterpart:
            bound.setdefault(binding.store, []).append(name)
    rows = (
        (f"`{store}`", facts.name, _code(facts.families), _code(bound.get(store, ())))
        for store, facts in described().items()
    )
    head = ("store", "engine", "families", "from Python"), ("---",) * 4
    return "".join(f"| {' | '.join(row)} |\n" for row in (*head, *rows))


def _code(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def renewed(text: str) -> str:
    """The text of the page with an up-to-date table."""
    return TABLE.sub(lambda found: found[1] + "\n" + table() + "\n", text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
