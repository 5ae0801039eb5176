"""The shelf of the standard library, as shipped: it pickles each value and stores it with the
interpreter's preferred dbm, dbm.sqlite3 or dbm.gnu. Its keys are of type str."""

import dbm
import pickle
import shelve
import sys
from collections.abc import Sequence
from pathlib import Path

from kvbench.cell.bindings.mapping import Mapping

if sys.version_info >= (3, 13):
    from kvbench.cell.bindings.dbm_sqlite3 import Open as Dbm
else:
    from kvbench.cell.bindings.dbm_gnu import Open as Dbm

TEXT = "latin-1"  # one character per byte; the shelf stores each as one or two bytes of UTF-8


class Open(Mapping):
    max_key, max_value = 500_000, 500_000_000  # bytes: room for UTF-8 and what pickle adds
    default_durability = Dbm.default_durability
    levels = Dbm.levels  # a shelf passes no more on than how to open the file
    engine_version = Dbm.engine_version

    def __init__(self, folder: Path, durability: str = "") -> None:
        del durability  # as shipped at the only level
        self._file = str(folder / "records.shelf")
        self._db = shelve.open(self._file)  # noqa: SIM115

    def get(self, key: bytes) -> bytes | None:
        return super().get(key.decode(TEXT))

    def insert(self, key: bytes, value: bytes) -> bool:
        return super().insert(key.decode(TEXT), value)

    def update(self, key: bytes, value: bytes) -> bool:
        return super().update(key.decode(TEXT), value)

    def remove(self, key: bytes) -> bool:
        return super().remove(key.decode(TEXT))

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        super().write_batch([(key.decode(TEXT), value) for key, value in records])

    def sync(self) -> None:
        self._db.sync()

    def effective_options(self) -> dict[str, str]:
        return {
            "dbm": dbm.whichdb(self._file) or "unknown",
            "pickle_protocol": str(pickle.DEFAULT_PROTOCOL),
        }
