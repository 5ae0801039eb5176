"""Injects faults, tries bad inputs, and counts the failures to handle them.

    python harness/checks/torture [--short] [--seed N] [--out FOLDER] [--store NAME]... [PART...]

prints a table and writes it to FOLDER/torture.csv. The exit status is 1 if a count that must be
zero is not.
"""

import dataclasses
import functools
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
import pandas as pd
from kvbench.cli import STOPPED
from kvbench.common.files import write_whole
from kvbench.common.messages import say
from kvbench.common.processes import STOPS, die_with_parent
from kvbench.machine import description
from kvbench.machine.scratch import scratch
from kvbench.machine.shelf import OWNER, end_processes
from kvbench.stores import catalogue
from table import Form, Row, rows_of, show

PARTS = ("kills", "disks", "lies", "stateful", "mutations", "sanitizers")


@click.command()
@click.argument("parts", nargs=-1, metavar="[PART]...", type=click.Choice(PARTS))
@click.option("--short", is_flag=True, help="Try fewer of each, as make check does.")
@click.option("--seed", default=1, show_default=True, help="The seed of every random choice.")
@click.option("--store", "only", multiple=True, help="The only stores to try, in stateful.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/torture"),
    show_default=True,
    help="The folder for the table.",
)
def main(parts: Sequence[str], short: bool, seed: int, only: tuple[str, ...], out: Path) -> None:
    """Inject faults into sweeps, feed them wrong answers and damaged files, and count what gets
    through."""
    out.mkdir(parents=True, exist_ok=True)
    for number in STOPS:  # sweeps would inherit that background jobs ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    start, aside = time.monotonic(), Path(tempfile.gettempdir())
    try:
        with scratch(aside) as place:
            found = _run(parts or PARTS, Form(short, seed, place, only))
            rows = [row for row, _ in found]
            if not (clean := all(row.clean() for row in rows)):
                kept = place.rename(aside / f"torture-{os.getpid()}")
    except KeyboardInterrupt:
        say("torture: stopped; nothing was kept")
        raise SystemExit(STOPPED) from None
    run_s = time.monotonic() - start
    table = pd.DataFrame([dataclasses.asdict(row) for row in rows]).assign(
        wall_s=[seconds for _, seconds in found],
        form="short" if short else "long",
        seed=seed,
        run_s=run_s,
        **description.conditions(out, catalogue.known()),
    )
    write_whole(out / "torture.csv", table.to_csv(index=False).encode())
    click.echo(show(rows))
    click.echo(f"{run_s / 60:.1f} minutes")
    if not clean:
        click.echo(f"inputs and folders of what failed are kept in {kept}", err=True)
        raise SystemExit(1)


def _run(parts: Sequence[str], form: Form) -> list[tuple[Row, float]]:
    """Yield the rows of these parts. Each part runs in a new process, as many at a time as there
    are cores."""
    pool = ProcessPoolExecutor(
        mp_context=get_context("spawn"),
        max_tasks_per_child=1,
        initializer=die_with_parent,
        initargs=(os.getpid(),),
    )
    try:
        pairs = list(pool.map(functools.partial(rows_of, form=form), parts))
    except BaseException:  # when stopped, do not wait for running parts
        pool.shutdown(wait=False, cancel_futures=True)
        end_processes(os.environ[OWNER])
        raise
    pool.shutdown()
    return [pair for own in pairs for pair in own]


if __name__ == "__main__":
    main()
