"""The statistics over trials: medians and ranges, the best store of a field, and its ties."""

import math

import numpy as np
import pandas as pd
import pytest
from kvbench.stats import Points, best, enough, median_interval, points

from study.fields import best_of, over_trials
from study.results import FLOORS


def found(largest: bool = False, **stores: list[float]) -> tuple[str, tuple[str, ...]]:
    return best({store: points(values) for store, values in stores.items()}, largest)


def test_points_are_median_and_range_of_the_trials_that_have_a_value() -> None:
    assert points([3, 1, 10]) == Points(3, 1, 10, 3)
    assert points([1, math.nan, 2]) == Points(1.5, 1, 2, 2)
    assert points([7]) == Points(7, 7, 7, 1)
    assert points([]).n == 0


def test_the_interval_of_the_median_is_that_of_the_sign_test() -> None:
    assert median_interval([3, 1, 2, 6, 5, 4]) == Points(3.5, 1, 6, 6)
    assert median_interval(range(15)) == Points(7, 3, 11, 15)  # as tables of the sign test have it
    with pytest.raises(ValueError, match="5 trials"):
        median_interval([1, 2, 3, 4, 5])


def test_the_interval_of_the_median_holds_it_in_95_of_100_experiments() -> None:
    random = np.random.default_rng(1)
    trials = [median_interval(random.lognormal(0, 0.3, 15)) for _ in range(4000)]
    missed = sum(not found.low <= 1 <= found.high for found in trials)
    assert 0.025 < missed / 4000 < 0.05  # 3.5 % is what the binomial distribution says


def test_the_least_median_is_best() -> None:
    assert found(a=[10, 11, 12], b=[1, 2, 3], c=[5, 6, 7]) == ("b", ())


def test_the_greatest_is_best_where_more_is_better() -> None:
    assert found(largest=True, a=[0.5, 0.5], b=[0.9, 0.9]) == ("b", ())


def test_within_five_per_cent_ties() -> None:
    assert found(a=[100], b=[104.9], c=[105.1]) == ("a", ("b",))


def test_overlapping_ranges_tie() -> None:
    assert found(a=[10, 20, 21], b=[20.5, 40, 60], c=[22, 40, 60]) == ("a", ("b",))


def test_one_trial_has_no_range_to_overlap() -> None:
    assert found(a=[10], b=[10.4, 50, 60]) == ("a", ())


def test_times_near_the_floor_are_marked() -> None:
    times = pd.DataFrame(
        {
            "store": ["a"] * 3 + ["b"] * 3,
            "records": 100,
            "value": [50.0, 60, 70, 90, 90, 60],
        }
    )
    marked = times.assign(near_floor=times["value"] < FLOORS * 23)
    summary = over_trials(marked, "value", ["store"]).set_index("store")
    assert summary.near_floor.to_dict() == {"a": True, "b": False}
    assert best_of(marked, "value", ["records"]).near_floor.tolist() == [True]
    (row,) = best_of(times, "value", ["records"]).to_dict("records")
    assert (row["store"], row["value"], row["ties"]) == ("a", 60, ("b",))
    assert not row["near_floor"]


def test_a_percentile_needs_ten_samples_beyond_it() -> None:
    for share, least in ((0.5, 20), (0.99, 1000), (0.999, 10_000)):
        assert enough(least, share)
        assert not enough(least - 1, share)
    assert not enough(0, 0.5)
