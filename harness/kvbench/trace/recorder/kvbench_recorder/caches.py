"""diskcache: a cache of SQLite and, for large values, files."""

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .rows import GET, PUT, REMOVE, call, calls, opened, size_of

MISSING = object()
NAMES = {"__getitem__": GET, "set": PUT, "add": PUT, "pop": REMOVE, "__delitem__": REMOVE}
_bytes = threading.local()  # of the value that the thread's last call stored or fetched


def hook_diskcache(module: ModuleType) -> None:
    """A value is pickled by the cache's disk, which therefore knows its bytes."""
    disk, cache = module.Disk, module.Cache
    store, fetch = disk.store, disk.fetch

    def stored(self: Any, value: Any, *rest: Any, **options: Any) -> Any:
        found = store(self, value, *rest, **options)
        _bytes.size = found[0] or size_of(found[3])
        return found

    def fetched(self: Any, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        found = fetch(self, mode, filename, value, read)
        _bytes.size = size_of(value if filename is None else found)
        return found

    disk.store, disk.fetch = stored, fetched
    for name, operation in NAMES.items():
        setattr(cache, name, _recorded(getattr(cache, name), operation))
    get = cache.get

    def got(self: Any, key: Any, default: Any = None, *rest: Any, **options: Any) -> Any:
        return _call(self, GET, key, get, default, *rest, missing=default, **options)

    cache.get = got
    begin = cache.__init__

    def made(self: Any, directory: Any = None, *rest: Any, **options: Any) -> None:
        inside, calls.inside = calls.inside, True
        try:
            begin(self, directory, *rest, **options)
        finally:
            calls.inside = inside
        self._kvbench_store = opened("diskcache", self.directory)

    cache.__init__ = made


def _recorded(function: Callable[..., Any], operation: int) -> Callable[..., Any]:
    def recorded(self: Any, key: Any, *rest: Any, **options: Any) -> Any:
        return _call(self, operation, key, function, *rest, missing=MISSING, **options)

    return recorded


def _call(
    self: Any, operation: int, key: Any, function: Callable[..., Any], *rest: Any,
    missing: object, **options: Any,
) -> Any:  # fmt: skip
    if calls.inside:
        return function(self, key, *rest, **options)
    _bytes.size = 0
    return call(
        operation, self._kvbench_store, key, lambda _: _bytes.size, function, self, key, *rest,
        missing=missing, **options,
    )  # fmt: skip
