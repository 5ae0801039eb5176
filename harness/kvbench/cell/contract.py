"""The contract of a store in Python: what kv.h says in C, and what every binding offers alike.

A key is 1 to max_key bytes, a value 0 to max_value bytes; what exceeds them is TooLarge, raised
before anything is written. Anything else that goes wrong is the engine's own exception.
"""

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Protocol


class StoreError(Exception):
    """The store failed or answered wrongly."""


class TooLarge(StoreError):  # noqa: N818 - as KV_TOO_LARGE
    """A key or value beyond the store's limits, or an empty key."""

    def __init__(self, text: str = "key or value too large") -> None:
        super().__init__(text)


class Capability(enum.IntFlag):
    """As in kv.h."""

    BATCH = 1
    SCAN = 2
    THREADS = 4
    FORGETS = 8
    WRITERS = 16

    def names(self) -> tuple[str, ...]:
        return tuple(str(flag.name).lower() for flag in Capability if self & flag)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting that a store has, or a level of one that it lacks; as in kv.h."""

    name: str
    value: str  # empty: any whole number from `least`; "*": any that is not named
    least: int
    means: str
    lacks: str

    def covers(self, value: str) -> bool:
        if not self.value:
            return value.isascii() and value.isdecimal()
        return self.value in (value, "*")


class Session(Protocol):
    """A thread's way to an open store."""

    def get(self, key: bytes) -> bytes | None:
        """The value; None when the key is missing."""

    def insert(self, key: bytes, value: bytes) -> bool:
        """False when the key exists; then nothing changes."""

    def update(self, key: bytes, value: bytes) -> bool:
        """False when the key is missing; then nothing changes."""

    def remove(self, key: bytes) -> bool:
        """False when the key is missing."""

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Store all records, whether their keys exist or not; no two of them have the same key."""

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The records from the first key not less than `start`, in the order of the keys' bytes."""

    def sync(self) -> None:
        """Return when all that was written before would survive a loss of power, as far as the
        engine and the file system promise."""

    def end(self) -> None:
        """Give the session back."""


class OpenStore(Session, Protocol):
    """An open store; itself the session of the thread that opened it."""

    def session(self) -> Session:
        """For one more thread."""

    def effective_options(self) -> dict[str, str]:
        """The settings in force, read back from the engine where it can tell."""

    def close(self) -> None:
        """Close it; it can be opened again in its folder."""
