"""Results that others measured and submitted: the folders that `kvbench accept` made."""

from pathlib import Path
from typing import Any

from kvbench.results.frames import Frames

from study.common import formats
from study.common.notebook import root

FOLDER = "data/submitted"


def folders() -> dict[str, Path]:
    """Return the accepted folders by name, the latest last."""
    found = sorted((root() / FOLDER).glob("*/cells.parquet"))
    return {f"submitted {path.parent.name}": path.parent for path in found}


def facts(folder: Path) -> dict[str, Any]:
    """Return what is known of an accepted folder, as text: its `machines`, the days on which it was
    `measured`, its `engines` with their versions, and its number of `cells`."""
    found = Frames.read(folder)
    cells = found.cells[found.cells.status == "ok"]
    days = sorted(set(cells.started.str[:10]))
    engines = cells.groupby("full_name").engine_version.unique()
    machines = [
        f"{row['cpu']}, {row['cores']} cores, {formats.size(row['memory_bytes'])} of memory, "
        f"{row['file_system']}, {row['kernel']}"
        for row in found.machines.to_dict("records")
    ]
    return {
        "name": folder.name,
        "machines": "; ".join(machines),
        "measured": " to ".join(dict.fromkeys((days[0], days[-1]))),
        "engines": ", ".join(f"{name} {' and '.join(own)}" for name, own in engines.items()),
        "cells": len(cells),
    }
