"""Measures how much of each number is the harness's own cost; `make bench` writes the table.

Comparisons are made in rounds. A round runs each side once, in fresh processes, in an order that
rotates; the ratio of two runs of a round is one value. A goal is missed when the whole interval of
the values lies outside it.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
import pandas as pd
from floor import floor
from kvbench import BadInput, machine, stores, write_whole
from kvbench.progress import BAR
from loops import ENGINES, bare
from measures import Measure, Scale
from peers import peers
from tabulate import tabulate
from tqdm import tqdm
from upkeep import analysis, cells, memory

FOLDER = click.Path(path_type=Path)
# The groups of measures, and about how many seconds each takes.
GROUPS = {"floor": 30, "bare": 250, "peers": 250, "cells": 5, "scale": 15, "analysis": 180}


@click.command()
@click.option("--out", type=FOLDER, required=True, help="The folder for the table.")
@click.option(
    "--only", type=click.Choice(list(GROUPS)), multiple=True, help="Measure this group only."
)
@click.option(
    "--bare-loops", type=FOLDER, required=True, help="The folder of the bare loops' libraries."
)
@click.option("--quick", type=FOLDER, help="Results of the quick grid.")
@click.option("--place", type=FOLDER, help="The folder for the stores; default: in memory.")
@click.option("--peer", metavar="ENGINE=PROGRAM", multiple=True, help="An engine's own benchmark.")
@click.option("--small", is_flag=True, help="Measure too little to mean anything, to try it out.")
def main(
    out: Path,
    only: Sequence[str],
    bare_loops: Path,
    quick: Path | None,
    place: Path | None,
    peer: Sequence[str],
    small: bool,
) -> None:
    """Measure the harness: OUT/speed.csv."""
    programs = [_peer(text) for text in peer]
    if packaged := shutil.which("db_bench"):
        programs.append(("rocksdb", packaged))
    chosen = only or tuple(GROUPS)
    if quick is None and {"cells", "analysis"} & set(chosen):
        raise BadInput("cells and analysis need --quick, the results of harness/grids/quick.toml")
    scale = Scale(2, 1000, 1000, 1000, 1000, 10_000, 200, 1) if small else Scale()
    memory_disk = Path("/dev/shm")
    where = place or (memory_disk if memory_disk.is_dir() else out)
    out.mkdir(parents=True, exist_ok=True)
    todo: dict[str, Callable[[], Iterable[Measure]]] = {
        "floor": lambda: floor(scale),
        "bare": lambda: bare(scale, bare_loops, where),
        "peers": lambda: peers(scale, programs, bare_loops, where),
        "cells": lambda: cells(scale, where, quick or Path()),
        "scale": lambda: memory(scale, where),
        "analysis": lambda: analysis(scale, where, quick or Path()),
    }
    rows = []
    with tqdm(total=sum(GROUPS[name] for name in chosen), bar_format=BAR) as bar:
        for name in chosen:
            bar.set_description_str(name)
            rows += [measure.row() for measure in todo[name]()]
            bar.update(GROUPS[name])
    table = pd.DataFrame(rows).assign(**machine.conditions(out, stores.known()))
    write_whole(out / "speed.csv", table.to_csv(index=False).encode())
    shown = table[["group", "measure", "value", "low", "high", "unit", "goal", "met"]]
    click.echo(tabulate(shown, headers="keys", showindex=False, floatfmt=".3f"))
    if not packaged:
        click.echo("peer: db_bench is missing; the package rocksdb-tools has it")
    for engine in ENGINES:
        if not (bare_loops / f"{engine}.so").exists():
            click.echo(f"bare loop: {engine} left out, its library is not here")


def _peer(text: str) -> tuple[str, str]:
    engine, _, program = text.partition("=")
    path, known = shutil.which(program), stores.names()
    if engine not in known or path is None:
        raise BadInput(f"--peer {text}: no such program, or none of {', '.join(known)}")
    return engine, str(Path(path).resolve())


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (BadInput, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"speed: {text}", file=sys.stderr)
        sys.exit(2)
