"""Numbers and tables as text."""

import re
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import pandas as pd
from kvbench.experiment.factors import NOT_STATED
from kvbench.stats.intervals import points

NO_ROWS = "These results have no rows for this table."
RULE = 36  # dashes at most below a table's column
LONG_COUNT = re.compile(r"(?<![\d.,])\d{5,}(?![\d.,])")
SPECIAL = re.compile(r"[\\`*$\[\]|]")  # what Markdown acts upon


def escape(text: str) -> str:
    """Text from elsewhere, such as a store's name or a reason, as it reads in Markdown and HTML."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\g<0>", " ".join(plain.splitlines()))


def stated(value: Any, text: str = "{}") -> str:
    """A value in its text; NOT_STATED where it is missing."""
    return NOT_STATED if pd.isna(value) else text.format(value)


def kind(name: str) -> str:
    """A kind of data, in words."""
    return f"kind of data {NOT_STATED}" if name == NOT_STATED else f"{name} data"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    """In the largest unit that leaves at least 1, with two or three significant digits."""
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
    """With three significant digits, as the sources print theirs."""
    return f"{float(f'{found:.3g}'):,.0f}" if found >= 100 else f"{found:.3g}"


def some(names: Iterable[str], most: int = 4) -> str:
    """A list of names, of which the first are named and the others counted."""
    found = list(names)
    shown = found if len(found) <= most + 1 else [*found[:most], f"{len(found) - most} others"]
    return ", ".join(shown)


def listed(names: Sequence[str], last: str) -> str:
    """Names in a sentence, with `last` before the last: a, b or c."""
    *first, end = names or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def number(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def span(values: "pd.Series[float]", digits: int = 2) -> str:
    """The median of the trials, and their range."""
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
    """A value for a text or table: the thousands of a count are apart."""
    counts = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if counts else value


def apart(text: str) -> str:
    """A text with the thousands of its long counts apart."""
    return LONG_COUNT.sub(lambda found: f"{int(found[0]):,}", text)


def heading(name: str) -> str:
    """The name of a column of the data, in words; any other name as it is."""
    return name.replace("_", " ") if name.isidentifier() else name


def count(found: int) -> str:
    for unit, thousands in (("M", 10**6), ("k", 10**3)):
        if found >= thousands and found % thousands == 0:
            return f"{found // thousands} {unit}"
    return str(found)


def table(
    frame: pd.DataFrame, markdown: Sequence[str] = (), rule: int = RULE, **options: Any
) -> str:
    """A table in Markdown without the index. Names and texts are escaped, but not those of the
    columns `markdown`, which are Markdown already. A column that is named as in the data has blanks
    in its name, and a count its thousands apart.

    The rules are no longer than `rule`: by them renderers divide the page among columns, and a long
    text can wrap where a word can't. One line says that a table has no rows.
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
