"""Each engine as we build it beside the distribution's build of it: what that build costs."""

from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.factors import OPERATIONS
from kvbench.experiment.factors import NOT_STATED
from kvbench.stats.intervals import Points, median_interval
from kvbench.stores.about import DISTRIBUTED

from study.common import levels
from study.common.fields import each
from study.common.results import Results

CURRENT, PACKAGED = "current release", "distribution's build"
BY = ["store", "operation", "record_size"]


def both(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the engines that were measured in two builds: `store` is the engine, `build` says
    which of the two."""
    second = rows.store.str.endswith(DISTRIBUTED)
    found = rows.assign(
        store=rows.store.str.removesuffix(DISTRIBUTED), build=np.where(second, PACKAGED, CURRENT)
    )
    return found[found.groupby("store").build.transform("nunique") == 2]


def versions(cells: pd.DataFrame) -> pd.DataFrame:
    """A row an engine: the version of each build, and where it is from."""
    found = both(cells).groupby(["store", "build"]).engine_version.first().unstack()
    return found.reindex(columns=[CURRENT, PACKAGED]).reset_index()


def timed(data: Results) -> pd.DataFrame:
    rows = both(data.operations[data.operations.operation.isin(OPERATIONS)])
    data.require(rows, "engine in two builds")
    return rows


def times(data: Results) -> pd.DataFrame:
    """The points of the mean time in µs of each engine and build, in a panel for each operation and
    record size."""
    rows = timed(data)
    return levels.times(rows, rows.operation + ", " + rows.record_size, "build")


def panels(data: Results) -> list[str]:
    rows = timed(data)
    found = [name for name in OPERATIONS if name in set(rows.operation)]
    return [f"{name}, {size}" for name in found for size in data.sizes()]


def costs(data: Results) -> pd.DataFrame:
    """The ratio of the times of both builds in a trial, the distribution's over the current one's:
    its median over the trials, and an interval of that, which needs six trials at least. Above 1,
    the distribution's is slower."""
    key = [*BY, "records", "compressibility", "trial", "seed"]
    wide = timed(data).pivot(index=key, columns="build", values="mean_ns").dropna()
    ratios = wide[PACKAGED] / wide[CURRENT]
    none = float("nan")
    found = [
        (*field, *(median_interval(own) if len(own) > 5 else (own.median(), none, none, len(own))))
        for field, own in ratios.groupby(BY)
    ]
    return pd.DataFrame(found, columns=[*BY, *Points._fields])


def table(found: pd.DataFrame, data: Results) -> pd.DataFrame:
    """The ratios as text: a row an engine and operation, a column a record size."""
    text, few = "{0.median:.2f} ({0.low:.2f} to {0.high:.2f})", "{0.median:.2f} (too few trials)"
    shown = {
        (row.store, row.operation, row.record_size): (few if pd.isna(row.low) else text).format(row)
        for row in each(found)
    }
    return pd.DataFrame(
        {"store": store, "operation": name}
        | {size: shown.get((store, name, size), NOT_STATED) for size in data.sizes()}
        for store in data.stores()
        for name in OPERATIONS
        if any(key[:2] == (store, name) for key in shown)
    )


def facts(found: pd.DataFrame) -> dict[str, Any]:
    """For the text: the least and greatest ratio of each engine, its rows, and for how many of them
    the interval says that the distribution's build is slower."""
    return {
        str(store): {
            "least": f"{rows['median'].min():.2f}",
            "most": f"{rows['median'].max():.2f}",
            "rows": len(rows),
            "packaged_slower": int((rows.low > 1).sum()),
        }
        for store, rows in found.groupby("store")
    }
