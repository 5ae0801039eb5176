"""What the operating system counts of this process: memory, processor time, bytes moved."""

import mmap
import os
import resource
import threading
from pathlib import Path

INTERVAL = 0.01  # seconds between two samples of the memory


def usage() -> dict[str, float]:
    """Since the process began: seconds of processor time and bytes moved, by all its threads.

    read_bytes and write_bytes count the storage layer, rchar and wchar the read and write calls;
    see proc_pid_io(5). Not by psutil, whose processor times come in steps of 10 ms.
    """
    times = resource.getrusage(resource.RUSAGE_SELF)
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    moved = {name: int(counts[name]) for name in ("read_bytes", "write_bytes", "rchar", "wchar")}
    return {"user_s": times.ru_utime, "system_s": times.ru_stime, **moved}


class Memory:
    """The peaks of resident memory above a baseline, anonymous and file-backed, sampled by a
    thread."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/statm", os.O_RDONLY)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._baseline = self._look()
        self.anonymous = self.file = 0  # bytes at their peaks

    def _look(self) -> tuple[int, int]:
        _, resident, shared, *_ = map(int, os.pread(self._file, 256, 0).split())
        return (resident - shared) * mmap.PAGESIZE, shared * mmap.PAGESIZE

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
