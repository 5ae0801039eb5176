"""The base of the bindings bsddb3 and berkeleydb, which have one author and one interface. They
open Berkeley DB's B-tree without an environment, as bdb_store.h does."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kvbench.cell.bindings import Binding
from kvbench.cell.contract import Capability, TooLarge

LIMIT = 2**30 - 1  # bytes, as in bdb_store.h


class Berkeley(Binding):
    capabilities = Capability.SCAN  # the interface has no bulk put
    max_key = max_value = LIMIT
    default_durability = "none"  # without an environment pages stay in the process
    api: ClassVar[Any]  # the binding's module `db`

    @classmethod
    def engine_version(cls) -> str:
        return ".".join(map(str, cls.api.version()))

    def __init__(self, folder: Path) -> None:
        self._db = self.api.DB()
        self._db.open(str(folder / "records.db"), None, self.api.DB_BTREE, self.api.DB_CREATE)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        value: bytes | None = self._db.get(key)
        return value

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        try:
            self._db.put(key, value, flags=self.api.DB_NOOVERWRITE)
        except self.api.DBKeyExistError:
            return False
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if not self._db.exists(key):
            return False
        self._db.put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        try:
            self._db.delete(key)
        except self.api.DBNotFoundError:
            return False
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        for key, value in records:
            self._db.put(key, value)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        cursor = self._db.cursor()
        try:
            record = cursor.set_range(start) if start else cursor.first()
            while record is not None:
                yield record
                record = cursor.next()
        finally:
            cursor.close()

    def sync(self) -> None:
        self._db.sync()

    def effective_options(self) -> dict[str, str]:
        gigabytes, size, _parts = self._db.get_cachesize()
        return {
            "cache_size": str((gigabytes << 30) + size),
            "page_size": str(self._db.get_pagesize()),
            "environment": "none",
            "sync": "off",
        }

    def close(self) -> None:
        self._db.close()
