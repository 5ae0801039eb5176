"""Traces of other programs: a CSV of ours, the text of RocksDB's trace_analyzer, and the cache
traces that Twitter published. Each is read into the rows of kvbench.trace.format."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from kvbench.common.messages import BadInput, brief, listed
from kvbench.results.formats.words import OPERATIONS as WORDS
from kvbench.trace.format import MOST_ROWS, ROWS, Trace, is_trace, read
from kvbench.trace.recorder.kvbench_recorder.rows import (
    ALONE,
    COMMIT,
    FOUND,
    GET,
    OTHER,
    PUT,
    REMOVE,
    SCAN,
)  # fmt: skip

MOST_BYTES = 8 << 30  # of a text file
UNITS = {"time_ns": 1, "time_us": 1e3, "time_ms": 1e6, "time_s": 1e9}  # columns of a CSV, in ns
COLUMNS = ("operation", "key", "key_size", "value_size", "found", "thread", "store", *UNITS)
NAMES = {"get": GET, "insert": PUT, "update": PUT, "remove": REMOVE, "readseq": SCAN}
OWN = {"put": PUT, "commit": COMMIT, "other": OTHER}
# tools/trace_analyzer_tool.h of RocksDB: the number of a query's type
ROCKSDB = {0: GET, 1: PUT, 2: REMOVE, 3: REMOVE, 4: OTHER, 5: PUT, 6: SCAN, 7: SCAN, 8: GET}
ROCKSDB_LINE = re.compile(rb"(?:0x)?[0-9A-Fa-f]+ \d+ \d+ \d+ \d+\r?\n")
# https://github.com/twitter/cache-trace: the columns, and the words of its operations
TWITTER = ("time_s", "key", "key_size", "value_size", "thread", "operation", "ttl")
TWITTER_WORDS = {
    "get": GET, "gets": GET, "set": PUT, "add": PUT, "replace": PUT, "cas": PUT, "append": PUT,
    "prepend": PUT, "delete": REMOVE, "incr": PUT, "decr": PUT,
}  # fmt: skip
TWITTER_LINE = re.compile(
    rb"\d+,[^,\n]*,\d+,\d+,\d+,(?:%s),\d+\r?\n" % b"|".join(w.encode() for w in TWITTER_WORDS)
)


def read_any(path: Path) -> Trace:
    """Read a trace of any known format. Raises BadInput."""
    name = brief(str(path))
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from None
    if is_trace(head):
        return read(path)
    if size > MOST_BYTES:
        raise BadInput(f"{name}: {size:,} B; allowed: {MOST_BYTES:,} B at most")
    first = head[: head.find(b"\n") + 1]
    for line, reader in FORMATS.items():
        if line.fullmatch(first):
            return reader(path)
    raise BadInput(
        f"{name} is no trace; allowed: one of `kvbench record`, RocksDB's trace_analyzer or "
        "Twitter's, or a CSV with a column operation"
    )


def _csv(path: Path) -> Trace:
    table = _table(path, header=0, sep=",")
    unknown = [column for column in table if column not in COLUMNS]
    if unknown:
        raise _bad(path, 1, f"column {brief(str(unknown[0]))!r} is unknown", listed(COLUMNS))
    if "key" not in table:
        raise _bad(path, 1, "no column key", "one with the key of each operation")
    words = table.operation.str.lower()
    known = {word: NAMES[name] for name in NAMES for word in (name, *WORDS.get(name, ()))} | OWN
    return _trace(path, table, words.map(known), words)


def _rocksdb(path: Path) -> Trace:
    names = ["key", "operation", "store", "value_size", "time_us"]
    table = _table(path, header=None, sep=" ", names=names)
    table["key_size"] = (table.key.str.removeprefix("0x").str.len() // 2).astype(str)
    return _trace(path, table, table.operation.map({str(k): v for k, v in ROCKSDB.items()}),
                  table.operation)  # fmt: skip


def _twitter(path: Path) -> Trace:
    table = _table(path, header=None, sep=",", names=list(TWITTER))
    found = _trace(path, table, table.operation.map(TWITTER_WORDS), table.operation)
    gets = found.rows["operation"] == GET  # a value's size of 0: it was not there
    found.rows["flags"][gets & (found.rows["size"] == 0)] = 0
    return found


def _table(path: Path, **how: object) -> pd.DataFrame:
    """The columns of a text file, as text. Raises BadInput."""
    try:
        return pd.read_csv(  # type: ignore[call-overload, no-any-return]
            path, dtype=str, keep_default_na=False, nrows=MOST_ROWS, encoding_errors="replace",
            **how,
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError) as error:
        raise BadInput(f"{brief(str(path))}: {brief(str(error).strip())}") from None


def _trace(
    path: Path, table: pd.DataFrame, operations: "pd.Series[int]", words: "pd.Series[str]"
) -> Trace:
    """The rows of a table whose columns are COLUMNS. Raises BadInput, which names the first value
    that is not allowed."""
    if operations.isna().any():
        at = int(operations.isna().to_numpy().argmax())
        raise _bad(path, at, f"operation {brief(words.iloc[at])!r} is unknown",
                   "get, put, remove, scan")  # fmt: skip
    rows = np.zeros(len(table), dtype=ROWS)
    rows["operation"] = operations
    rows["flags"] = np.where(rows["operation"] == GET, FOUND, ALONE)
    rows["key"] = pd.util.hash_array(table.key.to_numpy(dtype=object), categorize=False)
    for column, field in (("value_size", "size"), ("key_size", "key_size")):
        if column in table:
            most = float(np.iinfo(rows.dtype[field]).max)
            rows[field] = np.minimum(_numbers(path, table, column), most)
    for column in ("thread", "store"):
        if column in table:
            rows[column] = pd.factorize(table[column])[0]
    if "found" in table:
        known = table.found.map({"0": 0, "1": FOUND, "": FOUND})
        if known.isna().any():
            at = int(known.isna().to_numpy().argmax())
            raise _bad(path, at, f"found: {brief(table.found.iloc[at])!r}", "0, 1")
        rows["flags"] = np.where(rows["operation"] == GET, known, rows["flags"])
    for column in UNITS.keys() & set(table):
        times = _numbers(path, table, column) * UNITS[column]
        rows["time"] = times - times.min()
    return Trace(np.sort(rows, order="time", kind="stable"), {})


def _numbers(path: Path, table: pd.DataFrame, column: str) -> "np.typing.NDArray[np.float64]":
    found = pd.to_numeric(table[column].replace("", "0"), errors="coerce").to_numpy(dtype=float)
    bad = ~np.isfinite(found) | (found < 0) | (found > 2**63)
    if bad.any():
        at = int(bad.argmax())
        raise _bad(path, at, f"{column}: {brief(table[column].iloc[at])!r}", "a number from 0")
    return found


def _bad(path: Path, row: int, what: str, allowed: str) -> BadInput:
    return BadInput(f"{brief(str(path))}: row {row + 1}: {what}; allowed: {allowed}")


FORMATS: dict["re.Pattern[bytes]", Callable[[Path], Trace]] = {
    ROCKSDB_LINE: _rocksdb,
    TWITTER_LINE: _twitter,
    re.compile(rb'(?:\xef\xbb\xbf)?[\w" ]+(?:,[\w" ]+)*\r?\n'): _csv,
}
