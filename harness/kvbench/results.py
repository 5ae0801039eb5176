"""A results folder: one file a finished cell, collected into Parquet.

    kvbench.json            what marks the folder, and the schema's version
    grids/GRID.json         each grid that was swept into it
    machines/MACHINE.json   each machine that measured
    cells/CELL.json         one a finished cell, whole or not there
    cells.parquet, operations.parquet, machines.parquet   by `kvbench collect`

data/README.md explains the columns.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kvbench import BadInput, one_line, write_whole
from kvbench.grid import DEFAULT, LEVELS, UNCAPPED, Cell, Grid, RecordSize, budgets
from kvbench.stores import Store, checksum

SCHEMA_VERSION = 6
MARK = "kvbench.json"
FOLDERS = ("cells", "grids", "machines")
MOST_CHARACTERS = 200  # of what is readable in a name; a file system takes 255 in all
STATUSES = ("ok", "failed", "skipped", "unavailable")


def _schema(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"unit": unit}) for name, kind, unit in columns]
    return pa.schema(fields, metadata={"kvbench_schema": str(SCHEMA_VERSION)})


_TEXT, _INT, _REAL = pa.string(), pa.int64(), pa.float64()

CELLS = _schema(
    ("cell", _TEXT, ""),
    ("store", _TEXT, ""),
    ("access", _TEXT, ""),
    ("binding", _TEXT, ""),
    ("record_size", _TEXT, ""),
    ("record_size_min", _INT, "B"),
    ("record_size_max", _INT, "B"),
    ("records", _INT, "1"),
    ("compressibility", _TEXT, ""),
    ("durability", _TEXT, ""),
    ("guarantee", _TEXT, ""),
    ("memory", _TEXT, ""),
    ("compression", _TEXT, ""),
    ("options", _TEXT, ""),
    ("cache", _TEXT, ""),
    ("key_order", _TEXT, ""),
    ("memory_max", _TEXT, ""),
    ("workload", _TEXT, ""),
    ("key_size", _INT, "B"),
    ("place", _TEXT, ""),
    ("trial", _INT, "1"),
    ("seed", _INT, "1"),
    ("status", _TEXT, ""),
    ("reason", _TEXT, ""),
    ("machine", _TEXT, ""),
    ("engine_version", _TEXT, ""),
    ("binding_version", _TEXT, ""),
    ("checksum", _TEXT, ""),
    ("revision", _TEXT, ""),
    ("started", _TEXT, "UTC"),
    ("effective_options", _TEXT, ""),
    ("compressed_share", _REAL, "1"),
    ("snappy_share", _REAL, "1"),
    ("cached_share", _REAL, "1"),
    ("eviction", _TEXT, ""),
    ("live_records", _INT, "1"),
    ("live_bytes", _INT, "B"),
    ("disk_bytes", _INT, "B"),
    ("memory_anonymous_bytes", _INT, "B"),
    ("memory_file_bytes", _INT, "B"),
    ("floor_ns", _REAL, "ns"),
    ("settle_s", _REAL, "s"),
    ("removed_files", _INT, "1"),
    ("load_before", _REAL, "1"),
    ("steal_s", _REAL, "s"),
    ("memory_stall_s", _REAL, "s"),
    ("frequency_mhz", _REAL, "MHz"),
    ("open_s", _REAL, "s"),
    ("load_s", _REAL, "s"),
    ("rounds_s", _REAL, "s"),
    ("check_s", _REAL, "s"),
    ("close_s", _REAL, "s"),
    ("wall_s", _REAL, "s"),
)

OPERATIONS = _schema(
    ("cell", _TEXT, ""),
    ("operation", _TEXT, ""),
    ("n", _INT, "1"),
    ("items", _INT, "1"),
    ("sum_ns", _INT, "ns"),
    ("min_ns", _INT, "ns"),
    ("max_ns", _INT, "ns"),
    ("p50_ns", _REAL, "ns"),
    ("p90_ns", _REAL, "ns"),
    ("p99_ns", _REAL, "ns"),
    ("p999_ns", _REAL, "ns"),
    ("histogram_bin", pa.list_(pa.int32()), "1"),
    ("histogram_count", pa.list_(_INT), "1"),
    ("wall_s", _REAL, "s"),
    ("user_s", _REAL, "s"),
    ("system_s", _REAL, "s"),
    ("read_bytes", _INT, "B"),
    ("write_bytes", _INT, "B"),
    ("rchar", _INT, "B"),
    ("wchar", _INT, "B"),
    ("disk_bytes", _INT, "B"),
    ("timeline", pa.list_(_INT), "1 each 0.1 s"),
)

MACHINES = _schema(
    ("machine", _TEXT, ""),
    ("cpu", _TEXT, ""),
    ("cores", _INT, "1"),
    ("memory_bytes", _INT, "B"),
    ("kernel", _TEXT, ""),
    ("file_system", _TEXT, ""),
    ("mount_options", _TEXT, ""),
    ("governor", _TEXT, ""),
    ("fsync_ms", _REAL, "ms"),
    ("python", _TEXT, ""),
    ("packages", _TEXT, ""),
    ("engines", _TEXT, ""),
    ("compiler", _TEXT, ""),
    ("revision", _TEXT, ""),
)

# Of the columns of a cell those that its worker measures.
MEASURED = (
    "effective_options", "compressed_share", "snappy_share", "cached_share", "eviction",
    "live_records", "live_bytes", "disk_bytes", "memory_anonymous_bytes", "memory_file_bytes",
    "floor_ns", "open_s", "load_s", "rounds_s", "check_s", "close_s",
)  # fmt: skip

TABLES = {"cells": CELLS, "operations": OPERATIONS, "machines": MACHINES}

# What names a row of each table, and what every row has besides. Of the rest something may be
# missing; of a cell that was measured, none of the last.
_KEYS = {"cells": ["cell"], "operations": ["cell", "operation"], "machines": ["machine"]}
_NEEDED = {
    "cells": (
        "store", "access", "binding", "record_size", "record_size_min", "record_size_max",
        "records", "compressibility", *LEVELS, "trial", "seed", "status", "reason", "machine",
    ),
    "operations": ("n", "items", "sum_ns", "histogram_bin", "histogram_count"),
    "machines": ("cpu", "cores", "memory_bytes", "kernel", "file_system", "fsync_ms"),
}  # fmt: skip
_MEASURED = (
    "guarantee", "eviction", "live_records", "live_bytes", "disk_bytes", "memory_anonymous_bytes",
    "memory_file_bytes",
)  # fmt: skip


def _half_written(path: Path) -> bool:
    """What a killed write_whole has left of a file of ours."""
    left = re.fullmatch(r".+\.(json|parquet|csv|xlsx)\.\d+\.tmp", path.name)
    return bool(left) and path.is_file() and not path.is_symlink()


def _json(value: dict[str, Any]) -> bytes:
    return (
        json.dumps({"schema": SCHEMA_VERSION, **value}, indent=1, sort_keys=True).encode() + b"\n"
    )


def _read(path: Path, *required: str) -> dict[str, Any]:
    """A JSON file of a results folder, of this schema version and with the required keys."""
    try:
        if not path.is_file():  # a pipe, say, which no one may ever write to
            raise ValueError
        value: dict[str, Any] = json.loads(path.read_bytes())
        schema = value["schema"]
        for key in required:
            value[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"{path}: not a file of kvbench's results") from None
    if schema != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: results of schema version {schema!r}; allowed: {SCHEMA_VERSION}; "
            "take another folder"
        )
    return value


class Folder:
    """A results folder that exists and is one of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / MARK).exists():
            raise BadInput(f"{path}: not a results folder of kvbench (no {MARK})")
        _read(path / MARK)

    @staticmethod
    def refuse_foreign(path: Path) -> None:
        """Refuse what is neither a results folder nor a place for a new one."""
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path}: not a folder")
        if (path / MARK).exists():
            Folder(path)
        elif path.exists() and not all(map(_half_written, path.iterdir())):
            raise BadInput(
                f"{path}: holds other files; allowed: an empty or new folder, or results"
            )

    @classmethod
    def make(cls, path: Path) -> "Folder":
        """Open a results folder, or begin one in a new or empty folder."""
        try:
            cls.refuse_foreign(path)
            path.mkdir(parents=True, exist_ok=True)
            if not (path / MARK).exists():
                write_whole(path / MARK, _json({}))
            for name in FOLDERS:
                (path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise BadInput(f"{path}: can't be written: {error.strerror}") from None
        return cls(path)

    def identity(self) -> str:
        """A random name of this folder, written into its mark once. Only for who holds the lock."""
        mark = _read(self.path / MARK)
        if not re.fullmatch("[0-9a-f]{12}", str(mark.get("identity"))):
            mark["identity"] = os.urandom(6).hex()
            write_whole(self.path / MARK, _json(mark))
        return str(mark["identity"])

    def clear_leftovers(self) -> None:
        """Remove what a killed sweep had half written. Only for who holds the lock."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            for path in filter(_half_written, folder.iterdir()):
                path.unlink()

    def add_grid(self, grid: Grid) -> None:
        write_whole(self.path / "grids" / f"{grid.digest()}.json", _json({"grid": grid.values()}))

    def add_machine(self, machine: dict[str, Any]) -> None:
        write_whole(self.path / "machines" / f"{machine['machine']}.json", _json(machine))

    def planned(self) -> set[Cell]:
        """All cells of the grids that were swept into the folder, here or elsewhere."""
        cells: set[Cell] = set()
        for path in self._files("grids"):
            values = _read(path, "grid")["grid"]
            try:
                names = [name for name in values["stores"] if isinstance(name, str)]
                cells.update(Grid.from_values(values, names).cells())
            except (BadInput, KeyError, TypeError) as error:
                raise BadInput(f"{path}: not a grid: {error}") from None
        return cells

    def _files(self, kind: str) -> list[Path]:
        folder = self.path / kind
        if os.path.lexists(folder) and not folder.is_dir():
            raise BadInput(f"{folder}: not a folder")
        return sorted(folder.glob("*.json"))

    def _cell_path(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.json"

    def outcome(self, name: str) -> tuple[str, str]:
        """Status and reason of a cell, which is "to do" when it has no result yet."""
        path = self._cell_path(name)
        if not path.exists():
            return "to do", ""
        result = _read(path, "status", "reason")
        return str(result["status"]), str(result["reason"])

    def write(self, name: str, result: dict[str, Any]) -> None:
        write_whole(self._cell_path(name), _json(result))

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each cell's name and result, in the order of the names."""
        for path in self._files("cells"):
            result = _read(path, "cell", "status", "reason")
            try:
                Cell.from_factors(result["cell"])
            except (BadInput, KeyError, TypeError) as error:
                raise BadInput(f"{path}: not a result of kvbench: {error}") from None
            if result["status"] not in STATUSES or not isinstance(result["reason"], str):
                raise BadInput(f"{path}: not a result of kvbench: status or reason")
            yield path.stem, result

    def current(self) -> dict[str, dict[str, Any]]:
        """The newest result of each cell: what older code measured is superseded."""
        newest: dict[str, tuple[str, str]] = {}
        found = {}
        for name, result in self.results():
            found[name] = result
            key = json.dumps([result["cell"], result.get("machine")], sort_keys=True)
            newest[key] = max(newest.get(key, ("", "")), (str(result.get("started", "")), name))
        return {name: found[name] for _, name in sorted(newest.values(), key=lambda pair: pair[1])}

    def tables(self) -> dict[str, pa.Table]:
        """The tables of all finished cells."""
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        for name, result in self.current().items():
            try:
                size = Cell.from_factors(result["cell"]).record_size
                limits = {"record_size_min": size.low, "record_size_max": size.high}
                text = _options_text(result) if "effective_options" in result else ""
                own = {"cell": name, "effective_options": text}
                rows["cells"].append({**result, **result["cell"], **limits, **own})
                rows["operations"] += [
                    {**row, "cell": name} for row in result.get("operations", [])
                ]
            except (BadInput, AttributeError, KeyError, TypeError):
                raise BadInput(f"{self._cell_path(name)}: not a result of kvbench") from None
        for path in self._files("machines"):
            machine = _read(path, "machine", "packages", "engines")
            texts = {name: json.dumps(machine[name]) for name in ("packages", "engines")}
            rows["machines"].append(machine | texts)
        tables = {name: _table(self.path, name, rows[name]) for name in TABLES}
        _check(self.path, tables)
        return tables

    def collect(self) -> dict[str, pa.Table]:
        """The same, written beside the cells as Parquet. The cells come last: those of an earlier
        collection do not fit what a killed one has written before them."""
        tables = self.tables()
        for name in reversed(tables):
            sink = pa.BufferOutputStream()
            pq.write_table(tables[name], sink, compression="zstd", write_page_checksum=True)
            write_whole(self.path / f"{name}.parquet", sink.getvalue().to_pybytes())
        return tables


UNFIT = (ValueError, OverflowError, KeyError, TypeError, AttributeError)


class NoAnswerError(Exception):
    """What a worker said is no answer; the text tells why."""


def answer_of(said: Any) -> dict[str, Any]:
    """What a worker answers, and nothing else that it said."""
    try:
        status, reason = said["status"], said["reason"]
        if status == "failed" and isinstance(reason, str):
            return {"status": status, "reason": one_line(reason)}
        if status != "ok":
            raise NoAnswerError(f"status {status!r:.40}")
        answer = {name: said[name] for name in ("status", "reason", *MEASURED, "operations")}
        lacking = [name for name in MEASURED if answer[name] is None]
        if lacking or not answer["operations"]:
            raise NoAnswerError(f"without {', '.join(lacking) or 'operations'}")
        options = {"effective_options": _options_text(answer)}
        _check_values(pa.Table.from_pylist([answer | options], CELLS))
        _check_values(pa.Table.from_pylist(answer["operations"], OPERATIONS))
    except (pa.ArrowException, BadInput, *UNFIT) as error:
        raise NoAnswerError(f"{type(error).__name__}: {error!s:.200}") from None
    return answer


def _options_text(result: dict[str, Any]) -> str:
    return "; ".join(f"{key}={value}" for key, value in result["effective_options"].items())


def _table(path: Path, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of the schema; the first that does not fit is named."""
    try:
        return pa.Table.from_pylist(rows, TABLES[name])
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if len(rows) == 1:
            key = rows[0][_KEYS[name][0]]
            raise BadInput(f"{path}: {name}: {key}: does not fit the schema: {error}") from None
        for row in rows:
            _table(path, name, [row])
        raise


def _check_values(table: pa.Table, needed: Sequence[str] = ()) -> None:
    """Refuse values that no measurement has: missing or below zero."""
    for column in table.column_names:
        values = table[column]
        missing = values.null_count and column in needed
        if pa.types.is_list(values.type):
            values = pc.list_flatten(values)
            missing = missing or values.null_count
        if missing:
            raise BadInput(f"{column}: a value is missing")
        if values.type != _TEXT:
            sound = pc.and_(pc.greater_equal(values, 0), pc.is_finite(values))
            for value in values.filter(pc.invert(sound)).slice(0, 1).to_pylist():
                raise BadInput(f"{column}: {value} is not allowed; allowed: 0 or more")


def _check_rows(path: Path, name: str, table: pa.Table) -> None:
    """Refuse rows that no measurement makes: with such values, or there twice."""
    try:
        _check_values(table, (*_KEYS[name], *_NEEDED[name]))
    except BadInput as error:
        raise BadInput(f"{path}: {name}: {error}") from None
    counts = table.group_by(_KEYS[name]).aggregate([([], "count_all")])
    for row in counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist():
        raise BadInput(f"{path}: {name}: {' '.join(row[key] for key in _KEYS[name])} twice")


def _check(path: Path, tables: dict[str, pa.Table]) -> None:
    """Refuse such rows, levels that no grid has, operations and cells without one another, and
    cells without their machine."""
    for name, table in tables.items():
        _check_rows(path, name, table)
    cells = tables["cells"]
    try:
        for size in cells["record_size"].unique().to_pylist():
            RecordSize.parse(size)
        for column, usual in (("memory", DEFAULT), ("memory_max", UNCAPPED)):
            budgets(column, [usual, *cells[column].unique().to_pylist()], usual)
    except BadInput as error:
        raise BadInput(f"{path}: cells: {error}") from None
    measured = cells.filter(pc.equal(cells["status"], "ok"))
    for column in _MEASURED:
        if measured[column].null_count:
            raise BadInput(f"{path}: cells: {column}: missing of a cell that was measured")
    timed = tables["operations"]["cell"]
    for name, column, values, known, lacks in (
        ("operations", "cell", timed, measured["cell"], "is none that was measured"),
        ("cells", "cell", measured["cell"], timed, "has no operations"),
        ("cells", "machine", cells["machine"], tables["machines"]["machine"], "is none there is"),
    ):
        lost = values.filter(pc.invert(pc.is_in(values, value_set=known)))
        for value in lost.slice(0, 1).to_pylist():
            raise BadInput(f"{path}: {name}: {column} {value!r} {lacks}")


def cell_name(cell: Cell, store: Store, machine: str) -> str:
    """The result file's name: readable factors, then a digest of all that identifies a result."""
    code = checksum(store) if store.available else ""
    python = platform.python_version() if cell.binding else ""
    identity = [cell.factors(), machine, store.version, store.binding_version, python, code]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    size = str(cell.record_size).replace(" ", "")
    where = (cell.store, cell.binding or cell.access)
    levels = [re.sub("[^A-Za-z0-9.=-]", "", level) for level in cell.levels()]
    parts = (*where, size, cell.records, cell.compressibility, *levels, f"t{cell.trial}")
    return "_".join(map(str, parts))[:MOST_CHARACTERS] + f"_{digest}"


def read_tables(path: Path) -> dict[str, pa.Table]:
    """The collected tables of a folder, checked against the schema."""
    tables = {}
    for name, schema in TABLES.items():
        file = path / f"{name}.parquet"
        try:
            if not file.is_file():
                raise BadInput(f"{file}: not there; run `kvbench collect {path}`")
            table = pq.read_table(file, page_checksum_verification=True)
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"{file}: not readable as Parquet: {reason}") from None
        metadata = table.schema.metadata or {}
        version = metadata.get(b"kvbench_schema", b"none").decode(errors="replace")
        if version != str(SCHEMA_VERSION):
            raise BadInput(f"{file}: schema version {version}; allowed: {SCHEMA_VERSION}")
        if not table.schema.equals(schema):
            raise BadInput(f"{file}: columns differ from those of schema version {version}")
        # With our own metadata: pandas acts upon what it finds there.
        tables[name] = pa.Table.from_arrays(table.columns, schema=schema)
    _check(path, tables)
    return tables


def check_targets(path: Path, csv: bool, xlsx: bool) -> None:
    """Refuse folders where tables are to be written, before any of them is."""
    suffixes = (".parquet", ".csv") if csv else (".parquet",)
    names = [f"{name}{suffix}" for suffix in suffixes for name in TABLES]
    for name in names + ["results.xlsx"] * xlsx:
        if (path / name).is_dir():
            raise BadInput(f"{path / name}: a folder, where a table is to be written")


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
    if csv:
        for name, frame in frames.items():
            write_whole(path / f"{name}.csv", frame.to_csv(index=False).encode())
            written.append(path / f"{name}.csv")
    if xlsx:
        import io  # noqa: PLC0415

        buffer = io.BytesIO()
        with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
            for name, frame in frames.items():
                # What an engine said may hold characters that Excel does not take.
                plain = frame.map(lambda value: one_line(value) if type(value) is str else value)
                plain.to_excel(writer, sheet_name=name, index=False)
        write_whole(path / "results.xlsx", buffer.getvalue())
        written.append(path / "results.xlsx")
    return written
