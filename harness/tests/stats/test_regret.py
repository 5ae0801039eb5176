"""Which stores are called best, on fields whose answer is known."""

import math

import numpy as np
import pytest
from kvbench.stats.regret import ENOUGH, LOOKS, SITTINGS, Ranking, look, rank
from kvbench.stats.simulated import EACH, OF_SITTINGS, Logs, Noise, fields, until_decided

RANDOM = np.random.default_rng
MEANS = {"a": 1.0, "b": 2.0, "c": 3.0}


def ranked(logs: Logs, largest: bool = False) -> Ranking:
    """Of logs with a row a trial and a column a store; NaN where a trial is missing."""
    values = {
        f"s{store}": {trial: float(np.exp(log)) for trial, log in enumerate(column, 1)}
        for store, column in enumerate(logs.T)
    }
    return rank(values, largest=largest)


@pytest.mark.parametrize("deviation", [0.08, 0.16, 0.30])
@pytest.mark.parametrize("trials", LOOKS)
def test_no_more_than_5_percent_of_fields_have_a_wrong_store_or_interval(
    trials: int, deviation: float
) -> None:
    found = [(field, field.ranking(trials)) for field in fields(600, deviation)]
    assert sum(field.wrong(own) for field, own in found) <= 0.05 * len(found)
    assert sum(field.missed(own) for field, own in found) <= 0.05 * len(found)


@pytest.mark.parametrize("spikes", [False, True])
@pytest.mark.parametrize("trials", [2, 3, 5])
def test_few_trials_take_the_noise_of_a_pair_from_the_others(trials: int, spikes: bool) -> None:
    """With two trials alone, Student's t would have one degree of freedom, and decide nothing."""
    found = [(own, own.ranking(trials)) for own in fields(600, 0.08, spikes=spikes)]
    assert sum(own.wrong(one) for own, one in found) <= 0.05 * len(found)
    assert sum(own.missed(one) for own, one in found) <= 0.05 * len(found)
    usual = [own.ranking(trials) for own in fields(100, 0.08, spikes=spikes, usual=True)]
    verdicts = [one.verdict for own in usual for one in own.regrets.values()]
    assert verdicts.count("undecided") < 0.5 * len(verdicts)


def test_values_that_repeat_exactly_have_no_interval() -> None:
    """Two sizes of five, of which the others vary."""
    logs = np.log([1, 1.2, 1.5, 2, 3]) + RANDOM(6).normal(0, [0, 0, 0.02, 0.05, 0.1], (7, 5))
    found = ranked(logs).regrets
    assert (found["s0"].low, found["s0"].high) == (1, 1)
    assert found["s1"].low == pytest.approx(1.2) and found["s1"].high == pytest.approx(1.2)
    assert found["s2"].low < 1.5 < found["s2"].high


@pytest.mark.parametrize("deviation", [0.08, 0.30])
def test_stopping_once_decided_makes_no_more_errors(deviation: float) -> None:
    errors = 0
    for field in fields(600, deviation, stores=4):
        found = until_decided(field.rankings())
        errors += field.wrong(found) or field.missed(found)
    assert errors <= 0.05 * 600


@pytest.mark.parametrize("noise", OF_SITTINGS, ids=str)
def test_intervals_over_sittings_hold_for_any_sitting(noise: Noise) -> None:
    """With each number of sittings, the fewest and those of looks, and with a look at each until a
    field is decided."""
    for usual in (False, True):
        errors = np.zeros(2 + len(SITTINGS))
        own = noise.fields(300, usual)
        for field in own:
            rankings = list(field.rankings())
            each = [field.ranking(ENOUGH), *rankings, until_decided(rankings)]
            errors += [field.wrong(one) or field.missed(one) for one in each]
        assert (errors <= 0.05 * len(own)).all()


def test_sittings_of_two_machines_miss_what_other_machines_show() -> None:
    apart = [Noise(0.08, between=0.1, each=EACH, machines=machines) for machines in (0.0, 0.2)]
    missed = [
        sum(field.missed(until_decided(field.rankings())) for field in noise.fields(100, False))
        for noise in apart
    ]
    assert missed[0] <= 0.05 * 100 < missed[1]


def test_trials_of_two_sittings_miss_what_sittings_find() -> None:
    """The error that sittings as observations avoid."""
    terms = {"between": 0.10, "trials": max(SITTINGS) * EACH}
    missed = {
        each: sum(own.missed(own.ranking(number)) for own in fields(300, 0.08, each=each, **terms))
        for each, number in ((0, max(LOOKS)), (EACH, max(SITTINGS)))
    }
    assert missed[EACH] <= 0.05 * 300 < missed[0]


def test_few_sittings_are_not_the_observations() -> None:
    random = RANDOM(4)
    values = {
        name: dict(enumerate((level * random.lognormal(0, 0.1, 8)).tolist(), 1))
        for name, level in (("a", 100), ("b", 200))
    }
    sittings = {trial: (trial + 3) // 4 for trial in range(1, 9)}
    few, without = rank(values, sittings=sittings), rank(values)
    assert few.regrets["b"] == without.regrets["b"]._replace(sittings=2)
    enough = {trial: min(trial, 3) for trial in range(1, 9)}
    found = rank(values, sittings=enough).regrets["b"]
    assert (found.trials, found.sittings) == (8, 3)
    logs = np.log(list(values["b"].values())) - np.log(list(values["a"].values()))
    assert found.estimate == pytest.approx(np.exp(np.mean([*logs[:2], logs[2:].mean()])))


def test_a_store_that_lacks_a_trial_of_a_sitting_is_not_ranked() -> None:
    values = {name: dict.fromkeys(range(1, 11), mean) for name, mean in MEANS.items()}
    del values["b"][4]
    found = rank(values, sittings={trial: (trial + 1) // 2 for trial in range(1, 11)}).regrets
    assert {name: own.verdict for name, own in found.items()} == {
        "a": "in", "c": "out", "b": "not ranked"
    }  # fmt: skip


def test_more_trials_decide_more() -> None:
    def decided(trials: int) -> int:
        found = (field.ranking(trials) for field in fields(100, 0.16))
        return sum(own.verdict != "undecided" for field in found for own in field.regrets.values())

    counts = [decided(trials) for trials in LOOKS]
    assert counts == sorted(counts)
    assert 4 * counts[0] < 3 * counts[-1]


def test_regrets_are_ratios_to_the_best_and_come_in_their_order() -> None:
    random = RANDOM(2)
    found = ranked(np.log([300, 100, 105]) + random.normal(0, 0.005, (15, 3)))
    assert list(found.regrets) == ["s1", "s2", "s0"]
    best, second, last = found.regrets.values()
    assert (best.estimate, best.low, best.verdict, best.trials) == (1, 1, "in", 15)
    assert second.estimate == pytest.approx(1.05, abs=0.01) and second.verdict == "in"
    assert last.low < 3 < last.high and last.verdict == "out" and not last.recommended
    assert found.decided and 1 < found.tellable < 1.03


def test_the_largest_is_best_where_more_is_better() -> None:
    values = {"a": {1: 0.5, 2: 0.5}, "b": {1: 1.0, 2: 1.0}}
    assert {name: own.estimate for name, own in rank(values, largest=True).regrets.items()} == {
        "b": 1,
        "a": 2,
    }


def test_pairs_take_out_what_a_trial_does_to_all_stores() -> None:
    random = RANDOM(3)
    noise = random.normal(0, 1, (7, 1))
    found = ranked(np.log([100, 300]) + noise + random.normal(0, 0.01, (7, 2)))
    assert found.decided


def test_exchanged_stores_exchange_their_regrets() -> None:
    ((_, logs, _),) = fields(1, 0.16)
    before, after = ranked(logs).regrets, ranked(logs[:, ::-1]).regrets
    for store in range(13):
        assert before[f"s{store}"] == pytest.approx(after[f"s{12 - store}"])


def test_a_store_that_lacks_a_trial_is_not_ranked_and_changes_no_other() -> None:
    ((_, logs, _),) = fields(1, 0.16, stores=4)
    lacking = logs.copy()
    lacking[9, 2] = np.nan
    found, without = ranked(lacking).regrets, ranked(np.delete(logs, 2, axis=1)).regrets
    assert found["s2"].verdict == "not ranked" and not found["s2"].recommended
    assert found["s2"].trials == 14
    assert list(found)[-1] == "s2"  # after all that are ranked
    assert [found[name] for name in ("s0", "s1", "s3")] == [
        without[name] for name in ("s0", "s1", "s2")
    ]


def test_a_store_with_fewer_trials_still_has_an_estimate() -> None:
    values = {
        "a": dict.fromkeys(range(1, 8), 100.0),
        "b": dict.fromkeys(range(1, 8), 200.0),
        "c": {1: 3000.0, 3: 3000.0},
    }
    found = rank(values)
    assert found.regrets["c"].estimate == pytest.approx(30)
    assert found.decided and found.regrets["b"].verdict == "out"


def test_a_trial_that_failed_everywhere_leaves_the_error_of_its_look() -> None:
    """Six of seven planned trials are no number fixed ahead, which would spend all the error."""
    logs = np.log([100, 105]) + RANDOM(4).normal(0, 0.03, (6, 2))
    kept = {
        f"s{at}": dict(zip((1, 2, 3, 5, 6, 7), np.exp(column).tolist(), strict=True))
        for at, column in enumerate(logs.T)
    }
    alone, planned = rank(kept).regrets["s1"], rank(kept, range(1, 8)).regrets["s1"]
    assert planned.trials == alone.trials == 6
    assert planned.high > alone.high > alone.estimate == planned.estimate


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_positive_number_is_missing(value: float) -> None:
    found = rank({"a": {1: 1.0, 2: 1.1}, "b": {1: 2.0, 2: value}, "c": {1: value, 2: value}})
    assert {name: own.verdict for name, own in found.regrets.items()} == {
        "a": "not ranked",
        "b": "not ranked",
    }


def test_one_trial_decides_nothing() -> None:
    found = rank({"a": {1: 1.0}, "b": {1: 9.0}})
    assert {own.verdict for own in found.regrets.values()} == {"undecided"}
    assert math.isinf(found.tellable)


def test_one_store_alone_is_not_best() -> None:
    found = rank({"a": {1: 3.0, 2: 4.0}, "b": {}})
    assert list(found.regrets) == ["a"]
    assert found.regrets["a"].verdict == "not ranked" and not found.regrets["a"].recommended
    assert rank({}).regrets == {}


@pytest.mark.parametrize(
    ("trials", "counted", "error"),
    [(3, 3, 0.05), (6, 6, 0.05), (7, 7, 0.03), (9, 7, 0.03), (10, 10, 0.01), (99, 15, 0.01)],
)
def test_looks_spend_the_error_between_them(trials: int, counted: int, error: float) -> None:
    assert look(trials) == (counted, error)
    assert sum(LOOKS.values()) == pytest.approx(0.05)
