"""The commands that use results: collect, compare, restore, import, submit, accept."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kvbench.cli.ends import SLOWER, kept
from kvbench.cli.options import AS_JSON, FILE, NEW_FOLDER, PATH, Read, count, folder
from kvbench.common.messages import BadInput, one_line, say

MIXED = {  # what to know of a folder with several levels of a factor
    "seed": "a sweep adds cells of its grid's seed alone, and no command averages over seeds",
    "label": "a sweep adds cells of the labels in its grid alone",
}


@click.command(short_help="Write the tables of a results folder.")
@click.argument("folder", type=PATH)
@click.option("--csv", is_flag=True, help="Write CSV files as well.")
@click.option("--xlsx", is_flag=True, help="Write an Excel file as well.")
def collect(folder: Path, csv: bool, xlsx: bool) -> None:
    """Write the tables of the results in FOLDER, as Parquet files beside them."""
    from kvbench.results.folder import Folder
    from kvbench.results.tables import check_targets, export

    check_targets(folder, csv, xlsx)
    with kept("each table is whole, or as it was; the same command writes all of them"):
        tables = Folder(folder).collect()
        export(tables, folder, csv, xlsx)
    click.echo(", ".join(f"{table.num_rows} {name}" for name, table in tables.items()))
    _say_flags(tables["cells"].to_pylist())


@click.command(short_help="Join the tables of several sittings.")
@click.argument("folders", type=PATH, nargs=-1, required=True, metavar="FOLDER...")
@click.option("--out", type=PATH, required=True, help="The folder to write; it may be a FOLDER.")
def join(folders: tuple[Path, ...], out: Path) -> None:
    """Write the tables of several collected folders as one, for an experiment that was measured in
    sittings: on several days, or on several machines. Each FOLDER has trials of its own, which
    `kvbench sweep --after` sees to, and all were measured by the same code."""
    from kvbench.results.sittings import join as joined
    from kvbench.results.tables import check_targets

    check_targets(out, csv=False, xlsx=False)
    with kept("each table is whole, or as it was; the same command writes all of them"):
        tables = joined(folders, out)
    click.echo(", ".join(f"{table.num_rows} {name}" for name, table in tables.items()))


def _say_flags(cells: Sequence[dict[str, Any]]) -> None:
    """Report the measured cells whose result is flagged as doubtful."""
    flags = Counter((row["store"], row["reason"]) for row in cells if row["status"] == "ok")
    for (store, why), number in sorted(flags.items()):
        if why:
            say(one_line(f"{store}: {number} cells: {why}"))


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadInput(f"{text!r:.60} is not allowed; allowed: a percentage, as 10%")
    return value / 100


@click.command(short_help="Compare two results folders.")
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@click.option(
    "--fail-above",
    "most",
    type=Read(_percent),
    metavar="PERCENT",
    help="Exit with status 1 if a store, or an operation of a cell, became slower by more than "
    "this: 10%.",
)
@AS_JSON
def compare(before: Path, after: Path, most: float | None, as_json: bool) -> None:
    """Show what changed from the collected folder BEFORE to AFTER, cell by cell.

    Prints as Markdown which conditions differ (machine, versions), how each store changed over all
    its cells, and each operation of a cell whose time changed beyond the noise of the trials, with
    its interval. Of a hundred changes that are named, five may be chance. Stores that cannot be
    compared are listed with the reason.

    A machine is not equally fast every day: measure both in turn, one trial each, by sweep --again.
    """
    from kvbench.answers.compare import Side, report, slower, to_json
    from kvbench.answers.compare import compare as compared

    sides = Side(before), Side(after)
    tables = compared(*sides)
    click.echo((to_json if as_json else report)(*sides, *tables))
    if most is not None and any(len(slower(table, most)) for table in tables):
        sys.exit(SLOWER)


@click.command(short_help="Make a results folder of collected tables, to go on with.")
@click.argument("source", type=PATH, metavar="FOLDER")
@NEW_FOLDER
def restore(source: Path, out: Path) -> None:
    """Make a results folder of the tables that `kvbench collect` wrote into FOLDER.

    A sweep into the new folder measures only what the tables lack. A cell counts as measured where
    machine, engine and the code that measures are those of the tables. If the command is stopped,
    it leaves no folder. If the tables have several seeds or labels, the command names them.
    """
    from kvbench.results.folder import restore as restored

    results = restored(source, out).current().values()
    click.echo(f"{len(results)} cells")
    for factor, then in MIXED.items():
        levels = sorted({str(result["cell"][factor]) for result in results})
        if len(levels) > 1:
            shown = ", ".join(level or "(empty)" for level in levels)
            click.echo(f"several levels of {factor}: {shown}; {then}")


@click.command("import", short_help="Make tables of results that other programs measured.")
@click.argument("file", type=PATH)
@NEW_FOLDER
@click.option(
    "--format",
    "name",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, table, db_bench, report-tsv, tidesdb, redb, ycsb, crud-bench, go-bench, "
    "benchmark-dotnet, ioarena, storage-bench or keybench.",
)
@click.option("--store", metavar="NAME", help="The store of rows that name none.")
@click.option(
    "--records",
    type=Read(count),
    metavar="N",
    help="The number of records of rows that state none: 1M.",
)
@click.option("--value-size", metavar="SIZE", help="The size of a value of such rows: 100B.")
@click.option("--key-size", metavar="SIZE", help="The size of a key of such rows: 16B.")
@click.option("--operations", type=Read(count), metavar="N", help="The operations of such rows.")
@click.option("--durability", metavar="LEVEL", help="What a write of such rows survives: sync.")
def import_(
    file: Path,
    out: Path,
    name: str,
    store: str | None,
    records: int | None,
    value_size: str | None,
    key_size: str | None,
    operations: int | None,
    durability: str | None,
) -> None:
    """Write results that other programs measured as the tables of a results folder.

    FILE is what such a program wrote, or a table with a row for each operation of each store. The
    columns of a table are those that data/README.md explains, or usual names such as "engine",
    "value size", "p99 (us)" and "ops/s"; columns are separated by commas, semicolons, tabs or bars.
    Needed are a store, an operation, the size of a value, the number of records, the number of
    operations timed, and a time; the options say what FILE does not. A value that is missing stays
    missing: figures call it "not stated", and no default is assumed.

    If a row cannot be used, the command reports the first such row and writes nothing. Operations
    of other programs that are none of ours are left out, and named.
    """
    from kvbench.results.importer import import_table

    given = {
        "store": store, "records": records, "n": operations, "durability": durability,
        "record_size": value_size, "key_size": key_size,
    }  # fmt: skip
    said = {column: str(value) for column, value in given.items() if value is not None}
    left: Counter[str] = Counter()
    tables = import_table(file, out, name, said, left)
    if left:
        say(f"left out, since they are no operations here: {', '.join(left)}")
    click.echo(", ".join(f"{found.num_rows} {name}" for name, found in tables.items()))


@click.command(short_help="Make one file of results, to hand on.")
@click.argument("source", type=PATH, metavar="FOLDER")
@click.option("--out", type=FILE, required=True, help="The file to write, such as mine.zip.")
def submit(source: Path, out: Path) -> None:
    """Write the tables of a collected FOLDER as one file, an RO-Crate, for others to accept.

    It states the machine, the versions of the engines, the days and a checksum of each table.
    Folders of users, your user name and the name of this host are taken out of its texts. Results
    that `kvbench accept` would refuse are refused here, in the same words.
    """
    from kvbench.results.bundle import submit as submitted

    tables = submitted(source, out)
    click.echo(f"{out}: {out.stat().st_size:,} B, {tables['cells'].num_rows:,} cells")


@click.command(short_help="Take in results that someone submitted.")
@click.argument("file", type=PATH)
@click.option(
    "--into",
    type=Read(folder),
    default=Path("data/submitted"),
    show_default=True,
    metavar="FOLDER",
    help="The folder in which to make one of the results.",
)
def accept(file: Path, into: Path) -> None:
    """Check FILE, which `kvbench submit` wrote, and write its tables as a folder of results.

    Checksums, versions and statistics are computed again. Results that no machine can have are
    refused, such as reads faster than copies of memory or synced writes faster than the device, and
    so are counts that do not add up and trials that are copies. Then nothing is written.
    """
    from kvbench.results.bundle import accept as accepted

    click.echo(accepted(file, into))
