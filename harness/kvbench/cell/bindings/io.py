"""Files by Python's own open(), in the layout of the store `flat`."""

import os
from collections.abc import Sequence
from pathlib import Path

from kvbench.cell.bindings import Binding
from kvbench.cell.cache import sync_file_system
from kvbench.cell.contract import Capability, TooLarge

MAX_KEY, MAX_VALUE = 127, 2**32  # bytes, as in folder.h


class Open(Binding):
    capabilities = Capability(0)
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"

    @classmethod
    def engine_version(cls) -> str:
        return os.uname().release

    def __init__(self, folder: Path) -> None:
        self._folder = os.fspath(folder)

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        try:
            with open(f"{self._folder}/{key.hex()}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            with open(f"{self._folder}/{key.hex()}", "xb") as file:
                file.write(value)
        except FileExistsError:
            return False
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            with open(f"{self._folder}/{key.hex()}", "r+b") as file:
                file.truncate()
                file.write(value)
        except FileNotFoundError:
            return False
        return True

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY:
            raise TooLarge
        try:
            os.unlink(f"{self._folder}/{key.hex()}")
        except FileNotFoundError:
            return False
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._check_batch(records)
        for key, value in records:
            with open(f"{self._folder}/{key.hex()}", "wb") as file:
                file.write(value)

    def sync(self) -> None:
        sync_file_system(Path(self._folder))

    def effective_options(self) -> dict[str, str]:
        return {"levels": "0", "update": "truncate and write", "sync": "none"}

    def close(self) -> None:
        pass
