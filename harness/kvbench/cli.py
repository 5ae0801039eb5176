"""The command line."""

import dataclasses
import json
import math
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from kvbench import BadInput, one_line, stores, write_whole
from kvbench.grid import TIME_LIMIT, Cell, read_grids

if TYPE_CHECKING:
    from kvbench.results import Folder
    from kvbench.sweep import Sweep

DIRECTORY = click.Path(path_type=Path)
MOST_SECONDS = 1e6  # that a cell may take: the system waits for 24 days at most
SOME_FAILED = 3  # exit status when the sweep ended, but not every cell was measured
STOPPED = 130  # exit status after an interrupt, as shells have it
UNSTEADY_SHOWN = 10


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kvbench")
def cli() -> None:
    """Measure files and embedded key-value stores at equal terms."""


@cli.command("stores")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@click.option("--settings", is_flag=True, help="List the levels that each has, and what they set.")
def stores_command(as_json: bool, settings: bool) -> None:
    """List the stores, from C and from Python: engine version and capabilities, or why not."""
    found = list(stores.known().values())
    if as_json:
        rows = [
            {
                "store": store.name,
                "access": store.access,
                "binding": store.binding,
                "available": store.available,
                "reason": store.reason,
                "version": store.version,
                "binding_version": store.binding_version,
                "capabilities": store.capabilities,
                "max_key": store.max_key,
                "max_value": store.max_value,
                "default_durability": store.default_durability,
                "settings": [dataclasses.asdict(setting) for setting in store.settings],
            }
            for store in found
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    if settings:
        _print_settings(found)
        return
    table = [
        (
            store.name,
            f"{store.binding} {store.binding_version}".strip() or "c",
            store.version if store.available else "unavailable",
            ", ".join(store.capabilities),
        )
        for store in found
    ]
    headers = ("store", "access", "engine version", "capabilities")
    click.echo(tabulate(table, headers=headers, disable_numparse=True))
    for store in found:
        if not store.available:
            click.echo(f"{store.label}: {store.reason}")


def _print_settings(found: list[stores.Store]) -> None:
    """Bindings have none: they are measured as shipped."""
    rows = [
        (
            store.name,
            setting.name,
            {"": f"{setting.least:,} or more", "*": "other"}.get(setting.value, setting.value),
            setting.means or f"lacking: {setting.lacks}",
        )
        for store in found
        for setting in store.settings
    ]
    click.echo(tabulate(rows, headers=("store", "setting", "value", "what the store does for it")))


def _print_counts(counts: Counter[str]) -> None:
    words = ("ok", "failed", "skipped", "unavailable", "to do")
    click.echo(", ".join(f"{counts[word]} {word}" for word in words if counts[word]))


def _refuse_nan(context: click.Context, option: click.Parameter, value: float) -> float:
    """No range does it: a NaN is neither less nor more than any limit."""
    if math.isnan(value):
        raise click.BadParameter(f"{value} is no number of seconds.", context, option)
    return value


@cli.command()
@click.argument("grid", type=DIRECTORY)
@click.option("--out", type=DIRECTORY, required=True, help="The results folder.")
@click.option("--dry-run", is_flag=True, help="Show cells, bytes and time; measure nothing.")
@click.option("--retry", is_flag=True, help="Measure failed cells again.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True, max=MOST_SECONDS),
    callback=_refuse_nan,
    default=TIME_LIMIT,
    show_default=True,
    help="Seconds that a cell may take.",
)
@click.option(
    "--scale", help="Of an experiment: one that GRID names, or a factor for its record counts."
)
@click.option(
    "--stores",
    "place",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Make the stores in a folder of their own below this one, on the disk to be measured; "
    "default: OUT.",
)
@click.option(
    "--memory-max", metavar="SIZE", help='Cap each cell, page cache included: "64 MiB"; as root.'
)
def sweep(
    grid: Path,
    out: Path,
    dry_run: bool,
    retry: bool,
    time_limit: float,
    scale: str | None,
    place: Path | None,
    memory_max: str | None,
) -> None:
    """Measure the cells of GRID (a TOML file) that OUT holds no result of.

    Ctrl-C stops when the running cell is put down; the same command goes on from there. Exit
    status 3: the sweep ended, but some cells failed; `kvbench status` says why; 130: it was
    stopped.
    """
    from kvbench.results import Folder  # noqa: PLC0415 - slow to import
    from kvbench.sweep import Sweep  # noqa: PLC0415

    replaced = {} if memory_max is None else {"memory_max": [memory_max]}
    job = Sweep(read_grids(grid, stores.names(), replaced, scale), out, retry, place)
    if dry_run:
        _dry_run(job)
        return
    counts = job.run(time_limit)
    _print_counts(counts)
    if job.stopped:
        click.echo(f"stopped; to go on: {shlex.join(['kvbench', *sys.argv[1:]])}")
    _print_unsteady(Folder(out))
    if job.stopped:
        sys.exit(STOPPED)
    if counts["failed"]:
        sys.exit(SOME_FAILED)


def _print_unsteady(folder: "Folder") -> None:
    """Cells whose trials disagree, and what to do about them."""
    from kvbench.noise import ADVICE, SPREAD, unsteady  # noqa: PLC0415 - slow to import

    tables = folder.tables()
    found = unsteady(tables["cells"].to_pandas(), tables["operations"].to_pandas())
    if found.empty:
        return
    shown = [
        (f"{row.files}.json", row.operation, row.trials, f"{row.spread:.2f}")
        for row in found.head(UNSTEADY_SHOWN).itertuples()
    ]
    headers = ("cells/", "operation", "trials", "times")
    table = tabulate(shown, headers=headers, disable_numparse=True)
    more = f"\nand {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    click.echo(
        f"unsteady: the mean times of {len(found)} operations of cells differ by more than "
        f"{SPREAD:g} times among their trials; {ADVICE}\n{table}{more}",
        err=True,
    )


def _dry_run(sweep: "Sweep") -> None:
    from kvbench.estimate import seconds  # noqa: PLC0415
    from kvbench.machine import fsync_milliseconds  # noqa: PLC0415
    from kvbench.results import Folder  # noqa: PLC0415

    Folder.refuse_foreign(sweep.out)
    # The device is asked beside the stores' folder, which is not made for that.
    where = (sweep.place, *sweep.place.absolute().parents)
    above = next(path for path in where if path.exists())
    with tempfile.TemporaryDirectory(dir=above) as probe:
        fsync_ms = fsync_milliseconds(Path(probe))
    rows, total = [], 0.0
    measured = skipped = loaded = 0
    for cell, skip_reason in sweep.plan():
        why = skip_reason or sweep.stores[cell.label].reason
        estimate = 0.0 if why else seconds(cell, fsync_ms)
        measured, skipped = measured + (not why), skipped + bool(why)
        total += estimate
        loaded += 0 if why else cell.live_bytes
        if cell.trial == 1:
            levels = ", ".join(cell.levels())
            factors = (cell.label, cell.record_size, cell.records, cell.compressibility, levels)
            rows.append((*factors, why or f"{cell.live_bytes:,} B, {estimate:.1f} s"))
    headers = ("store", "record size", "records", "compressibility", "levels", "each trial")
    click.echo(tabulate(sorted(rows), headers=headers))
    trials = max(grid.trials for grid in sweep.grids)
    click.echo(
        f"{trials} trials: {measured} cells to measure, {skipped} not, "
        f"{loaded:,} bytes to load, about {total / 60:.1f} minutes"
    )


@cli.command("evidence")
@click.argument("names", nargs=-1, metavar="[STORE]...")
@click.option("--out", type=DIRECTORY, required=True, help="The table, as a CSV file.")
@click.option(
    "--place", type=DIRECTORY, default=Path(), help="A folder to write in; default: this one."
)
def evidence_command(names: Sequence[str], out: Path, place: Path) -> None:
    """Show what each level of durability does: syncs counted, crashes survived.

    Needs strace; power losses need root besides, and are left blank without.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import
    from tqdm import tqdm  # noqa: PLC0415

    from kvbench.evidence import evidence, levels, tracing_fails  # noqa: PLC0415

    known = {name: store for name, store in stores.known().items() if not store.binding}
    for name in names:
        if name not in known:
            raise BadInput(f"{name!r} is no store; allowed: {', '.join(known)}")
    if why := tracing_fails():
        raise BadInput(f"syncs can't be counted here: {why}")
    chosen = [known[name] for name in names or known if known[name].available and name != "null"]
    pairs = [(store, level) for store in chosen for level in levels(store)]
    with tempfile.TemporaryDirectory(dir=place) as folder:
        rows = [evidence(store, level, Path(folder)) for store, level in tqdm(pairs)]
    table = pd.DataFrame(rows)
    for column in ("background_syncs", "survived_power_loss"):
        table[column] = table[column].astype("Int64")
    write_whole(out, table.to_csv(index=False).encode())


@cli.command()
@click.argument("folder", type=DIRECTORY)
def status(folder: Path) -> None:
    """Tell what of the grids swept into FOLDER is done."""
    from kvbench.results import Folder  # noqa: PLC0415

    results = Folder(folder)
    counts: Counter[str] = Counter()
    to_do = results.planned()
    failures = []
    for name, result in results.current().items():
        counts[result["status"]] += 1
        to_do.discard(Cell.from_factors(result["cell"]))
        if result["status"] == "failed":
            failures.append(f"failed: {name}: {result['reason']}")
    counts["to do"] = len(to_do)
    _print_counts(counts)
    for line in failures:
        click.echo(one_line(line))
    _print_unsteady(results)


@cli.command()
@click.argument("folder", type=DIRECTORY)
@click.option("--csv", is_flag=True, help="Write CSV files as well.")
@click.option("--xlsx", is_flag=True, help="Write an Excel file as well.")
def collect(folder: Path, csv: bool, xlsx: bool) -> None:
    """Collect the finished cells of FOLDER into Parquet tables beside them."""
    from kvbench.results import Folder, check_targets, export  # noqa: PLC0415

    check_targets(folder, csv, xlsx)
    tables = Folder(folder).collect()
    export(tables, folder, csv, xlsx)
    click.echo(", ".join(f"{table.num_rows} {name}" for name, table in tables.items()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Bad input is one line on the standard error and exit status 2."""
    try:
        code = cli.main(arguments, prog_name="kvbench", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"kvbench: {one_line(error.format_message())}", err=True)
        code = error.exit_code
    except BadInput as error:
        click.echo(f"kvbench: {error}", err=True)
        code = 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"kvbench: {one_line(f'{where}{error.strerror or error}')}", err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("kvbench: stopped; the same command goes on from here", err=True)
        code = STOPPED
    sys.exit(code)


if __name__ == "__main__":
    main()
