"""The base of the bindings whose packages offer only a persistent dict."""

from collections.abc import Sequence
from typing import Any

from kvbench.cell.bindings import Binding
from kvbench.cell.contract import Capability, TooLarge


class Mapping(Binding):
    """A binding on a dict whose keys are bytes, or what a package uses instead. No call of a dict
    refuses a duplicate or a missing key, so the methods check with `in` first."""

    capabilities = Capability(0)
    _db: Any  # the package's dict

    def get(self, key: Any) -> bytes | None:
        if not 0 < len(key) <= self.max_key:
            raise TooLarge
        try:
            return self._db[key]
        except KeyError:
            return None

    def insert(self, key: Any, value: bytes) -> bool:
        if not 0 < len(key) <= self.max_key or len(value) > self.max_value:
            raise TooLarge
        if key in self._db:
            return False
        self._db[key] = value
        return True

    def update(self, key: Any, value: bytes) -> bool:
        if not 0 < len(key) <= self.max_key or len(value) > self.max_value:
            raise TooLarge
        if key not in self._db:
            return False
        self._db[key] = value
        return True

    def remove(self, key: Any) -> bool:
        if not 0 < len(key) <= self.max_key:
            raise TooLarge
        try:
            del self._db[key]
        except KeyError:
            return False
        return True

    def write_batch(self, records: Sequence[tuple[Any, bytes]]) -> None:
        self._check_batch(records)
        for key, value in records:
            self._db[key] = value

    def close(self) -> None:
        self._db.close()
