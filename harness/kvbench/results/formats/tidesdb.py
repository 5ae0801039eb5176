"""The CSV of TidesDB's benchtool: a line for each operation of each run.

Its latencies are those of a batch, and its rates count keys, so a time is taken from the rate. The
header may stand again before each run; the older one has fewer columns.
"""

import csv
import io
from collections.abc import Iterator

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

NEEDED = ("engine", "operation", "ops_per_sec", "avg_latency_us", "peak_rss_mb")
TIMES = {"p50_us": "p50_ns", "p99_us": "p99_ns", "min_us": "min_ns", "max_us": "max_ns"}
OPERATIONS = {
    "PUT": "insert",
    "GET": "get",
    "DELETE": "remove",
    "ITER": "readseq",
    "RANGE": "rangerandom",
}
DURABILITY = {"1": "sync"}  # what a write survives without a sync is not stated


def fits(text: str) -> bool:
    return set(NEEDED) <= set(text.partition("\n")[0].strip("\ufeff\r").split(","))


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    names: list[str] = []
    for number, line in enumerate(csv.reader(io.StringIO(text.lstrip("\ufeff"), newline="")), 1):
        if line[:1] == ["engine"]:
            names = line
            continue
        if not line:
            continue
        if len(line) != len(names):
            raise BadInput(f"line {number}: {len(line)} values; allowed: {len(names)}")
        yield number, _row(dict(zip(names, line, strict=True)))


def _row(line: dict[str, str]) -> dict[str, str]:
    name = line["operation"]
    row = {"store": line["engine"], "operation": OPERATIONS.get(name, name)}
    row["mean_ns"] = words.nanoseconds(line["ops_per_sec"], 0)
    if line.get("batch_size", "1") == "1":
        row |= {
            here: words.nanoseconds(line[there], 1000, here)
            for there, here in TIMES.items()
            if line.get(there) not in (None, "", "0.00")
        }
    known = {"num_operations": "n", "key_size": "key_size", "value_size": "record_size"}
    row |= {here: line[there] for there, here in known.items() if line.get(there)}
    if line.get("workload") == "write" and line.get("num_operations"):
        row["records"] = line["num_operations"]
    if durability := DURABILITY.get(line.get("sync_enabled", "")):
        row["durability"] = durability
    if line.get("test_name"):
        row["label"] = words.label(line["test_name"])
    return row
