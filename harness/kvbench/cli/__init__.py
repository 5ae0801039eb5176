"""The command line."""

import contextlib
import dataclasses
import difflib
import errno
import json
import math
import os
import re
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from tabulate import tabulate

from kvbench.cell.factors import DEFAULT, MAX_RECORD_SIZE, MOST, OPERATIONS, parse_bytes
from kvbench.cell.store import Store
from kvbench.common.files import why_not, write_whole
from kvbench.common.messages import BadInput, brief, listed, one_line, say
from kvbench.common.processes import STOPS
from kvbench.experiment.factors import FACTORS, NOT_STATED, told
from kvbench.experiment.grid import TIME_LIMIT, Grid, read_grids, reference
from kvbench.stores import catalogue
from kvbench.stores.identity import checksum

if TYPE_CHECKING:
    from kvbench.answers.advise import Advice
    from kvbench.results.folder import Folder
    from kvbench.sweep.sweep import Sweep


class _Writable(click.Path):
    """A file that is written at the end, so refused at the beginning if it cannot be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        other = path.exists() and not path.is_file()  # as a device, which would be replaced
        if other or not os.access(path.parent, os.W_OK):
            allowed = "a file in a folder that exists and is writable"
            raise BadInput(f"--out: {str(path)!r} cannot be written; allowed: {allowed}")
        return path


class _StoresFolder(click.Path):
    """A folder for stores to be made below. Whoever names a store instead is told so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        with contextlib.suppress(OSError):  # too long a name
            if str(value) and path.is_dir():
                return path
        option = param.opts[0] if param else ""
        near = difflib.get_close_matches(str(value).split(",")[0], catalogue.names(), 1)
        hint = f"; to choose {near[0]}, name it in `stores` of the grid" if near else ""
        raise BadInput(
            f"{option}: {brief(str(value))!r} is not a folder; allowed: a folder below which "
            f"stores are made{hint}"
        )


PATH, FILE = click.Path(path_type=Path), _Writable(path_type=Path)
PLACE = click.option(
    "--place",
    type=_StoresFolder(),
    default=Path(),
    metavar="FOLDER",
    help="Make the stores below this folder.  [default: the current folder]",
)
MOST_SECONDS = 1e6  # that a cell may take: the system waits for 24 days at most
MOST_MINUTES = 10_000  # of a sitting
REPOSITORY = {"c": ["reference"], "python": ["python", "bindings"]}  # in data, by access
MOST_SYNC = 10  # seconds of a device's sync
SLOWER = 1  # exit status of a comparison that found more than is allowed
SOME_FAILED = 3  # exit status when the sweep ended, but not every cell was measured
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
GOES_ON = "the cells that are done are kept; the same command goes on from there"
NOTHING_KEPT = "nothing was kept"  # unless a command says what was
STOPPED = 130  # exit status after an interrupt, as shells have it
MOST_SHOWN = 10  # cells in a warning


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done; 1 slower than --fail-above allows; 2 bad input or a file that "
    "cannot be read or written; 3 some cells failed, or --measure did not finish; 130 stopped. See "
    "`kvbench COMMAND --help` for a command's options.",
)
@click.version_option(package_name="kvbench")
def cli() -> None:
    """Measure files and embedded key-value stores under equal conditions.

    A grid, which is a TOML file, lists the factors of an experiment and their levels. A sweep
    measures every combination of levels, each in a process of its own, and writes one result file
    for each into a results folder. The folder's tables follow from these files.

    \b
      kvbench stores                            which stores can be measured here
      kvbench sweep GRID --out DIR --dry-run    what would be measured, how long
      kvbench sweep GRID --out DIR              measure, or go on with it
      kvbench status DIR                        what is done, what failed, and why
      kvbench collect DIR                       write the tables
      kvbench restore DIR --out NEW             go on with tables alone
      kvbench import TABLE.csv --out DIR        make tables of others' results
      kvbench advise --record-size 4KiB --records 10k   which store to choose
      kvbench compare BEFORE AFTER              what changed beyond noise
      kvbench audit -- COMMAND                  what any program writes and syncs
    """


@cli.command("stores", short_help="List the stores, and why some are unavailable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--settings", is_flag=True, help="Print each store's settings and their effects.")
def stores_command(as_json: bool, settings: bool) -> None:
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
        for name, why in catalogue.older().items():
            click.echo(f"{name}: {why}")


def _as_json(store: Store) -> dict[str, object]:
    values = dataclasses.asdict(store)
    own = {"store": values.pop("name"), "access": store.access, "available": store.available}
    return own | values


def _print_settings(found: list[Store]) -> None:
    """Bindings have none, since they are measured with their engines' defaults."""
    rows = [
        (
            store.name,
            setting.name,
            {"": f"{setting.least:,} or more", "*": "other"}.get(setting.value, setting.value),
            setting.means or f"not supported: {setting.lacks}",
        )
        for store in found
        for setting in store.settings
    ]
    click.echo(tabulate(rows, headers=("store", "setting", "value", "what the store does for it")))


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


@cli.command("grid-keys")
def grid_keys() -> None:
    """Print the keys of a grid, with their levels and defaults."""
    click.echo(reference(), nl=False)


@cli.command(short_help="Measure the cells of a grid.")
@click.argument("grid", type=PATH)
@click.option("--out", type=PATH, required=True, help="The results folder; made if necessary.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the cells, their bytes and the expected time, and measure nothing.",
)
@click.option("--retry", is_flag=True, help="Measure failed cells again.")
@click.option(
    "--time-limit",
    metavar="SECONDS",
    default=TIME_LIMIT,
    show_default=True,
    help="Stop a cell that takes longer, and record it as failed.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Measure one trial more than OUT has, whatever number GRID says; a trial that was stopped "
    "is finished.",
)
@click.option(
    "--minutes",
    type=float,
    metavar="MINUTES",
    help="Begin no further cell after so many, and stop.  [default: until all are measured]",
)
@click.option(
    "--scale",
    metavar="NAME|FACTOR",
    help="One of the scales that GRID defines, or a factor for its record counts.",
)
@click.option(
    "--stores",
    "place",
    type=_StoresFolder(),
    metavar="FOLDER",
    help="Make the stores below this folder, on the disk to be measured.  [default: OUT]",
)
@click.option(
    "--fs",
    type=click.Choice(["ext4", "xfs", "btrfs"]),
    help="Make a file system of this kind for the stores. Needs root.  [default: that of their "
    "folder]",
)
@click.option(
    "--probe/--no-probe",
    default=None,
    help="Measure first, in 6 seconds by fio, what the device and the memory can do at best.  "
    "[default: once for each machine, if the sweep takes more than a minute]",
)
@click.option(
    "--memory-max",
    metavar="SIZE",
    help='Cap the memory of each cell, page cache included: "64 MiB". Needs root.',
)
@click.option(
    "--threads",
    metavar="N,N,...",
    help="The numbers of threads of workloads that leave it open: 1,2,4,8,16.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Measure on the workers of this scheduler of Dask, tcp://HOST:PORT or tls://HOST:PORT, "
    "each field on one of them.",
)
@click.option(
    "--core",
    type=PATH,
    metavar="GRID",
    help="With --scheduler: each host measures the fields of this grid first and last, into "
    "OUT/core.",
)
def sweep(
    grid: Path,
    out: Path,
    dry_run: bool,
    retry: bool,
    time_limit: float,
    again: bool,
    minutes: float | None,
    scale: str | None,
    place: Path | None,
    fs: str | None,
    probe: bool | None,
    memory_max: str | None,
    threads: str | None,
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
    from kvbench.results.folder import MARK, Folder  # noqa: PLC0415 - slow to import
    from kvbench.sweep.sweep import Sweep  # noqa: PLC0415

    if not 0 < time_limit <= MOST_SECONDS:  # nor a NaN
        allowed = f"more than 0, and {MOST_SECONDS:,.0f} at most"
        raise BadInput(f"--time-limit: {time_limit:.0f} is not allowed; allowed: {allowed}")
    if minutes is not None and not 0 < minutes <= MOST_MINUTES:
        allowed = f"more than 0, and {MOST_MINUTES:,} at most"
        raise BadInput(f"--minutes: {minutes:g} is not allowed; allowed: {allowed}")
    replaced: dict[str, Any] = {} if memory_max is None else {"memory_max": [memory_max]}
    if threads is not None:
        replaced["threads"] = [
            int(number) if number.isdecimal() and len(number) < 10 else number
            for number in threads.split(",")
        ]
    grids = read_grids(grid, catalogue.names(), replaced, scale)
    if again:
        replaced["trials"] = _next_trial(grids, Folder(out) if (out / MARK).exists() else None)
        grids = read_grids(grid, catalogue.names(), replaced, scale)
    job = Sweep(grids, out, retry, place, fs, probe)
    if dry_run:
        _dry_run(job)
        return
    alone = {"--stores": place, "--minutes": minutes, "--again": again}
    _check_together(scheduler, alone if scheduler else {"--core": core})
    if scheduler:
        _distribute(job, scheduler, core, time_limit)
        return
    with _kept(GOES_ON):
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


@contextlib.contextmanager
def _kept(what: str) -> Iterator[None]:
    """Say what is kept by who is stopped here."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what) from None


def _check_together(scheduler: str | None, others: dict[str, Any]) -> None:
    """Refuse options that do not go with --scheduler, or not without it."""
    for name, given in others.items():
        if given:
            how = "with" if scheduler else "without"
            raise BadInput(f"{name}: {str(given)!r:.60} is not allowed {how} --scheduler")


def _distribute(job: "Sweep", address: str, core: Path | None, time_limit: float) -> None:
    try:
        from kvbench.sweep.distributed import Distributed  # noqa: PLC0415 - slow, and not everybody's
    except ModuleNotFoundError as error:
        raise BadInput(f"--scheduler: {error}; pip install distributed") from None
    grids = read_grids(core, catalogue.names(), {}, "1") if core else []
    work = Distributed(job, address, grids, time_limit)
    with _kept(GOES_ON):
        work.run()
    _print_counts(work.counts)
    for field, why in list(work.lost.items())[:MOST_SHOWN]:
        say(one_line(f"{field}: not measured: {why}; the same command tries again"))
    if len(work.lost) > MOST_SHOWN:
        say(f"and {len(work.lost) - MOST_SHOWN} more fields")
    if work.lost or work.counts["failed"]:
        sys.exit(SOME_FAILED)


def _next_trial(grids: Sequence[Grid], folder: "Folder | None") -> int:
    """The last trial of the folder if it lacks cells, else the next."""
    done = Counter(cell.trial for cell in folder.done()) if folder else Counter()
    last = max(done, default=0)
    whole = len({cell for grid in grids for cell in grid.cells() if cell.trial == 1})
    return last + (last == 0 or done[last] >= whole)


def _warn(folder: "Folder") -> None:
    """Report cells that were stopped or disturbed and cells whose trials disagree, and what to do
    about them."""
    from kvbench.machine import noise  # noqa: PLC0415 - slow

    def report(text: str, headers: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
        if rows:
            table = tabulate(rows[:MOST_SHOWN], headers=headers, disable_numparse=True)
            more = f"\nand {len(rows) - MOST_SHOWN} more" if len(rows) > MOST_SHOWN else ""
            say(f"{text}; {noise.ADVICE}\n{table}{more}")

    tables = folder.tables()
    cells = tables["cells"].to_pandas()
    found: list[tuple[object, ...]] = [
        (f"{row.cell}.json", f"{row.stopped_s:.1f}") for row in noise.stopped(cells).itertuples()
    ]
    report(
        f"stopped: {len(found)} cells were stopped, or the machine suspended, for more than "
        f"{noise.STOPPED} s while they were measured",
        ("cells/", "seconds"),
        found,
    )
    found = [
        (f"{row.cell}.json", f"{row.stolen:.0%}") for row in noise.disturbed(cells).itertuples()
    ]
    report(
        f"disturbed: during {len(found)} cells the machine's host withheld processors for more "
        f"than {noise.STOLEN:.0%} of the time",
        ("cells/", "withheld"),
        found,
    )
    found = [
        (f"{row.files}.json", row.operation, row.trials, f"{row.spread:.2f}")
        for row in noise.unsteady(cells, tables["operations"].to_pandas()).itertuples()
    ]
    report(
        f"unsteady: in {len(found)} operations of cells the slowest trial's mean time is more than "
        f"{noise.SPREAD:g} times the fastest's (load_before and memory_stall_s show what else the "
        "machine did)",
        ("cells/", "operation", "trials", "slowest / fastest"),
        found,
    )


def _dry_run(sweep: "Sweep") -> None:
    from kvbench.experiment.estimate import seconds  # noqa: PLC0415 - slow to import
    from kvbench.machine.description import fsync_milliseconds  # noqa: PLC0415
    from kvbench.machine.scratch import own_folder  # noqa: PLC0415
    from kvbench.results.folder import Folder  # noqa: PLC0415

    sweep.check()
    # A dry run makes no folder for the stores: time the device's sync in the nearest one above.
    with own_folder(sweep.nearest()) as (probe, _):
        fsync_ms = fsync_milliseconds(probe)
    begun = sweep.begun()
    done = Folder(sweep.out).done(installed=True) if begun else {}
    left = {cell for _, cell, _ in sweep.plan(done)} - done.keys()
    rows, plan, fit = [], [], []
    for grid, cell, skip_reason in sweep.plan():
        why = skip_reason or sweep.stores[cell.full_name].reason
        cost = 0 if why else seconds(cell, fsync_ms)
        loaded = 0 if why else cell.live_bytes
        fit += [] if why or cell not in left else [cell]
        plan.append(_Planned(why, loaded, cost, cell.trial <= grid.trials[0], cell in left))
        if cell.trial == 1:
            levels = ", ".join(told(cell))
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


class _Planned(NamedTuple):
    """A cell: why it is not measured, its bytes and seconds, whether it belongs to the least number
    of trials, and whether it is needed and has no result."""

    why: str
    loaded: int
    seconds: float
    certain: bool
    left: bool


def _print_total(what: str, plan: Sequence[_Planned]) -> None:
    measured = sum(1 for cell in plan if not cell.why)
    click.echo(
        f"{what}: {measured} cells to measure, {len(plan) - measured} not, "
        f"{sum(cell.loaded for cell in plan):,} bytes to load, "
        f"about {sum(cell.seconds for cell in plan) / 60:.1f} minutes"
    )


@cli.command("evidence", short_help="Test what durability levels do.")
@click.argument("names", nargs=-1, metavar="[STORE]...")
@click.option("--out", type=FILE, required=True, help="The CSV file to write.")
@PLACE
def evidence_command(names: Sequence[str], out: Path, place: Path) -> None:
    """Test what each durability level of each STORE does.

    For each level the table shows the sync calls per write, and how many of 20 killed processes
    and of 20 simulated power failures lost no acknowledged write. A binding is named with its
    store, as sqlite/diskcache, and tested as shipped. Without STORE, all but the second builds of
    engines (-debian) are tested.

    Counting syncs needs strace. Power failures need root besides; without root their column stays
    empty. If it is stopped, the rows that are done are kept in OUT.part, and the same command goes
    on from there.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    from kvbench.common.progress import progress  # noqa: PLC0415
    from kvbench.durability.evidence import CRASHES, evidence, levels, mounting_fails  # noqa: PLC0415
    from kvbench.durability.kept import finish, measured  # noqa: PLC0415
    from kvbench.durability.strace import tracing_fails  # noqa: PLC0415
    from kvbench.machine.description import conditions  # noqa: PLC0415
    from kvbench.machine.scratch import scratch  # noqa: PLC0415

    known = catalogue.known()
    _refuse_unknown(names)
    if why := tracing_fails():
        raise BadInput(f"syncs cannot be counted here: {why}")
    chosen = [known[name] for name in names or filter(catalogue.compared, known)]
    usable = [store for store in chosen if store.available and store.name != "null"]
    pairs = [(store, level) for store in usable for level in levels(store)]
    with scratch(place) as folder:
        about = {"crashes": CRASHES, "cut": not mounting_fails(folder)}
        about |= conditions(folder, known)
        steps = progress(pairs, [1] * len(pairs), lambda pair: f"{pair[0].full_name} {pair[1]}")
        rows = measured(out, about, steps, _rests_on, lambda pair: [evidence(*pair, folder)])
    table = pd.DataFrame(rows)
    for column in ("background_syncs", "survived_power_loss"):
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False).encode())


@cli.command("sharing", short_help="Test whether two processes may use a store at once.")
@click.argument("names", nargs=-1, metavar="[STORE]...")
@click.option("--out", type=FILE, required=True, help="The CSV file to write.")
@PLACE
def sharing_command(names: Sequence[str], out: Path, place: Path) -> None:
    """Test what a second process may do with each STORE while a first one has it open.

    The table says whether the second process may open it, read what was there, see what the first
    one inserts meanwhile, and insert; and whether all records are intact for both and for a third
    process afterwards. `waits` means that the engine did not answer within ten seconds. Stores run
    as shipped.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    from kvbench.common.progress import progress  # noqa: PLC0415
    from kvbench.durability.kept import finish  # noqa: PLC0415
    from kvbench.durability.sharing import share  # noqa: PLC0415
    from kvbench.machine.scratch import scratch  # noqa: PLC0415

    known = catalogue.known()
    _refuse_unknown(names)
    chosen = [known[name] for name in names or filter(catalogue.compared, catalogue.names())]
    usable = [store for store in chosen if store.available and store.name != "null"]
    steps = progress(usable, [1] * len(usable), lambda store: store.full_name)
    with scratch(place) as folder:
        table = pd.DataFrame([share(store, folder) for store in steps])
    finish(out, table.to_csv(index=False).encode())


def _refuse_unknown(names: Sequence[str]) -> None:
    known = catalogue.known()
    for name in names:
        if name not in known:
            allowed = listed(known, name, "`kvbench stores`")
            raise BadInput(f"{name!r:.60} is not a store; allowed: {allowed}")


@cli.command("crash", short_help="Measure what a crash costs.")
@click.argument("names", nargs=-1, metavar="[STORE]...")
@click.option("--out", type=FILE, required=True, help="The CSV file to write.")
@PLACE
@click.option("--crashes", "count", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option(
    "--records",
    type=click.IntRange(1, 10_000_000),
    default=30_000,
    show_default=True,
    help="Loaded and written to disk before a crash.",
)
@click.option(
    "--value-size", default="1 KiB", show_default=True, metavar="SIZE", help="Of each record."
)
@click.option(
    "--seconds",
    type=float,
    default=1.0,
    show_default=True,
    help="Of writing before a crash at most; each crash comes after a random time of at least a "
    "quarter of it.",
)
def crash_command(
    names: Sequence[str],
    out: Path,
    place: Path,
    count: int,
    records: int,
    value_size: str,
    seconds: float,
) -> None:
    """Measure what a crash costs each STORE.

    A crash comes while the store is written as fast as it can: at durability none the writing
    process is killed, at process the machine loses power, which is simulated. The table has a row
    for each crash: the time to open the store again, the time to the first correct get, the
    acknowledged writes that are lost, and how long before the crash the first of them was
    acknowledged. A level that a store lacks is left out. Without STORE, eight stores are measured.

    Losses of power need root; without root only processes are killed. If it is stopped, the rows of
    the stores that are done are kept in OUT.part, and the same command goes on from there.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    from kvbench.cell.contract import StoreError  # noqa: PLC0415
    from kvbench.common.progress import progress  # noqa: PLC0415
    from kvbench.durability.crashes import KINDS, POWER, STORES, Steady, crashes  # noqa: PLC0415
    from kvbench.durability.evidence import levels, mounting_fails  # noqa: PLC0415
    from kvbench.durability.kept import Rows, finish, measured  # noqa: PLC0415
    from kvbench.machine.description import conditions  # noqa: PLC0415
    from kvbench.machine.scratch import scratch  # noqa: PLC0415

    _refuse_unknown(names)
    if not 0.01 <= seconds <= 60:  # nor a NaN
        raise BadInput(f"--seconds: {seconds} is not allowed; allowed: 0.01 to 60")
    steady = Steady.of(records, value_size)
    kinds = dict(KINDS)
    known = catalogue.known()

    def rows_of(store: Store, level: str, folder: Path) -> Rows | None:
        try:
            return list(crashes(store, level, kinds[level], folder, steady, seconds, count))
        except StoreError as error:
            say(f"{store.full_name} {level}: not loaded: {error}")
            return None

    with scratch(place) as folder:
        kinds = dict(KINDS)
        if why := mounting_fails(folder):
            say(f"no loss of power can be simulated here: {why}")
            kinds = {level: kind for level, kind in KINDS.items() if kind != POWER}
        pairs = []
        for name in names or filter(known.__contains__, STORES):
            own = [level for level in levels(known[name]) if level in kinds]
            pairs += [(known[name], level) for level in own if known[name].available]
            if why := known[name].reason or ("" if own else f"has none of {', '.join(kinds)}"):
                say(f"{name}: {why}")
        if not pairs:
            raise BadInput(f"no store can crash here; allowed: those with {' or '.join(kinds)}")
        about = {"crashes": count, "seconds": seconds} | dataclasses.asdict(steady)
        about |= conditions(folder, known)
        steps = progress(pairs, [1] * len(pairs), lambda pair: f"{pair[0].full_name} {pair[1]}")
        rows = measured(out, about, steps, _rests_on, lambda pair: rows_of(*pair, folder))
    table = pd.DataFrame(rows)
    for column in table.columns[table.columns.str.endswith(("_writes", "_records"))]:
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False, float_format="%.6g").encode())


def _rests_on(pair: tuple[Store, str]) -> str:
    """All that a store's rows at a level depend on, beside the machine."""
    store, level = pair
    return f"{store.full_name} {store.version} {level} {checksum(store)}"


@cli.command(short_help="Show what is done, what failed, and why.")
@click.argument("folder", type=PATH)
def status(folder: Path) -> None:
    """Show what is done of the grids that were swept into FOLDER.

    Prints the number of cells by status, each failed cell with its reason, and why other cells
    were not measured.
    """
    from kvbench.experiment.decide import needed  # noqa: PLC0415 - slow to import
    from kvbench.results.folder import Folder  # noqa: PLC0415

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


@cli.command(short_help="Write the tables of a results folder.")
@click.argument("folder", type=PATH)
@click.option("--csv", is_flag=True, help="Write CSV files as well.")
@click.option("--xlsx", is_flag=True, help="Write an Excel file as well.")
def collect(folder: Path, csv: bool, xlsx: bool) -> None:
    """Write the tables of the results in FOLDER, as Parquet files beside them."""
    from kvbench.results.folder import Folder  # noqa: PLC0415 - slow to import
    from kvbench.results.tables import check_targets, export  # noqa: PLC0415

    check_targets(folder, csv, xlsx)
    with _kept("each table is whole, or as it was; the same command writes all of them"):
        tables = Folder(folder).collect()
        export(tables, folder, csv, xlsx)
    click.echo(", ".join(f"{table.num_rows} {name}" for name, table in tables.items()))
    _say_flags(tables["cells"].to_pylist())


def _say_flags(cells: Sequence[dict[str, Any]]) -> None:
    """Report the cells that were measured and whose result has a reason to doubt it."""
    flags = Counter((row["store"], row["reason"]) for row in cells if row["status"] == "ok")
    for (store, why), number in sorted(flags.items()):
        if why:
            say(one_line(f"{store}: {number} cells: {why}"))


@cli.command(short_help="Make a results folder of collected tables, to go on with.")
@click.argument("source", type=PATH, metavar="FOLDER")
@click.option("--out", type=PATH, required=True, help="The folder to make; new or empty.")
def restore(source: Path, out: Path) -> None:
    """Make a results folder of the tables that `kvbench collect` wrote into FOLDER.

    A sweep into the new folder measures only what the tables lack. A cell counts as measured where
    machine, engine and the code that measures are those of the tables. If this is stopped, there is
    no folder.
    """
    from kvbench.results.folder import restore as restored  # noqa: PLC0415 - slow to import

    folder = restored(source, out)
    click.echo(f"{len(folder.current())} cells")


@cli.command("import", short_help="Make tables of results that other programs measured.")
@click.argument("table", type=PATH, metavar="TABLE.csv")
@click.option("--out", type=PATH, required=True, help="The folder to make; new or empty.")
def import_command(table: Path, out: Path) -> None:
    """Write results that other programs measured as the tables of a results folder.

    TABLE.csv has a row for each operation of each store, with the columns store, operation,
    record_size, records and n, and at least one of mean_ns, sum_ns, p50_ns, p90_ns, p99_ns and
    p999_ns. Every other column of the tables that data/README.md explains may be added, such as
    durability, compressibility, trial, disk_bytes, min_ns, max_ns, cpu and memory_bytes. A value
    that is missing stays missing: figures call it "not stated", and no default is assumed.

    The first row that cannot be used is reported, and then nothing is written.
    """
    from kvbench.results.importer import import_table  # noqa: PLC0415 - slow to import

    tables = import_table(table, out)
    click.echo(", ".join(f"{found.num_rows} {name}" for name, found in tables.items()))


@cli.command(short_help="Say which store to choose.")
@click.option("--record-size", required=True, metavar="SIZE", help="Of a value: 4KiB.")
@click.option("--records", required=True, metavar="N", help="How many there are: 100k.")
@click.option(
    "--mix",
    default="get=0.5,update=0.5",
    show_default=True,
    metavar="OPERATION=SHARE,...",
    help="Shares of insert, get, update and remove.",
)
@click.option(
    "--durability",
    metavar="LEVEL",
    help="What a write survives: process or sync; other levels only if FOLDER has them.  "
    "[default: process, if FOLDER states any]",
)
@click.option(
    "--access",
    type=click.Choice(["c", "python"]),
    default="c",
    show_default=True,
    help="From which language. Python's packages are ranked as shipped, those that survive the "
    "same together.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Budget of the engine's own.  [default: as shipped, if FOLDER states any]",
)
@click.option(
    "--sync-time",
    metavar="TIME",
    help="In which your device syncs, at --durability sync: 2ms. Times are then computed.",
)
@click.option(
    "--may-grow", is_flag=True, help="Rank stores whose file only grows with updates and removes."
)
@click.option("--c-interface", is_flag=True, help="Rank only stores that programs in C can call.")
@click.option(
    "--where",
    multiple=True,
    metavar="COLUMN=LEVEL",
    help="Rest on the cells of this level of a column, of which FOLDER has several: key_size=16.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="FOLDER",
    help="Collected results to rely on.  [default: data/reference; for Python data/python or "
    "data/bindings]",
)
@click.option(
    "--space",
    type=PATH,
    metavar="FOLDER",
    help="Collected results that have the space after equal work.  [default: space beside FOLDER]",
)
@click.option(
    "--measure",
    "budget",
    metavar="TIME",
    help="Then measure here which of the stores that FOLDER does not tell apart is best: 60s.",
)
@click.option("--out", type=PATH, help="Keep what --measure measures in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def advise(
    record_size: str,
    records: str,
    mix: str,
    durability: str | None,
    access: str,
    memory: str | None,
    sync_time: str | None,
    may_grow: bool,
    c_interface: bool,
    where: Sequence[str],
    data: Path | None,
    space: Path | None,
    budget: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Say which stores are best for some records and a mix of operations.

    Rests on FOLDER, and interpolates between the record sizes and numbers that were measured there,
    never beyond them. Prints the stores, by how many times each is slower than the best (its
    regret), with an interval, the settings to use, and what a crash may cost with them.

    Stores as shipped survive different things: those that survive the same are ranked together, and
    those that survive less than --durability asks for are left out.

    --measure adds trials on this machine until it is known which stores are best. If it ends
    before, the answer rests on FOLDER, and the exit status is 3, or 130 after Ctrl-C.
    """
    from kvbench.answers import advise as advice  # noqa: PLC0415 - slow to import
    from kvbench.answers import report  # noqa: PLC0415
    from kvbench.results.measured import Measured  # noqa: PLC0415

    _check_advice(access, c_interface, sync_time, budget, out)
    seconds = None if budget is None else _seconds("--measure", budget, 60 * MOST_MINUTES)
    size = _named("--record-size", parse_bytes, record_size)
    if not 1 <= size <= MAX_RECORD_SIZE:
        raise BadInput(
            f"--record-size: {record_size!r:.60} is out of range; allowed: 1 B to 64 MiB"
        )
    query = advice.Query(
        size,
        _count("--records", records),
        _shares(mix),
        durability or "",
        "" if memory is None else _named("--memory", _budget, memory),
        None if sync_time is None else 1e9 * _seconds("--sync-time", sync_time, MOST_SYNC),
        may_grow,
        c_interface,
    )
    levels, folders = _where(where), _folders(data, access)
    refused: BadInput | None = None
    for folder in folders:
        beside = folder.parent / "space"
        equal = beside if space is None and (beside / "cells.parquet").exists() else space
        known = Measured.of(folder, access, levels, equal)
        try:
            found = advice.answers(known, query)
            break
        except BadInput as error:  # beyond this folder; another may have measured it
            refused = refused or error
    else:
        assert refused is not None
        raise refused
    shown = [report.report(known, one) for one in found]
    as_shipped = found[0].query.durability == DEFAULT
    if seconds is None:
        told: Any = {"guarantees": shown} if as_shipped else shown[0]
        parts = list(map(report.text, shown))
        click.echo(report.to_json(told) if as_json else "\n\n\n".join(parts))
        return
    if as_shipped:
        raise BadInput("--measure: not of stores as shipped; allowed: with --durability LEVEL")
    told, status = _measured(found[0], shown[0], seconds, out)
    click.echo(report.to_json(told) if as_json else report.both(told))
    if status:
        sys.exit(status)


def _check_advice(
    access: str, c_interface: bool, sync_time: str | None, budget: str | None, out: Path | None
) -> None:
    """Refuse options of which one makes another useless."""
    if out is not None and budget is None:
        raise BadInput(f"--out: {brief(str(out))!r} is of no use without --measure")
    if sync_time is not None and budget is not None:
        raise BadInput(
            f"--sync-time: {sync_time!r:.60} is of no use with --measure: here is this device"
        )
    if access == "python" and (c_interface or budget is not None):
        option = "--c-interface" if c_interface else "--measure"
        raise BadInput(f"{option}: not allowed with --access python; allowed: with --access c")


def _measured(
    found: "Advice", known: dict[str, Any], seconds: float, out: Path | None
) -> tuple[dict[str, Any], int]:
    """The report of an answer after measuring here, and the exit status. It rests on what was
    measured if that came to its end, else on what was known before."""
    from kvbench.answers import advise as advice  # noqa: PLC0415 - slow to import
    from kvbench.answers import here, report  # noqa: PLC0415

    if len(found.candidates) < 2:
        why = "nothing to measure: the data leave fewer than two stores to choose from"
        return known | {"measured": {"finished": True, "why": why, "report": None}}, 0
    try:
        done = here.measure(found.query, found.candidates, seconds, out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(GOES_ON if out else NOTHING_KEPT) from None
    own = None
    if done.data is not None:
        own = report.report(done.data, advice.advise(done.data, found.query))
    if own is not None and not done.why:
        return own | {"measured": {"finished": True, "why": "", "report": None}, "known": known}, 0
    why = done.why or "no trial has all stores"
    status = STOPPED if done.interrupted else SOME_FAILED
    return known | {"measured": {"finished": False, "why": why, "report": own}}, status


def _folders(data: Path | None, access: str) -> list[Path]:
    """The folders to rely on, the first that covers a query; by default the repository's."""
    if data is not None:
        return [data]
    folders = [Path("data") / name for name in REPOSITORY[access]]
    found = [folder for folder in folders if folder.exists()]
    if not found:
        raise BadInput(
            f"--data: there is no {folders[0]} here; allowed: the {folders[0]} of the paper's "
            "repository, or a folder of your own after `kvbench collect`"
        )
    return found


def _budget(text: str) -> str:
    return text if text == NOT_STATED else FACTORS["memory"].level(text)


def _where(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        column, sign, level = text.partition("=")
        if not sign or not column or column in found:
            raise BadInput(
                f"--where: {text!r:.60} is not allowed; allowed: COLUMN=LEVEL, once for a column, "
                "as key_size=16"
            )
        found[column] = level
    return found


def _named(option: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{option}: {error}") from None


def _seconds(option: str, text: str, most: float) -> float:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(us|ms|s|min)\s*", text)
    found = float(match[1]) * units[match[2]] if match else 0.0
    if not found:
        raise BadInput(f"{option}: {text!r:.60} is not a time; allowed: 200us, 2ms, 60s, 5min")
    if found > most:
        raise BadInput(f"{option}: {text!r:.60} is too long; allowed: {most:g} s at most")
    return found


def _count(option: str, text: str) -> int:
    """A number of records: digits, in groups of three or not, also with k, M or an exponent."""
    plain = re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text.strip())
    match = re.fullmatch(r"(\d{1,19})|(\d{1,12}(?:\.\d{1,9})?) ?([kKM]|[eE]\+?\d{1,2})", plain)
    found = Decimal(0)
    if match and match[1]:
        found = Decimal(match[1])
    elif match:
        scale = {"k": "e3", "K": "e3", "M": "e6"}.get(match[3], match[3])
        found = Decimal(f"{match[2]}{scale}")
    if not 1 <= found <= MOST or found % 1:
        raise BadInput(
            f"{option}: {text!r:.60} is not a number of records; allowed: 1000, 100k, 1M, 1e6"
        )
    return int(found)


def _shares(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)=(\d{1,9}(?:\.\d{1,9})?)\s?(%?)\s*", part)
        if not match or match[1] not in OPERATIONS or match[1] in found:
            raise BadInput(
                f"--mix: {part!r:.60} is not allowed; allowed: shares of {', '.join(OPERATIONS)}, "
                "each once, as get=0.9,update=0.1"
            )
        found[match[1]] = float(match[2]) / (100 if match[3] else 1)
    if not sum(found.values()):
        raise BadInput(f"--mix: {text!r:.60} has no operation; allowed: one with a share above 0")
    return {operation: share for operation, share in found.items() if share}


@cli.command(short_help="Compare two results folders.")
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@click.option(
    "--fail-above",
    metavar="PERCENT",
    help="Exit with status 1 if a store, or an operation of a cell, became slower by more: 10%.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def compare(before: Path, after: Path, fail_above: str | None, as_json: bool) -> None:
    """Show what changed from the collected folder BEFORE to AFTER, cell by cell.

    Prints, as Markdown, what else differs (machine, versions), then each store over all its cells,
    and each operation of each cell whose time changed beyond the noise of the trials, with its
    interval. Of a hundred changes that are named, five may be chance.

    A machine is not as fast on every day: measure both in turn, a trial each, by sweep --again.
    """
    from kvbench.answers.compare import Side, report, slower, to_json  # noqa: PLC0415 - slow to import
    from kvbench.answers.compare import compare as compared  # noqa: PLC0415

    most = None if fail_above is None else _percent("--fail-above", fail_above)
    sides = Side(before), Side(after)
    tables = compared(*sides)
    click.echo((to_json if as_json else report)(*sides, *tables))
    if most is not None and any(len(slower(table, most)) for table in tables):
        sys.exit(SLOWER)


def _percent(name: str, text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadInput(f"{name}: {text!r:.60} is not allowed; allowed: a percentage, as 10%")
    return value / 100


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Show what any program writes and syncs.",
)
@click.option(
    "--operations",
    type=click.IntRange(1),
    metavar="N",
    help="Writes that the program makes: adds what each one costs, and the durability level.",
)
@click.option(
    "--aside",
    multiple=True,
    metavar="PATTERN",
    help="Files and folders that hold no records, as '*.log' or lock.mdb. May be repeated.",
)
@click.option("--out", type=FILE, help="A file for the report.  [default: standard error]")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON, for programs.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
def audit(
    operations: int | None,
    aside: Sequence[str],
    out: Path | None,
    as_json: bool,
    command: Sequence[str],
) -> None:
    """Run COMMAND under strace, and report its sync calls, writes and reads, by file.

    Output and exit status of COMMAND pass through. The report says whether all that was written
    was synced before the program ended and, given the number of its writes, which durability level
    they amount to. The level is "not known" where it depends on what strace does not show, as
    writes through a map; the report names it. Ctrl-C ends COMMAND and reports what it did.
    """
    from kvbench.durability.audit import audit as run  # noqa: PLC0415 - slow to import
    from kvbench.durability.audit import text  # noqa: PLC0415

    report = run(command, aside)
    said = json.dumps(report.facts(operations), indent=1) if as_json else text(report, operations)
    try:
        if out is not None:
            write_whole(out, f"{said}\n".encode(errors="surrogateescape"))
    except OSError:
        say(said)  # or what took long would be lost
        raise
    if out is None:
        click.echo(said, err=True)
    if report.stopped:
        sys.exit(STOPPED)
    sys.exit(report.status if report.status >= 0 else 128 - report.status)


def _prepare_streams() -> None:
    """Stand in for standard streams that are closed: a file opened later would take their number.
    Print paths that are not UTF-8 as they are."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]


def _ignore_stops() -> None:
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def _stop(_number: int, _frame: object) -> None:
    """Stop the command, once: whoever asks again finds it clearing up."""
    _ignore_stops()
    raise KeyboardInterrupt


def _again(ignored: "sys.UnraisableHookArgs") -> None:
    """Stop once more, a little later: Python drops what is raised in a callback, as in a fork."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(ignored)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Bad input is one line on standard error and exit status 2."""
    _prepare_streams()
    sys.unraisablehook = _again
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it, or a shell's background
            signal.signal(number, _stop)
    try:
        code = cli.main(arguments, prog_name="kvbench", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the whole help
        say(error.format_message())
        code = error.exit_code
    except click.ClickException as error:
        said = re.sub(r"'([^']+)'", lambda found: f"'{brief(found[1])}'", error.format_message())
        say(f"kvbench: {one_line(said)}")
        code = error.exit_code
    except BadInput as error:
        say(f"kvbench: {error}")
        code = 2
    except OSError as error:
        printed = "standard output" if error.errno in UNWRITTEN else ""  # files have their names
        where = f"{error.filename or printed}: ".removeprefix(": ")
        say(f"kvbench: {one_line(f'{where}{why_not(error)}')}")
        code = 2
    except (click.Abort, KeyboardInterrupt) as stop:
        say(f"kvbench: stopped; {one_line(str(stop.__cause__ or stop)) or NOTHING_KEPT}")
        code = STOPPED
    finally:
        _ignore_stops()  # the work is done, and its status known
    sys.exit(code)


if __name__ == "__main__":
    main()
