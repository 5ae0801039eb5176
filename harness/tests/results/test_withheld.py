"""Times are adjusted to no processor time withheld, if trials show by how much it slows them."""

import numpy as np
import pandas as pd
import pytest
from kvbench.results.withheld import SAME, slowed
from kvbench.stats.regret import rank

SLOPE = 4.0


def rows(stores: int, fields: int, trials: int, slope: float = SLOPE, unlike: float = 0.0):  # type: ignore[no-untyped-def]
    """Synced updates, which slow down by the share of time withheld; stores differ in how much.
    The true log of a store's time is its number over 5."""
    random = np.random.default_rng(stores * fields * trials)
    own = slope + unlike * random.standard_normal(stores)
    table = pd.DataFrame(
        {
            "full_name": f"s{store}", "records": field, "trial": trial, "operation": "update",
            "durability": "sync", "stolen": random.exponential(0.08),
            "log": store / 5 + 0.05 * random.standard_normal(),
            "slope": own[store],
        }
        for store in range(stores) for field in range(fields) for trial in range(1, trials + 1)
    )  # fmt: skip
    for name in SAME:
        if name not in table:
            table[name] = ""
    return table.assign(mean_ns=np.exp(table.log + table.slope * table.stolen))


def deviation(table: pd.DataFrame, values: "pd.Series[float]") -> float:
    logs = np.log(values)
    inside = logs - logs.groupby([table.full_name, table.records]).transform("mean")
    return float(inside.std())


def test_what_the_host_withheld_no_longer_scatters() -> None:
    table = rows(13, 10, 3, unlike=0.3)
    found = table.mean_ns / slowed(table)
    assert deviation(table, table.mean_ns) > 0.2 and deviation(table, found) < 0.06
    means = np.log(found).groupby(table.full_name).mean()
    assert means.to_numpy() == pytest.approx(means.index.str[1:].astype(int) / 5, abs=0.06)


def test_intervals_after_it_hold() -> None:
    """Stores that differ in how much the host slows them: the other half of the error."""
    wrong = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        table = rows(8, 10, 5, unlike=0.3).sample(frac=1, random_state=seed)
        table["stolen"] = random.permutation(table.stolen.to_numpy())
        noise = 0.05 * random.standard_normal(len(table))
        table["mean_ns"] = np.exp(
            table.full_name.str[1:].astype(int) / 5 + noise + table.slope * table.stolen
        )
        field = table.assign(mean_ns=table.mean_ns / slowed(table)).query("records == 3")
        values = {
            str(store): dict(zip(own.trial, own.mean_ns, strict=True))
            for store, own in field.groupby("full_name")
        }
        found = rank(values).regrets
        wrong += any(
            not own.low <= np.exp(int(store[1:]) / 5) <= own.high for store, own in found.items()
        )
    assert wrong <= 5


@pytest.mark.parametrize(
    "table",
    [rows(13, 10, 3, slope=0), rows(2, 2, 5), rows(13, 10, 3).assign(stolen=0.0),
     rows(13, 10, 3).assign(stolen=np.nan), rows(13, 10, 1), rows(13, 10, 3, slope=-SLOPE)],
    ids=["no effect", "few trials", "nothing withheld", "not known", "one trial", "faster"],
)  # fmt: skip
def test_times_stay_as_they_are(table: pd.DataFrame) -> None:
    assert (slowed(table) == 1).all()


def test_each_level_and_operation_has_a_slope_of_its_own() -> None:
    both = [rows(13, 10, 3), rows(13, 10, 3, slope=1.0).assign(operation="get")]
    table = pd.concat(both, ignore_index=True)
    found = np.log(slowed(table)) / table.stolen
    means = found.groupby(table.operation).mean()
    assert means.to_dict() == pytest.approx({"update": 4, "get": 1}, rel=0.1)


def test_one_store_has_its_own_slope() -> None:
    table = rows(1, 20, 5)
    assert deviation(table, table.mean_ns / slowed(table)) < 0.06


def test_missing_times_are_left_alone() -> None:
    table = rows(13, 10, 3)
    table.loc[::7, "mean_ns"] = np.nan
    found = slowed(table)
    assert (found[table.mean_ns.isna()] == 1).all() and (found[table.mean_ns.notna()] > 1).all()
