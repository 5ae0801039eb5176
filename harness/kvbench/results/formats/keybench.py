"""The table of keybench: tabs between columns, a line for each operation of each point.

Its rate is that of the whole point, so a row has percentiles and no mean.
"""

import csv
import io
from collections.abc import Iterator

from kvbench.results.formats import words

NEEDED = ("workload", "engine", "threads", "op", "count", "p50_ns", "ops_per_s")
TIMES = ("p50_ns", "p99_ns", "p999_ns", "max_ns")


def fits(text: str) -> bool:
    return set(NEEDED) <= set(text.partition("\n")[0].rstrip("\r").split("\t"))


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"), 2):
        engine, _, version = (line["engine"] or "").partition(" ")
        row = {
            "store": engine,
            "operation": words.operation(line["op"] or ""),
            "n": line["count"] or "",
        }
        row |= {name: line[name] for name in TIMES if line.get(name)}
        row |= {"engine_version": version} if version else {}
        swept = (line.get("sweep_param") or "", line.get("sweep_value") or "")
        row["label"] = words.label(line["workload"] or "", f"{line['threads']} threads", *swept)
        yield number, row
