"""The data of the explorer: every field that was measured from C or Python, trial by trial."""

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kvbench.answers.needs import MIX, NEEDS, Needs, Observed
from kvbench.answers.regime import FOLDER as BEYOND_MEMORY
from kvbench.answers.regime import steps
from kvbench.answers.report import CAUTIONS, ELSEWHERE, LEGEND, SPACE
from kvbench.cell import factors
from kvbench.cell.factors import (
    COMPRESSIBILITY,
    DEFAULT,
    DURABILITY,
    OPERATIONS,
    RecordSize,
    parse_bytes,
)
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import COMPARED, CONDITION, FACTORS, NOT_STATED
from kvbench.results.frames import Frames, refuse_several, sitting_of
from kvbench.results.importer import GIVEN, MOST_BYTES
from kvbench.results.measured import equal_work
from kvbench.results.warm import SELDOM, WARM, warm
from kvbench.stats.regret import ENOUGH, LOOKS, SITTINGS, look, quantile
from kvbench.stores import catalogue
from kvbench.stores.about import about, consequence

from study.answers import submitted
from study.common.fields import where
from study.common.notebook import root
from study.common.results import Results

# The factors of a field, without the operation. The page asks for them in another order.
FIELD = ["access", "memory", "compressibility", "durability", "record_size", "records"]
WAYS = ("c", "python")
MOST_TRIALS, MOST_STORES = max(LOOKS), 40
DIGITS = 4  # significant digits of a time: no trial repeats more of them
DEVICES = (2e4, 1e5, 1e6, 1e7)  # times of a sync, in ns
FIRST = {  # the page's initial choice; if it was not measured, the nearest one that was
    "access": "c", "memory": DEFAULT, "data": "incompressible", "durability": "process",
    "size": "1 KiB", "records": 10_000, "measure": "mean", "grow": False,
    "needs": [], "stores": [], "ram": "16 GiB",
    "mix": {operation: round(100 * MIX.get(operation, 0)) for operation in OPERATIONS},
}  # fmt: skip
MEASURES = {"mean": "mean_ns", "p99": "p99_ns"}
# The levels of the factors that the page does not offer: warm caches, no cap on memory and so on.
PLAIN = {name: FACTORS[name].default for name in (*COMPARED, "options") if name not in FIELD}
# Columns that must not be mixed in a reader's own results: levels, and facts of the machine.
APART = [
    *(name for name in CONDITION if name not in ("store", "binding")),
    "seed", "access", "machine", *GIVEN["machines"],
]  # fmt: skip
# Limits of a reader's own files, so that none freezes the page; CSV files as for `kvbench import`.
LIMITS = {
    "csv_bytes": MOST_BYTES, "parquet_bytes": 8 * MOST_BYTES, "rows": 100_000,
    "trials": factors.MOST_TRIALS, "stores": MOST_STORES - 1, "fields": 1000,
}  # fmt: skip


def _rounded(value: float) -> float | None:
    return None if pd.isna(value) else float(f"{value:.{DIGITS}g}")


def _order(level: Mapping[str, Any]) -> dict[str, int]:
    """Return the position of each level among those of its factor; the last one if it is not
    stated."""

    def place(name: str, order: Sequence[str]) -> int:
        return [*order, NOT_STATED].index(level[name])

    memory = level["memory"]
    return {
        "access": place("access", WAYS),
        "memory": 0 if memory in (DEFAULT, NOT_STATED) else parse_bytes(memory),
        "data": place("compressibility", COMPRESSIBILITY),
        "durability": place("durability", DURABILITY),
        "size": RecordSize.parse(level["record_size"]).high,
        "records": int(level["records"]),
    }


def _trials(rows: pd.DataFrame, column: str, trials: int) -> dict[str, list[float | None]]:
    """Return, by operation, the value of each trial."""
    found = {}
    for operation, own in rows.groupby("operation", observed=True):
        values = dict(zip(own.trial, own[column], strict=True))
        found[str(operation)] = [
            _rounded(values.get(trial, float("nan"))) for trial in range(1, trials + 1)
        ]
    return found


def _store(rows: pd.DataFrame, cells: pd.DataFrame, trials: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: _trials(rows, column, trials) for name, column in MEASURES.items()
    }
    found["version"] = str(next(iter(cells.engine_version.dropna()), ""))
    found["guarantee"] = str(next(iter(cells.guarantee.dropna()), ""))
    found["memory"] = _rounded(cells.memory_bytes.median())
    syncs = (rows.syncs / rows.n).groupby(rows.operation, observed=True).median()
    found["syncs"] = {str(name): _rounded(value) for name, value in syncs.items() if name != "get"}
    return found


def _last(data: Results) -> int:
    """Return the last trial that may count: of few sittings that of the last look, else that of
    the last sitting that the last look counts."""
    if len(set(data.sittings.values())) < ENOUGH:
        return MOST_TRIALS
    return max(at for at, sitting in data.sittings.items() if sitting <= max(SITTINGS))


def _sittings(data: Results) -> list[int]:
    """Return the sitting of each trial, by its number; 0 for a trial that is missing."""
    return [data.sittings.get(trial, 0) for trial in range(1, _last(data) + 1)]


def equal_space(data: Results | None) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return, by field and store, the space over the live bytes after each record was written once
    and overwritten once. The space after a timed round would not be comparable: rounds end by the
    clock, so a fast store has written more."""
    if data is None:
        return {}
    cells = data.cells[data.cells.workload.map(equal_work)]
    refuse_several(cells, data.folder, [name for name in factors.LEVELS if name not in FIELD])
    ratio = (cells.disk_bytes / cells.live_bytes).groupby(
        [cells[name] for name in [*FIELD, "store"]], observed=True
    )
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    key: Any
    for key, value in ratio.median().items():
        found.setdefault(key[:-1], {})[str(key[-1])] = float(value)
    return found


def fields(
    data: Results, source: int, space: Mapping[tuple[Any, ...], Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Return the fields of an experiment, each with its stores. A store that was not warm is left
    out and named in `cooled`. `space` is the result of equal_space()."""
    rows = data.operations[data.operations.operation.isin(OPERATIONS)]
    rows = rows[rows.store != "null"]  # the harness's own floor
    rows = rows.assign(store=rows.full_name, trial=rows.beside)
    rows = rows[rows.trial <= _last(data)]
    cells = data.cells.assign(store=data.cells.full_name)
    kept = warm(rows, [*FIELD, "operation"])
    known = data.machine.get("sync_p50_us")
    found = []
    for key, own in rows.groupby(FIELD, observed=True):
        level = dict(zip(FIELD, key, strict=True))
        whole, measured = where(kept, **level), where(cells, **level)
        trials = int(own.trial.max())
        found.append(
            {
                **{name: level[name] for name in ("access", "memory", "durability", "records")},
                "data": level["compressibility"],
                "size": level["record_size"],
                "order": _order(level),
                "source": source,
                "trials": trials,
                "sync": None if pd.isna(known) else _rounded(1000 * known),
                "cooled": sorted(set(own.store) - set(whole.store)),
                "stores": {
                    str(store): _store(part, where(measured, store=store), trials)
                    | {"space": _rounded(space.get(key, {}).get(str(store), float("nan")))}
                    for store, part in whole.groupby("store", observed=True)
                },
            }
        )
    return found


def beyond_memory(folder: Path) -> list[dict[str, Any]]:
    """Return what was measured with capped memory, one entry per durability level and ratio of the
    data to the cap: the trials of gets and updates of each store, as kvbench.answers.regime reads
    them. Empty if the folder does not exist."""
    if not (folder / "cells.parquet").exists():
        return []
    rows = steps(Frames.read(folder))
    found = []
    for (level, ratio), own in rows.groupby(["durability", "ratio"], observed=True):
        trials, first, sitting = int(own.trial.max()), own.iloc[0], sitting_of(own)
        found.append(
            {
                "durability": level,
                "ratio": ratio,
                "size": first.record_size,
                "records": int(first.records),
                "cap": first.memory_max,
                "sittings": [sitting.get(trial, 0) for trial in range(1, trials + 1)],
                "stores": {
                    str(store): _trials(part.assign(operation=part.kind), "mean_ns", trials)
                    for store, part in own.groupby("store")
                },
            }
        )
    return found


def looks() -> dict[str, dict[str, Any]]:
    """Return the quantiles of Student's t that kvbench.stats.regret uses, for a field in one of few
    sittings (`trials`) and for one of enough of them (`sittings`): the numbers that count, by the
    number of those planned; and the quantile, by the number that counts, that of those measured and
    that of the stores."""
    return {
        "trials": _looks(LOOKS, range(MOST_TRIALS + 1)),
        "sittings": _looks(SITTINGS, range(ENOUGH, max(SITTINGS) + 1)),
    }


def _looks(known: Mapping[int, float], planned: range) -> dict[str, Any]:
    counted = {number: look(number, known)[0] for number in planned}
    found = {}
    for number in sorted(set(counted.values()) - {0, 1}):
        error = look(number, known)[1]
        found[number] = {
            whole: {
                many: float(f"{quantile(whole, many, error):.6g}") for many in range(2, MOST_STORES)
            }
            for whole in range(2, number + 1)
        }
    return {"counted": counted, "quantiles": found}


def _lacks(name: str, levels: Set[str], observed: Observed) -> dict[str, dict[str, str]]:
    """Return the needs that a store does not meet, with the reason by durability level, or by "" if
    it is the same at all of these levels."""
    found = {}
    for need in NEEDS:
        asked = Needs((need,), observed)
        why = {level: asked.refuses(name, level) for level in sorted(levels)}
        texts = set(why.values())
        if texts != {""}:
            found[need] = why if len(texts) > 1 else {"": texts.pop()}
    return found


def _facts(name: str, guarantee: str, measured: Set[str], observed: Observed) -> dict[str, Any]:
    """Return what is known of a store. `guarantee` is what it guarantees as shipped, `measured` the
    durability levels at which it was measured; of a package for Python, others are left out."""
    store, _, binding = name.partition("/")
    known, facts = catalogue.known().get(name), about(store)
    named = facts.name if facts else store
    levels = {DEFAULT, *measured} if binding else set(DURABILITY)
    lost = {level: consequence(name, level, guarantee) for level in DURABILITY if level in levels}
    found: dict[str, Any] = {
        "name": f"{named} from {binding}" if binding else named,
        "lacks": _lacks(name, {DEFAULT, *DURABILITY}, observed),
        "consequence": {level: text for level, text in lost.items() if text},
    }
    if facts:
        found |= {
            fact: getattr(facts, fact)
            for fact in ("language", "licence", "latest", "processes", "known", "reuses")
        }
    settings = {
        setting.value: setting.means
        for setting in (known.settings if known else ())
        if setting.name == "durability" and setting.means and setting.value in levels
    }
    if known and (settings or not binding):
        found["settings"] = settings
    if name in observed.installed:
        found["installed"] = observed.installed[name]
    return found


def _packages(data: Results) -> set[str]:
    """Return the Python packages that an experiment names, including those it could not measure."""
    own = data.all_cells[(data.all_cells.access == "python") & (data.all_cells.store != "null")]
    return set(own.full_name)


def answers(
    experiments: Mapping[str, Results], mixes: str = "", space: Results | None = None
) -> dict[str, Any]:
    """Return all data that the page needs. If two experiments measured a field, the first one
    counts. `mixes` says in words what is known about sums of operations; `space` is the experiment
    with the space after equal work. What stores do in crashes, with damaged files and with two
    processes is that of the paper's data."""
    paper = root() / "data/reference"
    observed = Observed(paper)
    equal = equal_space(space)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    sources = []
    for at, (name, data) in enumerate(experiments.items()):
        machine = data.facts()
        sources.append(
            f"{name.capitalize()} data: {machine['cpu']}, {machine['cores']} cores, "
            f"{machine['memory']} of memory, {machine['file_system']}, {machine['kernel']}."
        )
        for field in fields(data, at, equal):
            key = tuple(
                field[n] for n in ("access", "memory", "data", "durability", "size", "records")
            )
            found.setdefault(key, field)
    named = sorted(
        {store for field in found.values() for store in (*field["stores"], *field["cooled"])}
        | {package for data in experiments.values() for package in _packages(data)}
    )
    measured = defaultdict(set)
    for field in found.values():
        for store in field["stores"]:
            measured[store].add(field["durability"])
    shipped = {
        store: own["guarantee"]
        for field in found.values()
        if field["durability"] == DEFAULT
        for store, own in field["stores"].items()
    }
    return {
        "fields": list(found.values()),
        "stores": {
            store: _facts(store, shipped.get(store, ""), measured[store], observed)
            for store in named
        },
        "sources": sources,
        "submitted": [submitted.facts(folder) for folder in submitted.folders().values()],
        "sittings": [_sittings(data) for data in experiments.values()],
        "looks": looks(),
        "guarantees": [level for level in DURABILITY if level != DEFAULT],
        "devices": list(DEVICES),
        "beyond": beyond_memory(paper.parent / BEYOND_MEMORY),
        "needs": {name: need.says for name, need in NEEDS.items()},
        "cautions": CAUTIONS,
        "space": SPACE,
        "legend": LEGEND,
        "elsewhere": ELSEWHERE,
        "first": FIRST,
        "plain": PLAIN,
        "apart": APART,
        "warm": WARM,
        "seldom": SELDOM,
        "limits": LIMITS,
        "mixes": mixes,
    }


def text(found: Mapping[str, Any]) -> str:
    """Return the data as JSON that can stand in an HTML page."""
    plain = json.dumps(found, separators=(",", ":"), allow_nan=False, default=_plain)
    return plain.replace("</", "<\\/") + "\n"


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} in the explorer's data")


def load(results: str, others: Mapping[str, str]) -> dict[str, Results]:
    """Return the experiments of the page, from the folders that the notebook's parameters give, and
    at the end those that others submitted. Only cells that were warm, without a cap on memory and
    otherwise at the levels of PLAIN are kept. Raises BadInput."""
    named = {"reference": results} | dict(others)
    found = {name: _plain_levels(name, folder) for name, folder in named.items()}
    for name, folder in submitted.folders().items():
        with contextlib.suppress(BadInput):  # several labels or builds: it is listed, not ranked
            found[name] = _plain_levels(name, str(folder))
    return found


def _plain_levels(name: str, folder: str) -> Results:
    parameter = "results" if name == "reference" else name
    found = Results(folder, WAYS, (*COMPARED, "options"), parameter)
    return found.at(**PLAIN)


def load_space(folder: str) -> Results:
    """Return the experiment that measured the space after equal work."""
    return Results(folder, WAYS, factors.LEVELS, "space")


def coverage(found: Mapping[str, Any], names: list[str]) -> pd.DataFrame:
    """Return which data are in the answers: one row per `experiment`, `access` and `durability`,
    with the numbers of `fields` and, at most in one field, of `stores` and `trials`."""
    rows = [
        {
            "experiment": names[field["source"]],
            "access": "Python" if field["access"] == "python" else "C",
            "durability": field["durability"],
            "stores": len(field["stores"]),
            "trials": field["trials"],
        }
        for field in found["fields"]
    ]
    by = pd.DataFrame(rows).groupby(["experiment", "access", "durability"], sort=False)
    shown = by.agg(fields=("stores", "size"), stores=("stores", "max"), trials=("trials", "max"))
    return shown.reset_index()
