"""A results folder: one file for each finished cell, collected into Parquet.

    kvbench.json            marks the folder, and has the version of the schema
    grids/GRID.json         a grid that was swept into it
    machines/MACHINE.json   a machine that measured
    cells/CELL.json         the result of a cell, written atomically
    disturbed/CELL.again-N.json   a result of a trial that the host disturbed, set aside when the
                            trial was to be measured again for the Nth time; never collected
    cells.parquet, operations.parquet, machines.parquet   by `kvbench collect`
    timeline.parquet        likewise, if any cell has steps

data/README.md explains the columns.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kvbench.cell.factors import Cell
from kvbench.cell.protocol import Answer
from kvbench.cell.store import Store
from kvbench.common.files import read_whole, why_not, write_whole
from kvbench.common.messages import BadInput, one_line
from kvbench.experiment.decide import means
from kvbench.experiment.factors import FACTORS, non_default
from kvbench.experiment.grid import Grid
from kvbench.machine.scratch import whole
from kvbench.results.tables import (
    SCHEMA_VERSION,
    SCHEMAS,
    STATUSES,
    TABLES,
    TIMELINE,
    check,
    check_values,
    read_tables,
    table_of,
    write_tables,
)
from kvbench.stores.identity import checksum
from kvbench.stores.known import KnownStore

MARK = "kvbench.json"
FOLDERS = ("cells", "grids", "machines")
DISTURBED = "disturbed"  # a folder, if there are such results
MEASURED = [own.name for own in fields(Answer) if own.name not in ("operations", "timeline")]
WARM_ONLY = ("cached_share", "cached_end")  # examining a cold cache would warm it
MOST_OF_REASON = 10_000  # characters that a table takes
MOST_CHARACTERS = 200  # of the readable part of a name; file systems allow 255 in all
FILE = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9 ._=+-]{0,229}")  # the name of a cell or machine
UNFIT = (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError)
GO_ON = "to go on without it, move this file away"


def _half_written(path: Path) -> bool:
    """Whether it is the temporary file of a write_whole that was killed."""
    left = re.fullmatch(r".+\.(json|parquet|csv|xlsx)\.\d+\.tmp", path.name)
    return bool(left) and path.is_file() and not path.is_symlink()


def _json(value: dict[str, Any]) -> bytes:
    return (
        json.dumps({"schema": SCHEMA_VERSION, **value}, indent=1, sort_keys=True).encode() + b"\n"
    )


def _read(path: Path, *required: str) -> dict[str, Any]:
    """The contents of a JSON file of a results folder. Raises BadInput if it has another schema
    version, or lacks a required key."""
    try:
        value: dict[str, Any] = json.loads(read_whole(path))
        schema = value["schema"]
        for key in required:
            value[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        way = f"; {GO_ON}" if path.parent.name in (*FOLDERS, DISTURBED) else ""
        raise BadInput(f"{path}: not a file of kvbench's results{way}") from None
    if schema != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: results of schema version {schema!r}; allowed: {SCHEMA_VERSION}; "
            "take another folder"
        )
    return value


def _rows(table: Path) -> int | None:
    """The number of rows of a table; None if it cannot be read."""
    try:
        return int(pq.read_metadata(table).num_rows)
    except (pa.ArrowException, OSError):
        return None


class Begun:
    """A results folder that is being set up. If the set-up fails, the folder and the parents
    created for it are removed, unless they existed before or hold a result."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._missing = [own for own in (path, *path.absolute().parents) if not own.exists()]
        self._empty = bool(self._missing) or (path.is_dir() and not any(path.iterdir()))

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = kind is not None and issubclass(kind, BadInput | OSError)
        if not failed or not self._empty or any(self._path.glob("cells/*")):
            return
        for path in self._path.glob("*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with contextlib.suppress(OSError):
            for path in self._missing:
                path.rmdir()


class Folder:
    """An existing results folder. Raises BadInput if the path is not one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._order: int | None = None  # of the newest result
        if not (path / MARK).exists():
            raise BadInput(f"{path}: not a results folder of kvbench (no {MARK})")
        _read(path / MARK)

    @staticmethod
    def refuse_foreign(path: Path) -> None:
        """Raise BadInput if a path is neither a results folder nor new or empty."""
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
        """Open a results folder, or create one in a new or empty folder. Raises BadInput."""
        try:
            cls.refuse_foreign(path)
            with Begun(path):
                path.mkdir(parents=True, exist_ok=True)
                if not (path / MARK).exists():
                    write_whole(path / MARK, _json({}))
                for name in FOLDERS:
                    (path / name).mkdir(exist_ok=True)
        except OSError as error:
            raise BadInput(f"{path}: can't be written: {why_not(error)}") from None
        return cls(path)

    def identity(self) -> str:
        """A random name of this folder, created once and kept in its mark. The caller must hold the
        lock."""
        mark = _read(self.path / MARK)
        if not re.fullmatch("[0-9a-f]{12}", str(mark.get("identity"))):
            mark["identity"] = os.urandom(6).hex()
            write_whole(self.path / MARK, _json(mark))
        return str(mark["identity"])

    def clear_leftovers(self) -> None:
        """Remove the temporary files of a killed sweep. The caller must hold the lock."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            for path in filter(_half_written, folder.iterdir()):
                path.unlink()

    def add_grid(self, grid: Grid) -> None:
        write_whole(self.path / "grids" / f"{grid.digest()}.json", _json({"grid": grid.values()}))

    def add_machine(self, machine: dict[str, Any]) -> None:
        write_whole(self._path("machines", machine["machine"]), _json(machine))

    def machine(self, name: str) -> dict[str, Any]:
        """The description of a machine that measured cells of this folder; empty if there is
        none."""
        path = self._path("machines", name)
        return _read(path, "machine") if path.exists() else {}

    def grids(self) -> list[Grid]:
        """The grids that were swept into the folder, on this or another machine."""
        grids = []
        for path in self._files("grids"):
            values = _read(path, "grid")["grid"]
            try:
                names = [name for name in values["stores"] if isinstance(name, str)]
                grids.append(Grid.from_values(values, names))
            except (BadInput, KeyError, TypeError) as error:
                raise BadInput(f"{path}: not a grid: {error}") from None
        return grids

    def _files(self, kind: str) -> list[Path]:
        folder = self.path / kind
        try:
            return sorted(folder / name for name in os.listdir(folder) if name.endswith(".json"))
        except NotADirectoryError:
            raise BadInput(f"{folder}: not a folder") from None
        except OSError as error:
            raise BadInput(
                f"{folder}: can't be read: {error.strerror}; restore it, or take another folder"
            ) from None

    def _path(self, kind: str, name: str) -> Path:
        """The file of a cell or machine. Checks the name, which may come from anywhere."""
        return self.path / kind / f"{checked_name(kind, name)}.json"

    def result(self, name: str) -> dict[str, Any] | None:
        """The result of a cell; None when it has none yet."""
        path = self._path("cells", name)
        return _read(path, "status", "reason") if path.exists() else None

    def outcome(self, name: str) -> tuple[str, str]:
        """The status and the reason of a cell; the status is "to do" if it has no result yet."""
        result = self.result(name)
        return (str(result["status"]), str(result["reason"])) if result else ("to do", "")

    def write(self, name: str, result: dict[str, Any]) -> None:
        """Write a result, numbered in the order in which results were written to this folder."""
        if self._order is None:
            self._order = max((found.get("order", 0) for _, found in self.results()), default=0)
        self._order += 1
        write_whole(self._path("cells", name), _json(result | {"order": self._order}))

    def put_aside(self, name: str, number: int) -> None:
        """Set a result aside because its trial is measured again for the `number`th time."""
        (self.path / DISTURBED).mkdir(exist_ok=True)
        self._path("cells", name).rename(self.path / DISTURBED / f"{name}.again-{number}.json")

    def set_aside(self, installed: bool = False) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """The cell and result of each file that was set aside. With `installed`, those of other
        code are left out."""
        if (self.path / DISTURBED).exists():
            for name, cell, result in self._results(DISTURBED):
                try:
                    tables_of({name: (cell, result)}, [])  # checks the types
                except BadInput as error:
                    path = self.path / DISTURBED / f"{name}.json"
                    raise BadInput(f"{path}: {error}; {GO_ON}") from None
                if not installed or result.get("checksum") == _installed(cell):
                    yield cell, result

    def results(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The name and result of each cell, ordered by name."""
        return ((name, result) for name, _, result in self._results())

    def _results(self, kind: str = "cells") -> Iterator[tuple[str, Cell, dict[str, Any]]]:
        for path in self._files(kind):
            result = _read(path, "cell", "status", "reason")
            try:
                cell = cell_of(result)
                checked_name("cells", path.stem)
            except BadInput as error:
                raise BadInput(f"{path}: {error}; {GO_ON}") from None
            yield path.stem, cell, result

    def current(self) -> dict[str, dict[str, Any]]:
        """One result for each cell and machine, by name. Preference goes to a measured result, then
        to one of the installed code, then to the last written. Times of day decide only between
        results of older versions, which have no number."""
        return {name: result for name, (_, result) in self._current().items()}

    def trials(self) -> int:
        """The greatest trial that has a result; 0 if there is none."""
        return max((cell.trial for _, cell, _ in self._results()), default=0)

    def done(self, installed: bool = False) -> dict[Cell, dict[str, float]]:
        """The mean times in ns of each cell that has a result, by operation; see decide.needed.
        With `installed`, cells whose result is of other code, which a sweep here would measure
        again, are left out."""
        return {
            cell: self._means(name, result)
            for name, (cell, result) in self._current().items()
            if not installed or result.get("checksum") == _installed(cell)
        }

    def means(self, name: str) -> dict[str, float] | None:
        """The mean times in ns of one cell, by operation; None if it has no result yet."""
        result = self.result(name)
        return None if result is None else self._means(name, result)

    def _means(self, name: str, result: dict[str, Any]) -> dict[str, float]:
        try:
            return means(result)
        except (AttributeError, KeyError, TypeError, OverflowError):
            path = self._path("cells", name)
            raise BadInput(f"{path}: not a result of kvbench; {GO_ON}") from None

    def _current(self) -> dict[str, tuple[Cell, dict[str, Any]]]:
        found: dict[tuple[Cell, str], tuple[tuple[bool, bool, int, str, str], dict[str, Any]]] = {}
        for name, cell, result in self._results():
            measured = result["status"] in ("ok", "failed")
            installed = result.get("checksum") == _installed(cell)
            started = str(result.get("started", ""))
            rank = (measured, installed, result.get("order", 0), started, name)
            key = (cell, str(result.get("machine")))
            if key not in found or rank > found[key][0]:
                found[key] = (rank, result)
        chosen = {rank[-1]: (cell, result) for (cell, _), (rank, result) in found.items()}
        return dict(sorted(chosen.items()))

    def tables(self) -> dict[str, pa.Table]:
        """The tables of all finished cells. Raises BadInput, which names the first file that does
        not fit."""
        current = self._current()
        machines = {
            path.stem: _read(path, "machine", "packages", "engines")
            for path in self._files("machines")
        }
        try:
            tables = tables_of(current, machines.values())
            check(self.path, tables)
            return tables
        except BadInput:
            self._name_unfit(current, machines)
            raise

    def _name_unfit(
        self,
        current: Mapping[str, tuple[Cell, dict[str, Any]]],
        machines: Mapping[str, dict[str, Any]],
    ) -> None:
        """Raise BadInput that names the first file that does not fit by itself."""
        for stem, machine in machines.items():
            try:
                check_machine(machine, stem)
            except BadInput as error:
                raise BadInput(f"{self.path / 'machines' / stem}.json: {error}; {GO_ON}") from None
        names = list(current)
        while len(names) > 1:  # bisect: there may be 100,000
            half = names[: len(names) // 2]
            try:
                some = tables_of({name: current[name] for name in half}, machines.values())
                check(self.path, some)
                names = names[len(half) :]
            except BadInput:
                names = half
        for name in names:
            result = current[name][1]
            try:
                check_result(name, result, machines.get(str(result.get("machine"))))
            except BadInput as error:
                raise BadInput(f"{self._path('cells', name)}: {error}; {GO_ON}") from None

    def collect(self) -> dict[str, pa.Table]:
        """Write the tables as Parquet, and return them. Raises BadInput."""
        tables = self.tables()
        before = self.path / "cells.parquet"
        if not tables["cells"].num_rows and before.exists() and _rows(before) != 0:
            raise BadInput(
                f"{self.path / 'cells'}: no results, but {before.name} has some, or can't be read; "
                f"restore them, or remove {before.name}"
            )
        write_tables(self.path, tables)
        return tables


def checked_name(kind: str, name: object) -> str:
    """The name of a cell or machine, checked to be safe as a file name. Raises BadInput."""
    if not isinstance(name, str) or not FILE.fullmatch(name):
        allowed = "up to 230 letters, digits, spaces and ._=+-, the first no space or ."
        raise BadInput(f"{kind}: {name!r:.100} is no name; allowed: {allowed}")
    return name


def cell_of(result: Mapping[str, Any]) -> Cell:
    """The cell of a result. Checks its status, reason and order, too. Raises BadInput."""
    try:
        cell = Cell.from_factors(result["cell"])
        status, reason, order = result["status"], result["reason"], result.get("order", 0)
    except (BadInput, AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"not a result of kvbench: {error}") from None
    if status not in STATUSES or not isinstance(reason, str) or type(order) is not int:
        raise BadInput("not a result of kvbench: status, reason or order")
    return cell


def tables_of(
    results: Mapping[str, tuple[Cell, dict[str, Any]]], machines: Iterable[dict[str, Any]]
) -> dict[str, pa.Table]:
    """The tables of results, which are given by name, and of the machines that measured them.
    Values are not checked yet, except against the schema."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    for name, (cell, result) in results.items():
        try:
            size = cell.record_size
            limits = {"record_size_min": size.low, "record_size_max": size.high}
            text = _options_text(result) if "effective_options" in result else ""
            derived = {"cell": name, "effective_options": text, "timed": " ".join(cell.operations)}
            rows["cells"].append({"repeated": 0, **result, **cell.factors(), **limits, **derived})
            for table in ("operations", TIMELINE):
                rows[table] += [{**row, "cell": name} for row in result.get(table, [])]
        except UNFIT:
            raise BadInput(f"{name}: not a result of kvbench") from None
    for machine in machines:
        try:
            texts = {name: json.dumps(machine[name]) for name in ("packages", "engines")}
            rows["machines"].append(machine | texts)
        except UNFIT:
            raise BadInput("machines: not a description of a machine") from None
    written = [name for name in SCHEMAS if name in TABLES or rows[name]]
    return {name: table_of("result", name, rows[name]) for name in written}


def check_machine(machine: Any, name: str | None = None) -> str:
    """Check the description of a machine, and return its name, which must be the `name` of its
    file. Raises BadInput."""
    try:
        stated = checked_name("machines", machine["machine"])
        if name is not None and stated != name:
            raise BadInput(f"machine: {stated!r} is not the name of its file")
        check("machine", tables_of({}, [machine]))
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"not a description of a machine: {error}") from None
    return stated


def check_result(name: str, result: Any, machine: dict[str, Any] | None) -> Cell:
    """Check a result and the machine that measured it as strictly as those of a whole folder, and
    return its cell. Raises BadInput."""
    checked_name("cells", name)
    cell = cell_of(result)
    check("result", tables_of({name: (cell, result)}, [machine] if machine else []))
    return cell


def restore(source: Path, out: Path) -> Folder:
    """Make a results folder from the tables of a collected folder, so that a sweep measures only
    what they lack. `out` is new or empty. Raises BadInput."""
    tables = read_tables(source)
    cells = tables["cells"].to_pylist()
    if any(row["timed"] is None for row in cells):
        raise BadInput(f"{source}: imported: the tables do not say which operations to time")
    machines = [_parsed(source, row) for row in tables["machines"].to_pylist()]
    rows = {name: _by_cell(tables[name]) for name in ("operations", TIMELINE) if name in tables}
    results: dict[str, dict[str, Any]] = {}
    for row in sorted(cells, key=lambda row: row["started"] or ""):
        factors = {name: row.pop(name) for name in FACTORS if name in row}
        factors |= {"access": row.pop("access"), "operations": row.pop("timed").split()}
        name = row.pop("cell")
        measured = {table: by_cell.get(name, []) for table, by_cell in rows.items()}
        results[name] = row | measured | {"cell": factors}
    try:  # check everything before anything is written
        for machine in machines:
            checked_name("machines", machine["machine"])
        for name, result in results.items():
            checked_name("cells", name)
            cell_of(result)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    with whole(out) as made:
        folder = Folder.make(made)
        for machine in machines:
            folder.add_machine(machine)
        for name, result in results.items():
            folder.write(name, result)
    return Folder(out)


def _parsed(source: Path, machine: dict[str, Any]) -> dict[str, Any]:
    """The description of a machine, from its row in a table."""
    parsed = dict(machine)
    for name in ("packages", "engines"):
        try:
            parsed[name] = json.loads(machine[name])
        except (ValueError, TypeError, RecursionError):
            what = f"{name}: {machine[name]!r:.100} is not JSON"
            raise BadInput(f"{source}: machines: {machine['machine']}: {what}") from None
        if not isinstance(parsed[name], dict):
            what = f"{name}: {machine[name]!r:.100} is no object of versions by name"
            raise BadInput(f"{source}: machines: {machine['machine']}: {what}")
    return parsed


def _by_cell(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row.pop("cell"), []).append(row)
    return rows


class NoAnswerError(Exception):
    """A worker's answer cannot be used; the message states why."""


def answer_of(output: Any, join: Callable[[Any], list[dict[str, Any]]] = list) -> dict[str, Any]:
    """The answer of a worker, without unknown keys. `join` adds the sweep's measurements to the
    rows of its timeline. Raises NoAnswerError."""
    try:
        status, reason = output["status"], output["reason"]
        if status == "failed" and isinstance(reason, str):
            return {"status": status, "reason": one_line(reason)[:MOST_OF_REASON]}
        if status != "ok":
            raise NoAnswerError(f"status {status!r:.40}")
        answer = {name: output[name] for name in ("status", "reason", *MEASURED, "operations")}
        unknown = WARM_ONLY if answer["eviction"] else ()
        columns = SCHEMAS[TIMELINE].names
        answer[TIMELINE] = [
            {name: row[name] for name in columns if name in row} for row in join(output[TIMELINE])
        ]
        lacking = [name for name in MEASURED if answer[name] is None and name not in unknown]
        if lacking or not answer["operations"]:
            raise NoAnswerError(f"without {', '.join(lacking) or 'operations'}")
        options = {"effective_options": _options_text(answer)}
        tables = {name: answer[name] for name in ("operations", TIMELINE)}
        for name, rows in ({"cells": [answer | options]} | tables).items():
            check_values(name, pa.Table.from_pylist(rows, SCHEMAS[name]))
    except (pa.ArrowException, BadInput, *UNFIT) as error:
        raise NoAnswerError(f"{type(error).__name__}: {error!s:.200}") from None
    return answer


def _options_text(result: dict[str, Any]) -> str:
    if isinstance(options := result["effective_options"], str):  # restored from a table
        return options
    return "; ".join(f"{key}={value}" for key, value in options.items())


def _installed(cell: Cell) -> str:
    """The checksum of the installed code that would measure the cell; empty if there is none."""
    try:
        return checksum(Store(cell.store, cell.binding))
    except (OSError, KeyError):
        return ""


def readable_name(cell: Cell) -> str:
    """The readable part of a result file's name, which lists the cell's factors."""
    size = str(cell.record_size).replace(" ", "")
    where = (cell.store, cell.binding or cell.access)
    levels = [re.sub("[^A-Za-z0-9.=-]", "", level) for level in non_default(cell)]
    parts = (*where, size, cell.records, cell.compressibility, *levels, f"t{cell.trial}")
    return "_".join(map(str, parts))[:MOST_CHARACTERS]


def cell_name(cell: Cell, store: KnownStore, machine: str) -> str:
    """The result file's name: readable factors, then a digest of all that identifies a result."""
    code = checksum(store) if store.available else ""
    python = platform.python_version() if cell.binding else ""
    identity = [cell.factors(), machine, store.version, store.binding_version, python, code]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return f"{readable_name(cell)}_{digest}"
