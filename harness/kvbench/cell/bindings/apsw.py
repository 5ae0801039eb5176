"""SQLite by APSW, as shipped or at the durability levels of sqlite.c: each write is a transaction
of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

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
    @classmethod
    def engine_version(cls) -> str:
        return apsw.sqlite_lib_version()

    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder, self._durability = folder, durability
        self._db = apsw.Connection(str(folder / "records.sqlite"))
        self._db.set_busy_timeout(BUSY_TIMEOUT * 1000)
        set_durability(self._db.execute, durability)
        self._db.execute(CREATE)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        value: Any = self._db.execute(GET, (key,)).get
        return value

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            self._db.execute(INSERT, (key, value))
        except apsw.ConstraintError:
            return False
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        self._db.execute(UPDATE, (value, key))
        return self._db.changes() == 1

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        self._db.execute(REMOVE, (key,))
        return self._db.changes() == 1

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        with self._db:  # one transaction
            self._db.executemany(REPLACE, records)
