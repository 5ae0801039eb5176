"""A store as a worker sees it: what it is called, what it can do, and how it is loaded."""

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
        """Whether it has the capability, by itself or, of threads, by a setting of that name."""
        threaded = settings.get("threads") == "on" and capability in ("threads", "writers")
        return capability in self.capabilities or threaded

    def lacks(self, name: str, value: str) -> str:
        """Why it has no such level of a setting; empty when it has."""
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
        """Whether a crash in an update may leave neither value, at levels other than `atomic`. Its
        shim then names that level, be it as one that it lacks."""
        return any((own.name, own.value) == ("durability", "atomic") for own in self.settings)

    def guarantee(self, durability: str) -> str:
        """The level that a level of durability, perhaps as shipped, amounts to."""
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
        """Of the shim."""
        return shims_folder() / f"{self.name}.so"

    def driver(self) -> Driver:
        """What the shim declared when this process loaded it. A StoreError if that is not what it
        declared when it was asked what it is, if it was."""
        driver = load_driver(self.path)
        if self.version and (changed := _difference(self, declared(self.path))):
            raise StoreError(f"it declares something else than when it was asked: {changed}")
        return driver


def named(label: str) -> Store:
    """A store by its full name. It has not been asked what it is."""
    name, _, binding = label.partition("/")
    return Store(name, binding)


@functools.cache  # a store may be opened a hundred times
def declared(path: Path) -> Store:
    """What a shim declares. An OSError says why it can't be loaded."""
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
    """The first thing that two declarations say differently; empty if there is none."""
    for field in dataclasses.fields(Store):
        before, now = getattr(asked, field.name), getattr(found, field.name)
        if before != now:
            return f"{field.name} {now!r:.80}, then {before!r:.80}"
    return ""
