"""The commands that measure: stores, installed, grid-keys, sweep, status."""

import csv
import dataclasses
import io
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from kvbench.cli.ends import GOES_ON, SOME_FAILED, STOPPED, kept
from kvbench.cli.options import AS_JSON, PATH, TABLE, Read, StoresFolder, number
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, one_line, say
from kvbench.experiment.estimate import TIME_LIMIT
from kvbench.machine.served import Delays
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore
from kvbench.sweep import REPEATS

if TYPE_CHECKING:
    from kvbench.experiment.grid import Grid
    from kvbench.results.folder import Folder
    from kvbench.sweep.sweep import Sweep

MOST_SECONDS = 1_000_000  # longest time limit of a cell: poll() waits at most 24 days
MOST_MINUTES = 10_000  # longest sitting
MOST_SHOWN = 10  # cells in a warning
MOST_REPEATS = 100  # of a trial


@click.command(short_help="List the stores, and why some are unavailable.")
@AS_JSON
@click.option("--settings", is_flag=True, help="Print each store's settings and their effects.")
def stores(as_json: bool, settings: bool) -> None:
    """List the stores, in C and in Python.

    Shows the version and the capabilities of each engine, and why a store is unavailable or an
    older release.
    """
    found = list(catalogue.known().values())
    if as_json:
        click.echo(json.dumps(list(map(_as_json, found)), indent=1))
    elif settings:
        _print_settings(found)
    else:
        rows = [
            (
                store.name,
                f"{store.binding} {store.binding_version}".strip() or "c",
                store.version if store.available else "unavailable",
                ", ".join(store.capabilities),
            )
            for store in found
        ]
        headers = ("store", "access", "engine version", "capabilities")
        click.echo(tabulate(rows, headers=headers, disable_numparse=True))
        for store in found:
            if not store.available:
                click.echo(f"{store.full_name}: {store.reason}")
        for name, why in catalogue.remarks().items():
            click.echo(f"{name}: {why}")


def _as_json(store: KnownStore) -> dict[str, object]:
    values = dataclasses.asdict(store)
    own = {"store": values.pop("name"), "access": store.access, "available": store.available}
    return own | values


def _print_settings(found: list[KnownStore]) -> None:
    """Print the settings of each store."""
    rows = [
        (
            store.full_name,
            setting.name,
            {"": f"{setting.least:,} or more", "*": "other"}.get(setting.value, setting.value),
            setting.means or f"not supported: {setting.lacks}",
        )
        for store in found
        for setting in store.settings
    ]
    click.echo(tabulate(rows, headers=("store", "setting", "value", "what the store does for it")))


@click.command(short_help="Say how much a program grows with each store.")
@TABLE
@click.option(
    "--build",
    type=PATH,
    metavar="FOLDER",
    help="Also say how long the compilers took, from the log of a build in this folder: "
    "build/shims.",
)
def installed(out: Path, build: Path | None) -> None:
    """Write how many bytes the engine of each available store in C takes when it is installed.

    They are those of the engine and of the libraries that it loads, but for those of C and C++,
    which a program has already. The engine of some stores is part of our shim, of some 20 kB.

    --build adds the time that the compilers took for each engine which the set-up compiles, added
    over its files; the others are packaged, or come as a library.
    """
    from kvbench.stores.installed import compile_times
    from kvbench.stores.installed import installed as measured

    try:
        took = compile_times(build) if build is not None else {}
    except BadInput as error:
        raise BadInput(f"--build: {error}") from None
    known = map(catalogue.known().__getitem__, filter(catalogue.compared, catalogue.names()))
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["store", "engine_version", "bytes", "libraries", "compile_s"])
    for store in (one for one in known if one.available):
        size, libraries = measured(store)
        seconds = f"{took[store.name]:.1f}" if store.name in took else ""
        table.writerow([store.name, store.version, size, " ".join(libraries), seconds])
    write_whole(out, text.getvalue().encode())


@click.command()
def grid_keys() -> None:
    """Print the keys of a grid, with their levels and defaults."""
    from kvbench.experiment.grid import reference

    click.echo(reference(), nl=False)


def _threads(text: str) -> list[int | str]:
    """Numbers of threads, or the texts that are no numbers, which the grid then refuses."""
    return [
        int(number) if number.isdecimal() and len(number) < 10 else number
        for number in text.split(",")
    ]


@click.command(short_help="Measure the cells of a grid.")
@click.argument("grid", type=PATH)
@click.option("--out", type=PATH, required=True, help="The results folder; created if necessary.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the cells, their bytes and the expected time, and measure nothing.",
)
@click.option("--retry", is_flag=True, help="Measure failed cells again.")
@click.option(
    "--repeats",
    type=click.IntRange(0, MOST_REPEATS),
    default=REPEATS,
    show_default=True,
    envvar="KVBENCH_REPEATS",
    show_envvar=True,
    help="Measure a trial that the machine's host disturbed so many times again at most.",
)
@click.option(
    "--time-limit",
    type=number(0, MOST_SECONDS),
    metavar="SECONDS",
    default=TIME_LIMIT,
    show_default=True,
    help="Stop a cell that takes longer, and record it as failed.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Measure one more trial than OUT has, whatever GRID says. A trial that was stopped is "
    "finished first.",
)
@click.option(
    "--after",
    type=PATH,
    metavar="FOLDER",
    help="Measure a further sitting: the trials after those of FOLDER, a collected folder, without "
    "the fields that its sittings decided. Results of other code do not count. `kvbench join` "
    "puts both together.",
)
@click.option(
    "--minutes",
    type=number(0, MOST_MINUTES),
    metavar="MINUTES",
    help="Start no cell after this many minutes.  [default: measure all cells]",
)
@click.option(
    "--scale",
    metavar="NAME|FACTOR",
    help="One of the scales that GRID defines, or a factor for its record counts.",
)
@click.option(
    "--stores",
    "place",
    type=StoresFolder(),
    metavar="FOLDER",
    help="Create the stores below this folder, on the disk to be measured.  [default: OUT]",
)
@click.option(
    "--fs",
    type=click.Choice(["ext4", "xfs", "btrfs"]),
    help="Create a file system of this type for the stores. Needs root.  [default: use the one of "
    "their folder]",
)
@click.option(
    "--device",
    "delays",
    type=Read(Delays.parse),
    metavar="sync=TIME,read=TIME",
    help="With --fs: a sync of the disk, or a read, takes at least this time: sync=10ms.",
)
@click.option(
    "--probe/--no-probe",
    default=None,
    help="First measure the best speed of the device, by fio, and of the memory, for 6 seconds.  "
    "[default: once for each machine, if the sweep takes more than a minute]",
)
@click.option(
    "--memory-max",
    metavar="SIZE",
    help='Cap the memory of each cell, page cache included: "64 MiB". Needs root.',
)
@click.option(
    "--threads",
    type=Read(_threads),
    metavar="N,N,...",
    help="Numbers of threads for workloads that say =threads: 1,2,4,8,16.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Measure on the workers of this Dask scheduler, tcp://HOST:PORT or tls://HOST:PORT. One "
    "worker measures all of a field.",
)
@click.option(
    "--core",
    type=PATH,
    metavar="GRID",
    help="With --scheduler: each host measures the fields of this grid first and last. Their "
    "results go to OUT/core.",
)
def sweep(
    grid: Path,
    out: Path,
    dry_run: bool,
    retry: bool,
    repeats: int,
    time_limit: float,
    again: bool,
    after: Path | None,
    minutes: float | None,
    scale: str | None,
    place: Path | None,
    fs: str | None,
    delays: Delays | None,
    probe: bool | None,
    memory_max: str | None,
    threads: list[int | str] | None,
    scheduler: str | None,
    core: Path | None,
) -> None:
    """Measure the cells of GRID, a TOML file, that have no result in OUT yet.

    The stores are made in OUT, or below the folder that --stores names, and removed at the end.
    Keep the machine otherwise idle.

    --fs makes a new file system for each trial, in a file of 1 GiB or more that it writes first.
    Then the files of earlier stores slow down no later one, the device's bytes are those of the
    store alone, and a cold cache holds no inode.

    Ctrl-C, and the end of --minutes, finishes the running cell and stops; a second Ctrl-C stops at
    once. The same command goes on where a sweep was stopped or killed. A crash, a full disk or an
    engine that hangs costs one cell: `kvbench status` shows the reason, and --retry measures it
    again.
    """
    from kvbench.cli.dry_run import print_plan
    from kvbench.experiment.grid import read_grids
    from kvbench.results.folder import MARK, Folder
    from kvbench.results.sittings import NONE, earlier
    from kvbench.sweep.sweep import Sweep

    replaced: dict[str, Any] = {} if memory_max is None else {"memory_max": [memory_max]}
    replaced |= {} if threads is None else {"threads": threads}
    before = earlier(after, catalogue.known()) if after else NONE
    replaced |= {"first_trial": before.last + 1} if before.last else {}
    grids = read_grids(grid, catalogue.names(), replaced, scale)
    if again:
        replaced["trials"] = _next_trial(grids, Folder(out) if (out / MARK).exists() else None)
        grids = read_grids(grid, catalogue.names(), replaced, scale)
    if delays and not fs:
        raise BadInput(f"--device: {str(delays)!r} is not allowed without --fs")
    job = Sweep(
        grids, out, retry, place, fs, probe,
        delays=delays, repeats=repeats, before=before,
    )  # fmt: skip
    if dry_run:
        print_plan(job)
        return
    alone: dict[str, Any] = {
        "--stores": place, "--minutes": minutes, "--again": again, "--after": after,
        "--device": delays,
    }  # fmt: skip
    _check_together(scheduler, alone if scheduler else {"--core": core})
    if scheduler:
        _distribute(job, scheduler, core, time_limit)
        return
    with kept(GOES_ON):
        counts = job.run(time_limit, math.inf if minutes is None else 60 * minutes)
    _print_counts(counts)
    for line in _reasons(job.reasons):
        say(line)
    if job.stopped:
        click.echo(f"stopped; to go on: {shlex.join(['kvbench', *sys.argv[1:]])}")
    _warn(Folder(out))
    if job.stopped:
        sys.exit(STOPPED)
    if counts["failed"]:
        sys.exit(SOME_FAILED)


def _next_trial(grids: "Sequence[Grid]", folder: "Folder | None") -> int:
    """The number of the folder's last trial if that lacks cells, else the next number."""
    done = Counter(cell.trial for cell in folder.done()) if folder else Counter()
    first = min(grid.first_trial for grid in grids)
    last = max(done, default=first - 1)
    whole = len({cell for grid in grids for cell in grid.cells() if cell.trial == grid.first_trial})
    return last - first + 1 + (last < first or done[last] >= whole)


def _check_together(scheduler: str | None, others: dict[str, Any]) -> None:
    """Raise BadInput for options that conflict with --scheduler, or need it."""
    for name, given in others.items():
        if given:
            how = "with" if scheduler else "without"
            raise BadInput(f"{name}: {str(given)!r:.60} is not allowed {how} --scheduler")


def _distribute(job: "Sweep", address: str, core: Path | None, time_limit: float) -> None:
    from kvbench.experiment.grid import read_grids
    from kvbench.results.folder import Folder
    from kvbench.sweep.again import summary

    try:
        from kvbench.sweep.distributed import Distributed  # not everybody has Dask
    except ModuleNotFoundError as error:
        raise BadInput(f"--scheduler: {error}; pip install distributed") from None
    grids = read_grids(core, catalogue.names(), {}, "1") if core else []
    work = Distributed(job, address, grids, time_limit)
    with kept(GOES_ON):
        work.run()
    _print_counts(work.counts)
    if line := summary(Folder(job.out)):
        say(line)
    for field, why in list(work.lost.items())[:MOST_SHOWN]:
        say(one_line(f"{field}: not measured: {why}; the same command tries again"))
    if len(work.lost) > MOST_SHOWN:
        say(f"and {len(work.lost) - MOST_SHOWN} more fields")
    if work.lost or work.counts["failed"]:
        sys.exit(SOME_FAILED)


@click.command(short_help="Show what is done, what failed, and why.")
@click.argument("folder", type=PATH)
def status(folder: Path) -> None:
    """Show what is done of the grids that were swept into FOLDER.

    Prints the number of cells by status, each failed cell with its reason, and why other cells
    were not measured.
    """
    from kvbench.experiment.decide import needed
    from kvbench.results.folder import Folder

    results = Folder(folder)
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    failures = []
    for name, result in results.current().items():
        counts[result["status"]] += 1
        if result["status"] == "failed":
            failures.append(one_line(f"failed: {name}: {result['reason']}"))
        else:
            reasons[result["status"], result["reason"]] += 1
    done = results.done()
    to_do = {cell for grid in results.grids() for cell in needed(grid, done)} - done.keys()
    counts["to do"] = len(to_do)
    _print_counts(counts)
    for line in (*failures, *_reasons(reasons)):
        click.echo(line)
    _warn(results)


def _print_counts(counts: Counter[str]) -> None:
    words = ("ok", "failed", "skipped", "unavailable", "to do")
    said = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
    click.echo(said or "no results")


def _reasons(reasons: Counter[tuple[str, str]]) -> list[str]:
    """One line for each distinct reason why cells were not measured."""
    return [
        one_line(f"{number} {status}: {reason}")
        for (status, reason), number in sorted(reasons.items())
        if reason
    ]


def _warn(folder: "Folder") -> None:
    """Report trials that were measured again, disturbed cells, and cells whose trials disagree,
    with the next step."""
    from kvbench.machine import noise
    from kvbench.results.frames import Frames
    from kvbench.sweep.again import summary

    def report(what: str, why: str, headers: tuple[str, ...], found: Iterable[Any]) -> None:
        if rows := list(found):
            table = tabulate(rows[:MOST_SHOWN], headers=headers, disable_numparse=True)
            more = f"\nand {len(rows) - MOST_SHOWN} more" if len(rows) > MOST_SHOWN else ""
            say(f"{what}: {why.format(len(rows))}; {noise.ADVICE}\n{table}{more}")

    collected = Frames.of(folder.tables(), folder.path)
    cells = collected.cells
    if line := summary(folder):
        say(line)
    why = noise.disturbed(cells)
    report(
        "disturbed",
        "the machine's host disturbed {} cells, which a sweep measures again with all stores of "
        "their field, as often as --repeats allows",
        ("cells/", "why"),
        ((f"{name}.json", what) for name, what in zip(cells.cell, why, strict=True) if what),
    )
    report(
        "unsteady",
        "in {} operations of cells the slowest trial's mean time is more than "
        f"{noise.SPREAD:g} times the fastest's (load_before and memory_stall_s show what else the "
        "machine did)",
        ("cells/", "operation", "trials", "slowest / fastest"),
        (
            (f"{row.files}.json", row.operation, row.trials, f"{row.spread:.2f}")
            for row in noise.unsteady(collected.operations).itertuples()
        ),
    )
