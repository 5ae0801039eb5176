"""The lines of the table, and how their values are measured: in rounds, which are added while a
goal is undecided.

Each round gives one value to each line of its series. A goal is met when the interval of the median
lies within it, missed when the interval lies outside, and open otherwise. Goals are first judged
after LOOKS rounds, so that noise does not decide them. Repeated judging increases the chance of an
error, so that chance is divided by the number of looks: all intervals of a line hold simultaneously
with CONFIDENCE.
"""

import contextlib
import dataclasses
import itertools
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from kvbench.common.messages import BadInput
from kvbench.stats.intervals import CONFIDENCE, median_interval
from kvbench.sweep.sweep import ENVIRONMENT

ROOT = Path(__file__).parents[3]
LOOKS = (9, 18, 36, 72, 144)

Values = Sequence[float]


@dataclasses.dataclass(frozen=True)
class Scale:
    """The amount of work. The defaults are those of the paper."""

    records: int = 100_000
    files: int = 10_000  # records of the flat folder
    peer_records: int = 200_000
    counted: int = 5000  # records for counting instructions: too few for an engine to compact
    clock_pairs: int = 1_000_000
    many_operations: int = 100_000_000
    cell_files: int = 50_000
    repeats: int = 3  # repetitions of slow measurements
    least_ms: int = 250  # least time for which a cell repeats each operation


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table. The goal is a value from `low` to `high`. If the values are not a
    sample, the median has no interval, and every value must meet the goal."""

    group: str
    name: str
    unit: str = "1"
    low: float = -math.inf
    high: float = math.inf
    note: str = ""
    sample: bool = True

    @property
    def goal(self) -> str:
        return {
            (True, True): "",
            (True, False): f"at most {self.high:.4g}",
            (False, True): f"at least {self.low:.4g}",
            (False, False): f"{self.low:.4g} to {self.high:.4g}",
        }[self.low == -math.inf, self.high == math.inf]

    def judge(self, values: Values, looks: int) -> dict[str, Any]:
        """The columns that follow from the values, if these are judged at most `looks` times."""
        found = None
        with contextlib.suppress(ValueError):  # too few values
            if self.sample:
                found = median_interval(values, 1 - (1 - CONFIDENCE) / looks)
        least, greatest = (found.low, found.high) if found else (min(values), max(values))
        verdict = "open"
        if found or not self.sample:
            if self.low <= least and greatest <= self.high:
                verdict = "met"
            elif greatest < self.low or least > self.high:
                verdict = "missed"
        kind = f"{100 * CONFIDENCE:g} %" if found else "too few values" if self.sample else "range"
        return {
            "value": found.median if found else float(np.median(values)),
            "low": least,
            "high": greatest,
            "interval": kind,
            "n": len(values),
            "goal": self.goal,
            "met": verdict if self.goal else "",
        }


Round = Mapping[Line, float]
Rounds = Iterator[Round]


class Series:
    """Lines whose values come from the same rounds. The values of a line are fixed once its goal is
    decided, so that later values cannot change the verdict."""

    def __init__(self, name: str, rounds: Rounds, looks: Sequence[int] = LOOKS) -> None:
        self.name, self._rounds, self.looks = name, rounds, looks
        self.count, self.seconds, self.open = 0, 0.0, True
        self._values: dict[Line, list[float]] = {}
        self._decided: set[Line] = set()

    def run_round(self) -> float:
        """Run a round. Returns the seconds it took."""
        with Timer() as timer:
            found = next(self._rounds, None)
        self.seconds += timer.seconds
        if found is None:
            self.open = False
            return timer.seconds
        self.count += 1
        for line, value in found.items():
            if line not in self._decided:
                self._values.setdefault(line, []).append(value)
        if self.count in self.looks:
            verdicts = {line: self._judge(line)["met"] for line in found}
            self._decided |= {line for line in found if verdicts[line] in ("met", "missed")}
            self.open = self.count < self.looks[-1] and "open" in verdicts.values()
        return timer.seconds

    def _judge(self, line: Line) -> dict[str, Any]:
        return line.judge(self._values[line], len(self.looks))

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"group": line.group, "measure": line.name, "unit": line.unit}
            | self._judge(line)
            | {"note": line.note}
            for line in self._values
        ]


def run_rounds(
    series: Sequence[Series], seconds: float = math.inf
) -> Iterator[tuple[Series, float]]:
    """Run rounds until no series is open or the time is over, but at least one of each series.
    Yields each series that ran, with the seconds it took. All series reach their first look before
    any continues; otherwise the series that has used the least time is next."""
    end = time.monotonic() + seconds
    while todo := [one for one in series if one.open and (not one.count or time.monotonic() < end)]:
        one = min(todo, key=lambda one: (one.count >= one.looks[0], one.seconds))
        yield one, one.run_round()


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise BadInput(f"{function.__name__}{arguments}: its process died") from None


def interleaved(
    **runs: Callable[[int], dict[str, float]],
) -> Iterator[dict[str, dict[str, float]]]:
    """Yield what each run returned, round by round, in a changing order that covers all
    permutations. A run gets the number of the round as its seed."""
    for i, order in enumerate(itertools.cycle(itertools.permutations(runs))):
        yield {name: runs[name](i) for name in order}


class Timer:
    """Measures the wall-clock seconds of a block."""

    def __enter__(self) -> "Timer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start


def in_folder(place: Path, run: Callable[..., Any], *arguments: Any) -> Any:
    """Call `run` in a new process, with a new folder that is removed afterwards. Returns its
    result."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return in_fresh_process(run, *arguments, folder)
