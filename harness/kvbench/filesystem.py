"""A file system that was mounted for the stores alone, seen from the process that uses it."""

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 1.0  # seconds: the kernel closes files with requests under way a little later
OTHERS = 60.0  # seconds: until another program, as one that searches all files, has left it

_library = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mounted:
    """A mounted file system: its loop device, as "/dev/loop0", its folder, and its kind."""

    device: str
    mount: str
    kind: str

    @property
    def stat(self) -> Path:
        """The counters of its device."""
        return Path("/sys/block", Path(self.device).name, "stat")

    def attach(self) -> None:
        """Mount it with the kernel's defaults, as nearly everybody does. Raises OSError."""
        paths = map(os.fsencode, (self.device, self.mount, self.kind))
        if _library.mount(*paths, ctypes.c_ulong(0), None) != 0:
            raise _error(ctypes.get_errno(), "cannot be mounted", self.mount)

    def detach(self) -> None:
        """Unmount it. Raises OSError, which names a file in it that is still open."""
        unmount(self.mount)


def allocated(folder: Path, most: int | None = None) -> int | None:
    """Bytes of the blocks that a folder and all below it occupy; None if it holds more than `most`
    files and folders. What an engine removes while we look counts as gone."""
    total, seen = folder.lstat().st_blocks, 0
    for parent, folders, files in os.walk(folder):
        seen += len(folders) + len(files)
        if most is not None and seen > most:
            return None
        for name in folders + files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks
    return total * 512


def _error(code: int, what: str, folder: str) -> OSError:
    return OSError(code, f"{what}: {os.strerror(code)}", folder)


def unmount(folder: str) -> None:
    """Unmount what is mounted there, waiting a while for other programs. Raises OSError, which
    names a file in it that this process has open."""
    begun = time.monotonic()
    while _library.umount2(os.fsencode(folder), 0) != 0:
        code, waited = ctypes.get_errno(), time.monotonic() - begun
        own = min(_held(folder), default="") if waited > PATIENCE else ""
        if code != errno.EBUSY or own or waited > OTHERS:
            raise _error(code, own or "it cannot be unmounted", folder)
        time.sleep(0.01)


def _held(folder: str) -> Iterator[str]:
    """Which files below a folder this process has open or mapped."""
    for kind in ("fd", "map_files"):
        for link in Path("/proc/self", kind).iterdir():
            try:
                path = os.readlink(link)
            except OSError:  # closed meanwhile
                continue
            if path.startswith(f"{folder}/"):
                yield f"{os.path.relpath(path, folder)} is still open"
