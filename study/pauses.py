"""How long cells spent outside the timed loop: earlier revisions planned operations meanwhile."""

import re

import pandas as pd

from study.results import Results

FILES = ("flat", "nested")
PART = re.compile(r".+ (get|update|insert|scan|read|write)")  # of a step, whose time it shares


def outside(data: Results) -> pd.DataFrame:
    """For each cell of an engine: its store, the records read or written (`items`) in the timed
    loop, the `seconds` that its rounds or steps spent outside, and their `share` of the whole.

    Those seconds also hold a look at the page cache before the steps, and at the blocks of the
    store's files after each; of stores that are folders of files this is nearly all, so they are
    left out. All operations of a cell must have been timed.
    """
    rows = data.operations[data.operations.operation != "load"]
    rows = rows[~rows.operation.map(lambda name: bool(PART.fullmatch(name)))]
    inside = rows.groupby("cell")[["wall_s", "items"]].sum()
    cells = data.cells[~data.cells.store.isin(FILES)].set_index("cell")
    seconds = cells.rounds_s - inside.wall_s
    columns = {"store": cells.store, "items": inside["items"], "seconds": seconds}
    return pd.DataFrame({**columns, "share": seconds / cells.rounds_s}, index=cells.index)
