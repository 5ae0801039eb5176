"""Opens a store, in C or in Python, for one record at a time. It is for tests, and never timed."""

import ctypes
import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import Binding, open_binding
from kvbench.cell.contract import StoreError, TooLarge
from kvbench.cell.library import (
    Address,
    Constant,
    Direction,
    Mode,
    Status,
    loop_library,
    structure,
    visit_type,
)
from kvbench.cell.shim import Driver, option_array, read_effective_options, reason
from kvbench.cell.store import Store

SCAN_RECORDS = 100  # records that a scan fetches at once
FIRST_TRIED = 8192  # bytes of the first buffer; a larger value is read a second time


def make_slice(data: bytes) -> Any:
    """A struct kv_slice that refers to `data`. The caller keeps `data` alive."""
    return structure("kv_slice")(ctypes.cast(ctypes.c_char_p(data), Address), len(data))


class ShimSession:
    """A session of a store in C."""

    def __init__(self, driver: Driver, kv: Any) -> None:
        self._driver, self._kv = driver, kv

    def _done(self, status: int, refusal: Status = Status.OK) -> bool:
        """Whether the call succeeded; False if the status is the given `refusal`. Raises StoreError
        for any other status."""
        if status in (Status.OK, refusal):
            return status == Status.OK
        if status == Status.TOO_LARGE:
            raise TooLarge("key or value too large")
        raise StoreError(reason(self._driver, status))

    def _within(self, key: bytes, value: bytes = b"") -> None:
        """Raise TooLarge if a key or value exceeds the store's limits, which kv.h leaves to
        callers."""
        if not 0 < len(key) <= self._driver.max_key or len(value) > self._driver.max_value:
            raise TooLarge

    def get(self, key: bytes, capacity: int | None = None) -> bytes | None:
        """The value of a key, or None if it is missing. Raises TooLarge if the value exceeds
        `capacity` bytes; without `capacity`, any size is read."""
        self._within(key)
        room = FIRST_TRIED if capacity is None else capacity
        buffer = ctypes.create_string_buffer(max(room, 1))
        size = ctypes.c_size_t()
        status = self._driver.get(self._kv, make_slice(key), buffer, room, ctypes.byref(size))
        if capacity is None and status == Status.TOO_LARGE and size.value > room:
            return self.get(key, size.value)
        return buffer.raw[: size.value] if self._done(status, Status.NOT_FOUND) else None

    def _write(
        self,
        mode: Mode,
        records: Sequence[tuple[bytes, bytes]],
        refusal: Status = Status.OK,
    ) -> bool:
        for key, value in records:
            self._within(key, value)
        record = structure("kv_record")
        array = (record * len(records))(*(record(make_slice(k), make_slice(v)) for k, v in records))
        return self._done(self._driver.write(self._kv, mode, array, len(records)), refusal)

    def insert(self, key: bytes, value: bytes) -> bool:
        return self._write(Mode.INSERT, [(key, value)], Status.EXISTS)

    def update(self, key: bytes, value: bytes) -> bool:
        return self._write(Mode.UPDATE, [(key, value)], Status.NOT_FOUND)

    def remove(self, key: bytes) -> bool:
        return self._write(Mode.REMOVE, [(key, b"")], Status.NOT_FOUND)

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        self._write(Mode.PUT, records)

    def scan(
        self, start: bytes = b"", backwards: bool = False, at_once: int = SCAN_RECORDS
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records in the order of the keys' bytes, from the first key not less than `start`;
        backwards, from the last key not greater than `start`. The engine is asked for `at_once`
        records at a time."""
        direction = Direction.BACKWARD if backwards else Direction.FORWARD
        before = operator.gt if backwards else operator.lt
        found: list[tuple[bytes, bytes]] = []

        def visit(_context: Any, key: Any, value: Any) -> int:
            copies = [ctypes.string_at(part.data, part.size) for part in (key, value)]
            found.append((copies[0], copies[1]))
            return int(len(found) == at_once)

        callback = visit_type(structure("kv_slice"))(visit)
        seen = b""  # no key is empty
        while True:
            place = make_slice(start)
            self._done(self._driver.scan(self._kv, place, direction, callback, None))
            if found and before(found[0][0], start):
                raise StoreError(f"a scan from {start!r} begins at {found[0][0]!r}")
            yield from (record for record in found if record[0] != seen)
            if len(found) < at_once:
                return
            start = seen = found[-1][0]
            found.clear()

    def compact(self) -> bool:
        """Compact the store. Returns False if the engine has no such call."""
        return bool(self._driver.compact) and self._done(self._driver.compact(self._kv))

    def backup(self, folder: Path) -> None:
        """Copy the store into an existing empty folder."""
        self._done(self._driver.backup(self._kv, os.fsencode(folder)))

    def sync(self) -> None:
        self._done(self._driver.sync(self._kv))

    def end(self) -> None:
        if self._driver.end:
            self._done(self._driver.end(self._kv))


class OpenShim(ShimSession):
    """An open store in C."""

    def __init__(self, driver: Driver, folder: Path, **options: str) -> None:
        super().__init__(driver, Address())
        array = option_array(options)
        error = ctypes.create_string_buffer(Constant.STORE_ERROR)
        count, kv = ctypes.c_size_t(len(array)), ctypes.byref(self._kv)
        place = os.fsencode(folder)
        if loop_library().store_open(ctypes.byref(driver), place, array, count, kv, error):
            raise StoreError(error.value.decode(errors="replace"))

    def session(self) -> ShimSession:
        if not self._driver.begin:  # threads share the open store
            return ShimSession(self._driver, self._kv)
        kv = Address()
        self._done(self._driver.begin(self._kv, ctypes.byref(kv)))
        return ShimSession(self._driver, kv)

    def effective_options(self) -> dict[str, str]:
        return read_effective_options(self._driver, self._kv)

    def close(self) -> None:
        self._done(self._driver.close(self._kv))


OpenStore = Binding | OpenShim


def open_store(store: Store, folder: Path, **options: str) -> OpenStore:
    """Open a store in an existing folder of its own."""
    if store.binding:
        return open_binding(store.binding, folder, **options)
    return OpenShim(store.driver(), folder, **options)
