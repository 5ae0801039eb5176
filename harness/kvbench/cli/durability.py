"""The commands that test durability: evidence, crash, sharing, audit."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvbench.cell.contract import StoreError
from kvbench.cell.store import Store
from kvbench.cli.ends import STOPPED
from kvbench.cli.options import AS_JSON, FILE, PLACE, STORES, TABLE, number
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, say
from kvbench.stores import catalogue
from kvbench.stores.identity import checksum

if TYPE_CHECKING:
    from kvbench.durability.kept import Rows


def _usable(stores: Sequence[Store]) -> list[Store]:
    """The stores that can be opened here and that keep what is written."""
    return [store for store in stores if store.available and store.name != "null"]


def _rests_on(pair: tuple[Store, str]) -> str:
    """A text that names everything, except the machine, that a store's rows at a level depend
    on."""
    store, level = pair
    return f"{store.full_name} {store.version} {level} {checksum(store)}"


@click.command(short_help="Test what durability levels do.")
@STORES
@TABLE
@PLACE
def evidence(stores: Sequence[Store], out: Path, place: Path) -> None:
    """Test what each durability level of each STORE does.

    For each level the table shows the sync calls per write, and how many of 20 killed processes
    and of 20 simulated power failures lost no acknowledged write. A binding is named with its
    store, as sqlite/diskcache, and tested as shipped. Without STORE, all stores are tested, but
    for the second builds of engines (-debian).

    Counting syncs needs strace. Power failures need root besides; without root their column stays
    empty. If the command is stopped, it keeps the rows that are done in OUT.part, and the same
    command goes on from there.
    """
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.evidence import CRASHES, levels, mounting_fails
    from kvbench.durability.evidence import evidence as tested
    from kvbench.durability.kept import finish, measured
    from kvbench.durability.strace import tracing_fails
    from kvbench.machine.description import conditions
    from kvbench.machine.scratch import scratch

    if why := tracing_fails():
        raise BadInput(f"syncs cannot be counted here: {why}")
    known = catalogue.known()
    chosen = stores or [known[name] for name in filter(catalogue.compared, known)]
    pairs = [(store, level) for store in _usable(chosen) for level in levels(store)]
    with scratch(place) as folder:
        about = {"crashes": CRASHES, "cut": not mounting_fails(folder)}
        about |= conditions(folder, known)
        steps = progress(pairs, [1] * len(pairs), lambda pair: f"{pair[0].full_name} {pair[1]}")
        rows = measured(out, about, steps, _rests_on, lambda pair: [tested(*pair, folder)])
    table = pd.DataFrame(rows)
    for column in ("background_syncs", "survived_power_loss"):
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False).encode())


@click.command(short_help="Measure what a crash costs.")
@STORES
@TABLE
@PLACE
@click.option(
    "--crashes",
    "count",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Crashes at each durability level.",
)
@click.option(
    "--records",
    type=click.IntRange(1, 10_000_000),
    default=30_000,
    show_default=True,
    metavar="N",
    help="Records that are loaded and written to disk before a crash.",
)
@click.option(
    "--value-size", default="1 KiB", show_default=True, metavar="SIZE", help="Size of each value."
)
@click.option(
    "--seconds",
    type=number(0.01, 60),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time of writing before a crash; each crash comes after a random time, a quarter "
    "of this at least.",
)
def crash(
    stores: Sequence[Store],
    out: Path,
    place: Path,
    count: int,
    records: int,
    value_size: str,
    seconds: float,
) -> None:
    """Measure what a crash costs each STORE.

    A process writes as fast as it can until the crash. At durability none the process is killed; at
    durability process the machine loses power, which is simulated. The table has a row for each
    crash: the time to open the store again, the time to the first correct get, the acknowledged
    writes that are lost, and how long before the crash the first of them was acknowledged. A level
    that a store lacks is left out. Without STORE, eight stores are measured.

    Losses of power need root; without root only processes are killed. If the command is stopped, it
    keeps the rows of the stores that are done in OUT.part, and the same command goes on from there.
    """
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.crashes import KINDS, POWER, Steady, crashes
    from kvbench.durability.crashes import STORES as USUAL
    from kvbench.durability.evidence import levels, mounting_fails
    from kvbench.durability.kept import finish, measured
    from kvbench.machine.description import conditions
    from kvbench.machine.scratch import scratch

    steady = Steady.of(records, value_size)
    known = catalogue.known()

    def rows_of(store: Store, level: str, folder: Path) -> "Rows | None":
        try:
            return list(crashes(store, level, KINDS[level], folder, steady, seconds, count))
        except StoreError as error:
            say(f"{store.full_name} {level}: not loaded: {error}")
            return None

    with scratch(place) as folder:
        kinds = set(KINDS)
        if why := mounting_fails(folder):
            say(f"no loss of power can be simulated here: {why}")
            kinds = {level for level, kind in KINDS.items() if kind != POWER}
        pairs = []
        for store in stores or [known[name] for name in USUAL if name in known]:
            own = [level for level in levels(store) if level in kinds]
            pairs += [(store, level) for level in own if store.available]
            if why := store.reason or ("" if own else f"has none of {', '.join(sorted(kinds))}"):
                say(f"{store.full_name}: {why}")
        if not pairs:
            with_levels = " or ".join(sorted(kinds))
            raise BadInput(f"no store can crash here; allowed: those with {with_levels}")
        about = {"crashes": count, "seconds": seconds} | dataclasses.asdict(steady)
        about |= conditions(folder, known)
        steps = progress(pairs, [1] * len(pairs), lambda pair: f"{pair[0].full_name} {pair[1]}")
        rows = measured(out, about, steps, _rests_on, lambda pair: rows_of(*pair, folder))
    table = pd.DataFrame(rows)
    for column in table.columns[table.columns.str.endswith(("_writes", "_records"))]:
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False, float_format="%.6g").encode())


@click.command(short_help="Test whether two processes may use a store at once.")
@STORES
@TABLE
@PLACE
def sharing(stores: Sequence[Store], out: Path, place: Path) -> None:
    """Test what a second process may do with each STORE while a first one has it open.

    The table says whether the second process may open it, read what was there, see what the first
    one inserts meanwhile, and insert; and whether all records are intact for both and for a third
    process afterwards. `waits` means that the engine did not answer within ten seconds. Stores run
    as shipped. Without STORE, all stores in C are tested, but for the second builds of engines.
    """
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.kept import finish
    from kvbench.durability.sharing import share
    from kvbench.machine.scratch import scratch

    known = catalogue.known()
    chosen = stores or [known[name] for name in filter(catalogue.compared, catalogue.names())]
    usable = _usable(chosen)
    steps = progress(usable, [1] * len(usable), lambda store: store.full_name)
    with scratch(place) as folder:
        table = pd.DataFrame([share(store, folder) for store in steps])
    finish(out, table.to_csv(index=False).encode())


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Show what any program writes and syncs.",
)
@click.option(
    "--operations",
    type=click.IntRange(1),
    metavar="N",
    help="How many writes the program makes: adds the cost of each, and the durability level.",
)
@click.option(
    "--aside",
    multiple=True,
    metavar="PATTERN",
    help="Files and folders that hold no records, as '*.log' or lock.mdb. May be repeated.",
)
@click.option("--out", type=FILE, help="A file for the report.  [default: standard error]")
@AS_JSON
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
def audit(
    operations: int | None,
    aside: Sequence[str],
    out: Path | None,
    as_json: bool,
    command: Sequence[str],
) -> None:
    """Run COMMAND under strace, and report its sync calls, writes and reads, by file.

    Output and exit status of COMMAND pass through. The report says whether COMMAND had synced all
    that it wrote when it ended. Given the number of its writes, it also says which durability level
    they amount to, or "not known" where that depends on what strace does not show, such as writes
    through a map, which the report names. Ctrl-C ends COMMAND and reports what it did.
    """
    from kvbench.durability.audit import audit as run
    from kvbench.durability.audit import text

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
