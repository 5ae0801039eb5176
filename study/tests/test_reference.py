"""The reference run's figures, on imported data whose answer is known."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kvbench.answers.advise import Measured
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.frames import sittings
from kvbench.results.importer import import_table

from study.answers import advice
from study.common import fields
from study.common.notebook import root
from study.common.results import Results
from study.experiments import reference

Make = Callable[..., Results]
LEVELS = {"process": 100.0, "sync": 300.0}  # the best store's mean, in µs


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Updates of each store at each durability level: LEVELS times its factor there, with some
    noise and a growth in each trial. A sync of the device takes 200 µs."""

    def imported(
        factors: Mapping[tuple[str, str], float], trials: int = 15, growth: float = 0.0
    ) -> Results:
        random = np.random.default_rng(1)
        table = pd.DataFrame(
            {
                **{"store": store, "durability": level, "trial": trial, "operation": "update"},
                **{"record_size": "1 KiB", "records": 10, "n": 1000, "sync_p50_us": 200},
                **{"compressibility": "incompressible"},
                "started": f"2026-11-23T{trial:02}:00:00.000+00:00",
                "mean_ns": 1000
                * LEVELS[level]
                * factor
                * np.exp(0.01 * random.standard_normal())
                * (1 + growth) ** (trial - 1),
            }
            for (store, level), factor in factors.items()
            for trial in range(1, trials + 1)
        )
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        table.to_csv(place / "table.csv", index=False)
        import_table(place / "table.csv", place / "out")
        return Results(str(place / "out"), varying=["durability"])

    return imported


TWO = {("a", "process"): 1.0, ("b", "process"): 3.0, ("a", "sync"): 1.0, ("b", "sync"): 1.5}


def test_regrets_are_those_of_the_data(make: Make) -> None:
    found = reference.regrets_of(make(TWO)).set_index(["durability", "store"])
    assert found.regret["process", "b"] == pytest.approx(3, rel=0.02)
    assert found.verdict.to_dict() == {
        ("process", "a"): "in",
        ("process", "b"): "out",
        ("sync", "a"): "in",
        ("sync", "b"): "out",
    }


def test_decisions_count_fields_and_stores(make: Make) -> None:
    few = reference.decisions(reference.regrets_of(make(TWO | {("c", "sync"): 1.25})))
    shown = few.set_index("durability")
    assert shown.fields.to_dict() == {"process": 1, "sync": 1}
    assert shown.decided.to_dict() == {"process": 1, "sync": 0}
    assert shown["stores decided"]["sync"] == pytest.approx(2 / 3)
    assert 1 < shown.tellable["sync"] < 1.05


def test_noise_is_that_of_the_ratios_to_the_best(make: Make) -> None:
    found = reference.noise(make(TWO)).set_index("durability")
    assert found.ratios.tolist() == [1, 1] and found.trials.tolist() == [15, 15]
    assert found.deviation.to_numpy() == pytest.approx(0.01 * 2**0.5, rel=0.5)
    assert (found.correlation.abs() < 0.6).all() and (found.skewness.abs() < 1.5).all()
    assert found.alike.isna().all()  # of a single ratio
    drifting = make(TWO | {("b", "process"): 3.0}, growth=0.0)
    rows = drifting.operations
    drifting.operations = rows.assign(
        mean_ns=rows.mean_ns.where(rows.store == "a", rows.mean_ns * 1.05**rows.trial)
    )
    assert (reference.noise(drifting).correlation > 0.6).all()


def test_stores_whose_times_scatter_alike_tell_of_each_other(make: Make) -> None:
    """Eight stores, whose deviations are all 1%, or from 0.1% to 12.8%."""
    data = make({(name, "process"): 1.0 + at for at, name in enumerate("abcdefgh")})
    (alike,) = reference.noise(data).alike
    rows = data.operations
    wider = rows.store.map({name: 2.0**at / 10 for at, name in enumerate("abcdefgh")})
    middle = rows.groupby("store").mean_ns.transform("mean")
    off = (rows.mean_ns / middle) ** wider.astype(float)
    data.operations = rows.assign(mean_ns=middle * off)
    (unlike,) = reference.noise(data).alike
    assert alike > 10 and unlike < 4


def test_gaps_are_what_an_operation_waits_for_the_harness(make: Make) -> None:
    """A tenth of the wall time, which is 2 s for 1,000 operations."""
    data = make(TWO)
    data.operations = data.operations.assign(sum_ns=1.8e9, wall_s=2.0)
    (row,) = reference.gaps(data).to_dict("records")
    assert row == pytest.approx({"record_size": "1 KiB", "gap": 2e5, "share": 0.1, "most": 0.1})


def test_exchanging_two_stores_exchanges_all_that_is_said_of_them(make: Make) -> None:
    names = {"a": "b", "b": "a"}
    before = reference.fits(reference.regrets_of(make(TWO)), ["a", "b"])
    other = {(names[store], level): factor for (store, level), factor in TWO.items()}
    after = reference.fits(reference.regrets_of(make(other)), ["b", "a"])
    plain = ["fields", "good"]
    assert before.store.tolist() == after.store.replace(names).tolist()
    assert before[plain].to_numpy().tolist() == after[plain].to_numpy().tolist()
    assert before.most.to_numpy() == pytest.approx(after.most.to_numpy(), rel=0.05)


def test_the_largest_regrets_are_named_with_their_fields(make: Make) -> None:
    found = reference.worst(reference.regrets_of(make(TWO)), ["a", "b"], 2)
    assert found.store.tolist() == ["b", "b"]
    assert found.durability.tolist() == ["process", "sync"]


def test_drift_is_the_change_against_the_first_trial(make: Make) -> None:
    found = reference.drifted(reference.drift(make(TWO, trials=4, growth=0.05)))
    assert found.hours.tolist() == [0, 1, 2, 3]
    assert found.middle.to_numpy() == pytest.approx([1, 1.05, 1.05**2, 1.05**3], rel=0.03)
    assert (found.least <= found.middle).all() and (found.middle <= found.most).all()
    assert reference.varied(found) == {"least": "1.05", "greatest": "1.16"}


def later(data: Results) -> Results:
    """The trials after the seventh a day later."""
    started = pd.to_datetime(data.cells.started, utc=True)
    data.cells = data.cells.assign(
        started=started + pd.to_timedelta((data.cells.trial > 7) * 1, unit="D")
    )
    numbers = sittings(data.cells)
    for table in (data.cells, data.operations):
        table["sitting"] = table.trial.map(numbers)
    return data


def test_sittings_are_hours_apart(make: Make) -> None:
    """Trials of the fixture begin an hour apart, no more."""
    assert set(make(TWO).sittings.values()) == {1}
    assert later(make(TWO)).sittings == {trial: 1 + (trial > 7) for trial in range(1, 16)}
    assert reference.disagreement(make(TWO)).empty and reference.repeated(pd.DataFrame()) == {}


def test_with_five_sittings_the_intervals_hold_for_other_days(make: Make) -> None:
    """b takes 5% more or less time from one sitting to the next, of three trials each."""
    data = make(TWO)
    rows = data.operations
    number = (rows.trial - 1) // 3 + 1
    off = number.map({1: 1.05, 2: 0.95, 3: 1.05, 4: 0.95, 5: 1.0}).where(rows.store == "b", 1.0)
    data.operations = rows.assign(mean_ns=rows.mean_ns * off)
    high = {}
    for name, numbers in (("one", number * 0 + 1), ("five", number)):
        data.operations = data.operations.assign(sitting=numbers)
        found = reference.regrets_of(data).set_index(["durability", "store"])
        high[name] = found.high["sync", "b"]
    assert high["one"] < 1.6 < high["five"]


def swap(data: Results, factor: float) -> Results:
    """The results with b faster by a factor at `sync` in the trials after the seventh."""
    rows = data.operations
    later = (rows.trial > 7) & (rows.durability == "sync") & (rows.store == "b")
    data.operations = rows.assign(mean_ns=rows.mean_ns.mask(later, rows.mean_ns / factor))
    return data


def test_sittings_that_agree_and_one_that_does_not(make: Make) -> None:
    same = reference.disagreement(later(make(TWO)))
    assert same.durability.tolist() == ["process", "sync"]
    assert (same.deviation < 0.01).all() and same["between machines"].isna().all()
    found = reference.disagreement(swap(later(make(TWO)), 2.25)).set_index("durability")
    assert found.deviation["process"] < 0.01
    assert found.deviation["sync"] == pytest.approx(np.log(2.25) / 2**0.5, rel=0.02)
    text = reference.repeated(found.reset_index())
    assert (text["sync"]["deviation"], text["sync"]["machines"]) == ("57%", NOT_STATED)


def test_sittings_disagree_on_stores_near_the_bound(make: Make) -> None:
    """b takes 1.5 times as long as a in the first sitting, and 1.03 times in the second; over both
    its regret is 1.24. c is far from the bound."""
    data = swap(later(make(TWO | {("c", "sync"): 9.0})), 1.45)
    found = reference.disagreement(data).set_index("durability")
    assert found.loc["sync", ["near the bound", "on both sides"]].tolist() == [1, 1]
    assert found.loc["process", ["near the bound", "on both sides"]].tolist() == [0, 0]
    both = reference.repeated(found.reset_index())["all"]
    assert both == {"from": "1.05", "to": "1.25", "near": 1, "apart": 1, "two": "100%"}


def test_what_machines_differ_by_is_no_deviation_of_sittings(make: Make) -> None:
    data = swap(later(make(TWO)), 2.25)
    for table in (data.cells, data.operations):
        table["machine"] = table.machine.where(table.trial <= 7, "another")
    found = reference.disagreement(data).set_index("durability")
    assert found.deviation.isna().all()
    assert found["between machines"]["sync"] == pytest.approx(np.log(2.25) / 2**0.5, rel=0.02)
    assert found["between machines"]["process"] < 0.01


def test_a_store_with_fewer_trials_is_drawn_and_not_counted(make: Make) -> None:
    data = make(TWO | {("c", "process"): 2.0, ("c", "sync"): 2.0})
    rows = reference.timed(data)
    data.operations = rows[(rows.store != "b") | (rows.durability != "sync") | (rows.trial <= 3)]
    found = reference.regrets_of(data)
    own = found.set_index(["durability", "store"]).loc[("sync", "b")]
    assert own.verdict == "not ranked" and own.regret == pytest.approx(1.5, rel=0.02)
    decided = reference.decisions(found).set_index("durability")
    assert decided.decided.to_dict() == {"process": 1, "sync": 1}
    counted = reference.fits(found, ["a", "b", "c"]).set_index(["durability", "store"]).fields
    assert ("process", "b") in counted and ("sync", "b") not in counted
    assert reference.worst(found, ["b"]).durability.tolist() == ["process"]
    reference.draw_regrets(found, "sync", data)


def test_a_profile_names_where_a_store_wins_and_loses(make: Make) -> None:
    found = reference.profiles(reference.regrets_of(make(TWO)), ["a", "b"])
    shown = found.set_index(["store", "durability"])
    field = "update of 1 KiB x 10"
    assert shown["good enough"].tolist() == [field, field, "", ""]
    assert shown["costs most"]["a", "sync"] == ""
    assert shown["costs most"]["b", "process"].startswith(f"{field}: 2.9")


def test_the_fastest_store_is_looked_up_on_another_machine(make: Make) -> None:
    here = reference.regrets_of(make(TWO))
    other = TWO | {("b", "sync"): 0.5}
    there = reference.regrets_of(make(other, trials=2))
    found = reference.transfer(here, there).set_index("durability")
    assert found.fields.to_dict() == {"process": 1, "sync": 1}
    assert found.same.to_dict() == found.maybe.to_dict() == {"process": 1, "sync": 0}
    assert found["mean"].to_dict() == pytest.approx({"process": 1, "sync": 2}, rel=0.02)


def test_file_systems_are_compared_in_the_fields_that_all_have(make: Make) -> None:
    swapped = {("b", level): 1.0 for level in ("process", "sync")}
    other = make({("a", level): 3.0 for level in ("process", "sync")} | swapped)
    other.operations = fields.where(other.operations, durability="sync")
    found = reference.on_file_systems({"ext4": make(TWO), "XFS": other})
    assert set(found.durability) == {"sync"}
    assert reference.turning(found, "ext4") == {
        "XFS": {"fields": 1, "other": 1, "mean": "2.99", "most": "3"}
    }


@pytest.mark.parametrize(("cold", "trials"), [(1, 14), (5, 15)])
def test_a_trial_in_which_a_store_was_not_warm_is_left_out_of_its_field(
    make: Make, cold: int, trials: int
) -> None:
    """The trial is left out for all stores, because trials are paired; a store that is often not
    warm is left out itself."""
    data = make(TWO | {("c", "process"): 9.0, ("c", "sync"): 9.0})
    rows = data.operations
    rows["cooled"] = (rows.store == "b") & (rows.durability == "sync") & (rows.trial <= cold)
    found = reference.regrets_of(data).set_index(["durability", "store"])
    assert found.trials["process"].tolist() == [15, 15, 15]
    assert found.trials["sync"].tolist() == [trials] * len(found.loc["sync"])
    assert ("b" in found.loc["sync"].index) == (cold == 1)


def test_figures_have_a_row_a_store(make: Make) -> None:
    data = make(TWO)
    figure = reference.draw_regrets(reference.regrets_of(data), "sync", data)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a", "b"]


def test_advice_is_worse_the_further_it_is_extrapolated() -> None:
    """By hand: regrets of 1 and 2 at ten times as many records, and of 1.05 between measured ones.
    Of each case, the distance is the field's records over the most that the advice rests on."""

    def case(regret: float, beyond: float) -> advice.Followed:
        return advice.Followed("sync", "gets", (100, 1000), "lmdb", "flat", 1e3, regret, beyond)

    found = advice.by_distance([case(1, 10), case(1.05, 1), case(2, 10)])
    numbers = [[1, 1, 1, 1.05, 1.05], [10, 2, 0.5, 2**0.5, 2]]
    assert found.to_numpy(float) == pytest.approx(np.array(numbers))
    assert reference.carried(found) == {
        "between": {"fields": 1, "good": "100%"},
        "ten": {"fields": 2, "good": "50%"},
    }


def test_advice_for_other_numbers_rests_on_the_nearest_ones() -> None:
    """Advice from the main grid, which has 1 KiB at 100 and 10,000 records, for data of a thousand,
    a hundred thousand and a million."""
    grid, other = (
        Measured.of(root() / "data" / name) for name in ("reference", "reference-counts")
    )
    found = [one for one in advice.followed(grid, other) if one.point[0] == 1024]
    assert {(one.point[1], one.beyond) for one in found} == {
        (1_000, 1), (100_000, 10), (1_000_000, 100)
    }  # fmt: skip
    assert {one.level for one in found} == {"process", "recoverable", "sync"}
    for one in found:
        assert one.regret >= 1 and (one.regret == 1) == (one.advised == one.fastest)
