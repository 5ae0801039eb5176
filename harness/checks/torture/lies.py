"""Injects incorrect answers, crashes and hangs into stores. Each must fail its cell, and the sweep
must continue."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builds import available
from kvbench.stores import catalogue
from sweeps import Sweep, liar_environment, scratch, traceback
from table import Form, Row

# The faults of liar.c, and the number of calls from which each chooses one. Every cell of RECORDS
# records makes at least as many calls.
RECORDS = 10_000
LIES = {
    "another-record": 900,
    "truncated": 900,
    "altered": 900,
    "right-tag": 900,
    "wrong-tag": 900,
    "older-version": 15,
    "torn": 15,
    "not-copied": 900,
    "too-long": 900,
    "missing": 900,
    "found": 240,
    "stale": 900,
    "lost": 10_000,
    "lost-insert": 900,
    "batch-cut-off": 9,
    "insert-accepted": 5900,
    "insert-accepted-each-2000": 2000,
    "insert-overwrites": 5900,
    "insert-overwrites-and-denies-it": 5900,
    "update-inserts": 240,
    "update-accepted": 240,
    "kept": 900,
    "remove-accepted": 240,
    "removes-another": 900,
    "loses-one-on-closing": 1,
    "kept-in-process": 1,
    "kept-elsewhere": 1,
    "forgets": 1,
}
SCAN_LIES = {
    "scan-skips": 9000,
    "scan-repeats": 9000,
    "scan-alters": 9000,
    "scan-ends": 9000,
    "scan-adds-first": 1,
    "scan-adds-last": 1,
}
# The same for a workload that removes every record.
REMOVING = ["fillrandom, deleterandom"]
REMOVAL_LIES = {"kept": RECORDS, "remove-accepted": 1000}

# The ways to break (a crash, a hang, a forged answer, an undefined status), and what the reason
# must state. The sweep's time limit ends some of them.
LIMIT = 15  # seconds
NO_ANSWER = re.compile("took longer|without an answer|no valid answer")
WAYS = {
    "segmentation-fault": "signal SIGSEGV",
    "abort": "signal SIGABRT",
    "illegal-instruction": "signal SIG(ILL|TRAP)",
    "stack-overflow": "signal SIGSEGV",
    "killed": "signal SIGKILL",
    "exit-0": "without an answer: exit status 0",
    "exit-1": "without an answer: exit status 1",
    "garbage": "without an answer: exit status 0",
    "forged": "no valid answer",
    "forged-text": r"^\\ud800$",
    "forged-number": "no valid answer: BadInput: disk_bytes: -5",
    "a-number": "no valid answer",
    "nested": "without an answer: exit status 0",
    "real-time-signal": "signal 40",
    "stopped": f"took longer than {LIMIT} s",
    "hang": f"took longer than {LIMIT} s",
    "spin": f"took longer than {LIMIT} s",
    "child": "without an answer: exit status 0",
    "daemon": "without an answer: exit status 0",
    "no-reason": "get",
    "no-text": "get",
    "status-77": "undefined status 77",
    "status--1": "undefined status -1",
}
FUNCTIONS = ("open", "write_batch", "get", "insert", "update", "remove", "scan", "close")


def _judge(
    place: Path, honest: str, liars: Sequence[str], records: int, *limit: str, **keys: Any
) -> tuple[list[str], list[str], dict[str, str]]:
    """Sweep over the faulty stores and an honest one. Returns the faulty stores whose cells passed,
    a line for each other failure, and the reason of each cell by store."""
    with scratch(place, "lies") as folder:
        control = "liar-honest-0"
        env = liar_environment(folder, honest, [*liars, control])
        sweep = Sweep(folder, env, stores=[*liars, control], records=[records], **keys)
        done = sweep.run(*limit)
        reasons = {
            result["cell"]["store"]: "" if result["status"] == "ok" else result["reason"]
            for result in sweep.cells()
        }
        missed = [liar for liar in liars if not reasons.get(liar)]
        untold = [liar for liar in liars if not (folder / "told" / liar).exists()]
        wrong = [f"{liar}: was never told" for liar in untold]
        wrong += [f"{control}: {reasons.get(control)!r}"] if reasons.get(control) != "" else []
        wrong += [done.stderr] if traceback(done) or done.returncode != 3 else []
        wrong += sweep.leftovers()
        return missed, wrong, reasons


def lies(honest: str, seed: int, place: Path, known: Mapping[str, int], **keys: Any) -> Row:
    """Inject each fault of `known` once, at a random one of its calls. `keys` are added to the
    grid."""
    choose = random.Random(f"{seed} {honest}")
    liars = [f"liar-{lie}-{choose.randint(1, calls)}" for lie, calls in known.items()]
    missed, wrong, reasons = _judge(place, honest, liars, RECORDS, **keys)
    # A cell that fails for another reason does not show that the harness noticed the fault.
    wrong += [f"{liar}: {why}" for liar, why in reasons.items() if NO_ANSWER.search(why)]
    note = "; ".join([f"missed: {', '.join(missed)}"] * bool(missed) + wrong)
    what = f"one call of {honest}" + ", where all records are removed" * bool(keys)
    return Row(
        "lie", what, faults=len(liars), answers_missed=len(missed), crashes=len(wrong), note=note
    )


def breaks(honest: str, ways: Sequence[str], functions: Sequence[str], place: Path) -> Row:
    """Inject each of `ways` into a get, and a segmentation fault into each of `functions`."""
    liars = {f"liar-{way}-at-get-17": WAYS[way] for way in ways}
    liars |= {f"liar-segmentation-fault-at-{name}-1": "signal SIGSEGV" for name in functions}
    limit = ("--time-limit", str(LIMIT))
    missed, wrong, reasons = _judge(place, honest, list(liars), RECORDS // 10, *limit)
    unsaid = [
        f"{liar}: {reasons.get(liar)!r}"
        for liar, words in liars.items()
        if not re.search(words, reasons.get(liar, ""))
    ]
    note = "; ".join([*(f"no failure: {liar}" for liar in missed), *unsaid, *wrong])
    return Row(
        "crash or hang", f"inside of {honest}", faults=len(liars), cells_lost=len(missed),
        crashes=len(unsaid) + len(wrong), note=note,
    )  # fmt: skip


def rows(form: Form) -> Iterator[Row]:
    seed, place, known = form.seed, form.place, catalogue.known()
    honest = sorted(available(True), key="lmdb".__ne__)  # LMDB first: the short form tries one
    for name in honest[: 1 if form.short else None]:
        scans = "scan" in known[name].capabilities
        yield lies(name, seed, place, LIES | SCAN_LIES if scans else LIES)
        yield lies(name, seed, place, REMOVAL_LIES, workloads=REMOVING)
    ways = [way for way in WAYS if not form.short or "longer" not in WAYS[way] or way == "hang"]
    for name in honest[: 1 if form.short else 2]:
        scans = "scan" in known[name].capabilities
        functions = [function for function in FUNCTIONS if scans or function != "scan"]
        yield breaks(name, ways, functions, place)
