"""Control groups that cap the memory of a cell, page cache included; versions 1 and 2."""

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def _parent() -> tuple[Path, int]:
    """The folder in which memory groups can be created, and the version of control groups."""
    if not (ROOT / "memory").is_dir():
        return ROOT, 2
    own = next(
        line.split(":", 2)[2]
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if line.split(":")[1] == "memory"
    )
    below = ROOT / "memory" / own.lstrip("/")  # in a container the path may not exist
    return (below if below.is_dir() else ROOT / "memory"), 1


def _remove_ownerless(parent: Path) -> None:
    """Remove the groups that killed sweeps have left."""
    for group in parent.glob("kvbench-*"):
        if not Path("/proc", group.name.removeprefix("kvbench-")).exists():
            with contextlib.suppress(OSError):  # its last process has not exited yet
                group.rmdir()


class ControlGroup:
    """A group with a memory limit in bytes. A process joins it by writing its process ID to the
    file `members`. Memory that the process held before is not counted."""

    def __init__(self, limit: int) -> None:
        parent, self._version = _parent()
        _remove_ownerless(parent)
        self.path = parent / f"kvbench-{os.getpid()}"
        if self._version == 2:
            (parent / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir(exist_ok=True)
        try:
            file = "memory.limit_in_bytes" if self._version == 1 else "memory.max"
            (self.path / file).write_text(str(limit))
            swap = self.path / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
        except OSError:
            self.path.rmdir()
            raise
        self.members = self.path / "cgroup.procs"

    def killed(self) -> int:
        """The number of its processes that the kernel killed for exceeding the limit."""
        file = "memory.oom_control" if self._version == 1 else "memory.events"
        lines = (line.split() for line in (self.path / file).read_text().splitlines())
        return int(dict(line for line in lines if len(line) == 2).get("oom_kill", 0))

    def remove(self) -> None:
        for _ in range(100):  # its last process may not have exited yet
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.01)


@contextlib.contextmanager
def capped(limit: int) -> Iterator[ControlGroup]:
    group = ControlGroup(limit)
    try:
        yield group
    finally:
        group.remove()


@functools.cache
def refused() -> str:
    """The reason why no group can be created here; empty if one can."""
    try:
        with capped(1 << 30):
            return ""
    except OSError as error:
        return f"no control group can be made here: {error.strerror}; try as root"
