"""LevelDB by plyvel, options as shipped, with the durability levels of leveldb_store.h. As in C, a
write first reads whether the key exists."""

from collections.abc import Generator, Sequence
from pathlib import Path

import plyvel

from kvbench.cell.bindings import Binding, fixed, level_rows
from kvbench.cell.contract import Capability, TooLarge

LIMIT = 2**30 - 1  # bytes, as in leveldb_store.h


class Open(Binding):
    capabilities = Capability.BATCH | Capability.SCAN | Capability.THREADS
    max_key = max_value = LIMIT
    default_durability = "process"
    levels = level_rows(
        lacks={
            "none": "every write goes to its log",
            "*": "its writes are atomic at every level",
        },
        process="the log is written, not synced, as shipped",
        recoverable="the log is written, not synced, as at process",
        sync="sync=True for put, delete and write_batch",
    )

    @classmethod
    def engine_version(cls) -> str:
        return str(plyvel.__leveldb_version__)

    def __init__(self, folder: Path, durability: str = "") -> None:
        self._db = plyvel.DB(str(folder), create_if_missing=True)
        self._synced = {"sync": True} if durability == "sync" else {}
        self._put = fixed(self._db.put, **self._synced)
        self._delete = fixed(self._db.delete, **self._synced)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        return self._db.get(key)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if self._db.get(key) is not None:
            return False
        self._put(key, value)
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._delete(key)
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        with self._db.write_batch(**self._synced) as batch:
            for key, value in records:
                batch.put(key, value)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        with self._db.iterator(start=start) as cursor:
            yield from cursor

    def sync(self) -> None:
        self._db.write_batch(sync=True).write()  # an empty batch syncs the log

    def effective_options(self) -> dict[str, str]:
        sync = "each write" if self._synced else "off"
        return {"options": "library defaults (the binding reads none back)", "sync": sync}

    def close(self) -> None:
        self._db.close()
