"""A line of the table, and how its values are measured: in fresh processes, in rounds."""

import dataclasses
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from kvbench import BadInput
from kvbench.sweep import ENVIRONMENT

ROOT = Path(__file__).parents[3]
CONFIDENCE = 0.95  # of the interval of a median, at least, given six values or more

Values = Sequence[float]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much is measured. The defaults are the paper's."""

    pairs: int = 9
    records: int = 100_000
    files: int = 10_000  # records of the flat folder
    peer_records: int = 200_000
    clock_pairs: int = 1_000_000
    many_operations: int = 100_000_000
    cell_files: int = 50_000
    repeats: int = 3  # of what takes long


@dataclasses.dataclass(frozen=True)
class Measure:
    """One line of the table. `low` and `high` limit what is allowed."""

    group: str
    name: str
    unit: str
    values: Values
    low: float = -math.inf
    high: float = math.inf
    note: str = ""

    def row(self) -> dict[str, Any]:
        least, greatest = interval(self.values)
        goal = {
            (True, True): "",
            (True, False): f"at most {self.high:.4g}",
            (False, True): f"at least {self.low:.4g}",
            (False, False): f"{self.low:.4g} to {self.high:.4g}",
        }[self.low == -math.inf, self.high == math.inf]
        outside = greatest < self.low or least > self.high
        return {
            "group": self.group,
            "measure": self.name,
            "unit": self.unit,
            "value": float(np.median(self.values)),
            "low": least,
            "high": greatest,
            "n": len(self.values),
            "goal": goal,
            "met": "" if not goal else "missed" if outside else "met",
            "note": self.note,
        }


def interval(values: Values) -> tuple[float, float]:
    """The interval of the median: the narrowest pair of order statistics that holds it with
    CONFIDENCE, or the least and the greatest value if there are too few for that."""
    n, order = len(values), sorted(values)
    beyond, tail = 0, 0.0
    while 2 * (tail + math.comb(n, beyond) / 2**n) <= 1 - CONFIDENCE:
        tail += math.comb(n, beyond) / 2**n
        beyond += 1
    k = max(beyond - 1, 0)
    return order[k], order[n - 1 - k]


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise BadInput(f"{function.__name__}{arguments}: its process died") from None


def interleaved(
    rounds: int, **runs: Callable[[int], dict[str, float]]
) -> dict[str, list[dict[str, float]]]:
    """Returns what each run returned, round by round; each round begins with another run. A run
    is given the round's number, for its seed."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    names = list(runs)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            found[name].append(runs[name](i))
    return found


def quotients(
    ones: Sequence[dict[str, float]], others: Sequence[dict[str, float]], name: str
) -> list[float]:
    return [one[name] / other[name] for one, other in zip(ones, others, strict=True)]


class Timer:
    """Measures the seconds that a block takes by the wall clock."""

    def __enter__(self) -> "Timer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start


def in_folder(place: Path, run: Callable[..., Any], *arguments: Any) -> Any:
    """Runs it in a fresh process, in a folder of its own that is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return in_fresh_process(run, *arguments, folder)
