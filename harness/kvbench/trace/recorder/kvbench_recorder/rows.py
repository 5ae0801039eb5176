"""The rows of a trace, and the calls that they record.

A trace is a line of JSON and then rows of fixed length, which each process appends as whole blocks.
So it is complete up to the last block whenever the process ends, and processes can share it. It has
no content and no name: a key is hashed with a secret that nobody keeps.
"""

import atexit
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

# time since the beginning [ns], hash of the key, bytes of the value or records of a scan, time that
# the call took [ns] (0: not known), thread, hash of the store, bytes of the key, operation, flags
ROW = struct.Struct("<QQIIIIHBB")
LIMIT32, LIMIT16 = 2**32 - 1, 2**16 - 1
GET, PUT, REMOVE, SCAN, OPEN, BEGIN, COMMIT, ABORT, OTHER = range(1, 10)  # operations
FOUND, ALONE, FAILED = 1, 2, 4  # flags: the key was there; a write that is its own transaction
# The libraries; a row OPEN has the place of its library in this list as bytes of its value.
KINDS = (
    "files", "dbm.gnu", "dbm.ndbm", "dbm.dumb", "dbm.sqlite3", "plyvel", "lmdb", "sqlite3",
    "diskcache",
)  # fmt: skip
BLOCK = 1024  # rows that are written at once
REMEMBERED = 16_384  # keys whose hashes are kept, so that memory is bounded
PATIENCE = 1_000_000_000  # ns after which fewer rows are written
now, pack, get_ident = time.monotonic_ns, ROW.pack, threading.get_ident


class Rows:
    """Appends rows to a trace of at most `most` bytes; further ones are dropped. The file is opened
    for each block, so a program may close all descriptors."""

    def __init__(self, path: str, secret: bytes, start: int, most: int) -> None:
        self._path, self._secret, self._start, self._most = path, secret, start, most
        self._rows: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._written = now()
        self._full = False
        self._hashes: dict[bytes, int] = {}  # of keys, at most REMEMBERED
        self._process = os.getpid() << 20
        self.before_write: list[Callable[[], None]] = []  # what still has rows to add
        atexit.register(self.write)
        os.register_at_fork(before=self.write, after_in_child=self._forget)

    def hashed(self, data: bytes, size: int = 8) -> int:
        return int.from_bytes(blake2b(data, digest_size=size, key=self._secret).digest(), "little")

    def _key(self, key: bytes) -> int:
        found = self._hashes.get(key)
        if found is None:
            if len(self._hashes) >= REMEMBERED:
                self._hashes.clear()
            found = self._hashes[key] = self.hashed(key) if key else 0
        return found

    def add(
        self, operation: int, store: int, key: bytes, size: int, took: int = 0, flags: int = 0,
        at: int = 0,
    ) -> None:  # fmt: skip
        """Add a row for a call that ended at `at`, or now. It takes part of the time that recording
        adds to a call, so it calls little."""
        if self._full:
            return
        at = at or now()
        length = len(key)
        self._rows.append(
            pack(
                at - self._start,
                self._key(key),
                size if size < LIMIT32 else LIMIT32,
                took if took < LIMIT32 else LIMIT32,
                (get_ident() >> 8 ^ self._process) & LIMIT32,
                store,
                length if length < LIMIT16 else LIMIT16,
                operation,
                flags,
            )
        )
        if len(self._rows) >= BLOCK or at - self._written > PATIENCE:
            self.write()

    def write(self) -> None:
        """Append the rows that are there. A trace that cannot be written ends; the program goes
        on."""
        if not calls.writing:
            calls.writing = True
            for more in self.before_write:
                more()
            calls.writing = False
        with self._lock:
            self._written = now()
            count = len(self._rows)
            block = b"".join([self._rows.popleft() for _ in range(count)])
            if not block or self._full:
                return
            inside, calls.inside = calls.inside, True
            try:
                file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                try:
                    room = self._most - os.fstat(file).st_size
                    os.write(file, block[: max(room, 0) // ROW.size * ROW.size])
                    self._full = len(block) > room
                finally:
                    os.close(file)
            except OSError:
                self._full = True
            finally:
                calls.inside = inside

    def _forget(self) -> None:
        """In a new process: its parent writes what is there, and no thread holds the lock."""
        self._rows.clear()
        self._lock = threading.Lock()
        self._process = os.getpid() << 20


class Calls(threading.local):
    """What a thread does. `inside`: it is in a call that is recorded, or in the recorder."""

    rows: Rows  # of all threads
    inside = False
    writing = False  # it collects the last rows of a block


calls = Calls()


def call(
    operation: int, store: int, key: Any, size: int | Callable[[Any], int],
    function: Callable[..., Any], *arguments: Any, missing: object = None, flags: int = ALONE,
    **options: Any,
) -> Any:  # fmt: skip
    """Call a function of a library and add a row. `size` is the bytes of the value, or finds them
    from what the function returns. A get that returns `missing` has not found its key."""
    if calls.inside:
        return function(*arguments, **options)
    calls.inside = True
    start = now()
    try:
        found = function(*arguments, **options)
    except BaseException as error:
        end, missed = now(), isinstance(error, KeyError)
        calls.rows.add(
            operation, store, as_bytes(key), 0, end - start, 0 if missed else FAILED, end
        )
        raise
    finally:
        calls.inside = False
    end = now()
    if operation == GET:
        flags = 0 if found is missing else FOUND
    length = size if isinstance(size, int) else size(found)
    calls.rows.add(operation, store, as_bytes(key), length, end - start, flags, end)
    return found


def border(operation: int, store: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that begins or ends a transaction, or opens a store, and add a row."""
    return call(operation, store, b"", 0, function, *arguments, flags=0)


def opened(kind: str, name: object) -> int:
    """Add a row for a store that was opened, and return the store's hash. `name` is what tells it
    from others, such as its path."""
    path = (
        os.path.abspath(os.fsdecode(name)) if isinstance(name, (str, bytes, os.PathLike)) else name
    )
    store = calls.rows.hashed(f"{kind} {path}".encode("utf-8", "surrogatepass"), 4)
    if not calls.inside:
        calls.rows.add(OPEN, store, b"", KINDS.index(kind))
    return store


def as_bytes(key: Any) -> bytes:
    """A key as bytes: equal keys of a library are equal bytes."""
    if type(key) is bytes:
        return key
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    return repr(key).encode("utf-8", "surrogatepass")


def size_of(value: Any) -> int:
    """The bytes of a value, or of the columns of a row. What is usual comes first."""
    if type(value) is bytes or (type(value) is str and value.isascii()):
        return len(value)
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value))
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return memoryview(value).nbytes
    return 0 if value is None else 8
