"""RocksDB by python-rocksdb, options as shipped. It needs RocksDB 6 or older."""

from collections.abc import Generator, Sequence
from pathlib import Path

import rocksdb

from kvbench.cell.bindings import fixed
from kvbench.cell.bindings.rocks import MAX_KEY, MAX_VALUE, RocksDB
from kvbench.cell.contract import TooLarge


class Open(RocksDB):
    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder, self._durability = folder, durability
        self._db = rocksdb.DB(str(folder), rocksdb.Options(create_if_missing=True))
        options = {"none": {"disable_wal": True}, "sync": {"sync": True}}.get(durability, {})
        self._put = fixed(self._db.put, **options)
        self._delete = fixed(self._db.delete, **options)
        self._write = fixed(self._db.write, **options)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if self._db.get(key) is not None:
            return False
        self._put(key, value)
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        if self._db.get(key) is None:
            return False
        self._delete(key)
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        batch = rocksdb.WriteBatch()
        for key, value in records:
            batch.put(key, value)
        self._write(batch)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        cursor = self._db.iteritems()
        cursor.seek(start)
        yield from cursor

    def sync(self) -> None:
        self._db.write(rocksdb.WriteBatch(), sync=True)  # an empty batch syncs the log

    def close(self) -> None:
        """Drop all references, which closes the store: in version 0.8, close() would lead to a
        double free."""
        del self._db, self._put, self._delete, self._write
