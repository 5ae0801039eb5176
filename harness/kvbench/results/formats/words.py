"""How other programs name operations, sizes and times, and what these are here."""

import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from kvbench.cell.factors import UNITS
from kvbench.cell.workload import PARAMETERS
from kvbench.common.messages import BadInput

OPERATIONS = {  # by their names elsewhere; those of a step are that step's
    "insert": ("put", "set", "add", "create", "write", "store"),
    "get": ("read", "lookup", "find", "fetch"),
    "update": ("overwrite", "modify", "replace"),
    "remove": ("delete", "erase", "del"),
    "readseq": ("scan", "iterate"),
}
KNOWN = {name: here for here, names in OPERATIONS.items() for name in (here, *names)}
NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
}  # micro has two signs
RATES = r"(?:ops|operations|rows|requests)(?:_|/|_per_)s(?:ec|econd)?|throughput|qps"
STATISTICS = {  # by the names of a statistic elsewhere
    "mean_ns": ("mean", "avg", "average"),
    "sum_ns": ("sum", "total"),
    "min_ns": ("min", "minimum"),
    "p50_ns": ("p50", "median"),
    "p90_ns": ("p90",),
    "p99_ns": ("p99",),
    "p999_ns": ("p999", "p99.9", "p99_9"),
    "max_ns": ("max", "maximum"),
}
OF = {name: here for here, names in STATISTICS.items() for name in names}
TIME = re.compile(rf"({'|'.join(map(re.escape, sorted(OF, key=len, reverse=True)))})"
                  r"(?:_(?:latency|time|duration))?_(ns|us|µs|μs|ms|s)")  # fmt: skip
COLUMNS = {  # by the names of a column elsewhere
    "store": ("engine", "db", "database", "backend", "library"),
    "operation": ("op", "test", "benchmark"),
    "record_size": ("value_size", "value_bytes", "valuesize"),
    "records": ("keys", "entries", "items"),
    "n": ("ops", "operations", "iterations"),
    "key_size": ("key_bytes", "keysize"),
}
HERE = {name: here for here, names in COLUMNS.items() for name in names}


class Measure(NamedTuple):
    """What a column of times is: a column here, and the ns of its unit. Of a rate, `scale` is 0."""

    name: str
    scale: int


def operation(name: str) -> str:
    """The operation or step that another program calls so; the name itself if there is none."""
    plain = name.strip().lower()
    if plain in PARAMETERS:
        return plain
    return KNOWN.get(plain, name)


def named(name: str) -> tuple[str, str]:
    """The operation and the store of a benchmark's name, such as "Badger/put" or "PutBadger": the
    first part that is a word for an operation, and the other parts. The store is empty if no part
    is such a word, and the operation then the name itself."""
    parts = [part for part in re.split(r"[/_\s]+|(?<=[a-z0-9])(?=[A-Z])", name) if part]
    known = next((part for part in parts if part.lower() in KNOWN), None)
    if known is None:
        return name, ""
    return operation(known), "-".join(part for part in parts if part is not known).lower()


def measure(name: str) -> Measure | None:
    """What a column is if it has times or rates, such as "p99 (us)", "avg_latency_ms" or "ops/s";
    None if it has none."""
    plain = re.sub(r"[\s(\[]+", "_", name.strip().lower()).strip(")]_")
    if re.fullmatch(RATES, plain):
        return Measure("mean_ns", 0)
    match = TIME.fullmatch(plain)
    return Measure(OF[match[1]], NS[match[2]]) if match else None


def column(name: str) -> str:
    """The column that another program calls so; the name itself if there is none."""
    plain = re.sub(r"\s+", "_", name.strip().lower())
    return HERE.get(plain, plain)


def nanoseconds(text: str, scale: int, column: str = "mean_ns") -> str:
    """A time in a unit of `scale` ns, or a rate per second if `scale` is 0, in ns: a whole number
    unless it is a mean. Raises BadInput."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadInput(f"{text!r:.60} is not allowed; allowed: a number") from None
    if not value.is_finite() or value < 0 or (not scale and not value):
        raise BadInput(f"{text!r:.60} is not allowed; allowed: a number above 0")
    found = value * scale if scale else 10**9 / value
    return f"{float(found):.12g}" if column == "mean_ns" else str(round(found))


def size(text: str) -> str:
    """Bytes of a size such as "1KB" or "1 KiB", as a program writes it that means 1,024 by both."""
    match = re.fullmatch(r"\s*(\d{1,12})\s*([kKmMgG]?)(i?[bB])?\s*", text)
    if not match:
        return text
    unit = {"": "B", "k": "KiB", "m": "MiB", "g": "GiB"}[match[2].lower()]
    return str(int(match[1]) * UNITS[unit])


def label(*parts: str) -> str:
    """A label of the parts that are not empty, in the letters that a label may have."""
    return re.sub(r"[^A-Za-z0-9 .,:/%+-]+", " ", " ".join(filter(None, parts))).strip()[:60]
