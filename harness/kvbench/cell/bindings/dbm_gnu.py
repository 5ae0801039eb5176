"""GNU dbm by the standard library, as shipped, on the file of gdbm.c."""

import _gdbm
import dbm.gnu
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import level_rows
from kvbench.cell.bindings.mapping import Mapping

LIMIT = (2**31 - 1) // 4  # bytes, as in gdbm.c


class Open(Mapping):
    max_key = max_value = LIMIT
    default_durability = "none"  # as gdbm.c
    levels = level_rows(
        lacks={
            "*": "a kill in mid-write tears its index: records are lost even after gdbm_recover"
        },
        none="nothing is synced, as shipped",
    )

    @classmethod
    def engine_version(cls) -> str:
        module: Any = _gdbm  # dbm.gnu does not export its version
        return ".".join(map(str, module._GDBM_VERSION))

    def __init__(self, folder: Path, durability: str = "") -> None:
        del durability  # as shipped at the only level
        self._db = dbm.gnu.open(str(folder / "records.gdbm"), "c")  # noqa: SIM115

    def sync(self) -> None:
        self._db.sync()

    def effective_options(self) -> dict[str, str]:
        return {"options": "library defaults (the binding reads none back)", "sync": "off"}
