"""Plans: their keys, their values and the number of live records."""

import dataclasses

import numpy as np
import pytest
from kvbench.factors import KEY_ORDER, Cell, RecordSize
from kvbench.histogram import Histogram
from kvbench.library import make_keys, mix
from kvbench.plan import SAMPLES, SKEW, Population, coprime, zipf

CELL = Cell(
    store="flat",
    binding="",
    record_size=RecordSize(100, 1000),
    records=1000,
    compressibility="incompressible",
    operations=("insert", "get", "update", "remove"),
    trial=1,
    seed=1,
)


def sized(records: int) -> Cell:
    return dataclasses.replace(CELL, records=records)


@pytest.mark.parametrize("key_order", KEY_ORDER)
@pytest.mark.parametrize("records", [1, 2, 10, 100, 1000, 12345])
def test_rounds_match_a_dict(records: int, key_order: str) -> None:
    """Every operation is valid, and a get is expected to return the value written last."""
    population = Population(dataclasses.replace(sized(records), key_order=key_order))
    model: dict[int, tuple[int, int]] = {}
    for plan in population.live("insert"):
        for number, offset, size in zip(plan.number, plan.offset, plan.size, strict=True):
            model[int(number)] = (int(offset), int(size))
    assert len(model) == records
    done = dict.fromkeys(CELL.operations, 0)
    for steps in population.rounds(CELL.operations):
        for operation, plan in steps:
            done[operation] += len(plan)
            for number, offset, size in zip(plan.number, plan.offset, plan.size, strict=True):
                key, value = int(number), (int(offset), int(size))
                assert (key in model) == (operation != "insert")
                if operation == "remove":
                    del model[key]
                elif operation == "get":
                    assert model[key] == value
                else:
                    assert model.get(key) != value
                    model[key] = value
            assert abs(len(model) - records) <= max(1, records / 10)
    assert min(done.values()) >= SAMPLES
    expected = {
        int(number): (int(offset), int(size))
        for plan in population.live("get")
        for number, offset, size in zip(plan.number, plan.offset, plan.size, strict=True)
    }
    assert expected == model
    inserted, *others = population.refused()
    assert set(inserted.number.tolist()) <= set(model)
    assert len(inserted) >= min(records, SAMPLES) / 2
    for plan in others:
        assert len(plan) == population.churn
        assert not set(plan.number.tolist()) & set(model)


def test_live_records_are_in_key_order_with_their_sizes() -> None:
    population = Population(sized(10_000))
    plans = list(population.live("insert"))
    numbers = np.concatenate([plan.number for plan in plans])
    sizes = np.concatenate([plan.size for plan in plans])
    assert (np.diff(numbers.astype(np.int64)) > 0).all()
    assert 100 <= sizes.min() < 110 and 990 < sizes.max() <= 1000
    assert sum(population.bytes_of(plan) for plan in plans) == sizes.sum() + 16 * 10_000


def test_the_value_of_a_version_never_changes() -> None:
    """The committed data depend on this rule, which only records.h implements."""
    numbers, versions = np.array([0, 1, 999], np.uint64), np.array([0, 5, 4_000_000_000], np.uint64)
    population = Population(CELL)
    plan = population.plan("get", numbers, versions)
    assert plan.offset.tolist() == [3649642, 7033192, 2553775]
    assert plan.size.tolist() == [395, 906, 475]
    assert mix(numbers[:2]).tolist() == [16294208416658607535, 10451216379200822465]
    assert make_keys(numbers, population.stride)[16:].hex() == (
        "003b9403b9403b94910a2dec89025cc1" + "e87e9a87e9a87e8c68925370be18119c"
    )


def test_only_timed_operations_run_but_inserts_and_removes_run_together() -> None:
    def operations(*timed: str) -> set[str]:
        rounds = Population(CELL).rounds(timed)
        return {operation for steps in rounds for operation, _ in steps}

    assert operations("get") == {"get"}
    assert operations("insert") == {"insert", "remove"}
    assert operations("remove", "update") == {"insert", "update", "remove"}


def test_a_sequence_goes_upwards_and_around() -> None:
    population = Population(dataclasses.replace(sized(250), key_order="sequential"))
    numbers: dict[str, list[int]] = {}
    for steps in population.rounds(CELL.operations):
        for operation, plan in steps:
            assert (np.diff(plan.number.astype(np.int64)) > 0).sum() >= len(plan) - 2
            numbers.setdefault(operation, []).extend(plan.number.tolist())
    for operation in ("get", "update", "remove"):
        falls = (np.diff(numbers[operation]) < 0).sum()
        assert falls == pytest.approx(1000 / 250, abs=1)  # one pass through the records each time
        assert len(set(numbers[operation])) >= 250


def test_the_zipfian_order_is_skewed_as_specified() -> None:
    ranks = zipf(np.random.default_rng(1), 1000, 200_000)
    assert (ranks.min(), ranks.max()) == (0, 999)
    weights = np.arange(1, 1001) ** -SKEW
    for rank in (0, 1, 2, 9, 99):
        share = weights[rank] / weights.sum()
        assert (ranks == rank).mean() == pytest.approx(share, rel=0.1)
    assert zipf(np.random.default_rng(1), 1, 5).tolist() == [0] * 5


@pytest.mark.parametrize("count", [2, 3, 10, 1100, 10**9])
def test_popular_records_are_scattered_and_none_is_missing(count: int) -> None:
    step = coprime(count)
    if count < 10_000:
        assert sorted(rank * step % count for rank in range(count)) == list(range(count))
    places = sorted(rank * step % count for rank in range(10))
    assert places[-1] - places[0] >= min(count - 1, count // 2)


def test_gets_in_zipfian_order_repeat_popular_records() -> None:
    population = Population(dataclasses.replace(sized(10_000), key_order="zipfian"))
    got = [p for steps in population.rounds(("get",)) for _, plan in steps for p in plan.number]
    most = max(got.count(number) for number in set(got))
    assert len(got) == 1000
    assert 60 < most < 140  # 1 in 9.8 of all is expected
    assert len(set(got)) < 700


def test_a_trial_has_its_own_plan_and_all_stores_share_it() -> None:
    def first(cell: Cell) -> list[int]:
        return next(iter(Population(cell).live("insert"))).offset.tolist()

    assert first(CELL) == first(dataclasses.replace(CELL, store="lmdb"))
    assert first(CELL) != first(dataclasses.replace(CELL, trial=2))
    assert first(CELL) != first(dataclasses.replace(CELL, seed=2))


def test_histogram_is_within_one_per_cent() -> None:
    times = np.random.default_rng(1).lognormal(10, 2, 100_000).astype(np.uint64)
    histogram = Histogram()
    for part in np.array_split(times, 7):
        histogram.add(part)
    histogram.add(np.array([], np.uint64))
    assert (histogram.n, histogram.sum) == (len(times), int(times.sum()))
    assert (histogram.min, histogram.max) == (times.min(), times.max())
    for share in (0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1):
        exact = float(np.quantile(times, share, method="inverted_cdf"))
        assert histogram.quantile(share) == pytest.approx(exact, rel=0.01)
    bins, counts = histogram.sparse()
    assert sum(counts) == histogram.n
    assert len(bins) == len(counts)


def test_histogram_of_the_least_times() -> None:
    histogram = Histogram()
    histogram.add(np.array([0, 1, 2], np.uint64))
    assert (histogram.min, histogram.max, histogram.sum) == (0, 2, 3)
    assert histogram.quantile(1) == pytest.approx(2, rel=0.01)
