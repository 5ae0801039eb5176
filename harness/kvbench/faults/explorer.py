"""The crash explorer: tries the states in which a power failure may leave a store's disk.

The crash model: a sector of 512 B is written entirely or not at all; a flush makes all writes that
completed before it durable; of the writes since the last flush any subset survives, and of each any
sectors. The file system is mounted after each failure, so its journal replays.

A store is loaded, closed and unmounted: this is on disk before. A writer then runs the steps of a
scenario on a disk that records its writes and flushes, and is killed, or closes the store. Each
state is made into an image, mounted, opened and read by a child process, and judged by what had
been acknowledged. From some states another writer goes on, and the states of a second power
failure, during recovery or after it, are judged as well.
"""

import csv
import errno
import functools
import io
import itertools
import json
import multiprocessing
import os
import random
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any, NamedTuple

import cramjam

from kvbench.cell.filesystem import unmount
from kvbench.common.files import read_whole, write_whole
from kvbench.common.messages import BadInput
from kvbench.common.processes import begin_worker, uninterrupted
from kvbench.faults import scenario
from kvbench.faults.apart import HANGS
from kvbench.faults.left import Left
from kvbench.faults.recording import (
    SIZE,
    STORE,
    Recording,
    Subject,
    check_room,
    load_unbooted,
    record,
    recording,
    run,
)  # fmt: skip
from kvbench.faults.scenario import CLAIMING, KINDS, PROBE, History, Scenario, Verdict
from kvbench.faults.states import Replayed, State, chosen, others, packed, tears, unpack
from kvbench.machine import loopback
from kvbench.machine.device import forget, mount, recorded
from kvbench.stores.opened import OpenStore

A_RECORDING = 500  # states of one recording at most; then another scenario is recorded
AGAIN = 0.05  # the share of states from which a writer goes on
FAILURES = 6  # second power failures for each of these
MORE = 40  # steps of the second writer
KEPT = 2  # violations of each kind that are minimised and kept, of each recording
MINIMISING, OF_A_HANG = 60, 6  # looks for one of them at most; a hang makes each of them long
MOST_HANGS = 20  # about: after these, a recording ends with fewer states
UNMOUNTED = "cannot be mounted"  # a fault of the file system, or of the explorer
ALL_KINDS = (*KINDS, UNMOUNTED)
MOST_KEPT = 1 << 30  # bytes of a kept state


class Failed(NamedTuple):
    """A power failure: the state that it left, and how the store fared."""

    state: State
    acknowledged: int
    verdict: Verdict
    lost: int = 0  # acknowledged steps, if a prefix of them is left
    lost_ms: float = 0  # from the first of these to the failure
    second: bool = False  # whether another failure came before
    torn: bool = False  # whether a block of 4 KiB survived in part
    left_out: int = -1  # parts of writes that did not survive, after minimising
    name: str = ""  # under which the state is kept


def works(opened: OpenStore) -> str:
    """Write a record and read it. Returns what is wrong; empty if nothing is."""
    value = b"and read again"
    if not opened.insert(PROBE, value):
        return "insert: the key exists"
    return "" if opened.get(PROBE) == value else "get: not what was inserted"


class Bench:
    """A file with a loop device, on which one state after another is mounted and looked at."""

    def __init__(self, subject: Subject, work: Path) -> None:
        self.subject, self.work = subject, work
        self.folder = work / "mounted"
        self.folder.mkdir(parents=True)
        self._image = work / "image"
        self._file = os.open(self._image, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self._file, SIZE)
        self._device = loopback.connect(self._image, direct=False)

    def look(
        self,
        fill: Callable[[int], None],
        keys: Sequence[bytes],
        then: Callable[[OpenStore], str] = works,
    ) -> Left | str:
        """What a store holds on the disk that `fill` writes to an open file, or why its file system
        cannot be mounted."""
        if loopback.backing(self._device) != os.path.realpath(self._image):
            raise OSError(errno.ENODEV, "taken by another program", self._device)
        forget(self._device)
        check_room(self.work)
        fill(self._file)
        try:
            mount(self._device, self.folder, self.subject.fs)
        except OSError as error:
            return os.strerror(error.errno or 0)
        try:
            left = self.subject.look(self.folder / STORE, keys, then, scan=True)
        finally:
            with uninterrupted():
                unmount(os.fspath(self.folder))
        check_room(self.work)
        return left

    def judged(self, fill: Callable[[int], None], history: History, acknowledged: int) -> Verdict:
        left = self.look(fill, history.keys)
        if isinstance(left, str):
            return Verdict(UNMOUNTED, left, False)
        return history.judge(left, acknowledged, self.subject.guarantee, self.subject.tears)


class Tried:
    """The states of one recording, on a bench. `counts` are the kept violations by kind, which the
    workers share; `keep` is the folder for them."""

    def __init__(
        self, bench: Bench, made: Recording, counts: "SynchronizedArray[int]", keep: Path,
        about: dict[str, Any],
    ) -> None:  # fmt: skip
        self._bench, self._made, self._counts = bench, made, counts
        self._keep, self._about = keep, about
        self._replayed = Replayed(made.base, made.log, made.epochs)

    def _judged(self, state: State) -> Failed:
        made, epoch = self._made, self._made.epochs[state.epoch]
        fill = functools.partial(self._replayed.image, state)
        verdict = self._bench.judged(fill, made.history, epoch.acknowledged)
        lost = max(0, epoch.acknowledged - verdict.prefix) if verdict.prefix >= 0 else 0
        first = made.returned[epoch.acknowledged - lost] if lost else epoch.time
        since = max(0, epoch.time - first) / 1e6
        torn = tears(epoch, state.kept)
        return Failed(state, epoch.acknowledged, verdict, lost, since, torn=torn)

    def failed(self, state: State) -> Failed:
        """Try a state. The first violations of each kind are minimised and kept."""
        found = self._judged(state)
        if not found.verdict.kind or not self._wanted(found.verdict.kind):
            return found
        return self._noted(self._minimised(found), self._about)

    def _noted(self, found: Failed, about: dict[str, Any]) -> Failed:
        """Keep a violation."""
        name = f"{about['name']}-{found.state.name}"
        about = about | {"acknowledged": found.acknowledged, "kind": found.verdict.kind}
        self._keep.mkdir(exist_ok=True)
        state = _kept(about, functools.partial(self._replayed.image, found.state))
        write_whole(self._keep / f"{name}.state", state)
        return found._replace(name=name)

    @property
    def hanging(self) -> bool:
        """Whether so many states have made the store hang that no more are tried."""
        return self._counts[ALL_KINDS.index(HANGS)] >= MOST_HANGS

    def _wanted(self, kind: str) -> bool:
        at = ALL_KINDS.index(kind)
        with self._counts.get_lock():
            self._counts[at] += 1
            return self._counts[at] <= KEPT

    def _minimised(self, found: Failed) -> Failed:
        """The same violation with as few parts of writes left out as a greedy search finds."""
        number = found.state.epoch
        epoch, best = self._made.epochs[number], found
        missing = others(epoch, found.state.kept)
        size, looks = len(missing), 0
        most = OF_A_HANG if found.verdict.kind == HANGS else MINIMISING
        while size := size // 2:
            at = 0
            while at < len(missing) and looks < most:
                fewer = missing[:at] + missing[at + size :]
                tried = self._judged(State(number, others(epoch, fewer), "minimised"))
                looks += 1
                if tried.verdict.kind == found.verdict.kind:
                    missing, best = fewer, tried
                else:
                    at += size
        return best._replace(left_out=len(missing))

    def again(self, first: Failed, work: Path) -> Iterator[Failed]:
        """Let a writer go on from a state, and yield what further power failures leave."""
        work.mkdir()
        try:
            yield from self._again(first, work)
        finally:
            shutil.rmtree(work)

    def _again(self, first: Failed, work: Path) -> Iterator[Failed]:
        subject, keys = self._bench.subject, self._made.history.keys
        base, disk = work / "base", work / "disk"
        for path in (base, disk):
            with open(path, "xb") as file:
                self._replayed.image(first.state, file.fileno())
        seed = f"{self._about['seed']} {first.state.name}"
        with recorded(disk, subject.fs, work / "recorded", MORE) as device:
            folder = device.folder / STORE
            then = functools.partial(_go_on, keys, seed, folder, device.acknowledged)
            left = subject.look(folder, keys, then)
        about = self._about | {"again": seed, "name": f"{self._about['name']}-{first.state.name}"}
        if verdict := _stopped(left):
            stuck = first._replace(verdict=verdict, second=True)
            yield self._noted(stuck, about) if self._wanted(verdict.kind) else stuck
            return
        history = second_history(self._made.history, left, first.acknowledged, seed)
        made = recording(base, device, history)
        values = [value.hex() if isinstance(value, bytes) else None for value in left.found]
        about |= {"first": first.acknowledged, "found": values}
        second = Tried(self._bench, made, self._counts, self._keep, about)
        for state in chosen(made.epochs, FAILURES, random.Random(seed)):
            found = second.failed(state)
            yield found._replace(second=True, torn=found.torn or first.torn)


def _go_on(
    keys: Sequence[bytes], seed: str, folder: Path, acknowledged: Path, opened: OpenStore
) -> str:
    """Take the steps of the second writer."""
    there = [opened.get(key) is not None for key in keys]
    choose = random.Random(seed)
    return run(_further(keys, there, seed), folder, acknowledged, choose, opened)


def _stopped(left: Left) -> Verdict | None:
    """The verdict on a second writer that could not take its steps."""
    unread = next((value for value in left.found if isinstance(value, str)), "")
    why = left.ended or left.refused or left.after or left.closing or unread
    return Verdict(scenario.AFTER, f"when a writer goes on: {why}", False) if why else None


def _further(keys: Sequence[bytes], there: Sequence[bool], seed: str) -> list[scenario.Step]:
    """The steps of a writer that goes on in a store that holds some of the keys."""
    live = list(itertools.compress(keys, there))
    dead = [key for key, here in zip(keys, there, strict=True) if not here]
    return scenario.steps(random.Random(seed), live, dead, MORE)


def second_history(first: History, left: Left, acknowledged: int, seed: str) -> History:
    """What a store may hold in which a writer went on after a power failure. Until that writer has
    written a record, it may still hold what the first failure might have left."""
    found = [value for value in left.found if not isinstance(value, str)]
    steps = _further(first.keys, [value is not None for value in found], seed)
    return History(first.keys, found, steps, (first, acknowledged))


# Kept states


def _kept(about: dict[str, Any], fill: Callable[[int], None]) -> bytes:
    """A state as bytes: what must be there, and the image."""
    file = os.memfd_create("state")
    try:
        fill(file)
        used, data = packed(file)
    finally:
        os.close(file)
    head = json.dumps(about | {"chunks": used}).encode()
    return head + b"\n" + bytes(cramjam.zstd.compress(data))


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """What is said of a kept state, and the bytes of its chunks. Raises BadInput."""
    try:
        head, _, image = read_whole(path, MOST_KEPT).partition(b"\n")
        return dict(json.loads(head)), bytes(cramjam.zstd.decompress(image))
    except OSError as error:
        known = sorted(file.stem for file in path.parent.glob("*.state"))
        allowed = ", ".join(known[:3]) or "none, since no state is kept there"
        raise BadInput(
            f"--replay: {path.stem!r:.90}: {error.strerror}; allowed: {allowed}"
        ) from None
    except (ValueError, TypeError, cramjam.DecompressionError):
        raise BadInput(f"--replay: {path}: not a kept state") from None


def replay(keep: Path, name: str, subject: Subject, work: Path) -> Verdict:
    """Look again at a state that was kept. Raises BadInput if it cannot be read, or is of another
    store, level or file system."""
    about, data = _read(keep / f"{name}.state")
    own = [about.get(key) for key in ("store", "durability", "fs")]
    if own != [subject.store.full_name, subject.level, subject.fs]:
        raise BadInput(f"--replay: {name!r:.90} is of {' '.join(map(str, own))}; name these")
    load_unbooted(subject.store)
    history = Scenario(about["seed"]).history()
    bench = Bench(subject, work / "bench")
    fill = functools.partial(unpack, SIZE, about["chunks"], data)
    try:
        if "again" in about and "found" not in about:  # the second writer failed
            returned = work / "returned"
            returned.write_bytes(bytes(8 * MORE))
            then = functools.partial(
                _go_on, history.keys, about["again"], bench.folder / STORE, returned
            )
            left = bench.look(fill, history.keys, then)
            if isinstance(left, str):
                return Verdict(UNMOUNTED, left, False)
            return _stopped(left) or Verdict()
        if "again" in about:
            found = Left(found=tuple(value and bytes.fromhex(value) for value in about["found"]))
            history = second_history(history, found, about["first"], about["again"])
        return bench.judged(fill, history, about["acknowledged"])
    finally:
        with uninterrupted():
            loopback.release(work)


# Exploring

_tried: Tried  # of a worker


def _begin(
    subject: Subject, work: Path, made: Recording, counts: "SynchronizedArray[int]", keep: Path,
    about: dict[str, Any], parent: int,
) -> None:  # fmt: skip
    """Prepare a worker."""
    global _tried  # noqa: PLW0603 - the only way in which a pool hands something on
    begin_worker(parent)
    bench = Bench(subject, work / f"worker-{os.getpid()}")
    _tried = Tried(bench, made, counts, keep, about)


def _one(task: tuple[State, Path | None]) -> list[Failed]:
    state, work = task
    if _tried.hanging:
        return []
    first = _tried.failed(state)
    if work is None or first.verdict.kind:
        return [first]
    return [first, *_tried.again(first, work)]


def explore(subject: Subject, seed: str, count: int, work: Path, keep: Path) -> dict[str, Any]:
    """Record one scenario, and try about `count` states. Returns a row of results, whose numbers
    can be added to those of other scenarios. Raises StoreError if the store fails without any power
    failure."""
    work.mkdir()
    load_unbooted(subject.store)
    try:
        return _explore(subject, seed, count, work, keep)
    finally:
        with uninterrupted():
            loopback.release(work)
            shutil.rmtree(work)


def _explore(subject: Subject, seed: str, count: int, work: Path, keep: Path) -> dict[str, Any]:
    made = record(subject, seed, work)
    choose = random.Random(f"{seed} states")
    on_from = round(count * AGAIN)
    states = chosen(made.epochs, count - on_from * FAILURES, choose)
    going_on = set(choose.sample(range(len(states)), min(on_from, len(states))))
    tasks = [
        (state, work / f"again-{at}" if at in going_on else None) for at, state in enumerate(states)
    ]
    context = multiprocessing.get_context("fork")
    counts = context.Array("i", len(ALL_KINDS))
    name = f"{subject.store.full_name.replace('/', '+')}-{subject.level}-{seed}".replace(" ", "-")
    about = {
        "name": name, "store": subject.store.full_name, "durability": subject.level,
        "fs": subject.fs, "seed": seed,
    }  # fmt: skip
    arguments = (subject, work, made, counts, keep, about, os.getpid())
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, _begin, arguments) as pool:
        try:
            found = [failed for part in pool.map(_one, tasks) for failed in part]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return row(subject, made, found)


def row(subject: Subject, made: Recording, found: Sequence[Failed]) -> dict[str, Any]:
    """The counts of one recording."""
    kinds = Counter(failed.verdict.kind for failed in found if failed.verdict.kind)
    torn = [failed for failed in found if failed.torn]
    prefixes = [failed for failed in found if failed.verdict.prefix >= 0]
    kept = {failed.name: failed for failed in found if failed.name}.values()
    return {
        "store": subject.store.full_name,
        "engine_version": subject.store.version,
        "durability": subject.level,
        "guarantee": subject.guarantee,
        "operations": len(made.returned),
        "writes": sum(len(epoch.writes) for epoch in made.epochs),
        "epochs": len(made.epochs),
        "states": len(found),
        "second": sum(failed.second for failed in found),
        "torn": len(torn),
        "violated_torn": sum(failed.verdict.kind in KINDS for failed in torn),
        "kinds": dict(kinds),
        "recoverable": sum(failed.verdict.recoverable for failed in found),
        "prefix": len(prefixes),
        "complete": sum(failed.verdict.prefix >= failed.acknowledged for failed in found),
        "lost": [failed.lost for failed in prefixes],
        "lost_ms": [round(failed.lost_ms, 3) for failed in prefixes],
        "kept": [
            {"name": one.name, "kind": one.verdict.kind, "detail": one.verdict.detail,
             "left_out": one.left_out}
            for one in kept
        ],
    }  # fmt: skip


def recordings(states: int) -> list[int]:
    """The number of states of each recording."""
    whole, rest = divmod(states, A_RECORDING)
    return [A_RECORDING] * whole + [rest] * (rest > 0)


def kept_states(out: Path) -> Path:
    """The folder of the states that belong to a table."""
    return out.with_name(f"{out.stem}.states")


def _summed(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table, from the rows of a store's recordings at a level."""
    total = {name: rows[0][name] for name in ("store", "engine_version", "durability", "guarantee")}
    total["recordings"] = len(rows)
    for name in ("operations", "writes", "epochs", "states", "second", "torn"):
        total[name] = sum(part[name] for part in rows)
    kinds: Counter[str] = Counter()
    for part in rows:
        kinds.update(part["kinds"])
    claims = total["guarantee"] in CLAIMING
    total["violations"] = sum(kinds[kind] for kind in KINDS) if claims else ""
    total["violations_torn"] = sum(part["violated_torn"] for part in rows)
    total |= {kind.replace(" ", "_"): kinds[kind] for kind in ALL_KINDS}
    for name in ("recoverable", "prefix", "complete"):
        total[name] = sum(part[name] for part in rows)
    for name in ("lost", "lost_ms"):
        values = [value for part in rows for value in part[name]]
        total[f"{name}_median"] = statistics.median(values) if values else ""
        total[f"{name}_most"] = max(values, default="")
    total["kept"] = " ".join(kept["name"] for part in rows for kept in part["kept"])
    return total


def table(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> bytes:
    """The table as CSV: a row for each store and level."""
    own: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for part in rows:
        own.setdefault((part["store"], part["durability"]), []).append(part)
    lines = [_summed(parts) | about for parts in own.values()]
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0] if lines else ["store"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue().encode()
