"""What stores do when a system call fails: at the nth call of a kind, for each n.

Each run starts from a copy of a closed store, and is one program of attempt.py with one fault. It
ends with one outcome, the first of this list that applies:

- wrong values: a record holds a value that was never written to its key, or a key exists that was
  never written; in the open store, or after opening it again.
- does not open: without faults, opening the store again is refused, crashes or hangs.
- acknowledged but lost: an acknowledged write, or one of the base, is not there, and no call of the
  program failed. "Not there" means in the open store, or after opening it again: the record is
  missing, holds an older value, or cannot be read. Errors of reads in the open store are no loss.
- reported and lost: the same, after at least one call of the program failed.
- hang: the program did not end in time, and all acknowledged writes are there.
- crash: a signal ended the program, or it ended by itself; all acknowledged writes are there.
- reported and intact: a call of the program failed; all acknowledged writes are there. What a
  failed call wrote may be there or not.
- unnoticed: a system call failed, no call of the program did, and all writes are there.
- not hit: the program made no nth call.

Calls are counted in one of three phases: while the store opens; from then on until it is closed;
or, by a program that also compacts, from that moment on. Compaction makes some engines rewrite
what an earlier fault damaged, so the first two programs do not compact.

No power is cut: what reached the operating system stays there. So an acknowledged write must
be there at every level that survives the end of the process, whether it was synced or not.
"""

import functools
import itertools
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT
from kvbench.common.messages import one_line
from kvbench.durability.evidence import STORE, copy_of
from kvbench.durability.kept import Rows
from kvbench.faults import attempt
from kvbench.faults.apart import HANGS
from kvbench.faults.attempt import LOST, UNREAD, WRONG, Expected, Plan, Session, Told
from kvbench.faults.injection import (
    CALLS,
    COMPACTING,
    ERRORS,
    ON,
    ONCE,
    PHASES,
    WRITING,
    Fault,
    Injection,
)
from kvbench.faults.left import Left, Value, look
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore

WRONG_VALUES, CLOSED = "wrong values", "does not open"
SILENT, KNOWN_LOSS = "acknowledged but lost", "reported and lost"
HANG, CRASH, INTACT = "hang", "crash", "reported and intact"
UNNOTICED, NOT_HIT = "unnoticed", "not hit"
OUTCOMES = (
    WRONG_VALUES, CLOSED, SILENT, KNOWN_LOSS, HANG, CRASH, INTACT, UNNOTICED, NOT_HIT
)  # fmt: skip
LEVELS = ("process", "sync")  # tested by default
GROWTH = (1.2, 1.5)  # the next n of the sample, as a factor
LIMIT = 20.0  # seconds until a program counts as hanging
MOST_HANGS = 2  # hangs after which no larger n is tried


def tidy(text: str) -> str:
    """A text without the path of the store's folder, which differs from run to run."""
    return re.sub(rf"/\S*/{STORE}/", "", text)


class Run(NamedTuple):
    """One fault and what followed. `calls` counts those of the kind, as far as they were made."""

    outcome: str
    hits: int
    calls: int
    told: Told
    left: Left
    wrong: dict[str, str]  # what is wrong with the records, in words, by place
    struck: str = ""  # the first call that failed, and its file

    def text(self, planned: Plan) -> str:
        """A line for each thing that the program was told, or that is wrong."""
        told, left = self.told, self.left
        lines = [f"outcome: {self.outcome} ({self.hits} of {self.calls} calls failed)"]
        lines += [f"first of them: {self.struck}"] * bool(self.struck)
        lines += [f"opening: {told.refused}"] * bool(told.refused)
        lines += [_times(planned, list(run), error) for error, run in _runs(told.errors)]
        lines += [f"program: {told.ended}"] * bool(told.ended)
        lines += [f"closing: {told.closing}"] * bool(told.closing)
        lines += [f"{place}: {text}" for place, text in self.wrong.items()]
        lines += [f"opened again: {left.ended} {left.refused}"] * bool(left.ended or left.refused)
        lines += [f"printed when opened again: {left.said}"] * bool(left.said)
        return "\n".join(one_line(tidy(line)) for line in lines)

    def brief(self, planned: Plan) -> str:
        """The first and the last of these things."""
        lines = self._replace(struck="").text(planned).splitlines()[1:]
        reports = lines[:1] if self.told.reported or self.told.ended else []
        ends = lines[-1:] if self.wrong or self.left.ended or self.left.refused else []
        return "; ".join(dict.fromkeys(reports + ends))


class Subject(NamedTuple):
    """A store at a level, which may be DEFAULT, and the seed of its plan."""

    store: KnownStore
    level: str
    seed: int

    def __str__(self) -> str:
        return f"{self.store.full_name} {self.level}"

    @property
    def about(self) -> dict[str, str]:
        """The first columns of each table."""
        names = {"store": self.store.full_name, "engine_version": self.store.version}
        return names | {"durability": self.level}

    @property
    def options(self) -> dict[str, str]:
        return {} if self.level == DEFAULT else {"durability": self.level}

    @property
    def plan(self) -> Plan:
        return self.plan_of(WRITING)

    def plan_of(self, phase: str) -> Plan:
        """The plan of the program for faults in a phase."""
        return attempt.plan(self.store, self.seed, phase == COMPACTING)

    @property
    def tears(self) -> bool:
        shim = catalogue.known().get(self.store.name, self.store)
        return shim.tears and self.level != "atomic"


class Step(NamedTuple):
    """A row of the table: all n of a fault."""

    subject: Subject
    call: str
    error: str
    repeat: str
    phase: str

    def at(self, n: int) -> Fault:
        return Fault(self.call, self.error, n, self.repeat, self.phase)

    def __str__(self) -> str:
        return " ".join(map(str, self))


def steps(subjects: Sequence[Subject]) -> list[Step]:
    """The rows of the table."""
    return [
        Step(subject, call, error, repeat, phase)
        for subject in subjects
        for call in CALLS
        for error in ERRORS
        for repeat in (ONCE, ON)
        for phase in PHASES
        if phase != COMPACTING or "compact" in subject.store.capabilities
    ]


def base(subject: Subject, place: Path) -> Path:
    """A closed store with the base of the plan, made once. Raises StoreError."""
    name = f"base-{subject.store.full_name.replace('/', '-')}-{subject.level}-{subject.seed}"
    if (place / name).exists():
        return place / name
    with tempfile.TemporaryDirectory(dir=place) as made:
        folder = Path(made) / STORE
        folder.mkdir()
        if failed := attempt.make_base(subject.store, folder, subject.plan, subject.options):
            raise StoreError(f"{subject}: not loaded: {failed}")
        try:
            folder.rename(place / name)
        except OSError:  # another process was faster
            if not (place / name).exists():
                raise
    return place / name


def straight(session: Session) -> tuple[Value, ...]:
    """The program: all operations, then all reads."""
    session.run(range(len(session.planned.operations)))
    return session.read()


def fail(subject: Subject, fault: Fault, place: Path) -> Run:
    """Run the program with a fault, and see what is left."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve() / STORE
        copy_of(base(subject, place), folder)
        injection, planned = Injection(fault, folder), subject.plan_of(fault.phase)

        def program(session: Session) -> tuple[Value, ...]:
            injection.enter(WRITING)
            return session.run_all(functools.partial(injection.enter, COMPACTING))

        try:
            told = attempt.attempt(
                subject.store, folder, planned, subject.options, program, injection, LIMIT
            )
        finally:
            injection.close()
        run = judged(
            subject, planned, told, again(subject, folder), injection.hits, injection.calls
        )
        return run._replace(struck=injection.struck)


def again(subject: Subject, folder: Path) -> Left:
    """Open the store again, without faults, and read all records."""
    ordered = "scan" in subject.store.capabilities
    return look(subject.store, folder, subject.plan.keys, subject.options, scan=ordered)


def judged(subject: Subject, planned: Plan, told: Told, left: Left, hits: int, calls: int) -> Run:
    """A run with its outcome."""
    expected = Expected(planned, told.states, subject.tears)
    kinds: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    if expected.contradictions:
        kinds[LOST] += len(expected.contradictions)
        numbers = ", ".join(str(number + 1) for number in expected.contradictions[:5])
        wrong["answers that deny acknowledged writes"] = f"operations {numbers}"
    if told.seen:
        found = expected.differs(planned.keys, told.seen)
        del found[UNREAD]
        kinds += found
        wrong |= {"records in the open store": _counted(found)} if found else {}
    if left.found:
        found = expected.differs(planned.keys, left.found)
        found[WRONG] += left.extra
        found[UNREAD] += bool(left.after)
        found = +found
        kinds += found
        wrong |= {"records after opening it again": _counted(found, left.after)} if found else {}
    return Run(_outcome(told, left, kinds, hits), hits, calls, told, left, wrong)


def _runs(errors: Sequence[tuple[int, str]]) -> Iterator[tuple[str, Iterator[int]]]:
    """Each error, and the numbers of the operations in a row that it met."""
    for error, run in itertools.groupby(errors, key=lambda pair: pair[1]):
        yield error, (number for number, _ in run)


def _times(planned: Plan, numbers: Sequence[int], error: str) -> str:
    first = numbers[0]
    kind = planned.operations[first].kind
    more = f" and {len(numbers) - 1} more until {numbers[-1] + 1}" if len(numbers) > 1 else ""
    return f"operation {first + 1}, {kind}{more}: {error}"


def _counted(found: Counter[str], more: str = "") -> str:
    return ", ".join([f"{count} {kind}" for kind, count in found.items()] + [more] * bool(more))


def _outcome(told: Told, left: Left, kinds: Counter[str], hits: int) -> str:
    if kinds[WRONG]:
        return WRONG_VALUES
    if left.ended or left.refused:
        return CLOSED
    if kinds:
        return KNOWN_LOSS if told.reported or told.ended else SILENT
    if told.ended:
        return HANG if told.ended.startswith(HANGS) else CRASH
    if told.reported:
        return INTACT
    return UNNOTICED if hits else NOT_HIT


def numbers(all_to: int, seed: str) -> Iterator[int]:
    """Each n up to `all_to`, then ever larger ones."""
    choose, n = random.Random(seed), 0
    while True:
        n = n + 1 if n < all_to else max(n + 1, int(n * choose.uniform(*GROWTH)))
        yield n


def counted(
    planned: Plan, hit: Callable[[int], Run], all_to: int, seed: str
) -> dict[str, str | int | bool]:
    """How often each outcome followed, over rising n until `hit` makes nothing fail, and the first
    n of each."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    worst, example, largest = len(OUTCOMES), "", 0
    for n in numbers(all_to, seed):
        run = hit(n)
        if run.outcome == NOT_HIT:
            break
        counts[run.outcome] += 1
        first.setdefault(run.outcome, n)
        largest = n
        if OUTCOMES.index(run.outcome) < worst:
            worst, example = OUTCOMES.index(run.outcome), run.brief(planned)
        if run.hits == 0 or counts[HANG] == MOST_HANGS:
            break
    return {
        "tried": counts.total(),
        "largest_n": largest,
        "every_n": largest == counts.total(),
        **{outcome.replace(" ", "_"): counts[outcome] for outcome in OUTCOMES[:-1]},
        "first": "; ".join(
            f"{outcome} {first[outcome]}" for outcome in OUTCOMES if outcome in first
        ),
        "example": example,
    }


def rows(step: Step, place: Path, all_to: int) -> Rows:
    """The row of a step."""
    subject, *what = step
    names = zip(Step._fields[1:], what, strict=True)
    planned = subject.plan_of(step.phase)
    outcomes = counted(planned, lambda n: fail(subject, step.at(n), place), all_to, str(step))
    return [{**subject.about, **dict(names), **outcomes}]


def show(subject: Subject, fault: Fault, place: Path) -> str:
    """One run as text."""
    return fail(subject, fault, place).text(subject.plan_of(fault.phase))
