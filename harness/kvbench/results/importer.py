"""Imports results that other programs measured: checks the rows of a table or of a program's
output, and converts them to the tables of a results folder. What a file does not state is missing,
or said by the caller; nothing gets a default."""

import codecs
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvbench.cell.factors import COLD_OPERATIONS, DURABILITY, MOST, OPERATIONS, RecordSize
from kvbench.cell.workload import BACKUP, CHURN, CHURN_SHARES, CONCURRENT, PARAMETERS, YCSB
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import FACTORS
from kvbench.machine.scratch import whole
from kvbench.results import formats
from kvbench.results.columns import COLUMNS
from kvbench.results.formats import table, words
from kvbench.results.tables import NAME, TABLES, check, table_of, write_tables

MOST_BYTES = 8 << 20  # of a CSV file: about 100,000 lines
REQUIRED = ("store", "operation", "record_size", "records", "n")
TIMES = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")  # in increasing order
SUFFICIENT = ("mean_ns", "sum_ns", *TIMES[1:-1])
# Columns that no other program knows, and the duplicates of columns that two tables have.
OWN = {
    "cells": {"cell", "timed", "record_size_min", "record_size_max", "status", "reason", "machine",
              "checksum", "revision", "wall_s"},
    "operations": {"cell", "histogram_bin", "histogram_count", "timeline", "disk_bytes"},
    "machines": {"machine", "revision"},
}  # fmt: skip
GIVEN = {
    table: {column.name: column for column in columns if column.name not in OWN[table]}
    for table, columns in COLUMNS.items()
    if table in TABLES
}
KINDS = {name: column.kind for given in GIVEN.values() for name, column in given.items()}
KINDS["mean_ns"] = "real"
IDENTITY = [name for name in GIVEN["cells"] if name in FACTORS or name == "access"]
CHOICES = {
    "access": ("c", "python"),
    "guarantee": DURABILITY[1:],
    "operation": (
        "load", *OPERATIONS, *(f"{name} later" for name in COLD_OPERATIONS), *PARAMETERS,
        *(f"{mix} {kind}" for mix, shares in YCSB.items() for kind in shares),
        *(f"{CHURN} {kind}" for kind in CHURN_SHARES),
        *(f"{step} {side}" for step in CONCURRENT for side in ("read", "write")), f"{BACKUP} write",
    ),
}  # fmt: skip
PATTERNS = {  # pandas writes whole numbers as 1.0 if the column has missing values
    "int": (r"[0-9]{1,19}(\.0*)?", "a whole number from {} to 2^63 - 1"),
    "real": (r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", "a number from {} to 2^63 - 1"),
    "name": (NAME, "up to 300 letters, digits, spaces and ._=+-"),
    "text": (r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1000}", "up to 1,000 characters on one line"),
}
SIZES = ("record_size", "memory", "memory_max")
LEAST = {"n": 1, "key_size": 1, "live_bytes": 1}
SIZED = ("record_size", "key_size")  # that may be said as 1KB or 1KiB
ABOVE = TIMES[1:]  # 0, which has no logarithm; a coarse clock may show 0 for the fastest call alone


def _value(name: str, text: str) -> Any:
    """The value of a field. Raises ValueError or BadInput if it is not allowed."""
    kind = KINDS[name]
    fits = re.fullmatch(PATTERNS[kind][0], text) and text in CHOICES.get(name, (text,))
    value: Any = text
    if fits and kind in ("int", "real"):
        value = int(text.partition(".")[0]) if kind == "int" else float(text)
        fits = LEAST.get(name, 0) <= value <= MOST and (value > 0 or name not in ABOVE)
    if not fits:
        raise ValueError
    if name in FACTORS and name not in LEAST:  # keys of other programs may have any size
        number = kind == "int" or (name in SIZES and text.isdecimal())
        value = FACTORS[name].level(int(text.partition(".")[0]) if number else text)
    return str(value) if isinstance(value, RecordSize) else value


def _allowed(name: str, text: str) -> str:
    if re.fullmatch(r"[0-9]+,[0-9]+", text) and KINDS[name] == "real":
        return "a decimal point, not a comma"
    if name in ABOVE and re.fullmatch(PATTERNS[KINDS[name]][0], text) and not float(text):
        return "more than 0, or empty if the clock is too coarse"
    if name in FACTORS and name not in LEAST:
        return FACTORS[name].levels()
    choices = CHOICES.get(name, ())
    if choices:
        return listed(choices, text, "data/README.md")
    return PATTERNS[KINDS[name]][1].format(LEAST.get(name, 0))


def _unfit(name: str, value: object, allowed: object) -> BadInput:
    return BadInput(f"{name}: {value!r:.60} is not allowed; allowed: {allowed}")


def _row(fields: dict[str, str]) -> dict[str, Any]:
    """The values of a line by column; None where a field is empty."""
    row: dict[str, Any] = dict.fromkeys(KINDS)
    for name, text in fields.items():
        if text or name in REQUIRED:
            try:
                row[name] = _value(name, text)
            except (ValueError, BadInput):
                raise _unfit(name, text, _allowed(name, text)) from None
    if all(row[name] is None for name in SUFFICIENT):
        raise _unfit(SUFFICIENT[0], "", f"empty where one of {', '.join(SUFFICIENT[1:])} is given")
    _check_times(row)
    return row


def _check_times(row: dict[str, Any]) -> None:
    total, n = row["sum_ns"], row["n"]
    if row["mean_ns"] is None and total is not None:
        row["mean_ns"] = total / n
    for chain in (TIMES, ("min_ns", "mean_ns", "max_ns")):
        for (below, least), (name, value) in pairwise(
            (name, row[name]) for name in chain if row[name] is not None
        ):
            if least > value:
                raise _unfit(name, value, f"{least} or more, which is {below}")
    if (mean := row.pop("mean_ns")) is not None:
        row["sum_ns"] = round(mean * n) if total is None else total
        if not 0 < row["sum_ns"] <= MOST:
            raise _unfit("mean_ns", mean, "more than 0, and 2^63 - 1 ns in all")
        if not 0.99 * row["sum_ns"] <= mean * n <= 1.01 * row["sum_ns"]:
            raise _unfit("mean_ns", mean, f"sum_ns / n, {total / n:g}, within 1%")


def _text(path: Path) -> str:
    if not path.is_file():
        raise BadInput(f"{path}: not a file; allowed: a CSV file")
    if path.stat().st_size > MOST_BYTES:
        raise BadInput(f"{path}: {path.stat().st_size:,} B; allowed: {MOST_BYTES:,} B at most")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at, what = error.start, "not UTF-8"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            what = "UTF-16, as some spreadsheets save text"
    else:
        if (at := data.find(b"\0")) < 0:
            return text
        what = "a NUL byte"
    line = data.count(b"\n", 0, at) + 1
    raise BadInput(f"{path}: line {line}: {what}; allowed: text in UTF-8")


def _table(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The values of a table's lines by column, with their numbers. Raises BadInput, which names the
    line."""
    lines = list(table.lines_of(text))
    if not lines:
        raise BadInput("empty; allowed: a line with the names of columns, and rows")
    (first, heads), *rest = lines
    comma = table.decimal_comma(text, rest)
    at = first
    try:
        names = _names(heads)
        timed = {name for name, measure in names if measure is None or measure.scale}
        for at, fields in rest:
            if len(fields) != len(names):
                raise BadInput(f"{len(fields)} values; allowed: {len(names)}, one for each column")
            yield (
                at,
                {
                    name: table.value(name, measure, field, comma)
                    for (name, measure), field in zip(names, fields, strict=True)
                    if measure is None
                    or measure.scale
                    or name not in timed  # a rate beside its time
                },
            )
    except BadInput as error:
        raise BadInput(f"line {at}: {error}") from None


def _names(heads: list[str]) -> list[table.Name]:
    if heads[0].lower().startswith("sep="):
        raise BadInput(f"{heads[0]!r:.60} is a line for a spreadsheet; allowed: without it")
    names = [(head, None) if head in KINDS else table.named(head) for head in heads]
    seen = Counter((name, measure is None or measure.scale > 0) for name, measure in names)
    for head, (name, measure) in zip(heads, names, strict=True):
        if not head:
            raise BadInput("a column without a name; allowed: a name for each, and none at the end")
        if name not in KINDS:
            known = listed(KINDS, name, "data/README.md")
            raise BadInput(f"column {head!r:.60} is unknown; allowed: {known}")
        if seen[name, measure is None or measure.scale > 0] > 1:
            raise BadInput(f"column {name!r} is there twice; allowed: once")
    if "operation" not in {name for name, _ in names}:
        raise BadInput("no column operation; needed: what each row timed")
    if not set(SUFFICIENT) & {name for name, _ in names}:
        raise BadInput(f"no column of times; needed: one of {', '.join(SUFFICIENT)}")
    return names


ASKED = {  # what a file may leave to be said, and the option that says it
    "store": "--store NAME", "record_size": "--value-size SIZE", "records": "--records N",
    "n": "--operations N",
}  # fmt: skip
OPTIONS = {name: option.split()[0] for name, option in ASKED.items()} | {
    "key_size": "--key-size", "durability": "--durability"
}  # fmt: skip


def _said(given: Mapping[str, str]) -> dict[str, str]:
    """What was said of rows that do not state it, by column, sizes in bytes. Raises BadInput."""
    found = {}
    for column, text in given.items():
        found[column] = words.size(text) if column in SIZED else text
        try:
            _value(column, found[column])
        except (ValueError, BadInput):
            allowed = _allowed(column, found[column])
            raise BadInput(
                f"{OPTIONS[column]}: {text!r:.60} is not allowed; allowed: {allowed}"
            ) from None
    return found


def _lines(
    text: str, name: str, given: Mapping[str, str], left: Counter[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a text with the numbers of their lines, in the named format. `given` has values
    by column, for rows that lack them. The operations of other programs that are none of ours are
    left out, and counted in `left`. Raises BadInput, which names the line."""
    own = name == formats.TABLE
    for line, found in _table(text) if own else formats.FORMATS[name].read(text):
        if not own and found["operation"] not in CHOICES["operation"]:
            left[found["operation"]] += 1
            continue
        fields = dict(given) | {column: value for column, value in found.items() if value}
        try:
            for column, option in ASKED.items():
                if column not in fields and (not own or column not in found):
                    raise BadInput(f"no {column}; say it with {option}")
            yield line, _row(found | fields)
        except BadInput as error:
            raise BadInput(f"line {line}: {error}") from None


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of a line that belong to the tables cells and machines."""
    size = RecordSize.parse(row["record_size"])
    machine = _digest([row[name] for name in GIVEN["machines"]])[:12]
    digest = _digest([machine, *(row[name] for name in IDENTITY)])
    place = str(size).replace(" ", "")
    parts = (row["store"], "imported", place, row["records"], f"t{row['trial'] or 1}", digest)
    if row["live_bytes"] is None and row["key_size"]:
        live = round(row["records"] * (row["key_size"] + size.mean))
        row["live_bytes"] = live
        if live > MOST:
            raise _unfit("records", row["records"], "so many that they have 2^63 - 1 B at most")
    known = {"status": "ok", "reason": "", "machine": machine, "cell": "_".join(map(str, parts))}
    return known | {"record_size_min": size.low, "record_size_max": size.high}


def _add(rows: dict[str, dict[Any, dict[str, Any]]], row: dict[str, Any]) -> None:
    """Add a line to the rows of the tables. Raises BadInput if the lines of a cell disagree about
    it."""
    own = _cell(row)
    key = own["cell"], row["operation"]
    if key in rows["operations"]:
        raise BadInput(
            f"operation: {row['operation']!r:.60} of this cell is there twice; allowed: once; "
            "number the trials in the column trial"
        )
    place = {"cell": own["cell"], "histogram_bin": [], "histogram_count": []}
    rows["operations"][key] = place | {name: row[name] for name in GIVEN["operations"]}
    machine = {name: row[name] for name in GIVEN["machines"]}
    rows["machines"][own["machine"]] = machine | {"machine": own["machine"]}
    kept = rows["cells"].setdefault(own["cell"], own)
    for name in GIVEN["cells"]:
        if row[name] is not None and kept.setdefault(name, row[name]) != row[name]:
            raise _unfit(name, row[name], f"{kept[name]!r}, as in another line of the cell")


def import_table(
    path: Path,
    out: Path,
    name: str = formats.AUTO,
    given: Mapping[str, str] | None = None,
    left: Counter[str] | None = None,
) -> dict[str, pa.Table]:
    """Write what a file of another program says as the tables of a new folder, and return them.

    `name` is the format of the file, of formats.FORMATS, or a table. `given` has values as text, by
    column, for rows that lack them; sizes may have a unit. `left` counts by name the operations
    that are left out: those of other programs that are none of ours, or that are there again.
    Raises BadInput, which names the first line that cannot be used; then nothing is written."""
    left = Counter() if left is None else left
    formats.check_name(name)
    said = _said(given or {})
    with whole(out) as made:
        rows: dict[str, dict[Any, dict[str, Any]]] = {name: {} for name in TABLES}
        text = _text(path)
        try:
            name = formats.detected(text, name)
            for line, row in _lines(text, name, said, left):
                try:
                    own = _cell(row)["cell"], row["operation"]
                    if name != formats.TABLE and own in rows["operations"]:
                        left[f"{row['operation']} again"] += 1
                        continue
                    _add(rows, row)
                except BadInput as error:
                    raise BadInput(f"line {line}: {error}") from None
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None
        if not rows["cells"]:
            raise BadInput(f"{path}: no rows; allowed: one for each operation that was measured")
        tables = {name: table_of(path, name, list(rows[name].values())) for name in TABLES}
        check(path, tables)
        write_tables(made, tables)
        return tables
