"""Files by Python's own open(), in the layout of the store `flat`, with its durability levels but
for `recoverable`."""

import os
from collections.abc import Sequence
from pathlib import Path

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.cache import sync_file_system
from kvbench.cell.contract import Capability, TooLarge

MAX_KEY, MAX_VALUE = 127, 2**32  # bytes, as in folder.h


class Open(Binding):
    """Nothing is synced: as shipped, and at `process`. Other levels have a class of their own, so
    that no call has to ask for the level."""

    capabilities = Capability(0)
    max_key, max_value = MAX_KEY, MAX_VALUE
    default_durability = "process"
    levels = level_rows(
        lacks={
            "none": "the operating system has its bytes at once",
            "recoverable": "Python has no call like sync_file_range, by which the shim orders a "
            "file's pages before its name",
        },
        process="nothing is synced, as shipped",
        sync="os.fsync of the file, and of its folder when a name came or went; syncfs for a batch",
        atomic="as sync, and each value is written to a temporary file that is then renamed",
    )
    update_by, synced = "truncate and write", "none"

    @classmethod
    def engine_version(cls) -> str:
        return os.uname().release

    def __new__(cls, folder: Path, durability: str = "") -> "Open":
        return object.__new__({"sync": Synced, "atomic": Atomic}.get(durability, cls))

    def __init__(self, folder: Path, durability: str = "") -> None:
        del durability  # the class has it
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
        return {"levels": "0", "update": self.update_by, "sync": self.synced}

    def close(self) -> None:
        pass


class Synced(Open):
    synced = "file and folder"

    def _sync_names(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            with open(f"{self._folder}/{key.hex()}", "xb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            return False
        self._sync_names()
        return True

    def update(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        try:
            with open(f"{self._folder}/{key.hex()}", "r+b") as file:
                file.truncate()
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError:
            return False
        return True

    def remove(self, key: bytes) -> bool:
        removed = super().remove(key)
        if removed:
            self._sync_names()
        return removed

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        super().write_batch(records)
        self.sync()


class Atomic(Synced):
    """os.rename() replaces what is there, so an insert looks first, which suffices with the one
    writer that kv.h allows."""

    update_by = "write and rename"

    def _put(self, key: bytes, value: bytes, there: bool) -> bool:
        """Write a record if it is `there` or not, as asked."""
        if not 0 < len(key) <= MAX_KEY or len(value) > MAX_VALUE:
            raise TooLarge
        path = f"{self._folder}/{key.hex()}"
        if os.path.exists(path) != there:
            return False
        with open(f"{path}~", "wb") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}~", path)
        self._sync_names()
        return True

    def insert(self, key: bytes, value: bytes) -> bool:
        return self._put(key, value, there=False)

    def update(self, key: bytes, value: bytes) -> bool:
        return self._put(key, value, there=True)

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Files get their names once all of a batch have reached the device."""
        self._check_batch(records)
        for key, value in records:
            with open(f"{self._folder}/{key.hex()}~", "wb") as file:
                file.write(value)
        self.sync()
        for key, _ in records:
            path = f"{self._folder}/{key.hex()}"
            os.rename(f"{path}~", path)
        self.sync()
