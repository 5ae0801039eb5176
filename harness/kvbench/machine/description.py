"""Describes the machine that measures, and waits until its device is idle between cells."""

import ctypes
import hashlib
import json
import mmap
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cpuinfo
import psutil

from kvbench.cell.cache import cached_pages, sync_file_system
from kvbench.cell.library import loop_library
from kvbench.common.files import naming
from kvbench.common.messages import one_line
from kvbench.machine import loopback
from kvbench.machine.served import Delays
from kvbench.stores.catalogue import build_facts
from kvbench.stores.known import KnownStore

PACKAGES = ("kvbench", "numpy", "pandas", "pyarrow", "papermill")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SETTLE_LIMIT = 30.0  # seconds
FSYNC_BYTES = 4096
PROBE = "probe.tmp"  # the file for timing the device
DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
DAMON_RECLAIM = Path("/sys/module/damon_reclaim/parameters/enabled")
COPIED = (1 << 18, 1 << 20, 64 << 20)  # bytes
LIMITS = (  # the columns of a fingerprint
    "probe", "sync_p50_us", "sync_p90_us", "sync_p99_us", "sync_max_us", "random_read_us",
    "random_read_p90_us", "random_read_p99_us", "write_rate", "read_rate", "memory_rate",
    "clock_ns",
)  # fmt: skip
FIO_LIMIT = 5  # seconds, for each of four runs


def fsync_milliseconds(folder: Path, times: int = 50) -> float:
    """The median time to append FSYNC_BYTES to a file and fsync it, in ms."""
    path = folder / PROBE
    seconds = []
    try:
        with naming(path), open(path, "wb", buffering=0) as file:
            for _ in range(times):
                start = time.perf_counter()
                file.write(bytes(FSYNC_BYTES))
                os.fsync(file.fileno())
                seconds.append(time.perf_counter() - start)
    finally:
        path.unlink(missing_ok=True)
    return round(statistics.median(seconds) * 1000, 3)


def _proactive_reclaim() -> str:
    """The actions that DAMON applies to idle memory even if enough memory is free."""
    found = set()
    try:
        for daemon in DAMON.glob("[0-9]*"):
            if (daemon / "state").read_text().strip() == "on":
                found |= {path.read_text().strip() for path in daemon.glob("**/action")}
        if DAMON_RECLAIM.exists() and DAMON_RECLAIM.read_text().strip() == "Y":
            found.add("reclaim")
    except OSError as error:
        return f"not readable: {error.strerror}"
    return f"DAMON {', '.join(sorted(found))}" if found else "none found"


def _read_ahead(folder: Path) -> int | None:
    """The bytes that the kernel reads ahead on a folder's device, the most that a fault of a mapped
    page reads. None if unknown."""
    device = folder.stat().st_dev
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return int(setting.read_text()) << 10 if setting.exists() else None


def _memory_rate() -> float:
    """The bytes per second that memcpy copies, within or beyond the processor's caches: the fastest
    of a few copies of each size. The first copy is a warm-up that allocates pages."""
    copy = ctypes.CDLL(None).memcpy
    rates = []
    for size in COPIED:
        blocks = [(ctypes.c_char * size)() for _ in range(2)]
        for _ in range(20):
            start = time.perf_counter()
            copy(*blocks, ctypes.c_size_t(size))
            rates.append(size / (time.perf_counter() - start))
    return max(rates)


def _clock_ns(count: int = 100_000) -> float:
    nanoseconds = (ctypes.c_uint64 * count)()
    loop_library().loop_clock(ctypes.c_size_t(count), nanoseconds)
    return statistics.fmean(nanoseconds)


def _fio(folder: Path, options: str) -> tuple[str, dict[str, Any]]:
    """The version of fio, and its report of one job on the file PROBE. Raises ValueError with the
    reason if fio fails."""
    base = f"fio --name=probe --filename={PROBE} --thread --ioengine=psync --output-format=json"
    try:  # in a separate session, so that Ctrl-C does not reach it
        done = subprocess.run(
            [*base.split(), *options.split()], cwd=folder, capture_output=True, text=True,
            errors="replace", timeout=FIO_LIMIT, start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(f"fio took more than {FIO_LIMIT} s: {options}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("fio:")]
        raise ValueError(f"{said[0] if said else 'fio failed'}: {options}")
    report = json.loads(done.stdout[done.stdout.index("{") :])  # fio may print notes first
    return report["fio version"], report["jobs"][0]


def _device(folder: Path) -> dict[str, Any]:
    """What fio measures of a folder's device. Raises ValueError, or KeyError if the device was too
    slow to complete an operation."""
    again = "--time_based --runtime"
    _, syncs = _fio(folder, f"--rw=write --bs=4k --size=4m --overwrite=1 --fdatasync=1 {again}=2")
    version, writes = _fio(folder, "--rw=write --bs=1m --size=256m --direct=1 --runtime=1")
    written = f"--direct=1 --size={writes['write']['io_bytes']}"
    _, gets = _fio(folder, f"--rw=randread --bs=4k {written} {again}=1")
    _, reads = _fio(folder, f"--rw=read --bs=1m {written} {again}=1")
    sync, read = syncs["sync"]["lat_ns"], gets["read"]["clat_ns"]
    quantiles = {
        f"{name}_p{q}_us": found["percentile"][f"{q}.000000"] / 1000
        for name, found in (("sync", sync), ("random_read", read))
        for q in (50, 90, 99)
    }
    return {
        "probe": version,
        "random_read_us": quantiles.pop("random_read_p50_us"),
        **quantiles,
        "sync_max_us": sync["max"] / 1000,
        "write_rate": writes["write"]["bw_bytes"],
        "read_rate": reads["read"]["bw_bytes"],
    }


def fingerprint(folder: Path) -> dict[str, Any]:
    """The limits of the machine and of the folder's device: the columns from `probe` to `clock_ns`.
    Those of the device are missing if fio is not installed or fails. Takes 6 seconds, at most 20,
    and writes 260 MiB."""
    found: dict[str, Any] = {"memory_rate": _memory_rate(), "clock_ns": _clock_ns()}
    if shutil.which("fio") is None:
        return found | {"probe": "fio is not installed (Debian: fio)"}
    try:
        return found | _device(folder)
    except KeyError:
        return found | {"probe": "fio completed no operation in its time"}
    except (ValueError, OSError) as error:
        return found | {"probe": one_line(str(error))}
    finally:
        (folder / PROBE).unlink(missing_ok=True)


NO_JOURNAL = "ext4 without journal"
MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs")  # file systems


def _partition(path: Path) -> Any:
    """The mount that contains a path, as psutil describes it."""
    inside = [
        disk
        for disk in psutil.disk_partitions(all=True)
        if path.resolve().is_relative_to(disk.mountpoint)
    ]
    return max(reversed(inside), key=lambda disk: len(disk.mountpoint))  # the last mount counts


def _file_system(disk: Any) -> str:
    """The type of a file system. ext4 without a journal has its own name, since it is faster and
    guarantees less. A file system made by a sweep is named after itself, the one that holds its
    image, and what slows its disk down."""
    if backing := loopback.backing_file(disk.device):
        slow = f" slowed to {how}" if (how := loopback.delays(disk.device)) else ""
        return f"{disk.fstype} of its own on {_file_system(_partition(backing))}{slow}"
    device = Path(disk.device).resolve().name
    journal = any(Path("/proc/fs/jbd2").glob(f"{device}-*"))
    bare = disk.fstype == "ext4" and Path("/proc/fs/ext4", device).exists() and not journal
    return NO_JOURNAL if bare else str(disk.fstype)


def _asked(device: str) -> dict[str, int]:
    """The least times of a sync and of a read in us that a sweep asked of the device, which it
    slowed down; empty if it did not."""
    text = loopback.delays(device)
    asked = Delays.parse(text)._asdict() if text else {}
    return {
        f"asked_{name}_us": microseconds for name, microseconds in asked.items() if microseconds
    }


def stays_cached(path: Path) -> bool:
    """Whether new files at `path` stay in memory even when they are synced and evicted, because the
    file system has no disk."""
    with open(path, "xb+") as file:
        try:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return cached_pages(file.fileno()) == (1 << 20) // mmap.PAGESIZE
        finally:
            path.unlink()


def in_memory(folder: Path) -> str:
    """The file system or device that keeps the files of a folder in memory, so that no sync makes
    them survive a power failure; empty if they are on a disk."""
    disk = _partition(folder)
    if disk.fstype in MEMORY:
        return str(disk.fstype)
    if disk.fstype == "overlay":  # its files may be in memory, or it may ignore syncs
        return "an overlay in memory" if stays_cached(folder / PROBE) else ""
    return _memory_below(Path(disk.device).resolve().name)


def _memory_below(device: str) -> str:
    """The same for a block device, which may be built on other devices or on a file."""
    if re.fullmatch(r"z?ram\d+", device):
        return device
    system = Path("/sys/class/block", device)
    backing = system / "loop/backing_file"
    if (
        backing.exists()
        and (kind := _partition(Path(backing.read_text().strip())).fstype) in MEMORY
    ):
        return f"a file on {kind}"
    found = (_memory_below(path.name) for path in system.glob("slaves/*"))
    return next(filter(None, found), "")


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """The name of the processor, from the kernel, or else from py-cpuinfo. That takes a second and
    starts a process, which Ctrl-C must not end."""
    named = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if named:
        return named[1]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return str(cpuinfo.get_cpu_info().get("brand_raw", platform.machine()))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _host(fallback: str) -> str:
    """The identity of the host, or `fallback`: containers often have none, or an empty one."""
    try:
        own = Path("/etc/machine-id").read_text()
        return own if own.strip() else fallback
    except (OSError, ValueError):
        return fallback


def describe(folder: Path, stores: dict[str, KnownStore], fallback: str = "") -> dict[str, Any]:
    """Describe the machine and the file system of `folder`, as columns of the table machines and
    more.

    `machine` identifies the machine by facts that stay the same from sweep to sweep. It includes a
    hash of the host's identity, or of `fallback`, so that two equal machines differ and no name is
    disclosed.
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
    memory = {"memory_bytes": round(fixed["memory_bytes"] / 2**30)}  # varies by boot
    identity = [fixed | memory, _host(fallback)]
    text = json.dumps(identity, sort_keys=True)
    return {
        "machine": hashlib.sha256(text.encode()).hexdigest()[:12],
        **fixed,
        "governor": GOVERNOR.read_text().strip() if GOVERNOR.exists() else "not readable",
        "fsync_ms": fsync_milliseconds(folder),
        "proactive_reclaim": _proactive_reclaim(),
        "read_ahead_bytes": _read_ahead(folder),
        **_asked(disk.device),
        "python": platform.python_version(),
        "packages": _packages(),
        "engines": {store.full_name: store.version for store in stores.values() if store.available},
        "compiler": build_facts()["compiler"],
        "revision": build_facts()["revision"],
    }


def conditions(folder: Path, stores: dict[str, KnownStore]) -> dict[str, Any]:
    """The part of the description that belongs in each row of tables that no sweep writes."""
    found = describe(folder, stores)
    names = ("machine", "cpu", "cores", "kernel", "file_system", "compiler", "revision")
    return {name: found[name] for name in names}


def _writeback_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    line = next(line for line in lines if line.startswith("Writeback:"))
    return int(line.split()[1]) * 1024


def settle(folder: Path) -> float:
    """Wait until the device has written the data of earlier cells. Returns the seconds waited."""
    start = time.monotonic()
    sync_file_system(folder)
    while _writeback_bytes() > 0 and time.monotonic() - start < SETTLE_LIMIT:
        time.sleep(0.01)
    return time.monotonic() - start
