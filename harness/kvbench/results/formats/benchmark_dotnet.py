"""The CSV of BenchmarkDotNet, whose names end in -report.csv: a line for each method and job.

The system's culture separates columns by commas or semicolons, whatever the numbers look like.
Times have one to four decimals and stand with their unit, in the cell or in the column's name: so
a single comma in one is its decimal sign.
"""

import csv
import io
import re
from collections.abc import Iterator

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

TIMES = {"Mean": "mean_ns", "Median": "p50_ns", "Min": "min_ns", "Max": "max_ns", "P90": "p90_ns"}
UNIT = re.compile(r"([\d.,' \u00a0\u202f]+?)[ \u00a0\u202f]*(ns|us|μs|µs|ms|s)")
EMPTY = ("", "-", "NA", "?")


def fits(text: str) -> bool:
    names = re.split(r"[,;]", text.partition("\n")[0].strip("\ufeff\r"))
    return "Method" in names and any(name.split(" ")[0] == "Mean" for name in names)


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """BenchmarkDotNet does not say how many calls a mean has; what it does say is not needed."""
    first = text.partition("\n")[0]
    by = ";" if first.count(";") > first.count(",") else ","
    reader = csv.DictReader(
        io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=by, strict=True
    )
    try:
        for line in reader:
            operation, store = words.named((line["Method"] or "").strip("'"))
            row = {"operation": operation} | ({"store": store} if store else {})
            for name, cell in line.items():
                plain, _, unit = (name or "").partition(" ")
                if plain in TIMES and cell and cell not in EMPTY:
                    row[TIMES[plain]] = _time(cell, unit.strip("[]"), TIMES[plain])
            yield reader.line_num, row
    except csv.Error as error:
        raise BadInput(f"line {reader.line_num}: {error}; allowed: CSV") from None


def _time(cell: str, unit: str, column: str) -> str:
    match = UNIT.fullmatch(cell) if not unit else None
    number, unit = (match[1], match[2]) if match else (cell, unit)
    plain = re.sub(r"[\s\u00a0\u202f']", "", number)
    last = max(plain.rfind(","), plain.rfind("."))
    if last >= 0:  # the last sign is the decimal one
        plain = re.sub(r"[.,]", "", plain[:last]) + "." + plain[last + 1 :]
    if unit not in words.NS:
        raise BadInput(f"{cell!r:.60} has no unit; allowed: {', '.join(words.NS)}")
    return words.nanoseconds(plain, words.NS[unit], column)
