"""What the operating system counts of this process: memory, processor time, bytes moved."""

import ctypes
import os
import resource
import threading
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
INTERVAL = 0.01  # seconds between two looks at the memory


def usage() -> dict[str, float]:
    """Since the process began: seconds of processor time and bytes, all threads included.

    read_bytes and write_bytes are those of the storage layer, rchar and wchar those of read and
    write calls; see proc_pid_io(5).
    """
    times = resource.getrusage(resource.RUSAGE_SELF)
    lines = Path("/proc/self/io").read_text().splitlines()
    counts = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    moved = {name: counts[name] for name in ("read_bytes", "write_bytes", "rchar", "wchar")}
    return {"user_s": times.ru_utime, "system_s": times.ru_stime, **moved}


def sync_file_system(folder: Path) -> None:
    """Write out all that the file system of `folder` holds back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(descriptor)


class Memory:
    """Watches the resident memory from a thread: anonymous and file-backed, above a baseline."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/statm", os.O_RDONLY)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._baseline = self._look()
        self.anonymous = self.file = 0  # bytes at their peaks

    def _look(self) -> tuple[int, int]:
        _, resident, shared, *_ = os.pread(self._file, 256, 0).split()
        return (int(resident) - int(shared)) * PAGE, int(shared) * PAGE

    def sample(self) -> None:
        anonymous, file = self._look()
        self.anonymous = max(self.anonymous, anonymous - self._baseline[0])
        self.file = max(self.file, file - self._baseline[1])

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL):
            if hasattr(self, "file"):
                self.sample()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.sample()
        os.close(self._file)
