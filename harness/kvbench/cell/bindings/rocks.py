"""The base of the bindings of RocksDB: its limits, and its version and options, read from the files
that RocksDB writes into a store's folder, because the bindings cannot query them."""

import os
import tempfile
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.contract import Capability, TooLarge
from kvbench.common.files import PROBES

MAX_KEY, MAX_VALUE = 8 << 20, 2**31 - 1  # bytes, as in rocksdb.c
WANTED = (
    "write_buffer_size",
    "max_write_buffer_number",
    "max_background_jobs",
    "compression",
    "use_fsync",
)


def read_options(folder: Path) -> dict[str, str]:
    """All settings in the newest OPTIONS file of a store's folder; those of column families are the
    first family's."""
    newest = max(folder.glob("OPTIONS-*"))
    settings: dict[str, str] = {}
    for line in newest.read_text().splitlines():
        name, sign, value = line.partition("=")
        if sign:
            settings.setdefault(name.strip(), value.strip())
    return settings


class RocksDB(Binding):
    capabilities = Capability.BATCH | Capability.SCAN | Capability.THREADS
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"
    levels = level_rows(
        lacks={"*": "its writes are atomic at every level"},
        none="write option disable_wal",
        process="the log is written, not synced, as shipped",
        recoverable="the log is written, not synced, as at process",
        sync="write option sync",
    )
    _folder: Path
    _db: Any  # the binding's database
    _durability: str

    @classmethod
    def engine_version(cls) -> str:
        """The version that RocksDB writes into a store created to find it."""
        with tempfile.TemporaryDirectory(prefix=f"{PROBES}{os.getpid()}-") as folder:
            cls(Path(folder)).close()
            return read_options(Path(folder))["rocksdb_version"]

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        return self._db.get(key)

    def effective_options(self) -> dict[str, str]:
        """The settings in force, with the names that rocksdb.c uses."""
        settings = read_options(self._folder)
        found = {name: settings[name] for name in WANTED if name in settings}
        found["compression"] = found["compression"][1:].removesuffix("Compression").lower()
        found["use_fsync"] = str(int(found["use_fsync"] == "true"))
        wal = "off" if self._durability == "none" else "on"
        return found | {"wal": wal, "sync": "each write" if self._durability == "sync" else "off"}
