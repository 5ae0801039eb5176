"""SQLite by the standard library, as shipped or at the durability levels of sqlite.c, except that
implicit transactions are off: each write is its own transaction."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvbench.cell.bindings.sql import (
    BUSY_TIMEOUT,
    CREATE,
    GET,
    INSERT,
    MAX_KEY,
    MAX_VALUE,
    REMOVE,
    REPLACE,
    UPDATE,
    Sqlite,
    set_durability,
)
from kvbench.cell.contract import TooLarge


class Open(Sqlite):
    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder, self._durability = folder, durability
        file = folder / "records.sqlite"
        self._db = sqlite3.connect(file, timeout=BUSY_TIMEOUT, isolation_level=None)
        set_durability(self._db.execute, durability)
        self._db.execute(CREATE)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        row: Any = self._db.execute(GET, (key,)).fetchone()
        return None if row is None else row[0]

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            self._db.execute(INSERT, (key, value))
        except sqlite3.IntegrityError:
            return False
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        return self._db.execute(UPDATE, (value, key)).rowcount == 1

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        return self._db.execute(REMOVE, (key,)).rowcount == 1

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        self._db.execute("BEGIN")
        with self._db:  # commits, or rolls back
            self._db.executemany(REPLACE, records)
