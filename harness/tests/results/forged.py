"""Forged results: each changes honest tables into ones that no sweep can have measured."""

import copy
from typing import Any

import numpy as np
import pyarrow as pa
from kvbench.cell.histogram import LOG_WIDTH, Histogram, quantile
from kvbench.cell.phase import QUANTILES
from kvbench.results.tables import table_of

Row = dict[str, Any]
Tables = dict[str, pa.Table]


class Rows:
    """The rows of tables, to be changed."""

    def __init__(self, tables: Tables) -> None:
        self.rows: dict[str, list[Row]] = {name: own.to_pylist() for name, own in tables.items()}

    def tables(self) -> Tables:
        return {name: table_of("forged", name, rows) for name, rows in self.rows.items()}

    def cell(self, store: str = "", **levels: Any) -> Row:
        """The first measured cell of these levels."""
        return next(
            row
            for row in self.rows["cells"]
            if row["status"] == "ok"
            and row["store"] not in ("null",)
            and (not store or row["store"] == store)
            and all(row[name] == level for name, level in levels.items())
        )

    def operation(self, name: str, **levels: Any) -> Row:
        """The row of an operation in that cell."""
        cell = self.cell(**levels)["cell"]
        return next(
            row
            for row in self.rows["operations"]
            if row["cell"] == cell and row["operation"] == name
        )

    @property
    def machine(self) -> Row:
        return self.rows["machines"][0]


def retime(row: Row, bins: int) -> None:
    """Move all times of an operation by a number of bins of 2%, with all that follows from them."""
    own = np.array(row["histogram_bin"]) + bins
    assert own.min() > 100, "narrower bins than a nanosecond"
    counts = np.array(row["histogram_count"])
    middle = np.exp((own + 0.5) * LOG_WIDTH)
    row["histogram_bin"] = own.tolist()
    row["min_ns"], row["max_ns"] = round(middle[0]), round(middle[-1])
    row["sum_ns"] = int((middle * counts).sum())
    row["sum_ns"] = min(max(row["sum_ns"], row["n"] * row["min_ns"]), row["n"] * row["max_ns"])
    for name, share in QUANTILES.items():
        row[name] = quantile(own.tolist(), counts.tolist(), row["min_ns"], row["max_ns"], share)


def invent(row: Row, mean: float) -> None:
    """Give an operation new times around a mean in ns, as the harness would count them."""
    times = np.random.default_rng(1).uniform(0.8 * mean, 1.2 * mean, row["n"])
    found = Histogram()
    found.add(times.astype(np.uint64))
    row["histogram_bin"], row["histogram_count"] = found.sparse()
    row["sum_ns"], row["min_ns"], row["max_ns"] = found.sum, found.min, found.max
    row |= {name: found.quantile(share) for name, share in QUANTILES.items()}


def another_trial(rows: Rows, bins: int = 0, **levels: Any) -> None:
    """Add a copy of a cell as a further trial, its times moved by a number of bins."""
    cell = copy.deepcopy(rows.cell(**levels))
    same = [row for row in rows.rows["operations"] if row["cell"] == cell["cell"]]
    cell["started"] = "2026-11-26T03:00:00.000+00:00"
    cell["trial"] = 1 + max(row["trial"] for row in rows.rows["cells"])
    name = cell["cell"][:-16] + "0123456789abcdef"
    assert cell["cell"] != name
    cell["cell"] = name
    rows.rows["cells"].append(cell)
    for row in copy.deepcopy(same):
        row["cell"] = name
        if bins:
            retime(row, bins)
        rows.rows["operations"].append(row)
