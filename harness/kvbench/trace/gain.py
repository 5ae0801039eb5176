"""What the program of a trace would gain by another store."""

import math
from typing import Any

from kvbench.answers.advise import Advice
from kvbench.answers.report import finite, number
from kvbench.trace import text as shown
from kvbench.trace.asked import Asked


def values(asked: Asked, advice: Advice) -> dict[str, Any]:
    """The question of a trace, and how many times as long its operations take in the store that
    the program uses as in the best one: the estimate and the bounds of its interval. They are None
    if the store is not known or not ranked; then `why` is the reason."""
    own = advice.ranking.regrets.get(asked.store)
    why = ""
    if not asked.store:
        why = f"{asked.kind or 'its store'} was not measured"
    elif own is None or math.isnan(own.high):
        why = advice.left_out.get(asked.store, "it is not ranked here")
    best = next(iter(advice.ranking.regrets), "")
    bounds = (own.estimate, own.low, own.high) if own is not None and not why else (math.nan,) * 3
    gain = dict(zip(("estimate", "low", "high"), map(finite, bounds), strict=True))
    return shown.values(asked) | {"best": best, "gain": gain, "why": why}


def text(values: dict[str, Any]) -> str:
    """The part of a report's text on a trace; empty without one."""
    found = values.get("trace")
    if not found:
        return ""
    head = (
        f"\n\nThe trace: {found['records']:,} records in {found['store'] or found['kind'] or '?'}"
    )
    spent = (
        f" Its calls took {found['spent']:.2f} s of {found['seconds']:.1f} s."
        if found["spent"] and found["seconds"]
        else ""
    )
    if found["why"]:
        return f"{head}; no gain is known: {found['why']}.{spent}"
    gain = found["gain"]
    times = f"{number(gain['estimate'])} ({number(gain['low'])} to {number(gain['high'])}) times"
    if found["best"] == found["store"]:
        return f"{head}, which has the lowest time.{spent}"
    return f"{head}, where its operations take {times} as long as in {found['best']}.{spent}"
