"""RocksDB by python-rocksdb, options as shipped. It needs RocksDB 6 or older."""

from collections.abc import Generator, Sequence
from pathlib import Path

import rocksdb

from kvbench.cell.bindings.rocks import MAX_KEY, MAX_VALUE, RocksDB
from kvbench.cell.contract import TooLarge


class Open(RocksDB):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._db = rocksdb.DB(str(folder), rocksdb.Options(create_if_missing=True))

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if self._db.get(key) is not None:
            return False
        self._db.put(key, value)
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._db.put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._db.delete(key)
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        batch = rocksdb.WriteBatch()
        for key, value in records:
            batch.put(key, value)
        self._db.write(batch)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        cursor = self._db.iteritems()
        cursor.seek(start)
        yield from cursor

    def sync(self) -> None:
        self._db.write(rocksdb.WriteBatch(), sync=True)  # an empty batch syncs the log

    def close(self) -> None:
        """Drop the reference, which closes the store: in version 0.8, close() would lead to a
        double free."""
        del self._db
