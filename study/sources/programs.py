"""What benchmark programs claim about the durability of their writes, and what was observed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from study.common import formats
from study.common.notebook import root

FACTS = ["operations", "status", "writes", "bytes_written", "settled", "level"]
COUNTED = ["unsynced", "unsynced_folders", "mapped"]
SOME = 0.05  # calls per write; fewer calls do not belong to the writes
CALLS = ["fsync", "fdatasync", "msync", "syncfs", "sync", "O_DSYNC", "sync_file_range"]


def observed(folder: Path) -> pd.DataFrame:
    """Return the reports of `kvbench audit --json` in a folder, one row each: `report`, the name of
    its file; FACTS; the number of each of the CALLS; how many files are COUNTED as such; and as
    texts `aside`, the names of files aside, and `unseen`. Paths of the machine are left out."""
    reports = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    rows = [
        {
            "report": name,
            **{fact: found[fact] for fact in FACTS},
            **found["calls"],
            **{kind: len(found[kind]) for kind in COUNTED},
            "aside": " ".join(sorted(Path(path).name for path in found["aside"])),
            "unseen": " ".join(found["unseen"]),
        }
        for name, found in reports.items()
    ]
    return pd.DataFrame(rows)


def _reports() -> pd.DataFrame:
    """Return one row per report, with the columns of observed() and of programs.csv."""
    folder = root() / "data" / "audit"
    claims, seen = (pd.read_csv(folder / name) for name in ("programs.csv", "observed.csv"))
    return claims.merge(seen, on="report", validate="one_to_one")


def _calls(row: "pd.Series[float]", spell: Callable[[float], str]) -> str:
    """Return the sync calls per write, each kind of call by itself; 0 if there are none."""
    each = {call: row[call] / row.operations for call in CALLS}
    some = (f"{spell(count)} {call}" for call, count in each.items() if count >= SOME)
    return ", ".join(some) or "0"


def syncs() -> dict[str, str]:
    """Return, for the text, the sync calls per write of each report."""
    both = _reports()
    each = both.apply(_calls, axis="columns", spell="{:.1f}".format)
    return dict(zip(both.report.str.replace("-", "_"), each, strict=True))


def table() -> pd.DataFrame:
    """Return one row per program and mode, as text: `program`, `store and mode`, `claimed`, its
    durability level, and as observed `sync calls a write`, `write calls a write` and `observed`,
    the level."""
    both = _reports()
    return pd.DataFrame(
        {
            "program": both.program + ", " + both.version,
            "store and mode": both["mode"],
            "claimed": both.claimed,
            "sync calls a write": both.apply(_calls, axis="columns", spell=formats.number),
            "write calls a write": (both.writes / both.operations).map(formats.number),
            "observed": both.level,
        }
    )


if __name__ == "__main__":
    observed(Path(sys.argv[1])).to_csv(root() / "data" / "audit" / "observed.csv", index=False)
