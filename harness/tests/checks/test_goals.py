"""Noise neither meets nor misses a goal of `make bench`."""

import itertools
import math
import random
import sys
from collections.abc import Callable

import pytest
from support import ROOT

BENCH = ROOT / "harness/checks/bench"
sys.path.insert(0, str(BENCH))
from measures import (  # noqa: E402 - not part of the package
    LOOKS,
    Line,
    Rounds,
    Series,
    interleaved,
    run_rounds,
)

GOAL = Line("bare loop", "get", low=0.97)
BAND = Line("peer", "get", low=0.95, high=1.05)


def draw(line: Line, value: Callable[[], float]) -> Rounds:
    while True:
        yield {line: value()}


def decide(line: Line, value: Callable[[], float], looks: tuple[int, ...] = LOOKS) -> str:
    series = Series("simulated", draw(line, value), looks)
    for _ in run_rounds([series]):
        pass
    (row,) = series.rows()
    return str(row["met"])


NOISE = {
    "symmetric": lambda noise: noise.lognormvariate(0, 0.05),
    "skewed": lambda noise: 1 + noise.expovariate(20) - math.log(2) / 20,
    "with outliers": lambda noise: noise.choice([noise.gauss(1, 0.01), noise.gauss(1, 0.5)]),
}


@pytest.mark.check
@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize(("line", "edge"), [(GOAL, 0.97), (BAND, 0.95), (BAND, 1.05)])
def test_a_ratio_on_the_edge_is_decided_in_at_most_five_of_a_hundred(
    line: Line, edge: float, kind: str
) -> None:
    """Neither decision is right there. A decision from the first look on would err more often."""
    noise = random.Random(1)
    found = [decide(line, lambda: edge * NOISE[kind](noise)) for _ in range(1000)]
    assert found.count("open") >= 950


@pytest.mark.parametrize(("ratio", "expected"), [(0.9, "missed"), (0.96, "missed"), (0.98, "met")])
def test_enough_rounds_decide_a_ratio_off_the_edge(ratio: float, expected: str) -> None:
    noise = random.Random(1)
    found = [decide(GOAL, lambda: ratio * noise.lognormvariate(0, 0.02)) for _ in range(200)]
    assert found.count(expected) >= 190


@pytest.mark.parametrize("looks", [LOOKS, LOOKS[:1]])
def test_the_intervals_of_all_looks_hold_the_median_together(looks: tuple[int, ...]) -> None:
    noise, held = random.Random(1), 0
    for _ in range(1000):
        values = [noise.lognormvariate(0, 1) for _ in range(looks[-1])]
        judged = [GOAL.judge(values[:count], len(looks)) for count in looks]
        held += all(found["low"] <= 1 <= found["high"] for found in judged)
    assert held >= 950


@pytest.mark.parametrize(
    ("values", "met"),
    [
        ([0.97] * 6, "met"),
        ([0.9] * 6, "missed"),
        ([0.96] * 6 + [0.98] * 6, "open"),
        ([0.98] * 5, "open"),
        ([0.9], "open"),
    ],
)
def test_a_goal_needs_an_interval_on_one_side_of_its_edge(values: list[float], met: str) -> None:
    assert GOAL.judge(values, looks=1)["met"] == met


@pytest.mark.parametrize(
    ("values", "met"), [([0.98], "met"), ([0.9, 0.96], "missed"), ([0.9, 0.98], "open")]
)
def test_values_that_are_no_sample_are_judged_one_and_all(values: list[float], met: str) -> None:
    census = Line("cell", "share", low=0.97, sample=False).judge(values, looks=5)
    assert (census["met"], census["interval"]) == (met, "range")
    assert (census["low"], census["high"]) == (min(values), max(values))


def test_a_decided_line_keeps_the_values_that_decided_it() -> None:
    """Its neighbour stays open, and goes on."""
    values = itertools.chain([1.0] * 9, itertools.repeat(0.5))
    edge = itertools.cycle([0.9, 1.0])
    plain = Line("peer", "by the bare loop")
    rounds = ({GOAL: value, BAND: next(edge), plain: value} for value in values)
    series = Series("both", rounds, (9, 18))
    assert len(list(run_rounds([series]))) == 18
    assert [(row["met"], row["n"]) for row in series.rows()] == [("met", 9), ("open", 18), ("", 18)]


def test_an_open_goal_stays_open_when_the_time_is_over() -> None:
    """Each series has had one round by then, whatever the time."""
    series = [Series(name, draw(GOAL, lambda: 1.0)) for name in "ab"]
    assert [one.name for one, _ in run_rounds(series, seconds=0)] == ["a", "b"]
    for one in series:
        (row,) = one.rows()
        assert (row["met"], row["interval"], row["n"]) == ("open", "too few values", 1)


def test_a_quick_run_ends_at_the_first_look() -> None:
    edge = itertools.cycle([0.9, 1.0])
    series = Series("quick", draw(GOAL, lambda: next(edge)), LOOKS[:1])
    assert len(list(run_rounds([series]))) == 9
    assert [(row["met"], row["interval"]) for row in series.rows()] == [("open", "95 %")]


def test_all_come_to_their_first_look_before_any_goes_on() -> None:
    """Those that are decided then stop; one whose rounds end is asked no more."""
    edge = itertools.cycle([0.9, 1.0])
    series = [
        Series("decided", draw(GOAL, lambda: 1.0), (9, 18)),
        Series("open", draw(GOAL, lambda: next(edge)), (9, 18)),
        Series("short", iter([{GOAL: 1.0}]), (9, 18)),
    ]
    turns = [one.name for one, _ in run_rounds(series)]
    assert turns[-9:] == ["open"] * 9
    assert [turns.count(one.name) for one in series] == [9, 18, 2]
    assert [one.rows()[0]["met"] for one in series] == ["met", "open", "open"]


def test_sides_run_in_every_order_by_turns() -> None:
    ran: list[tuple[str, int]] = []

    def side(name: str) -> Callable[[int], dict[str, float]]:
        return lambda number: ran.append((name, number)) or {"time": 1.0}  # type: ignore[func-returns-value]

    rounds = interleaved(one=side("one"), other=side("other"))
    assert next(rounds).keys() == next(rounds).keys()
    assert ran == [("one", 0), ("other", 0), ("other", 1), ("one", 1)]
