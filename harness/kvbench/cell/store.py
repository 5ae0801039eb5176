"""A store as a worker sees it: its name, its capabilities, and how to load it."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from kvbench.cell.bindings import full_name
from kvbench.cell.contract import Capability, Setting, StoreError
from kvbench.cell.factors import DEFAULT
from kvbench.cell.library import shims_folder
from kvbench.cell.shim import Driver, load_driver, read_settings


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

    def can(self, capability: str, settings: Mapping[str, str]) -> bool:
        """Whether it has the capability, either always or by the setting "threads"."""
        threaded = settings.get("threads") == "on" and capability in ("threads", "writers")
        return capability in self.capabilities or threaded

    def lacks(self, name: str, value: str) -> str:
        """The reason why it lacks this level of a setting; empty if it has the level."""
        if self.binding:
            return f"{self.binding} is measured as shipped"
        own = [setting for setting in self.settings if setting.name == name]
        for setting in own:
            if setting.covers(value):
                short = not setting.value and int(value) < setting.least
                return setting.lacks or (f"less than its least, {setting.least:,}" if short else "")
        return "has no such setting"

    @property
    def tears(self) -> bool:
        """Whether a crash during an update may leave neither the old nor the new value, except at
        the levels in factors.WHOLE. The shim of such a store lists the level `atomic`, either as
        supported or as lacking."""
        return any((own.name, own.value) == ("durability", "atomic") for own in self.settings)

    def guarantee(self, durability: str) -> str:
        """The durability level that the store provides at a level, which may be DEFAULT."""
        return self.default_durability if durability == DEFAULT else durability

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def full_name(self) -> str:
        return full_name(self.name, self.binding)

    @property
    def available(self) -> bool:
        return not self.reason

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


def named(label: str) -> Store:
    """The store with this full name, not yet probed: all else has its default."""
    name, _, binding = label.partition("/")
    return Store(name, binding)


@functools.cache  # a store may be opened a hundred times
def declared(path: Path) -> Store:
    """Load a shim, and return what it declares. Raises OSError if it cannot be loaded."""
    driver = load_driver(path)
    return Store(
        path.stem,
        version=driver.version().decode(),
        capabilities=Capability(driver.capabilities).names() + ("compact",) * bool(driver.compact),
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
