"""The base of the bindings bsddb3 and berkeleydb, which have one author and one interface. As
bdb_store.h does, they open Berkeley DB's B-tree without an environment, and in one of its own for a
durability above none."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.contract import Capability, TooLarge

LIMIT = 2**30 - 1  # bytes, as in bdb_store.h
FILE = "records.db"
CHECKPOINT_KIB = 32 << 10  # of log between two checkpoints, which remove older log
LOGGED = "private environment, each write a transaction"
UPKEEP = "DB_LOG_AUTO_REMOVE, a checkpoint each 32 MiB of log"


class Berkeley(Binding):
    capabilities = Capability.SCAN  # the interface has no bulk put
    max_key = max_value = LIMIT
    default_durability = "none"  # without an environment pages stay in the process
    levels = level_rows(
        lacks={"*": "its updates are atomic at every level that survives a crash"},
        none="no environment: no log, no transactions",
        process=f"{LOGGED}, DB_TXN_WRITE_NOSYNC, {UPKEEP}; the engine still syncs its log before a "
        "changed page leaves the cache and before the last page of the file is freed",
        recoverable=f"{LOGGED}, DB_TXN_WRITE_NOSYNC, {UPKEEP}, as at process",
        sync=f"{LOGGED}, its log synced, {UPKEEP}",
    )
    api: ClassVar[Any]  # the binding's module `db`

    @classmethod
    def engine_version(cls) -> str:
        return ".".join(map(str, cls.api.version()))

    def __init__(self, folder: Path, durability: str = "") -> None:
        logged = durability not in ("", "none")
        self._environment = self._opened(str(folder), durability == "sync") if logged else None
        self._db = self.api.DB(self._environment) if logged else self.api.DB()
        file = FILE if logged else str(folder / FILE)
        self._db.open(file, None, self.api.DB_BTREE, self.api.DB_CREATE)
        self._put, self._delete = map(self._logged, (self._db.put, self._db.delete))

    def _opened(self, folder: str, synced: bool) -> Any:
        """An environment, as open_environment() in bdb_store.h."""
        db, environment = self.api, self.api.DBEnv()
        environment.set_flags(db.DB_AUTO_COMMIT | (0 if synced else db.DB_TXN_WRITE_NOSYNC), 1)
        environment.log_set_config(db.DB_LOG_AUTO_REMOVE, 1)
        parts = db.DB_INIT_MPOOL | db.DB_INIT_LOG | db.DB_INIT_TXN
        environment.open(folder, db.DB_CREATE | db.DB_PRIVATE | db.DB_RECOVER | parts)
        return environment

    def _logged(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """A write; in an environment, with a checkpoint if there was enough log since the last."""
        if self._environment is None:
            return write
        checkpoint = self._environment.txn_checkpoint

        def call(*record: bytes, **flags: Any) -> None:
            write(*record, **flags)
            checkpoint(CHECKPOINT_KIB)

        return call

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        value: bytes | None = self._db.get(key)
        return value

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        try:
            self._put(key, value, flags=self.api.DB_NOOVERWRITE)
        except self.api.DBKeyExistError:
            return False
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        if not self._db.exists(key):
            return False
        self._put(key, value)
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        try:
            self._delete(key)
        except self.api.DBNotFoundError:
            return False
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        if self._environment is None:
            for key, value in records:
                self._db.put(key, value)
            return
        transaction = self._environment.txn_begin()
        for key, value in records:
            self._db.put(key, value, txn=transaction)
        transaction.commit()
        self._environment.txn_checkpoint(CHECKPOINT_KIB)

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
        if self._environment is None:
            self._db.sync()
        else:
            self._environment.log_flush()

    def effective_options(self) -> dict[str, str]:
        environment, unsynced = self._environment, self.api.DB_TXN_WRITE_NOSYNC
        gigabytes, size, _parts = (environment or self._db).get_cachesize()
        flags = environment.get_flags() if environment else unsynced
        return {
            "cache_size": str((gigabytes << 30) + size),
            "page_size": str(self._db.get_pagesize()),
            "environment": "transactional" if environment else "none",
            "sync": "off" if flags & unsynced else "each write",
        }

    def close(self) -> None:
        self._db.close()
        if self._environment is not None:
            self._environment.close()
