"""Output of YCSB in Java, C++ or Go.

    [READ], Operations, 4750
    [READ], AverageLatency(us), 512.3
    [READ], 99thPercentileLatency(us), 2100

In C++, with -s, a line for each status, the last of which counts; in Go, a line for each operation:

    ... 10 sec: 1000 operations; [READ: Count=950 Max=9.1 Min=0.4 Avg=1.2 90=2 99=4 99.9=8 99.99=9]
    READ   - Takes(s): 9.9, Count: 950, OPS: 96.0, Avg(us): 512, Max(us): 9000, 99th(us): 2100
"""

import re
from collections.abc import Iterator

from kvbench.results.formats import words

LINE = re.compile(r"^\[([A-Z-]+)\],\s*([\w.]+?)(?:\((us|ms|ns)\))?,\s*(\S+)\s*$")
NAMES = {
    "Operations": "n", "AverageLatency": "mean_ns", "MinLatency": "min_ns", "MaxLatency": "max_ns",
    "50thPercentileLatency": "p50_ns", "90thPercentileLatency": "p90_ns",
    "99thPercentileLatency": "p99_ns", "99.9PercentileLatency": "p999_ns",
}  # fmt: skip
STATUS = re.compile(r"\[([A-Z-]+): (Count=[^\]]*)\]")
STATUSES = {
    "Count": "n", "Avg": "mean_ns", "Min": "min_ns", "Max": "max_ns", "90": "p90_ns",
    "99": "p99_ns", "99.9": "p999_ns",
}  # fmt: skip
GO = re.compile(r"^([A-Z_-]+)\s+- Takes\(s\): [\d.]+, (Count: .*)$")
GO_NAMES = {
    "Count": "n", "Avg(us)": "mean_ns", "Min(us)": "min_ns", "Max(us)": "max_ns",
    "50th(us)": "p50_ns", "90th(us)": "p90_ns", "99th(us)": "p99_ns", "99.9th(us)": "p999_ns",
}  # fmt: skip
APART = ("OVERALL", "CLEANUP", "TOTAL")  # no operations
FAILED = re.compile(r".*[-_](FAILED|ERROR)")


def fits(text: str) -> bool:
    lines = text.splitlines()
    return any(
        line.startswith("[OVERALL], RunTime") or STATUS.search(line) or GO.match(line)
        for line in lines
    )


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    found: dict[str, tuple[int, dict[str, str]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (match := LINE.match(line)) and match[2] in NAMES:
            unit, value = match[3], match[4]
            row = found.setdefault(match[1], (number, {}))[1]
            row[NAMES[match[2]]] = (
                words.nanoseconds(value, words.NS[unit], NAMES[match[2]]) if unit else value
            )
        for status in STATUS.finditer(line):
            pairs = [part.strip(",").split("=", 1) for part in status[2].split() if "=" in part]
            found[status[1]] = (number, _microseconds(pairs, STATUSES))
        if match := GO.match(line):
            pairs = [part.split(": ", 1) for part in match[2].split(", ") if ": " in part]
            found[match[1]] = (number, _microseconds(pairs, GO_NAMES))
    for name, (number, row) in found.items():
        if name not in APART and not FAILED.fullmatch(name) and "n" in row:
            yield number, {"operation": words.operation(name.lower())} | row


def _microseconds(pairs: list[list[str]], names: dict[str, str]) -> dict[str, str]:
    return {
        names[name]: value if names[name] == "n" else words.nanoseconds(value, 1000, names[name])
        for name, value in pairs
        if name in names
    }
