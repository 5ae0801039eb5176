"""Record which machine, kernel and revision of the harness measured each folder of data.

    python -m study.answers.provenance [DATA] [--out FILE]     # DATA: a folder of results folders

It writes a Markdown table with one row per folder; data/PROVENANCE.md is the table of data/.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

import pandas as pd
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.frames import Frames

from study.common import formats, publish
from study.common.notebook import root

HEAD = """# Provenance

Written by `python -m study.answers.provenance` from each folder's tables `cells` and `machines`.

- **machine** includes the file system of the stores: one host has several.
- **revision** is the commit that the shims were built from; `-dirty`: the work tree had changes.
- **code**: folders with the same letter were measured from C by the same build (column `checksum`).
- **measured**: the first and the last day, in UTC.
- **trials** is the greatest number of trials of a cell; **ok** counts the cells that were measured.
"""
SHORT = 7  # digits of a revision in the table


def row(name: str, found: Frames) -> dict[str, object]:
    """Return what is recorded of a results folder."""
    cells, machines = found.cells, found.machines
    days = cells.started.dropna().str[:10]
    return {
        "folder": name,
        "machine": listed(machines.machine),
        "processor": listed(machines.cpu + ", " + machines.cores.map("{:.0f} cores".format)),
        "kernel": listed(machines.kernel),
        "file system": listed(machines.file_system),
        "read-ahead": listed(machines.read_ahead_bytes.dropna().map(formats.size)),
        "revision": listed(cells.revision.dropna().map(short)),
        "measured": listed([days.min(), days.max()], " to ") if len(days) else "",
        "trials": cells.trial.nunique(),
        "cells": len(cells),
        "ok": int((cells.status == "ok").sum()),
    }


def codes(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return a letter for each folder with cells measured from C. Folders that share a checksum
    have the same letter; a checksum covers the code that all stores share."""
    sums = [set(own[own.access == "c"].checksum.dropna()) for own in cells.values()]
    groups: list[set[str]] = []
    for own in sums:
        joined = [group for group in groups if group & own]
        groups = [*(group for group in groups if group not in joined), own.union(*joined)]
    letters: dict[int, str] = {}
    for own in filter(None, sums):
        at = [own <= group for group in groups].index(True)
        letters.setdefault(at, ascii_uppercase[len(letters)])
    return [letters[[own <= group for group in groups].index(True)] if own else "" for own in sums]


def listed(values: Iterable[object], between: str = ", ") -> str:
    """Return each value once, as text."""
    return between.join(dict.fromkeys(map(str, values))) or NOT_STATED


def short(revision: str) -> str:
    digits, dash, rest = revision.partition("-")
    return digits[:SHORT] + dash + rest


def page(data: Path) -> str:
    """Return the page of a folder of results folders. Raises BadInput if none has collected
    tables."""
    folders = sorted(path.parent for path in data.glob("*/cells.parquet"))
    if not folders:
        raise BadInput(
            f"DATA: {str(data)!r} has no folder of collected tables; run `kvbench collect`"
        )
    frames = {folder.name: Frames.read(folder) for folder in folders}
    shown = pd.DataFrame([row(*own) for own in frames.items()])
    same = codes({name: own.cells for name, own in frames.items()})
    shown.insert(list(shown).index("revision") + 1, "code", same)
    return f"{HEAD}\n{formats.table(shown, disable_numparse=True)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m study.answers.provenance",
        description="List what measured each folder of data.",
    )
    parser.add_argument("data", type=Path, nargs="?", help="a folder of results folders; data/")
    return publish.print_page(parser, lambda given: page(given.data or root() / "data"), arguments)


if __name__ == "__main__":
    sys.exit(main())
