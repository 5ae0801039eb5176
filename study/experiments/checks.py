"""What an engine's own checks for damage cost: its times with them over those without them."""

from typing import Any

import pandas as pd
from kvbench.cell.factors import DEFAULT, OPERATIONS

from study.common import formats, levels
from study.common.fields import each
from study.common.results import Results

SHIPPED, CHANGED = "as shipped", ("on", "off")  # the labels of harness/grids/checks.toml
BY = ["store", "checks", "operation", "memory"]


def costs(data: Results) -> pd.DataFrame:
    """Return levels.ratios() of each label of CHANGED and SHIPPED, by BY; `checks` is that label.
    Above 1, the changed checks take longer than those as shipped. Raises BadInput if no store was
    measured both ways."""
    rows = data.operations[data.operations.operation.isin(OPERATIONS)]
    found = pd.concat(
        levels.ratios(rows.assign(checks=level), BY, "label", level, SHIPPED) for level in CHANGED
    )
    data.require(found, "store with its checks on or off")
    return found


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios as text: one row per store, label and operation, one column per budget for
    the engine's own memory."""
    shown = found.assign(text=[levels.ratio_text(row) for row in each(found)])
    wide = shown.pivot(index=BY[:3], columns="memory", values="text")
    budgets = {
        level: "as shipped" if level == DEFAULT else f"{level} for caches and buffers"
        for level in wide
    }
    return wide.rename(columns=budgets).rename_axis(columns=None).reset_index()


def facts(found: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the ratio of a get with each of the two budgets, `small` and `shipped`,
    by store and label; the small budget; the trials; and the stores whose intervals include 1 with
    their checks off."""
    gets = found[found.operation == "get"]
    small = gets.memory[gets.memory != DEFAULT]
    texts: dict[str, Any] = {}
    for row in each(gets):
        budget = "shipped" if row.memory == DEFAULT else "small"
        of_store = texts.setdefault(row.store.replace("-", "_"), {})
        of_store.setdefault(row.checks, {})[budget] = levels.ratio_text(row)
    off = gets[gets.checks == "off"]
    differs = set(off.store[(off.low > 1) | (off.high < 1)])
    same = formats.listed([store for store in off.store.unique() if store not in differs], "and")
    return texts | {"small": small.iloc[0], "trials": int(gets.n.max()), "same": same}
