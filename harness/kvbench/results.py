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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kvbench import BadInput, write_whole
from kvbench.grid import Cell, Grid
from kvbench.stores import Store, checksum

SCHEMA_VERSION = 1
MARK = "kvbench.json"


def _schema(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"unit": unit}) for name, kind, unit in columns]
    return pa.schema(fields, metadata={"kvbench_schema": str(SCHEMA_VERSION)})


_TEXT, _INT, _REAL = pa.string(), pa.int64(), pa.float64()

CELLS = _schema(
    ("cell", _TEXT, ""),
    ("store", _TEXT, ""),
    ("access", _TEXT, ""),
    ("record_size", _TEXT, ""),
    ("record_size_min", _INT, "B"),
    ("record_size_max", _INT, "B"),
    ("records", _INT, "1"),
    ("compressibility", _TEXT, ""),
    ("trial", _INT, "1"),
    ("seed", _INT, "1"),
    ("status", _TEXT, ""),
    ("reason", _TEXT, ""),
    ("machine", _TEXT, ""),
    ("engine_version", _TEXT, ""),
    ("checksum", _TEXT, ""),
    ("revision", _TEXT, ""),
    ("started", _TEXT, "UTC"),
    ("effective_options", _TEXT, ""),
    ("compressed_share", _REAL, "1"),
    ("live_records", _INT, "1"),
    ("live_bytes", _INT, "B"),
    ("disk_bytes", _INT, "B"),
    ("memory_anonymous_bytes", _INT, "B"),
    ("memory_file_bytes", _INT, "B"),
    ("settle_s", _REAL, "s"),
    ("removed_files", _INT, "1"),
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
    ("sum_ns", _INT, "ns"),
    ("min_ns", _INT, "ns"),
    ("max_ns", _INT, "ns"),
    ("p50_ns", _REAL, "ns"),
    ("p90_ns", _REAL, "ns"),
    ("p99_ns", _REAL, "ns"),
    ("p999_ns", _REAL, "ns"),
    ("histogram_bin", pa.list_(pa.int32()), "1"),
    ("histogram_count", pa.list_(_INT), "1"),
    ("user_s", _REAL, "s"),
    ("system_s", _REAL, "s"),
    ("read_bytes", _INT, "B"),
    ("write_bytes", _INT, "B"),
    ("rchar", _INT, "B"),
    ("wchar", _INT, "B"),
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

TABLES = {"cells": CELLS, "operations": OPERATIONS, "machines": MACHINES}


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


class Folder:
    """A results folder that exists and is one of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            mark = json.loads((path / MARK).read_bytes())
            schema = mark["schema"]
        except FileNotFoundError:
            raise BadInput(f"{path}: not a results folder of kvbench (no {MARK})") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path / MARK}: not readable: {error}") from None
        if schema != SCHEMA_VERSION:
            raise BadInput(
                f"{path}: results of schema version {schema}; allowed: {SCHEMA_VERSION}; "
                "take another folder"
            )

    @classmethod
    def make(cls, path: Path) -> "Folder":
        """Open a results folder, or begin one in a new or empty folder."""
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path}: not a folder")
        if path.exists() and any(path.iterdir()) and not (path / MARK).exists():
            raise BadInput(
                f"{path}: holds other files; allowed: an empty or new folder, or results"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / MARK).exists():
                write_whole(path / MARK, _json({"schema": SCHEMA_VERSION}))
            folder = cls(path)
            for name in ("cells", "grids", "machines"):
                (path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise BadInput(f"{path}: can't be written: {error.strerror}") from None
        return folder

    def add_grid(self, grid: Grid) -> None:
        write_whole(self.path / "grids" / f"{grid.digest()}.json", _json(grid.values()))

    def add_machine(self, machine: dict[str, Any]) -> None:
        write_whole(self.path / "machines" / f"{machine['machine']}.json", _json(machine))

    def planned(self) -> set[Cell]:
        """All cells of the grids that were swept into the folder, here or elsewhere."""
        grids = [json.loads(path.read_bytes()) for path in (self.path / "grids").glob("*.json")]
        return {cell for grid in grids for cell in Grid.from_values(grid, grid["stores"]).cells()}

    def _cell_path(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.json"

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(path.read_bytes())
            schema = result["schema"]
        except (ValueError, KeyError, TypeError):
            raise BadInput(f"{path}: not a result file of kvbench") from None
        if schema != SCHEMA_VERSION:
            raise BadInput(f"{path}: schema version {schema}; allowed: {SCHEMA_VERSION}")
        return result

    def status(self, name: str) -> str:
        """Of a cell: ok, failed, skipped, unavailable; empty when it has no result yet."""
        try:
            return str(self._read(self._cell_path(name))["status"])
        except FileNotFoundError:
            return ""

    def write(self, name: str, result: dict[str, Any]) -> None:
        write_whole(self._cell_path(name), _json({"schema": SCHEMA_VERSION, **result}))

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each cell's name and result, in the order of the names."""
        for path in sorted((self.path / "cells").glob("*.json")):
            yield path.stem, self._read(path)

    def collect(self) -> dict[str, pa.Table]:
        """The tables of all finished cells; written beside them as Parquet."""
        cells, operations = [], []
        for name, result in self.results():
            factors = result["cell"]
            size = Cell.from_factors(factors).record_size
            limits = {"record_size_min": size.low, "record_size_max": size.high}
            options = result.get("effective_options", {})
            text = "; ".join(f"{key}={value}" for key, value in options.items())
            cells.append({**result, **factors, **limits, "cell": name, "effective_options": text})
            operations += [{"cell": name, **row} for row in result.get("operations", [])]
        machines = [
            {
                **machine,
                "packages": json.dumps(machine["packages"]),
                "engines": json.dumps(machine["engines"]),
            }
            for path in sorted((self.path / "machines").glob("*.json"))
            for machine in [json.loads(path.read_bytes())]
        ]
        rows = {"cells": cells, "operations": operations, "machines": machines}
        tables = {name: pa.Table.from_pylist(rows[name], schema) for name, schema in TABLES.items()}
        for name, table in tables.items():
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd")
            write_whole(self.path / f"{name}.parquet", sink.getvalue().to_pybytes())
        return tables


def cell_name(cell: Cell, store: Store, machine: str) -> str:
    """The result file's name: readable factors, then a digest of all that identifies a result."""
    code = checksum(store) if store.available else ""
    identity = [cell.factors(), machine, store.version, code]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    size = str(cell.record_size).replace(" ", "")
    parts = (cell.store, cell.access, size, cell.records, cell.compressibility, f"t{cell.trial}")
    return "_".join(map(str, parts)) + f"_{digest}"


def read_tables(path: Path) -> dict[str, pa.Table]:
    """The collected tables of a folder, checked against the schema."""
    tables = {}
    for name, schema in TABLES.items():
        file = path / f"{name}.parquet"
        if not file.exists():
            raise BadInput(f"{file}: not there; run `kvbench collect {path}`")
        try:
            table = pq.read_table(file)
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{file}: not readable as Parquet: {error}") from None
        if not table.schema.equals(schema):
            found = (table.schema.metadata or {}).get(b"kvbench_schema", b"none").decode()
            raise BadInput(f"{file}: schema version {found}; allowed: {SCHEMA_VERSION}")
        tables[name] = table
    return tables


def export(tables: dict[str, pa.Table], path: Path, csv: bool, xlsx: bool) -> list[Path]:
    """The tables as CSV files, as sheets of one Excel file, or both. Lists become JSON."""
    import pandas as pd  # noqa: PLC0415 - slow to import, and only needed here

    written = []
    frames = {name: table.to_pandas() for name, table in tables.items()}
    for column in ("histogram_bin", "histogram_count"):
        lists = frames["operations"][column]
        frames["operations"][column] = [json.dumps(list(map(int, values))) for values in lists]
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
