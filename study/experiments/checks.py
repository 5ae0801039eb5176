"""What an engine's own checks for damage cost: its times with them over those without them."""

from typing import Any

import pandas as pd
from kvbench.cell.factors import DEFAULT, OPERATIONS

from study.common import levels
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
        level: "caches as shipped" if level == DEFAULT else f"caches of {level}" for level in wide
    }
    return wide.rename(columns=budgets).rename_axis(columns=None).reset_index()


def facts(found: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the least and the greatest ratio of a get over the budgets, by store
    and label."""
    said: dict[str, Any] = {}
    for (store, label), own in found[found.operation == "get"].groupby(["store", "checks"]):
        ends = {"least": f"{own['median'].min():.2f}", "most": f"{own['median'].max():.2f}"}
        said.setdefault(str(store).replace("-", "_"), {})[label] = ends
    return said
