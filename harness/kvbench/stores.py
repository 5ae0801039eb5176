"""The stores: which shims there are, what each can do, and an open one as an object."""

import ctypes
import dataclasses
import enum
import functools
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from kvbench import BadInput

ABI = 1  # of kv.h, which the structures here mirror


class Capability(enum.IntFlag):
    """As in kv.h."""

    BATCH = 1
    SCAN = 2
    THREADS = 4
    FORGETS = 8


class Slice(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Record(ctypes.Structure):
    _fields_ = (("key", Slice), ("value", Slice))


class Option(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p))


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
        ("sync", _function(_KV)),
        ("effective_options", _function(_KV, ctypes.c_char_p, ctypes.c_size_t)),
    )


def shims_folder() -> Path:
    """Where the shared objects lie: beside this file, or where KVBENCH_SHIMS says."""
    return Path(os.environ.get("KVBENCH_SHIMS") or Path(__file__).parent / "shims")


def build_facts() -> dict[str, str]:
    """From which revision, and by which compiler, the shims were built."""
    facts: dict[str, str] = json.loads((shims_folder() / "build.json").read_text())
    return facts


@functools.cache
def loop_library() -> ctypes.CDLL:
    """The functions of bench.h and records.h."""
    library = ctypes.CDLL(str(shims_folder() / "libbench.so"))
    library.bench_driver.restype = ctypes.POINTER(Driver)
    return library


@dataclasses.dataclass(frozen=True)
class Store:
    """A store that the harness knows, available or not."""

    name: str
    reason: str = ""  # why it is not available
    version: str = ""  # of the engine
    capabilities: tuple[str, ...] = ()
    max_key: int = 0  # bytes
    max_value: int = 0  # bytes

    @property
    def available(self) -> bool:
        return not self.reason

    @property
    def path(self) -> Path:
        return shims_folder() / f"{self.name}.so"

    def driver(self) -> Driver:
        error = ctypes.create_string_buffer(1024)
        path, capacity = os.fsencode(self.path), ctypes.c_size_t(len(error))
        pointer = loop_library().bench_driver(path, error, capacity)
        if not pointer:
            raise OSError(error.value.decode(errors="replace"))
        driver: Driver = pointer.contents
        return driver

    @classmethod
    def probe(cls, name: str, reason: str) -> Self:
        """Load the shim and ask it what it is."""
        if reason:
            return cls(name, reason)
        try:
            driver = cls(name).driver()
        except OSError as error:
            return cls(name, str(error))
        return cls(
            name,
            version=driver.version().decode(),
            capabilities=tuple(
                str(flag.name).lower() for flag in Capability if driver.capabilities & flag
            ),
            max_key=driver.max_key,
            max_value=driver.max_value,
        )


def known() -> dict[str, Store]:
    """All stores by name, those of the build first, then any other shim in the folder."""
    folder = shims_folder()
    try:
        report: dict[str, str] = json.loads((folder / "stores.json").read_text())
    except OSError as error:
        raise BadInput(f"{folder}: no shims here: {error.strerror}; build them first") from None
    for path in sorted(folder.glob("*.so")):
        if path.name != "libbench.so":
            report.setdefault(path.stem, "")
    return {name: Store.probe(name, reason) for name, reason in report.items()}


@functools.cache  # a sweep asks for it once or twice a cell
def checksum(store: Store) -> str:
    """Of the code that measures a store: its shim, the timed loop, and what drives it."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    code = [here / f"{name}.py" for name in ("histogram", "loop", "meter", "plan", "worker")]
    for path in (shims_folder() / "libbench.so", store.path, *code):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


class StoreError(Exception):
    """The store failed or answered wrongly."""


class Status(enum.IntEnum):
    """As in kv.h."""

    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    TOO_LARGE = 3
    ERROR = 4


def _slice(data: bytes) -> Slice:
    """A view of `data`, which the caller keeps alive."""
    return Slice(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))


class Session:
    """A thread's way to an open store. Operations return the status; get the value as well."""

    def __init__(self, driver: Driver, kv: Any) -> None:
        self.driver, self.kv = driver, kv

    def _must(self, status: int) -> None:
        if status != Status.OK:
            error = self.driver.error().decode(errors="replace")
            raise StoreError(error if status == Status.ERROR else Status(status).name)

    def end(self) -> None:
        if self.driver.end:
            self._must(self.driver.end(self.kv))

    def get(self, key: bytes, capacity: int = 2 << 20) -> tuple[Status, bytes]:
        buffer = ctypes.create_string_buffer(max(capacity, 1))
        size = ctypes.c_size_t()
        status = self.driver.get(self.kv, _slice(key), buffer, capacity, ctypes.byref(size))
        return Status(status), buffer.raw[: size.value] if status == Status.OK else b""

    def insert(self, key: bytes, value: bytes) -> Status:
        return Status(self.driver.insert(self.kv, _slice(key), _slice(value)))

    def update(self, key: bytes, value: bytes) -> Status:
        return Status(self.driver.update(self.kv, _slice(key), _slice(value)))

    def remove(self, key: bytes) -> Status:
        return Status(self.driver.remove(self.kv, _slice(key)))

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> Status:
        array = (Record * len(records))(*(Record(_slice(k), _slice(v)) for k, v in records))
        return Status(self.driver.write_batch(self.kv, array, len(records)))

    def sync(self) -> Status:
        return Status(self.driver.sync(self.kv))

    def scan(self, start: bytes = b"", limit: int | None = None) -> list[tuple[bytes, bytes]]:
        """The records from the first key that is not less than `start`, at most `limit`."""
        found: list[tuple[bytes, bytes]] = []

        def visit(_context: Any, key: Slice, value: Slice) -> int:
            copies = [ctypes.string_at(part.data, part.size) for part in (key, value)]
            found.append((copies[0], copies[1]))
            return int(len(found) == limit)

        self._must(self.driver.scan(self.kv, _slice(start), _VISIT(visit), None))
        return found

    def effective_options(self) -> dict[str, str]:
        text = ctypes.create_string_buffer(4096)
        self._must(self.driver.effective_options(self.kv, text, len(text)))
        return dict(line.split("=", 1) for line in text.value.decode().splitlines())


class OpenStore(Session):
    """A store, one record at a time through the contract itself: for tests and a look around."""

    def __init__(self, store: Store, folder: Path, **options: str) -> None:
        super().__init__(store.driver(), _KV())
        pairs = [Option(name.encode(), value.encode()) for name, value in options.items()]
        array = (Option * len(pairs))(*pairs)
        kv = ctypes.byref(self.kv)
        self._must(self.driver.open(os.fsencode(folder), array, len(pairs), kv))

    def close(self) -> None:
        self._must(self.driver.close(self.kv))

    def session(self) -> Session:
        """For one more thread; where the threads share the store, that is the store itself."""
        if not self.driver.begin:
            return Session(self.driver, self.kv)
        kv = _KV()
        self._must(self.driver.begin(self.kv, ctypes.byref(kv)))
        return Session(self.driver, kv)
