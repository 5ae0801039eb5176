"""Our build of each engine compared with the distribution's: the cost of the latter."""

from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.factors import OPERATIONS
from kvbench.experiment.factors import NOT_STATED
from kvbench.stores.about import DISTRIBUTED

from study.common import levels
from study.common.fields import each
from study.common.results import Results

CURRENT, PACKAGED = "current release", "distribution's build"
BY = ["store", "operation", "record_size"]


def both(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the engines that were measured in two builds, with their columns. `store`
    is the engine, and the further column `build` is CURRENT or PACKAGED."""
    second = rows.store.str.endswith(DISTRIBUTED)
    found = rows.assign(
        store=rows.store.str.removesuffix(DISTRIBUTED), build=np.where(second, PACKAGED, CURRENT)
    )
    return found[found.groupby("store").build.transform("nunique") == 2]


def versions(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per engine, `store`, with the version and the origin of each build in the
    columns CURRENT and PACKAGED."""
    found = both(cells).groupby(["store", "build"]).engine_version.first().unstack()
    return found.reindex(columns=[CURRENT, PACKAGED]).reset_index()


def timed(data: Results) -> pd.DataFrame:
    """Return both() of the rows of single operations. Raises BadInput if there are none."""
    rows = both(data.operations[data.operations.operation.isin(OPERATIONS)])
    data.require(rows, "engine in two builds")
    return rows


def times(data: Results) -> pd.DataFrame:
    """Return the over_trials() summary of the mean time in µs, by engine and build, with one panel
    per operation and record size."""
    rows = timed(data)
    return levels.times(rows, rows.operation + ", " + rows.record_size, "build")


def panels(data: Results) -> list[str]:
    rows = timed(data)
    found = [name for name in OPERATIONS if name in set(rows.operation)]
    return [f"{name}, {size}" for name in found for size in data.sizes()]


def costs(data: Results) -> pd.DataFrame:
    """Return levels.ratios() of the distribution's build and the current one, by BY. Above 1, the
    distribution's build is slower."""
    return levels.ratios(timed(data), BY, "build", PACKAGED, CURRENT)


def table(found: pd.DataFrame, data: Results) -> pd.DataFrame:
    """Return the ratios as text: one row per engine and operation, one column per record size."""
    shown = {
        (row.store, row.operation, row.record_size): levels.ratio_text(row) for row in each(found)
    }
    return pd.DataFrame(
        {"store": store, "operation": name}
        | {size: shown.get((store, name, size), NOT_STATED) for size in data.sizes()}
        for store in data.stores()
        for name in OPERATIONS
        if any(key[:2] == (store, name) for key in shown)
    )


def facts(found: pd.DataFrame) -> dict[str, Any]:
    """Return, for the text, the least and the greatest ratio of each engine, the number of its
    rows, and in how many of them the distribution's build is surely slower."""
    return {
        str(store): {
            "least": f"{rows['median'].min():.2f}",
            "most": f"{rows['median'].max():.2f}",
            "rows": len(rows),
            "packaged_slower": int((rows.low > 1).sum()),
        }
        for store, rows in found.groupby("store")
    }
