"""LevelDB by plyvel, options as shipped. As in C, a write first reads whether the key exists."""

from collections.abc import Generator, Sequence
from pathlib import Path

import plyvel

from kvbench.cell.bindings import Binding
from kvbench.cell.contract import Capability, TooLarge

LIMIT = 2**30 - 1  # bytes, as in leveldb_store.h


class Open(Binding):
    capabilities = Capability.BATCH | Capability.SCAN | Capability.THREADS
    max_key = max_value = LIMIT
    default_durability = "process"

    @classmethod
    def engine_version(cls) -> str:
        return str(plyvel.__leveldb_version__)

    def __init__(self, folder: Path) -> None:
        self._db = plyvel.DB(str(folder), create_if_missing=True)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        return self._db.get(key)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if self._db.get(key) is not None:
            return False
        self._db.put(key, value)
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._db.put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._db.delete(key)
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        with self._db.write_batch() as batch:
            for key, value in records:
                batch.put(key, value)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        with self._db.iterator(start=start) as cursor:
            yield from cursor

    def sync(self) -> None:
        self._db.write_batch(sync=True).write()  # an empty batch syncs the log

    def effective_options(self) -> dict[str, str]:
        return {"options": "library defaults (the binding reads none back)", "sync": "off"}

    def close(self) -> None:
        self._db.close()
