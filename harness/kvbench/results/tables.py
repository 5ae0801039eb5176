"""The tables of a results folder: their columns, and reading, checking and exporting them.

data/README.md explains the columns.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, one_line
from kvbench.experiment.factors import FACTORS

SCHEMA_VERSION = 9
STATUSES = ("ok", "failed", "skipped", "unavailable")
MOST_BYTES = 1 << 30  # of a table in memory
MOST_ROWS = 10_000_000
ROWS = 1024  # that are read at a time
MOST_CHARACTERS = 100_000  # of a text
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet begins a formula
NAME = r"^[A-Za-z0-9 ._=+-]{0,300}$"

_INT, _REAL, _TEXT = pa.int64(), pa.float64(), pa.string()
_KINDS = {
    "name": _TEXT, "text": _TEXT, "int": _INT, "real": _REAL,
    "bins": pa.list_(pa.int32()), "counts": pa.list_(_INT),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Column:
    """`kind` is a key of _KINDS; a name has plain characters only. `needed` says which rows have a
    value: "given" (all), "always" (all that a sweep wrote, but not imported ones), "measured"
    (those of cells that a sweep measured) or "" (none has to)."""

    name: str
    kind: str
    unit: str = ""
    needed: str = ""
    key: bool = False  # with the table's other keys it identifies a row


def _needed(factor: str) -> str:
    return "given" if factor in ("store", "record_size", "records") else "always"


def _columns(*rows: Any, keys: int = 1) -> tuple[Column, ...]:
    return tuple(dataclasses.replace(Column(*row), key=at < keys) for at, row in enumerate(rows))


COLUMNS = {
    "cells": _columns(
        ("cell", "name", "", "given"),
        *(
            (name, "int" if factor.column is int else "text", factor.unit, _needed(name))
            for name, factor in FACTORS.items()
            if name != "operations"
        ),
        ("access", "name", "", "always"),
        ("timed", "name"),
        ("record_size_min", "int", "B", "given"),
        ("record_size_max", "int", "B", "given"),
        ("guarantee", "name", "", "measured"),
        ("status", "name", "", "given"),
        ("reason", "text", "", "given"),
        ("machine", "name", "", "given"),
        ("engine_version", "text"),
        ("binding_version", "text"),
        ("checksum", "name"),
        ("revision", "name"),
        ("started", "text", "UTC"),
        ("effective_options", "text"),
        ("compressed_share", "real", "1"),
        ("snappy_share", "real", "1"),
        ("cached_share", "real", "1"),
        ("cached_end", "real", "1"),
        ("eviction", "name", "", "measured"),
        ("live_records", "int", "1", "measured"),
        ("live_bytes", "int", "B", "measured"),
        ("disk_bytes", "int", "B", "measured"),
        ("memory_anonymous_bytes", "int", "B", "measured"),
        ("memory_file_bytes", "int", "B", "measured"),
        ("settled", "name", ""),
        ("debt_s", "real", "s"),
        ("debt_cpu_s", "real", "s"),
        ("debt_bytes", "int", "B"),
        ("ended_disk_bytes", "int", "B"),
        ("debt_disk_bytes", "int", "B"),
        ("floor_ns", "real", "ns"),
        ("settle_s", "real", "s"),
        ("removed_files", "int", "1"),
        ("load_before", "real", "1"),
        ("steal_s", "real", "s"),
        ("memory_stall_s", "real", "s"),
        ("stopped_s", "real", "s"),
        ("frequency_mhz", "real", "MHz"),
        ("open_s", "real", "s"),
        ("reopen_s", "real", "s"),
        ("load_s", "real", "s"),
        ("rounds_s", "real", "s"),
        ("check_s", "real", "s"),
        ("close_s", "real", "s"),
        ("wall_s", "real", "s"),
    ),
    "operations": _columns(
        ("cell", "name", "", "given"),
        ("operation", "name", "", "given"),
        ("n", "int", "1", "given"),
        ("items", "int", "1", "always"),
        ("sum_ns", "int", "ns", "always"),
        ("min_ns", "int", "ns"),
        ("max_ns", "int", "ns"),
        ("p50_ns", "real", "ns"),
        ("p90_ns", "real", "ns"),
        ("p99_ns", "real", "ns"),
        ("p999_ns", "real", "ns"),
        ("histogram_bin", "bins", "1", "given"),
        ("histogram_count", "counts", "1", "given"),
        ("wall_s", "real", "s"),
        ("user_s", "real", "s"),
        ("system_s", "real", "s"),
        ("read_bytes", "int", "B"),
        ("write_bytes", "int", "B"),
        ("rchar", "int", "B"),
        ("wchar", "int", "B"),
        ("read_calls", "int", "1"),
        ("write_calls", "int", "1"),
        ("minor_faults", "int", "1"),
        ("major_faults", "int", "1"),
        ("syncs", "int", "1"),
        ("instructions", "int", "1"),
        ("device_read_bytes", "int", "B"),
        ("device_write_bytes", "int", "B"),
        ("paused_share", "real", "1"),
        ("per_eviction", "int", "1"),
        ("counted", "int", "1"),
        ("system_calls", "int", "1"),
        ("disk_bytes", "int", "B"),
        ("threads", "int", "1"),
        ("least_share", "real", "1"),
        ("most_share", "real", "1"),
        ("timeline", "counts", "1 each 0.1 s"),
        ("closed_rate", "real", "1/s"),
        ("asked_rate", "real", "1/s"),
        ("reached_rate", "real", "1/s"),
        ("waited_s", "real", "s"),
        ("late_p50_ns", "real", "ns"),
        ("late_p99_ns", "real", "ns"),
        ("late_max_ns", "int", "ns"),
        keys=2,
    ),
    "timeline": _columns(
        ("cell", "name", "", "given"),
        ("operation", "name", "", "given"),
        ("second", "int", "s", "given"),
        ("n", "int", "1", "given"),
        ("mean_ns", "real", "ns"),
        ("p99_ns", "real", "ns"),
        ("max_ns", "int", "ns"),
        ("device_bytes", "int", "B"),
        ("space_bytes", "int", "B"),
        keys=3,
    ),
    "machines": _columns(
        ("machine", "name", "", "given"),
        ("cpu", "text", "", "always"),
        ("cores", "int", "1", "always"),
        ("memory_bytes", "int", "B", "always"),
        ("kernel", "text", "", "always"),
        ("file_system", "text", "", "always"),
        ("mount_options", "text"),
        ("governor", "text"),
        ("fsync_ms", "real", "ms", "always"),
        ("proactive_reclaim", "text"),
        ("read_ahead_bytes", "int", "B"),
        ("probe", "text"),
        ("sync_p50_us", "real", "us"),
        ("sync_p90_us", "real", "us"),
        ("sync_p99_us", "real", "us"),
        ("sync_max_us", "real", "us"),
        ("random_read_us", "real", "us"),
        ("write_rate", "real", "B/s"),
        ("read_rate", "real", "B/s"),
        ("memory_rate", "real", "B/s"),
        ("clock_ns", "real", "ns"),
        ("python", "text"),
        ("packages", "text"),
        ("engines", "text"),
        ("compiler", "text"),
        ("revision", "name"),
    ),
}


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    fields = [
        pa.field(column.name, _KINDS[column.kind], metadata={"unit": column.unit})
        for column in columns
    ]
    return pa.schema(fields, metadata={"kvbench_schema": str(SCHEMA_VERSION)})


SCHEMAS = {name: _schema(columns) for name, columns in COLUMNS.items()}
TIMELINE = "timeline"  # a table that is there only where cells have steps
TABLES = {name: schema for name, schema in SCHEMAS.items() if name != TIMELINE}


def table_of(path: Path | str, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the schema; a BadInput names the first that does not fit."""
    try:
        return pa.Table.from_pylist(rows, SCHEMAS[name])
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if len(rows) == 1:
            key = rows[0][COLUMNS[name][0].name]
            raise BadInput(f"{path}: {name}: {key}: does not fit the schema: {error}") from None
        for row in rows:
            table_of(path, name, [row])
        raise


def check_values(name: str, table: pa.Table, needed: str = "") -> None:
    """Refuse values that no measurement has: below zero, no number, no name, or missing from a
    column that is needed so."""
    for column in COLUMNS[name]:
        values = table[column.name]
        missing = values.null_count and needed and column.needed == needed
        if pa.types.is_list(values.type):
            values = pc.list_flatten(values)
            missing = missing or values.null_count
        if missing:
            raise BadInput(f"{column.name}: a value is missing")
        if values.type == _TEXT:
            values = values.unique()
            sound = pc.less_equal(pc.utf8_length(values), MOST_CHARACTERS)
            allowed = f"at most {MOST_CHARACTERS:,} characters"
            if column.kind == "name":
                sound = pc.match_substring_regex(values, NAME)
                allowed = "letters, digits, spaces and ._=+-"
        else:
            sound = pc.and_(pc.greater_equal(values, 0), pc.is_finite(values))
            allowed = "0 or more"
        for value in values.filter(pc.invert(sound)).slice(0, 1).to_pylist():
            raise BadInput(f"{column.name}: {value!r:.100} is not allowed; allowed: {allowed}")


def check(path: Path | str, tables: dict[str, pa.Table]) -> None:
    """Refuse what neither a sweep nor an import writes: such values, rows that are there twice,
    levels that no grid has, and cells, operations and machines without each other. An imported cell
    has no checksum, and lacks what is not stated of it."""
    cells = tables["cells"]
    measured = cells.filter(pc.equal(cells["status"], "ok"))
    imported = cells.filter(pc.is_null(cells["checksum"]))
    for name, table in tables.items():
        key = COLUMNS[name][0].name
        swept = table.filter(pc.invert(pc.is_in(table[key], value_set=imported[key])))
        try:
            check_values(name, table, "given")
            check_values(name, swept, "always")
            if name == "cells":
                check_values(name, swept.filter(pc.equal(swept["status"], "ok")), "measured")
                for column in set(FACTORS) & set(table.column_names):
                    # The keys of other programs have any size.
                    stated = (swept if column == "key_size" else table)[column]
                    for level in stated.unique().drop_null().to_pylist():
                        FACTORS[column].level(level)
        except BadInput as error:
            raise BadInput(f"{path}: {name}: {error}") from None
        keys = [column.name for column in COLUMNS[name] if column.key]
        counts = table.group_by(keys).aggregate([([], "count_all")])
        for row in counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist():
            raise BadInput(f"{path}: {name}: {' '.join(str(row[key]) for key in keys)} twice")
    timed = tables["operations"]["cell"]
    seconds = tables[TIMELINE]["cell"] if TIMELINE in tables else timed
    for name, column, values, known, lacks in (
        ("operations", "cell", timed, measured["cell"], "is not one that was measured"),
        (TIMELINE, "cell", seconds, measured["cell"], "is not one that was measured"),
        ("cells", "cell", measured["cell"], timed, "has no operations"),
        ("cells", "machine", cells["machine"], tables["machines"]["machine"], "is not described"),
    ):
        lost = values.filter(pc.invert(pc.is_in(values, value_set=known)))
        for value in lost.slice(0, 1).to_pylist():
            raise BadInput(f"{path}: {name}: {column} {value!r} {lacks}")


def read_tables(path: Path) -> dict[str, pa.Table]:
    """The collected tables of a folder, checked against the schema."""
    tables = {}
    for name in SCHEMAS:
        file = path / f"{name}.parquet"
        if name == TIMELINE and not file.exists():
            continue
        try:
            if not file.is_file():
                raise BadInput(f"{file}: not there; run `kvbench collect {path}`")
            tables[name] = _read(file, name)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"{file}: not readable as Parquet: {reason}") from None
    check(path, tables)
    return tables


def _read(file: Path, name: str) -> pa.Table:
    """A table. What its metadata say is checked first: a small file may stand for a large one."""
    metadata = pq.read_metadata(file)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    _refuse_large(file, metadata.num_rows, "rows", MOST_ROWS)
    _refuse_large(file, sum(group.total_byte_size for group in groups), "bytes", MOST_BYTES)
    found = metadata.schema.to_arrow_schema()
    version = (found.metadata or {}).get(b"kvbench_schema", b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise BadInput(f"{file}: schema version {version}; allowed: {SCHEMA_VERSION}")
    types = {field.name: field.type for field in SCHEMAS[name]}
    if len(found) != len(types) or {field.name: field.type for field in found} != types:
        raise BadInput(f"{file}: columns differ from those of schema version {version}")
    # In parts, and texts as dictionaries: a long text or list may be there a million times.
    texts = [column for column, kind in types.items() if kind == _TEXT]
    parts, size = [], 0
    with pq.ParquetFile(file, read_dictionary=texts, page_checksum_verification=True) as data:
        for part in data.iter_batches(ROWS):
            size += part.nbytes + sum(map(_decoded, part.columns))
            _refuse_large(file, size, "bytes", MOST_BYTES)
            parts.append(part)
    table = pa.Table.from_batches(parts, None if parts else pa.schema(types.items()))
    # With our own metadata: pandas acts upon what it finds there.
    table = table.select(SCHEMAS[name].names).cast(SCHEMAS[name])
    table.validate(full=True)
    return table


def _refuse_large(file: Path, count: int, what: str, most: int) -> None:
    if count > most:
        raise BadInput(f"{file}: {count:,} {what} in memory; allowed: {most:,} at most")


def _decoded(column: pa.Array) -> int:
    """The bytes of the texts that a dictionary stands for."""
    if not pa.types.is_dictionary(column.type):
        return 0
    return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0


def write_tables(path: Path, tables: dict[str, pa.Table]) -> None:
    """Write the tables of a folder as Parquet. The cells come last: if this is killed, the cells of
    an earlier collection do not match, which reading notices."""
    if TIMELINE not in tables:
        (path / f"{TIMELINE}.parquet").unlink(missing_ok=True)  # of an earlier collection
    for name in reversed(tables):
        sink = pa.BufferOutputStream()
        pq.write_table(tables[name], sink, compression="zstd", write_page_checksum=True)
        write_whole(path / f"{name}.parquet", sink.getvalue().to_pybytes())


def check_targets(path: Path, csv: bool, xlsx: bool) -> None:
    """Refuse folders where tables are to be written, before any of them is."""
    suffixes = (".parquet", ".csv") if csv else (".parquet",)
    names = [f"{name}{suffix}" for suffix in suffixes for name in SCHEMAS]
    for name in names + ["results.xlsx"] * xlsx:
        if (path / name).is_dir():
            raise BadInput(f"{path / name}: a folder, where a table is to be written")


def plain(value: Any) -> Any:
    """A text that Excel takes and no spreadsheet runs; any other value as it is."""
    if type(value) is not str:
        return value
    return one_line(f"'{value}" if value.startswith(FORMULA) else value)


def export(tables: dict[str, pa.Table], path: Path, csv: bool, xlsx: bool) -> list[Path]:
    """The tables as CSV files, as sheets of one Excel file, or both. Lists become JSON."""
    import pandas as pd  # noqa: PLC0415 - slow to import, and only needed here

    written = []
    frames = {name: table.to_pandas() for name, table in tables.items()}
    for column in ("histogram_bin", "histogram_count", "timeline"):
        lists = frames["operations"][column]
        frames["operations"][column] = [
            json.dumps([] if values is None else list(map(int, values))) for values in lists
        ]
    frames = {name: frame.map(plain) for name, frame in frames.items()}
    if csv:
        for name, frame in frames.items():
            write_whole(path / f"{name}.csv", frame.to_csv(index=False).encode())
            written.append(path / f"{name}.csv")
    if xlsx:
        import io  # noqa: PLC0415

        buffer = io.BytesIO()
        with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
            for name, frame in frames.items():
                frame.to_excel(writer, sheet_name=name, index=False)
        write_whole(path / "results.xlsx", buffer.getvalue())
        written.append(path / "results.xlsx")
    return written
