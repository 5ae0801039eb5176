"""The answer for data larger than memory, from the experiment beside a folder of results that
capped all memory of a store."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from kvbench.answers.advise import Query
from kvbench.answers.report import answer, finite, interval, number, time
from kvbench.cell.factors import UNCAPPED, format_bytes, parse_bytes
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.frames import Frames, sitting_of
from kvbench.stats.regret import by_trial, rank

FOLDER = "beyond-memory"  # beside the folder of results
STEP = re.compile(r"mix(?: \d+)? (get|update)")
TUNED = "recommended"  # the label of stores that are set as their documentation recommends
ORDER = "uniform"


def beyond_memory(folder: Path, query: Query, memory: float) -> dict[str, Any] | None:
    """The stores ranked for a query whose values exceed `memory` (B), as plain values; None if they
    do not. `why` is the reason if there is no such answer; then only the ratio stands beside it.

    The answer is that of the measured ratio of data to memory nearest to the query's, on a
    logarithmic scale. Inserts, removes and updates count as updates. A store with settings other
    than those as shipped has their label in its name.
    """
    ratio = query.size * query.records / memory
    if not ratio > 1:
        return None
    found: dict[str, Any] = {"ratio": ratio, "memory": memory, "why": ""}
    beside = folder.parent / FOLDER
    if not (beside / "cells.parquet").exists():
        return found | {"why": f"there is no {beside}"}
    rows = steps(Frames.read(beside))
    rows = rows[rows.durability == query.durability]
    if rows.empty:
        return found | {"why": f"{beside} has no such data at durability {query.durability}"}
    near = min(sorted(rows.ratio.unique()), key=lambda own: abs(math.log(own / ratio)))
    rows = rows[rows.ratio == near]
    shares = _shares(query.mix)
    parts = [
        rows[rows.kind == kind].set_index(["store", "trial"]).mean_ns * share
        for kind, share in shares.items()
    ]
    sums = pd.concat(parts, axis=1).sum(axis=1, skipna=False)
    values = {
        store: trials
        for store, trials in by_trial(sums.dropna()).items()
        if not query.refuses(store.partition(" ")[0])
    }
    planned = range(1, int(rows.trial.max()) + 1)
    regrets = rank(values, planned, sittings=sitting_of(rows)).regrets
    stores = [
        {
            "store": store,
            "verdict": own.verdict,
            "recommended": own.recommended,
            "candidate": own.verdict in ("in", "undecided"),
            "time_ns": math.exp(float(np.mean(np.log(list(values[store].values()))))),
            "regret": finite(own.estimate),
            "low": finite(own.low),
            "high": finite(own.high),
        }
        for store, own in regrets.items()
    ]
    first = rows.iloc[0]
    return found | {
        "data": str(beside), "nearest": near, "trials": rows.trial.nunique(), "stores": stores,
        "record_size": format_bytes(int(first.record_size_min)), "records": int(first.records),
        "cap": first.memory_max,
    }  # fmt: skip


def steps(found: Frames) -> pd.DataFrame:
    """The rows of gets and updates in mixes of one operation, with uniform keys and capped memory:
    the columns of Frames and `kind`, `ratio`, the data over the cap, and `trial`, 1 if missing.
    `store` has the label of settings that are not as shipped."""
    rows = found.operations
    rows = rows.assign(kind=rows.operation.str.extract(f"^{STEP.pattern}$", expand=False))
    capped = ~rows.memory_max.isin([UNCAPPED, NOT_STATED])
    rows = rows[rows.kind.notna() & capped & (rows.key_order == ORDER) & rows.mean_ns.notna()]
    tuned = rows.label.map({TUNED: f" ({TUNED})"}).fillna("")
    return rows.assign(
        store=rows.full_name + tuned,
        trial=rows.trial.fillna(1).astype("int64"),
        ratio=rows.records * rows.record_size_min / rows.memory_max.map(parse_bytes),
    )


def _shares(mix: Mapping[str, float]) -> dict[str, float]:
    """The shares of gets and of all other operations, which count as updates, of a sum of 1."""
    whole = sum(mix.values())
    gets = mix.get("get", 0.0) / whole
    return {kind: share for kind, share in (("get", gets), ("update", 1 - gets)) if share > 0}


def text(found: Mapping[str, Any], query: Mapping[str, Any]) -> str:
    """The answer as text; `query` is that of the report beside which it stands."""
    ratio = number(found["ratio"], "{:,.0f}" if found["ratio"] >= 10 else "{:.2g}")
    size = f"the data are {ratio} times as large as the memory"
    if found["why"]:
        return f"larger than memory: {size}, and {found['why']}"
    rows = found["stores"]
    first, *more = answer({"stores": rows, "computed": False, "query": query})
    some = "s" if found["trials"] != 1 else ""
    head = (
        f"larger than memory: {size}; the stores are those of {number(found['nearest'])} times, "
        f"{found['record_size']} x {found['records']:,} in {found['cap']} of memory "
        f"({found['data']}; {found['trials']} trial{some}); inserts and removes count as updates"
    )
    headers = ("store", "verdict", "time", "regret", "95% interval")
    cells = [
        (
            row["store"], row["verdict"], time(row["time_ns"]), number(row["regret"]),
            interval(row["low"], row["high"]),
        )
        for row in rows
    ]  # fmt: skip
    table = tabulate(cells, headers=headers, disable_numparse=True)
    return "\n\n".join(["\n".join([first, *more, head]), str(table)])
