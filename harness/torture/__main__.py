"""Torture: faults injected and inputs tried, and what of it got through.

    python harness/torture [--short] [--seed N] [--out FOLDER] [PART...]

prints the table, writes it to FOLDER/torture.csv and ends with 1 if a count is not zero that has
to be.
"""

import dataclasses
import importlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd
from kvbench import machine, stores, write_whole
from table import Row, show

PARTS = ("kills", "disks", "lies", "stateful", "mutations", "fuzzers", "sanitizers")


@click.command()
@click.argument("parts", nargs=-1, metavar="[PART]...", type=click.Choice(PARTS))
@click.option("--short", is_flag=True, help="Fewer of each: minutes instead of an hour.")
@click.option("--seed", default=1, show_default=True, help="Of every random choice.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/torture"),
    show_default=True,
    help="Where the table goes, and what the parts keep.",
)
def main(parts: Sequence[str], short: bool, seed: int, out: Path) -> None:
    """Break sweeps, feed them lies and damaged files, and count what got through."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    seconds: list[float] = []
    place = Path(tempfile.mkdtemp(prefix="torture-"))
    try:
        for part in parts or PARTS:
            start = time.monotonic()
            for row in importlib.import_module(part).rows(short, seed, place):
                click.echo(show([row]) + "\n", err=True)
                rows.append(row)
                end = time.monotonic()
                seconds.append(end - start)
                start = end
    finally:
        clean = all(row.clean() for row in rows)
        if clean:
            shutil.rmtree(place)
    table = pd.DataFrame([dataclasses.asdict(row) for row in rows]).assign(
        wall_s=seconds,
        form="short" if short else "long",
        seed=seed,
        **machine.conditions(out, stores.known()),
    )
    write_whole(out / "torture.csv", table.to_csv(index=False).encode())
    click.echo(show(rows))
    click.echo(f"{sum(seconds) / 60:.1f} minutes")
    if not clean:
        click.echo(f"kept: {place}", err=True)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
