"""Decides how many trials a field needs: enough to know its best stores."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kvbench.cell.factors import Cell
from kvbench.experiment.grid import Grid
from kvbench.stats.regret import rank

Means = Mapping[Cell, Mapping[str, float]]  # mean times in ns of each finished cell, by operation


def means(result: Mapping[str, Any]) -> dict[str, float]:
    """The mean time in ns of each operation of a result, without the load; empty if it was not
    measured."""
    return {
        row["operation"]: row["sum_ns"] / row["n"]
        for row in result.get("operations", ())
        if row["operation"] != "load" and row["sum_ns"] and row["n"]
    }


def field_of(cell: Cell) -> Cell:
    """A cell that stands for a field: the given one without its store, options and trial; of its
    binding only the access remains. In rankings a field also has one operation, but all operations
    of a cell are measured together."""
    return dataclasses.replace(
        cell, store="", binding=cell.binding and "python", options="", trial=1
    )


def needed(grid: Grid, done: Means) -> list[Cell]:
    """All cells of the grid that are needed, measured or not, given the results so far. A field
    needs its trials up to the first look at which it is decided or still incomplete."""
    fields = defaultdict(list)
    for cell in grid.cells():
        fields[field_of(cell)].append(cell)
    trials = {field: _trials(cells, grid, done) for field, cells in fields.items()}
    return [cell for cell in grid.cells() if cell.trial in trials[field_of(cell)]]


def lacking(cells: Sequence[Cell], grid: Grid, done: Means) -> list[Cell]:
    """The cells of one field that are needed and have no result."""
    trials = _trials(cells, grid, done)
    return [cell for cell in cells if cell.trial in trials and cell not in done]


def _trials(cells: Sequence[Cell], grid: Grid, done: Means) -> range:
    *looks, most = grid.looks()
    for number in looks:
        trials = grid.up_to(number)
        found = [cell for cell in cells if cell.trial in trials]
        if not all(cell in done for cell in found) or _decided(found, trials, done):
            return trials
    return grid.up_to(most)


def _decided(cells: Sequence[Cell], planned: range, done: Means) -> bool:
    """Whether the best stores of each operation are known. All means count here, even those that a
    study excludes."""
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        for operation, mean in done[cell].items():
            found[operation][cell.full_name][cell.trial] = mean
    return all(rank(stores, planned).decided for stores in found.values())
