"""SQLite by dbm.sqlite3 of Python 3.13, as shipped: a write-ahead log, and a sync each write."""

import dbm.sqlite3
from pathlib import Path

from kvbench.cell.bindings.mapping import Mapping
from kvbench.cell.bindings.sql import MAX_KEY, MAX_VALUE, Sqlite, read_pragmas


class Open(Mapping):
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "sync"
    engine_version = Sqlite.engine_version

    def __init__(self, folder: Path) -> None:
        self._db = dbm.sqlite3.open(folder / "records.sqlite", "c")  # noqa: SIM115

    def sync(self) -> None:
        """Every commit is synced already: synchronous is FULL."""

    def effective_options(self) -> dict[str, str]:
        return read_pragmas(self._db._cx.execute)
