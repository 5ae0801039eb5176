"""The tables of a results folder: reads, checks, writes and exports them.

data/README.md and columns.py explain the columns.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput, listed, one_line
from kvbench.experiment.factors import FACTORS
from kvbench.results.columns import COLUMNS, Column

SCHEMA_VERSION = 9
STATUSES = ("ok", "failed", "skipped", "unavailable")
MOST_BYTES = 1 << 30  # of a table in memory
MOST_ROWS = 10_000_000
ROWS = 1024  # to read at a time
MOST_CHARACTERS = 100_000  # in a text
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # the first characters of a spreadsheet formula
NAME = r"^[A-Za-z0-9 ._=+-]{0,300}$"


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    fields = [
        pa.field(column.name, column.type, metadata={"unit": column.unit}) for column in columns
    ]
    return pa.schema(fields, metadata={"kvbench_schema": str(SCHEMA_VERSION)})


SCHEMAS = {name: _schema(columns) for name, columns in COLUMNS.items()}
TIMELINE = "timeline"  # the table that exists only if a cell has steps
TABLES = {name: schema for name, schema in SCHEMAS.items() if name != TIMELINE}


def table_of(path: Path | str, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the schema. Raises BadInput, which names the first row that does not
    fit."""
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
    """Raise BadInput for values that no measurement has: negative or not finite numbers, names with
    other characters, too long texts, and missing values in columns that need them."""
    for column in COLUMNS[name]:
        values = table[column.name]
        missing = values.null_count and needed and column.needed == needed
        if pa.types.is_list(values.type):
            values = pc.list_flatten(values)
            missing = missing or values.null_count
        if missing:
            raise BadInput(f"{column.name}: a value is missing")
        if pa.types.is_string(values.type):
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
    """Raise BadInput for what neither a sweep nor an import writes: values that check_values
    refuses, duplicate rows, levels that no grid allows, cells without operations or without their
    machine, and operations without their cell. Imported cells have no checksum, and may lack more
    columns."""
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
                    # Keys of other programs may have any size.
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


def read_tables(path: Path, contents: Mapping[str, bytes] | None = None) -> dict[str, pa.Table]:
    """Read the tables of a collected folder, and check them against the schema. If a table lacks a
    column of a factor added later, swept cells get its default; other optional columns are filled
    with missing values. With `contents`, the bytes of its files by name, nothing is read from disk,
    and `path` is the folder's name in messages. Raises BadInput."""
    tables = {}
    for name in SCHEMAS:
        file = path / f"{name}.parquet"
        there = file.is_file() if contents is None else file.name in contents
        if name == TIMELINE and not there and not file.exists():
            continue
        try:
            if not there:
                raise BadInput(f"{file}: not there; run `kvbench collect {path}`")
            source = file if contents is None else pa.BufferReader(contents[file.name])
            tables[name] = _read(file, name, source)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"{file}: not readable as Parquet: {reason}") from None
    check(path, tables)
    return tables


def _read(file: Path, name: str, source: Any) -> pa.Table:
    """Read a table from a source, the file or its contents. Its metadata are checked first, since a
    small file may expand to a large table."""
    metadata = pq.read_metadata(source)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    _refuse_large(file, metadata.num_rows, "rows", MOST_ROWS)
    _refuse_large(file, sum(group.total_byte_size for group in groups), "bytes", MOST_BYTES)
    found = metadata.schema.to_arrow_schema()
    version = (found.metadata or {}).get(b"kvbench_schema", b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise BadInput(f"{file}: schema version {version}; allowed: {SCHEMA_VERSION}")
    _check_columns(file, name, found)
    types = {field.name: field.type for field in found}
    # Read in parts, with texts as dictionaries: a long text may occur a million times.
    texts = [column for column, kind in types.items() if pa.types.is_string(kind)]
    parts, size = [], 0
    with pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True) as data:
        for part in data.iter_batches(ROWS):
            size += part.nbytes + sum(map(_decoded, part.columns))
            _refuse_large(file, size, "bytes", MOST_BYTES)
            parts.append(part)
    table = pa.Table.from_batches(parts, None if parts else pa.schema(types.items()))
    for column in COLUMNS[name]:
        if column.name not in types:
            table = table.append_column(column.name, _filled(table, column))
    # Cast to our schema, with our metadata: pandas would act on metadata found in the file.
    table = table.select(SCHEMAS[name].names).cast(SCHEMAS[name])
    table.validate(full=True)
    return table


def _check_columns(file: Path, name: str, found: pa.Schema) -> None:
    """Raise BadInput if a table has columns that the schema lacks, or lacks columns that it
    requires."""
    known = {column.name: column for column in COLUMNS[name]}
    for field in found:
        if field.name not in known or found.names.count(field.name) > 1:
            allowed = listed(known, field.name, "data/README.md")
            raise BadInput(
                f"{file}: column {field.name!r:.60} is unknown or twice there; allowed: {allowed}"
            )
        if field.type != known[field.name].type:
            allowed = known[field.name].type
            raise BadInput(f"{file}: column {field.name} is {field.type}; allowed: {allowed}")
    for column in known.values():
        if column.name not in found.names and not column.optional:
            raise BadInput(f"{file}: no column {column.name}; collect the folder again")


def _filled(table: pa.Table, column: Column) -> pa.Array:
    """The values of a column that a table lacks: the default in swept cells, missing in imported
    ones, which have no checksum."""
    lacking = pa.nulls(len(table), column.type)
    if column.default is None or "checksum" not in table.column_names:
        return lacking
    usual = pa.scalar(column.default, column.type)
    return pc.if_else(pc.is_valid(table["checksum"]), usual, lacking)


def _refuse_large(file: Path, count: int, what: str, most: int) -> None:
    if count > most:
        raise BadInput(f"{file}: {count:,} {what} in memory; allowed: {most:,} at most")


def _decoded(column: pa.Array) -> int:
    """The bytes of the texts in a column once its dictionary is decoded."""
    if not pa.types.is_dictionary(column.type):
        return 0
    return pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0


def parquet(table: pa.Table) -> bytes:
    """A table as a Parquet file, whose bytes depend on the table alone."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def write_tables(path: Path, tables: dict[str, pa.Table]) -> None:
    """Write the tables of a folder as Parquet. The table of cells is written last: if this process
    is killed before, the old cells do not match the new tables, and reading fails."""
    if TIMELINE not in tables:
        (path / f"{TIMELINE}.parquet").unlink(missing_ok=True)  # from an earlier collection
    for name in reversed(tables):
        write_whole(path / f"{name}.parquet", parquet(tables[name]))


def check_targets(path: Path, csv: bool, xlsx: bool) -> None:
    """Raise BadInput if a folder has the name of a table to be written, before anything is
    written."""
    suffixes = (".parquet", ".csv") if csv else (".parquet",)
    names = [f"{name}{suffix}" for suffix in suffixes for name in SCHEMAS]
    for name in names + ["results.xlsx"] * xlsx:
        if (path / name).is_dir():
            raise BadInput(f"{path / name}: a folder, where a table is to be written")


def plain(value: Any) -> Any:
    """A text that Excel accepts and no spreadsheet evaluates; any other value unchanged."""
    if type(value) is not str:
        return value
    return one_line(f"'{value}" if value.startswith(FORMULA) else value)


def export(tables: dict[str, pa.Table], path: Path, csv: bool, xlsx: bool) -> list[Path]:
    """Write the tables as CSV files, as sheets of one Excel file, or both, and return the paths.
    Lists become JSON."""
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
