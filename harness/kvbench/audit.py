"""Any program under the instruments of the evidence: what it writes and syncs, by file.

strace reports the system calls of the program and of all that it starts. A file is unsynced when it
was written after its last sync call. What a program writes through a map is not seen, nor what it
hands to io_uring or libaio: the report names both. A sync call that the device answers early looks
like any other.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from kvbench import BadInput
from kvbench.evidence import EACH_WRITE, TRACER, WRITES, tracing_fails

READS = ("read", "pread64", "readv", "preadv", "preadv2")
SYNCS = ("fsync", "fdatasync", "sync_file_range")
ALL = ("sync", "syncfs")  # sync every file, or all of a file system
UNSEEN = ("io_uring_setup", "io_setup")
TRACED = ",".join(
    (*WRITES, *READS, *SYNCS, *ALL, *UNSEEN, "msync", "mmap", "?open", "openat", "openat2")
)
# The thread, the call, its arguments and its result; a descriptor is followed by its <path>.
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?")
PATH = re.compile(r"(?<!\d)(?![012]<)\d+<(/[^>]*)>")  # but of no standard stream
DEVICE = re.compile(r"/(dev/(?!shm/)|proc/|sys/)")  # no file of a program's
MOST = 12  # files in a report
COUNTS = {
    "sync calls": "syncs", "write calls": "writes", "bytes written": "bytes_written",
    "read calls": "reads", "bytes read": "bytes_read",
}  # fmt: skip
SHARED = re.compile(r"PROT_WRITE.*MAP_SHARED")


@dataclass
class File:
    """What was done to a file. `each` says that its writes are synced by a flag of the
    descriptor, `dirty` that it was written after its last sync."""

    writes: int = 0
    written: int = 0
    reads: int = 0
    read: int = 0
    syncs: int = 0
    each: bool = False
    dirty: bool = False
    mapped: bool = False


@dataclass
class Report:
    """What a program did: each file's part, the seconds it took and its exit status; `all_syncs`
    are calls that sync every file, `unseen` the interfaces whose writes are not seen."""

    seconds: float
    status: int
    files: dict[str, File] = field(default_factory=dict)
    all_syncs: int = 0
    map_syncs: int = 0
    unseen: set[str] = field(default_factory=set)

    @property
    def writes(self) -> int:
        return sum(file.writes for file in self.files.values())

    @property
    def syncs(self) -> int:
        own = sum(file.syncs for file in self.files.values())
        return own + self.all_syncs + self.map_syncs

    @property
    def unsynced(self) -> list[str]:
        """The files that were written after their last sync."""
        return [path for path, file in self.files.items() if file.dirty]

    @property
    def mapped(self) -> list[str]:
        """The files that were mapped to be written, of which a sync of a map may be any."""
        return [path for path, file in self.files.items() if file.mapped]

    def level(self, operations: int) -> tuple[str, str]:
        """The durability level that so many single writes amount to, and why. A file that is left
        unsynced matters where it may hold the writes: a log for people has fewer of them."""
        some = f"{self.syncs:,} sync calls for {operations:,} operations"
        left = [file.writes for file in self.files.values() if file.dirty]
        if self.syncs >= operations and sum(left) < operations:
            few = f"{len(left)} files with {sum(left):,} write calls" if left else "nothing"
            return "sync", f"at least one sync call an operation, and {few} left unsynced"
        if self.writes >= operations:
            return "process", f"each operation reaches the kernel; {some}"
        if self.mapped or self.unseen:
            how = ", ".join([*self.unseen, *(["a map"] if self.mapped else [])])
            return "process or none", f"{some}, and writes go by {how}, which is not seen"
        return "none", f"{self.writes:,} write calls and {some}: writes wait in the process"

    def facts(self, operations: int | None) -> dict[str, Any]:
        """The report as plain values."""
        own = self.files.values()
        counts = {
            "syncs": self.syncs,
            "writes": self.writes,
            "bytes_written": sum(file.written for file in own),
            "reads": sum(file.reads for file in own),
            "bytes_read": sum(file.read for file in own),
        }
        level = zip(("level", "why"), self.level(operations), strict=True) if operations else ()
        return {
            **{"seconds": self.seconds, "status": self.status, "operations": operations},
            **counts,
            "unsynced": self.unsynced,
            "mapped": self.mapped,
            "map_syncs": self.map_syncs,
            "unseen": sorted(self.unseen),
            **dict(level),
        }


def _calls(trace: Iterable[str]) -> Iterable[tuple[str, str, int, str]]:
    """Each call that succeeded: its name, arguments, result, and the path of that."""
    begun: dict[str, str] = {}  # the unfinished call of each thread
    for line in trace:
        thread, text = line.rstrip("\n").split(maxsplit=1)
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>").rstrip()
            continue
        if text.startswith("<... "):
            text = begun.pop(thread, "") + text.partition(" resumed>")[2]
        if (call := CALL.match(text)) and not call[3].startswith("-"):
            yield call[1], call[2], int(call[3]), call[4] or ""


def read_trace(trace: Iterable[str], report: Report) -> None:
    """Add the calls in the output of strace to a report."""
    for name, arguments, result, opened in _calls(trace):
        if name in UNSEEN:
            report.unseen.add({"io_uring_setup": "io_uring", "io_setup": "libaio"}[name])
        elif name in ALL:
            report.all_syncs += 1
            for file in report.files.values():
                file.dirty = False
        elif name == "msync":
            report.map_syncs += "MS_SYNC" in arguments
        elif name.startswith("open"):
            if opened.startswith("/") and not DEVICE.match(opened) and EACH_WRITE.search(arguments):
                report.files.setdefault(opened, File()).each = True
        elif (found := PATH.search(arguments)) and not DEVICE.match(found[1]):
            _count(report.files.setdefault(found[1], File()), name, arguments, result)


def _count(file: File, name: str, arguments: str, result: int) -> None:
    if name == "mmap":
        file.mapped |= bool(SHARED.search(arguments))
    elif name in WRITES:
        synced = file.each or bool(EACH_WRITE.search(arguments))
        file.writes += 1
        file.written += result
        file.syncs += synced
        file.dirty |= not synced  # an earlier write may still wait
    elif name in READS:
        file.reads += 1
        file.read += result
    elif name != "sync_file_range" or "WAIT_AFTER" in arguments:
        file.syncs += 1
        file.dirty = False


def audit(command: Sequence[str]) -> Report:
    """Run a program, whose streams are ours, and report what it did. Raises BadInput if it can't
    be traced."""
    if why := tracing_fails():
        raise BadInput(f"programs cannot be traced here: {why}")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        tracer = [*TRACER, "--decode-fds=path", f"--output={trace}", f"--trace={TRACED}", "--"]
        begun = time.monotonic()
        ended = subprocess.run([*tracer, *command], check=False)
        report = Report(time.monotonic() - begun, ended.returncode)
        if not trace.exists() or not trace.stat().st_size:
            raise BadInput(f"{command[0]!r} cannot be run; allowed: a program and its arguments")
        with open(trace, errors="replace") as lines:
            read_trace(lines, report)
    return report


def text(report: Report, operations: int | None) -> str:
    """The report as text: in all, a second and an operation, then by file."""
    found = report.facts(operations)
    rows = {name: found[key] for name, key in COUNTS.items()}
    headers = ["", "in all", "a second", *(["an operation"] if operations else [])]
    table = [
        (name, f"{count:,}", f"{count / report.seconds:,.1f}")
        + ((f"{count / operations:,.3f}",) if operations else ())
        for name, count in rows.items()
    ]
    look = {"disable_numparse": True, "colalign": ("left", *["right"] * (len(headers) - 1))}
    parts = [tabulate(table, headers=headers, **look)]
    changed = {path: file for path, file in report.files.items() if file.writes or file.syncs}
    most = sorted(changed, key=lambda path: -changed[path].written)[:MOST]
    by_file = [
        (path, f"{changed[path].writes:,}", f"{changed[path].written:,}",
         f"{changed[path].syncs:,}", "no" if changed[path].dirty else "yes")
        for path in most
    ]  # fmt: skip
    if by_file:
        headers = ["file", "write calls", "bytes written", "sync calls", "synced at the end"]
        parts.append(tabulate(by_file, headers=headers, disable_numparse=True))
    if len(changed) > MOST:
        parts.append(f"and {len(changed) - MOST} more files")
    if report.mapped:
        parts.append(
            f"{len(report.mapped)} files were mapped to be written, which is not seen; "
            f"{report.map_syncs:,} calls synced a map"
        )
    if report.unseen:
        parts.append(f"uses {' and '.join(sorted(report.unseen))}, whose writes are not seen")
    unsynced = len(report.unsynced)
    parts.append(
        f"{unsynced} files were written after their last sync" if unsynced
        else "all that was seen to be written was synced"
    )  # fmt: skip
    if operations:
        parts.append(f"durability level: {found['level']}: {found['why']}")
    return "\n\n".join(parts)
