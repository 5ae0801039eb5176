"""The statistics over trials: medians and ranges, the best stores of a field, and when a run is
steady."""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from kvbench.cell.histogram import enough
from kvbench.stats.intervals import Points, mean_interval, median_interval, points, steadiness

from study.common.fields import best_of, over_trials, regrets
from study.common.results import FLOORS


def test_points_are_median_and_range_of_the_trials_that_have_a_value() -> None:
    assert points([3, 1, 10]) == Points(3, 1, 10, 3)
    assert points([1, math.nan, 2]) == Points(1.5, 1, 2, 2)
    assert points([7]) == Points(7, 7, 7, 1)
    assert points([]).n == 0


def test_the_interval_of_the_median_is_that_of_the_sign_test() -> None:
    assert median_interval([3, 1, 2, 6, 5, 4]) == Points(3.5, 1, 6, 6)
    assert median_interval(range(15)) == Points(7, 3, 11, 15)  # as tables of the sign test have it
    assert median_interval(range(1, 10)) == Points(5, 2, 8, 9)
    assert median_interval(range(1, 10), 0.99) == Points(5, 1, 9, 9)
    for count, confidence in ((0, 0.95), (5, 0.95), (7, 0.99)):
        with pytest.raises(ValueError, match=f"{count} values are too few"):
            median_interval(range(count), confidence)


def test_the_interval_of_the_median_holds_it_in_95_of_100_experiments() -> None:
    random = np.random.default_rng(1)
    trials = [median_interval(random.lognormal(0, 0.3, 15)) for _ in range(4000)]
    missed = sum(not found.low <= 1 <= found.high for found in trials)
    assert 0.025 < missed / 4000 < 0.05  # 3.5% is what the binomial distribution says


def test_the_mean_has_student_s_interval_and_is_geometric_where_all_is_positive() -> None:
    found = mean_interval([1, 100, math.nan])
    assert (found.mean, found.n) == (pytest.approx(10), 2)
    assert found.low == pytest.approx(10 / 100 ** (12.7062 / 2), rel=1e-3)
    plain = mean_interval([0, 1, 1, 2])
    assert plain.mean == 1
    assert plain.high - 1 == pytest.approx(3.18245 * math.sqrt(2 / 3) / 2, rel=1e-4)
    one = mean_interval([3])
    assert one.mean == pytest.approx(3) and math.isnan(one.low)
    assert mean_interval([]).n == 0


def test_times_near_the_floor_are_marked() -> None:
    times = pd.DataFrame(
        {
            "store": ["a"] * 3 + ["b"] * 3,
            "trial": [1, 2, 3] * 2,
            "records": 100,
            "value": [50.0, 60, 70, 90, 90, 60],
        }
    )
    marked = times.assign(near_floor=times["value"] < FLOORS * 23)
    summary = over_trials(marked, "value", ["store"]).set_index("store")
    assert summary.near_floor.to_dict() == {"a": True, "b": False}
    assert best_of(marked, "value", ["records"]).near_floor.tolist() == [True]
    (row,) = best_of(times, "value", ["records"]).to_dict("records")
    assert (row["store"], row["undecided"]) == ("a", ("a", "b"))
    assert row["value"] == pytest.approx((50 * 60 * 70) ** (1 / 3))
    assert not row["near_floor"]


def test_fields_are_ranked_by_the_trials_of_their_stores() -> None:
    random = np.random.default_rng(1)
    means = {"a": 100, "b": 300, "c": 104}
    times = pd.DataFrame(
        [
            {"store": store, "trial": trial, "records": count, "value": value}
            for count, noise in ((10, 0.001), (20, 0.3))
            for trial in range(1, 16)
            for store, mean in means.items()
            for value in [mean * np.exp(noise * random.standard_normal())]
        ]
    )
    found = regrets(times, "value", ["records"])
    first = found[found.records == 10].set_index("store")
    assert first.verdict.to_dict() == {"a": "in", "c": "in", "b": "out"}
    assert first.regret["b"] == pytest.approx(3, abs=0.05)
    assert first.low["b"] < 3 < first.high["b"]
    table = best_of(times, "value", ["records"])
    assert table.among.tolist() == [("c",), ()]
    (least,) = best_of(times[times.records == 10], "value", ["records"], largest=True).store
    assert least == "b"


def test_a_percentile_needs_ten_samples_beyond_it() -> None:
    for share, least in ((0.5, 20), (0.99, 1000), (0.999, 10_000)):
        assert enough(least, share)
        assert not enough(least - 1, share)
    assert not enough(0, 0.5)


SECONDS = np.arange(200)


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        (np.full(200, 1000.0), True),
        (1000 * 0.99**SECONDS, False),  # slows down by 1% a second
        (1000 * 1.01**SECONDS, False),
        (1000 - 0.3 * SECONDS, True),  # by 1.5% of the mean over 50 seconds
        (1000 + 400 * (SECONDS % 3 == 0), True),  # compactions, each third second
        (np.where(SECONDS % 40 < 20, 1000, 700), False),  # compactions longer than a window
        (np.where(SECONDS < 140, 100, 1000), True),  # only the end counts
        (np.where(SECONDS < 160, 1000, 500), False),
        (np.zeros(200), False),
        (np.full(49, 1000.0), False),  # too short
    ],
)
def test_steady_is_a_rate_that_neither_drifts_nor_differs(
    rates: npt.NDArray[np.float64], steady: bool
) -> None:
    assert steadiness(rates, 10).steady == steady


def test_noise_within_a_window_averages_out() -> None:
    """A rate that varies by a tenth from second to second."""
    random = np.random.default_rng(1)
    runs = (1000 * (1 + 0.1 * random.standard_normal(150)) for _ in range(200))
    assert sum(steadiness(run, 30).steady for run in runs) > 0.95 * 200


def test_the_rate_and_the_slope_of_a_steady_run_are_those_it_was_made_with() -> None:
    found = steadiness(np.linspace(1040, 960, 150), 30)
    assert found.steady
    assert found.rate == pytest.approx(1000)
    assert found.slope == pytest.approx(-0.08, rel=0.01)
    assert found.range == pytest.approx(0.064, rel=0.01)


@pytest.mark.parametrize("window", [3, 5, 30])
def test_one_per_cent_a_second_is_seen_by_every_window_of_three_seconds_or_more(
    window: int,
) -> None:
    assert not steadiness(1000 * 0.99**SECONDS, window).steady
