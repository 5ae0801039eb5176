"""The base of the bindings of SQLite: the table and statements of sqlite.c, and the handling of
connections."""

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Self

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.cache import sync_file_system
from kvbench.cell.contract import Capability

MAX_KEY, MAX_VALUE = 1_000_000, 990_000_000  # bytes, as in sqlite.c
BUSY_TIMEOUT = 600  # seconds that a connection waits for another's lock

CREATE = "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
GET = "SELECT value FROM records WHERE key = ?"
INSERT = "INSERT INTO records (key, value) VALUES (?, ?)"
UPDATE = "UPDATE records SET value = ? WHERE key = ?"
REMOVE = "DELETE FROM records WHERE key = ?"
REPLACE = "REPLACE INTO records (key, value) VALUES (?, ?)"
SCAN = "SELECT key, value FROM records WHERE key >= ? ORDER BY key"
DURABILITY = {  # by level, as in sqlite.c
    "none": {"journal_mode": "MEMORY", "synchronous": "OFF"},
    "process": {"journal_mode": "WAL", "synchronous": "OFF"},
    "recoverable": {"journal_mode": "WAL", "synchronous": "NORMAL"},
    "sync": {"journal_mode": "WAL", "synchronous": "FULL"},
}
NOTES = {
    "none": ": a kill in a write may spoil the database",
    "recoverable": ": a checkpoint syncs, a commit does not",
}
LEVELS = level_rows(
    lacks={"*": "its writes are atomic at each level with a log"},
    **{
        level: ", ".join(f"{name}={value}" for name, value in pragmas.items())
        + NOTES.get(level, "")
        for level, pragmas in DURABILITY.items()
    },
)
PRAGMAS = ("journal_mode", "synchronous", "page_size", "cache_size", "locking_mode", "mmap_size")


def read_pragmas(execute: Callable[[str], Iterable[Any]]) -> dict[str, str]:
    """The settings in force, read from a connection."""
    return {name: str(next(iter(execute(f"PRAGMA {name}")))[0]) for name in PRAGMAS}


def set_durability(execute: Callable[[str], object], durability: str) -> None:
    """Set a level on a new connection, before the first write; without a level, nothing."""
    for name, value in DURABILITY.get(durability, {}).items():
        execute(f"PRAGMA {name}={value}")


class Sqlite(Binding):
    """A binding of SQLite. Each session has its own connection, and connections wait for each
    other's locks."""

    capabilities = Capability.BATCH | Capability.SCAN | Capability.THREADS
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"  # the removal of its journal is not synced, see sqlite.c
    levels = LEVELS
    _folder: Path
    _durability: str
    _db: Any  # the binding's connection

    @classmethod
    def engine_version(cls) -> str:
        """That of the standard library, which most bindings use."""
        import sqlite3  # noqa: PLC0415 - a process that measures apsw must not load it, too

        return sqlite3.sqlite_version

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        yield from self._db.execute(SCAN, (start,))

    def sync(self) -> None:
        if self._durability not in ("", "sync"):  # there each commit is synced already
            sync_file_system(self._folder)

    def session(self) -> Self:
        return type(self)(self._folder, self._durability)

    def end(self) -> None:
        self.close()

    def effective_options(self) -> dict[str, str]:
        return read_pragmas(self._db.execute)

    def close(self) -> None:
        self._db.close()
