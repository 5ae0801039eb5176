"""Numbers and tables as text."""

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import isnan
from typing import Any

import pandas as pd
from kvbench.experiment.factors import NOT_STATED
from kvbench.stats.intervals import points

NO_ROWS = "These results have no rows for this table."
RULE = 36  # the most dashes below a column's head
LONG_COUNT = re.compile(r"(?<![\d.,])\d{5,}(?![\d.,])")
SPECIAL = re.compile(r"[\\`*$\[\]|]")  # characters with a meaning in Markdown


def escape(text: str) -> str:
    """Return text from outside, such as a store's name or a reason, escaped for Markdown and
    HTML."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\g<0>", " ".join(plain.splitlines()))


def stated(value: Any, text: str = "{}") -> str:
    """Return the value formatted by `text`, or NOT_STATED if it is missing."""
    return NOT_STATED if pd.isna(value) else text.format(value)


def kind(name: str) -> str:
    """Return a kind of data in words."""
    return f"kind of data {NOT_STATED}" if name == NOT_STATED else f"{name} data"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """Return the value in the largest unit in which it is at least 1, with two or three significant
    digits."""
    if isnan(value):
        return NOT_STATED
    unit, size = next((u for u in units if value >= u[1] * 0.9995), units[-1])
    scaled = value / size
    return f"{scaled:.1f} {unit}" if scaled < 9.95 else f"{scaled:.0f} {unit}"


def time(nanoseconds: float) -> str:
    return _scaled(nanoseconds, (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)))


def signed_time(nanoseconds: float) -> str:
    return f"{'-' if nanoseconds < 0 else ''}{time(abs(nanoseconds))}"


def size(count: float) -> str:
    return _scaled(count, (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1)))


def rate(found: float) -> str:
    """Return a rate with three significant digits, as the sources print theirs."""
    return f"{float(f'{found:.3g}'):,.0f}" if found >= 100 else f"{found:.3g}"


def some(names: Iterable[str], most: int = 4) -> str:
    """Return the first `most` names as a list, and the number of the others."""
    found = list(names)
    shown = found if len(found) <= most + 1 else [*found[:most], f"{len(found) - most} others"]
    return ", ".join(shown)


def listed(names: Sequence[str], last: str) -> str:
    """Return the names as a sentence has them, with `last` before the last one: a, b or c."""
    *first, end = names or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def number(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def rounded(value: float) -> str:
    """Return a factor with two significant digits."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def at_most(value: float, digits: int = 3) -> str:
    """Return an upper bound, rounded up to these significant digits."""
    return _towards(ROUND_CEILING, value, digits)


def at_least(value: float, digits: int = 3) -> str:
    """Return a lower bound, rounded down to these significant digits."""
    return _towards(ROUND_FLOOR, value, digits)


def _towards(rounding: str, value: float, digits: int) -> str:
    if isnan(value):
        return number(value)
    return f"{Decimal(value).normalize(Context(prec=digits, rounding=rounding)):,f}"


def span(values: "pd.Series[float]", digits: int = 2) -> str:
    """Return the median of the trials and their range, as text."""
    if values.empty:
        return ""
    found = points(values)
    middle, low, high = (f"{x:,.{digits}f}" for x in found[:3])
    return middle if low == high else f"{middle} ({low} to {high})"


def share(found: float) -> str:
    if isnan(found):
        return NOT_STATED
    return f"{found:.0%}" if found >= 0.1 else f"{found:.1%}"


def level(value: Any) -> Any:
    """Return a value for a text or table. A count gets separators of thousands."""
    counts = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if counts else value


def apart(text: str) -> str:
    """Return a text in which long counts have separators of thousands."""
    return LONG_COUNT.sub(lambda found: f"{int(found[0]):,}", text)


def heading(name: str) -> str:
    """Return the name of a column of the data in words; any other name unchanged."""
    return name.replace("_", " ") if name.isidentifier() else name


def count(found: int) -> str:
    for unit, thousands in (("M", 10**6), ("k", 10**3)):
        if found >= thousands and found % thousands == 0:
            return f"{found // thousands} {unit}"
    return str(found)


def table(
    frame: pd.DataFrame, markdown: Sequence[str] = (), rule: int = RULE, **options: Any
) -> str:
    """Return a table in Markdown, without the index. Names and texts are escaped, except in the
    columns `markdown`, which are Markdown already. Names of columns of the data are written in
    words, and counts get separators of thousands. A table without rows is one line that says so.

    The dashes below a column's head are at most `rule` long: renderers divide the page among
    columns by them, and a long text can wrap where a word cannot.
    """
    if frame.empty:
        return NO_ROWS
    safe = pd.DataFrame(
        {
            name if name in markdown else escape(heading(str(name))): [
                level(value if name in markdown or not isinstance(value, str) else escape(value))
                for value in column.astype(object).where(column.notna(), NOT_STATED)
            ]
            for name, column in frame.items()
        }
    )
    head, rules, *rows = str(safe.to_markdown(index=False, **options)).split("\n")
    return "\n".join([head, re.sub(f"-{{{rule},}}", "-" * rule, rules), *rows])
