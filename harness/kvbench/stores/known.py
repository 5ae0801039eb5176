"""A store with what decides whether a cell of it can be measured, and what the cell guarantees."""

import dataclasses
from collections.abc import Mapping

from kvbench.cell.contract import Setting
from kvbench.cell.factors import DEFAULT, WHOLE
from kvbench.cell.store import Store

# The settings of which one gives a store a capability, if it is on.
BY_SETTING = {
    "threads": ("threads", "processes"),
    "writers": ("threads", "processes"),
    "processes": ("processes",),
}


@dataclasses.dataclass(frozen=True)
class KnownStore(Store):
    """A store that the harness knows, available or not."""

    def can(self, capability: str, settings: Mapping[str, str]) -> bool:
        """Whether it has the capability, either always or by these settings."""
        given = any(settings.get(name) == "on" for name in BY_SETTING.get(capability, ()))
        # Where no crash tears an update, no reader finds half of it.
        whole = capability == "threads" and self.tears and "writers" in self.capabilities
        return (
            capability in self.capabilities
            or given
            or (whole and settings.get("durability") in WHOLE)
        )

    def lacks(self, name: str, value: str) -> str:
        """The reason why it lacks this level of a setting; empty if it has the level."""
        for setting in self.settings:
            if setting.name == name and _covers(setting, value):
                short = not setting.value and int(value) < setting.least
                return setting.lacks or (f"less than its least, {setting.least:,}" if short else "")
        return "has no such setting"

    @property
    def tears(self) -> bool:
        """Whether a crash during an update may leave neither the old nor the new value, except at
        the levels in factors.WHOLE. Such a store lists the level `atomic`, either as supported
        or as lacking."""
        levels = ((setting.name, setting.value) for setting in self.settings)
        return ("durability", "atomic") in levels

    def guarantee(self, durability: str) -> str:
        """The durability level that the store provides at a level, which may be DEFAULT."""
        return self.default_durability if durability == DEFAULT else durability

    @property
    def access(self) -> str:
        """The language that calls the store: "c" or "python"."""
        return "python" if self.binding else "c"

    @property
    def available(self) -> bool:
        """Whether the store can be used here; `reason` says why not."""
        return not self.reason


def named(label: str) -> Store:
    """The store with this full name, not yet probed: all else has its default."""
    name, _, binding = label.partition("/")
    return Store(name, binding)


def _covers(setting: Setting, value: str) -> bool:
    """Whether a row of a store's settings is about this value."""
    if not setting.value:
        return value.isascii() and value.isdecimal()
    return setting.value in (value, "*")
