"""The description of the machine that measures, and its rest between cells."""

import hashlib
import json
import os
import platform
import re
import signal
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cpuinfo
import numpy as np
import psutil

from kvbench import loopback
from kvbench.cache import sync_file_system
from kvbench.stores import Store, build_facts

PACKAGES = ("kvbench", "numpy", "pandas", "pyarrow", "papermill")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SETTLE_LIMIT = 30.0  # seconds
FSYNC_BYTES = 4096
PROBE = "fsync.tmp"  # the file by which fsync is timed


def fsync_milliseconds(folder: Path, times: int = 50) -> float:
    """Median milliseconds to append FSYNC_BYTES to a file and fsync it."""
    path = folder / PROBE
    seconds = []
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(times):
                start = time.perf_counter()
                file.write(bytes(FSYNC_BYTES))
                os.fsync(file.fileno())
                seconds.append(time.perf_counter() - start)
    finally:
        path.unlink(missing_ok=True)
    return round(float(np.median(seconds)) * 1000, 3)


NO_JOURNAL = "ext4 without journal"


def _partition(path: Path) -> Any:
    """The mount that a path is on, as psutil describes it."""
    inside = [
        disk
        for disk in psutil.disk_partitions(all=True)
        if path.resolve().is_relative_to(disk.mountpoint)
    ]
    return max(reversed(inside), key=lambda disk: len(disk.mountpoint))  # the last mounted counts


def _file_system(disk: Any) -> str:
    """Its type. ext4 without a journal has a name of its own: it is faster, and guarantees less.
    So has a file system that a sweep made, after the one that its backing file is on."""
    if backing := loopback.backing_file(disk.device):
        return f"{disk.fstype} of its own on {_file_system(_partition(backing))}"
    device = Path(disk.device).resolve().name
    journal = any(Path("/proc/fs/jbd2").glob(f"{device}-*"))
    bare = disk.fstype == "ext4" and Path("/proc/fs/ext4", device).exists() and not journal
    return NO_JOURNAL if bare else str(disk.fstype)


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """The processor's name: from the kernel, which takes no time; else from py-cpuinfo, which takes
    a second and starts a process of its own, which Ctrl-C must not end."""
    named = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if named:
        return named[1]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return str(cpuinfo.get_cpu_info().get("brand_raw", platform.machine()))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _host(fallback: str) -> str:
    """The host's own identity. Containers often have none, or an empty one."""
    try:
        own = Path("/etc/machine-id").read_text()
        return own if own.strip() else fallback
    except (OSError, ValueError):
        return fallback


def describe(folder: Path, stores: dict[str, Store], fallback: str = "") -> dict[str, Any]:
    """Describe the machine and the file system of `folder`.

    `machine` identifies it by what does not change from sweep to sweep. The host's own identity,
    or the `fallback` where it has none, enters only through a hash: two equal machines stay apart,
    and no name is disclosed.
    """
    disk = _partition(folder)
    fixed = {
        "cpu": _processor(),
        "cores": psutil.cpu_count(logical=True),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": _file_system(disk),
        "mount_options": disk.opts,
    }
    memory = {"memory_bytes": round(fixed["memory_bytes"] / 2**30)}  # varies a little by boot
    identity = [fixed | memory, _host(fallback)]
    text = json.dumps(identity, sort_keys=True)
    return {
        "machine": hashlib.sha256(text.encode()).hexdigest()[:12],
        **fixed,
        "governor": GOVERNOR.read_text().strip() if GOVERNOR.exists() else "not readable",
        "fsync_ms": fsync_milliseconds(folder),
        "python": platform.python_version(),
        "packages": _packages(),
        "engines": {store.full_name: store.version for store in stores.values() if store.available},
        "compiler": build_facts()["compiler"],
        "revision": build_facts()["revision"],
    }


def conditions(folder: Path, stores: dict[str, Store]) -> dict[str, Any]:
    """The part of the description that stands in each row of tables that no sweep writes."""
    found = describe(folder, stores)
    names = ("machine", "cpu", "cores", "kernel", "file_system", "compiler", "revision")
    return {name: found[name] for name in names}


def _writeback_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    line = next(line for line in lines if line.startswith("Writeback:"))
    return int(line.split()[1]) * 1024


def settle(folder: Path) -> float:
    """Wait until the device has all that earlier cells wrote. Returns the seconds that took."""
    start = time.monotonic()
    sync_file_system(folder)
    while _writeback_bytes() > 0 and time.monotonic() - start < SETTLE_LIMIT:
        time.sleep(0.01)
    return time.monotonic() - start
