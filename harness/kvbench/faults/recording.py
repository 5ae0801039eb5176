"""Records what a store writes to its disk while a writer runs the steps of a scenario."""

import contextlib
import ctypes
import dataclasses
import errno
import functools
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT
from kvbench.common.messages import BadInput
from kvbench.common.processes import NEW_MOUNTS, hide_boot_id
from kvbench.faults.left import Left, look
from kvbench.faults.scenario import History, Scenario, Step
from kvbench.faults.states import Disk, Epoch, epochs
from kvbench.machine.device import Device, attached, entries, recorded
from kvbench.stores.known import KnownStore
from kvbench.stores.opened import OpenStore

SIZE = 512 << 20  # bytes of a disk, of which few are used; XFS needs 300 MiB
MAKE = {  # the smallest journals, which then wrap
    "ext4": "mkfs.ext4 -q -F -b 4096 -N 8192 -m 0 -J size=4 "
    "-E lazy_itable_init=0,lazy_journal_init=0,nodiscard",
    "xfs": "mkfs.xfs -q -f -K",
    "btrfs": "mkfs.btrfs -q -f -K",
}
STORE = "store"  # the folder of a store on a disk
WRITEBACK, ALL = 20, 0.25  # steps between two writebacks, on average; the share of whole ones
WRITE_AND_WAIT = 7  # all flags of sync_file_range(2)
LIMIT = 20.0  # seconds for a look
ROOM = 64 << 20  # bytes that must be free beside images
WRITING = 300.0  # seconds for a scenario
SMALL = {"write_buffer": "65536"}  # options that make engines rotate their logs early


@dataclasses.dataclass(frozen=True)
class Subject:
    """A store at a durability level, on a file system of a kind. A look at it that takes more than
    `limit` seconds counts as a hang."""

    store: KnownStore
    level: str
    fs: str = "ext4"
    limit: float = LIMIT

    @property
    def options(self) -> dict[str, str]:
        own = {} if self.level == DEFAULT else {"durability": self.level}
        small = {name: size for name, size in SMALL.items() if not self.store.lacks(name, size)}
        return own | small

    @property
    def guarantee(self) -> str:
        return self.store.guarantee(self.level)

    @property
    def tears(self) -> bool:
        return self.store.tears and self.guarantee == "sync"

    def look(
        self,
        folder: Path,
        keys: Sequence[bytes],
        then: Callable[[OpenStore], str],
        *,
        scan: bool = False,
        limit: float | None = None,
    ) -> Left:
        """Open the store in a child process; see look()."""
        scan = scan and "scan" in self.store.capabilities
        limit = self.limit if limit is None else limit
        return look(self.store, folder, keys, self.options, scan=scan, then=then, limit=limit)


def _load(base: dict[bytes, bytes], opened: OpenStore) -> str:
    for key, value in base.items():
        if not opened.insert(key, value):
            return f"insert of {key.hex()}: the key exists"
    return ""


def load_unbooted(store: KnownStore) -> None:
    """Load a store's library where the machine's boot ID cannot be read; forks inherit it."""
    if store.binding:
        return
    library = ctypes.CDLL(None, use_errno=True)
    mounts, root, here = (os.open(path, os.O_RDONLY) for path in ("/proc/self/ns/mnt", "/", "."))
    try:
        try:
            hide_boot_id()
            store.driver()
        finally:
            if library.setns(mounts, NEW_MOUNTS) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            os.fchdir(root)  # setns(2) has changed both folders
            os.chroot(".")
            os.fchdir(here)
    finally:
        for descriptor in (mounts, root, here):
            os.close(descriptor)


class _Writeback:
    """Lets the operating system write dirty pages, as it may at any time: those of some files, or
    all of them with a flush. A child process does it, since closing a file drops its locks; the
    steps go on meanwhile."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self._folder, self._choose, self._child = folder, choose, 0

    def wait(self) -> None:
        if self._child:
            os.waitpid(self._child, 0)
        self._child = 0

    def start(self) -> None:
        self.wait()
        files = sorted(path for path in self._folder.rglob("*") if path.is_file())
        some = [path for path in files if self._choose.random() < 0.5]
        everything = self._choose.random() < ALL
        self._child = os.fork()
        if self._child:
            return
        try:
            library = ctypes.CDLL(None)
            if everything:
                library.syncfs(os.open(self._folder, os.O_RDONLY))
            for path in some if not everything else ():
                with contextlib.suppress(OSError):  # removed meanwhile
                    file, end = os.open(path, os.O_RDONLY), ctypes.c_long(0)
                    library.sync_file_range(file, ctypes.c_long(0), end, WRITE_AND_WAIT)
        finally:
            os._exit(0)


def run(
    steps: Sequence[Step],
    folder: Path,
    acknowledged: Path,
    choose: random.Random,
    opened: OpenStore,
) -> str:
    """Take the steps, and note when each has returned. Returns what is wrong."""
    returned = np.memmap(acknowledged, np.uint64, "r+")
    calls: dict[str, Callable[[Step], bool]] = {
        "insert": lambda step: opened.insert(step.key, step.value),
        "update": lambda step: opened.update(step.key, step.value),
        "remove": lambda step: opened.remove(step.key),
    }
    writeback = _Writeback(folder, choose)
    for number, step in enumerate(steps):
        if not calls[step.mode](step):
            return f"step {number + 1}: {step.mode} of {step.key.hex()} was refused"
        returned[number] = time.monotonic_ns()
        if choose.random() * WRITEBACK < 1:
            writeback.start()
    writeback.wait()
    return ""


def _killed(run: Callable[[OpenStore], str], opened: OpenStore) -> str:
    wrong = run(opened)
    if not wrong:
        os.kill(os.getpid(), signal.SIGKILL)
    return wrong


def make_disk(image: Path, fs: str) -> None:
    """Make a sparse image with an empty file system. Raises BadInput."""
    with open(image, "xb") as file:
        file.truncate(SIZE)
    command = [*MAKE[fs].split(), os.fspath(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{command[0]}: {' '.join(done.stderr.split())}")


def check_room(folder: Path) -> None:
    """Raise OSError if the disk of a folder is nearly full: what fails in an image there would look
    like the store's failure."""
    if shutil.disk_usage(folder).free < ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(folder))


class Recording(NamedTuple):
    """A recorded run: what was on disk before it, the epochs of its log, and when its steps had
    returned, in ns."""

    base: Path
    log: Path
    epochs: list[Epoch]
    returned: list[int]
    history: History


def recording(base: Path, device: Device, history: History) -> Recording:
    """What a device recorded after the disk was `base`."""
    returned = np.fromfile(device.acknowledged, np.uint64)
    done = returned[returned != 0].tolist()
    found = epochs([*entries(device.log)], len(done), time.monotonic_ns())
    return Recording(base, device.log, found, done, history)


def record(subject: Subject, seed: str, work: Path) -> Recording:
    """Load a store, and record the steps of a scenario. Raises StoreError if the store fails
    without any power failure."""
    plan = Scenario(seed)
    choose = random.Random(f"{seed} writebacks")
    base, disk = work / "base", work / "disk"
    make_disk(base, subject.fs)
    with attached(base, work / "mounted", subject.fs, direct=False) as folder:
        (folder / STORE).mkdir()
        load = functools.partial(_load, plan.base)
        left = subject.look(folder / STORE, [], load, limit=WRITING)
        check_room(work)
        _must(left)
    _copy(base, disk)
    kill = choose.random() < 0.5
    with recorded(disk, subject.fs, work / "recorded", len(plan.steps)) as device:
        folder = device.folder / STORE
        steps = functools.partial(run, plan.steps, folder, device.acknowledged, choose)
        then = functools.partial(_killed, steps) if kill else steps
        left = subject.look(folder, [], then, limit=WRITING)
        if not (kill and left.ended == "signal SIGKILL"):
            _must(left)
    disk.unlink()
    return recording(base, device, plan.history())


def _must(left: Left) -> None:
    if why := left.ended or left.refused or left.after or left.closing:
        raise StoreError(f"without any power failure: {why} {left.said}".strip())


def _copy(source: Path, target: Path) -> None:
    file = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        Disk(source).copy(file)
    finally:
        os.close(file)
