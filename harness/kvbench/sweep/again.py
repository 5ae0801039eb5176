"""Decides which trials of a field are measured again because the machine's host disturbed them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kvbench.cell.factors import Cell
from kvbench.experiment.decide import field_of
from kvbench.machine.noise import disturbances
from kvbench.results.folder import DISTURBED, Folder

Results = Mapping[Cell, Mapping[str, Any]]
Trial = tuple[Cell, int]  # a field, as returned by decide.field_of, and the number of the trial


def trial_of(cell: Cell) -> Trial:
    return field_of(cell), cell.trial


def repeated(result: Mapping[str, Any]) -> int:
    """How often the trial of a result had been measured before."""
    return int(result.get("repeated") or 0)


def disturbed(result: Mapping[str, Any]) -> dict[str, str]:
    """What disturbed the cell of a result; see noise.disturbances."""
    return disturbances({**result, **result["cell"]})


class Again(NamedTuple):
    """`number` says how often each trial is measured again, by trial; 0 if it is missing. `stale`
    are the cells whose results were measured before that, and count no longer."""

    number: Counter[Trial]
    stale: list[Cell]


def again(cells: Iterable[Cell], results: Results, before: Counter[Trial], most: int) -> Again:
    """Which of the cells are measured again, `most` times at most, given the results so far.
    `before` says how often trials are measured again already. A trial that has all its results is
    measured once more if one of its cells was disturbed. It has then no result of any store that
    could be measured, so that all stores are compared as they were measured together."""
    trials: dict[Trial, list[Cell]] = defaultdict(list)
    for cell in cells:
        trials[trial_of(cell)].append(cell)
    number, stale = Counter[Trial](), []
    for trial, own in trials.items():
        found = {cell: results[cell] for cell in own if cell in results}
        times = max([before[trial], *map(repeated, found.values())])
        if len(found) == len(own) and times < most:
            times += any(map(disturbed, found.values()))
        number[trial] = times
        measured = (cell for cell, own in found.items() if own["status"] in ("ok", "failed"))
        stale += [cell for cell in measured if repeated(found[cell]) < times]
    return Again(number, stale)


def begun(folder: Folder, machine: str = "") -> Counter[Trial]:
    """How often trials are measured again, according to the results of the installed code that a
    folder has set aside, of one machine or of all."""
    found = Counter[Trial]()
    for cell, result in folder.set_aside(installed=True):
        if machine in ("", result.get("machine")):
            found[trial_of(cell)] = max(found[trial_of(cell)], repeated(result) + 1)
    return found


def due(folder: Folder, cells: Iterable[Cell], done: Collection[Cell], most: int) -> set[Cell]:
    """The cells that are `done` according to a folder, but that a sweep measures again. `cells` are
    all that it plans."""
    current = {Cell.from_factors(found["cell"]): found for found in folder.current().values()}
    return set(again(cells, {cell: current[cell] for cell in done}, begun(folder), most).stale)


def summary(folder: Folder) -> str:
    """A line that says how many trials of a folder were measured again, and why; empty if none
    was."""
    trials = {
        (result.get("machine"), trial_of(Cell.from_factors(result["cell"])))
        for result in folder.current().values()
        if repeated(result)
    }
    if not trials:
        return ""
    why = Counter(what for _, result in folder.set_aside() for what in disturbed(result))
    cells = ", ".join(f"{count} cells {what}" for what, count in sorted(why.items()))
    where = folder.path / DISTURBED if why else "where they were measured"
    return (
        f"measured again: {len(trials)} trials of fields, each with all its stores"
        f"{f', after {cells}' if why else ''}; the earlier results are kept, {where}"
    )
