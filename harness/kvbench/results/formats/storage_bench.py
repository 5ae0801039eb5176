"""The log of rust-storage-bench: JSON, an object or an array a line.

The newest log ends with histograms, in ns. Older ones have the average of each interval, which is
weighted here by the operations of the interval.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvbench.common.messages import BadInput
from kvbench.results.formats import words

COUNTED = {  # by operation: its count, which only grows, and its average, in two generations
    "insert": (("write_ops", "write_latency"), ("write_ops", "avg_write_latency")),
    "get": (("point_read_ops", "point_read_latency"), ("read_ops", "avg_read_latency")),
    "remove": (("delete_ops", "delete_latency"),),
}
HISTOGRAMS = {"write": "insert", "point_read": "get"}
NAMES = {"mean": "mean_ns", "p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns"}


def fits(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return first.startswith("{") and '"cpu"' in first and '"kernel"' in first and '"os"' in first


def _parsed(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                raise BadInput(f"line {number}: not JSON; allowed: a value a line") from None


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    known: dict[str, str] = {}
    names: list[str] = []
    sums: dict[str, float] = {}
    last: dict[str, float] = {}
    details: dict[str, dict[str, str]] = {}
    at = 1
    for number, one in _parsed(text):
        at = number
        if isinstance(one, list):
            if one and all(isinstance(name, str) for name in one):
                names = one
            else:
                _add(dict(zip(names, one, strict=False)), sums, last)
        elif isinstance(one, Mapping) and one.get("histogram"):
            operation = HISTOGRAMS.get(str(one.get("type")))
            if operation and one.get("unit") == "ns":
                details[operation] = {
                    here: words.nanoseconds(str(one[there]), 1, here)
                    for there, here in NAMES.items()
                    if there in one
                }
        elif isinstance(one, Mapping) and one.get("type") == "metrics":
            _add(one, sums, last)
        elif isinstance(one, Mapping):
            known |= _facts(one)
    for operation, n in last.items():
        if n > 0:
            mean = {"mean_ns": f"{sums[operation] / n:.12g}"}
            yield (
                at,
                known
                | {"operation": operation, "n": str(int(n))}
                | mean
                | details.get(operation, {}),
            )


def _add(line: Mapping[str, Any], sums: dict[str, float], last: dict[str, float]) -> None:
    for operation, columns in COUNTED.items():
        for count, average in columns:
            n, mean = line.get(count), line.get(average)
            if isinstance(n, int | float) and isinstance(mean, int | float):
                sums[operation] = sums.get(operation, 0.0) + (n - last.get(operation, 0.0)) * mean
                last[operation] = float(n)
                break


def _facts(one: Mapping[str, Any]) -> dict[str, str]:
    """What a line says of the machine, the store or the records."""
    inside = [one, *(part for part in one.values() if isinstance(part, Mapping))]
    inside += [part for own in inside[1:] for part in own.values() if isinstance(part, Mapping)]
    found: dict[str, str] = {}
    for part in inside:
        named = str(part.get("display_name") or part.get("backend") or "")
        if named:
            store, _, version = named.partition(" ")
            found["store"] = store
            found |= {"engine_version": version} if version else {}
        for here, there in (
            ("records", "item_count"),
            ("records", "items"),
            ("record_size", "value_size"),
            ("cpu", "cpu"),
            ("kernel", "kernel"),
        ):
            if isinstance(part.get(there), int | str) and part[there] != "":
                found.setdefault(here, str(part[there]))
        if part.get("fsync") is True:
            found["durability"] = "sync"
    return found
