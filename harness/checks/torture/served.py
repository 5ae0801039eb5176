"""Stores in child processes that can be killed: a server, started anew for each store, forks them.
The server itself opens no store, so that no engine's threads or locks are lost in a fork.

    python harness/checks/torture/served.py STORE BINDING DESCRIPTOR [NAME=VALUE...]
"""

import contextlib
import functools
import itertools
import marshal
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, Self

from kvbench import die_with_parent
from kvbench.bindings import load
from kvbench.contract import StoreError
from kvbench.shim import OpenShim
from kvbench.stores import Store

LARGEST = 100_000  # bytes of a value
PATIENCE = 20  # seconds: an engine may wait for ever on what a kill has left

Record = tuple[bytes, bytes]
Step = tuple[Any, ...]  # the name of a method of Served, and its arguments


class Died(StoreError):  # noqa: N818 - what happened, not what went wrong
    """The child is no more."""


class Children:
    """From one server, one child at a time, each with the store open in a folder of its choice."""

    def __init__(self, store: Store, options: dict[str, str]) -> None:
        self._server, theirs = Pipe()
        pairs = [f"{name}={value}" for name, value in options.items()]
        self._process = subprocess.Popen(
            [sys.executable, __file__, store.name, store.binding, str(theirs.fileno()), *pairs],
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._child = 0  # its process, until its end is known

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._server.close()

    def start(self, folder: Path) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            self._server.send_bytes(bytes(folder))
            send_handle(self._server, theirs.fileno(), self._process.pid)
        self._child = int.from_bytes(self._server.recv_bytes())
        self.answer()  # it is open

    def send(self, steps: Sequence[Step]) -> None:
        with contextlib.suppress(OSError):  # it died: its last answer tells why
            self._pipe.send_bytes(marshal.dumps(list(steps)))

    def answer(self) -> Any:
        """To one step, when it is done."""
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
        """Returns what it had answered before and no one had taken yet."""
        answers: list[Any] = []
        if not self._child:
            return answers
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(self._child, signal.SIGKILL)
        self._child = 0
        self._server.recv_bytes()  # it is dead, its files are closed
        with self._pipe, contextlib.suppress(Died):
            while True:
                answers.append(self.answer())
        return answers


class Served:
    """An open store, whose answers can cross a pipe."""

    def __init__(self, store: Store, folder: Path, options: dict[str, str]) -> None:
        self._open = functools.partial(store.open, folder, **options)
        self._store = self._open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: bytes) -> bytes | None:
        if isinstance(self._store, OpenShim):
            return self._store.get(key, LARGEST)  # a buffer for 2 MiB takes its time
        return self._store.get(key)

    def scan(self, start: bytes, count: int) -> list[Record]:
        return list(itertools.islice(self._store.scan(start), count))

    def scan_back(self, start: bytes, count: int) -> list[Record]:
        assert isinstance(self._store, OpenShim)
        return list(itertools.islice(self._store.scan(start, backwards=True), count))

    def compact(self) -> None:
        assert isinstance(self._store, OpenShim)
        self._store.compact()

    def reopen(self) -> None:
        self._store.close()
        self._store = self._open()


def _serve(pipe: Connection, store: Store, folder: Path, options: dict[str, str]) -> None:
    """What a child does until it is killed: takes lists of steps, answers each as it is done."""
    try:
        served = Served(store, folder, options)
        pipe.send_bytes(marshal.dumps((True, None)))
        while True:
            for name, *arguments in marshal.loads(pipe.recv_bytes()):
                pipe.send_bytes(marshal.dumps((True, getattr(served, name)(*arguments))))
    except Exception as error:  # whatever an engine raises is an answer too
        pipe.send_bytes(marshal.dumps((False, f"{type(error).__name__}: {error}")))


def _prepare(store: Store, options: dict[str, str]) -> None:
    """What children need not do again. WiredTiger measures its clock for more than a second."""
    if store.binding:
        load(store.binding)
    else:
        store.driver()
    if store.name.startswith("wiredtiger"):
        with tempfile.TemporaryDirectory() as folder:
            store.open(Path(folder), **options).close()


def main() -> None:
    name, binding, descriptor, *pairs = sys.argv[1:]
    store, options = Store(name, binding), dict(pair.split("=", 1) for pair in pairs)
    die_with_parent(os.getppid())
    silence = os.open(os.devnull, os.O_WRONLY)  # engines print what they like as they fail
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    parent, server = Connection(int(descriptor)), os.getpid()
    _prepare(store, options)
    while True:
        folder = os.fsdecode(parent.recv_bytes())
        pipe = Connection(recv_handle(parent))
        child = os.fork()
        if child == 0:
            try:
                die_with_parent(server)
                parent.close()
                _serve(pipe, store, Path(folder), options)
            finally:
                os._exit(0)
        pipe.close()
        parent.send_bytes(child.to_bytes(8))
        os.waitpid(child, 0)
        parent.send_bytes(b"dead")


if __name__ == "__main__":
    main()
