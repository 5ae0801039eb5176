"""Compares random histories of every store with a dict, on sanitized shims and with kills.

Hypothesis chooses the steps, and a child process holds the store. After a kill, everything that the
child had acknowledged must be in the store. Each store is tested in a separate process.
"""

import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from builds import UNSANITIZED, reports, run, sanitized_environment, sanitized_shims
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT, WHOLE
from kvbench.machine.scratch import memory
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore
from served import LARGEST, Child, Record, Step
from table import Form, Row

LONGEST = 64 << 10  # bytes of a key: the limits of stores with longer keys are not tested
ALL = 1 << 20  # more records than any history creates
STEPS = 50  # steps in a history
HISTORIES = {True: 1, False: 30}  # histories per store, in the short form and in the long one

# Stores that may lose acknowledged records in a kill, and why. Such kills are counted, and each
# ends the history of its files. Records that were synced before a kill must survive.
KNOWN_LOSSES = {
    "kyoto-tree": "pages stay in the process",
    "kyoto-hash": "a kill in mid-update may tear its record",
    "tokyocabinet-tree": "pages stay in the process, or reach the file in part",
    "gdbm": "a kill in mid-write may tear its index",
    "gdbm/dbm.gnu": "a kill in mid-write may tear its index",
    "gdbm/shelve": "a kill in mid-write may tear its index",
    "bdb/bsddb3": "without an environment pages stay in the process",
    "bdb/berkeleydb": "without an environment pages stay in the process",
}

# Stores whose backward scans may miss records after a reopening, though gets and forward scans
# find them all, and why.
KNOWN_ASTRAY = {"tkrzw-tree": "links from page to page backwards are not all kept"}

# Stores in which a kill may leave a part of a batch, although a batch is one call to the engine.
KNOWN_PARTS = {"tkrzw-hash": "a batch cut off may leave a part of its records"}


class Model:
    """The expected answers of a store: the contract, implemented on a dict."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}

    def insert(self, key: bytes, value: bytes) -> bool:
        new = key not in self.records
        self.records.setdefault(key, value)
        return new

    def update(self, key: bytes, value: bytes) -> bool:
        known = key in self.records
        if known:
            self.records[key] = value
        return known

    def remove(self, key: bytes) -> bool:
        return self.records.pop(key, None) is not None

    def write_batch(self, records: Sequence[Record]) -> None:
        self.records.update(records)

    def get(self, key: bytes) -> bytes | None:
        return self.records.get(key)

    def get_into(self, key: bytes, capacity: int) -> bytes | None:
        value = self.records.get(key, b"")
        return b"too large" if len(value) > capacity else self.records.get(key)

    def scan(self, start: bytes, count: int) -> list[Record]:
        return [item for item in sorted(self.records.items()) if item[0] >= start][:count]

    def scan_back(self, start: bytes, count: int) -> list[Record]:
        return [item for item in sorted(self.records.items())[::-1] if item[0] <= start][:count]

    def nothing(self, *_: object) -> None:
        """A step that does not change the records."""

    sync = compact = reopen = effective_options = nothing


def random_value(size: int, number: int) -> bytes:
    return random.Random(f"{size} {number}").randbytes(size)


# Few keys, so that steps collide; some are hard for folders, texts or comparisons.
NASTY = (
    b"k", b"K", b"kk", b"k\0", b"\0", b"\0\0", b".", b"..", b"/", b"../k", b"k/k", b"%00", b"~",
    b"\x7f", b"\x80", b"\xff", b"\xff" * 20,
)  # fmt: skip
KEYS = st.sampled_from(NASTY[:4]) | st.sampled_from(NASTY) | st.binary(min_size=1, max_size=20)
SIZES = st.integers(0, 100) | st.integers(0, 5000) | st.sampled_from((0, 4095, 4096, LARGEST))
VALUES = st.builds(random_value, SIZES, st.integers(0, 3))
COUNTS = st.integers(1, 300)  # records to read in a scan
ANSWERS = st.integers(0, 8)
LAGS = st.integers(0, 300)  # microseconds


def _keys(store: KnownStore) -> st.SearchStrategy[bytes]:
    if store.max_key > LONGEST:
        return KEYS
    longest = b"k" * store.max_key, b"k" * (store.max_key - 1) + b"K", b"\xff" * store.max_key
    return KEYS | st.sampled_from(longest)


def _writes(store: KnownStore, keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[Step]:
    """A strategy for steps that a kill may interrupt."""
    batch = st.dictionaries(keys, VALUES, max_size=10).map(lambda records: list(records.items()))
    others = ["sync", "reopen"] + ["compact"] * ("compact" in store.capabilities)
    return st.one_of(
        st.tuples(st.sampled_from(("insert", "update")), keys, VALUES),
        st.tuples(st.sampled_from(("insert", "update")), keys, VALUES),
        st.tuples(st.just("remove"), keys),
        st.tuples(st.just("write_batch"), batch),
        st.tuples(st.sampled_from(others)),
    )


def _reads(store: KnownStore, keys: st.SearchStrategy[bytes]) -> st.SearchStrategy[Step]:
    gets: st.SearchStrategy[Step] = st.tuples(st.just("get"), keys)
    if not store.binding:
        gets |= st.tuples(st.just("get_into"), keys, SIZES)
        gets |= st.tuples(st.just("effective_options"), st.integers(1, 5000))
    if "scan" not in store.capabilities:
        return gets
    scans = ["scan"] + ["scan_back"] * (not store.binding)
    return gets | st.tuples(st.sampled_from(scans), keys | st.just(b""), COUNTS)


def _written(step: Step) -> set[bytes]:
    """The keys that a step writes."""
    match step:
        case ("write_batch", records):
            return {key for key, _ in records}
        case ("insert" | "update" | "remove" | "get" | "get_into", bytes(key), *_):
            return {key}
    return set()


@dataclass(frozen=True)
class Subject:
    """A store with settings, and what it guarantees."""

    store: KnownStore
    options: dict[str, str]
    survives: bool  # whether it guarantees that records survive a kill
    torn: bool  # whether an interrupted update may leave a prefix of its value
    writes: st.SearchStrategy[Step]
    reads: st.SearchStrategy[Step]

    @classmethod
    def of(cls, store: KnownStore, options: dict[str, str], shim: KnownStore) -> "Subject":
        """The subject for a store with these options; `shim` is the same engine in C."""
        claimed = store.guarantee(options.get("durability", DEFAULT)) != "none"
        keys = _keys(store)
        return cls(
            store,
            options,
            survives=claimed and store.full_name not in KNOWN_LOSSES,
            torn=shim.tears and options.get("durability") not in WHOLE,
            writes=_writes(store, keys),
            reads=_reads(store, keys),
        )

    def __str__(self) -> str:
        more = [f"{name}={value}" for name, value in self.options.items()][1:]
        return ", ".join([self.store.full_name, *more])

    def can(self, capability: str) -> bool:
        return capability in self.store.capabilities

    def whole(self, step: Step) -> bool:
        """Whether a kill in the middle of a step leaves all of the step or nothing."""
        parts = not self.can("batch") or self.store.full_name in KNOWN_PARTS
        return not (self.torn or (parts and step[0] == "write_batch"))


@dataclass
class Tally:
    steps: int = 0
    reopens: int = 0
    kills: int = 0
    cut: int = 0  # of these, in the middle of a step
    unpromised: int = 0  # of these, in a store that does not guarantee survival
    losses: int = 0  # of the unpromised, those that lost something
    astray: int = 0  # backward scans that missed records, a known fault
    last: list[str] = field(default_factory=list)  # the steps of the last history


def _own(name: str) -> st.SearchStrategy[Any]:
    """A strategy that depends on the subject of the history."""
    return st.runner().flatmap(lambda machine: getattr(machine.subject, name))


class History(RuleBasedStateMachine):
    """A history of one store, in one folder."""

    def __init__(self, subject: Subject, child: Child, place: Path, tally: Tally) -> None:
        super().__init__()
        self.subject, self._child, self._place, self._tally = subject, child, place, tally
        self._begin()

    def _begin(self) -> None:
        self._model, self._seen, self._reopened = Model(), set[bytes](), False
        self._tally.last.clear()
        self._folder = tempfile.TemporaryDirectory(dir=self._place)
        self._child.start(Path(self._folder.name))

    def teardown(self) -> None:
        with contextlib.suppress(StoreError):  # already reported, or irrelevant by now
            self._child.kill()
        self._folder.cleanup()

    def _do(self, step: Step) -> None:
        self._tally.last.append(_text(step))
        self._child.send([step])
        self._check(step, self._child.answer())

    def _check(self, step: Step, answer: Any) -> None:
        """Check the answer to a step that is done."""
        expected = self._expect(step)
        self._reopened |= step[0] == "reopen"
        known = self._reopened and self.subject.store.full_name in KNOWN_ASTRAY
        if known and step[0] == "scan_back" and answer != expected:
            self._tally.astray += 1
        elif answer != expected:
            raise StoreError(f"{_text(step)}: {_text(answer)} instead of {_text(expected)}")
        self._tally.steps += 1
        self._tally.reopens += step[0] == "reopen"

    def _expect(self, step: Step) -> Any:
        self._seen |= _written(step)
        name, *arguments = step
        return getattr(self._model, name)(*arguments)

    # Few rules, since Hypothesis omits some rules in each history.

    @rule(step=_own("writes"))
    def write(self, step: Step) -> None:
        self._do(step)

    @rule(step=_own("reads"))
    def read(self, step: Step) -> None:
        self._do(step)

    @precondition(lambda self: self.subject.survives)
    @rule(steps=st.lists(_own("writes"), max_size=8), answers=ANSWERS, lag=LAGS)
    def kill(self, steps: list[Step], answers: int, lag: int) -> None:
        self._recover(self._kill(steps, answers, lag))

    @precondition(lambda self: not self.subject.survives)
    @rule()
    def kill_after_sync(self) -> None:
        self._do(("sync",))
        self._recover(self._kill([], 0, 0))

    @precondition(lambda self: not self.subject.survives)
    @rule(steps=st.lists(_own("writes"), max_size=8), answers=ANSWERS, lag=LAGS)
    def kill_unpromised(self, steps: list[Step], answers: int, lag: int) -> None:
        """Kill a store that does not guarantee survival, count what is lost, and continue in a new
        folder."""
        cut = self._kill(steps, answers, lag)
        self._tally.unpromised += 1
        try:
            self._recover(cut)
        except StoreError:
            self._tally.losses += 1
        self.teardown()
        self._begin()

    def _kill(self, steps: list[Step], answers: int, lag: int) -> Step | None:
        """Kill the child `lag` microseconds after it has given `answers` answers. Returns the
        interrupted step, or None."""
        self._tally.last += [f"kill after {answers} answers and {lag} us of", *map(_text, steps)]
        self._child.send(steps)
        for step in steps[:answers]:
            self._check(step, self._child.answer())
        moment = time.perf_counter_ns() + 1000 * lag
        while time.perf_counter_ns() < moment:
            pass
        left = iter(steps[answers:])
        for answer in self._child.kill():
            self._check(next(left), answer)
        cut = next(left, None)
        self._reopened = True
        self._tally.kills += 1
        self._tally.cut += cut is not None
        return cut

    def _recover(self, cut: Step | None) -> None:
        """Open the store after a kill. All records must be there; of an interrupted step, all or
        nothing."""
        self._child.start(Path(self._folder.name))
        before = dict(self._model.records)
        if cut is not None:
            self._expect(cut)
        after, found = self._model.records, self._found()
        torn = _written(cut) if self.subject.torn and cut is not None else set[bytes]()
        for key in self._seen:
            old, new, value = before.get(key), after.get(key), found.get(key)
            if value not in (old, new) and not (key in torn and _begins(value, new)):
                raise StoreError(
                    f"{_text(key)}: {_text(value)} instead of {_text(old)} or {_text(new)} "
                    f"after a kill in {_text(cut)}"
                )
        if found not in (before, after) and cut is not None and self.subject.whole(cut):
            raise StoreError(f"a part of it is there after a kill in {_text(cut)}")
        self._model.records = found

    def _found(self) -> dict[bytes, bytes]:
        keys = sorted(self._seen)
        self._child.send([("get", key) for key in keys])
        values = {key: self._child.answer() for key in keys}
        found = {key: value for key, value in values.items() if value is not None}
        if self.subject.can("scan"):
            self._child.send([("scan", b"", ALL)])
            if self._child.answer() != sorted(found.items()):
                raise StoreError("scan and get differ after a kill")
        return found


def _begins(value: bytes | None, new: bytes | None) -> bool:
    """Whether an interrupted write of the value `new` may leave this value."""
    return value is not None and new is not None and new.startswith(value)


def _text(data: Any) -> str:
    """A step or an answer as text, with long values shortened."""
    match data:
        case bytes():
            return repr(data) if len(data) <= 20 else f"{data[:8]!r}... of {len(data):,} bytes"
        case list() | tuple():
            return f"({', '.join(map(_text, data[:12]))}{', ...' * (len(data) > 12)})"
    return str(data)


def _note(subject: Subject, tally: Tally, failure: str) -> str:
    label, level = subject.store.full_name, subject.options.get("durability", "as shipped")
    found = [failure, f"{level}: {tally.kills:,} kills, {tally.cut:,} in mid-step"]
    if subject.torn:
        found.append("an update cut off may leave the beginning of its value")
    found.append(KNOWN_PARTS.get(label, ""))
    if label in KNOWN_ASTRAY:
        found.append(f"{KNOWN_ASTRAY[label]}: {tally.astray:,} scans back missed records")
    if not subject.survives:
        found.append(KNOWN_LOSSES.get(label, "promises nothing"))
        found.append(
            f"lost acknowledged records in {tally.losses:,} of {tally.unpromised:,} kills, "
            f"{'not all' if failure else 'none'} after a sync"
        )
    return "; ".join(filter(None, found))


def variants(store: KnownStore) -> list[dict[str, str]]:
    """The options to test: the weakest durability that survives a kill, or as shipped if the store
    has none; and settings that change how the store works."""
    if store.binding:
        return [{}]
    levels = ("process", "sync", "atomic")
    found = [{"durability": level} for level in levels if not store.lacks("durability", level)]
    chosen = found[:1] or [{}]
    chosen += [options for options in found[1:] if options["durability"] == "atomic"]
    if not store.lacks("threads", "on"):
        chosen.append({**chosen[0], "threads": "on"})
    return chosen


def _tried(subject: Subject, short: bool, seed: int, place: Path) -> Row:
    tally, failure = Tally(), ""
    child = Child(subject.store, subject.options)

    @hypothesis.seed(seed)
    class Own(History):
        def __init__(self) -> None:
            super().__init__(subject, child, place, tally)

    settings = hypothesis.settings(
        max_examples=HISTORIES[short],
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        phases=(Phase.generate,),  # failures that depend on the moment of a kill cannot be shrunk
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Own, settings=settings)
    except Exception as error:  # failures of the store or of the harness go into the row
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        failure = f"{type(first).__name__}: {first}".splitlines()[0]
        print(subject, failure, *tally.last[-STEPS:], sep="\n    ", file=sys.stderr)
    return Row(
        "stateful",
        str(subject),
        faults=tally.kills + tally.reopens,
        inputs=tally.steps,
        crashes=int(bool(failure)),
        note=_note(subject, tally, failure),
    )


def _apart(label: str, options: dict[str, str], form: Form, shims: Path) -> Row:
    """Test a store in a new process. Bindings, which load no shim, and shims in Rust have no
    sanitizer."""
    with (
        tempfile.TemporaryDirectory(dir=memory(form.place, 0)) as place,  # where syncs take no time
        tempfile.TemporaryDirectory(dir=form.place) as logs,
    ):
        task = json.dumps([label, options, form.short, form.seed, place])
        built = (shims / f"{label}.so").exists()
        environment = sanitized_environment(shims, Path(logs)) if built else None
        done = run([sys.executable, __file__, task], environment)
        found = reports(Path(logs))
    print(done.stderr, end="", file=sys.stderr)
    if done.returncode != 0:
        why = "; ".join([*found, f"exit status {done.returncode}", *done.stderr.splitlines()[-1:]])
        return Row("stateful", label, crashes=1, note=why)
    row = Row(**json.loads(done.stdout.splitlines()[-1]))
    if found:
        note = "; ".join([*found, row.note])
        row = Row("stateful", row.what, row.faults, row.inputs, crashes=len(found), note=note)
    return row


def rows(form: Form) -> Iterator[Row]:
    """Yield a row for each available store that keeps what is written; in the short form, only for
    those in C."""
    shims = sanitized_shims()
    for label, store in catalogue.known().items():
        wanted = label != UNSANITIZED and (not form.only or label in form.only)
        wanted = wanted and not (form.short and store.binding)
        if wanted and store.available and "forgets" not in store.capabilities:
            for options in variants(store)[: 1 if form.short else None]:
                yield _apart(label, options, form, shims)


if __name__ == "__main__":
    label, options, short, seed, place = json.loads(sys.argv[1])
    known = catalogue.known()
    subject = Subject.of(known[label], options, known[known[label].name])
    print(json.dumps(asdict(_tried(subject, short, seed, Path(place)))))
