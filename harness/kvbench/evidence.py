"""What a level of durability does, seen from outside: syncs counted by strace.

The claim of `sync` is one sync a write at least, that of `none` and `process` none a write, seen
as the slope between two runs that differ only in their length. Below `sync` engines may still sync
now and then, as they flush a buffer: a third run, long enough for that, counts those.
"""

import contextlib
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvbench import BadInput, stores
from kvbench.contract import StoreError
from kvbench.factors import DEFAULT
from kvbench.stores import Store
from kvbench.writer import replay

SHORT, LONG = 1000, 2000  # writes
SIZE = 100  # bytes at most
FLUSHED, FLUSHED_SIZE = 4000, 100_000  # 100 MB of values and more: any buffer is flushed
IMAGE = 256 << 20  # bytes of the disk that is copied
CRASHES = 5  # of each kind a level
CRASHED = ((100, 3000), (4000, 2000), (100_000, 400))  # bytes at most, writes at most
CHECK_LIMIT = 20  # seconds: an engine may wait for ever on what a crash has left
MORE = 100_000  # writes that a writer has to do when it is interrupted
CALLS = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs", "sync")
TRACER = ("strace", "--follow-forks", "--seccomp-bpf", "--quiet=all", "--signal=none")


Crash = Callable[..., int]


def _arguments(options: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _writer(
    store: Store, folder: Path, count: int, size: int, trace: Path, options: dict[str, str]
) -> list[str]:
    """The command that writes into the store in `folder`; see writer.py."""
    task = [str(folder), store.name, str(count), str(size), str(trace), *_arguments(options)]
    return [sys.executable, "-m", "kvbench.writer", *task]


def tracing_fails() -> str:
    """Why syncs can't be counted here; empty when they can."""
    if shutil.which(TRACER[0]) is None:
        return "strace is not installed (Debian: strace)"
    tried = subprocess.run([*TRACER, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def count_syncs(store: Store, place: Path, count: int, size: int, **options: str) -> Counter[str]:
    """Each sync call of a run of `count` writes, and each open that makes every write synced.

    An msync that is not MS_SYNC and a sync_file_range that waits for nothing sync nothing.
    """
    with tempfile.TemporaryDirectory(dir=place) as folder, tempfile.TemporaryDirectory() as aside:
        calls, trace = ",".join((*CALLS, "open", "openat")), Path(aside) / "trace"
        command = _writer(store, Path(folder), count, size, Path(aside) / "done", options)
        done = subprocess.run(
            [*TRACER, f"--output={trace}", f"--trace={calls}", *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BadInput(f"{store.name} {options}: {done.stderr.strip()[-300:]}")
        found: Counter[str] = Counter()
        for line in trace.read_text(errors="replace").splitlines():
            match = re.match(r"\d+ +(\w+)\((.*)", line)
            if match is None:
                continue
            call, arguments = match.groups()
            if call in ("open", "openat"):
                found["O_DSYNC"] += bool(re.search(r"\bO_D?SYNC\b", arguments))
            elif call == "msync":
                found[call] += "MS_SYNC" in arguments
            elif call == "sync_file_range":
                found[call] += "WAIT_AFTER" in arguments
            else:
                found[call] += 1
        return +found


def _interrupt(
    store: Store, folder: Path, acknowledged: int, size: int, stop: signal.Signals,
    options: dict[str, str],
) -> tuple[subprocess.Popen[str], int]:  # fmt: skip
    """A writer, signalled in the middle of its writes, and how many of them had returned."""
    with tempfile.TemporaryDirectory() as aside:
        trace, count = Path(aside) / "done", acknowledged + MORE
        process = subprocess.Popen(
            _writer(store, folder, count, size, trace, options),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while process.poll() is None and not (trace.exists() and trace.stat().st_size == count * 8):
            pass
        if process.poll() is None or trace.exists():
            done = np.memmap(trace, np.uint64, "r", shape=count)
            while done[acknowledged - 1] == 0 and process.poll() is None:
                pass
        process.send_signal(stop)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if process.poll() not in (None, 0, -signal.SIGKILL):
            errors = process.communicate()[1].strip()
            raise StoreError(errors[-300:] or f"exit status {process.returncode}")
        return process, int(np.argmin(done != 0)) if (done == 0).any() else count


def check_writes(store: Store, folder: Path, acknowledged: int, size: int, **options: str) -> None:
    """Open the store and look for what `acknowledged` writes must have left.

    The write that was under way may be there or not; in a store that is known to tear one, its
    record may hold anything. A StoreError says what is missing.
    """
    *done, (key, value) = replay(acknowledged + 1, size)
    expected: dict[bytes, set[bytes | None]] = {key: {value} for key, value in done}
    expected.setdefault(key, {None}).add(value)
    torn = value is not None and not store.lacks("durability", "atomic")
    if torn and options.get("durability") != "atomic":
        del expected[key]
    opened = store.open(folder, **options)
    try:
        for key, allowed in expected.items():
            found = opened.get(key)
            if found not in allowed:
                what = "is missing" if found is None else f"holds {len(found)} other bytes"
                raise StoreError(f"after {acknowledged:,} writes, record {key.hex()} {what}")
    finally:
        opened.close()


def _check_apart(store: Store, folder: Path, acknowledged: int, size: int, **options: str) -> None:
    """The same in a process of its own: an engine may crash on what it finds, or hold on to it."""
    arguments = [str(folder), store.name, str(acknowledged), str(size), *_arguments(options)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kvbench.evidence", *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False, timeout=CHECK_LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StoreError(f"not open and read within {CHECK_LIMIT} s") from None
    if done.returncode:
        last = (done.stdout.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise StoreError(last)


def survive_kill(store: Store, place: Path, acknowledged: int, size: int, **options: str) -> int:
    """Kill a writer in the middle of its writes; what had returned must be there.

    Returns how many writes had. `place` is an empty folder.
    """
    process, count = _interrupt(store, place, acknowledged, size, signal.SIGKILL, options)
    process.communicate()
    _check_apart(store, place, count, size, **options)
    return count


@contextlib.contextmanager
def _mounted(image: Path, folder: Path) -> Iterator[None]:
    # Nothing reaches the image by the passing of time: the journal's own interval is 5 s.
    folder.mkdir()
    _must("mount", "-o", "loop,commit=600", str(image), str(folder))
    try:
        yield
    finally:
        _must("umount", str(folder))


def _must(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"{command[0]}: {done.stderr.strip()}")


@functools.cache  # asked once a row
def mounting_fails(place: Path) -> str:
    """Why no image can be mounted here; empty when it can."""
    for program in ("mkfs.ext4", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            _make_image(Path(folder) / "image", 8 << 20)
            with _mounted(Path(folder) / "image", Path(folder) / "mounted"):
                return ""
    except BadInput as error:
        return str(error)


def _make_image(image: Path, size: int) -> None:
    with open(image, "wb") as file:
        file.truncate(size)
    _must("mkfs.ext4", "-q", "-F", str(image))


def survive_power_loss(
    store: Store, place: Path, acknowledged: int, size: int, **options: str
) -> int:
    """Copy the disk in the middle of the writes; what had returned must be in the copy.

    The disk is an ext4 image with a journal; while its writer is stopped, the copy holds what had
    reached the device and not what was still in the page cache above it. Needs root. Returns how
    many writes had returned. `place` is an empty folder.
    """
    image, copy = place / "image", place / "copy"
    _make_image(image, IMAGE)
    with _mounted(image, place / "mounted"):
        folder = place / "mounted" / "store"
        folder.mkdir()
        os.sync()
        process, count = _interrupt(store, folder, acknowledged, size, signal.SIGSTOP, options)
        shutil.copyfile(image, copy)
        process.kill()
        process.communicate()
    with _mounted(copy, place / "again"):
        _check_apart(store, place / "again" / "store", count, size, **options)
    return count


def levels(store: Store) -> list[str]:
    """The levels of durability that a store has, after the one that it ships with."""
    own = [s.value for s in store.settings if s.name == "durability" and s.means]
    return [DEFAULT, *own]


def syncs_per_write(store: Store, place: Path, **options: str) -> dict[str, float]:
    """Of each sync call, the slope between SHORT and LONG writes; calls without one left out.

    O_DSYNC counts files opened so, whose every write is synced.
    """
    short, long = (count_syncs(store, place, count, SIZE, **options) for count in (SHORT, LONG))
    slopes = {call: (long[call] - short[call]) / (LONG - SHORT) for call in long}
    return {call: slope for call, slope in slopes.items() if slope != 0}


def _survived(crash: Crash, store: Store, place: Path, **options: str) -> int:
    """How many of CRASHES crashes lost nothing, each at another number of writes."""
    choose, survived = random.Random(f"{store.name} {options}"), 0
    for _ in range(CRASHES):
        size, most = choose.choice(CRASHED)
        with tempfile.TemporaryDirectory(dir=place) as folder, contextlib.suppress(StoreError):
            crash(store, Path(folder), choose.randint(1, most), size, **options)
            survived += 1
    return survived


def evidence(store: Store, level: str, place: Path) -> dict[str, Any]:
    """A row of the table: what a level of a store does and survives. `place` is any folder."""
    options = {} if level == DEFAULT else {"durability": level}
    guarantee = store.guarantee(level)
    slopes = syncs_per_write(store, place, **options)
    below = guarantee in ("none", "process")
    flushed = count_syncs(store, place, FLUSHED, FLUSHED_SIZE, **options) if below else None
    means = next(
        (s.means for s in store.settings if (s.name, s.value) == ("durability", level)), ""
    )
    return {
        "store": store.name,
        "engine_version": store.version,
        "durability": level,
        "guarantee": guarantee,
        "sets": means,
        "syncs_per_write": round(sum(slopes.values()), 3),
        "calls": ", ".join(f"{call} {slope:.2f}" for call, slope in sorted(slopes.items())),
        "background_syncs": sum(flushed.values()) if flushed is not None else None,
        "crashes": CRASHES,
        "survived_kill": _survived(survive_kill, store, place, **options),
        "survived_power_loss": (
            None
            if mounting_fails(place)
            else _survived(survive_power_loss, store, place, **options)
        ),
    }


def main() -> None:
    folder, name, acknowledged, size, *pairs = sys.argv[1:]
    options = dict(pair.split("=", 1) for pair in pairs)
    try:
        check_writes(stores.known()[name], Path(folder), int(acknowledged), int(size), **options)
    except StoreError as error:
        print(error, flush=True)
        os._exit(1)
    os._exit(0)  # engines may leave threads behind


if __name__ == "__main__":
    main()
