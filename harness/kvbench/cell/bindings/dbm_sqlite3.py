"""SQLite by dbm.sqlite3 of Python 3.13, as shipped: a write-ahead log, and a sync each write."""

import dbm.sqlite3
from pathlib import Path

from kvbench.cell.bindings import level_rows
from kvbench.cell.bindings.mapping import Mapping
from kvbench.cell.bindings.sql import MAX_KEY, MAX_VALUE, Sqlite, read_pragmas


class Open(Mapping):
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "sync"
    levels = level_rows(
        lacks={"*": "its interface sets no pragma, so that it syncs each write"},
        sync="journal_mode=WAL, synchronous=FULL, as shipped",
    )
    engine_version = Sqlite.engine_version

    def __init__(self, folder: Path, durability: str = "") -> None:
        del durability  # as shipped at the only level
        self._db = dbm.sqlite3.open(folder / "records.sqlite", "c")  # noqa: SIM115

    def sync(self) -> None:
        """Every commit is synced already: synchronous is FULL."""

    def effective_options(self) -> dict[str, str]:
        return read_pragmas(self._db._cx.execute)
