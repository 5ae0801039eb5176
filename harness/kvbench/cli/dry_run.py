"""What `kvbench sweep --dry-run` prints: the cells, their bytes and the expected time."""

from collections.abc import Sequence
from typing import NamedTuple

import click
from tabulate import tabulate

from kvbench.experiment.factors import non_default
from kvbench.machine.description import fsync_milliseconds
from kvbench.machine.scratch import own_folder
from kvbench.results.folder import Folder
from kvbench.sweep.again import due
from kvbench.sweep.sweep import Sweep


class Planned(NamedTuple):
    """A planned cell: the reason not to measure it, its bytes and seconds, whether it belongs to
    the least number of trials, and whether it is needed but has no result."""

    why: str
    loaded: int
    seconds: float
    certain: bool
    left: bool


def print_plan(sweep: Sweep) -> None:
    """Print what the sweep would measure. Raises BadInput if the sweep cannot be measured here."""
    sweep.check()
    # A dry run makes no folder for the stores: time the device's sync in the nearest one above.
    with own_folder(sweep.nearest()) as (probe, _):
        fsync_ms = fsync_milliseconds(probe)
    fsync_ms = max(fsync_ms, sweep.delays.sync / 1000 if sweep.delays else 0)
    begun = sweep.begun()
    done = {}
    if begun:
        folder = Folder(sweep.out)
        done = folder.done(installed=True)
        for cell in due(folder, (cell for _, cell, _ in sweep.plan(done)), done, sweep.repeats):
            del done[cell]
    left = {cell for _, cell, _ in sweep.plan(done)} - done.keys()
    rows, plan, fit = [], [], []
    for grid, cell, skip_reason in sweep.plan():
        why = skip_reason or sweep.stores[cell.full_name].reason
        cost = 0 if why else sweep.cost(cell, fsync_ms)
        loaded = 0 if why else cell.live_bytes
        fit += [] if why or cell not in left else [cell]
        plan.append(
            Planned(why, loaded, cost, cell.trial in grid.up_to(grid.trials[0]), cell in left)
        )
        if cell.trial == grid.first_trial:
            levels = ", ".join(non_default(cell))
            factors = (cell.full_name, cell.record_size, cell.records, cell.compressibility, levels)
            rows.append((*factors, why or f"{cell.live_bytes:,} B, {cost:.1f} s"))
    headers = ("store", "record size", "records", "compressibility", "levels", "each trial")
    click.echo(tabulate(sorted(rows), headers=headers))
    least, most = (max(grid.trials[end] for grid in sweep.grids) for end in (0, 1))
    _print_total(f"{least} trials", [cell for cell in plan if cell.certain])
    if least < most:
        _print_total(f"{most} trials, if nothing is decided", plan)
    if begun:
        _print_total("left", [cell for cell in plan if cell.left])
    sweep.warn(fit)
    if sweep.fs:
        click.echo(f"{sweep.fs} of their own: a file of {sweep.file_system_bytes():,} bytes")


def _print_total(what: str, plan: Sequence[Planned]) -> None:
    measured = sum(1 for cell in plan if not cell.why)
    click.echo(
        f"{what}: {measured} cells to measure, {len(plan) - measured} not, "
        f"{sum(cell.loaded for cell in plan):,} bytes to load, "
        f"about {sum(cell.seconds for cell in plan) / 60:.1f} minutes"
    )
