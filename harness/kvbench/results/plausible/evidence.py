"""The tables of a folder as frames for the rules of plausibility."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import pandas as pd
import pyarrow as pa

from kvbench.cell.bindings import full_name

LISTS = ("histogram_bin", "histogram_count", "timeline")  # columns of operations


class Evidence(NamedTuple):
    """The tables of a folder, `all_cells` with the column full_name, and what was measured:
    `cells` with the columns of their machine, and `operations` with those of their cell and its
    machine. A column whose name the row's own table has, too, ends in _of_cell or _of_machine."""

    tables: Mapping[str, pa.Table]
    machines: pd.DataFrame
    all_cells: pd.DataFrame
    cells: pd.DataFrame
    operations: pd.DataFrame

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Self:
        machines, everything = (tables[name].to_pandas() for name in ("machines", "cells"))
        everything["binding"] = everything.binding.fillna("")
        everything["full_name"] = list(map(full_name, everything.store, everything.binding))
        joined = everything.merge(machines, on="machine", suffixes=("", "_of_machine"))
        cells = joined[joined.status == "ok"]
        rows = tables["operations"].drop_columns(list(LISTS)).to_pandas()
        rows = rows.merge(cells, on="cell", suffixes=("", "_of_cell"))
        return cls(tables, machines, everything, cells, rows)
