"""What benchmark programs claim of their writes, and what they were seen to do."""

import json
import sys
from pathlib import Path

import pandas as pd

from study import formats
from study.notebook import root

FACTS = ["operations", "status", "syncs", "map_syncs", "writes", "bytes_written", "level"]
COUNTED = ["unsynced", "mapped"]  # files


def observed(folder: Path) -> pd.DataFrame:
    """The reports in a folder that `kvbench audit --json` made, a row each, without the paths of
    the machine."""
    reports = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    rows = [
        {
            "report": name,
            **{fact: found[fact] for fact in FACTS},
            **{f"{kind}_files": len(found[kind]) for kind in COUNTED},
            "unseen": " ".join(found["unseen"]),
        }
        for name, found in reports.items()
    ]
    return pd.DataFrame(rows)


def _reports() -> pd.DataFrame:
    """A row a report, with what the program claims."""
    folder = root() / "data" / "audit"
    claims, seen = (pd.read_csv(folder / name) for name in ("programs.csv", "observed.csv"))
    return claims.merge(seen, on="report", validate="one_to_one")


def syncs() -> dict[str, str]:
    """For the text: the sync calls of a write, by the report."""
    both = _reports()
    each = (both.syncs / both.operations).map("{:.1f}".format)
    return dict(zip(both.report.str.replace("-", "_"), each, strict=True))


def table() -> pd.DataFrame:
    """A row a program and mode: the durability level that it claims, and what was observed."""
    both = _reports()
    return pd.DataFrame(
        {
            "program": both.program + ", " + both.version,
            "store and mode": both["mode"],
            "claimed": both.claimed,
            "sync calls a write": (both.syncs / both.operations).map(formats.number),
            "write calls a write": (both.writes / both.operations).map(formats.number),
            "observed": both.level,
        }
    )


if __name__ == "__main__":
    observed(Path(sys.argv[1])).to_csv(root() / "data" / "audit" / "observed.csv", index=False)
