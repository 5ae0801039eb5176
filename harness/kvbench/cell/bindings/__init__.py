"""The Python bindings of the engines: one module a binding, which defines `Open`.

To add one, copy a module and add its line to BINDINGS in stores/bindings.py.
"""

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import ClassVar, Self

from kvbench.cell.contract import Capability, StoreError, TooLarge


def full_name(store: str, binding: str) -> str:
    """What a store is called where shims and bindings stand side by side."""
    return f"{store}/{binding}" if binding else store


class Binding(ABC):
    """An open store in Python: what kv.h says in C. Any error but TooLarge is the engine's own.

    The methods for one record check the sizes themselves, as a shim in C does: a call for that
    would be a good part of what a fast engine takes.
    """

    capabilities: ClassVar[Capability]
    max_key: ClassVar[int]  # bytes
    max_value: ClassVar[int]  # bytes
    default_durability: ClassVar[str]  # the level that it amounts to as shipped

    @classmethod
    @abstractmethod
    def engine_version(cls) -> str:
        """Of the engine that the binding brought along or found."""

    @abstractmethod
    def __init__(self, folder: Path) -> None:
        """Open the store in the existing folder, as shipped; create it when the folder is empty."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value; None when the key is missing."""

    @abstractmethod
    def insert(self, key: bytes, value: bytes) -> bool:
        """False when the key exists; then nothing changes."""

    @abstractmethod
    def update(self, key: bytes, value: bytes) -> bool:
        """False when the key is missing; then nothing changes."""

    @abstractmethod
    def remove(self, key: bytes) -> bool:
        """False when the key is missing."""

    @abstractmethod
    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Store all records, whether their keys exist or not; no two of them have the same key."""

    def _check_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        if any(not 0 < len(k) <= self.max_key or len(v) > self.max_value for k, v in records):
            raise TooLarge

    def scan(self, start: bytes = b"") -> Generator[tuple[bytes, bytes], None, None]:
        """The records from the first key not less than `start`, in the order of the keys' bytes."""
        raise NotImplementedError

    @abstractmethod
    def sync(self) -> None:
        """Return when all that was written before would survive a loss of power, as far as the
        engine and the file system promise."""

    def session(self) -> Self:
        """For one more thread. Threads share the store, unless a binding says otherwise."""
        return self

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """Give a session back."""

    @abstractmethod
    def effective_options(self) -> dict[str, str]:
        """The settings in force, read back from the engine where it can tell."""

    @abstractmethod
    def close(self) -> None:
        """Close it; it can be opened again in its folder."""


def load(name: str) -> type[Binding]:
    """The class of a binding; an ImportError tells why there is none."""
    module = importlib.import_module(f"kvbench.cell.bindings.{re.sub('[-.]', '_', name)}")
    found: type[Binding] = module.Open
    return found


def open_binding(name: str, folder: Path, **options: str) -> Binding:
    for option in options:
        raise StoreError(f"unknown option '{option}'; allowed: none")
    return load(name)(folder)
