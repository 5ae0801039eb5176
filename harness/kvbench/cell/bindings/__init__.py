"""The Python bindings of the engines: one module a binding, which defines `Open`.

To add one, copy a module and add its line to BINDINGS.
"""

import dataclasses
import importlib
import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import ClassVar

from kvbench.cell.contract import Capability, Session, StoreError, TooLarge


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is known of a binding before it is imported."""

    store: str  # what its engine is called in C
    distribution: str = ""  # on the Python Package Index; empty: the standard library
    advice: str = ""  # for when it can't be imported
    counterpart: bool = True  # the shim of that store calls the same engine in the same way

    def version(self) -> str:
        if not self.distribution:
            return platform.python_version()
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import

        try:
            return version(self.distribution)
        except PackageNotFoundError:  # the module is another package's of the same interface
            return "of unknown version"


NEW_DBM = sys.version_info >= (3, 13)  # whose shelf is kept by dbm.sqlite3
GNU = "Debian's Python has it by apt install python3-gdbm; build another with libgdbm-dev"

BINDINGS = {
    "null": Entry("null"),
    "io": Entry("flat"),
    "plyvel": Entry("leveldb", "plyvel"),
    "rocksdict": Entry("rocksdb", "rocksdict"),
    "python-rocksdb": Entry(
        "rocksdb",
        "python-rocksdb",
        "does not compile against RocksDB 7 or later; rocksdict is its maintained successor",
    ),
    "lmdb": Entry("lmdb", "lmdb"),
    "bsddb3": Entry("bdb", "bsddb3"),
    "berkeleydb": Entry("bdb", "berkeleydb"),
    "sqlite3": Entry("sqlite"),
    "apsw": Entry("sqlite", "apsw"),
    "diskcache": Entry("sqlite", "diskcache", counterpart=False),
    "sqlitedict": Entry("sqlite", "sqlitedict", counterpart=False),
    "dbm.gnu": Entry("gdbm", advice=GNU),
    "dbm.sqlite3": Entry("sqlite", advice="it came with Python 3.13", counterpart=False),
    "shelve": Entry("sqlite" if NEW_DBM else "gdbm", advice=GNU, counterpart=False),
}


def full_name(store: str, binding: str) -> str:
    """What a store is called where shims and bindings stand side by side."""
    return f"{store}/{binding}" if binding else store


class Binding(ABC):
    """An open store in Python; see contract.py for what its methods do.

    The methods for one record check the sizes themselves, as a shim in C does: a call for that
    would be a good part of what a fast engine takes.
    """

    capabilities: ClassVar[Capability]
    max_key: ClassVar[int]  # bytes
    max_value: ClassVar[int]  # bytes
    default_durability: ClassVar[str]  # the level that it amounts to as shipped

    @staticmethod
    @abstractmethod
    def engine_version() -> str:
        """Of the engine that the binding brought along or found."""

    @abstractmethod
    def __init__(self, folder: Path) -> None:
        """Open the store in the existing folder, as shipped; create it when the folder is empty."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None: ...

    @abstractmethod
    def insert(self, key: bytes, value: bytes) -> bool: ...

    @abstractmethod
    def update(self, key: bytes, value: bytes) -> bool: ...

    @abstractmethod
    def remove(self, key: bytes) -> bool: ...

    @abstractmethod
    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None: ...

    def _check_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        if any(not 0 < len(k) <= self.max_key or len(v) > self.max_value for k, v in records):
            raise TooLarge

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        raise NotImplementedError

    @abstractmethod
    def sync(self) -> None: ...

    def session(self) -> Session:
        """Threads share the store, unless a binding says otherwise."""
        return self

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """Nothing to give back."""

    @abstractmethod
    def effective_options(self) -> dict[str, str]: ...

    @abstractmethod
    def close(self) -> None: ...


def module_name(binding: str) -> str:
    return "kvbench.cell.bindings." + re.sub("[-.]", "_", binding)


def load(name: str) -> type[Binding]:
    """The class of a binding; an ImportError tells why there is none."""
    module = importlib.import_module(module_name(name))
    found: type[Binding] = module.Open
    return found


def open_binding(name: str, folder: Path, **options: str) -> Binding:
    for option in options:
        raise StoreError(f"unknown option '{option}'; allowed: none")
    return load(name)(folder)
