"""What an application may need of a store besides speed. Each need is a fact that was measured, or
has a source; `kvbench advise --needs` and the explorer leave out the stores that lack it."""

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from kvbench.answers.recovery import Recovery
from kvbench.cell.factors import format_bytes
from kvbench.common.files import read_whole
from kvbench.common.messages import BadInput, listed
from kvbench.stores import catalogue
from kvbench.stores.about import READ_ON, About, about, has_c_interface
from kvbench.stores.known import KnownStore

# Beside the folder of results.
SHARING, ROT, OPENINGS = "durability/sharing.csv", "faults/rot.csv", "age/openings.csv"
INSTALLED = "builds/installed.csv"
MOST_BYTES = 1 << 20
MIX = {"insert": 0.05, "get": 0.9, "update": 0.05}  # of an application that states none
YEARS = 2  # since the last release of an engine that is maintained
RELEASED = re.compile(r"\b(20\d\d)(?:-(\d\d)-(\d\d))?\b")
DISTRIBUTION = "Debian 12"
FOLDERS = ("flat", "nested")  # have no engine that could be released, or abandoned
OPENED, SOON = 100_000, 100.0  # records of 1 KiB, and the ms in which a store of them opens soon
SMALL = 2 << 20  # bytes of an engine with its libraries
SHIPPED = "default"  # of an engine's own checks
OPENING = ("store", "durability", "crash")  # what tells openings apart
SHARED = ("reads", "sees_new", "writes", "intact")  # what a second process can do, or not
UNKNOWN = "not known, since there are no facts about it"
NOT_ASKED = "not among the stores asked for"


@dataclass(frozen=True)
class Observed:
    """The tables beside a folder of results that say what stores do: `states` of crashes, `sharing`
    between processes, damaged files (`rot`), `openings`, and the size of engines, `installed`. Each
    is read when it is first needed. Raises BadInput if that fails, or if there is no such table."""

    folder: Path

    @cached_property
    def states(self) -> Recovery:
        if (found := Recovery.beside(self.folder)) is None:
            raise BadInput(f"--needs: {self._lacking('faults/states.csv', 'crash --explore')}")
        return found

    @cached_property
    def sharing(self) -> Mapping[str, Mapping[str, str]]:
        """By store, whether a second process opens it, reads, sees what is new and writes."""
        rows = self._read(SHARING, "sharing", (), ("store", "opens", *SHARED))
        return {row["store"]: row for row in rows}

    @cached_property
    def rot(self) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """By store, what became of damaged files with the engine's checks as shipped."""
        found = defaultdict(list)
        for row in self._read(ROT, "rot", ("wrong", "damages"), ("store", "checks")):
            if row["checks"] == SHIPPED:
                found[row["store"]].append(row)
        return found

    @cached_property
    def openings(self) -> Mapping[str, float]:
        """By store, the ms in which a store of OPENED records opens: the greatest, over durability
        levels and over kills, losses of power and clean closes, of the medians; infinite if one
        did not open."""
        found = defaultdict(list)
        for row in self._read(OPENINGS, "crash", ("records",), OPENING, ("open_ms",)):
            if row["records"] == OPENED:
                found[tuple(row[name] for name in OPENING)].append(row["open_ms"])
        most: dict[str, float] = defaultdict(float)
        for (store, *_), times in found.items():
            most[store] = max(most[store], statistics.median(times))
        return most

    @cached_property
    def installed(self) -> Mapping[str, int]:
        """By store, the bytes of its engine and of the libraries that this loads."""
        rows = self._read(INSTALLED, "installed", ("bytes",), ("store",))
        return {row["store"]: row["bytes"] for row in rows}

    def _lacking(self, table: str, command: str) -> str:
        return f"there is no {self.folder.parent / table}; `kvbench {command}` makes it"

    def _read(
        self,
        table: str,
        command: str,
        numbers: Sequence[str],
        texts: Sequence[str],
        times: Sequence[str] = (),
    ) -> list[dict[str, Any]]:
        """The rows of a table, with these columns as whole numbers, these as text, and these as
        times, of which a missing one is infinite."""
        path = self.folder.parent / table
        if not path.is_file():
            raise BadInput(f"--needs: {self._lacking(table, command)}")
        try:
            rows = csv.DictReader(io.StringIO(read_whole(path, MOST_BYTES).decode()), strict=True)
            return [
                {name: int(row[name]) for name in numbers}
                | {name: _text(row[name], name) for name in texts}
                | {name: float(_text(row[name], name) or "inf") for name in times}
                for row in rows
            ]
        except KeyError as error:
            raise BadInput(f"{path}: no column {error}; write it anew, or move it away") from None
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise BadInput(f"{path}: {error!s:.150}; write it anew, or move it away") from None


def _text(found: str | None, name: str) -> str:
    if found is None:
        raise ValueError(f"a row without {name}")
    return found


class Asked(NamedTuple):
    """A store of which a need is asked, with what is known of it."""

    name: str  # in full
    level: str  # its durability level in the answer
    facts: About | None
    known: KnownStore | None
    observed: Observed

    @property
    def engine(self) -> str:
        return self.name.partition("/")[0]

    @property
    def from_python(self) -> bool:
        return "/" in self.name


class Need(NamedTuple):
    """What completes "a store that", and the function that says why a store lacks it: empty if it
    does not."""

    says: str
    lacks: Callable[[Asked], str]


def _unless(there: bool, why: str) -> str:
    return "" if there else why


def _fact(lacks: Callable[[Asked, About], str]) -> Callable[[Asked], str]:
    """A need that rests on the facts about a store."""
    return lambda asked: UNKNOWN if asked.facts is None else lacks(asked, asked.facts)


def _able(asked: Asked, capability: str, why: str) -> str:
    if asked.known is None or not asked.known.available:
        return "not known, since it is not installed here"
    return _unless(capability in asked.known.capabilities, why)


def _from_c(asked: Asked) -> str:
    return _unless(has_c_interface(asked.engine), "its library has no interface for C")


def _ordered(asked: Asked, facts: About) -> str:
    why = "its package reads in no order" if asked.from_python else "its keys have no order"
    if asked.from_python and facts.ordered:
        return _able(asked, "scan", why)
    return _unless(facts.ordered, why)


def _shared(asked: Asked) -> str:
    row = asked.observed.sharing.get(asked.engine)
    if row is None:
        return "not tried with two processes"
    if row["opens"] != "yes":
        how = "waits for the first" if row["opens"] == "waits" else "is refused"
        return f"a second process {how}"
    fails = [name for name in SHARED if row[name] != "yes"]
    return _unless(not fails, "two processes lose records or do not see them")


def _free(_: Asked, facts: About) -> str:
    if "not found" in facts.licence:
        return f"not known: its licence is {facts.licence}"
    return _unless(not facts.copyleft, f"its licence is {facts.licence}")


def _maintained(asked: Asked, facts: About) -> str:
    if asked.engine in FOLDERS:
        return ""
    if facts.maintained_by.startswith("nobody"):
        return f"maintained by {facts.maintained_by}"
    dates = [match.groups(default="12") for match in RELEASED.finditer(facts.latest)]
    if not dates:
        return f"the date of its latest release ({facts.latest or 'not found'}) is not known"
    year, *rest = READ_ON.split("-")
    old = max(dates) < (str(int(year) - YEARS), *rest)
    return _unless(not old, f"its latest release is {facts.latest}")


def _on(system: str, name: str) -> Need:
    def lacks(_: Asked, facts: About) -> str:
        return _unless(system in facts.systems, f"not known to run on {name}")

    return Need(f"runs on {name}", _fact(lacks))


def _backup(asked: Asked) -> str:
    if asked.from_python:
        return "not tested from Python"
    return _able(asked, "backup", "it has no call for that")


def _together(asked: Asked, facts: About) -> str:
    why = "a crash may leave some of several records that are written together"
    if asked.from_python and facts.transactions:
        return _able(asked, "batch", "its package writes one record at a time")
    return _unless(facts.transactions, why)


def _one_file(asked: Asked, facts: About) -> str:
    if asked.from_python:
        return "not tested from Python"
    return _unless(facts.one_file, "a closed store is several files")


def _comes_back(asked: Asked) -> str:
    return asked.observed.states.refuses(asked.name, asked.level)


def _reports(asked: Asked) -> str:
    if asked.engine in FOLDERS:
        return "plain files have no checks"
    rows = asked.observed.rot.get(asked.name)
    if not rows:
        return "not tested with damaged files"
    wrong, damages = (sum(row[name] for row in rows) for name in ("wrong", "damages"))
    return _unless(not wrong, f"returned a wrong value after {wrong:,} of {damages:,} damages")


def _opens(asked: Asked) -> str:
    found = asked.observed.openings.get(asked.name)
    if found is None:
        return "not tried with so many records"
    return _unless(found < SOON, f"took {found:.3g} ms")


def _small(asked: Asked) -> str:
    if asked.from_python:
        return "not measured from Python"
    if asked.engine in FOLDERS:
        return ""
    found = asked.observed.installed.get(asked.name)
    if found is None:
        return "the size of its engine was not measured"
    return _unless(found <= SMALL, f"its engine takes {found / 2**20:.1f} MiB with its libraries")


def _packaged(asked: Asked, facts: About) -> str:
    if asked.from_python:
        return "not tested from Python"
    there = asked.engine in FOLDERS or bool(facts.build.library)
    return _unless(there, f"{DISTRIBUTION} has no package of it")


NEEDS = {  # each says what completes "a store that"
    "c-interface": Need("programs in C can call", _from_c),
    "ordered": Need("reads records in the order of their keys", _fact(_ordered)),
    "processes": Need("two processes can read and write at once", _shared),
    "transactions": Need("writes several records together or not at all", _fact(_together)),
    "comes-back": Need("came back from each simulated loss of power", _comes_back),
    "reports-rot": Need("never returned a wrong value from a damaged file", _reports),
    "backup": Need("copies itself while it is open", _backup),
    "one-file": Need("is one file once it is closed", _fact(_one_file)),
    "opens-soon": Need(f"opens {OPENED:,} records of 1 KiB in {SOON / 1000:g} s", _opens),
    "small": Need(f"adds up to {format_bytes(SMALL)} to a program", _small),
    "packaged": Need(f"{DISTRIBUTION} packages", _fact(_packaged)),
    "no-copyleft": Need("does not ask for your program's source", _fact(_free)),
    "maintained": Need(f"was released in the last {YEARS} years", _fact(_maintained)),
    "linux": _on("linux", "Linux"),
    "macos": _on("macos", "macOS"),
    "windows": _on("windows", "Windows"),
}


@dataclass(frozen=True)
class Needs:
    """What an answer asks of a store: the names of needs, the bytes of the largest value and the
    largest key that it must hold, the bytes of memory that its process may take, and the names of
    the engines to compare, or none for all."""

    names: tuple[str, ...] = ()
    observed: Observed = field(default_factory=lambda: Observed(Path()))
    value: int = 0
    key: int = 0
    memory: int = 0
    stores: tuple[str, ...] = ()

    def exceeds(self, taken: float | None) -> str:
        """The reason why a store does not meet them that takes so many bytes of memory in a field;
        empty if it does. None: not known."""
        if not self.memory:
            return ""
        if taken is None or math.isnan(taken):
            return "the memory that it takes was not measured"
        return _unless(taken <= self.memory, f"took {taken / 2**20:.0f} MiB of memory")

    def refuses(self, store: str, level: str) -> str:
        """The first reason why a store, by its full name, does not meet the needs at a durability
        level; empty if it does. Raises BadInput if a table of observations is missing."""
        if self.stores and store.partition("/")[0] not in self.stores:
            return NOT_ASKED
        if not (self.names or self.value or self.key):  # a store need not be installed
            return ""
        known = catalogue.known().get(store)
        asked = Asked(store, level, about(store.partition("/")[0]), known, self.observed)
        for what, size in (("value", self.value), ("key", self.key)):
            if size and (why := _too_small(known, what, size)):
                return why
        for name in self.names:
            if why := NEEDS[name].lacks(asked):
                return why
        return ""


def _too_small(known: KnownStore | None, what: str, size: int) -> str:
    if known is None or not known.available:
        return "not known, since it is not installed here"
    most = known.max_value if what == "value" else known.max_key
    return _unless(size <= most, f"its largest {what} is {format_bytes(most)}")


def read(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of needs in texts such as "ordered,processes", each once. Raises BadInput."""
    found = [name.strip() for text in texts for name in text.split(",")]
    for name in found:
        if name not in NEEDS:
            raise BadInput(f"--needs: {name!r:.60} is unknown; allowed: {listed(NEEDS, name)}")
    return tuple(dict.fromkeys(found))
