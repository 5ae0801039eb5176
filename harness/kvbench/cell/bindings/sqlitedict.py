"""SQLite by sqlitedict, as shipped or at a durability level, except that values stay bytes, which
sqlitedict would pickle by default. Each write is its own transaction, and a thread of sqlitedict's
own holds the connection."""

from collections.abc import Sequence
from pathlib import Path

from sqlitedict import SqliteDict

from kvbench.cell.bindings.mapping import Mapping
from kvbench.cell.bindings.sql import (
    DURABILITY,
    LEVELS,
    MAX_KEY,
    MAX_VALUE,
    Sqlite,
    read_pragmas,
)
from kvbench.cell.cache import sync_file_system
from kvbench.cell.contract import Capability


class Open(Mapping):
    capabilities = Capability.THREADS
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"  # synchronous is OFF
    levels = LEVELS  # by journal_mode, and by a pragma on `conn`, as the package sets no other
    engine_version = Sqlite.engine_version

    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder = folder
        file, pragmas = str(folder / "records.sqlite"), DURABILITY.get(durability, {})
        journal = pragmas.get("journal_mode", "DELETE")
        self._db = SqliteDict(
            file, autocommit=True, journal_mode=journal, encode=bytes, decode=bytes
        )
        if pragmas:  # the package has set synchronous=OFF
            self._db.conn.execute(f"PRAGMA synchronous={pragmas['synchronous']}")

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        self._db.update(records)  # waits once, though each record is a transaction

    def sync(self) -> None:
        self._db.commit()
        sync_file_system(self._folder)

    def effective_options(self) -> dict[str, str]:
        return read_pragmas(self._db.conn.select)
