"""Output of go test -bench: a benchmark's name, its iterations, and pairs of a value and a unit.

    BenchmarkBadger/put-8     1000000      1234 ns/op     9000 p99-ns     512 B/op    3 allocs/op

An iteration is taken as an operation. With -count, the lines of a name are trials.
"""

import re
from collections import Counter
from collections.abc import Iterator

from kvbench.results.formats import words

LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+(\d+)((?:\s+\d+(?:\.\d+)?\s+\S+)+)\s*$")
CUSTOM = re.compile(
    r"(p50|p90|p99|p999|min|max)-(ns|us|µs|ms|s)(?:/op)?|(ns|us|ms|s)/(p50|p90|p99|p999)"
)
HEAD = re.compile(r"^cpu:\s+(.+?)\s*$")


def fits(text: str) -> bool:
    return any(LINE.match(line) for line in text.splitlines())


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    machine: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if head := HEAD.match(line):
            machine = {"cpu": head[1]}
        if match := LINE.match(line):
            seen[match[1]] += 1
            operation, store = words.named(match[1])
            row = {"operation": operation, "n": match[2], "trial": str(seen[match[1]])}
            row |= {"store": store} if store else {}
            pairs = match[3].split()
            for value, unit in zip(pairs[::2], pairs[1::2], strict=True):
                row |= _time(value, unit)
            yield number, machine | row


def _time(value: str, unit: str) -> dict[str, str]:
    """A value by its column; nothing if it is no time."""
    if unit == "ns/op":
        return {"mean_ns": value}
    if found := CUSTOM.fullmatch(unit):
        name, scale = found[1] or found[4], words.NS[found[2] or found[3]]
        return {f"{name}_ns": words.nanoseconds(value, scale, f"{name}_ns")}
    return {}
