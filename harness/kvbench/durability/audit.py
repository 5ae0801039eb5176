"""Traces any program's writes and syncs, and derives the durability level of its operations.

strace does not show where an operation ends. The level therefore follows from what N operations
must at least have done, and from evidence against it:

- `sync`: N times, a sync left none of its thread's changes since the set-up unsynced. Changes are
  those of files, and of names in folders. Threads overlap, so each is judged by its own changes.
  Evidence against it is: N changes that were never synced, or that stayed unsynced while other
  syncs went on; a last change of a file that was not synced like the changes before it; syncs of a
  file that mostly had nothing to sync; and writes through a map or by another call that strace does
  not show. Fewer than N such changes cannot be all operations. Those before or after the operations
  are named in the report; those in between, by a thread that then synced other files, make the
  level `not known`.
- `process`: at least N changes reached the kernel.
- `none`: fewer did, so operations wait in the process.
- `not known`: activity that strace does not show could change the answer. The report names it.

N counts all operations of the run. A program that acknowledges an operation before it syncs, and
syncs before it ends, looks like one that syncs first. Data that never leave the process are
invisible.
"""

import fnmatch
import math
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tabulate import tabulate

from kvbench.common.messages import BadInput
from kvbench.durability.strace import READS, Trace, refuse_unless_runs, tracing_fails
from kvbench.durability.traced import CALLS, SYNCS, File, Traced, most_at_once

MOST = 12  # files in a report
NAMED = 3  # files in a sentence
UNKNOWN = "not known"
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 5.0  # seconds in which a program must end after a signal
WAKING = 0.2  # seconds within which a signal is heeded
NOT_SYNCS = "sync_file_range"


def _listing(files: Collection[str]) -> str:
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return ", ".join(sorted(files)[:NAMED]) + more


@dataclass
class Report:
    """What a traced program did, the seconds it took and its exit status. `stopped` is the signal
    that ended the audit early, if any."""

    traced: Traced
    seconds: float
    status: int
    stopped: int | None = None

    @property
    def kept(self) -> list[File]:
        """The program's own files and folders that it changed, synced or mapped."""
        return [file for file in self.traced.files if file.changes or file.calls or file.mapped]

    @property
    def output(self) -> set[str]:
        """The files that the program inherited and wrote."""
        return {file.path for file in self.traced.inherited if file.writes}

    @property
    def unsynced(self) -> list[str]:
        """The files that were written after their last sync."""
        return [file.path for file in self.traced.unsynced() if not file.folder]

    @property
    def unsynced_folders(self) -> list[str]:
        """The folders in which names were added or removed after their last sync."""
        return [file.path for file in self.traced.unsynced() if file.folder]

    @property
    def mapped(self) -> list[str]:
        """The files that were mapped for writing."""
        return [file.path for file in self.traced.files if file.mapped and not file.aside]

    @property
    def steps(self) -> int:
        """The number of syncs that left none of their thread's changes since the set-up
        unsynced."""
        return most_at_once(self.traced.steps)[0]

    def level(self, operations: int) -> tuple[str, str]:
        """The durability level if the program executed this number of operations, and the
        reason."""
        traced, killed = self.traced, self.traced.ended.get(self.traced.first or 0)
        if self.stopped or killed:
            return UNKNOWN, f"the program was ended by {killed or 'a signal'} before it was done"
        if traced.unseen:
            return UNKNOWN, f"{' and '.join(sorted(traced.unseen))}: what is written so is not seen"
        steps, since = most_at_once(traced.steps)
        against = self._against(operations, since)
        if steps >= operations and not against:
            return self._synced(operations, steps, since)
        if traced.changes >= operations:
            return self._reached(operations, steps, against)
        return self._waiting(operations)

    def _against(self, operations: int, since: int) -> str:
        """The reason why unsynced changes may include the operations; empty if they cannot."""
        last = [
            file.path
            for file in self.traced.unsynced()
            if file.settled + 1 >= operations
            and any(file.changes[kind] >= operations for kind in file.pending)
        ]  # except a size that is set once, when a file is closed
        if last:
            return f"the last changes of {_listing(last)} were not synced"
        left = self.traced.unsynced()
        if left.total() + self.traced.waiting(since) >= operations:
            named = f", as in {_listing([file.path for file in left])}" if left else ""
            return f"as many changes were left unsynced{named}"
        if self.traced.late + 1 >= operations:
            return "a thread changed files all along and did not sync them each time"
        return ""

    def _synced(self, operations: int, steps: int, since: int) -> tuple[str, str]:
        why = f"{steps:,} times a sync left nothing unsynced"
        if self.mapped:
            return UNKNOWN, (
                f"{why}, but {_listing(self.mapped)} can be written through a map, which is not "
                "seen: sync if no record is there (--aside)"
            )
        for file in self.traced.files:
            calls = file.calls["fsync"] + file.calls["fdatasync"]
            if file.writes and not file.aside and calls >= operations > file.settled:
                return UNKNOWN, (
                    f"{file.idle:,} of {calls:,} syncs of {file.path} found nothing new: "
                    "its writes may wait in the process"
                )
        left = [file.path for file in self.traced.unsynced()]
        return "sync", f"{why}{f', but for {_listing(left)}' if left else ''}"

    def _reached(self, operations: int, steps: int, against: str) -> tuple[str, str]:
        traced = self.traced
        near, lefts, tasks = most_at_once(traced.near)[0], traced.lefts, traced.most_tasks
        left = _listing({file.path for file in traced.left or traced.unsynced()})
        if near + lefts >= operations > lefts + 1 and not against:
            return UNKNOWN, (
                f"{lefts:,} of the operations left {left} unsynced, and the others nothing: "
                "sync if no record is there (--aside)"
            )
        if steps < operations <= steps * tasks and not against:
            return UNKNOWN, f"{steps:,} syncs left nothing unsynced, which {tasks} tasks may share"
        if self.mapped and traced.calls["msync"] >= operations:
            return UNKNOWN, f"{_listing(self.mapped)} is written and synced by a map: not seen"
        if not traced.calls:
            why = "no sync call was made"
        else:
            why = f"{steps:,} times a sync left nothing unsynced"
            why += f"; unsynced meanwhile: {left}" if left else ""
        return "process", f"each operation reaches the kernel; {against or why}"

    def _waiting(self, operations: int) -> tuple[str, str]:
        traced = self.traced
        if self.mapped:
            return UNKNOWN, f"{_listing(self.mapped)} is written through a map, which is not seen"
        if traced.copies:
            return UNKNOWN, f"{traced.copies:,} calls copy in the kernel, each perhaps much"
        if self.output and not traced.changes:
            return UNKNOWN, "only files that the program inherited were written"
        if traced.connected:
            return UNKNOWN, "the program uses a socket: what another process writes is not seen"
        some, tasks = f"{traced.changes:,} changes reach the kernel", traced.most_tasks
        if operations <= traced.changes * tasks:
            return UNKNOWN, f"{some}, which {tasks} tasks may share"
        return "none", f"{some}: {operations:,} operations wait in the process"

    def facts(self, operations: int | None) -> dict[str, Any]:
        """The report as plain values."""
        traced = self.traced
        level = zip(("level", "why"), self.level(operations), strict=True) if operations else ()
        return {
            "seconds": self.seconds,
            "status": self.status,
            "stopped": self.stopped and signal.Signals(self.stopped).name,
            "operations": operations,
            "calls": {name: traced.calls[name] for name in (*SYNCS, NOT_SYNCS)},
            "writes": sum(file.writes for file in traced.files),
            "bytes_written": sum(file.written for file in traced.files),
            "copies": traced.copies,
            "name_changes": traced.names,
            "reads": sum(file.reads for file in traced.files),
            "bytes_read": sum(file.read for file in traced.files),
            "settled": self.steps,
            "unsynced": self.unsynced,
            "unsynced_folders": self.unsynced_folders,
            "mapped": self.mapped,
            "inherited": sorted(self.output),
            "aside": [file.path for file in self.kept if file.aside],
            "unseen": sorted(traced.unseen),
            **dict(level),
        }


@contextmanager
def _passing_on(trace: Trace) -> Iterator[None]:
    """Pass a signal that would end the audit on to the program, so that the report is still
    made. A second signal kills the program, and so does the time after GRACE seconds."""
    asked = math.inf  # when the last signal was passed on

    def passed(number: int, frame: FrameType | None) -> None:
        # A handler may interrupt itself, so it starts no thread, which would take a lock.
        nonlocal asked
        now = time.monotonic()
        if number == signal.SIGALRM and now - asked < GRACE:
            return
        asked = now
        late = number == signal.SIGALRM or trace.asked is not None
        trace.stop(signal.SIGKILL if late else number)

    heeded = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, passed) for number in (*heeded, signal.SIGALRM)}
    # A signal does not wake the main thread if it comes just before that begins to wait, or to
    # another thread. Python calls the handler at the next one.
    signal.setitimer(signal.ITIMER_REAL, WAKING, WAKING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def audit(command: Sequence[str], aside: Sequence[str] = ()) -> Report:
    """Run a program on our standard streams, and report what it did. Files whose path or name
    matches a pattern in `aside` hold no records. Raises BadInput if the program cannot be
    traced."""
    if why := tracing_fails():
        raise BadInput(f"programs cannot be traced here: {why}")
    refuse_unless_runs(command)

    def matches(path: str) -> bool:
        texts = path, os.path.basename(path)
        return any(fnmatch.fnmatchcase(text, pattern) for text in texts for pattern in aside)

    traced = Traced(matches)
    calls = (*CALLS, *(f"?{name}" for name in READS))
    with Trace(command, calls) as trace, _passing_on(trace):
        for event in trace:
            traced.take(event)
        if trace.cut:
            raise BadInput(
                f"the trace of {command[0]!r} was cut short: strace was ended ({trace.status}); "
                "nothing can be said of the program; run it again"
            )
    return Report(traced, trace.seconds, trace.status, trace.asked)


def text(report: Report, operations: int | None) -> str:
    """The report as text: totals, rates per second and per operation, then each file."""
    found = report.facts(operations)
    rows = {f"{name} calls": count for name, count in found["calls"].items() if count}
    rows |= {
        "write calls": found["writes"],
        "bytes written": found["bytes_written"],
        "names that came or went": found["name_changes"],
        "read calls": found["reads"],
        "bytes read": found["bytes_read"],
    }
    headers = ["", "in all", "a second", *(["an operation"] if operations else [])]
    table = [
        (name, f"{count:,}", f"{count / report.seconds:,.1f}")
        + ((f"{count / operations:,.3f}",) if operations else ())
        for name, count in rows.items()
    ]
    look = {"disable_numparse": True, "colalign": ("left", *["right"] * (len(headers) - 1))}
    parts = [tabulate(table, headers=headers, **look)]
    changed = sorted(report.kept, key=lambda file: -file.written)
    by_file = [
        (file.path, f"{file.writes:,}", f"{file.written:,}", f"{file.calls['O_DSYNC']:,}",
         f"{file.calls['fsync']:,}", f"{file.calls['fdatasync']:,}",
         "aside" if file.aside else "no" if file.dirty else "yes")
        for file in changed[:MOST]
    ]  # fmt: skip
    if by_file:
        headers = ["file", "write calls", "bytes written", "of them synced", "fsync", "fdatasync",
                   "synced at the end"]  # fmt: skip
        parts.append(tabulate(by_file, headers=headers, disable_numparse=True))
    if len(changed) > MOST:
        parts.append(f"and {len(changed) - MOST} more files")
    if report.mapped:
        parts.append(
            f"{len(report.mapped)} files were mapped to be written, which is not seen; "
            f"{found['calls']['msync']:,} calls synced a map"
        )
    if report.traced.unseen:
        parts.append(f"uses {' and '.join(found['unseen'])}: what is written so is not seen")
    if report.output:
        named = _listing(report.output)
        parts.append(f"{named} was inherited, as output for people: it does not count")
    if found["unsynced_folders"]:
        parts.append(
            f"{len(found['unsynced_folders'])} folders got or lost names after their last sync"
        )
    unsynced = len(report.unsynced)
    parts.append(
        f"{unsynced} files were written after their last sync" if unsynced
        else "all that was seen to be written was synced"
    )  # fmt: skip
    if report.stopped:
        parts.append(f"stopped by {found['stopped']}: the report ends there")
    if operations:
        parts.append(f"durability level: {found['level']}: {found['why']}")
    return "\n\n".join(parts)
