"""What is left of a store after a fault: a child process opens the store and reads every key.

An engine may crash or hang on a damaged store, so each look is a forked child, whose engine starts
afresh. The parent must not have opened a store itself, since threads do not survive a fork.
"""

import contextlib
import faulthandler
import hashlib
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.cell.store import Store
from kvbench.common.processes import die_with_parent, how_it_ended
from kvbench.stores.opened import OpenStore, open_store

LIMIT = 20.0  # seconds until a child counts as hanging
HANGS = "hangs"
LONGEST = 300  # characters of an error that are kept

Value = bytes | None | str  # the digest of a value; None if the record is missing; or an error


class Left(NamedTuple):
    """What a child found in a store."""

    ended: str = ""  # how the child ended, if not by itself: HANGS, or its signal
    refused: str = ""  # the engine's error, if the store does not open
    found: tuple[Value, ...] = ()  # one for each key
    extra: int = 0  # keys that a scan yields beside the given ones
    after: str = ""  # what `then` returned, or its error
    closing: str = ""  # the engine's error when it closed the store
    said: str = ""  # the end of what the engine printed


def digest(value: bytes | None) -> bytes | None:
    """Eight bytes that stand for a value; None for a missing one."""
    return None if value is None else hashlib.blake2b(value, digest_size=8).digest()


def _why(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST]


def _value(opened: OpenStore, key: bytes) -> Value:
    try:
        return digest(opened.get(key))
    except Exception as error:  # a binding raises its engine's own exceptions
        return _why(error)


def _read(
    store: Store,
    folder: Path,
    keys: Sequence[bytes],
    options: dict[str, str],
    scan: bool,
    then: Callable[[OpenStore], str] | None,
) -> Left:
    """Run in the child."""
    try:
        opened = open_store(store, folder, **options)
    except Exception as error:
        return Left(refused=_why(error) or "refused")
    found = tuple(_value(opened, key) for key in keys)
    extra, after, closing = 0, "", ""
    if scan:
        try:
            given = set(keys)
            extra = sum(key not in given for key, _ in opened.scan())
        except Exception as error:
            after = f"scan: {_why(error)}"
    if then is not None:
        try:
            after = then(opened)
        except Exception as error:
            after = _why(error)
    try:
        opened.close()
    except Exception as error:
        closing = _why(error)
    return Left("", "", found, extra, after, closing)


def _received(source: int, end: float) -> bytes | None:
    """All bytes of a pipe until its writers have ended; None if that takes too long."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        part = os.read(source, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def look(
    store: Store,
    folder: Path,
    keys: Sequence[bytes],
    options: dict[str, str] | None = None,
    *,
    scan: bool = False,
    then: Callable[[OpenStore], str] | None = None,
    limit: float = LIMIT,
) -> Left:
    """Open a store in a child process, read `keys`, and close it. With `scan`, also count the keys
    that a scan yields beside these. `then` is called with the store after the reads; its text
    becomes `after`."""
    if not store.binding:
        store.driver()  # loaded once, in the parent
    source, sink = os.pipe()
    errors, parent = os.memfd_create("errors"), os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.disable()  # its report would hide what the engine printed
            die_with_parent(parent)
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(stop, signal.SIG_DFL)
            os.close(source)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            left = _read(store, folder, keys, options or {}, scan, then)
            with os.fdopen(sink, "wb") as file:
                pickle.dump(left, file)
            code = 0
        finally:
            os._exit(code)
    os.close(sink)
    answer: bytes | None = None
    try:
        answer = _received(source, time.monotonic() + limit)
    finally:  # also after Ctrl-C
        os.close(source)
        if answer is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        size = os.lseek(errors, 0, os.SEEK_END)
        said = os.pread(errors, LONGEST, max(0, size - LONGEST)).decode(errors="replace").strip()
        os.close(errors)
    if answer is None:
        return Left(ended=HANGS, said=said)
    if not answer or status != 0:
        return Left(ended=how_it_ended(status), said=said)
    received: Left = pickle.loads(answer)
    return received._replace(said=said)
