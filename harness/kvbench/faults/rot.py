"""Damages closed stores, and finds out what reading them then returns.

A store is filled in stages, each of which opens and closes it, so that its files hold blocks of
several ages. For each damage, a child process opens a damaged copy of the closed store, reads every
key, scans the store if it is ordered, and closes it.
"""

import dataclasses
import functools
import json
import multiprocessing
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from kvbench.cell.bindings.sql import CREATE
from kvbench.cell.contract import StoreError
from kvbench.cell.store import Store
from kvbench.common.messages import one_line
from kvbench.common.processes import begin_worker, uninterrupted
from kvbench.faults.apart import HANGS
from kvbench.faults.damage import Copy, Damage, Damager, Image, read_image
from kvbench.faults.left import Left, Value, digest, look
from kvbench.stores.opened import OpenShim, OpenStore

RECORDS = 1200  # loaded
LEAST, MOST = 100, 4096  # bytes of a value
STAGES = 5  # of writing; the first one loads
UPDATED, REMOVED, INSERTED = 200, 40, 40  # records of each later stage
BUILD_LIMIT = 120.0  # seconds for a stage
LIMIT = 20.0  # seconds until reading a damaged store counts as hanging
PROCESSES = 2
MOST_HANGS = 10  # in each process: after these, a row ends with fewer damages
MOST_BYTES = 256 << 20  # of the files of a store, which are kept in memory
ROOM = 1 << 30  # bytes that are plenty for the stores of a run
DEFAULT = "default"  # checks as shipped
# Outcomes, from the worst: if several apply to a damage, the first one counts.
WRONG, MISSING, CRASH, HANG, REPORTED, HARMLESS = OUTCOMES = (
    "wrong", "missing", "crash", "hang", "reported", "harmless"
)  # fmt: skip
BAD = OUTCOMES[:4]
SHOWN = 5  # records that a replay names

Digest = bytes | None
Write = tuple[str, bytes, bytes]  # the name of a method of an open store, key, value


def writes(seed: int) -> Iterator[list[Write]]:
    """The writes of each stage."""
    choose = random.Random(f"writes {seed}")
    live: list[bytes] = []

    def key() -> bytes:
        return b"%016x" % choose.getrandbits(64)

    def value() -> bytes:
        return choose.randbytes(choose.randint(LEAST, MOST))

    for stage in range(STAGES):
        found: list[Write] = []
        if stage:
            choose.shuffle(live)
            found += [("remove", live.pop(), b"") for _ in range(REMOVED)]
            found += [("update", own, value()) for own in live[:UPDATED]]
        new = [key() for _ in range(INSERTED if stage else RECORDS)]
        found += [("insert", own, value()) for own in new]
        live += new
        yield found


class Content(NamedTuple):
    """What a store must hold: the digest of each key that was ever written, None for a removed one;
    and the digests of all values that a key has had."""

    expected: dict[bytes, Digest]
    written: dict[bytes, set[Digest]]

    @classmethod
    def after(cls, stages: Sequence[list[Write]]) -> "Content":
        content = cls({}, {})
        for method, key, value in (write for stage in stages for write in stage):
            content.expected[key] = None if method == "remove" else digest(value)
            content.written.setdefault(key, set()).add(digest(value))
        return content


class Answer(NamedTuple):
    """A wrong answer: what get or scan found of a key, whether the key was ever written, and
    whether that is an older value of it."""

    call: str
    key: bytes
    found: Digest
    known: bool
    older: bool


@dataclasses.dataclass
class Verdict:
    outcome: str
    wrong: list[Answer]
    missing: list[Answer]
    said: str  # the engine's first error, or how the child ended
    refused: str  # the error, if the store does not open
    printed: str  # the end of what the engine printed

    @property
    def stale(self) -> bool:
        """Whether each wrong value is one that its record had earlier."""
        return bool(self.wrong) and all(answer.older for answer in self.wrong)


def _scanned(opened: OpenStore, expected: dict[bytes, Digest]) -> str:
    """Scan a store in the child. Returns JSON: the keys whose values are not as expected, and the
    error that ended the scan. A key that is not expected is one whose value should be missing."""
    found: dict[bytes, Digest] = {}
    error, count = "", 0
    try:
        # In one piece: the next piece would begin at a key that may be damaged.
        whole = opened.scan(at_once=2**31) if isinstance(opened, OpenShim) else opened.scan()
        for key, value in whole:
            found[key] = digest(value)
            count += 1
            if count > 2 * len(expected):
                break  # a scan of damaged pages may go round in a circle
    except Exception as failure:
        error = str(failure) or type(failure).__name__
    keys = found if error else {**expected, **found}
    other = [
        (key.hex(), (own or b"").hex())
        for key in keys
        if (own := found.get(key)) != expected.get(key)
    ]
    repeated = count - len(found)
    return json.dumps({"error": error, "other": other, "repeated": repeated})


def judge(left: Left, content: Content) -> Verdict:
    """What reading a damaged store amounts to. A value counts as wrong or missing only if the call
    that returned it reported no error."""
    scan: dict[str, Any] = (
        json.loads(left.after) if left.after.startswith("{") else {"error": left.after}
    )
    gets = zip(content.expected, left.found, strict=False)  # fewer if the child ended early
    found: list[tuple[str, bytes, Value]] = [("get", key, value) for key, value in gets]
    found += [
        ("scan", bytes.fromhex(key), bytes.fromhex(value) or None)
        for key, value in scan.get("other", [])
    ]
    wrong: list[Answer] = []
    missing: list[Answer] = []
    for call, key, value in found:
        if isinstance(value, str) or value == content.expected.get(key):
            continue
        older = value in content.written.get(key, ())
        answer = Answer(call, key, value, key in content.expected, older)
        (wrong if answer.known and value is not None else missing).append(answer)
    errors = [left.ended, left.refused, *(v for v in left.found if isinstance(v, str))]
    said = next(filter(None, (*errors, scan["error"], left.closing)), "")
    cases = {
        WRONG: wrong,
        MISSING: missing or scan.get("repeated"),
        HANG: left.ended == HANGS,
        CRASH: left.ended and left.ended != HANGS,
        REPORTED: said,
        HARMLESS: True,
    }
    outcome = next(own for own in OUTCOMES if cases[own])
    return Verdict(outcome, wrong, missing, said, left.refused, left.said)


class Checks(NamedTuple):
    """How a store is opened at a level of checks: its options, and what is done before."""

    options: dict[str, str]
    before: Callable[[Path], None] | None = None


def _checksum_pages(folder: Path) -> None:
    """Have APSW's SQLite keep and verify checksums of pages, by the extension cksumvfs."""
    import apsw  # noqa: PLC0415 - an engine, which only a child may load
    import apsw.sqlite_extra  # noqa: PLC0415

    apsw.sqlite_extra.load(apsw.Connection(":memory:"), "cksumvfs")
    file = folder / "records.sqlite"
    if not file.exists():
        made = apsw.Connection(str(file))
        made.reserve_bytes(reserve=8)  # of each page, for its checksum
        made.execute(CREATE)
        made.close()


def checks_of(store: Store) -> dict[str, Checks]:
    """The levels of checks that a store has: as shipped, and those of its setting `checks`."""
    found = {DEFAULT: Checks({})}
    if store.full_name == "sqlite/apsw":
        found["on"] = Checks({}, _checksum_pages)
    own = [setting.value for setting in store.settings if setting.name == "checks"]
    return found | {level: Checks({"checks": level}) for level in own}


@dataclasses.dataclass
class Subject:
    """A closed store, and what is needed to damage and to judge it."""

    store: Store
    checks: Checks
    image: Image
    damager: Damager
    content: Content

    def read(self, folder: Path) -> Verdict:
        content, store = self.content, self.store
        scan = functools.partial(_scanned, expected=content.expected)
        then = scan if "scan" in store.capabilities else None
        keys = list(content.expected)
        options, before = self.checks
        left = look(store, folder, keys, options, before=before, then=then, limit=LIMIT)
        return judge(left, content)

    def damaged(self, copy: Copy, kind: str, number: int) -> tuple[Damage, Verdict]:
        """Damage the copy, read it, and make it whole again."""
        damage = self.damager.damage(kind, number)
        copy.damage(damage)
        verdict = self.read(copy.folder)
        copy.restore(damage)
        return damage, verdict


def _write(opened: OpenStore, stage: Sequence[Write]) -> str:
    for method, key, value in stage:
        done = opened.remove(key) if method == "remove" else getattr(opened, method)(key, value)
        if not done:
            return f"{method} of a record was refused"
    return ""


def make(store: Store, level: str, seed: int, place: Path) -> Subject:
    """Fill a store, and close it. Raises StoreError if that fails, or if an undamaged copy of it
    does not read as it should."""
    options, before = checks = checks_of(store)[level]
    stages, images = list(writes(seed)), []
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name) / "store"
        folder.mkdir()
        for stage in stages:
            then = functools.partial(_write, stage=stage)
            left = look(store, folder, (), options, before=before, then=then, limit=BUILD_LIMIT)
            if why := left.ended or left.refused or left.after or left.closing:
                raise StoreError(f"not filled: {why}")
            if (size := sum(path.stat().st_size for path in folder.rglob("*"))) > MOST_BYTES:
                raise StoreError(f"its files have {size:,} B; allowed: {MOST_BYTES:,}")
            images.append(read_image(folder))
        *earlier, image = images
        damager = Damager(image, earlier, f"{store.full_name} {level} {seed}")
        subject = Subject(store, checks, image, damager, Content.after(stages))
        verdict = subject.read(Copy(image, Path(name) / "copy").folder)
        if verdict.outcome != HARMLESS:
            raise StoreError(f"an undamaged copy reads as {verdict.outcome}: {verdict.said}")
    return subject


class Found(NamedTuple):
    """What a damage led to. `stale`: all wrong values are older ones of their records. `unopened`:
    the store did not open."""

    number: int
    outcome: str
    stale: bool
    unopened: bool


def _work(
    parent: int, subject: Subject, folder: Path, kind: str, numbers: range, answer: Connection
) -> None:
    """Run in a process: send what each damage led to."""
    begin_worker(parent)
    copy = Copy(subject.image, folder)
    found: list[Found] = []
    for number in numbers:
        if sum(own.outcome == HANG for own in found) == MOST_HANGS:
            break
        _, verdict = subject.damaged(copy, kind, number)
        found.append(Found(number, verdict.outcome, verdict.stale, bool(verdict.refused)))
    answer.send(found)


def _all(subject: Subject, kind: str, count: int, place: Path) -> list[Found]:
    """What each damage led to, by several processes. Raises StoreError if one of them ends."""
    context = multiprocessing.get_context("fork")
    processes, answers = [], []
    try:
        for first in range(PROCESSES):
            answer, send = context.Pipe(duplex=False)
            folder, numbers = place / f"copy-{first}", range(first, count, PROCESSES)
            arguments = (os.getpid(), subject, folder, kind, numbers, send)
            with uninterrupted():
                processes.append(context.Process(target=_work, args=arguments))
                processes[-1].start()
            send.close()
            answers.append(answer)
        return sorted(found for answer in answers for found in answer.recv())
    except EOFError:
        raise StoreError(f"{kind}: a process that read damaged stores ended") from None
    finally:
        with uninterrupted():
            for process in processes:
                process.kill()
                process.join()


def row(subject: Subject, checks: str, kind: str, wanted: int, place: Path) -> dict[str, Any]:
    """A row of the table: how many damages of a kind had each outcome, and the number of the first
    damage with each bad one."""
    count = subject.damager.count(kind, wanted)
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        found = _all(subject, kind, count, Path(name))
    outcomes = Counter(own.outcome for own in found)
    first = {own.outcome: own.number for own in reversed(found)}
    return {
        "store": subject.store.full_name,
        "engine_version": subject.store.version,
        "checks": checks,
        "damage": kind,
        "damages": len(found),
        **{outcome: outcomes[outcome] for outcome in OUTCOMES},
        "stale": sum(own.stale for own in found if own.outcome == WRONG),
        "unopened": sum(own.unopened for own in found if own.outcome == REPORTED),
        **{f"first_{outcome}": first.get(outcome) for outcome in BAD},
        "files": len(subject.image.files),
        "bytes": subject.image.size,
    }


def replay(subject: Subject, kind: str, number: int, place: Path) -> str:
    """Do one damage again. Returns lines that say what was damaged, and what was returned."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        copy = Copy(subject.image, Path(name) / "copy")
        damage, verdict = subject.damaged(copy, kind, number)
    lines = [f"damage:  {damage.said}", f"outcome: {verdict.outcome}"]
    if verdict.said:
        lines.append(f"error:   {one_line(verdict.said)}")
    if verdict.printed:
        lines.append(f"printed: {one_line(verdict.printed)}")
    for title, answers in (("wrong", verdict.wrong), ("missing", verdict.missing)):
        for answer in answers[:SHOWN]:
            lines.append(f"{title + ':':8} {answer.call} of {answer.key!r} {_returned(answer)}")
        if len(answers) > SHOWN:
            lines.append(f"         and {len(answers) - SHOWN:,} more")
    return "\n".join(lines)


def _returned(answer: Answer) -> str:
    if answer.found is None:
        return "finds nothing"
    if not answer.known:
        return "finds a record that was never written"
    return f"returns {'an older value' if answer.older else 'a value that was never written'}"
