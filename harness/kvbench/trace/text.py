"""What a trace asks for, as text and as plain values."""

import dataclasses
import math
from typing import Any

import pandas as pd
from tabulate import tabulate

from kvbench.cell.factors import format_bytes
from kvbench.trace.asked import POPULAR, Asked


def values(asked: Asked) -> dict[str, Any]:
    """The question as plain values; None is not known."""
    found = dataclasses.asdict(asked) | {"store": asked.store}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in found.items()
    }


def store_table(stores: pd.DataFrame) -> str:
    """The stores of a trace by their places."""
    shown = [
        (place, row.kind or "not known", f"{row.operations:,}")
        for place, row in enumerate(stores.itertuples(), 1)
    ]
    return str(tabulate(shown, ["store", "library", "operations"], disable_numparse=True))


def summary(asked: Asked) -> str:
    """What was done to the records of one store."""
    done = ", ".join(f"{count:,} {name}" for name, count in asked.operations.items() if count)
    mix = ", ".join(f"{name} {share:.1%}" for name, share in asked.mix.items())
    low, middle, high = (format_bytes(size) for size in asked.sizes) if asked.sizes else ("?",) * 3
    lines = [
        f"operations   {done}",
        f"mix          {mix}",
        f"records      {asked.records:,} at a time, as far as the trace shows",
        f"values       {format_bytes(asked.size)} on average; 5%, 50%, 95%: {low}, {middle}, "
        f"{high}",
        f"popular      {POPULAR:.0%} of the keys get {asked.popular:.0%} of the operations",
        f"missed       {asked.missed:.1%} of the gets found nothing",
        f"transactions {asked.batch:.1f} writes each",
        f"threads      {asked.threads}",
    ]
    if asked.seconds:
        lines.append(
            f"time         {asked.seconds:.1f} s, of which {asked.spent:.2f} s in the calls"
        )
    return "\n".join(lines)
