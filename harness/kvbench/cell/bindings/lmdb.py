"""LMDB by py-lmdb, as shipped except for the size of its map and the durability levels, which are
those of lmdb.c. Each write is one transaction, with one sync as shipped. Each get begins a new
transaction, where lmdb.c renews one."""

from collections.abc import Generator, Sequence
from pathlib import Path

import lmdb

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.contract import Capability, TooLarge

MAX_KEY, MAX_VALUE = 511, 2**32 - 1  # bytes, as in lmdb.c
MAP_SIZE = 1 << 40  # bytes of address space


class Open(Binding):
    capabilities = Capability.BATCH | Capability.SCAN | Capability.THREADS
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "sync"
    levels = level_rows(
        lacks={
            "none": "it hands each commit to the operating system",
            "*": "its writes are atomic at every level",
        },
        process="sync=False",
        recoverable="metasync=False: a commit syncs its pages before it writes the meta page, "
        "which it does not sync",
        sync="each transaction is synced, as shipped",
    )

    @classmethod
    def engine_version(cls) -> str:
        return ".".join(map(str, lmdb.version()))

    def __init__(self, folder: Path, durability: str = "") -> None:
        self._environment = lmdb.open(
            str(folder),
            map_size=MAP_SIZE,
            sync=durability != "process",
            metasync=durability != "recoverable",
        )

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        with self._environment.begin() as transaction:
            return transaction.get(key)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        with self._environment.begin(write=True) as transaction:
            return transaction.put(key, value, overwrite=False)

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        with self._environment.begin(write=True, buffers=True) as transaction:  # copies nothing
            return transaction.get(key) is not None and transaction.put(key, value)

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        with self._environment.begin(write=True) as transaction:
            return transaction.delete(key)

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        with self._environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(records)

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            if cursor.set_range(start):
                yield from cursor

    def sync(self) -> None:
        self._environment.sync(True)

    def effective_options(self) -> dict[str, str]:
        flags = self._environment.flags()
        synced = "each transaction" if flags["metasync"] else "data"
        return {
            "map_size": str(self._environment.info()["map_size"]),
            "page_size": str(self._environment.stat()["psize"]),
            "sync": synced if flags["sync"] else "off",
            "writemap": "on" if flags["writemap"] else "off",
        }

    def close(self) -> None:
        self._environment.close()
