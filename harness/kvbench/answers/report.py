"""Formats the answer of `kvbench advise`: as plain values for JSON, and as text."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from kvbench.answers.advise import EXTRAPOLATED, MEASURED, Advice, heaviest
from kvbench.answers.needs import NEEDS, NOT_ASKED
from kvbench.answers.recovery import Recovery
from kvbench.cell.factors import DEFAULT, format_bytes, parse_bytes
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.measured import Measured, Point
from kvbench.stats.regret import GOOD
from kvbench.stores import catalogue
from kvbench.stores.about import about, consequence

MOST_REGRET = 1000  # a larger upper bound is not shown
COMES_BACK = "comes-back"  # of the needs
LARGEST = 50 << 30  # bytes of values, the limit of a grid
MEASURING = "10min"  # that the command of an answer proposes
LIMITS = ("largest_value", "largest_key", "most_memory")  # that a query may set
MOST_SHOWN = 5  # stores whose settings are printed
LEGEND = (
    f"in: surely less than {GOOD - 1:.0%} slower than the best, so a store to use; out: surely "
    "more; undecided: not known."
)
CAUTIONS = {  # the risk that remains at a level
    "none": "At level none a crash of the process may cost the last writes, in some engines more.",
    "process": "At level process a loss of power may cost some stores more than the last writes, "
    "as stated beside each setting; at level recoverable it may cost the last writes alone.",
    "recoverable": "At level recoverable a loss of power may cost acknowledged writes of the last "
    "moments, but the store opens, every record holds a value that was written to it, and no "
    "record that was on disk before is lost.",
    "sync": "Files are overwritten in place: a crash in an update may leave neither value. Level "
    "atomic avoids that, and makes updates slower. Kyoto Cabinet's hash tears updates, too.",
    DEFAULT: "As shipped, stores survive different things: see the paper's table of levels.",
}
OTHER_SYSTEMS = {"macos", "windows"}  # of the needs
ELSEWHERE = "All times were measured on Linux; nothing was measured on macOS or Windows."
NOT_MEASURED: dict[str, Any] = {
    "grade": None,
    "recommended": [],
    "candidates": [],
    "consequences": {},
}
SPACE = "Space is that of all records after each was written once and overwritten once more."
NO_SPACE = "Space was not measured after equal work around these records, so none is shown."


def finite(value: float) -> float | None:
    """A value that JSON can state, or None."""
    return float(value) if math.isfinite(value) else None


def _facts(data: Measured, advice: Advice, store: str, recovery: Recovery | None) -> dict[str, Any]:
    """What else was measured of a store in the field with the largest weight, and facts about
    it."""
    query = advice.query
    size, records = heaviest(advice.rests_on)

    def own(table: pd.DataFrame) -> pd.DataFrame:
        found = data.at(table, query.durability, query.memory, query.guarantee)
        here = (found.record_size == size) & (found.records == records)
        return found[here & (found.store == store)]

    cells, rows = own(data.cells), own(data.rows)
    writes = rows[rows.operation != "get"]
    shares = [share for name, share in query.mix.items() if name != "get"]
    names = [name for name in query.mix if name != "get"]
    syncs = (writes.syncs / writes.n).groupby(writes.operation).median().reindex(names)
    most = max(query.mix, key=lambda name: query.mix[name])
    found = {
        # A percentile of a write on another device is not known.
        "p99_ns": math.nan
        if query.sync_ns is not None and most != "get"
        else float(rows[rows.operation == most].p99_ns.median()),
        "space": advice.space.get(store, math.nan),
        "memory_bytes": float(cells.memory_bytes.median()),
        "syncs_per_write": float(np.average(syncs, weights=shares)) if shares else math.nan,
    }
    known, facts = catalogue.known().get(store), about(store.partition("/")[0])
    means = [
        setting.means
        for setting in (known.settings if known else ())
        if (setting.name, setting.value) == ("durability", query.durability)
    ]
    shipped = "as shipped" if query.durability == DEFAULT else ""
    version = next((name for name in cells.engine_version if name != NOT_STATED), "")
    texts = {
        "settings": means[0] if means else shipped,
        "consequence": consequence(store, query.durability, query.guarantee),
        "measured": str(version),
    }
    for name in ("language", "licence", "latest", "maintained_by", "processes", "known"):
        texts[name] = getattr(facts, name) if facts else ""
    tried = recovery and recovery.tried(store, query.durability)
    crashed = {
        "crash_states": tried.states if tried else None,
        "broken_states": tried.broken if tried else None,
        "comes_back": recovery.says(store, query.durability) if recovery else "",
    }
    return {name: finite(value) for name, value in found.items()} | texts | crashed


def rests_on(fields: Mapping[Point, float]) -> list[dict[str, Any]]:
    """The fields of an answer with their weights, as plain values."""
    return [
        {"record_size": format_bytes(size), "records": records, "weight": round(weight, 3)}
        for (size, records), weight in fields.items()
    ]


def report(data: Measured, advice: Advice, recovery: Recovery | None = None) -> dict[str, Any]:
    """The advice as plain values, the best store first. If times were computed for another device,
    no store is recommended. A value that is unknown, or that an import does not state, is None.
    `recovery` has the crash states of the stores."""
    query = advice.query
    computed = query.sync_ns is not None
    rows = []
    for store, own in advice.ranking.regrets.items():
        rows.append(
            {
                "store": store,
                "verdict": own.verdict,
                "recommended": own.recommended and not computed,
                "candidate": store in advice.candidates,
                "time_ns": advice.times[store],
                "regret": finite(own.estimate),
                "low": finite(own.low),
                "high": finite(own.high),
                **_facts(data, advice, store, recovery),
            }
        )
    return {
        "computed": computed,
        "grade": advice.grade,
        "data": str(data.name),
        "query": {
            "record_size": format_bytes(query.size), "records": query.records,
            "mix": dict(query.mix), "access": _level(data.access),
            "durability": _level(query.durability), "guarantee": _level(query.level),
            "memory": _level(query.memory), "sync_ns": query.sync_ns, "may_grow": query.may_grow,
            "needs": list(query.needs.names), "largest_value": _bytes(query.needs.value),
            "largest_key": _bytes(query.needs.key), "most_memory": _bytes(query.needs.memory),
            "stores": list(query.needs.stores),
        },
        "trials": advice.trials,
        "average": data.average,
        "rests_on": rests_on(advice.rests_on),
        "stores": rows,
        "left_out": dict(advice.left_out),
        "machine": None if pd.isna(data.machine.cpu) else str(data.machine.cpu),
    }  # fmt: skip


def short(advice: Advice, level: str) -> dict[str, Any]:
    """The advice at a durability level without its ranking: the stores to use or, if none is surely
    good, those that may be the best, and what a crash may cost them."""
    query, regrets = advice.query, advice.ranking.regrets
    sure = [store for store, own in regrets.items() if own.recommended]
    found = sure or advice.candidates
    costs = {store: consequence(store, query.durability, query.guarantee) for store in found}
    return {
        "durability": level,
        "grade": advice.grade,
        "recommended": sure,
        "candidates": [store for store in advice.candidates if store not in sure],
        "consequences": {store: cost for store, cost in costs.items() if cost},
    }


def _beside(values: Mapping[str, Any]) -> str:
    """What short() says, as a line."""
    far = values["grade"] == EXTRAPOLATED
    if sure := values["recommended"]:
        told = f"{'probably' if far else 'use'} {' or '.join(sure)}"
    elif maybe := values["candidates"]:
        told = f"not told apart: {', '.join(maybe)}"
    else:
        told = "none is ranked" if values["grade"] else "not measured"
    costs = "".join(f"; {store}: {cost}" for store, cost in values["consequences"].items())
    return f"at level {values['durability']}{' (extrapolated)' if far else ''}: {told}{costs}"


def _bytes(size: int) -> str | None:
    return format_bytes(size) if size else None


def _level(name: str) -> str | None:
    return None if name == NOT_STATED else name


def time(ns: float | None) -> str:
    if ns is None:
        return ""
    unit, scale = next(
        (unit, scale) for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1))
        if ns >= scale or unit == "ns"
    )  # fmt: skip
    return f"{ns / scale:.3g} {unit}"


def number(value: float | None, pattern: str = "{:.3g}") -> str:
    return "" if value is None else pattern.format(value)


def interval(low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    known = high is not None and high < MOST_REGRET
    return f"{number(low)} to {number(high)}" if known else f"{number(low)} or more"


def fields_of(values: Mapping[str, Any]) -> str:
    """The fields on which a report rests, in words."""
    names = [f"{at['record_size']} x {at['records']:,}" for at in values["rests_on"]]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def field_of(values: Mapping[str, Any]) -> str:
    """The field of a report with the largest weight, in words."""
    most = max(values["rests_on"], key=lambda at: at["weight"])
    return f"{most['record_size']} x {most['records']:,}"


def answer(values: Mapping[str, Any]) -> list[str]:
    """The recommendation of a report in one or two lines; for computed times, which stores to
    measure."""
    rows = values["stores"]
    maybe = [row["store"] for row in rows if row["candidate"]]
    sure = [row["store"] for row in rows if row["recommended"]]
    far = values.get("grade") == EXTRAPOLATED
    if values["computed"]:
        device = time(values["query"]["sync_ns"])
        return [
            f"computed, not measured: times as on a device that syncs in {device}",
            *([f"extrapolated from {fields_of(values)}"] if far else []),
            f"to measure there: {', '.join(maybe) or 'no store was measured whole here'}",
        ]
    others = [store for store in maybe if sure and store not in sure]
    beyond = f"extrapolated from {fields_of(values)}, not measured: " if far else ""
    if sure:
        lines = [f"{beyond}{'probably' if far else 'use'} {' or '.join(sure)}"]
    elif maybe:
        lines = [f"{beyond}not told apart: {', '.join(maybe)}"]
    else:
        one, two = ("was measured whole here", "were measured whole here")
        needs = values["query"]["needs"]
        if needs or any(values["query"][name] for name in LIMITS):
            known = "to come back" if needs == [COMES_BACK] else "to meet these needs"
            one, two = (f"is known {known}", f"are known {known}")
        lines = [f"no two stores {two}, so none is ranked"]
        if len(rows) == 1:
            lines = [f"{rows[0]['store']} alone {one}, so it is not ranked"]
    return [*lines, f"undecided: {', '.join(others)}"] if others else lines


def table(values: Mapping[str, Any]) -> str:
    """The stores of a report as a text table, the best first."""
    mix = values["query"]["mix"]
    kind = "time" if values["average"] == "mean" else "median time"
    tail = f"P99 of {max(mix, key=mix.get)}"
    headers = ("store", "verdict", kind, "regret", "95% interval", tail, "space", "memory",
               "syncs a write")  # fmt: skip
    rows = [
        (
            row["store"], row["verdict"], time(row["time_ns"]), number(row["regret"]),
            interval(row["low"], row["high"]),
            time(row["p99_ns"]), number(row["space"], "{:.2f} x"),
            number(row["memory_bytes"] and row["memory_bytes"] / 2**20, "{:.0f} MiB"),
            number(row["syncs_per_write"]),
        )
        for row in values["stores"]
    ]  # fmt: skip
    return str(tabulate(rows, headers=headers, disable_numparse=True))


def _settings(chosen: Sequence[Mapping[str, Any]]) -> str:
    facts = {
        "store": "store", "settings": "settings", "consequence": "what a crash may cost",
        "language": "language", "licence": "licence", "measured": "measured",
        "latest": "latest release", "maintained_by": "maintained by", "processes": "processes",
    }  # fmt: skip
    width = [None, 32, 32, None, 20, 16, 20, 24, 30]
    cells = [tuple(row[name] for name in facts) for row in chosen]
    headers = tuple(facts.values())
    return str(tabulate(cells, headers=headers, maxcolwidths=width, disable_numparse=True))


def _crashes(chosen: Sequence[Mapping[str, Any]], required: bool) -> str:
    """Which of the stores did not come back from all crash states; or, if that is required, from
    how many each came back."""
    if required and chosen:
        came = ", ".join(f"{row['store']} {row['crash_states']:,}" for row in chosen)
        return f"crash states from which each came back: {came}"
    found = [f"{row['store']} {row['comes_back']}" for row in chosen if row["comes_back"]]
    return f"{'; '.join(found)}; --needs {COMES_BACK} leaves such stores out" if found else ""


def _asked(query: Mapping[str, Any]) -> str:
    """The query in words, with the shares of the mix normalised."""
    whole = sum(query["mix"].values())
    mix = ", ".join(f"{name} {share / whole:.3g}" for name, share in query["mix"].items())
    guarantee, durability = (query[name] or NOT_STATED for name in ("guarantee", "durability"))
    level = f"durability {guarantee}"
    if durability == DEFAULT:
        level = f"as shipped, which amounts to durability {guarantee}"
    needs = [NEEDS[name].says for name in query["needs"]]
    needs += [
        f"holds a {what} of {query[f'largest_{what}']}"
        for what in ("value", "key")
        if query[f"largest_{what}"]
    ]
    needs += [f"takes {query['most_memory']} of memory at most"] * bool(query["most_memory"])
    asked = f"; a store that {' and '.join(needs)}" if needs else ""
    asked += f"; of {', '.join(query['stores'])}" if query["stores"] else ""
    return f"for {query['record_size']} x {query['records']:,}; {mix}; {level}{asked}"


def _closed(size: str | None) -> str:
    """A size without blanks, for a command line."""
    return (size or "").replace(" ", "")


def command(query: Mapping[str, Any]) -> str:
    """The command that measures the records of a query on this machine; empty if there is none:
    `kvbench advise` measures no packages, no stores as shipped and no more than LARGEST bytes."""
    level = query["durability"]
    large = parse_bytes(query["record_size"]) * query["records"] > LARGEST
    if query["access"] == "python" or level == DEFAULT or large:
        return ""
    mix = ",".join(
        f"{name}={share:.9f}".rstrip("0").rstrip(".") for name, share in query["mix"].items()
    )
    memory = "" if query["memory"] == DEFAULT else query["memory"]
    given = {
        "record-size": _closed(query["record_size"]), "records": query["records"], "mix": mix,
        "durability": level, "memory": _closed(memory),
        "needs": ",".join(query["needs"]), "stores": ",".join(query["stores"]),
        "largest-value": _closed(query["largest_value"]),
        "largest-key": _closed(query["largest_key"]),
        "most-memory": _closed(query["most_memory"]),
    }  # fmt: skip
    words = [f"--{name} {value}" for name, value in given.items() if value]
    more = ["--may-grow"] * query["may_grow"]
    return " ".join(["kvbench advise", *words, *more, f"--measure {MEASURING}"])


def text(values: Mapping[str, Any]) -> str:
    """The report as text, the answer first."""
    rows, query = values["stores"], values["query"]
    besides = "\n".join(map(_beside, values.get("other_levels", [])))
    candidates = [row for row in rows if row["candidate"] or row["recommended"]]
    crashes = _crashes(candidates or rows, COMES_BACK in query["needs"])
    lines = [*answer(values), crashes, besides, _asked(query), table(values)]
    sure = [row for row in candidates if row["recommended"]]
    chosen = (sure or candidates or rows)[:MOST_SHOWN]
    if any(row["settings"] or row["licence"] for row in chosen):
        lines.append(_settings(chosen))
        lines.append("\n".join(f"{row['store']}: {row['known']}" for row in chosen if row["known"]))
        lines.append(CAUTIONS.get(query["guarantee"], ""))
    lines.append(ELSEWHERE if OTHER_SYSTEMS & set(query["needs"]) else "")
    fields = [
        f"{at['record_size']} x {at['records']:,} ({at['weight']:.0%})" for at in values["rests_on"]
    ]
    lines.append(LEGEND)
    if len(fields) > 1:
        lines.append(f"P99, memory and syncs are those of {field_of(values)}")
    lines.append(SPACE if any(row["space"] for row in rows) else NO_SPACE)
    some = "s" if values["trials"] != 1 else ""
    how = "measured in" if len(fields) == 1 else "interpolated between"
    machine = values["machine"] or f"machine {NOT_STATED}"
    trials = f"{values['trials']} trial{some}"
    lines.append(f"{how} {', '.join(fields)} of {values['data']}; {trials}; {machine}")
    if values["grade"] != MEASURED and (measuring := command(query)):
        lines.append(f"to measure your records here: {measuring}")
    if values["average"] == "median":
        lines.append("times are medians: no mean time is stated")
    for reason in sorted(set(values["left_out"].values()) - {NOT_ASKED}):
        names = [store for store, own in values["left_out"].items() if own == reason]
        lines.append(f"left out: {', '.join(names)} ({reason})")
    return "\n\n".join(line for line in lines if line)


def both(values: Mapping[str, Any]) -> str:
    """The text of an answer after measuring here: the data it uses, the recommendation, and next to
    it the recommendation from the other data, measured here or known before."""
    measured, known = values["measured"], values.get("known")
    if known:
        beside = [f"beside it, {known['data']} says", *answer(known), table(known)]
        return "\n\n".join(["measured here", text(values), *beside])
    head = measured["why"]
    own = measured["report"]
    if not measured["finished"]:
        trials = own["trials"] if own else 0
        head = (
            f"measuring did not finish: {head}, after {trials} whole "
            f"trial{'' if trials == 1 else 's'}; the answer rests on {values['data']}"
        )
    beside = ["beside it, as far as it was measured here", table(own)] if own else []
    return "\n\n".join([head, text(values), *beside])


def to_json(values: object) -> str:
    return json.dumps(values, indent=1, allow_nan=False)
