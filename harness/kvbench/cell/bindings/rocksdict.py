"""RocksDB by rocksdict in raw mode (bytes in, bytes out), options as shipped."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from kvbench.cell.bindings.rocks import MAX_KEY, MAX_VALUE, RocksDB
from kvbench.cell.contract import TooLarge


class Open(RocksDB):
    def __init__(self, folder: Path, durability: str = "") -> None:
        self._folder, self._durability = folder, durability
        self._db = Rdict(str(folder), Options(raw_mode=True))
        options: Any = WriteOptions()  # as shipped; its stub has no property disable_wal
        options.disable_wal = durability == "none"
        options.sync = durability == "sync"
        self._db.set_write_options(options)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if key in self._db:
            return False
        self._db.put(key, value)
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        if key not in self._db:
            return False
        self._db.put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        if key not in self._db:
            return False
        self._db.delete(key)
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        batch = WriteBatch(raw_mode=True)
        for key, value in records:
            batch.put(key, value)
        self._db.write(batch)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        cursor = self._db.iter()
        cursor.seek(start)
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
        cursor.status()  # raises the error that ended the scan early

    def sync(self) -> None:
        if self._durability == "none":
            self._db.flush()
        else:
            self._db.flush_wal(sync=True)

    def close(self) -> None:
        self._db.close()
