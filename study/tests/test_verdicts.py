"""Verdicts follow from the data, and change with them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from support import ROOT

from study.common.fields import written
from study.sources import claims, verdicts
from study.sources.leveldb_2011.claims import kills
from study.sources.verdicts import FAILS, HOLDS, OPEN, SCOPE, Claim, Limit, levels, ratio, side

DATA = ROOT / "data"
CLAIMS = claims.everything()


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    evidence = DATA / "durability" / "evidence.csv"
    return verdicts.load({name: DATA / name for name in claims.EXPERIMENTS}, evidence)


@pytest.fixture(scope="module")
def table(data: pd.DataFrame) -> pd.DataFrame:
    return verdicts.judge(CLAIMS, data).set_index("id")


def test_every_claim_has_a_verdict_or_a_reason(table: pd.DataFrame) -> None:
    assert len(table) >= 40
    assert table.index.is_unique
    for column in ("source", "place", "claim", "predicate"):
        assert (table[column].str.len() > 0).all()
    for settings in ("source", "equal"):
        verdict, value, low, high, trials, why = (
            table[f"{settings}_{name}"]
            for name in ("verdict", "value", "low", "high", "trials", "why")
        )
        assert set(verdict) <= {HOLDS, FAILS, OPEN, SCOPE}
        unjudged = ("measured on 2 processors, the claim needs", "the source does all of them in")
        shown = why.str.startswith(unjudged)
        assert (value.isna() == ((verdict == SCOPE) & ~shown)).all()
        decided = verdict.isin([HOLDS, FAILS])
        assert (trials[decided] > 1).all()
        slack = 1 + 1e-9
        assert (low <= slack * value)[decided].all() and (value <= slack * high)[decided].all()
        assert (why.str.len() > 0)[~decided].all()
    sources = {"leveldb2011", "rocksdb2013", "lmdb2014", "hines2023", "sqlite35", "tidesdb2026"}
    assert sources <= set(table.source)


def test_the_committed_table_is_the_computed_one(table: pd.DataFrame) -> None:
    text = table.reset_index().to_csv(index=False, float_format="%.6g")
    assert (DATA / "verdicts" / "verdicts.csv").read_text() == text


def exchanged(data: pd.DataFrame, experiment: str, one: str, other: str) -> pd.DataFrame:
    """The data with the measurements of two stores exchanged."""
    own = data.experiment == experiment
    names = data.store.where(~own, data.store.replace({one: other, other: one}))
    return data.assign(store=names)


def swapped(data: pd.DataFrame, one: verdicts.Side, other: verdicts.Side) -> pd.DataFrame:
    """The data with the times of two sides exchanged; the sides differ in their settings."""
    found = data.copy()
    for trial in one.rows(data).index:
        cells = [side_.rows(data).cell[trial] for side_ in (one, other)]
        first, second = (
            data.index[(data.cell == cell) & (data.operation == side_.operation)]
            for cell, side_ in zip(cells, (one, other), strict=True)
        )
        found.loc[first, "ns"] = data.ns[second].to_numpy()
        found.loc[second, "ns"] = data.ns[first].to_numpy()
    return found


def measured(**stores: tuple[float, ...]) -> pd.DataFrame:
    """Gets of each store: the mean time of each trial."""
    return pd.DataFrame(
        [
            {
                **{"experiment": "e", "store": store, "operation": "get", "trial": trial, "ns": ns},
                **{"durability": "default", "memory": "default", "compression": "default"},
                **{"options": "", "memory_max": "none", "workload": "rounds", "key_size": 16},
                **{"place": "disk", "status": "ok", "reason": "", "records": 10, "cpu": 1.0},
                **{"guarantee": "process", "live_bytes": 1, "memory_of_machine": 100},
                **{"amplification": 1.0, "written_by": "device", "syncs_per_write": 0.0},
                **{"resident": 1.0},
                **{"record_size": "1 KiB", "compressibility": "compressible"},
            }
            for store, times in stores.items()
            for trial, ns in enumerate(times, start=1)
        ]
    )


SLOWER = ratio(side("e", "slow", "get"), side("e", "fast", "get"))
FASTER = Claim("x", "s", "1", "fast is faster", SLOWER, "none", Limit(">", 1))


def test_exchanging_two_stores_reverses_the_verdict() -> None:
    """A claim that is replicated is contradicted after the exchange. If the trials disagree it is
    inconclusive; if one store was not measured it is out of scope."""
    rows = measured(fast=(100, 110, 130), slow=(300, 330, 390))
    before = verdicts.judge([FASTER], rows).iloc[0]
    after = verdicts.judge([FASTER], exchanged(rows, "e", "fast", "slow")).iloc[0]
    assert (before.source_verdict, after.source_verdict) == (HOLDS, FAILS)
    assert before.source_value == pytest.approx(3)
    assert after.source_value == pytest.approx(1 / 3)
    assert before.equal_verdict == SCOPE
    lost = verdicts.judge([FASTER], rows[rows.store == "fast"]).iloc[0]
    assert (lost.source_verdict, lost.source_why) == (SCOPE, "slow: not measured")
    noisy = rows.assign(ns=np.where(rows.trial == 2, 400.0 - rows.ns, rows.ns))
    unsure = verdicts.judge([FASTER], noisy).iloc[0]
    assert unsure.source_verdict == OPEN
    assert unsure.source_why.startswith("the interval includes the limit")


def test_a_reason_names_who_counted_the_bytes_and_what_was_not_warm() -> None:
    rows = measured(fast=(100, 110), slow=(300, 330)).replace({"operation": {"get": "insert"}})
    claim = Claim("x", "s", "1", "", ratio(*(side("e", s, "insert") for s in ("slow", "fast"))),
                  None, Limit(">", 1))  # fmt: skip
    rows["resident"] = np.where(rows.store == "slow", 0.5, 1.0)
    slow, fast = verdicts.judge([claim], rows).source_why[0].split("; ")
    for why in (slow, fast):
        assert "1.0 B written a byte (device)" in why
    assert "only 50% of its files in the page cache" in slow
    assert "page cache" not in fast


@pytest.mark.parametrize(
    ("options", "said"),
    [("", "1 syncs a write, "), ("x=on", "1 syncs a write without its options")],
)
def test_a_reason_says_that_syncs_were_counted_without_the_options(options: str, said: str) -> None:
    rows = measured(fast=(100, 110)).assign(operation="insert", options=options, syncs_per_write=1)
    claim = Claim("x", "s", "1", "", verdicts.value(side("e", "fast", "insert"), "ns", "time"),
                  None, Limit(">", 105))  # fmt: skip
    assert said in verdicts.judge([claim], rows).source_why[0]


def test_bytes_are_counted_by_the_device_else_by_write_calls() -> None:
    rows = pd.DataFrame(
        {
            "device_write_bytes": [8, np.nan, np.nan, np.nan],
            "wchar": [5, 4, np.nan, np.nan],
            "write_bytes": [7, 6, 3, np.nan],
        }
    )
    found = written(rows)
    assert found.written.fillna(-1).tolist() == [8, 4, 3, -1]
    assert found.written_by.tolist() == ["device", "write calls", "storage layer", ""]


def test_what_differs_from_the_claim_is_shown_but_not_judged() -> None:
    rows = measured(fast=(100, 110, 130), slow=(300, 330, 390))
    claim = dataclasses.replace(FASTER, unlike="ours has two transactions")
    row = verdicts.judge([claim], rows).iloc[0]
    assert row.source_verdict == row.equal_verdict == SCOPE
    assert row.source_value == pytest.approx(3)
    assert row.source_why.startswith("ours has two transactions; ")


@pytest.mark.parametrize(("processors", "verdict"), [(2, HOLDS), (3, SCOPE)])
def test_on_too_few_processors_a_figure_is_shown_but_not_judged(
    processors: int, verdict: str
) -> None:
    rows = measured(fast=(100, 110, 130), slow=(300, 330, 390)).assign(processors=2)
    claim = dataclasses.replace(FASTER, processors=processors)
    row = verdicts.judge([claim], rows).iloc[0]
    assert row.source_verdict == verdict
    assert row.source_value == pytest.approx(3)


def test_one_trial_decides_nothing() -> None:
    row = verdicts.judge([FASTER], measured(fast=(100,), slow=(9000,))).iloc[0]
    assert (row.source_verdict, row.source_value, row.source_trials) == (OPEN, 90, 1)
    assert np.isnan(row.source_low) and np.isnan(row.source_high)
    assert row.source_why.startswith("one trial has no interval")


def test_two_trials_that_agree_do_not_yet_decide() -> None:
    """Student's t has one degree of freedom: 12.7 standard errors."""
    row = verdicts.judge([FASTER], measured(fast=(100, 100), slow=(150, 170))).iloc[0]
    assert row.source_verdict == OPEN
    assert row.source_low < 1 < row.source_value


@pytest.mark.check
def test_a_claim_that_holds_is_contradicted_in_no_more_than_5_of_100_experiments() -> None:
    """Right on the limit, either verdict is wrong."""
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        slow, fast = 100 * np.exp(0.2 * random.standard_normal((2, 5)))
        row = verdicts.judge([FASTER], measured(fast=tuple(fast), slow=tuple(slow))).iloc[0]
        wrong += row.source_verdict != OPEN
    assert wrong <= 0.05 * 400 + 10


GRID = verdicts.levels("e", "store", ("slow", "fast", "other"), "all")


@pytest.mark.parametrize(("least", "verdict"), [(0.5, OPEN), (-0.1, HOLDS)])
def test_trials_that_agree_leave_a_share_uncertain_by_one_field(least: float, verdict: str) -> None:
    """Here the one field is all: the share may be 0 as well as 1."""
    rows = measured(fast=(100, 110), slow=(300, 330), other=(400, 400))
    claim = Claim("x", "s", "1", "", verdicts.share(GRID, ["fast"]), None, Limit(">", least))
    row = verdicts.judge([claim], rows).iloc[0]
    assert (row.source_value, row.source_low, row.source_high) == (1, 0, 1)
    assert row.source_verdict == verdict


@pytest.mark.parametrize(
    ("store", "place", "value"),
    [("fast", 1, 3.0), ("slow", 1, 1 / 3), ("slow", 2, 2.0), ("other", 2, 0.5)],
)
def test_a_place_is_told_by_the_store_that_has_it(store: str, place: int, value: float) -> None:
    rows = measured(fast=(100, 100), slow=(300, 300), other=(600, 600))
    claim = Claim("x", "s", "1", "", verdicts.ahead(GRID, store, place), None, Limit(">", 1))
    row = verdicts.judge([claim], rows).iloc[0]
    assert row.source_value == pytest.approx(value)
    assert row.source_verdict == (HOLDS if value > 1 else FAILS)


@pytest.mark.parametrize(
    ("store", "value"), [("fast", 1 / 3), ("slow", 2.0), ("other", 0.5), ("slower", 1 / 3)]
)
@pytest.mark.parametrize("largest", [False, True])
def test_a_place_alone_is_neither_passed_nor_missed(
    store: str, value: float, largest: bool
) -> None:
    rows = measured(fast=(100, 100), slow=(300, 300), other=(600, 600), slower=(900, 900))
    column = "rate" if largest else "ns"
    rows["rate"] = 1 / rows.ns
    grid = levels("e", "store", ("slow", "fast", "other", "slower"), "all", column)
    claim = Claim(
        "x", "s", "1", "", verdicts.ahead(grid, store, 2, alone=True), None, Limit(">", 1)
    )
    row = verdicts.judge([claim], rows).iloc[0]
    assert row.source_value == pytest.approx(value)
    assert row.source_verdict == (HOLDS if store == "slow" else FAILS)


def test_a_place_is_published_as_it_is_measured() -> None:
    printed = {claim.id: claim.published for claim in CLAIMS}
    names = ["M-2-read-lmdb", "M-2-read-leveldb", "M-2-load-wiredtiger-btree", "M-2-load-bdb"]
    assert [printed[name] for name in names] == ["1.93", "0.39", "1.21", "0.535"]


@pytest.mark.parametrize(("survived", "verdict"), [(0, FAILS), (5, OPEN)])
def test_kills_that_agree_leave_the_share_uncertain_by_one_of_them(
    survived: int, verdict: str
) -> None:
    rows = measured(fast=(100, 110)).assign(crashes=5, survived_kill=survived)
    claim = Claim("x", "s", "1", "", kills(side("e", "fast", "get")), None, Limit(">=", 1))
    row = verdicts.judge([claim], rows).iloc[0]
    assert (row.source_verdict, row.source_trials) == (verdict, 5)
    assert row.source_high - row.source_low == pytest.approx(0.2)


@pytest.mark.parametrize(("slow", "verdict"), [((90, 90, 300), HOLDS), ((90, 90, 90), OPEN)])
def test_what_can_happen_is_shown_by_one_trial_and_refuted_by_none(
    slow: tuple[float, ...], verdict: str
) -> None:
    claim = dataclasses.replace(FASTER, limit=Limit(">", 2, once=True))
    row = verdicts.judge([claim], measured(fast=(100, 100, 100), slow=slow)).iloc[0]
    assert row.source_verdict == verdict


def test_a_trial_without_a_finite_figure_is_left_out() -> None:
    row = verdicts.judge([FASTER], measured(fast=(100, 0, 110), slow=(300, 330, 330))).iloc[0]
    assert (row.source_trials, row.source_verdict) == (2, HOLDS)


def test_effects_stand_beside_the_published_ratios() -> None:
    claim = dataclasses.replace(FASTER, published="3 and 2.5")
    words = dataclasses.replace(FASTER, id="y", published="1.5 to 1,000,000")
    rows = measured(fast=(100, 110), slow=(300, 330))
    found = verdicts.effects(verdicts.judge([claim, words], rows))
    assert found.printed.tolist() == [3, 2.5]
    assert found.source_value.tolist() == pytest.approx([3, 3])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(">", 1), "> 1"),
        (Limit(">", 2), "> 2, threshold ours"),
        (Limit("<=", 1.6, theirs=True), "<= 1.6"),
        (Limit("within", 1, 1.1), "from 0.909 to 1.1, threshold ours"),
        (Limit("within", 9000, 1.1), "from 8,182 to 9,900, threshold ours"),
    ],
)
def test_a_limit_says_whose_threshold_it_is(limit: Limit, said: str) -> None:
    assert str(limit) == said


@pytest.mark.parametrize(
    ("column", "best"), [("ns", 1), ("space", 1), ("efficiency", 3), ("longest_share", 3)]
)
def test_the_best_level_of_other_factors_counts(column: str, best: int) -> None:
    """The least time or space counts, but the largest efficiency and the longest stall."""
    rows = pd.concat(
        measured(a=(1,)).assign(compression=level, **{column: value})
        for level, value in (("none", 1), ("default", 3))
    )
    found = levels("e", "store", ["a"], "all", column).table(rows)
    assert found["a"].tolist() == [best]


def test_rows_with_all_levels_of_some_factors_are_left_out() -> None:
    rows = pd.concat([measured(a=(1,), b=(3,)), measured(a=(2,)).assign(compression="none")])
    plain = levels("e", "store", ["a", "b"], "all", but={"store": "a", "compression": "default"})
    assert plain.table(rows).to_numpy().tolist() == [[2, 3]]


def test_fields_whose_cells_failed_say_why() -> None:
    rows = measured(fast=(100, 110), slow=(300,), other=(400,))
    failed = rows.store == "slow"
    rows.loc[failed, ["status", "operation"]] = "failed", None
    rows.loc[failed, "reason"] = "needs more memory than its cap"
    claim = Claim("x", "s", "1", "", verdicts.share(GRID, ["fast"]), None, Limit(">", 0.5))
    row = verdicts.judge([claim], rows).iloc[0]
    assert (row.source_verdict, row.source_trials) == (verdicts.SCOPE, 0)
    assert "slow not measured (needs more memory than its cap)" in row.source_why


def chosen(*names: str) -> list[Claim]:
    found = [claim for claim in CLAIMS if claim.id in names]
    assert len(found) == len(names)
    return found


PAIRS = [
    ("lmdb-2014", "lmdb", "leveldb", ["M-2-read-lmdb", "M-2-read-leveldb", "M-2-load-lmdb"]),
    ("files-or-store", "bdb", "sqlite", ["F-5.6-best", "F-5.3-worst", "F-5.1-tiny-bdb"]),
    ("claims-2026", "rocksdb", "redb", ["T-13", "T-14", "T-19"]),
]


@pytest.mark.parametrize(("experiment", "one", "other", "concerned"), PAIRS)
def test_exchanging_two_stores_in_the_data_changes_the_verdicts_concerned(
    data: pd.DataFrame,
    table: pd.DataFrame,
    experiment: str,
    one: str,
    other: str,
    concerned: list[str],
) -> None:
    turned = exchanged(data, experiment, one, other)
    after = verdicts.judge(chosen(*concerned), turned).set_index("id")
    for name in concerned:
        assert after.source_value[name] != pytest.approx(table.source_value[name]), name
    assert any(after.source_verdict[name] != table.source_verdict[name] for name in concerned)
    others = [claim for claim in CLAIMS if claim.id.startswith("S-")]
    same = verdicts.judge(others, turned).set_index("id")
    assert same.source_verdict.equals(table.source_verdict[same.index])


def test_verdicts_on_space_do_not_depend_on_times(data: pd.DataFrame, table: pd.DataFrame) -> None:
    own = [claim for claim in CLAIMS if "-space" in claim.id and "-time" not in claim.id]
    timeless = verdicts.judge(own, data.assign(ns=np.nan)).set_index("id")
    assert len(timeless) > 5
    assert timeless.equals(table.loc[timeless.index])


@pytest.mark.parametrize("name", ["L-1.C-sqlite", "L-1.D-sqlite", "L-1.A-treedb", "L-2.B-order"])
def test_exchanging_the_sides_of_a_ratio_inverts_it(
    data: pd.DataFrame, table: pd.DataFrame, name: str
) -> None:
    (claim,) = chosen(name)
    assert not isinstance(claim.source, str)
    above, below = claim.source.sides
    after = verdicts.judge([claim], swapped(data, above, below)).iloc[0]
    assert after.source_low == pytest.approx(1 / table.source_high[name])
    assert after.source_high == pytest.approx(1 / table.source_low[name])
    if name != "L-2.B-order":  # a limit of 1
        opposite = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
        assert after.source_verdict == opposite[table.source_verdict[name]]


BAND = Limit("within", 2, 2)  # from 1 to 4


@pytest.mark.parametrize(
    ("limit", "low", "high", "verdict"),
    [
        (Limit(">", 1), 1.5, 2, HOLDS),
        (Limit(">", 1), 1, 1, FAILS),
        (Limit(">", 1), 1, 2, OPEN),
        (Limit("<=", 2), 1, 2, HOLDS),
        (Limit("<=", 2), 2.1, 3, FAILS),
        (Limit("<=", 2), 2, 3, OPEN),
        (BAND, 1, 4, HOLDS),
        (BAND, 1.5, 2, HOLDS),
        (BAND, 0.5, 0.9, FAILS),
        (BAND, 4.1, 9, FAILS),
        (BAND, 0.5, 1.5, OPEN),
        (BAND, 3, 9, OPEN),
        (BAND, 0.5, 9, OPEN),
    ],
)
def test_a_limit_decides_only_an_interval_that_lies_on_one_side(
    limit: Limit, low: float, high: float, verdict: str
) -> None:
    assert limit.verdict(low, high) == verdict
