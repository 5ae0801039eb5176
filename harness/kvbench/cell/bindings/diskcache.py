"""SQLite and files by diskcache, as shipped or at a durability level, except that eviction is off,
since it would remove records beyond 1 GiB. As shipped, values of 32 KiB and more are files.
diskcache stores keys and values of type bytes without pickling them."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diskcache import Cache

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.bindings.sql import DURABILITY, MAX_KEY, MAX_VALUE, NOTES, Sqlite, read_pragmas
from kvbench.cell.cache import sync_file_system
from kvbench.cell.contract import Capability, TooLarge

WHOLE = ("recoverable", "sync")  # levels at which all values are in SQLite
FILES = ", values of 32 KiB and more in files, as shipped"
NO_FILES = ", disk_min_file_size beyond any value, since diskcache syncs no file"


class Open(Binding):
    capabilities = Capability.THREADS
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"  # commits are not synced, and files never
    levels = level_rows(
        lacks={"*": "its writes are atomic at each level with a log"},
        **{
            level: ", ".join(f"sqlite_{name}={value}" for name, value in pragmas.items())
            + (NO_FILES if level in WHOLE else FILES)
            + NOTES.get(level, "")
            for level, pragmas in DURABILITY.items()
        },
    )
    engine_version = Sqlite.engine_version

    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder = folder
        pragmas = DURABILITY.get(durability, {})
        settings: dict[str, Any] = {f"sqlite_{n}": value.lower() for n, value in pragmas.items()}
        if durability in WHOLE:
            settings["disk_min_file_size"] = MAX_VALUE + 1
        self._cache = Cache(str(folder), eviction_policy="none", **settings)
        self._batch = self._cache.transact if durability in WHOLE else contextlib.nullcontext

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        return self._cache.get(key)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        return self._cache.add(key, value)

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        return key in self._cache and self._cache.set(key, value)

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        return self._cache.delete(key)

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the records one by one where values may be files: within a transaction, diskcache
        would remove replaced files before it commits."""
        self._check_batch(records)
        with self._batch():
            for key, value in records:
                self._cache.set(key, value)

    def sync(self) -> None:
        sync_file_system(self._folder)  # diskcache has no such call

    def end(self) -> None:
        self._cache.close()  # the connection of this thread

    def effective_options(self) -> dict[str, str]:
        own = ("eviction_policy", "disk_min_file_size")
        return read_pragmas(self._cache._sql) | {n: str(getattr(self._cache, n)) for n in own}

    def close(self) -> None:
        self._cache.close()
