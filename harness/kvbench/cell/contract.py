"""What kv.h says of all stores, in Python; bindings/ has the rest of it, as the class Binding.

A key is 1 to max_key bytes, a value 0 to max_value bytes; what exceeds them is TooLarge, raised
before anything is written. Anything else that goes wrong is the engine's own exception.
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
