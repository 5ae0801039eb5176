"""Tests what each durability level does from outside: counts sync calls, kills processes, and
simulates power failures.

At `sync` a store must issue at least one sync call per write; at `none` and `process` it must issue
none; at `recoverable` it may do either. The sync calls per write are the difference between two
runs that differ only in the number of writes. Below `sync` an engine may still sync when it flushes
a buffer; a third run, long enough for that, counts those calls. A sync also commits the file
system's journal if a file became longer or a name changed. Two runs on a disk of their own count
the commits.
"""

import contextlib
import fcntl
import functools
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT, SYNCED, WHOLE
from kvbench.cell.filesystem import unmount
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.common.processes import dying, how_it_ended, uninterrupted
from kvbench.durability.strace import Trace
from kvbench.durability.traced import CALLS, SYNCS, Traced
from kvbench.durability.writer import replay
from kvbench.machine.shelf import OWNER, end_processes
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore
from kvbench.stores.opened import open_store

SHORT, LONG = 1000, 2000  # writes
SIZE = 100  # bytes of a value at most
FLUSHED, FLUSHED_SIZE = 4000, 100_000  # over 100 MB of values, enough to flush any buffer
IMAGE = 256 << 20  # bytes of the disk image that is copied
CRASHES = 20  # of each kind at each level
CRASHED = ((100, 3000), (4000, 2000), (100_000, 400))  # bytes at most, writes at most
CHECK_LIMIT = 60  # seconds: an engine may hang on what a crash has left
POLL = 0.001  # seconds between two polls of a writer
EXT4_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2  # ext4's ioctl for crash tests
STORE = "store"  # the folder of a store on a disk
MORE = 100_000  # writes planned beyond the interruption
Times = npt.NDArray[np.uint64]
Crash = Callable[..., int]


class Stopped(NamedTuple):
    """A writer that was stopped by a signal."""

    process: subprocess.Popen[str]
    returned: Times  # when each of its acknowledged writes returned, in ns
    at: int  # when the signal was sent, in ns


Write = Callable[[Path, signal.Signals], Stopped]  # writes into the folder until it gets the signal
Look = Callable[[Path], object]  # looks at the store's folder before it is yielded


def command_of(module: str, store: Store, folder: Path, *more: object, **options: str) -> list[str]:
    """The command line that runs a module of this package on a store in a folder."""
    pairs = [f"{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", module, str(folder), store.full_name, *map(str, more), *pairs]


def count_syncs(store: Store, place: Path, count: int, size: int, **options: str) -> Counter[str]:
    """Run `count` writes under strace. Returns the number of calls by name: the sync calls, and as
    O_DSYNC the calls that write and sync."""
    with (
        tempfile.TemporaryDirectory(dir=place) as folder,
        tempfile.TemporaryDirectory() as aside,
        tempfile.TemporaryFile() as errors,
    ):
        done, traced = Path(aside) / "done", Traced()
        command = command_of(
            "kvbench.durability.writer", store, Path(folder), count, size, done, **options
        )
        with Trace(command, CALLS, stdout=subprocess.DEVNULL, stderr=errors) as trace:
            for event in trace:
                traced.take(event)
        if trace.status or trace.cut:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()[-300:]
            raise BadInput(f"{store.full_name} {options}: {said or how_it_ended(trace.status)}")
        return Counter({call: traced.calls[call] for call in SYNCS if traced.calls[call]})


def syncs_per_write(store: Store, place: Path, **options: str) -> dict[str, float]:
    """The sync calls per write by name; calls whose number does not depend on the writes cancel
    out."""
    short, long = (count_syncs(store, place, count, SIZE, **options) for count in (SHORT, LONG))
    slopes = {call: (long[call] - short[call]) / (LONG - SHORT) for call in long}
    return {call: slope for call, slope in slopes.items() if slope != 0}


def count_commits(store: Store, place: Path, count: int, **options: str) -> int:
    """Run `count` writes on a new ext4. Returns the number of transactions that its journal
    committed meanwhile. Needs root."""
    with tempfile.TemporaryDirectory(dir=place) as aside:
        image = Path(aside) / "image"
        make_image(image, IMAGE)
        with mounted(image, Path(aside) / "mounted") as folder:
            (folder / STORE).mkdir()
            os.sync()  # else the writer commits what the mount has left
            before = _transactions(folder)
            done = Path(aside) / "done"
            run_apart(
                command_of(
                    "kvbench.durability.writer", store, folder / STORE, count, SIZE, done, **options
                )
            )
            return _transactions(folder) - before


def _transactions(folder: Path) -> int:
    """How many transactions the journal of an ext4 has committed since it was mounted."""
    number = os.stat(folder).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    (info,) = Path("/proc/fs/jbd2").glob(f"{device}-*/info")
    return int(info.read_text().split(maxsplit=1)[0])


def commits_per_write(store: Store, place: Path, **options: str) -> float:
    """The commits of the file system's journal per write. Needs root."""
    short, long = (count_commits(store, place, count, **options) for count in (SHORT, LONG))
    return (long - short) / (LONG - SHORT)


def interrupt(
    command: list[str], trace: Path, count: int, due: Callable[[Times], bool], stop: signal.Signals
) -> Stopped:
    """Start a writer of `count` writes, and send it a signal once `due` is true of the times at
    which its writes returned."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **dying()
    )
    try:
        while process.poll() is None and not (trace.exists() and trace.stat().st_size == count * 8):
            time.sleep(POLL)
        returned: Times = np.zeros(count, np.uint64)
        if process.poll() is None or trace.exists():
            returned = np.memmap(trace, np.uint64, "r", shape=count)
            while process.poll() is None and not due(returned):
                time.sleep(POLL)
        sent = time.monotonic_ns()
        if process.poll() is None:  # otherwise it has ended
            process.send_signal(stop)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    except BaseException:  # Ctrl-C: a running writer would prevent unmounting
        process.kill()
        process.communicate()
        raise
    if process.poll() not in (None, 0, -signal.SIGKILL):
        errors = process.communicate()[1].strip()
        raise StoreError(errors[-300:] or f"exit status {process.returncode}")
    done = int(np.argmin(returned != 0)) if (returned == 0).any() else count
    times = np.array(returned[:done])
    return Stopped(process, times, max(sent, int(times[-1]) if done else 0))


def _overlook(_folder: Path) -> None:
    pass


@contextlib.contextmanager
def killed(folder: Path, write: Write, look: Look = _overlook) -> Iterator[tuple[Path, Stopped]]:
    """Kill a process that writes into a folder; yield the folder and the writer."""
    stopped = write(folder, signal.SIGKILL)
    stopped.process.communicate()
    look(folder)
    yield folder, stopped


def shut_down(folder: Path) -> None:
    """Shut an ext4 file system down: it writes nothing more to its device, not even its journal."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _cold(image: Path, look: Look) -> Iterator[Path]:
    """Mount an image, and yield the store's folder in it, of which nothing is in the page cache.
    What `look` reads is evicted again."""
    for looks in (True, False) if look is not _overlook else (False,):
        with open(image, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mounted(image, image.with_name("again")) as folder:
            if looks:
                look(folder / STORE)
            else:
                yield folder / STORE


@contextlib.contextmanager
def closed(image: Path, write: Write, look: Look = _overlook) -> Iterator[tuple[Path, Stopped]]:
    """Wait until a process that writes into the folder of a disk has closed the store and ended;
    mount the disk anew, and yield the folder and the writer. Needs root."""
    with mounted(image, image.with_name("mounted")) as folder:
        stopped = write(folder / STORE, signal.SIGCONT)
        stopped.process.communicate()
    with _cold(image, look) as folder:
        yield folder, stopped


@contextlib.contextmanager
def cut_off(image: Path, write: Write, look: Look = _overlook) -> Iterator[tuple[Path, Stopped]]:
    """Copy the disk while a process writes into its folder; yield the folder in the copy and the
    writer. Needs root.

    The disk is an image with ext4 and a journal. The writer is stopped and the file system shut
    down before the copy, so the copy holds what had reached the device at one moment, and nothing
    that was only in the page cache. Nothing of the copy is in the page cache afterwards, as after a
    reboot.
    """
    copy = image.with_name("copy")
    with mounted(image, image.with_name("mounted")) as folder:
        stopped = write(folder / STORE, signal.SIGSTOP)
        try:
            shut_down(folder)
            copy_of(image, copy)
        finally:
            stopped.process.kill()
            stopped.process.communicate()
    with _cold(copy, look) as folder:
        yield folder, stopped
    copy.unlink()


def _writer(store: Store, acknowledged: int, size: int, **options: str) -> Write:
    """A function that writes until at least `acknowledged` writes have returned."""

    def write(folder: Path, stop: signal.Signals) -> Stopped:
        with tempfile.TemporaryDirectory() as aside:
            trace, count = Path(aside) / "done", acknowledged + MORE
            command = command_of(
                "kvbench.durability.writer", store, folder, count, size, trace, **options
            )
            return interrupt(command, trace, count, lambda done: done[acknowledged - 1] != 0, stop)

    return write


def check_writes(store: Store, folder: Path, acknowledged: int, size: int, **options: str) -> None:
    """Open the store, and check what `acknowledged` writes must have left. Raises StoreError with
    the first record that is missing or wrong.

    The interrupted write may be present or not. If a crash may tear an update, the record of that
    write may hold anything.
    """
    *done, (key, value) = replay(acknowledged + 1, size)
    expected: dict[bytes, set[bytes | None]] = {key: {value} for key, value in done}
    expected.setdefault(key, {None}).add(value)
    torn = catalogue.known()[store.full_name].tears and options.get("durability") not in WHOLE
    if torn and value is not None:
        del expected[key]
    opened = open_store(store, folder, **options)
    try:
        for key, allowed in expected.items():
            found = opened.get(key)
            if found not in allowed:
                what = "is missing" if found is None else f"holds {len(found)} other bytes"
                raise StoreError(f"after {acknowledged:,} writes, record {key.hex()} {what}")
    finally:
        opened.close()


def run_apart(command: list[str], limit: float = CHECK_LIMIT, reboot: bool = False) -> str:
    """The last line that a program prints. It runs in a separate process, because an engine may
    crash or hang on a damaged store; with `reboot`, as after a reboot. Raises StoreError with that
    line if the program fails."""
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False, timeout=limit, **dying(reboot),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StoreError(f"not done within {limit} s") from None
    said = ended.stdout.strip().splitlines()[-1:]
    if ended.returncode:
        killed = [how_it_ended(ended.returncode)] if ended.returncode < 0 or not said else []
        raise StoreError(": ".join(said + killed))
    return "".join(said)


def _survive(
    crash: AbstractContextManager[tuple[Path, Stopped]], reboot: bool, store: Store, size: int,
    **options: str,
) -> int:  # fmt: skip
    """Check a store after a crash. Returns the number of writes that had returned."""
    with crash as (folder, stopped):
        count = len(stopped.returned)
        command = command_of("kvbench.durability.evidence", store, folder, count, size, **options)
        run_apart(command, reboot=reboot)
    return count


def survive_kill(store: Store, place: Path, acknowledged: int, size: int, **options: str) -> int:
    """Kill a writer after at least `acknowledged` writes, and check the writes that had returned.
    Returns their number. Raises StoreError if one is lost. `place` is an empty folder."""
    write = _writer(store, acknowledged, size, **options)
    return _survive(killed(place, write), False, store, size, **options)


def _must(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **dying())
    if done.returncode:
        raise BadInput(f"{command[0]}: {done.stderr.strip()}")


def copy_of(source: Path, target: Path) -> None:
    """Copy a file or a folder, and keep files sparse."""
    _must("cp", "--archive", os.fspath(source), os.fspath(target))


def make_image(image: Path, size: int) -> None:
    """Make an image with an empty file system of `size` bytes."""
    with open(image, "wb") as file:
        file.truncate(size)
    _must("mkfs.ext4", "-q", "-F", str(image))


@contextlib.contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """Mount the image at a new folder, which is removed at the end."""
    folder.mkdir()
    try:
        with uninterrupted():  # a mount program ended here might still mount it
            # Only a sync may write to the image; by default the journal commits every 5 s.
            _must("mount", "-o", "loop,commit=600", str(image), str(folder))
        yield folder
    except BaseException:  # Ctrl-C may come before the block that ends a program is entered
        if owner := os.environ.get(OWNER):
            with uninterrupted():
                end_processes(owner)
        raise
    finally:
        with uninterrupted():
            if folder.is_mount():
                unmount(str(folder))
            folder.rmdir()


@functools.cache  # asked once for each row of the table
def mounting_fails(place: Path) -> str:
    """The reason why no image can be mounted here; empty if one can."""
    for program in ("mkfs.ext4", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            make_image(Path(folder) / "image", 8 << 20)
            with mounted(Path(folder) / "image", Path(folder) / "mounted"):
                return ""
    except BadInput as error:
        return str(error)


def survive_power_loss(
    store: Store, place: Path, acknowledged: int, size: int, **options: str
) -> int:
    """Simulate a power failure after at least `acknowledged` writes, and check the writes that had
    returned; otherwise like survive_kill."""
    image = place / "image"
    make_image(image, IMAGE)
    with mounted(image, place / "mounted") as folder:
        (folder / STORE).mkdir()
    write = _writer(store, acknowledged, size, **options)
    return _survive(cut_off(image, write), True, store, size, **options)


def _survived(crash: Crash, store: Store, place: Path, **options: str) -> int:
    """The number of CRASHES crashes that lost nothing, each after another number of writes. Prints
    what the others lost, or why the store could not be checked."""
    choose, survived = random.Random(f"{store.full_name} {options}"), 0
    for _ in range(CRASHES):
        size, most = choose.choice(CRASHED)
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
            try:
                crash(store, Path(folder), choose.randint(1, most), size, **options)
                survived += 1
            except StoreError as error:
                tqdm.write(f"{store.full_name} {options}: {error}", file=sys.stderr)
    return survived


def levels(store: Store) -> list[str]:
    """The default and the durability levels that the store supports."""
    own = [s.value for s in store.settings if s.name == "durability" and s.means]
    return [DEFAULT, *own]


def evidence(store: KnownStore, level: str, place: Path) -> dict[str, Any]:
    """A row of the table for a store at a durability level. `place` is any folder."""
    options = {} if level == DEFAULT else {"durability": level}
    guarantee = store.guarantee(level)
    slopes = syncs_per_write(store, place, **options)
    below = guarantee not in SYNCED
    flushed = count_syncs(store, place, FLUSHED, FLUSHED_SIZE, **options) if below else None
    own = [s.means for s in store.settings if (s.name, s.value) == ("durability", level)]
    cut = not mounting_fails(place)
    return {
        "store": store.full_name,
        "engine_version": store.version,
        "durability": level,
        "guarantee": guarantee,
        "sets": "".join(own[:1]),
        "syncs_per_write": round(sum(slopes.values()), 3),
        "calls": ", ".join(f"{call} {slope:.2f}" for call, slope in sorted(slopes.items())),
        "background_syncs": None if flushed is None else flushed.total(),
        "commits_per_write": round(commits_per_write(store, place, **options), 3) if cut else None,
        "crashes": CRASHES,
        "survived_kill": _survived(survive_kill, store, place, **options),
        "survived_power_loss": (
            _survived(survive_power_loss, store, place, **options) if cut else None
        ),
    }


def main() -> None:
    folder, name, acknowledged, size, *pairs = sys.argv[1:]
    options = dict(pair.split("=", 1) for pair in pairs)
    try:
        check_writes(catalogue.known()[name], Path(folder), int(acknowledged), int(size), **options)
    except StoreError as error:
        print(error, flush=True)
        os._exit(1)
    os._exit(0)  # engines may leave threads behind


if __name__ == "__main__":
    main()
