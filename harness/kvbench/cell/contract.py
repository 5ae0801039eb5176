"""The contract of kv.h that concerns all stores, in Python; the class Binding in bindings/ has the
calls.

A key has 1 to max_key bytes, a value 0 to max_value bytes. A larger one raises TooLarge before
anything is written. Every other failure raises the engine's own exception.
"""

import dataclasses
import enum


class StoreError(Exception):
    """The store failed or answered wrongly."""


class TooLarge(StoreError):  # noqa: N818 - as KV_TOO_LARGE
    """A key or value beyond the store's limits, or an empty key."""

    def __init__(self, text: str = "key or value too large") -> None:
        super().__init__(text)


class Capability(enum.IntFlag):
    """The capabilities of kv.h."""

    BATCH = 1
    SCAN = 2
    THREADS = 4
    FORGETS = 8
    WRITERS = 16
    PROCESSES = 32

    def names(self) -> tuple[str, ...]:
        return tuple(str(flag.name).lower() for flag in Capability if self & flag)


@dataclasses.dataclass(frozen=True)
class Setting:
    """A level of a setting that a store supports, or lacks with a reason; as in kv.h."""

    name: str
    value: str  # empty: any whole number from `least`; "*": any value not listed
    least: int = 0
    means: str = ""
    lacks: str = ""
