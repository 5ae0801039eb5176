"""Output of ioarena: a configuration, and a summary of each benchmark.

      engine       = lmdb
      durability   = sync
    >>>> set(1000000)
      avg latency: 7.890us/op

Of the benchmarks batch and crud a latency is that of a transaction, so they are left out.
"""

import re
from collections.abc import Iterator

from kvbench.results.formats import words

SETTING = re.compile(r"^\s*(engine|durability|operations|key size|value size)\s*=\s*(\S+)\s*$")
BEGINS = re.compile(r"^>>>> (\w+)\((\d+)\)")
LATENCY = re.compile(r"(min|avg|max)\s+latency:\s*(\d+(?:\.\d+)?)\s*([num]?)s/op")
COLUMNS = {
    "engine": "store",
    "key size": "key_size",
    "value size": "record_size",
    "operations": "records",
}
TIMES = {"min": "min_ns", "avg": "mean_ns", "max": "max_ns"}
LEVELS = {"sync": "sync"}  # what the others survive depends on the engine
UNITS = {"n": 1, "u": 10**3, "m": 10**6, "": 10**9}


def fits(text: str) -> bool:
    return "IOARENA" in text or any(BEGINS.match(line) for line in text.splitlines())


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    known: dict[str, str] = {}
    row: dict[str, str] = {}
    at = 0
    for number, line in enumerate(text.splitlines(), 1):
        if match := SETTING.match(line):
            if match[1] == "durability":
                known |= {"durability": LEVELS[match[2]]} if match[2] in LEVELS else {}
            else:
                known[COLUMNS[match[1]]] = match[2]
        if match := BEGINS.match(line):
            if "mean_ns" in row:
                yield at, known | row
            at, row = number, {"operation": words.operation(match[1]), "n": match[2]}
        if match := LATENCY.search(line):
            row[TIMES[match[1]]] = words.nanoseconds(match[2], UNITS[match[3]], TIMES[match[1]])
    if "mean_ns" in row:
        yield at, known | row
