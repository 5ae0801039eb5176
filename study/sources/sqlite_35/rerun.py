"""SQLite's "35% Faster Than The Filesystem"."""

import pandas as pd

from study.common.fields import over_trials, where
from study.common.results import Results

PANELS = {"readrandom": "speed of a read", "overwrite": "speed of a write", "space": "space"}
CLAIMED = {"readrandom": 1.35, "overwrite": 1.35, "space": 0.8}


def over_files(data: Results) -> pd.DataFrame:
    """Return the over_trials() summary of each panel, store and label: speed and space over those
    of files in one flat folder, trial by trial."""
    files = where(data.operations, store="flat")
    data.require(files[files.operation.isin(PANELS)], f"{' or '.join(list(PANELS)[:2])} of flat")
    space = data.cells.set_index("cell").disk_bytes
    found = []
    for panel in PANELS:
        rows = where(data.operations, operation="readrandom" if panel == "space" else panel)
        value = rows.cell.map(space) if panel == "space" else 1 / rows.mean_ns
        cooled = rows.cooled & (panel != "space")
        rows = rows.assign(panel=panel, value=value, cooled=cooled).set_index(["label", "trial"])
        flat = where(rows, store="flat").value
        found.append(rows.assign(value=rows.value / flat.reindex(rows.index)))
    return over_trials(pd.concat(found).reset_index(), "value", ["panel", "store", "label"])
