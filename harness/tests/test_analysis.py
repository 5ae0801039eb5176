"""What the notebooks rest on: the best, its ties, and numbers as text."""

import pandas as pd
import pytest
from kvbench import analysis


def rows(**stores: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"store": store, "records": 100, "value": value, "trial": trial}
            for store, values in stores.items()
            for trial, value in enumerate(values)
        ]
    )


def best(largest: bool = False, **stores: list[float]) -> tuple[str, float, tuple[str, ...]]:
    found = analysis.best(rows(**stores), "value", ["records"], largest)
    assert len(found) == 1
    row = found.iloc[0]
    return row.store, row["value"], row.ties


def test_the_least_median_is_best() -> None:
    assert best(a=[10, 11, 12], b=[1, 2, 3], c=[5, 6, 7]) == ("b", 2, ())


def test_the_greatest_is_best_where_more_is_better() -> None:
    assert best(largest=True, a=[0.5, 0.5], b=[0.9, 0.9]) == ("b", 0.9, ())


def test_within_five_per_cent_ties() -> None:
    assert best(a=[100], b=[104.9], c=[105.1]) == ("a", 100, ("b",))


def test_overlapping_ranges_tie() -> None:
    assert best(a=[10, 20, 21], b=[20.5, 40, 60], c=[22, 40, 60]) == ("a", 20, ("b",))


def test_one_trial_has_no_range_to_overlap() -> None:
    assert best(a=[10], b=[10.4, 50, 60]) == ("a", 10, ())


def test_times_near_the_floor_are_told() -> None:
    times = rows(a=[50, 60, 70], b=[90, 90, 60])
    marked = times.assign(near_floor=times["value"] < analysis.FLOORS * 23)
    summary = analysis.over_trials(marked, "value", ["store"]).set_index("store")
    assert summary.near_floor.to_dict() == {"a": True, "b": False}
    assert analysis.best(marked, "value", ["records"]).near_floor.tolist() == [True]
    assert analysis.best(times, "value", ["records"]).near_floor.tolist() == [False]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1, "1.0 ns"),
        (248.4, "248 ns"),
        (999.9, "1.0 µs"),
        (4230, "4.2 µs"),
        (9960, "10 µs"),
        (612_000, "612 µs"),
        (999_600, "1.0 ms"),
        (2.5e9, "2.5 s"),
    ],
)
def test_times_as_text(nanoseconds: float, text: str) -> None:
    assert analysis.format_ns(nanoseconds) == text


def test_sizes_and_counts_as_text() -> None:
    assert [analysis.format_size(n) for n in (0, 100, 1536, 20 << 20)] == [
        "0.0 B",
        "100 B",
        "1.5 KiB",
        "20 MiB",
    ]
    assert [analysis.format_count(n) for n in (100, 1000, 1500, 10**6)] == [
        "100",
        "1 k",
        "1500",
        "1 M",
    ]
    assert [analysis.format_share(s) for s in (0.026, 0.5, 1.56)] == ["2.6%", "50%", "156%"]
