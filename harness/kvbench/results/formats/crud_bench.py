"""The results of crud-bench, as CSV or JSON: a line, or an object, for each operation.

Its CSV has times such as "0.22 ms", and a total such as "5s 678ms"; its JSON is in microseconds.
Scans, batches and indices are no operations of a store of records, so they are left out.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

OPERATIONS = {"[C]reate": "insert", "[R]ead": "get", "[U]pdate": "update", "[D]elete": "remove"}
PARTS = {"creates": "insert", "reads": "get", "updates": "update", "deletes": "remove"}
COLUMNS = {"Mean": "mean_ns", "Min": "min_ns", "50th": "p50_ns", "99th": "p99_ns", "Max": "max_ns"}
KEYS = {"mean": "mean_ns", "min": "min_ns", "q50": "p50_ns", "q99": "p99_ns", "max": "max_ns"}
TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)")
SKIPPED = "-"


def fits(text: str) -> bool:
    first = text.lstrip("\ufeff").partition("\n")[0]
    if first.startswith("Test,Total time,Mean,"):
        return True
    return text.lstrip()[:1] == "{" and all(
        f'"{name}"' in text for name in ("creates", "reads", "q99")
    )


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    return _object(text) if text.lstrip()[:1] == "{" else _lines(text)


def _lines(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The CSV states neither the store nor a number of operations."""
    for number, line in enumerate(
        csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline="")), 2
    ):
        name = line["Test"] or ""
        if line.get("Mean") == SKIPPED:
            continue
        row = {"operation": OPERATIONS.get(name, name)}
        row |= {
            here: _time(line[there] or "", here)
            for there, here in COLUMNS.items()
            if line.get(there)
        }
        yield number, row


def _time(text: str, column: str) -> str:
    if not (match := TIME.fullmatch(text)):
        raise BadInput(f"{text!r:.60} is no time; allowed: such as 0.12 ms")
    return words.nanoseconds(match[1], words.NS[match[2]], column)


def _object(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{error!s:.100}; allowed: JSON") from None
    if not isinstance(found, Mapping):
        raise BadInput("not an object; allowed: what crud-bench writes")
    known: dict[str, str] = {}
    if database := found.get("database"):
        known["store"] = str(database).lower()
    metadata = found.get("metadata")
    if isinstance(metadata, Mapping):
        if isinstance(metadata.get("samples"), int):
            known["records"] = str(metadata["samples"])
        if metadata.get("sync") is True:
            known["durability"] = "sync"
    for part, operation in PARTS.items():
        one: Any = found.get(part)
        if isinstance(one, Mapping):
            row = {
                here: words.nanoseconds(str(one[there]), 1000, here)
                for there, here in KEYS.items()
                if there in one
            }
            n = str(one.get("samples", known.get("records", "")))
            yield 1, known | {"operation": operation, "n": n} | row
