"""The columns of the result tables: the type, the unit and the meaning of each.

    python -m kvbench.results.columns data/README.md    # write the meanings into that page

columns.toml defines all columns but the factors of a cell, which experiment/factors.py explains.
"""

import dataclasses
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvbench.common.files import write_whole
from kvbench.experiment.factors import FACTORS

KINDS = {
    "name": pa.string(), "text": pa.string(), "int": pa.int64(), "real": pa.float64(),
    "bins": pa.list_(pa.int32()), "counts": pa.list_(pa.int64()),
}  # fmt: skip
KEYS = {"cells": 1, "operations": 2, "timeline": 3, "machines": 1}  # number of columns in the key


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table. `kind` is a key of KINDS; a "name" is restricted to plain characters.
    `needed` says which rows must have a value: "given" (all rows), "always" (rows that a sweep
    wrote, not imported ones), "measured" (rows of cells that a sweep measured) or "" (none).
    `default` is the level that holds for results written before the column existed, or None."""

    name: str
    kind: str
    meaning: str
    unit: str = ""
    needed: str = ""
    key: bool = False  # with the table's other keys it identifies a row
    default: str | int | None = None

    @property
    def type(self) -> pa.DataType:
        return KINDS[self.kind]

    @property
    def optional(self) -> bool:
        """Whether a table written by an older version may lack the column."""
        return not self.needed or self.default is not None


def _factors() -> list[Column]:
    return [
        Column(
            name,
            "int" if factor.column is int else "text",
            factor.meaning,
            factor.unit,
            "given" if name in ("store", "record_size", "records") else "always",
            default=None if factor.default is dataclasses.MISSING else factor.default,
        )
        for name, factor in FACTORS.items()
        if name != "operations"
    ]


def _columns(table: str, stated: Mapping[str, Any]) -> tuple[Column, ...]:
    found = [Column(name, **facts) for name, facts in stated.items()]
    if table == "cells":
        found[1:1] = _factors()
    return tuple(dataclasses.replace(own, key=at < KEYS[table]) for at, own in enumerate(found))


COLUMNS = {
    table: _columns(table, stated)
    for table, stated in tomllib.loads(
        files("kvbench.results").joinpath("columns.toml").read_text(encoding="utf-8")
    ).items()
}


def explained(page: str) -> str:
    """The text of a page in which the table of columns below each table's heading (## and the
    table's name) is replaced by the current columns."""

    def table(section: re.Match[str]) -> str:
        rows = [(own.name, own.type, own.unit, own.meaning) for own in COLUMNS[section["name"]]]
        lines = [f"| {' | '.join(map(str, row))} |\n".replace("|  |", "| |") for row in rows]
        head = "| column | type | unit | meaning |\n|---|---|---|---|\n"
        return section["head"] + head + "".join(lines)

    names = "|".join(COLUMNS)
    section = rf"(?P<head>^## (?P<name>{names})\n(?:(?!## |\|).*\n)*)(?:\|.*\n)+"
    return re.sub(section, table, page, flags=re.M)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        write_whole(path, explained(path.read_text(encoding="utf-8")).encode())
