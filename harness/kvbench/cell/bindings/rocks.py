"""What the bindings of RocksDB share: its limits, and what it writes down of itself in a store's
folder, since they can't ask it."""

import os
import tempfile
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import Binding
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
    """All settings in the newest OPTIONS file; of column families the first one's."""
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
    _folder: Path
    _db: Any  # the binding's database

    @classmethod
    def engine_version(cls) -> str:
        """From a store made for that."""
        with tempfile.TemporaryDirectory(prefix=f"{PROBES}{os.getpid()}-") as folder:
            cls(Path(folder)).close()
            return read_options(Path(folder))["rocksdb_version"]

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        return self._db.get(key)

    def effective_options(self) -> dict[str, str]:
        """In the notation of rocksdb.c."""
        settings = read_options(self._folder)
        found = {name: settings[name] for name in WANTED if name in settings}
        found["compression"] = found["compression"][1:].removesuffix("Compression").lower()
        found["use_fsync"] = str(int(found["use_fsync"] == "true"))
        return found | {"sync": "off"}
