"""The decision table, on imported data whose answer is known."""

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kvbench.cell.factors import LEVELS
from kvbench.results.importer import import_table
from kvbench.stats.regret import by_trial, rank

from study.answers import advice, decision
from study.answers.decision import Need
from study.common.results import Results

Make = Callable[..., Results]
OPERATIONS = ("insert", "get", "update", "remove")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Import ten trials, or as many as `trials` says for a record size, of some stores in four
    fields. `times` has the time of each operation of a store in µs, by default 1; `larger` has that
    of records of 1 KiB, if it differs. Means differ by 2% from trial to trial."""

    def imported(
        times: Mapping[str, Mapping[str, float]],
        without: Mapping[str, str] | None = None,
        trials: Mapping[str, int] | None = None,
        larger: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Results:
        random = np.random.default_rng(1)
        rows = [
            {
                **{"store": store, "operation": operation, "record_size": size},
                **{"records": count, "n": 1000, "trial": trial, "durability": "process"},
                **{"compressibility": "incompressible"},
                "mean_ns": 1000 * own.get(operation, 1) * np.exp(0.02 * random.standard_normal()),
            }
            for size, stores in (("100 B", times), ("1 KiB", larger or times))
            for store, own in stores.items()
            for count in (100, 10_000)
            for operation in OPERATIONS
            for trial in range(1, 1 + (trials or {}).get(size, 10))
            if (without or {}).get(store) != size
        ]
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        pd.DataFrame(rows).to_csv(place / "table.csv", index=False)
        import_table(place / "table.csv", place / "out")
        return Results(str(place / "out"), varying=["durability"])

    return imported


MIXED = Need("mixed")
READS = Need("reads", mix={"get": 0.9, "update": 0.1})


def test_the_best_of_a_mix_is_chosen_by_the_sum_of_its_operations(make: Make) -> None:
    data = make({"lmdb": {"get": 0.5, "update": 2}, "leveldb": {}})
    rows = decision.table({"reference": data}, [MIXED, READS]).set_index("need")
    assert rows.choose.to_dict() == {"mixed": "leveldb, lmdb", "reads": "lmdb"}
    assert float(rows.leveldb["reads"]) == pytest.approx(1 / 0.65, rel=0.02)
    assert rows["may be the best"].tolist() == ["", ""]


def test_exchanged_stores_exchange_in_the_table(make: Make) -> None:
    slow = {"insert": 3.0, "update": 3.0}
    first = decision.table({"reference": make({"lmdb": {}, "leveldb": slow})}, [MIXED])
    assert first.choose.tolist() == ["lmdb"]
    assert [float(regret) for regret in first.leveldb] == pytest.approx([2], rel=0.02)


def test_a_store_that_lacks_a_field_or_does_not_suit_is_left_out(make: Make) -> None:
    data = make({"lmdb": {}, "leveldb": {}, "flat": {"get": 0.1}}, without={"leveldb": "100 B"})
    whole = Need("updates are whole", suits=decision.whole)
    rows = decision.table({"reference": data}, [MIXED, whole]).set_index("need")
    assert rows.choose["mixed"] == "flat"
    assert rows.leveldb.tolist() == ["", ""]
    assert rows.flat["updates are whole"] == ""


def test_stores_are_marked_that_a_crash_may_cost_more_than_the_last_writes(make: Make) -> None:
    """Files, whose updates may tear, and LMDB, which may lose all data, but not at sync."""
    data = make({"lmdb": {}, "flat": {}})
    rows = decision.table({"reference": data}, [MIXED])
    both = pd.concat([rows, rows.assign(level="sync")])
    (shown,) = decision.overview(both).to_dict("records")
    assert set(shown["use at process"].split(", ")) == {"lmdb†", "flat*"}
    assert set(shown["use at sync"].split(", ")) == {"lmdb", "flat*"}


def test_stores_are_marked_whose_level_a_simulated_power_failure_violated(make: Make) -> None:
    """libmdbx at `recoverable`, as data/faults has it, and not at `sync`."""
    rows = decision.table({"reference": make({"mdbx": {}, "lmdb": {}})}, [MIXED])
    both = pd.concat([rows.assign(level=level) for level in ("recoverable", "sync")])
    (shown,) = decision.overview(both).to_dict("records")
    assert set(shown["use at recoverable"].split(", ")) == {"mdbx§", "lmdb"}
    assert set(shown["use at sync"].split(", ")) == {"mdbx", "lmdb"}


def test_a_store_that_violated_a_level_is_not_its_safest() -> None:
    data = Results("data/reference", varying=LEVELS)
    rows = data.operations
    fast = (rows.store == "mdbx") & (rows.durability == "recoverable")
    data.operations = rows.assign(mean_ns=rows.mean_ns.where(~fast, 1.0))
    sizes = decision.SMALL + decision.LARGE
    assert decision.safest(data, {}, "recoverable", sizes)["store"] == "mdbx"
    found = decision.all_safest(data, {})
    for name in ("recoverable", "recoverable_c"):
        assert found[name]["store"] != "mdbx" and float(found[name]["most"].replace(",", "")) > 100


def test_stores_are_marked_that_had_not_begun_to_merge(make: Make) -> None:
    """LevelDB fills a buffer of 4 MiB in a few thousand writes of 10 KiB, RocksDB's 64 MiB not."""
    data = make({"leveldb": {}, "rocksdb": {}, "lmdb": {}})
    assert decision.unmerged(data, MIXED) == {"leveldb", "rocksdb"}
    rows = data.operations
    data.operations = rows.assign(n=rows.n.where(rows.store != "leveldb", 10_000_000))
    assert decision.unmerged(data, MIXED) == {"rocksdb"}
    table = decision.table({"reference": data}, [MIXED])
    (shown,) = decision.overview(pd.concat([table, table.assign(level="sync")])).to_dict("records")
    assert set(shown["use at sync"].split(", ")) == {"leveldb", "rocksdb‡", "lmdb"}


def test_a_store_is_recommended_only_if_it_is_at_every_size(make: Make) -> None:
    """The stores have the same mean over both sizes, but neither is recommended at both."""
    few, many = {"lmdb": {}, "leveldb": {"insert": 5}}, {"lmdb": {"insert": 5}, "leveldb": {}}
    data = make(few | {"redb": {"insert": 2}}, larger=many | {"redb": {"insert": 2}})
    (row,) = decision.table({"reference": data}, [MIXED]).to_dict("records")
    assert row["choose"] == ""
    regrets = decision.ranking(data, MIXED).regrets
    assert [store for store, own in regrets.items() if own.recommended]


def test_the_safest_store_has_the_least_greatest_regret() -> None:
    data = Results("data/reference", varying=LEVELS)
    found = decision.safest(data, {}, "sync", decision.LARGE)
    needs = [
        replace(need, counts=(count,))
        for need in decision.NEEDS
        if need.durability == "sync"
        and need.suits is decision.reuses
        and need.name.startswith(tuple(decision.SAFE))
        and set(need.sizes) <= set(decision.LARGE)
        for count in data.counts()
        if need.counts == decision.FEW
    ]
    assert len(needs) == 2 * 2 * 3
    own = [one for need in needs if (one := decision.ranking(data, need).regrets)]
    assert len(own) == 2 * (2 + 1)  # 10,000 records of 1 MiB exceed the grid's limit
    most = {
        store: max(one[store].estimate for one in own)
        for store in set.intersection(*(set(one) for one in own))
    }
    assert most[found["store"]] == min(most.values())


@pytest.mark.check
def test_a_bound_names_the_place_that_exceeds_it() -> None:
    """Slow the safest store down in one place: the bound of the main grid stays as it is."""
    data, second = (Results(f"data/{n}", varying=LEVELS) for n in ("reference", "second-machine"))
    before = decision.all_safest(data, {"second": second})["process"]
    assert float(before["second"]) > float(before["most"])
    slower = second.operations.store == before["store"]
    times = second.operations.mean_ns
    second.operations = second.operations.assign(mean_ns=times.mask(slower, 5 * times))
    found = decision.all_safest(data, {"second": second, "same": data})
    own = found["process"]
    assert (own["store"], own["most"], own["same"]) == (
        before["store"],
        before["most"],
        own["most"],
    )
    assert (own["place"], own["anywhere"]) == ("second", own["second"])
    assert float(own["anywhere"]) > 4 * float(before["second"])
    shown = decision.bounds(found, ["second", "same"]).set_index(["level", "values"])
    assert shown.loc[("process", "all"), "second"] == own["anywhere"]


def test_a_need_counts_the_trials_that_all_its_fields_have(make: Make) -> None:
    """A field that was decided after seven trials has no more. A need with this field has seven,
    too, and may spend as much of the error as a look after seven trials."""
    data = make({"lmdb": {}, "leveldb": {"get": 1.3}}, trials={"100 B": 7})
    both = decision.ranking(data, MIXED).regrets
    assert {own.trials for own in both.values()} == {7}
    costs = MIXED.cost(data, MIXED)
    assert both == rank(by_trial(costs), range(1, 8)).regrets
    longer = decision.ranking(data, Need("1 KiB", sizes=["1 KiB"])).regrets
    assert {own.trials for own in longer.values()} == {10}


def test_stores_that_processes_may_share_are_known() -> None:
    shared = {
        store for store in ("flat", "lmdb", "sqlite", "leveldb", "redb") if decision.shared(store)
    }
    assert shared == {"flat", "lmdb", "sqlite"}


def test_one_trial_names_what_was_fast_and_recommends_nothing() -> None:
    """Of the committed data beyond memory, at each store's best settings."""
    data = Results("data/beyond-memory", varying=LEVELS)
    (need,) = (need for need in decision.NEEDS if need.experiment == "beyond-memory")
    (row,) = decision.table({"beyond-memory": data}, [need]).to_dict("records")
    assert data.trials == 1 and row["choose"] == ""
    assert row["may be the best"] and "null" not in row["may be the best"]
    assert min(float(row[store]) for store in decision.POPULAR if row[store]) == 1.03  # lmdb's
    (said,) = decision.chosen(pd.DataFrame([row])).values()
    named = said["choose"].removesuffix(" (undecided)")
    assert named != said["choose"]
    assert set(named.replace(" or ", ", ").split(", ")) == set(row["may be the best"].split(", "))


def evenly(factor: float) -> Mapping[str, float]:
    return dict.fromkeys(OPERATIONS, factor)


def test_a_factor_is_said_with_its_range_over_places(make: Make) -> None:
    near, far = (make({"flat": evenly(time), "sqlite": evenly(1)}) for time in (2, 4))
    without = make({"sqlite": evenly(1), "lmdb": evenly(2)})
    places = {"near": near, "far": far, "without": without}
    said = decision.over_places(places, "flat", "process", "100 B").split(" to ")
    assert [float(end) for end in said] == pytest.approx([2, 4], rel=0.02)
    assert decision.over_places({"without": without}, "flat", "process", "100 B") == ""


@pytest.mark.parametrize(
    ("small", "large", "size"),
    [(4, 1, (650, 760)), (4, 2, "none"), (1, 1, "every size"), (1, 4, "none")],
)
def test_from_which_size_a_store_is_as_good_as_the_best(
    small: float, large: float, size: tuple[int, int] | str, make: Make
) -> None:
    """A regret of 4 at 100 B and 1 at 1 KiB is 1.25 at 704 B."""
    other = {"sqlite": evenly(1)}
    data = make({"flat": evenly(small)} | other, larger={"flat": evenly(large)} | other)
    found = decision.crossing(data, "flat", "process")
    said = decision.crossing_said(found)
    if isinstance(size, str):
        assert found["size"] == said == size
    else:
        assert said == f"{found['size']} (95% interval: {found['least']} to {found['most']})"
        bytes_of = {name: float(text.removesuffix(" B")) for name, text in found.items()}
        assert size[0] < bytes_of["least"] <= bytes_of["size"] <= bytes_of["most"] < size[1]
    shown = decision.crossings(data, {"there": data}, "flat")
    of_mix = {mix: decision.crossing(data, "flat", "process", mix) for mix in decision.SAFE}
    assert shown.to_dict("records") == [
        {"mix": mix, "level": "process", "size": decision.crossing_said(own), "there": own["size"]}
        for mix, own in of_mix.items()
    ]


def test_a_crossing_of_one_trial_has_no_interval(make: Make) -> None:
    other = {"sqlite": evenly(1)}
    data = make(
        {"flat": evenly(4)} | other,
        trials={"100 B": 1, "1 KiB": 1},
        larger={"flat": evenly(1)} | other,
    )
    found = decision.crossing(data, "flat", "process")
    assert found["size"] == decision.crossing_said(found) != decision.NO_SIZE
    assert found["least"] == found["most"] == ""
    assert decision.crossing(data, "lmdb", "process")["size"] == ""


def test_how_often_the_best_store_of_a_trial_is_that_of_the_next(make: Make) -> None:
    """Times differ by 2% from trial to trial: far less than a factor of 3, and than CLOSE."""
    apart = {"lmdb": evenly(1), "leveldb": evenly(3)}
    assert advice.repeats(make(apart)) == {"again": "100%"}
    assert advice.repeats(make(apart, trials={"100 B": 1, "1 KiB": 1})) == {}


def test_what_becomes_of_the_fastest_store_in_other_places(make: Make) -> None:
    """It may be overtaken, stay the fastest, or be missing; one trial has no interval."""
    slow, fast = (
        {"lmdb": evenly(3), "leveldb": evenly(1)},
        {"lmdb": evenly(1), "leveldb": evenly(3)},
    )
    places = {
        "XFS": make(slow, larger=fast),
        "Btrfs": make(slow, trials={"100 B": 1, "1 KiB": 1}),
        "own": make(slow, without={"lmdb": "1 KiB"}),
    }
    found = decision.elsewhere(make(fast), places).set_index(["values", "records"])
    assert set(found.level) == {"process"} and set(found["main grid"]) == {"lmdb"}
    assert found.index.tolist() == [(s, n) for s in ("100 B", "1 KiB") for n in ("100", "10 k")]
    small, large = found.loc["100 B"].iloc[0], found.loc["1 KiB"].iloc[0]
    assert large.XFS == "the same" and large.own == ""
    overtaken = re.fullmatch(r"leveldb; lmdb: (\S+), (\S+) to (\S+)", small.XFS)
    assert overtaken
    regret, low, high = map(float, overtaken.groups())
    assert low <= 3 <= high and regret == pytest.approx(3, rel=0.02)
    assert re.fullmatch(r"leveldb; lmdb: [\d.]+", large.Btrfs)
