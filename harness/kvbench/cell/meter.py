"""The operating system's counters of a process: processor time, bytes moved, syncs, memory."""

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kvbench.cell.library import loop_library, structure

SECOND = 10**9  # nanoseconds
PROCESS = ("read_bytes", "write_bytes", "rchar", "wchar", "read_calls", "write_calls")
DEVICE = ("device_read_bytes", "device_write_bytes")


class Meter:
    """The counters of this process; `struct` is a `struct meter` of meter.h."""

    def __init__(self, folder: Path, device_stat: Path | None) -> None:
        self.struct = structure("meter")()
        path = os.fsencode(device_stat) if device_stat else None
        loop_library().meter_open(ctypes.byref(self.struct), path)
        counted = {name: self.struct.io >= 0 for name in PROCESS}
        counted |= {name: self.struct.device >= 0 for name in DEVICE}
        counted |= {"instructions": self.struct.instructions >= 0, "syncs": self._sees_sync(folder)}
        self._missing = {name for name, known in counted.items() if not known}

    def _counts(self) -> ctypes.Structure:
        counts = structure("meter_counts")()
        loop_library().meter_read(ctypes.byref(self.struct), ctypes.byref(counts))
        return counts

    def _sees_sync(self, folder: Path) -> bool:
        """Whether a sync of this folder is counted: not every file system has a tracepoint."""
        before = self._counts().syncs
        descriptor = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
        os.close(descriptor)
        return bool(self._counts().syncs > before)

    def columns(self, counts: ctypes.Structure) -> dict[str, float | None]:
        """A `struct meter_counts`, of the process or of an operation, as columns of the table
        operations. A counter that this machine lacks is None."""
        values = {name: getattr(counts, name) for name, *_ in counts._fields_}
        seconds = {f"{side}_s": values.pop(f"{side}_ns") / SECOND for side in ("user", "system")}
        return seconds | {n: None if n in self._missing else v for n, v in values.items()}

    def read(self) -> dict[str, float | None]:
        """The counters since the process began."""
        return self.columns(self._counts())

    def settle(self, quiet_s: float, limit_s: float = 60) -> dict[str, str | float]:
        """Wait until the engine is idle, at most `limit_s` seconds; see meter.h. Returns columns of
        the table cells."""
        debt = structure("meter_debt")()
        times = (ctypes.c_uint64(round(seconds * SECOND)) for seconds in (quiet_s, limit_s))
        loop_library().meter_settle(ctypes.byref(self.struct), *times, ctypes.byref(debt))
        return {
            "settled": "yes" if debt.settled else "no",
            "debt_s": debt.ns / SECOND,
            "debt_cpu_s": debt.cpu_ns / SECOND,
            "debt_bytes": debt.bytes,
        }


@functools.cache
def _counting_program() -> tuple[int, "ctypes._Pointer[ctypes.c_uint64]"]:
    """The file descriptor of the counting program, or -1, and the address of its counter."""
    count = ctypes.POINTER(ctypes.c_uint64)()
    return loop_library().meter_program(ctypes.byref(count)), count


@contextlib.contextmanager
def count_system_calls() -> Iterator[Callable[[], int | None]]:
    """Yield a function that returns how many system calls this process has made since then, or None
    where they cannot be counted. Meanwhile every system call on the machine takes 0.2 us longer."""
    program, count = _counting_program()
    link = loop_library().meter_attach(program, b"sys_enter")
    if link < 0:
        yield lambda: None
        return
    before = count[0]
    try:
        yield lambda: count[0] - before
    finally:
        os.close(link)
