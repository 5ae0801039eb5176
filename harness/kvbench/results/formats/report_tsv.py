"""The file report.tsv that RocksDB's benchmark.sh writes: a line for each test, tabs between.

The name of a test has its number of threads and sometimes the size of its values and whether writes
sync: overwrite.t64.s1, fillseq.wal_disabled.v400.
"""

import csv
import io
import re
from collections.abc import Iterator

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

NEEDED = ("ops_sec", "usec_op", "test", "uptime")
TIMES = {
    "usec_op": "mean_ns",
    "p50": "p50_ns",
    "p99": "p99_ns",
    "p99.9": "p999_ns",
    "pmax": "max_ns",
}


def _head(text: str) -> list[str]:
    """The first line that is no comment."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return next(lines, "").split("\t")


def fits(text: str) -> bool:
    return set(NEEDED) <= set(_head(text))


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The operations of a test are its rate times its time, which the file rounds to seconds."""
    names: list[str] = []
    lines = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    for number, values in enumerate(lines, 1):
        if not values or values[0].startswith("#"):
            continue
        if not names:
            names = values
            continue
        line = dict(zip(names, values, strict=False))
        name, *parts = line.get("test", "").split(".")
        row = {"store": "rocksdb", "operation": words.operation(name), "label": words.label(*parts)}
        try:
            row["n"] = str(round(float(line["ops_sec"]) * float(line["uptime"])))
        except (KeyError, ValueError, OverflowError):
            raise BadInput(f"line {number}: no numbers ops_sec and uptime; allowed: both") from None
        for there, here in TIMES.items():
            if line.get(there):
                row[here] = words.nanoseconds(line[there], 1000, here)
        for part in parts:
            if size := re.fullmatch(r"v(\d+)", part):
                row["record_size"] = size[1]
            if part == "s1":
                row["durability"] = "sync"
        if line.get("version"):
            row["engine_version"] = line["version"]
        yield number, row
