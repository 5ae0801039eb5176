"""Torture: injects faults, tries bad inputs, and counts what gets through.

    python harness/checks/torture [--short] [--seed N] [--out FOLDER] [--store NAME]... [PART...]

prints a table and writes it to FOLDER/torture.csv. The exit status is 1 if a count is not zero that
has to be.
"""

import dataclasses
import functools
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
import pandas as pd
from kvbench import machine, stores, write_whole
from table import Form, rows_of, show

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
    # A shell's background jobs ignore it, and so would our sweeps.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    place, clean = Path(tempfile.mkdtemp(prefix="torture-")), True
    try:
        # As many parts at a time as there are cores, each in a new process.
        with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            work = functools.partial(rows_of, form=Form(short, seed, place, only))
            found = [pair for pairs in pool.map(work, parts or PARTS) for pair in pairs]
        rows = [row for row, _ in found]
        clean = all(row.clean() for row in rows)
    finally:
        if clean:
            shutil.rmtree(place)
    run_s = time.monotonic() - start
    table = pd.DataFrame([dataclasses.asdict(row) for row in rows]).assign(
        wall_s=[seconds for _, seconds in found],
        form="short" if short else "long",
        seed=seed,
        run_s=run_s,
        **machine.conditions(out, stores.known()),
    )
    write_whole(out / "torture.csv", table.to_csv(index=False).encode())
    click.echo(show(rows))
    click.echo(f"{run_s / 60:.1f} minutes")
    if not clean:
        click.echo(f"inputs and folders of what failed are kept in {place}", err=True)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
