"""What conditions of a program change: batches, keys, concurrent writers and processes, space after
removal. Each part of the grid `factors` varies one of them."""

from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.workload import PROCESSES, TRAFFIC
from kvbench.experiment.factors import NOT_STATED

from study.common import formats, levels
from study.common.fields import each, over_trials, where
from study.common.results import Results
from study.experiments import threads

BATCHES, KEYS, COMMITS, SHARED = "batches", "keys", "group commit", "processes"
REMOVAL, BACKUP = "removal", "backup"
NO_CALL = "no call"  # of a step that a store has no operation for
BY = ["durability", "store", "operation", "record_size"]
ALONE = "fillrandom batch=1000, backup writers=0"


def part(data: Results, label: str) -> Results:
    """Return the results of one part of the grid. Raises BadInput if there are none."""
    found = data.at(label=label)
    data.require(found.cells, f"cell of the part {label!r}")
    return found


def per_record(data: Results) -> pd.DataFrame:
    """Return the over_trials() summary of the time of an update for each of its records, in µs: one
    panel per durability level, one level per number of records; 0 is a checked update."""
    rows = part(data, BATCHES).operations
    rows = rows[(rows.operation == "update") & (rows["items"] > 0)]
    return levels.points_of(rows, rows.durability, "batch", rows.sum_ns / rows["items"] / 1000)


def _headed(batch: int) -> str:
    return "checked" if batch == 0 else "blind" if batch == 1 else f"{batch:,} records"


def batch_table(data: Results) -> pd.DataFrame:
    """Return the medians of per_record() as text: one row per durability level and store."""
    found = per_record(data)
    numbers = sorted(found.level.unique())
    return pd.DataFrame(
        {"durability": level, "store": store}
        | {
            _headed(number): formats.number(float(own["median"].get(number, np.nan)))
            if number in own.index
            else NOT_STATED
            for number in numbers
        }
        for level in levels.LEVELS
        for store in data.stores()
        if len(own := where(found, panel=level, store=store).set_index("level"))
    )


def _change(rows: pd.DataFrame, column: str, level: Any, than: Any) -> pd.DataFrame:
    """Return the over_trials() summary of the time of a record at one level of a column over that
    at another in the same trial (1), by BY."""
    timed = rows[rows["items"] > 0]
    timed = timed.assign(ns=timed.sum_ns / timed["items"])
    wide = timed.pivot(index=[*BY, "trial"], columns=column, values="ns")
    wide = wide.reindex(columns=[level, than]).dropna()
    ratio = (wide[level] / wide[than]).rename("ratio").reset_index()
    return over_trials(ratio, "ratio", BY)


def _ranged(row: Any) -> str:
    """Return a median as text, with the range if there are several trials."""
    range_ = f" ({row.low:.2f} to {row.high:.2f})" if row.n > 1 else ""
    return f"{row.median:.2f}{range_}"


def batch_facts(data: Results) -> dict[str, Any]:
    """Return, for the text: by how many times the largest batch makes the update of a record
    cheaper at each level, and the time of a checked update over that of a blind one. Each is the
    least and the greatest median over the stores, with their names."""
    rows = where(part(data, BATCHES).operations, operation="update")
    most = int(rows.batch.max())
    found: dict[str, Any] = {"most": f"{most:,}"}
    for level in levels.LEVELS:
        for name, sides in {"cheaper": (1, most), "checked": (0, 1)}.items():
            own = where(_change(rows, "batch", *sides), durability=level).set_index("store")
            found[f"{name}_{level}"] = levels.extremes(own["median"].sort_values(), ".2f", ".3g")
    return found


def key_table(data: Results) -> pd.DataFrame:
    """Return the time with zipfian keys over that with uniform ones, as text with the range of the
    trials: one row per store, one column per operation and record size."""
    found = _zipfian(data)
    shown = {
        (row.store, f"{row.operation}, {row.record_size}"): _ranged(row) for row in each(found)
    }
    heads = list(dict.fromkeys(head for _, head in shown))
    return pd.DataFrame(
        {"store": store} | {head: shown.get((store, head), NOT_STATED) for head in heads}
        for store in data.stores()
        if any(key[0] == store for key in shown)
    )


def _zipfian(data: Results) -> pd.DataFrame:
    rows = part(data, KEYS).operations
    return _change(rows[rows.operation != "load"], "key_order", "zipfian", "uniform")


def key_facts(data: Results) -> dict[str, Any]:
    """Return, for the text, the least and the greatest ratio of each operation over the stores."""
    return {
        str(operation): levels.extremes(
            own.set_index("store")["median"].sort_values(), ".2f", ".2f"
        )
        for operation, own in _zipfian(data).groupby("operation")
    }


def gains(data: Results, label: str) -> pd.DataFrame:
    """Return threads.gains() of the writers of one part: `group commit` or `processes`."""
    step = PROCESSES if label == SHARED else TRAFFIC
    return threads.gains(threads.rows(part(data, label), step))


def gain_table(data: Results, label: str) -> pd.DataFrame:
    """Return the rate over that of one thread or process, as text with the range of the trials: one
    row per kind and store, one column per number."""
    found = gains(data, label)
    shown = {(row.kind, row.store, row.number): _ranged(row) for row in each(found)}
    numbers = sorted(found.number.unique())
    return pd.DataFrame(
        {"what": kind, "store": store}
        | {f"{number}": shown.get((kind, store, number), NOT_STATED) for number in numbers}
        for kind in threads.KINDS
        for store in data.stores()
        if any(key[:2] == (kind, store) for key in shown)
    )


def gain_facts(data: Results, label: str) -> dict[str, Any]:
    """Return, for the text, the stores that gain least and most with the greatest number of
    writers."""
    found = gains(data, label)
    found = found[found.kind.isin(threads.WRITERS)]
    most = int(found.number.max())
    own = where(found[found.store != "null"], number=most).set_index("store")["median"]
    return {"most": most, "writers": levels.extremes(own.sort_values(), ".2f", ".2f")}


def space(data: Results) -> pd.DataFrame:
    """Return the space after each step of the part `removal`, over the bytes of the keys and values
    that were loaded (1): the over_trials() summary by store, record size and step."""
    own = part(data, REMOVAL)
    rows = own.operations[own.operations.disk_bytes.notna()]
    size = rows.records * (rows.key_size + rows.record_size_min)
    return over_trials(
        rows.assign(share=rows.disk_bytes / size), "share", ["store", "record_size", "operation"]
    )


def space_table(data: Results) -> pd.DataFrame:
    """Return the medians of space(), as text: one row per store and record size."""
    found = space(data)
    steps = list(dict.fromkeys(part(data, REMOVAL).operations.operation))
    steps = [step for step in steps if step in set(found.operation)]
    return pd.DataFrame(
        {"store": store, "record size": size}
        | {step: f"{own[step]:.2f}" if step in own.index else NO_CALL for step in steps}
        for size in data.sizes()
        for store in data.stores()
        if len(own := where(found, store=store, record_size=size).set_index("operation")["median"])
    )


def backups(data: Results) -> pd.DataFrame:
    """Return one row per store with a backup, as text: its time and bytes with and without a writer
    beside it, and the writer's 99th percentile meanwhile."""
    own = part(data, BACKUP).operations
    rows = own[own.operation == "backup"]
    rows = rows.assign(ms=rows.sum_ns / 1e6, mib=rows.disk_bytes / 2**20)
    writer = where(own, operation="backup write").set_index("cell").p99_ns
    rows = rows.assign(p99=rows.cell.map(writer) / 1e3)
    found = []
    for store in data.stores():
        both = where(rows, store=store)
        if both.empty:
            continue
        alone, beside = both[both.p99.isna()], both[both.p99.notna()]
        found.append(
            {
                "store": store,
                "alone [ms]": formats.span(alone.ms, 1) or NOT_STATED,
                "beside a writer [ms]": formats.span(beside.ms, 1) or NOT_STATED,
                "copy [MiB]": formats.span(both.mib, 1),
                "writer's p99 [µs]": formats.span(beside.p99, 0) or NOT_STATED,
            }
        )
    return pd.DataFrame(found)


def space_facts(data: Results) -> dict[str, Any]:
    """Return, for the text, the stores that keep least and most of the space after the removal and,
    of those that can compact, after the compaction."""
    found = space(data)
    return {
        f"{step}_{size.replace(' ', '_')}": levels.extremes(
            where(found, operation=step, record_size=size)
            .set_index("store")["median"]
            .sort_values(),
            ".2f",
            ".2f",
        )
        for step in ("deleterandom", "compact")
        for size in found.record_size.unique()
    }


def backup_facts(data: Results) -> dict[str, Any]:
    """Return, for the text, the fastest and the slowest backup of the most records, without a
    writer, in ms."""
    rows = where(part(data, BACKUP).operations, operation="backup")
    rows = where(rows, records=rows.records.max(), workload=ALONE)
    times = (rows.sum_ns / 1e6).groupby(rows.store).median()
    return {"records": f"{rows.records.max():,}", **levels.extremes(times.sort_values())}


def facts(data: Results) -> dict[str, Any]:
    """Return what the text says of each part."""
    return {
        "batches": batch_facts(data),
        "keys": key_facts(data),
        "commits": gain_facts(data, COMMITS),
        "processes": gain_facts(data, SHARED),
        "space": space_facts(data),
        "backup": backup_facts(data),
        "trials": data.trials,
    }
