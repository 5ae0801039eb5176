"""What an engine's own checks for damage cost: the ratio of its times with and without them."""

from typing import Any

import pandas as pd
from kvbench.cell.factors import OPERATIONS

from study.common import levels
from study.common.fields import each
from study.common.results import Results

SHIPPED, CHANGED = "as shipped", ("on", "off")  # the labels of harness/grids/checks.toml
BY = ["store", "operation", "record_size"]


def costs(data: Results) -> pd.DataFrame:
    """Return levels.ratios() of each of CHANGED and SHIPPED, by `checks`, `store`, `operation` and
    `record_size`. Above 1, the checks that were changed take longer than those as shipped. Raises
    BadInput if nothing was measured both ways."""
    rows = data.operations[data.operations.operation.isin(OPERATIONS)]
    found = pd.concat(
        levels.ratios(rows, BY, "label", level, SHIPPED).assign(checks=level) for level in CHANGED
    )
    data.require(found, "store with its checks on or off")
    return found


def table(found: pd.DataFrame, data: Results) -> pd.DataFrame:
    """Return the ratios of gets and updates as text: one row per store, level of checks and
    operation, one column per record size."""
    shown = {
        (row.store, row.checks, row.operation, row.record_size): levels.ratio_text(row)
        for row in each(found)
    }
    rows = dict.fromkeys(key[:3] for key in shown)
    return pd.DataFrame(
        {"store": store, "checks": checks, "operation": operation}
        | {size: shown.get((store, checks, operation, size), "") for size in data.sizes()}
        for store, checks, operation in sorted(
            rows, key=lambda row: (data.stores().index(row[0]), row)
        )
    )


def facts(found: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the least and the greatest ratio of a get over all record sizes, for
    each store and level of checks."""
    gets = found[found.operation == "get"]
    said: dict[str, Any] = {}
    for (store, checks), own in gets.groupby(["store", "checks"]):
        ends = {"least": f"{own['median'].min():.2f}", "most": f"{own['median'].max():.2f}"}
        said.setdefault(str(store).replace("-", "_"), {})[checks] = ends
    return said
