"""dbm, plyvel and lmdb: libraries of C, whose objects are replaced by ones that pass calls on."""

from collections.abc import Iterator
from functools import partial
from types import ModuleType, TracebackType
from typing import Any

from .rows import (
    ABORT,
    BEGIN,
    COMMIT,
    GET,
    PUT,
    REMOVE,
    SCAN,
    border,
    call,
    calls,
    opened,
    size_of,
)


class Passed:
    """Passes on what it does not record."""

    def __init__(self, inner: Any, store: int) -> None:
        self._inner, self._store = inner, store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # fmt: skip
        return self._inner.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Any]:
        return counted(iter(self._inner), self._store)


def counted(records: Iterator[Any], store: int) -> Iterator[Any]:
    """Iterate over records, then add a row with their number."""
    count = 0
    try:
        for record in records:
            count += 1
            yield record
    finally:
        if not calls.inside:
            calls.rows.add(SCAN, store, b"", count)


class Table(Passed):
    """A database of dbm."""

    def __getitem__(self, key: Any) -> Any:
        return call(GET, self._store, key, size_of, self._inner.__getitem__, key)

    def get(self, key: Any, default: Any = None) -> Any:
        return call(GET, self._store, key, size_of, self._inner.get, key, default, missing=default)

    def __setitem__(self, key: Any, value: Any) -> None:
        call(PUT, self._store, key, size_of(value), self._inner.__setitem__, key, value)

    def __delitem__(self, key: Any) -> None:
        call(REMOVE, self._store, key, 0, self._inner.__delitem__, key)

    def __contains__(self, key: Any) -> bool:
        return bool(call(GET, self._store, key, 0, self._inner.__contains__, key, missing=False))

    def __len__(self) -> int:
        return len(self._inner)

    def keys(self) -> Any:
        found = self._inner.keys()
        if not calls.inside:
            calls.rows.add(SCAN, self._store, b"", len(found))
        return found


def hook_dbm(module: ModuleType) -> None:
    function, kind = module.open, module.__name__

    def recorded(name: Any, *arguments: Any, **options: Any) -> Any:
        if calls.inside:
            return function(name, *arguments, **options)
        return Table(function(name, *arguments, **options), opened(kind, name))

    module.open = recorded  # type: ignore[attr-defined]


class LevelBatch(Passed):
    """A batch of plyvel: the writes are rows between those of its borders."""

    def put(self, key: bytes, value: bytes) -> None:
        call(PUT, self._store, key, len(value), self._inner.put, key, value, flags=0)

    def delete(self, key: bytes) -> None:
        call(REMOVE, self._store, key, 0, self._inner.delete, key, flags=0)

    def write(self) -> None:
        border(COMMIT, self._store, self._inner.write)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # fmt: skip
        return border(COMMIT, self._store, self._inner.__exit__, kind, error, trace)


class LevelReads(Passed):
    """A database or snapshot of plyvel."""

    def get(self, key: bytes, default: Any = None, **options: Any) -> Any:
        return call(
            GET,
            self._store,
            key,
            size_of,
            self._inner.get,
            key,
            default,
            missing=default,
            **options,
        )

    def iterator(self, **options: Any) -> Any:
        return Passed(self._inner.iterator(**options), self._store)

    def snapshot(self) -> Any:
        return LevelReads(self._inner.snapshot(), self._store)


class LevelWrites(LevelReads):
    def put(self, key: bytes, value: bytes, **options: Any) -> None:
        call(PUT, self._store, key, size_of(value), self._inner.put, key, value, **options)

    def delete(self, key: bytes, **options: Any) -> None:
        call(REMOVE, self._store, key, 0, self._inner.delete, key, **options)

    def write_batch(self, **options: Any) -> LevelBatch:
        begun = border(BEGIN, self._store, partial(self._inner.write_batch, **options))
        return LevelBatch(begun, self._store)

    def prefixed_db(self, prefix: bytes) -> Any:
        return LevelWrites(self._inner.prefixed_db(prefix), self._store)


def hook_plyvel(module: ModuleType) -> None:
    made = module.DB

    class DB(LevelWrites):
        def __init__(self, name: Any, **options: Any) -> None:
            super().__init__(made(name, **options), opened("plyvel", name))

    module.DB = DB  # type: ignore[attr-defined]


class Transaction(Passed):
    """A transaction of lmdb. One that only reads has no rows of its own."""

    def __init__(self, inner: Any, store: int, writes: bool) -> None:
        super().__init__(inner, store)
        self._writes = writes

    def get(self, key: bytes, default: Any = None, *rest: Any, **options: Any) -> Any:
        return call(
            GET, self._store, key, size_of, self._inner.get, key, default, *rest, missing=default,
            **options,
        )  # fmt: skip

    def put(self, key: bytes, value: Any, *rest: Any, **options: Any) -> Any:
        return call(
            PUT, self._store, key, size_of(value), self._inner.put, key, value, *rest, flags=0,
            **options,
        )  # fmt: skip

    def replace(self, key: bytes, value: Any, *rest: Any, **options: Any) -> Any:
        return call(
            PUT, self._store, key, size_of(value), self._inner.replace, key, value, *rest, flags=0,
            **options,
        )  # fmt: skip

    def pop(self, key: bytes, *rest: Any, **options: Any) -> Any:
        return call(REMOVE, self._store, key, 0, self._inner.pop, key, *rest, flags=0, **options)

    def delete(self, key: bytes, *rest: Any, **options: Any) -> Any:
        return call(REMOVE, self._store, key, 0, self._inner.delete, key, *rest, flags=0, **options)

    def cursor(self, *rest: Any, **options: Any) -> Any:
        return Cursor(self._inner.cursor(*rest, **options), self._store)

    def commit(self) -> None:
        self._end(COMMIT, self._inner.commit)

    def abort(self) -> None:
        self._end(ABORT, self._inner.abort)

    def _end(self, operation: int, function: Any, *arguments: Any) -> Any:
        if not self._writes:
            return function(*arguments)
        return border(operation, self._store, function, *arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # fmt: skip
        return self._end(ABORT if kind else COMMIT, self._inner.__exit__, kind, error, trace)


class Cursor(Passed):
    """A cursor of lmdb."""

    def get(self, key: bytes, default: Any = None) -> Any:
        return call(GET, self._store, key, size_of, self._inner.get, key, default, missing=default)

    def set_key(self, key: bytes) -> Any:
        return call(GET, self._store, key, 0, self._inner.set_key, key, missing=False)

    def put(self, key: bytes, value: Any, *rest: Any, **options: Any) -> Any:
        return call(
            PUT, self._store, key, size_of(value), self._inner.put, key, value, *rest, flags=0,
            **options,
        )  # fmt: skip

    def putmulti(self, records: Any, *rest: Any, **options: Any) -> Any:
        kept = list(records)
        for key, value in kept:
            calls.rows.add(PUT, self._store, key, size_of(value))
        return self._inner.putmulti(kept, *rest, **options)

    def iternext(self, *rest: Any, **options: Any) -> Any:
        return counted(self._inner.iternext(*rest, **options), self._store)

    def iterprev(self, *rest: Any, **options: Any) -> Any:
        return counted(self._inner.iterprev(*rest, **options), self._store)


def hook_lmdb(module: ModuleType) -> None:
    made, begun = module.Environment, module.Transaction

    class Environment(Passed):
        def __init__(self, path: Any, *rest: Any, **options: Any) -> None:
            super().__init__(made(path, *rest, **options), opened("lmdb", path))

        def begin(
            self, db: Any = None, parent: Any = None, write: bool = False, buffers: bool = False
        ) -> Transaction:
            above = getattr(parent, "_inner", parent)
            if write and not calls.inside:
                calls.rows.add(BEGIN, self._store, b"", 0)
            return Transaction(self._inner.begin(db, above, write, buffers), self._store, write)

    def transaction(env: Any, *rest: Any, **options: Any) -> Any:
        return (
            env.begin(*rest, **options)
            if isinstance(env, Environment)
            else begun(env, *rest, **options)
        )

    module.Environment = module.open = Environment  # type: ignore[attr-defined]
    module.Transaction = transaction  # type: ignore[attr-defined]
