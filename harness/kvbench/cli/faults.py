"""The commands that test what stores do when a disk fails: faults, rot."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DURABILITY
from kvbench.cli.durability import ranked, rests_on, usable
from kvbench.cli.options import FILE, STORES, StoresFolder
from kvbench.common.messages import BadInput, brief, say
from kvbench.machine.scratch import memory
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore

if TYPE_CHECKING:
    from kvbench.durability.kept import Rows


def _levels(store: KnownStore, asked: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The levels to test of a store: those that were asked for, or the usual ones. A binding
    that has none of those is tested as shipped."""
    from kvbench.durability.evidence import levels

    own = levels(store)
    chosen = asked or [level for level in usual if level in own] or own[: bool(store.binding)]
    for level in asked:
        if level not in own:
            say(f"{store.full_name}: has no durability {level}; it has {', '.join(own)}")
    return [level for level in chosen if level in own]


@click.command(short_help="Test what stores do when the disk fails.")
@STORES
@click.option("--out", type=FILE, help="The CSV file to write.")
@click.option(
    "--kind",
    type=click.Choice(["calls", "device", "full"]),
    default="calls",
    show_default=True,
    help="System calls that fail, a device that fails, or a disk that becomes full.",
)
@click.option(
    "--place",
    type=StoresFolder(),
    metavar="FOLDER",
    help="Make the stores below this folder.  [default: in memory]",
)
@click.option(
    "--durability",
    type=click.Choice(DURABILITY),
    multiple=True,
    help="A durability level to test. May be repeated.  [default: process and sync; device: sync]",
)
@click.option(
    "--first",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Try each n up to N, and then a sample of larger ones.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the operations."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    metavar="N",
    help="Processes that test at once.",
)
@click.option(
    "--replay",
    metavar="FAULT",
    help="Show one run of each STORE instead of a table: 'fsync EIO 3 once writing', or 'flush 3 "
    "once' of a device.",
)
def faults(
    stores: Sequence[KnownStore],
    out: Path | None,
    kind: str,
    place: Path | None,
    durability: Sequence[str],
    first: int,
    seed: int,
    workers: int,
    replay: str | None,
) -> None:
    """Test what each STORE does when the disk fails.

    A program opens a store, changes it and closes it. Its nth system call of a kind fails with EIO
    or ENOSPC, or all from the nth on, while it opens the store or later; n rises until nothing
    fails any more. Then the store is opened without faults. The table counts the outcomes over n:
    whether an error was reported, and whether all acknowledged writes are there. It names the first
    n of each outcome, which --replay shows again. Without STORE, the ranked stores are tested.

    With --kind device, the nth write or flush of a disk fails with EIO, and the machine reboots.
    With --kind full, the disk becomes full, and later has room again. Both need root, to mount file
    systems.

    If the command is stopped, it keeps the rows that are done in OUT.part, and the same command
    goes on from there.
    """
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.kept import ahead, finish, measured
    from kvbench.faults.calls import Subject
    from kvbench.faults.laboratory import KINDS, rows
    from kvbench.machine.scratch import scratch

    own = KINDS[kind]
    fault = own.parsed(replay) if replay is not None else None
    if out is None and replay is None:
        raise BadInput("allowed: --out FILE for a table, or --replay FAULT to show one run")
    asked = stores or ranked()
    for store in asked:
        if store.reason:
            say(f"{store.full_name}: {store.reason}")
    chosen = usable(asked)
    subjects = [
        Subject(store, level, seed)
        for store in chosen
        for level in _levels(store, durability, own.levels)
    ]
    if not subjects:
        raise BadInput("no store to test: none is available at these levels")
    with scratch(place or memory(Path(), 0)) as folder:
        if why := own.fails(folder):
            others = ", ".join(name for name, other in KINDS.items() if not other.fails(folder))
            raise BadInput(f"--kind {kind} cannot be tested here: {why}; possible: {others or '-'}")
        if out is None:
            for subject in subjects:
                click.echo(f"{subject}: {replay}\n{own.show(subject, fault, folder)}")
            return
        steps = own.steps(subjects)
        rests = {str(s): rests_on((s.store, s.level)) for s in subjects}
        measure = functools.partial(rows, kind, folder, first)
        with ahead(steps, measure, workers) as rows_of:
            found = measured(
                out,
                {"kind": kind, "seed": seed, "first": first},
                progress(steps, [1] * len(steps), str),
                lambda step: f"{step} {rests[str(getattr(step, 'subject', step))]}",
                rows_of,
            )
    finish(out, pd.DataFrame(found).to_csv(index=False).encode())


@click.command(short_help="Test what damaged files do.")
@STORES
@click.option("--out", type=FILE, help="The CSV file to write.  [required without --replay]")
@click.option(
    "--place",
    type=StoresFolder(),
    metavar="FOLDER",
    help="Make the stores below this folder.  [default: memory if it has room, else the current "
    "folder]",
)
@click.option(
    "--damages",
    "count",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="Damages of each kind.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32),
    default=1,
    show_default=True,
    metavar="N",
    help="Records and damages are drawn from it.",
)
@click.option(
    "--checks",
    multiple=True,
    type=click.Choice(["default", "on", "off"]),
    help="Only these levels of an engine's checks. May be repeated.  [default: all it has]",
)
@click.option(
    "--replay",
    metavar="'KIND N'",
    help="Do damage number N of a kind to one STORE again, and print what it returns.",
)
def rot(
    stores: Sequence[KnownStore],
    out: Path | None,
    place: Path | None,
    count: int,
    seed: int,
    checks: Sequence[str],
    replay: str | None,
) -> None:
    """Damage the files of each closed STORE, and count what reading them returns.

    A store of 3 MB is filled, changed and closed. One place of a copy of its files is damaged: a
    bit is flipped; a block of 4 KiB is zeroed, exchanged with another one, or gets back older
    bytes; or a file is cut off. Then every record is read by get and, if the store is ordered, by
    a scan.

    The table has a row for each store, level of checks and kind of damage. It counts the outcomes:
    wrong (a value other than the last one written is returned without an error), missing (a record
    is not found, without an error), crash, hang (longer than 20 s), reported (an error), harmless.
    If several apply, the first in this list counts. The columns first_wrong and so on have the
    number of the first such damage, for --replay. An engine with threads may lay out its files in
    another way next time; then the replay damages another place. A row ends early after 20 hangs.
    Without STORE, the engines of the main experiments are tested.

    If the command is stopped, it keeps the rows that are done in OUT.part, and the same command
    goes on from there.
    """
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.kept import finish, measured
    from kvbench.faults import damage
    from kvbench.faults import rot as test
    from kvbench.machine.description import conditions
    from kvbench.machine.scratch import scratch

    again = None if replay is None else damage.parse(replay)
    pairs = []
    for store in stores or ranked():
        own = [level for level in test.checks_of(store) if level in (checks or [level])]
        pairs += [(store, level) for level in own if store.available]
        if why := store.reason or ("" if own else f"has no checks={' or '.join(checks)}"):
            say(f"{store.full_name}: {why}")
    if not pairs:
        raise BadInput("no store is left to damage; allowed: those of `kvbench stores`")
    if again is not None and len(pairs) != 1:
        names = ", ".join(f"{store.full_name} checks={level}" for store, level in pairs)
        raise BadInput(f"--replay: one STORE and one --checks are needed, not {brief(names)}")

    place = place or memory(Path(), test.ROOM)
    if again is not None:
        with scratch(place) as folder:
            click.echo(test.replay(test.make(*pairs[0], seed, folder), *again, folder))
        return
    if out is None:
        raise BadInput("--out: is missing; allowed: a file, or --replay instead")
    with scratch(place) as folder:

        @functools.lru_cache(1)
        def made(store: KnownStore, level: str) -> test.Subject | None:
            try:
                return test.make(store, level, seed, folder)
            except StoreError as error:
                say(f"{store.full_name} checks={level}: {error}")
                return None

        def measure(step: tuple[KnownStore, str, str]) -> "Rows | None":
            store, level, kind = step
            subject = made(store, level)
            return None if subject is None else [test.row(subject, level, kind, count, folder)]

        about = {"damages": count, "seed": seed} | conditions(folder, catalogue.known())
        work = [(*pair, kind) for pair in pairs for kind in damage.KINDS]
        steps = progress(
            work, [1] * len(work), lambda step: f"{step[0].full_name} checks={step[1]} {step[2]}"
        )
        rows = measured(out, about, steps, lambda step: f"{rests_on(step[:2])} {step[2]}", measure)
    table = pd.DataFrame(rows)
    first = table.columns[table.columns.str.startswith("first_")]
    table[first] = table[first].astype("Int64")
    finish(out, table.to_csv(index=False).encode())
