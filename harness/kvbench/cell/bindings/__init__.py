"""The Python bindings of the engines: one module a binding, which defines `Open`.

A binding sets a durability level as the shim of its engine does, where its package can. To add a
binding, copy a module and add its line to BINDINGS in stores/bindings.py.
"""

import functools
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from kvbench.cell.contract import Capability, Setting, StoreError, TooLarge

OTHERS = tuple(  # the settings that no binding changes
    Setting(name, "*", lacks="Python packages are measured with their own default")
    for name in ("memory", "compression")
)


def full_name(store: str, binding: str) -> str:
    """The name of a store in tables that list shims and bindings together: "store/binding", or the
    store alone if it is a shim."""
    return f"{store}/{binding}" if binding else store


class Binding(ABC):
    """An open store in Python, with the contract of kv.h. Every error but TooLarge is the engine's
    own.

    The methods for one record check the sizes themselves: calling a function for the check would
    add a large part of a fast engine's time.
    """

    capabilities: ClassVar[Capability]
    max_key: ClassVar[int]  # bytes
    max_value: ClassVar[int]  # bytes
    default_durability: ClassVar[str]  # what the engine guarantees as shipped
    levels: ClassVar[tuple[Setting, ...]]  # the durability levels, as in kv.h

    @classmethod
    @abstractmethod
    def engine_version(cls) -> str:
        """The version of the engine that the binding contains or has found."""

    @abstractmethod
    def __init__(self, folder: Path, durability: str = "") -> None:
        """Open the store in the existing folder at a durability level, or as shipped; create it
        when the folder is empty. What the level changes is chosen here, not in each call."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value; None when the key is missing."""

    @abstractmethod
    def insert(self, key: bytes, value: bytes) -> bool:
        """Insert a record. Returns False, and changes nothing, if the key exists."""

    @abstractmethod
    def update(self, key: bytes, value: bytes) -> bool:
        """Replace a value. Returns False, and changes nothing, if the key is missing."""

    @abstractmethod
    def remove(self, key: bytes) -> bool:
        """Remove a record. Returns False if the key is missing."""

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
        """Return when all earlier writes would survive a power failure, as far as the engine and
        the file system guarantee that."""

    def session(self) -> Self:
        """A session for one more thread. Threads share the store unless a binding overrides
        this."""
        return self

    def end(self) -> None:  # noqa: B027 - most have nothing to do
        """Give a session back."""

    @abstractmethod
    def effective_options(self) -> dict[str, str]:
        """The settings in force, read back from the engine where it reports them."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, so that it can be opened again in its folder."""


def load(name: str) -> type[Binding]:
    """Import a binding and return its class. Raises ImportError, which states the reason."""
    module = importlib.import_module(f"kvbench.cell.bindings.{re.sub('[-.]', '_', name)}")
    found: type[Binding] = module.Open
    return found


def level_rows(*, lacks: dict[str, str], **means: str) -> tuple[Setting, ...]:
    """The durability levels that a binding sets, with what it sets, and those that it `lacks`."""
    return (
        *(Setting("durability", level, means=text) for level, text in means.items()),
        *(Setting("durability", level, lacks=why) for level, why in lacks.items()),
    )


def settings(binding: type[Binding]) -> tuple[Setting, ...]:
    return (*binding.levels, *OTHERS)


def open_binding(name: str, folder: Path, **options: str) -> Binding:
    """Open a store. Refuses options as store.c does."""
    binding = load(name)
    for option, value in options.items():
        rows = [setting for setting in settings(binding) if setting.name == option]
        allowed = [setting.value for setting in rows if setting.means]
        if not rows:
            raise StoreError(f"unknown option '{option}'")
        if value not in allowed:
            which = " ".join(allowed) or "none"
            raise StoreError(f"option {option}: '{value}' is not allowed; allowed: {which}")
    return binding(folder, **options)


def fixed(call: Any, **options: object) -> Any:
    """A call with these options; without options the call itself."""
    return functools.partial(call, **options) if options else call
