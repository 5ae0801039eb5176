"""sqlite3, used as tables of keys and values."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

from .rows import (
    ABORT,
    ALONE,
    COMMIT,
    FAILED,
    FOUND,
    GET,
    OTHER,
    PUT,
    REMOVE,
    SCAN,
    as_bytes,
    calls,
    now,
    opened,
    size_of,
)

NAME = r'["`\[]?(\w+)["`\]]?'
HOLDER = r"(\?\d*|[:@$]\w+)"
LITERAL = re.compile(r"'(?:[^']|'')*'")
INSERT = re.compile(rf"(?:insert(?: or \w+)?|replace) into {NAME}\b.*?\bvalues ?\((.*?)\)", re.S)
WHERE = re.compile(rf"\bwhere\b[^?:@$]*? ?= ?{HOLDER}", re.S)
KINDS = {
    "insert": PUT, "replace": PUT, "update": PUT, "delete": REMOVE, "select": GET,
    "commit": COMMIT, "end": COMMIT, "rollback": ABORT,
}  # fmt: skip
TABLE = re.compile(rf"\b(?:from|into|update(?: or \w+)?) {NAME}")
READS = (GET, SCAN)
QUIET = ("begin", "savepoint", "release", "pragma", "create", "explain", "attach", "vacuum")


class Statement(NamedTuple):
    """What a statement does: its operation, its table, and the holder of its key: its place among
    the question marks, or its name. None: it has no single key."""

    operation: int
    table: str
    key: int | str | None


@lru_cache(maxsize=512)
def parsed(sql: str) -> Statement | None:
    """What a statement does; None if it neither reads nor writes a table."""
    text = " ".join(LITERAL.sub("''", sql).split()).lower()
    first = text.partition(" ")[0].rstrip(";")
    if first in QUIET or not first:
        return None
    operation = KINDS.get(first, OTHER)
    table = TABLE.search(text)
    name = table[1] if table else ""
    if first in ("insert", "replace"):
        found = INSERT.search(text)
        holder = re.match(rf" ?{HOLDER}", found[2]) if found else None
        before = text[: found.start(2)] if found else ""
        return Statement(PUT, name, _key(holder, before))
    if first in ("select", "update", "delete"):
        found = WHERE.search(text)
        key = _key(found, text[: found.start(1)]) if found else None
        if key is None:
            operation = SCAN if first == "select" else OTHER
        return Statement(operation, name, key)
    return Statement(operation, name, None)


def _key(holder: "re.Match[str] | None", before: str) -> int | str | None:
    if holder is None:
        return None
    name = holder[1]
    if name == "?":
        return before.count("?")
    return int(name[1:]) - 1 if name[0] == "?" else name[1:]


def _parts(statement: Statement, values: Any) -> tuple[bytes, int]:
    """The key that a statement is given, and the bytes of the other values."""
    key: Any = None
    if statement.key is not None:
        try:
            key = values[statement.key]
        except (LookupError, TypeError):
            return b"", 0
    given = as_bytes(key) if statement.key is not None else b""
    if statement.operation in READS:
        return given, 0
    others = values.values() if isinstance(values, Mapping) else values
    return given, sum(map(size_of, others)) - (size_of(key) if given else 0)


def _bytes(record: Any) -> int:
    """The bytes of a row, of whatever form its connection makes it."""
    if type(record) is not tuple:
        record = tuple(record.values() if isinstance(record, Mapping) else record)
    return size_of(record)


class Recorded:
    """Of a connection: what its cursors and it itself record."""

    in_transaction: bool
    _kvbench_cursor: type  # of its cursors, if no other is asked for
    _kvbench_written: set[int]  # the tables that the transaction has written

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_cursor(factory) if factory else self._kvbench_cursor)  # type: ignore[misc]

    def execute(self, *arguments: Any) -> Any:
        return super().cursor(self._kvbench_cursor).execute(*arguments)  # type: ignore[misc]

    def executemany(self, *arguments: Any) -> Any:
        return self.cursor().executemany(*arguments)

    def commit(self) -> None:
        self._kvbench_end(COMMIT, super().commit)  # type: ignore[misc]

    def rollback(self) -> None:
        self._kvbench_end(ABORT, super().rollback)  # type: ignore[misc]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # fmt: skip
        return self._kvbench_end(ABORT if kind else COMMIT, super().__exit__, kind, error, trace)  # type: ignore[misc]

    def _kvbench_end(self, operation: int, function: Any, *arguments: Any) -> Any:
        """End a transaction: each table that it wrote has a row."""
        written, self._kvbench_written = self._kvbench_written, set()
        if calls.inside or not written:
            return function(*arguments)
        calls.inside = True
        start = now()
        try:
            return function(*arguments)
        finally:
            took = now() - start
            calls.inside = False
            for store in written:
                calls.rows.add(operation, store, b"", 0, took)
                took = 0


class RecordedCursor:
    """Of a cursor: a select has its row when its first record is fetched, or when it ends."""

    connection: Any
    _kvbench_open: tuple[Statement, bytes, int] | None = None  # a select; its key; ns so far
    _kvbench_count = 0

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if calls.inside:
            return super().execute(sql, parameters)  # type: ignore[misc]
        if self._kvbench_open is not None:
            self._kvbench_close()
        statement = parsed(sql)
        took, failed = 0, FAILED
        calls.inside = True
        start = now()
        try:
            found = super().execute(sql, parameters)  # type: ignore[misc]
            failed = 0
        finally:
            took = now() - start
            calls.inside = False
            if statement is not None:
                self._kvbench_did(statement, parameters, took, failed)
        return found

    def _kvbench_did(self, statement: Statement, parameters: Any, took: int, failed: int) -> None:
        key, size = _parts(statement, parameters)
        if statement.operation in READS and not failed:
            self._kvbench_open = (statement, key, took)
            self._kvbench_count = 0
            return
        flags, store = failed or ALONE, self._kvbench_store(statement)
        if self.connection.in_transaction and not failed:
            flags = 0
            self.connection._kvbench_written.add(store)
        calls.rows.add(statement.operation, store, key, size, took, flags)

    def _kvbench_store(self, statement: Statement) -> int:
        found: int = self.connection._kvbench_tables(statement.table)
        return found

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        statement = parsed(sql)
        if calls.inside or statement is None:
            return super().executemany(sql, parameters)  # type: ignore[misc]
        return super().executemany(sql, self._kvbench_each(statement, parameters))  # type: ignore[misc]

    def _kvbench_each(self, statement: Statement, parameters: Iterable[Any]) -> Iterator[Any]:
        store = self._kvbench_store(statement)
        self.connection._kvbench_written.add(store)
        for values in parameters:
            key, size = _parts(statement, values)
            calls.rows.add(statement.operation, store, key, size)
            yield values

    def fetchone(self) -> Any:
        start = now()
        found = super().fetchone()  # type: ignore[misc]
        self._kvbench_got(found, now() - start)
        return found

    def __next__(self) -> Any:
        start = now()
        try:
            found = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._kvbench_got(None, now() - start)
            raise
        self._kvbench_got(found, now() - start)
        return found

    def fetchall(self) -> Any:
        start = now()
        found = super().fetchall()  # type: ignore[misc]
        took = now() - start
        for record in found[:1] if self._kvbench_gets() else found:
            self._kvbench_got(record, took)
        self._kvbench_close()
        return found

    def fetchmany(self, *size: Any) -> Any:
        start = now()
        found = super().fetchmany(*size)  # type: ignore[misc]
        took = now() - start
        for record in found[:1] if self._kvbench_gets() else found:
            self._kvbench_got(record, took)
        return found

    def _kvbench_gets(self) -> bool:
        return self._kvbench_open is not None and self._kvbench_open[0].operation == GET

    def _kvbench_got(self, record: Sequence[Any] | None, took: int) -> None:
        if self._kvbench_open is None:
            return
        statement, key, before = self._kvbench_open
        if statement.operation == GET:
            self._kvbench_open = None
            flags, size = (0, 0) if record is None else (FOUND, _bytes(record))
            calls.rows.add(GET, self._kvbench_store(statement), key, size, before + took, flags)
        elif record is None:
            self._kvbench_close()
        else:
            self._kvbench_count += 1

    def _kvbench_close(self) -> None:
        """Add the row of a select that is not read any further."""
        if self._kvbench_open is None:
            return
        statement, key, took = self._kvbench_open
        self._kvbench_open = None
        store = self._kvbench_store(statement)
        calls.rows.add(statement.operation, store, key, self._kvbench_count, took)

    def close(self) -> None:
        self._kvbench_close()
        super().close()  # type: ignore[misc]


@lru_cache(maxsize=64)
def _cursor(factory: type) -> type:
    return type(factory.__name__, (RecordedCursor, factory), {})


@lru_cache(maxsize=64)
def _connection(factory: type) -> type:
    return type(factory.__name__, (Recorded, factory), {})


def hook_sqlite3(module: ModuleType) -> None:
    connect, plain = module.connect, module.Connection

    def recorded(database: Any, *arguments: Any, **options: Any) -> Any:
        if calls.inside:
            return connect(database, *arguments, **options)
        options["factory"] = _connection(options.get("factory", plain))
        made = connect(database, *arguments, **options)
        path = database if database == ":memory:" else os.path.abspath(os.fsdecode(database))
        tables: dict[str, int] = {}

        def table(name: str) -> int:
            if name not in tables:
                tables[name] = opened("sqlite3", (path, name))
            return tables[name]

        made._kvbench_tables, made._kvbench_written = table, set()
        made._kvbench_cursor = _cursor(module.Cursor)
        return made

    module.connect = recorded  # type: ignore[attr-defined]
