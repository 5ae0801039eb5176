"""The packages for Python beside an answer of `kvbench advise`, at the guarantee of that answer."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate

from kvbench.answers.advise import Query, basis, common, heaviest, interpolated
from kvbench.answers.report import answer, fields_of, finite, interval, number, rests_on, time
from kvbench.cell.factors import DEFAULT
from kvbench.common.messages import BadInput
from kvbench.results.measured import Measured
from kvbench.stats.regret import by_trial, rank


def beside(folder: Path) -> list[Measured | str]:
    """What was measured from Python, in each of FOLDERS beside a folder of results, or the reason
    why nothing can be said. Of those that do not exist only the last one is named."""
    found = [folder.parent / name for name in FOLDERS]
    there = [own for own in found if (own / "cells.parquet").exists()]
    return list(map(_measured, there)) or [f"there is no {found[-1]}"]


def _measured(folder: Path) -> Measured | str:
    try:
        return Measured.of(folder, "python")
    except BadInput as error:
        return str(error)


def packages(data: list[Measured | str], query: Query) -> dict[str, Any]:
    """The packages at the guarantee of a query: those of the first folder that has some."""
    found = [_packages(own, query) for own in data]
    return next((one for one in found if not one["why"]), found[-1])


def _packages(data: Measured | str, query: Query) -> dict[str, Any]:
    """The packages whose acknowledged writes survive what the query's level says, as plain values:
    each as set to the level or, if it was not, as shipped with that guarantee. They are ranked as
    stores are, by trial, in the fields of Measured on which advise() would rest. `why` is the
    reason if there are none; then the other values are missing."""
    if isinstance(data, str):
        return {"why": data}
    if query.sync_ns is not None:
        return {"why": "nothing is computed for another device"}
    level = query.level
    own = data.rows[(data.rows.guarantee == level) & (data.rows.memory == DEFAULT)]
    as_set = set(own[own.durability == level].store)
    settings = {store: level if store in as_set else DEFAULT for store in set(own.store)}
    why = f"{data.name} has no package at durability {level}"
    if missing := set(query.mix) - set(own.operation):
        why += f" with {', '.join(sorted(missing))}" if settings else ""
        return {"why": why}
    tables = {operation: _logs(data, level, as_set, operation) for operation in query.mix}
    try:
        chosen, grade = basis(common(tables.values()), query)
    except BadInput:
        return {"why": why}
    needs = replace(query.needs, names=tuple(n for n in query.needs.names if n != FROM_C))
    whole = sum(query.mix.values())
    parts = [
        interpolated(tables[name], chosen) * (share / whole) for name, share in query.mix.items()
    ]
    taken = data.memory(DEFAULT, DEFAULT, level, heaviest(chosen))
    taken |= data.memory(level, DEFAULT, "", heaviest(chosen))
    values = {
        store: trials
        for store, trials in by_trial(sum(parts[1:], parts[0]).dropna()).items()
        if not needs.refuses(store, settings[store]) and not needs.exceeds(taken.get(store))
    }
    trials = max((trial for own in values.values() for trial in own), default=0)
    regrets = rank(values, range(1, trials + 1), sittings=data.sittings).regrets
    rows = [
        {
            "store": store,
            "durability": settings[store],
            "verdict": own.verdict,
            "recommended": own.recommended,
            "candidate": own.verdict in ("in", "undecided"),
            "time_ns": math.exp(sum(map(math.log, values[store].values())) / len(values[store])),
            **{name: finite(getattr(own, at)) for name, at in REGRET.items()},
        }
        for store, own in regrets.items()
    ]
    found = {"grade": grade, "rests_on": rests_on(chosen), "trials": trials}
    return found | {"why": "", "data": str(data.name), "guarantee": level, "packages": rows}


FROM_C = "c-interface"  # the need that is none of a program in Python
FOLDERS = ("python-levels", "python")  # set to a level, and as shipped
REGRET = {"regret": "estimate", "low": "low", "high": "high"}


def _logs(data: Measured, level: str, as_set: set[str], operation: str) -> pd.DataFrame:
    """The table of Measured.logs() at a level, with the packages that guarantee it as shipped and
    were not set to it."""
    tables = [data.logs(level, DEFAULT, operation), data.logs(DEFAULT, DEFAULT, operation, level)]
    tables[1] = tables[1][~tables[1].index.get_level_values("store").isin(as_set)]
    return pd.concat([table for table in tables if not table.empty] or tables[:1])


def text(found: Mapping[str, Any], query: Mapping[str, Any]) -> str:
    """The packages as text; `query` is that of the report beside which they stand."""
    if found["why"]:
        return f"from Python: {found['why']}"
    rows = found["packages"]
    known = {name: found[name] for name in ("grade", "rests_on")}
    first, *more = answer({"stores": rows, "computed": False, "query": query} | known)
    head = (
        f"at durability {found['guarantee']}, from {fields_of(found)} of {found['data']}; "
        f"{found['trials']} trials"
    )
    if not rows:
        return "\n".join([f"from Python: {first}", *more, head])
    headers = ("package", "set to", "verdict", "time", "regret", "95% interval")
    cells = [
        (
            row["store"],
            "as shipped" if row["durability"] == DEFAULT else row["durability"],
            row["verdict"], time(row["time_ns"]), number(row["regret"]),
            interval(row["low"], row["high"]),
        )
        for row in rows
    ]  # fmt: skip
    table = tabulate(cells, headers=headers, disable_numparse=True)
    return "\n\n".join(["\n".join([f"from Python: {first}", *more, head]), str(table)])
