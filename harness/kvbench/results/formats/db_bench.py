"""Output of db_bench: LevelDB's, from which those of RocksDB and LMDB descend.

    LevelDB:    version 1.23
    Keys:       16 bytes each
    Values:     100 bytes each (50 bytes after compression)
    Entries:    1000000
    fillseq      :       1.765 micros/op;   62.7 MB/s
    fillsync     :     268.409 micros/op;    0.4 MB/s (1000 ops)
    readrandom   :       2.460 micros/op; (864322 of 1000000 found)

RocksDB writes the rate and, from 2022 on, the seconds and the operations after the time. A
histogram in microseconds may follow. The name of the engine goes to the standard error, so a file
may lack it.
The time is that of one thread; a benchmark that writes in batches is left out, since its time is
that of a record of a batch.
"""

import re
from collections.abc import Iterator

from kvbench.results.formats import words

BEGINS = re.compile(r"^(\w[\w ]*?):\s+version\s+(.+?)\s*$")
ENGINES = {"mdb": "lmdb"}
HEAD = {
    "key_size": re.compile(r"^Keys:\s+(\d+) bytes each"),
    "record_size": re.compile(r"^Values:\s+(\d+) bytes each"),
    "records": re.compile(r"^Entries:\s+(\d+)\s*$"),
    "cpu": re.compile(r"^CPU:\s+\d+ \* (.+?)\s*$"),
    "cores": re.compile(r"^CPU:\s+(\d+) \* "),
}
LINE = re.compile(r"^(\w+)\s+:\s+(\d+(?:\.\d+)?) micros/op\b(.*)$")
COUNTED = re.compile(r"\((\d+) ops\)|\(\d+ of (\d+) found\)|\b(\d+) operations\b")
SYNCED = {"fillsync": "fillrandom", "fillseqsync": "fillseq", "fillrandsync": "fillrandom"}
DETAILS = {  # of a histogram
    "p50_ns": re.compile(r"\bMedian: (\d+(?:\.\d+)?)"),
    "p99_ns": re.compile(r"\bP99: (\d+(?:\.\d+)?)"),
    "p999_ns": re.compile(r"\bP99\.9: (\d+(?:\.\d+)?)"),
    "min_ns": re.compile(r"\bMin: (\d+(?:\.\d+)?)"),
    "max_ns": re.compile(r"\bMax: (\d+(?:\.\d+)?)"),
}


def fits(text: str) -> bool:
    return any(LINE.match(line) for line in text.splitlines())


def read(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """One row for each benchmark that ran. A header counts until the next one."""
    head: dict[str, str] = {}
    row: dict[str, str] = {}
    at = 0
    for number, line in enumerate(text.splitlines(), 1):
        if begins := BEGINS.match(line):
            name = begins[1].lower()
            head = {"store": ENGINES.get(name, name), "engine_version": begins[2]}
        for name, pattern in HEAD.items():
            if match := pattern.match(line):
                head[name] = match[1]
        if match := LINE.match(line):
            if row:
                yield at, row
            at, row = number, head | _row(match[1], match[2], match[3], head)
        elif row:
            for name, pattern in DETAILS.items():
                if (match := pattern.search(line)) and float(match[1]) > 0:
                    row.setdefault(name, words.nanoseconds(match[1], 1000, name))
    if row:
        yield at, row


def _row(name: str, micros: str, rest: str, head: dict[str, str]) -> dict[str, str]:
    counted = COUNTED.search(rest)
    n = next(filter(None, counted.groups()), "") if counted else head.get("records", "")
    row = {"operation": words.operation(SYNCED.get(name, name)), "n": n}
    row |= {"durability": "sync"} if name in SYNCED else {}
    return row | {"mean_ns": words.nanoseconds(micros, 1000)}
