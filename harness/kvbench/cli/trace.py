"""The commands of traces: record, trace."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from kvbench.cell.factors import parse_bytes
from kvbench.cli.options import AS_JSON, PATH, Read
from kvbench.common.messages import BadInput, brief, say

LEAST_TRACE, MOST_TRACE = 1 << 20, 1 << 36  # bytes


def _trace_bytes(text: str) -> int:
    size = parse_bytes(text)
    if not LEAST_TRACE <= size <= MOST_TRACE:
        raise BadInput(f"{text!r:.60} is out of range; allowed: 1 MiB to 64 GiB")
    return size


def _folder(text: str) -> Path:
    path = Path(text)
    with contextlib.suppress(OSError):  # the name is too long
        if text and path.is_dir():
            return path.resolve()
    raise BadInput(f"{text!r:.60} is not a folder; allowed: one that exists")


@click.command(
    short_help="Record what a program does to its records.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--out", type=PATH, required=True, help="The trace to write: a new file.")
@click.option(
    "--folder",
    "folders",
    type=Read(_folder),
    multiple=True,
    metavar="FOLDER",
    help="Record the files in this folder as records, too. May be repeated.",
)
@click.option(
    "--most",
    type=Read(_trace_bytes),
    default="1 GiB",
    show_default=True,
    metavar="SIZE",
    help="Stop recording, not the program, when the trace has this size.",
)
def record(command: Sequence[str], out: Path, folders: Sequence[Path], most: int) -> None:
    """Run COMMAND and record what it and the Python programs that it starts do to their records:
    with dbm, shelve, sqlite3, plyvel, lmdb and diskcache, and with the files in FOLDER.

    The trace has each operation, its time, thread and transaction, a hash of the key, and the bytes
    of key and value. It has no content, and no name of a key or file: keys are hashed with a secret
    that is not kept. `kvbench trace` shows what is in it, `kvbench advise --trace` answers from it.

    A trace is complete up to a second before its program ends, however it ends. The exit status is
    that of COMMAND.
    """
    from kvbench.trace.format import RECORDER, begin, read
    from kvbench.trace.recorder import kvbench_recorder as recorder

    if any(os.pathsep in str(folder) for folder in folders):
        raise BadInput(f"--folder: {brief(str(folders[0]))!r} has a {os.pathsep!r}; allowed: none")
    begin(out)
    paths = [str(RECORDER), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        recorder.PATH: str(out.resolve()),
        recorder.SECRET: secrets.token_hex(16),
        recorder.START: str(time.monotonic_ns()),
        recorder.MOST: str(most),
        recorder.FOLDERS: os.pathsep.join(map(str, folders)),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        out.unlink()
        raise BadInput(f"{brief(command[0])!r}: {error.strerror}") from None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what it does then
    try:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    rows = len(read(out).rows)
    if rows:
        say(f"{out}: {rows:,} rows. `kvbench trace {out}` shows what is in them.")
    else:
        say(f"{out}: nothing was recorded: {brief(command[0])} ran no Python that used records")
    sys.exit(status if status >= 0 else 128 - status)


@click.command(short_help="Show what a trace has.")
@click.argument("file", type=PATH)
@click.option(
    "--trace-store", "number", type=int, default=1, metavar="N",
    help="Of several stores, show the Nth.  [default: that with the most operations]",
)  # fmt: skip
@AS_JSON
def trace(file: Path, number: int, as_json: bool) -> None:
    """Show what the trace in FILE does to its records: a trace of `kvbench record`, the text of
    RocksDB's trace_analyzer, a cache trace as Twitter published them, or a CSV with the columns
    operation, key and value_size, and perhaps key_size, found, thread, store and time_us."""
    from kvbench.answers.report import to_json
    from kvbench.trace import text
    from kvbench.trace.asked import asked, stores
    from kvbench.trace.formats import read_any

    found = read_any(file)
    own, known = asked(found, number), stores(found)
    if as_json:
        kinds = [{"library": row.kind, "operations": row.operations} for row in known.itertuples()]
        click.echo(to_json({"stores": kinds, "asked": text.values(own)}))
        return
    parts = [text.store_table(known)] if len(known) > 1 else []
    click.echo("\n\n".join([*parts, text.summary(own)]))
