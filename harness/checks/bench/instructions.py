"""Counts the instructions per operation under callgrind, which other load on the machine does not
affect: in the harness, in the bare loop and in third-party benchmarks.

Only the thread that runs the loop is counted, in our code and in the engine's; a call into the
kernel counts as one instruction. In third-party benchmarks all threads are counted. Two runs, one
with more operations, differ by what the operations take, so set-up cancels out.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kvbench.cell.library import shims_folder
from kvbench.common.messages import BadInput
from kvbench.stores import catalogue
from loops import DURABILITY, ENGINES, VALUE, packaged
from measures import Line, Rounds, Scale
from peers import BENCHMARKS, command, run_program, title

STEPS = ("fill", "insert", "get", "update", "remove")  # of count.c
# Parts that are counted separately: the functions of records.h and bare.h that make and check
# values; and malloc, whose work for the same calls depends on the rest of the heap.
PARTS = {
    "values": ("records_value", "records_is_value", "records_size", "make_value"),
    "memory": ("malloc", "calloc", "realloc", "free"),
}
WHOLE = "whole"
MOST = 200  # instructions by which the harness may exceed the bare loop, without PARTS
REPEATS = 2  # which differ by less than 0.5 %
INSTALL = "apt-get install --yes --no-install-recommends valgrind"
CALLGRIND = ("valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no")
FUNCTION = re.compile(r"^fn=([^.'@\n]*)|^cfn=([^.'@\n]*).*\ncalls=.*\n\d+ (\d+)", re.MULTILINE)

Counts = dict[str, float]  # instructions, by WHOLE and by each of PARTS


def read_profile(text: str) -> tuple[str, Counts]:
    """The trigger of a profile by callgrind, and its counts. A part includes all work in calls of
    its functions from other functions. Raises BadInput if the text is not a profile."""
    trigger = re.search(r"^desc: Trigger: (?:Client Request: )?(.*)", text, re.MULTILINE)
    total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
    if not trigger or not total:
        raise BadInput(f"callgrind: no totals in its profile: {text[-300:]}")
    counts, caller = {WHOLE: float(total[1]), **dict.fromkeys(PARTS, 0.0)}, ""
    for own, called, cost in (match.groups() for match in FUNCTION.finditer(text)):
        caller = own or caller
        for part, names in PARTS.items():
            if called in names and caller not in names:
                counts[part] += int(cost)
    return trigger[1], counts


def _callgrind(
    place: Path, make: Callable[[Path], Sequence[str]], *options: str
) -> dict[str, Counts]:
    """Run the command that `make` returns for a new folder, in that folder. Returns the counts by
    trigger."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        stores = Path(name) / "stores"
        stores.mkdir()
        counted = [*CALLGRIND, f"--callgrind-out-file={name}/profile", *options, *make(stores)]
        run_program(counted, str(stores))
        return dict(read_profile(path.read_text()) for path in Path(name).glob("profile*"))


class Counter:
    """Counts the steps of count.c, which is in `libraries` with the bare loops."""

    def __init__(self, libraries: Path, records: int, place: Path) -> None:
        self.libraries, self.records, self.place = libraries, records, place

    def harness(self, store: str, steps: Sequence[str] = STEPS) -> dict[str, Counts]:
        """Counts of the harness on a store, which is given by its name or the path of its shim."""
        return self._count(shims_folder() / "libloop.so", store, steps)

    def bare_loop(self, engine: str, steps: Sequence[str] = STEPS) -> dict[str, Counts]:
        return self._count(self.libraries / f"{engine}.so", "null", steps)

    def _count(self, loop: Path, store: str, steps: Sequence[str]) -> dict[str, Counts]:
        shim = Path(store) if store.endswith(".so") else shims_folder() / f"{store}.so"
        level = "-" if shim.stem == "null" else DURABILITY["durability"]
        program, count = str(self.libraries / "count"), str(self.records)
        found = _callgrind(
            self.place,
            lambda folder: [program, str(loop), str(shim), level, str(folder), count, *steps],
            "--collect-atstart=no",
        )
        return {step: _scaled(found[step], 1 / self.records) for step in steps}


def _scaled(counts: Counts, factor: float) -> Counts:
    return {part: factor * value for part, value in counts.items()}


def why_not(libraries: Path) -> str:
    """The reason why nothing can be counted here; empty if it can."""
    if shutil.which("valgrind") is None:
        return f"valgrind is missing: {INSTALL}"
    if not (libraries / "count").exists():
        return f"valgrind/callgrind.h is missing, and so is count: {INSTALL}; make bare-loops"
    return ""


def instructions(
    scale: Scale, programs: Sequence[tuple[str, str]], libraries: Path, place: Path
) -> dict[str, Rounds]:
    """Yield the instructions per operation for each engine and peer; or one line with the reason if
    none can be counted."""
    if reason := why_not(libraries):
        return {"instructions": iter([{_line("not counted", note=reason): float("nan")}])}
    known, counter = catalogue.known(), Counter(libraries, scale.counted, place)
    found = {"null": null(counter)}
    for engine in ENGINES:
        store = packaged(engine)
        if (libraries / f"{engine}.so").exists() and known[store].available:
            found[engine] = beside_bare_loop(counter, engine, store)
    for engine, program in programs:
        found[f"{engine}, {program}"] = beside_peer(counter, engine, program)
    return {f"instructions, {name}": rounds for name, rounds in found.items()}


def _line(measure: str, *, goal: bool = False, note: str = "") -> Line:
    high = {"high": MOST} if goal else {}
    return Line("instructions", measure, "instructions", note=note, sample=False, **high)


def null(counter: Counter) -> Rounds:
    """The loop of the harness on the store that does nothing, and the part that values take."""
    for _ in range(REPEATS):
        yield {
            _line(f"null: {step}, {side}"): counts[part]
            for step, counts in counter.harness("null").items()
            for side, part in (("harness", WHOLE), ("values", "values"))
        }


def beside_bare_loop(counter: Counter, engine: str, store: str) -> Rounds:
    """The harness on a store of the engine, and the engine's bare loop. Their difference is the sum
    of the parts and `overhead`, the rest."""
    note = f"{counter.records:,} records of {VALUE} B"
    for _ in range(REPEATS):
        own, bare = counter.harness(store), counter.bare_loop(engine)
        lines: dict[Line, float] = {}
        for step in STEPS:
            more = {part: own[step][part] - bare[step][part] for part in (WHOLE, *PARTS)}
            told = {"harness": own[step][WHOLE], "bare loop": bare[step][WHOLE]}
            told |= {part: more[part] for part in PARTS}
            lines |= {_line(f"{engine}: {step}, {side}", note=note): told[side] for side in told}
            rest = more[WHOLE] - sum(more[part] for part in PARTS)
            lines[_line(f"{engine}: {step}, overhead", goal=True, note=note)] = rest
        yield lines


def beside_peer(counter: Counter, engine: str, program: str) -> Rounds:
    """A third-party benchmark, the harness at the same work, and the engine's bare loop, if any. An
    operation's instructions are the difference between a run with `records` and one with twice as
    many, so that set-up cancels out."""
    benchmarks, note = BENCHMARKS[title(program)], Path(program).name
    double = Counter(counter.libraries, 2 * counter.records, counter.place)
    bare = (counter.libraries / f"{engine}.so").exists()

    def told(names: Sequence[str]) -> float:
        """Of all these benchmarks together."""
        once, twice = (run(names, of) for of in (counter, double))
        return (twice - once) / counter.records

    def run(names: Sequence[str], of: Counter) -> float:
        by_peer = command(program, engine, names, of.records)
        found = _callgrind(of.place, lambda _: by_peer)
        return max(counts[WHOLE] for counts in found.values())

    def ours(method: Callable[..., dict[str, Counts]], store: str, names: Sequence[str]) -> float:
        """The same for the last benchmark, by the harness or the bare loop."""
        once, twice = (method(of, store, names)[names[-1]][WHOLE] for of in (counter, double))
        return 2 * twice - once

    for _ in range(REPEATS):
        lines: dict[Line, float] = {}
        together = {}
        for name, first in benchmarks.items():
            names = [first, name] if first else [name]
            together[name] = told(names)
            sides = {"peer": together[name] - together.get(first, 0)}
            sides["harness"] = ours(Counter.harness, packaged(engine), names)
            if bare:
                sides["bare loop"] = ours(Counter.bare_loop, engine, names)
            what = f"{engine}: {name} of {title(program)}"
            lines |= {_line(f"{what}, {side}", note=note): value for side, value in sides.items()}
        yield lines
