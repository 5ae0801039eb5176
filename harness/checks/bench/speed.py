"""Measures which part of each number is the harness's own cost; `make bench` writes the table.

Comparisons are made in rounds. A round runs each side once, in new processes and in a changing
order; the ratio of the two runs is one value. measures.py judges the values.
"""

import math
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import pandas as pd
from floor import floor
from instructions import instructions, why_not
from kvbench.cli import STOPPED
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput
from kvbench.common.processes import STOPS
from kvbench.common.progress import BAR
from kvbench.machine import description
from kvbench.machine.scratch import scratch
from kvbench.stores import catalogue
from loops import ENGINES, bare
from measures import LOOKS, Rounds, Scale, Series, run_rounds
from pauses import pauses
from peers import DB_BENCH, KNOWN, peers, title
from tabulate import tabulate
from tqdm import tqdm
from upkeep import analysis, cells, memory, original

FOLDER = click.Path(path_type=Path, resolve_path=True)  # peers run in folders of their own
GROUPS = ("floor", "instructions", "bare", "peers", "pauses", "cells", "scale", "analysis")


@click.command()
@click.option("--out", type=FOLDER, required=True, help="The folder for the table.")
@click.option("--only", type=click.Choice(GROUPS), multiple=True, help="Measure this group only.")
@click.option(
    "--bare-loops", type=FOLDER, required=True, help="The folder of the bare loops' libraries."
)
@click.option("--results", type=FOLDER, help="Results of the quick grid.")
@click.option("--place", type=FOLDER, help="The folder for the stores; default: in memory.")
@click.option("--peer", metavar="ENGINE=PROGRAM", multiple=True, help="An engine's own benchmark.")
@click.option("--quick", is_flag=True, help=f"Stop after {LOOKS[0]} rounds, whatever is open.")
@click.option(
    "--seconds",
    type=float,
    default=3600,
    show_default=True,
    help="Start no round after so many seconds, whatever is open.",
)
@click.option("--original", "long", is_flag=True, help="Also time a sweep of 25 minutes.")
@click.option("--small", is_flag=True, help="Measure too little to mean anything, to try it out.")
def main(
    out: Path,
    only: Sequence[str],
    bare_loops: Path,
    results: Path | None,
    place: Path | None,
    peer: Sequence[str],
    quick: bool,
    seconds: float,
    long: bool,
    small: bool,
) -> None:
    """Measure the harness: OUT/speed.csv. Rounds are added until each goal is met or missed."""
    programs = [_peer(text) for text in peer]
    if packaged := shutil.which("db_bench"):
        programs.append(("rocksdb", packaged))
    chosen = only or GROUPS
    if results is None and {"cells", "analysis"} & set(chosen):
        raise BadInput("cells and analysis need --results, those of harness/grids/quick.toml")
    scale = Scale(1000, 1000, 1000, 500, 1000, 10_000, 200, 1, 1) if small else Scale()
    memory_disk = Path("/dev/shm")
    out.mkdir(parents=True, exist_ok=True)
    with scratch(place or (memory_disk if memory_disk.is_dir() else out)) as where:
        groups: dict[str, Callable[[], dict[str, Rounds]]] = {
            "floor": lambda: floor(scale),
            "instructions": lambda: instructions(scale, programs, bare_loops, where),
            "bare": lambda: bare(scale, bare_loops, where),
            "peers": lambda: peers(scale, programs, bare_loops, where),
            "pauses": lambda: pauses(scale, where),
            "cells": lambda: cells(where, results or Path()),
            "scale": lambda: memory(scale, where),
            "analysis": lambda: analysis(scale, where, results or Path()),
            "original": lambda: original(out),
        }
        looks = (2,) if small else LOOKS[:1] if quick else LOOKS
        wanted = (*chosen, "original") if long else chosen
        series = [
            Series(name, rounds, looks)
            for group in wanted
            for name, rounds in groups[group]().items()
        ]
        _run(series, math.inf if quick else seconds)
    table = pd.DataFrame([row for one in series for row in one.rows()])
    table = table.assign(**description.conditions(out, catalogue.known()))
    write_whole(out / "speed.csv", table.to_csv(index=False, na_rep="nan").encode())
    shown = table[["group", "measure", "value", "low", "high", "interval", "n", "goal", "met"]]
    click.echo(tabulate(shown, headers="keys", showindex=False, floatfmt=".3f"))
    if reason := why_not(bare_loops):
        click.echo(f"instructions: not counted; {reason}")
    given = {(engine, title(program)) for engine, program in programs}
    for engine, name in (peer for peer in KNOWN if peer not in given):
        debian = (engine, name) == ("rocksdb", DB_BENCH)
        advice = "the package rocksdb-tools has it" if debian else "build it from its source"
        click.echo(f"peer: {name} of {engine} is missing; {advice}")
    for engine in ENGINES:
        if not (bare_loops / f"{engine}.so").exists():
            click.echo(f"bare loop: {engine} left out, its library is not here")


def _run(series: Sequence[Series], seconds: float) -> None:
    """Run the rounds, and show the time left, which is the greatest possible if the time is
    limited."""
    limited = seconds < math.inf
    total = seconds if limited else sum(one.looks[-1] for one in series)
    with tqdm(total=total, bar_format=BAR) as bar:
        for one, taken in run_rounds(series, seconds):
            open_ones = sum(other.open for other in series)
            bar.set_postfix_str(f"{open_ones} of {len(series)} open; {one.name}, round {one.count}")
            bar.update(min(taken if limited else 1, total - bar.n))


def _peer(text: str) -> tuple[str, str]:
    engine, _, program = text.partition("=")
    path, known = shutil.which(program), catalogue.names()
    if engine not in known or path is None:
        raise BadInput(f"--peer {text}: no such program, or none of {', '.join(known)}")
    return engine, str(Path(path).resolve())


if __name__ == "__main__":
    for number in STOPS:
        signal.signal(number, signal.default_int_handler)
    try:
        main(standalone_mode=False)
    except click.Abort:
        print("speed: stopped; nothing was kept", file=sys.stderr)
        sys.exit(STOPPED)
    except (BadInput, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"speed: {text}", file=sys.stderr)
        sys.exit(2)
