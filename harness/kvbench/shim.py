"""A store in C through ctypes: the structures of kv.h, and an open store after contract.py.

The timed loop does not come this way; see loop.py.
"""

import ctypes
import enum
import itertools
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvbench.contract import Setting, StoreError, TooLarge

ABI = 3  # of kv.h
SCAN_RECORDS = 100  # that a scan fetches at once
FIRST_TRIED = 8192  # bytes of a value; who has more is asked again


class Status(enum.IntEnum):
    """As in kv.h."""

    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    TOO_LARGE = 3
    ERROR = 4


class Slice(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Record(ctypes.Structure):
    _fields_ = (("key", Slice), ("value", Slice))


class Option(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p))


class SettingStruct(ctypes.Structure):
    """struct kv_setting"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("value", ctypes.c_char_p),
        ("least", ctypes.c_uint64),
        ("means", ctypes.c_char_p),
        ("lacks", ctypes.c_char_p),
    )


_KV = ctypes.c_void_p
_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Slice, Slice)


def _function(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)


class Driver(ctypes.Structure):
    """struct kv_driver"""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("capabilities", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("max_key", ctypes.c_uint64),
        ("max_value", ctypes.c_uint64),
        ("settings", ctypes.POINTER(SettingStruct)),
        ("default_durability", ctypes.c_char_p),
        ("version", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        (
            "open",
            _function(
                ctypes.c_char_p, ctypes.POINTER(Option), ctypes.c_size_t, ctypes.POINTER(_KV)
            ),
        ),
        ("close", _function(_KV)),
        ("begin", _function(_KV, ctypes.POINTER(_KV))),
        ("end", _function(_KV)),
        (
            "get",
            _function(
                _KV, Slice, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)
            ),
        ),
        ("insert", _function(_KV, Slice, Slice)),
        ("update", _function(_KV, Slice, Slice)),
        ("remove", _function(_KV, Slice)),
        ("write_batch", _function(_KV, ctypes.POINTER(Record), ctypes.c_size_t)),
        ("scan", _function(_KV, Slice, _VISIT, ctypes.c_void_p)),
        ("scan_back", _function(_KV, Slice, _VISIT, ctypes.c_void_p)),
        ("compact", _function(_KV)),
        ("sync", _function(_KV)),
        ("effective_options", _function(_KV, ctypes.c_char_p, ctypes.c_size_t)),
    )


def _slice(data: bytes) -> Slice:
    """A view of `data`, which the caller keeps alive."""
    return Slice(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))


def option_array(options: Mapping[str, str]) -> Any:
    """As the array of struct kv_option that open takes."""
    pairs = [Option(name.encode(), value.encode()) for name, value in options.items()]
    return (Option * len(pairs))(*pairs)


def read_settings(driver: Driver) -> tuple[Setting, ...]:
    found = []
    for setting in itertools.takewhile(lambda setting: setting.name, driver.settings):
        name, value, means, lacks = (
            (text or b"").decode()
            for text in (setting.name, setting.value, setting.means, setting.lacks)
        )
        found.append(Setting(name, value, setting.least, means, lacks))
    return tuple(found)


def read_effective_options(driver: Driver, kv: Any) -> dict[str, str]:
    text = ctypes.create_string_buffer(4096)
    if driver.effective_options(kv, text, len(text)) != Status.OK:
        raise StoreError(driver.error().decode(errors="replace"))
    return dict(line.split("=", 1) for line in text.value.decode().splitlines())


class ShimSession:
    """A session of a store in C."""

    def __init__(self, driver: Driver, kv: Any) -> None:
        self._driver, self._kv = driver, kv

    def _done(self, status: int, refusal: Status = Status.OK) -> bool:
        """Whether it was done; False when the status is the given refusal."""
        if status in (Status.OK, refusal):
            return status == Status.OK
        if status == Status.TOO_LARGE:
            raise TooLarge("key or value too large")
        error = self._driver.error().decode(errors="replace")
        raise StoreError(error if status == Status.ERROR else Status(status).name)

    def get(self, key: bytes, capacity: int | None = None) -> bytes | None:
        """A value of more than `capacity` bytes is TooLarge; without it, any size will do."""
        room = FIRST_TRIED if capacity is None else capacity
        buffer = ctypes.create_string_buffer(max(room, 1))
        size = ctypes.c_size_t()
        status = self._driver.get(self._kv, _slice(key), buffer, room, ctypes.byref(size))
        if capacity is None and status == Status.TOO_LARGE and size.value > room:
            return self.get(key, size.value)
        return buffer.raw[: size.value] if self._done(status, Status.NOT_FOUND) else None

    def insert(self, key: bytes, value: bytes) -> bool:
        status = self._driver.insert(self._kv, _slice(key), _slice(value))
        return self._done(status, Status.EXISTS)

    def update(self, key: bytes, value: bytes) -> bool:
        status = self._driver.update(self._kv, _slice(key), _slice(value))
        return self._done(status, Status.NOT_FOUND)

    def remove(self, key: bytes) -> bool:
        return self._done(self._driver.remove(self._kv, _slice(key)), Status.NOT_FOUND)

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        array = (Record * len(records))(*(Record(_slice(k), _slice(v)) for k, v in records))
        self._done(self._driver.write_batch(self._kv, array, len(records)))

    def scan(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        yield from self._walk("scan", operator.lt, start)

    def scan_back(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records from the last key not greater than `start`, in falling order."""
        yield from self._walk("scan_back", operator.gt, start)

    def _walk(
        self, name: str, before: Callable[[bytes, bytes], bool], start: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records that the function `name` visits; none has a key `before` the start."""
        function = getattr(self._driver, name)
        found: list[tuple[bytes, bytes]] = []

        def visit(_context: Any, key: Slice, value: Slice) -> int:
            copies = [ctypes.string_at(part.data, part.size) for part in (key, value)]
            found.append((copies[0], copies[1]))
            return int(len(found) == SCAN_RECORDS)

        callback, seen = _VISIT(visit), b""  # the empty key is none
        while True:
            self._done(function(self._kv, _slice(start), callback, None))
            if found and before(found[0][0], start):
                raise StoreError(f"{name} from {start!r} begins at {found[0][0]!r}")
            yield from (record for record in found if record[0] != seen)
            if len(found) < SCAN_RECORDS:
                return
            start = seen = found[-1][0]
            found.clear()

    def compact(self) -> bool:
        """False when the engine has no such call."""
        return bool(self._driver.compact) and self._done(self._driver.compact(self._kv))

    def sync(self) -> None:
        self._done(self._driver.sync(self._kv))

    def end(self) -> None:
        if self._driver.end:
            self._done(self._driver.end(self._kv))


class OpenShim(ShimSession):
    """An open store in C, one record at a time: for tests and a look around."""

    def __init__(self, driver: Driver, folder: Path, **options: str) -> None:
        super().__init__(driver, _KV())
        array = option_array(options)
        kv = ctypes.byref(self._kv)
        self._done(driver.open(os.fsencode(folder), array, len(array), kv))

    def session(self) -> ShimSession:
        if not self._driver.begin:  # the threads share the store
            return ShimSession(self._driver, self._kv)
        kv = _KV()
        self._done(self._driver.begin(self._kv, ctypes.byref(kv)))
        return ShimSession(self._driver, kv)

    def effective_options(self) -> dict[str, str]:
        return read_effective_options(self._driver, self._kv)

    def close(self) -> None:
        self._done(self._driver.close(self._kv))
