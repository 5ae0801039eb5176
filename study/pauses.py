"""How long cells spent outside the timed loop: earlier revisions planned operations meanwhile."""

import re

import pandas as pd

from study.results import Results

FILES = ("flat", "nested")
PART = re.compile(r".+ (get|update|insert|scan|read|write)")  # of a step, whose time it shares


def outside(data: Results) -> pd.DataFrame:
    """For each cell of an engine: its store, and the `share` of its rounds or steps that was spent
    outside the timed loop.

    That time also holds a look at the page cache before the steps, and at the blocks of the
    store's files after each; of stores that are folders of files this is nearly all, so they are
    left out. All operations of a cell must have been timed.
    """
    rows = data.operations[data.operations.operation != "load"]
    rows = rows[~rows.operation.map(lambda name: bool(PART.fullmatch(name)))]
    inside = rows.groupby("cell").wall_s.sum()
    cells = data.cells[~data.cells.store.isin(FILES)].set_index("cell")
    return pd.DataFrame({"store": cells.store, "share": 1 - inside / cells.rounds_s}, cells.index)
