"""A table with a line of names: the columns of data/README.md, or the names that others use.

Columns are separated by commas, semicolons, tabs or bars. A time may be in any unit that the name
of its column states, "p99 (us)" or "total_s", or a rate, "ops/s". Where commas do not separate
columns, a number may have a decimal comma.
"""

import csv
import io
import re
from collections.abc import Iterator

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

SEPARATORS = ",;\t|"
RULE = re.compile(r":?-+:?")  # below the names of a table in Markdown
NUMBER = re.compile(r"[\d.,]*\d[\d.,]*")
GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
Name = tuple[str, words.Measure | None]  # a column, and what it measures


def separator(text: str) -> str:
    """What separates the columns: what the line of names has most of."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(SEPARATORS, key=first.count)


def named(text: str) -> Name:
    """The column that a name means, and what it measures."""
    measure = words.measure(text)
    return (measure.name, measure) if measure else (words.column(text), None)


def lines_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not empty, with their numbers, which begin at 1. Raises BadInput, which
    names the line."""
    by = separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=by, strict=True)
    before = 0
    try:
        for values in reader:
            line, before = before + 1, reader.line_num
            fields = [value.strip() for value in values]
            if by == "|":  # as Markdown draws it, with bars outside
                fields = fields[1:-1] if fields[:1] == fields[-1:] == [""] else fields
                if all(RULE.fullmatch(field) for field in fields):
                    continue
            if any(fields):
                yield line, fields
    except csv.Error as error:
        raise BadInput(f"line {before + 1}: {error}; allowed: CSV") from None


def decimal_comma(text: str, lines: list[tuple[int, list[str]]]) -> bool:
    """Whether a comma in a number is its decimal sign. Raises BadInput if that is not known."""
    if separator(text) == ",":
        return False
    numbers = [
        (line, field) for line, fields in lines for field in fields
        if "," in field and NUMBER.fullmatch(field)
    ]  # fmt: skip
    sure = [field for _, field in numbers if not GROUPED.fullmatch(field)]
    if numbers and not sure and not any("." in field for _, field in numbers):
        line, field = numbers[0]
        raise BadInput(
            f"line {line}: {field!r:.60} may be a fraction or a whole number; allowed: numbers "
            "without signs for groups of digits"
        )
    return bool(sure)


def value(name: str, measure: words.Measure | None, text: str, comma: bool) -> str:
    """A value of a column, a time in ns. Raises BadInput."""
    if NUMBER.fullmatch(text):
        if comma:
            text = text.replace(".", "").replace(",", ".")
        elif GROUPED.fullmatch(text):
            text = text.replace(",", "")
    if text and measure is not None and measure.scale != 1:
        return words.nanoseconds(text, measure.scale, name)
    return words.operation(text) if name == "operation" else text
