"""The commands that test durability: evidence, crash, sharing, audit."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT, DURABILITY
from kvbench.cli.ends import STOPPED
from kvbench.cli.options import AS_JSON, FILE, PLACE, STORES, TABLE, Read, number
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, say
from kvbench.machine.device import check
from kvbench.machine.loopback import MAKE
from kvbench.machine.scratch import memory
from kvbench.stores import catalogue
from kvbench.stores.about import family
from kvbench.stores.identity import checksum
from kvbench.stores.known import KnownStore

if TYPE_CHECKING:
    from kvbench.durability.crashes import Steady
    from kvbench.durability.kept import Rows
    from kvbench.faults.recording import Subject

    Step = tuple[KnownStore, str, str, Steady]  # a store, a level, an end, and the workload

MOST_RECORDS = 10_000_000

# Options of `crash`, and whether they belong to --explore.
OF_CRASH = dict.fromkeys(("levels_", "states", "seed", "fs", "replay"), True) | dict.fromkeys(
    ("count", "records", "value_size", "seconds", "clean"), False
)


def _counts(text: str) -> list[int]:
    """Numbers of records, without repetitions."""
    found = []
    for part in text.split(","):
        number = int(part) if part.isdecimal() and len(part) < 10 else 0
        if not 1 <= number <= MOST_RECORDS:
            raise BadInput(
                f"{part!r:.60} is not allowed; allowed: numbers from 1 to {MOST_RECORDS}, "
                "as 1000,10000"
            )
        found.append(number)
    return list(dict.fromkeys(found))


def usable(stores: Sequence[KnownStore]) -> list[KnownStore]:
    """The stores that can be opened here and that keep what is written."""
    return [store for store in stores if store.available and store.name != "null"]


def ranked() -> list[KnownStore]:
    """The stores of the main experiments."""
    known = catalogue.known()
    return [known[name] for name in family("main") if name in known]


def rests_on(pair: tuple[KnownStore, str]) -> str:
    """A text that names everything, except the machine, that a store's rows at a level depend
    on."""
    store, level = pair
    return f"{store.full_name} {store.version} {level} {checksum(store)}"


@click.command(short_help="Test what durability levels do.")
@STORES
@TABLE
@PLACE
@click.option(
    "--durability",
    "wanted",
    type=click.Choice([DEFAULT, *DURABILITY]),
    multiple=True,
    help="Only this level. May be repeated.  [default: all that a store has, and as shipped]",
)
def evidence(stores: Sequence[KnownStore], out: Path, place: Path, wanted: Sequence[str]) -> None:
    """Test what each durability level of each STORE does.

    For each level the table shows the sync calls per write, the commits of the file system's
    journal per write, and how many of 20 killed processes and of 20 simulated power failures lost
    no acknowledged write. A binding is named with its
    store, as sqlite/diskcache. Without STORE, all stores are tested, but
    for the second builds of engines (-debian).

    Counting syncs needs strace. Commits and power failures need root besides; without root their
    columns stay empty. If the command is stopped, it keeps the rows that are done in OUT.part, and
    the same command goes on from there.
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
    pairs = [
        (store, level)
        for store in usable(chosen)
        for level in levels(store)
        if level in (wanted or [level])
    ]
    if not pairs:
        raise BadInput(f"no store to test: none is available at {' or '.join(wanted) or 'a level'}")
    with scratch(place) as folder:
        about = {"crashes": CRASHES, "cut": not mounting_fails(folder)}
        about |= conditions(folder, known)
        steps = progress(pairs, [1] * len(pairs), lambda pair: f"{pair[0].full_name} {pair[1]}")
        rows = measured(out, about, steps, rests_on, lambda pair: [tested(*pair, folder)])
    table = pd.DataFrame(rows)
    for column in ("background_syncs", "survived_power_loss"):
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False).encode())


def _subjects(stores: Sequence[KnownStore], wanted: Sequence[str], fs: str) -> "list[Subject]":
    """The stores at the levels to explore. Says which stores are left out."""
    from kvbench.durability.evidence import levels
    from kvbench.faults.recording import Subject
    from kvbench.faults.scenario import CLAIMING

    found = []
    for store in stores or ranked():
        own = [level for level in levels(store) if level in (wanted or CLAIMING)]
        if store.binding and not wanted:
            own = [DEFAULT, *own]
        if why := store.reason or ("" if own else f"has no {' or '.join(wanted or CLAIMING)}"):
            say(f"{store.full_name}: {why}")
        else:
            found += [Subject(store, level, fs) for level in own]
    if not found:
        raise BadInput(f"no store to explore at {' or '.join(wanted or CLAIMING)}")
    return found


def _replay(
    stores: Sequence[KnownStore], wanted: Sequence[str], fs: str, out: Path, place: Path, name: str
) -> None:
    """Print what a kept state violates."""
    from kvbench.faults.explorer import kept_states, replay
    from kvbench.machine.scratch import scratch

    if len(stores) != 1 or len(wanted) != 1:
        raise BadInput("--replay: name one STORE and one --durability, those of the state")
    check(fs)
    (subject,) = _subjects(stores, wanted, fs)
    with scratch(place) as folder:
        verdict = replay(kept_states(out), name, subject, folder)
    click.echo(f"{name}: {verdict.kind}: {verdict.detail}" if verdict.kind else f"{name}: holds")


def _explore(
    stores: Sequence[KnownStore], wanted: Sequence[str], states: int, seed: int, fs: str,
    out: Path, place: Path,
) -> None:  # fmt: skip
    from kvbench.common.progress import progress
    from kvbench.durability.kept import finish, measured
    from kvbench.faults.explorer import explore, kept_states, recordings, table
    from kvbench.machine.description import conditions
    from kvbench.machine.scratch import scratch

    check(fs)
    subjects = _subjects(stores, wanted, fs)
    steps = [(own, number) for own in subjects for number in range(len(recordings(states)))]
    costs = [recordings(states)[number] for _, number in steps]

    def name(step: "tuple[Subject, int]") -> str:
        return f"{rests_on((step[0].store, step[0].level))} {step[1] + 1}"

    with scratch(place) as folder:
        about = {"wanted": states, "seed": seed, "fs": fs} | conditions(folder, catalogue.known())

        def rows_of(step: "tuple[Subject, int]") -> "Rows | None":
            subject, number = step
            own, count = f"{seed}.{number + 1}", recordings(states)[number]
            try:
                row = explore(subject, own, count, folder / "work", kept_states(out))
            except StoreError as error:
                say(f"{subject.store.full_name} {subject.level}: {error}")
                return None
            for kept in row["kept"]:
                store, level = subject.store.full_name, subject.level
                say(
                    f"{store} {level}: {kept['kind']}: {kept['detail']}\n  kvbench crash --explore "
                    f"{store} --durability {level} --fs {fs} --out {out} --replay {kept['name']}"
                )
            return [row]

        named = progress(steps, costs, lambda step: f"{step[0].store.full_name} {step[0].level}")
        rows = measured(out, about, named, name, rows_of)
    finish(out, table(rows, about))


def _crash(
    stores: Sequence[KnownStore], sizes: "Sequence[Steady]", clean: bool, count: int,
    seconds: float, out: Path, place: Path,
) -> None:  # fmt: skip
    import pandas as pd

    from kvbench.common.progress import progress
    from kvbench.durability.crashes import CLEAN, KILL, KINDS, crashes
    from kvbench.durability.crashes import STORES as USUAL
    from kvbench.durability.evidence import levels, mounting_fails
    from kvbench.durability.kept import finish, measured
    from kvbench.machine.description import conditions
    from kvbench.machine.scratch import scratch

    known = catalogue.known()

    with scratch(place) as folder:
        # By level, the ends of a writer that can be had here.
        ends = {level: [kind] + [CLEAN] * clean for level, kind in KINDS.items()}
        if why := mounting_fails(folder):
            said = " and no file system mounted anew" if clean else ""
            say(f"no loss of power can be simulated{said} here: {why}")
            ends = {level: [KILL] for level, kind in KINDS.items() if kind == KILL}
        steps = []
        for store in stores or [known[name] for name in USUAL if name in known]:
            own = [level for level in levels(store) if level in ends]
            if store.available:
                steps += [
                    (store, level, kind, steady)
                    for level in own
                    for steady in sizes
                    for kind in ends[level]
                ]
            if why := store.reason or ("" if own else f"has none of {', '.join(sorted(ends))}"):
                say(f"{store.full_name}: {why}")
        if not steps:
            with_levels = " or ".join(sorted(ends))
            raise BadInput(f"no store can crash here; allowed: those with {with_levels}")

        def rows_of(step: "Step") -> "Rows | None":
            store, level, kind, steady = step
            try:
                return list(crashes(store, level, kind, folder, steady, seconds, count))
            except StoreError as error:
                say(f"{store.full_name} {level}: {steady.loaded:,} records not loaded: {error}")
                return None

        def rests(step: "Step") -> str:
            store, level, kind, steady = step
            return f"{rests_on((store, level))} {kind} {dataclasses.astuple(steady)}"

        def shown(step: "Step") -> str:
            store, level, kind, steady = step
            return f"{store.full_name} {level} {kind} {steady.loaded:,}"

        about = {"crashes": count, "seconds": seconds} | conditions(folder, known)
        named = progress(steps, [1] * len(steps), shown)
        rows = measured(out, about, named, rests, rows_of)
    table = pd.DataFrame(rows)
    for column in table.columns[table.columns.str.endswith(("_writes", "_records", "_bytes"))]:
        table[column] = table[column].astype("Int64")
    finish(out, table.to_csv(index=False, float_format="%.6g").encode())


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
    type=Read(_counts),
    default="30000",
    show_default=True,
    metavar="N,...",
    help="Numbers of records that are loaded and on disk before a crash, as 1000,10000.",
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
    help="Write for at most this long before a crash. Each crash comes at a random time, after a "
    "quarter of it at the earliest.",
)
@click.option(
    "--clean",
    is_flag=True,
    help="For each crash, also let the process close the store; mount its file system anew.",
)
@click.option(
    "--explore", is_flag=True, help="Try the states in which a loss of power may leave the disk."
)
@click.option(
    "--durability",
    "levels_",
    type=click.Choice(DURABILITY),
    multiple=True,
    help="With --explore: a level to try; may be repeated.  [default: those that promise something "
    "about a loss of power; of a binding, also as shipped]",
)
@click.option(
    "--states",
    type=click.IntRange(1, 1_000_000),
    default=2000,
    show_default=True,
    metavar="N",
    help="With --explore: states to try of each store and level.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="With --explore: of the writes and of the choice of states.",
)
@click.option(
    "--fs",
    type=click.Choice(list(MAKE)),
    default="ext4",
    show_default=True,
    help="With --explore: the file system.",
)
@click.option(
    "--replay",
    metavar="NAME",
    help="With --explore: look again at a kept state.",
)
@click.pass_context
def crash(
    context: click.Context,
    stores: Sequence[KnownStore],
    out: Path,
    place: Path,
    count: int,
    records: Sequence[int],
    value_size: str,
    seconds: float,
    clean: bool,
    explore: bool,
    levels_: Sequence[str],
    states: int,
    seed: int,
    fs: str,
    replay: str | None,
) -> None:
    """Measure what a crash costs each STORE.

    A process writes as fast as it can until the crash. At durability none the process is killed; at
    process and recoverable the machine loses power, which is simulated. The table has a row for
    each crash: the time to open the store again, the time to the first correct get, the
    acknowledged writes that are lost, and how long before the crash the first of them was
    acknowledged. A level that a store lacks is left out. Without STORE, eight stores are measured.
    With --clean, the table also has rows for processes that write alike and then close the store:
    the time to open such a store.

    Losses of power and --clean need root; without root only processes are killed. If the command
    is stopped, it keeps the rows of the stores that are done in OUT.part, and the same command goes
    on from there.

    With --explore, a writer runs on a disk that records its writes and flushes. Each state in which
    a loss of power may leave that disk is mounted, opened, and compared with what had been
    acknowledged. The table has a row for each store and level: the states that were tried, those
    that violate the level, by kind, and what was lost. Once 20 states have made a store hang, it is
    tried in fewer than were wanted. Examples of violations are kept in OUT.states; --replay looks
    at one again. Without STORE, the engines of the main experiments are tried. It needs root,
    nbdkit and nbdfuse, and works in memory unless --place is given.
    """
    for name, exploring in OF_CRASH.items():
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if given and exploring != explore:
            (option,) = (p.opts[0] for p in context.command.params if p.name == name)
            raise BadInput(f"{option}: allowed {'with' if exploring else 'without'} --explore only")
    if explore:
        if context.get_parameter_source("place") is ParameterSource.DEFAULT:
            place = memory(place)
        if replay is not None:
            _replay(stores, levels_, fs, out, place, replay)
        else:
            _explore(stores, levels_, states, seed, fs, out, place)
        return
    from kvbench.durability.crashes import Steady

    sizes = [Steady.of(size, value_size) for size in records]
    _crash(stores, sizes, clean, count, seconds, out, place)


@click.command(short_help="Test whether two processes may use a store at once.")
@STORES
@TABLE
@PLACE
def sharing(stores: Sequence[KnownStore], out: Path, place: Path) -> None:
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
    tested = usable(chosen)
    steps = progress(tested, [1] * len(tested), lambda store: store.full_name)
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
    help="Number of writes that the program makes. The report then states the cost of each, and "
    "the durability level.",
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
