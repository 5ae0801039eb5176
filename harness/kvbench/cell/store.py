"""A store as a worker sees it: its name, its capabilities, and how to load it."""

import dataclasses
import functools
from pathlib import Path

from kvbench.cell.bindings import full_name
from kvbench.cell.contract import Capability, Setting, StoreError
from kvbench.cell.library import shims_folder
from kvbench.cell.shim import Driver, load_driver, read_settings

OPTIONAL = ("compact", "backup")  # functions of kv.h that count as capabilities


@dataclasses.dataclass(frozen=True)
class Store:
    """A store that the harness knows, available or not."""

    name: str
    binding: str = ""  # empty: the shim in C
    reason: str = ""  # why it is not available
    version: str = ""  # of the engine
    binding_version: str = ""
    capabilities: tuple[str, ...] = ()
    max_key: int = 0  # bytes
    max_value: int = 0  # bytes
    settings: tuple[Setting, ...] = ()
    default_durability: str = ""

    @property
    def full_name(self) -> str:
        return full_name(self.name, self.binding)

    @property
    def path(self) -> Path:
        """The path of the shim."""
        return shims_folder() / f"{self.name}.so"

    def driver(self) -> Driver:
        """Load the shim, and return its driver. Raises StoreError if the driver differs from what
        the shim declared when it was probed."""
        driver = load_driver(self.path)
        if self.version and (changed := _difference(self, declared(self.path))):
            raise StoreError(f"its declaration has changed since it was probed: {changed}")
        return driver


@functools.cache  # a store may be opened a hundred times
def declared(path: Path) -> Store:
    """Load a shim, and return what it declares. Raises OSError if it cannot be loaded."""
    driver = load_driver(path)
    return Store(
        path.stem,
        version=driver.version().decode(),
        capabilities=Capability(driver.capabilities).names()
        + tuple(name for name in OPTIONAL if getattr(driver, name)),
        max_key=driver.max_key,
        max_value=driver.max_value,
        settings=read_settings(driver),
        default_durability=driver.default_durability.decode(),
    )


def _difference(asked: Store, found: Store) -> str:
    """The first field in which two declarations differ, in words; empty if they agree."""
    for field in dataclasses.fields(Store):
        before, now = getattr(asked, field.name), getattr(found, field.name)
        if before != now:
            return f"{field.name} {now!r:.80}, then {before!r:.80}"
    return ""
