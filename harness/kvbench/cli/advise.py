"""The command that chooses a store: advise."""

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.answers.needs import MIX, NEEDS
from kvbench.cell.factors import DEFAULT, MAX_RECORD_SIZE, MOST, OPERATIONS, parse_bytes
from kvbench.cli.ends import GOES_ON, NOTHING_KEPT, SOME_FAILED, STOPPED, kept
from kvbench.cli.options import AS_JSON, PATH, Read, count
from kvbench.common.messages import BadInput, brief
from kvbench.experiment.factors import FACTORS, NOT_STATED

if TYPE_CHECKING:
    from kvbench.answers.advise import Advice, Query
    from kvbench.answers.recovery import Recovery
    from kvbench.results.measured import Measured
    from kvbench.trace.asked import Asked

REPOSITORY = {  # in data, by access
    "c": ["reference"],
    "python": [
        "python-levels",
        "python",
        "bindings",
    ],  # set to a level in one field, and as shipped
}
BESIDES = ("process", "recoverable", "sync")  # levels whose answers stand beside each other
MOST_SYNC = 10  # seconds of a device's sync
MOST_MEASURING = 600_000  # seconds
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def _size(text: str) -> int:
    size = parse_bytes(text)
    if not 1 <= size <= MAX_RECORD_SIZE:
        raise BadInput(f"{text!r:.60} is out of range; allowed: 1 B to 64 MiB")
    return size


def _bytes(text: str) -> int:
    size = parse_bytes(text)
    if not 1 <= size <= MOST:
        raise BadInput(f"{text!r:.60} is out of range; allowed: 1 B to 2^63 - 1")
    return size


def _shares(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)=(\d{1,9}(?:\.\d{1,9})?)\s?(%?)\s*", part)
        if not match or match[1] not in OPERATIONS or match[1] in found:
            raise BadInput(
                f"{part!r:.60} is not allowed; allowed: shares of {', '.join(OPERATIONS)}, each "
                "once, as get=0.9,update=0.1"
            )
        found[match[1]] = float(match[2]) / (100 if match[3] else 1)
    if not sum(found.values()):
        raise BadInput(f"{text!r:.60} has no operation; allowed: one with a share above 0")
    return {operation: share for operation, share in found.items() if share}


def _names(text: str) -> tuple[str, ...]:
    """The names of stores, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(","))) if text else ()


def _memory(text: str) -> str:
    return text if text == NOT_STATED else str(FACTORS["memory"].level(text))


def _seconds(most: float) -> Callable[[str], float]:
    """A reader for a time of at most `most` seconds."""

    def read(text: str) -> float:
        match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(us|ms|s|min)\s*", text)
        found = float(match[1]) * TIMES[match[2]] if match else 0.0
        if not found:
            raise BadInput(f"{text!r:.60} is not a time; allowed: 200us, 2ms, 60s, 5min")
        if found > most:
            raise BadInput(f"{text!r:.60} is too long; allowed: {most:g} s at most")
        return found

    return read


def _level(text: str) -> tuple[str, str]:
    column, sign, level = text.partition("=")
    if not sign or not column:
        raise BadInput(f"{text!r:.60} is not allowed; allowed: COLUMN=LEVEL, as key_size=16")
    return column, level


@click.command(short_help="Say which store to choose.")
@click.option("--record-size", type=Read(_size), metavar="SIZE", help="Size of a value: 4KiB.")
@click.option("--records", type=Read(count), metavar="N", help="Number of records: 100k.")
@click.option(
    "--mix",
    type=Read(_shares),
    metavar="OPERATION=SHARE,...",
    help="Shares of insert, get, update and remove.  [default: "
    f"{','.join(f'{name}={share:g}' for name, share in MIX.items())}]",
)
@click.option(
    "--trace",
    "trace_file",
    type=PATH,
    metavar="FILE",
    help="Take size, number and mix from a trace of `kvbench record`, or another that `kvbench "
    "trace` reads, if they are not given.",
)
@click.option(
    "--trace-store",
    type=click.IntRange(1),
    metavar="N",
    help="Of several stores in the trace, the Nth of `kvbench trace`.",
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
    help="The language of your program.  [default: c; python for a trace of `kvbench record`] With "
    "python the answer is of packages alone. Where they "
    "were measured as shipped only, those that survive the same are ranked together.",
)
@click.option(
    "--memory",
    type=Read(_memory),
    metavar="SIZE",
    help="Memory budget of the engine.  [default: as shipped, if FOLDER states any]",
)
@click.option(
    "--sync-time",
    type=Read(_seconds(MOST_SYNC)),
    metavar="TIME",
    help="Time of a sync on your device: 2ms. Needs --durability sync. Times are then computed for "
    "that device.",
)
@click.option(
    "--machine-memory",
    type=Read(_bytes),
    metavar="SIZE",
    help="Memory of your machine: 16GiB. If the records exceed it, the answer is that of data "
    "larger than memory, from the folder beyond-memory beside FOLDER.  [default: that of the "
    "machine that measured FOLDER]",
)
@click.option(
    "--may-grow", is_flag=True, help="Rank stores whose file only grows with updates and removes."
)
@click.option(
    "--needs",
    multiple=True,
    metavar="NAME,...",
    help=f"Rank only stores that meet these needs: {', '.join(NEEDS)}. May be repeated.",
)
@click.option(
    "--stores",
    type=Read(_names),
    default="",
    metavar="STORE,...",
    help="Compare only these stores: lmdb,sqlite.",
)
@click.option(
    "--largest-value",
    type=Read(_size),
    metavar="SIZE",
    help="Rank only stores that hold a value of this size, which may exceed --record-size.",
)
@click.option(
    "--largest-key",
    type=Read(_size),
    metavar="SIZE",
    help="Rank only stores that hold a key of this size.",
)
@click.option(
    "--most-memory",
    type=Read(_bytes),
    metavar="SIZE",
    help="Rank only stores that took at most this much memory, caches and mapped files included, "
    "in the measured field that counts most: 100MiB.",
)
@click.option(
    "--where",
    type=Read(_level),
    multiple=True,
    metavar="COLUMN=LEVEL",
    help="Use the cells with this level of a column of which FOLDER has several: key_size=16.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="FOLDER",
    help="Collected results to answer from.  [default: data/reference; for Python data/python or "
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
    type=Read(_seconds(MOST_MEASURING)),
    metavar="TIME",
    help="Then measure on this machine, for this long, which of the stores that FOLDER leaves "
    "undecided is best: 60s.",
)
@click.option("--out", type=PATH, help="Keep what --measure measures in this folder.")
@AS_JSON
def advise(
    record_size: int | None,
    records: int | None,
    mix: dict[str, float] | None,
    trace_file: Path | None,
    trace_store: int | None,
    durability: str | None,
    access: str | None,
    memory: str | None,
    sync_time: float | None,
    machine_memory: int | None,
    may_grow: bool,
    needs: Sequence[str],
    stores: tuple[str, ...],
    largest_value: int | None,
    largest_key: int | None,
    most_memory: int | None,
    where: Sequence[tuple[str, str]],
    data: Path | None,
    space: Path | None,
    budget: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Say which stores are best for some records and a mix of operations.

    The answer rests on the results in FOLDER. It interpolates between the record sizes and numbers
    that were measured there. Beyond them it is that of the nearest field, and says so. Of records
    larger than the memory of the machine, it is that of stores with as little memory. It lists the
    stores by how many times slower each is than the best (its regret), with an interval, the
    settings to use, and what a crash may cost. Then come the packages for Python that guarantee the
    same, in the nearest field of the folder python-levels beside FOLDER or, if it has none, of the
    folder python.

    Each of --needs is a fact that was observed or has a source; `docs/measuring.md` explains them.
    What stores do in a crash, with damaged files and with two processes is read from the tables
    beside FOLDER.

    Stores as shipped survive different things: those that survive the same are ranked together, and
    those that survive less than --durability asks for are left out.

    --measure adds trials on this machine until it is known which stores are best. If its time ends
    before, the answer rests on FOLDER, and the exit status is 3, or 130 after Ctrl-C.
    """
    import pandas as pd

    from kvbench.answers import packages, report
    from kvbench.answers.advise import Query
    from kvbench.answers.needs import Needs, Observed, read
    from kvbench.answers.recovery import Recovery
    from kvbench.answers.regime import beyond_memory
    from kvbench.trace import gain

    wanted = read(needs)
    traced = _traced(trace_file, trace_store, record_size, records)
    if traced is not None:
        record_size, records = record_size or traced.size, records or traced.records
        mix = mix or dict(traced.mix)
    assert record_size is not None and records is not None
    access = access or ("python" if traced is not None and traced.kind else "c")
    _check_together(access, wanted, sync_time, budget, out)
    device = None if sync_time is None else 1e9 * sync_time
    folders = _folders(data, access)
    recovery = Recovery.beside(folders[0])
    value, key, most = (size or 0 for size in (largest_value, largest_key, most_memory))
    needed = Needs(wanted, Observed(folders[0]), value, key, most, stores or ())
    query = Query(
        record_size, records, mix or MIX, durability or "", memory or "", device, may_grow, needed
    )
    known, found = _answers(query, folders, access, _levels(where), space)
    shown = [report.report(known, one, recovery) for one in found]
    if access == "c":  # otherwise the answer itself is of packages
        measured = packages.beside(folders[0])
        shown = [
            values | {"python": packages.packages(measured, one.query)}
            for values, one in zip(shown, found, strict=True)
        ]
    own = known.machine.memory_bytes
    memory_bytes = machine_memory or (math.inf if pd.isna(own) else float(own))
    shown = [
        values
        | {
            "beyond_memory": None
            if access == "python"
            else beyond_memory(folders[0], one.query, memory_bytes)
        }
        for values, one in zip(shown, found, strict=True)
    ]
    if not durability:
        shown[0] |= {"other_levels": _besides(known, query, found[0].query.durability)}
    if traced is not None:
        shown = [values | {"trace": gain.values(traced, one)}
                 for values, one in zip(shown, found, strict=True)]  # fmt: skip
    as_shipped = found[0].query.durability == DEFAULT
    if budget is None:
        told: Any = {"guarantees": shown} if as_shipped else shown[0]
        parts = [
            _beyond(values) + report.text(values) + _python(values) + gain.text(values)
            for values in shown
        ]
        click.echo(report.to_json(told) if as_json else "\n\n\n".join(parts))
        return
    if as_shipped:
        raise BadInput("--measure: not of stores as shipped; allowed: with --durability LEVEL")
    told, status = _measured(found[0], shown[0], recovery, budget, out)
    text = _beyond(shown[0]) + report.both(told) + _python(shown[0]) + gain.text(shown[0])
    click.echo(report.to_json(told) if as_json else text)
    if status:
        sys.exit(status)


def _traced(
    file: Path | None, number: int | None, record_size: int | None, records: int | None
) -> "Asked | None":
    """What a trace asks for; None without one. Raises BadInput, also if neither a trace nor an
    option states the records."""
    from kvbench.trace.asked import asked
    from kvbench.trace.formats import read_any

    if file is not None:
        return asked(read_any(file), number or 1)
    if number is not None:
        raise BadInput(f"--trace-store: {number} is of no use without --trace")
    for option, value in (("--record-size", record_size), ("--records", records)):
        if value is None:
            raise BadInput(f"{option} is missing; allowed: with it, or with --trace FILE")
    return None


def _besides(known: "Measured", query: "Query", answered: str) -> list[dict[str, Any]]:
    """The answers at the other levels, in short, of a query that asks for none."""
    from kvbench.answers import report
    from kvbench.answers.advise import answers

    found = []
    for level in (name for name in BESIDES if name != answered):
        try:
            first, *_ = answers(known, replace(query, durability=level))
        except BadInput:  # not measured there
            found.append(report.NOT_MEASURED | {"durability": level})
        else:
            found.append(report.short(first, level))
    return found if any(own["grade"] for own in found) else []


def _beyond(values: dict[str, Any]) -> str:
    """The part of a report's text on data larger than memory, which comes first; empty if the data
    are not."""
    from kvbench.answers import regime

    found = values["beyond_memory"]
    head = f"{regime.text(found, values['query'])}\n\n\n" if found else ""
    return f"{head}if memory held the data: " if head else ""


def _python(values: dict[str, Any]) -> str:
    """The part of a report's text on packages for Python; empty if it has none."""
    from kvbench.answers import packages

    found = values.get("python")
    return f"\n\n{packages.text(found, values['query'])}" if found else ""


def _check_together(
    access: str, needs: Sequence[str], sync_time: float | None, budget: float | None,
    out: Path | None,
) -> None:  # fmt: skip
    """Raise BadInput if one option has no effect because of another."""
    if out is not None and budget is None:
        raise BadInput(f"--out: {brief(str(out))!r} is of no use without --measure")
    if sync_time is not None and budget is not None:
        raise BadInput(
            f"--sync-time: {sync_time:g} s is of no use with --measure: here is this device"
        )
    if access == "python" and ("c-interface" in needs or budget is not None):
        option = "--needs c-interface" if "c-interface" in needs else "--measure"
        raise BadInput(f"{option}: not allowed with --access python; allowed: with --access c")


def _levels(where: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = dict(where)
    if len(found) < len(where):
        columns = ", ".join(column for column, _ in where)
        raise BadInput(f"--where: {columns!r:.60} names a column twice; allowed: once")
    return found


def _folders(data: Path | None, access: str) -> list[Path]:
    """The folders to consult in order; by default the repository's."""
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


def _answers(
    query: "Query", folders: list[Path], access: str, levels: dict[str, str], space: Path | None
) -> "tuple[Measured, Sequence[Advice]]":
    """The data of the first folder whose fields are those of the query or lie around it, or else of
    the first that answers it, and the answers from them. If none does, the BadInput of the first
    folder is raised."""
    from kvbench.answers.advise import EXTRAPOLATED, answers
    from kvbench.results.measured import Measured

    refused: BadInput | None = None
    far = None
    for folder in folders:
        beside = folder.parent / "space"
        equal = beside if space is None and (beside / "cells.parquet").exists() else space
        known = Measured.of(folder, access, levels, equal)
        try:
            found = answers(known, query)
        except BadInput as error:
            refused = refused or error
            continue
        if any(one.grade != EXTRAPOLATED for one in found):
            return known, found
        far = far or (known, found)
    if far is not None:
        return far
    assert refused is not None
    raise refused


def _measured(
    found: "Advice", known: dict[str, Any], recovery: "Recovery | None", seconds: float,
    out: Path | None,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """The report of an answer after measuring here, and the exit status. The report uses the new
    measurement if that was completed, otherwise the earlier data."""
    from kvbench.answers import here, report
    from kvbench.answers.advise import advise as advised

    if len(found.candidates) < 2:
        why = "nothing to measure: the data leave fewer than two stores to choose from"
        return known | {"measured": {"finished": True, "why": why, "report": None}}, 0
    with kept(GOES_ON if out else NOTHING_KEPT):
        done = here.measure(found.query, found.candidates, seconds, out)
    own = None
    if done.data is not None:
        own = report.report(done.data, advised(done.data, found.query), recovery)
    if own is not None and not done.why:
        beside = {name: known[name] for name in ("python", "beyond_memory")} | {"known": known}
        return own | {"measured": {"finished": True, "why": "", "report": None}} | beside, 0
    why = done.why or "no trial has all stores"
    status = STOPPED if done.interrupted else SOME_FAILED
    return known | {"measured": {"finished": False, "why": why, "report": own}}, status
