"""The Markdown table of redb's benchmark, and of canopydb's: a line for each test, a column for
each store.

The older table has the time of a whole test, "987ms", so how many records it had must be said; the
newer one has rates, "1.09M", whose unit stands in the name of the test, "bulk load (key/s)".
"""

import re
from collections.abc import Iterator

from kvbench.results.formats import words

OPERATIONS = {
    "bulk load": "fillrandom",
    "individual writes": "insert",
    "random reads": "get",
    "removals": "remove",
}
NAME = re.compile(r"(.+?)(?:\s*\((key|txn|scan)/s\))?")
RATE = re.compile(r"(\d+(?:\.\d+)?)([KM]?)")
TOTAL = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
SCALES = {"": 1, "K": 10**3, "M": 10**6}


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]


def fits(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip().startswith("|")]
    return len(lines) > 2 and not _cells(lines[0])[0] and any("bulk load" in line for line in lines)


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """A cell of the older table has a sum; the mean follows from the number of operations."""
    stores: list[str] = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip().startswith("|"):
            continue
        name, *cells = _cells(line)
        if not stores:
            stores = cells
            continue
        match = NAME.fullmatch(name)
        if not match or set(name) <= set("-: ") or name in seen:
            continue
        seen.add(name)
        for store, cell in zip(stores, cells, strict=False):
            row = {"store": store, "operation": OPERATIONS.get(match[1], match[1])}
            if (rate := RATE.fullmatch(cell)) and match[2]:
                row["mean_ns"] = words.nanoseconds(str(float(rate[1]) * SCALES[rate[2]]), 0)
            elif total := TOTAL.fullmatch(cell):
                row["sum_ns"] = words.nanoseconds(total[1], words.NS[total[2]], "sum_ns")
            else:
                continue
            yield number, row
