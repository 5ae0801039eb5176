"""Runs an open store in a separate process, which can be killed at any moment."""

import contextlib
import ctypes
import functools
import itertools
import marshal
import os
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import load
from kvbench.cell.contract import StoreError, TooLarge
from kvbench.cell.store import Store
from kvbench.common.processes import die_with_parent
from kvbench.stores.opened import OpenShim, OpenStore, open_store

LARGEST = 100_000  # bytes of a value
PATIENCE = 20  # seconds: after a kill, an engine may wait for ever
FORK = get_context("fork")

Record = tuple[bytes, bytes]
Step = tuple[Any, ...]  # the name of a method of Served, and its arguments


class Died(StoreError):  # noqa: N818 - what happened, not what went wrong
    """The child process has ended."""


class Child:
    """Runs one child process at a time, forked from this process, which may open a store only in
    `_prepare`."""

    def __init__(self, store: Store, options: dict[str, str]) -> None:
        def open_it(folder: Path) -> OpenStore:
            return open_store(store, folder, **options)

        self._open = open_it
        _prepare(store, self._open)

    def start(self, folder: Path) -> None:
        self._pipe, theirs = Pipe()
        arguments = (theirs, functools.partial(self._open, folder), os.getpid())
        self._process = FORK.Process(target=_serve, args=arguments)
        self._process.start()
        theirs.close()
        self.answer()  # the store is open

    def send(self, steps: Sequence[Step]) -> None:
        with contextlib.suppress(OSError):  # it died: its last answer states why
            self._pipe.send_bytes(marshal.dumps(list(steps)))

    def answer(self) -> Any:
        """The answer to one step, once the step is done."""
        if not self._pipe.poll(PATIENCE):
            raise StoreError(f"no answer within {PATIENCE} s")
        try:
            done, answer = marshal.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise Died("its process died") from None
        if not done:
            raise StoreError(answer)
        return answer

    def kill(self) -> list[Any]:
        """Kill the child. Returns its answers that were not read yet."""
        answers: list[Any] = []
        self._process.kill()
        self._process.join()
        with self._pipe, contextlib.suppress(Died):
            while True:
                answers.append(self.answer())
        return answers


class Served:
    """An open store, whose answers can be sent through a pipe."""

    def __init__(self, open_store: Callable[[], OpenStore]) -> None:
        self._open, self._store = open_store, open_store()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: bytes) -> bytes | None:
        if isinstance(self._store, OpenShim):
            return self._store.get(key, LARGEST)  # a buffer for 2 MiB would be slow
        return self._store.get(key)

    def get_into(self, key: bytes, capacity: int) -> bytes | None:
        """Get a value in a new session, into a buffer of exactly `capacity` bytes."""
        assert isinstance(self._store, OpenShim)
        session = self._store.session()
        try:
            return session.get(key, capacity)
        except TooLarge:
            return b"too large"
        finally:
            session.end()

    def scan(self, start: bytes, count: int) -> list[Record]:
        return list(itertools.islice(self._store.scan(start), count))

    def scan_back(self, start: bytes, count: int) -> list[Record]:
        assert isinstance(self._store, OpenShim)
        return list(itertools.islice(self._store.scan(start, backwards=True), count))

    def effective_options(self, capacity: int) -> None:
        """The effective options; their text ends with a NUL, however small the buffer is."""
        assert isinstance(self._store, OpenShim)
        text = ctypes.create_string_buffer(b"x" * capacity, capacity)
        self._store._driver.effective_options(self._store._kv, text, capacity)
        if b"\0" not in text.raw:
            raise StoreError("effective_options writes no NUL")

    def compact(self) -> None:
        assert isinstance(self._store, OpenShim)
        self._store.compact()

    def reopen(self) -> None:
        self._store.close()
        self._store = self._open()


def _serve(pipe: Connection, open_store: Callable[[], OpenStore], parent: int) -> None:
    """Run in a child until it is killed: receive lists of steps, and answer each step when it is
    done."""
    die_with_parent(parent)
    silence = os.open(os.devnull, os.O_WRONLY)  # failing engines print arbitrary text
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        served = Served(open_store)
        pipe.send_bytes(marshal.dumps((True, None)))
        while True:
            for name, *arguments in marshal.loads(pipe.recv_bytes()):
                pipe.send_bytes(marshal.dumps((True, getattr(served, name)(*arguments))))
    except Exception as error:  # whatever an engine raises is an answer too
        pipe.send_bytes(marshal.dumps((False, f"{type(error).__name__}: {error}")))


def _prepare(store: Store, open_store: Callable[[Path], OpenStore]) -> None:
    """Do once what each child would repeat. WiredTiger calibrates its clock for more than a
    second."""
    if store.binding:
        load(store.binding)
    else:
        store.driver()
    if store.name.startswith("wiredtiger"):
        with tempfile.TemporaryDirectory() as folder:
            open_store(Path(folder)).close()
