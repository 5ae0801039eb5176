"""Calls a function in a forked child, since an engine may crash or hang after a fault."""

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kvbench.common.processes import begin_worker, how_it_ended, readable

LIMIT = 20.0  # seconds until a child counts as hanging
# A damaged length may make an engine ask for any amount. A child gets at most these bytes:
MOST_MEMORY, MOST_WRITTEN = 6 << 30, 1 << 30  # of its own memory, and of each file
HANGS = "hangs"
LONGEST = 300  # characters of a text that are kept


class Beside(Protocol):
    """What a parent does while a child works."""

    def begin(self) -> None:
        """Called in the child, before its work."""

    def files(self) -> list[int]:
        """The descriptors to wait for."""

    def serve(self, file: int) -> None:
        """Called in the parent when a descriptor can be read."""


class Answer(NamedTuple):
    """What a child returned, and how it ended."""

    value: Any  # None if it ended early
    ended: str = ""  # how it ended, if not by itself: HANGS, or its signal
    said: str = ""  # the end of what it printed


def _limit_resources() -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: MOST_MEMORY,
        resource.RLIMIT_FSIZE: MOST_WRITTEN,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        known = hard != resource.RLIM_INFINITY
        resource.setrlimit(kind, (min(most, hard) if known else most, hard))


def _received(source: int, end: float, beside: Beside | None) -> bytes | None:
    """All bytes of a pipe until its writers have ended; None if that takes too long."""
    parts: list[bytes] = []
    while True:
        files = beside.files() if beside else []
        ready = readable([source, *files], end - time.monotonic())
        if not ready:
            return None
        for file in ready:
            if beside and file != source:
                beside.serve(file)
        if source in ready:
            part = os.read(source, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)


def apart(work: Callable[[], Any], limit: float = LIMIT, beside: Beside | None = None) -> Answer:
    """Call a function in a forked child, which may crash or hang, and return its result. The child
    is killed after `limit` seconds. This process must not have opened a store, since threads do not
    survive a fork."""
    source, sink = os.pipe()
    errors, parent = os.memfd_create("errors"), os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            begin_worker(parent)
            _limit_resources()
            faulthandler.disable()  # its report would hide what the engine printed
            os.close(source)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            if beside:
                beside.begin()
            answer = work()
            with os.fdopen(sink, "wb") as file:
                pickle.dump(answer, file)
            code = 0
        finally:
            os._exit(code)
    os.close(sink)
    received: bytes | None = None
    try:
        received = _received(source, time.monotonic() + limit, beside)
    finally:  # also after Ctrl-C
        os.close(source)
        if received is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        size = os.lseek(errors, 0, os.SEEK_END)
        said = os.pread(errors, LONGEST, max(0, size - LONGEST)).decode(errors="replace").strip()
        os.close(errors)
    if received is None:
        return Answer(None, HANGS, said)
    if not received or status != 0:
        return Answer(None, how_it_ended(status), said)
    return Answer(pickle.loads(received), "", said)
