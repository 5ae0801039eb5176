"""Measures the cells of a grid, one process per cell, and continues where an earlier sweep
stopped."""

import dataclasses
import datetime
import errno
import functools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import psutil

from kvbench.cell.board import Board
from kvbench.cell.factors import LEVELS, SYNCED, UNCAPPED, Cell, parse_bytes
from kvbench.cell.filesystem import Mounted
from kvbench.cell.protocol import Task
from kvbench.cell.workload import parse
from kvbench.common.files import why_not
from kvbench.common.messages import BadInput, say
from kvbench.common.processes import STOPS, how_it_ended
from kvbench.common.progress import progress
from kvbench.experiment.decide import Means, field_of, needed
from kvbench.experiment.estimate import TIME_LIMIT, seconds
from kvbench.experiment.factors import title
from kvbench.experiment.grid import Grid
from kvbench.experiment.workload import closed, lacks
from kvbench.machine import loopback, served
from kvbench.machine.control_group import capped, refused
from kvbench.machine.description import (
    LIMITS,
    NO_JOURNAL,
    describe,
    fingerprint,
    fsync_milliseconds,
    in_memory,
    settle,
)
from kvbench.machine.noise import Watch, unsynced
from kvbench.machine.scratch import TMPFS, clear_dead, own_folder, scratch
from kvbench.machine.served import Delays
from kvbench.machine.shelf import OWNER, MountedShelf, Shelf, end_processes, lock, own_name
from kvbench.results.folder import FOLDERS, MARK, Begun, Folder, NoAnswerError, answer_of, cell_name
from kvbench.results.sittings import NONE, Earlier, levels_of
from kvbench.stores import catalogue
from kvbench.stores.identity import checksum
from kvbench.sweep import REPEATS
from kvbench.sweep.again import Trial, again, begun, trial_of
from kvbench.sweep.reach import reach
from kvbench.sweep.sampling import Disk, Memory

# NumPy's linear algebra library starts a thread per core, and these threads spin for a while.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
RECENTLY_REMOVED = (
    "files removed here in the last six minutes (a million of them: in the last half hour) slow "
    "down the stores that keep records as files; leave the disk idle before a sweep that counts"
)
WORTH_PROBING = 60  # expected seconds from which a sweep first measures the device's limits
NOT_PROBED = "not measured: the sweep was expected to take less than a minute (--probe)"
Todo = list[tuple[str, Cell, str]]  # the name, cell and skip reason of each cell
NO_SPACE = os.strerror(errno.ENOSPC)  # as engines report it


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets, so that the running cell is finished. A
    second one raises KeyboardInterrupt, and later ones are ignored during clean-up."""
    asked = threading.Event()

    def ask(_number: int, _frame: object) -> None:
        if asked.is_set():
            for number in heard:
                signal.signal(number, signal.SIG_IGN)
            raise KeyboardInterrupt
        asked.set()
        with suppress(OSError):  # print is not reentrant, and the signal may interrupt one
            os.write(2, b"\nstopping after the running cell; press Ctrl-C again to stop at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    heard = [number for number in before if before[number] != signal.SIG_IGN]  # under nohup, some
    for number in heard:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _memory_file(name: str) -> IO[bytes]:
    return os.fdopen(os.memfd_create(name), "w+b")


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _unanswered(why: str, errors: str) -> dict[str, Any]:
    """The result of a worker that gave no answer, with the last line of its errors. An engine that
    is out of space may print more lines after that error. A truncated traceback is ignored."""
    lines = [line for line in errors.strip().splitlines() if not line.startswith("Traceback")]
    last = [line for line in lines if NO_SPACE in line][-1:] or lines[-1:]
    return {"status": "failed", "reason": ": ".join([why, *(line[:200] for line in last)])}


def run_cell(
    cell: Cell, folder: Path, time_limit: float, owner: str = "", mounted: Mounted | None = None
) -> dict[str, Any]:
    """Measure one cell in a separate process, in a control group if its memory is capped.

    `owner` marks that process and all that it starts; see shelf.end_processes. `mounted` is the
    file system made for the stores that `folder` is on, if any.
    """
    uncapped = cell.memory_max == UNCAPPED
    with nullcontext() if uncapped else capped(parse_bytes(cell.memory_max)) as group:
        make_task = functools.partial(
            Task,
            factors=cell.factors(),
            store=catalogue.known()[cell.full_name],
            folder=str(folder),
            parent=os.getpid(),
            members=str(group.members) if group else "",
            mounted=mounted,
        )
        disk = Disk(folder, mounted is not None)
        answer = _answer(make_task, time_limit, owner or os.urandom(8).hex(), disk)
        if group and answer["status"] == "failed" and group.killed():
            answer["reason"] = f"needs more memory than its cap of {cell.memory_max}"
        return answer


def _answer(
    make_task: Callable[..., Task], time_limit: float, owner: str, disk: Disk
) -> dict[str, Any]:
    """The answer of a worker or how it ended, and what else the machine did."""
    # Files in memory, not pipes: a process that the engine started may keep a pipe open.
    with (
        _memory_file("answer") as answer,
        _memory_file("errors") as errors,
        _memory_file("board") as board,
    ):
        watch, memory = Watch(), Memory(Board(board.fileno()), disk)
        process = subprocess.Popen(
            [sys.executable, "-m", "kvbench.cell.worker"],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=errors,
            env=os.environ | ENVIRONMENT | {OWNER: owner},
            pass_fds=[board.fileno()],
            start_new_session=True,
        )
        late = False
        try:
            watch.follow(process.pid)
            memory.follow(process.pid)
            task = make_task(board=board.fileno())
            process.communicate(task.encode(), timeout=time_limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            end_processes(owner)  # including those in other sessions
            peaks = memory.columns()
        output, complaint = (_content(file) for file in (answer, errors))
    if late:
        result = _unanswered(f"took longer than {time_limit:g} s", complaint)
    else:
        result = _checked(output, process.returncode, complaint, disk)
    return result | watch.row() | peaks


def _checked(output: str, code: int, complaint: str, disk: Disk) -> dict[str, Any]:
    try:
        return answer_of(json.loads(output), disk.join)
    except (ValueError, RecursionError):
        how = how_it_ended(code)
        return _unanswered(f"worker ended without an answer: {how}", complaint)
    except NoAnswerError as why:
        return {"status": "failed", "reason": f"worker gave no valid answer: {why}"}


def _existing(path: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(found for found in (path, *path.absolute().parents) if found.exists())


class Sweep:
    """The cells of a grid in a results folder, measured and to be measured."""

    def __init__(
        self,
        grids: Sequence[Grid],
        out: Path,
        retry: bool = False,
        place: Path | None = None,
        fs: str | None = None,
        probe: bool | None = None,
        field: Cell | None = None,
        delays: Delays | None = None,
        repeats: int = REPEATS,
        before: Earlier = NONE,
    ) -> None:
        """`place` is the folder below which the stores are created (None: `out`). `fs` is the type
        of file system that is made there for them (None: none). `probe` says whether the device's
        limits are measured (None: once for each machine, if the sweep takes long). `field` is the
        only field to measure, as returned by decide.field_of (None: all). `delays` are those of the
        disk below `fs` (None: it is not slowed). `repeats` says how often a disturbed trial is
        measured again at most. `before` is what earlier sittings show: the
        fields that they decided are not measured."""
        self.grids, self.out, self.place, self.fs = tuple(grids), out, place or out, fs
        self.stores = catalogue.known()
        self.retry, self.probe, self.field, self.delays = retry, probe, field, delays
        self.repeats, self.before = repeats, before
        self.machine = ""  # the machine's identity, after run
        self._again: Counter[Trial] = Counter()  # how often trials are measured again
        self._at_first: dict[str, tuple[float, float]] = {}  # free bytes and inodes, by place
        self.stopped = False  # whether it stopped with cells left
        self.interrupted = False  # whether an interrupt did that
        self.reasons: Counter[tuple[str, str]] = Counter()  # cells by status and reason, after run
        self._check_options()
        self._check_caps()
        self._check_rates()

    def _check_options(self) -> None:
        """Raise BadInput for an engine option that its store lacks."""
        for name, text in (pair for grid in self.grids for pair in grid.options):
            store = self.stores[name]
            own = {setting.name for setting in store.settings} - set(LEVELS)
            for option in (pair.split("=", 1)[0] for pair in text.split(", ") if pair):
                if store.available and option not in own:
                    raise BadInput(
                        f"options: {name} has no option {option!r}; allowed: "
                        f"{', '.join(sorted(own)) or 'none'}"
                    )

    def _check_caps(self) -> None:
        """Raise BadInput for a memory cap above this machine's memory."""
        most = psutil.virtual_memory().total
        for cap in {cap for grid in self.grids for cap in grid.levels["memory_max"]} - {UNCAPPED}:
            if parse_bytes(cap) > most:
                raise BadInput(
                    f"memory_max: {cap!r} is more than the memory of this machine; "
                    f"allowed: {most >> 20} MiB at most"
                )

    def _check_rates(self) -> None:
        """Raise BadInput for a rate that the loop cannot reach here on the store that does
        nothing."""
        found: dict[Cell, float] = {}
        for grid in self.grids:
            sizes = grid.levels["record_size"]
            largest = dataclasses.replace(next(grid.cells()), record_size=max(sizes))
            for step in (step for text in grid.levels["workload"] for step in parse(text)):
                cell = dataclasses.replace(largest, workload=str(closed(step)))
                if (rate := step.get("rate", 0)) and cell not in found:
                    with scratch(Path(tempfile.gettempdir())):
                        found[cell] = reach(cell, closed(step))
                if rate and rate > found[cell]:
                    raise BadInput(
                        f"workloads: {str(step)!r}: on a store that does nothing, the harness "
                        f"does {found[cell]:,.0f} a second here; allowed: rate=N, N below that"
                    )

    def plan(self, done: Means | None = None) -> Iterator[tuple[Grid, Cell, str]]:
        """Yield each cell once, with its grid and the reason to skip it, which is empty if it is to
        be measured. The first trials of all grids come before any second one. Without `done`, these
        are all cells that may be needed. The fields of all grids are shuffled together, so that no
        part of a sweep always comes last."""
        grids = {
            cell: grid
            for grid in self.grids
            for cell in (grid.cells() if done is None else needed(grid, done))
            if self.field is None or field_of(cell) == self.field
            if not self.before.decided or levels_of(cell) not in self.before.decided
        }

        def turn(pair: tuple[Cell, Grid]) -> tuple[int, float]:
            cell, grid = pair
            field = random.Random(f"{grid.seed} {cell.trial} {field_of(cell)}")
            return cell.trial, field.random()

        for cell, grid in sorted(grids.items(), key=turn):
            yield grid, cell, grid.skip_reason(cell) or self._lacks(cell)

    def _lacks(self, cell: Cell) -> str:
        """The level of the cell that its store or this machine lacks, and why; empty if there is
        none."""
        store = self.stores[cell.full_name]
        if store.available:
            for name, level in cell.settings().items():
                if why := store.lacks(name, level):
                    shown = getattr(cell, name, level)
                    return f"{name}={shown}: {why}"
            for step in parse(cell.workload):
                if needed := lacks(step, lambda name: store.can(name, cell.settings())):
                    return f"{step.name}: the store lacks {needed}"
        if cell.memory_max != UNCAPPED and (why := refused()):
            return f"memory_max={cell.memory_max}: {why}"
        if cell.place == "tmpfs" and not os.access(TMPFS, os.W_OK | os.X_OK):
            return f"place=tmpfs: no folder can be made in {TMPFS}"
        if cell.durability in SYNCED and cell.place == "disk" and self._memory:
            return f"durability={cell.durability}: no sync reaches a disk from {self._memory}"
        return self._too_large(cell)

    def _too_large(self, cell: Cell) -> str:
        """The reason why the data of a cell cannot fit, whatever the store does; empty if they may
        fit. A file system made for the stores is always large enough."""
        if self.fs and cell.place == "disk":
            return ""
        free, inodes = self._free(cell.place)
        if cell.compressibility == "incompressible" and cell.live_bytes > free:
            return f"{cell.live_bytes:,} B of data: {self._room(cell)}"
        if cell.store in loopback.FILES and cell.records > inodes:
            return f"{cell.records:,} files: {self._at(cell.place)} has {inodes:,} inodes free"
        return ""

    def _at(self, place: str) -> str:
        return "the stores' disk" if place == "disk" else str(TMPFS)

    def _room(self, cell: Cell) -> str:
        free, _ = self._free(cell.place)
        most = free * cell.records // cell.live_bytes
        return f"{self._at(cell.place)} has {free:,} B free, for {most:,} such records at most"

    def _free(self, place: str) -> tuple[float, float]:
        """The bytes and inodes that were free at the start, since kept stores reduce later numbers.
        Some file systems state no limit."""
        if place not in self._at_first:
            state = os.statvfs(self.nearest() if place == "disk" else TMPFS)
            free = state.f_bavail * state.f_frsize if state.f_blocks else math.inf
            self._at_first[place] = free, state.f_favail if state.f_files else math.inf
        return self._at_first[place]

    @functools.cached_property
    def _memory(self) -> str:
        """The file system or device that keeps the stores in memory; empty if they are on a
        disk."""
        with own_folder(self.nearest()) as (folder, _):
            return in_memory(folder)

    def _name(self, cell: Cell, machine_id: str) -> str:
        return cell_name(cell, self.stores[cell.full_name], machine_id)

    def _done(self, folder: Folder, machine_id: str) -> dict[Cell, dict[str, float]]:
        """The mean times of finished cells, which determine whether further cells are needed."""
        found = {}
        for grid in self.grids:
            if len(grid.looks()) > 1:
                for cell in grid.cells():
                    own = folder.means(self._name(cell, machine_id))
                    if own is not None:
                        found[cell] = own
        return found

    def _set_aside(self, folder: Folder) -> set[str]:
        """Set aside the results of trials that the host disturbed, which are measured again with
        all their stores. Returns the names of the cells."""
        plan = self.plan(self._done(folder, self.machine))
        names = {cell: self._name(cell, self.machine) for _, cell, _ in plan}
        found = {cell: folder.result(name) for cell, name in names.items()}
        results = {cell: result for cell, result in found.items() if result}
        before = begun(folder, self.machine)
        self._again, stale = again(names, results, before, self.repeats)
        with self._writing():
            for cell in stale:
                folder.put_aside(names[cell], self._again[trial_of(cell)])
        return {names[cell] for cell in stale}

    def todo(self, folder: Folder, machine_id: str) -> Todo:
        """The name, cell and skip reason of each cell that is needed and has no result."""
        final = {"ok"} if self.retry else {"ok", "failed"}
        plan = self.plan(self._done(folder, machine_id))
        names = ((self._name(cell, machine_id), cell, why) for _, cell, why in plan)
        return [
            (name, cell, why)
            for name, cell, why in names
            if (status := folder.outcome(name)[0]) not in final
            and not (status == "skipped" and why)
            and not (status == "unavailable" and not self.stores[cell.full_name].available)
        ]

    def run(self, time_limit: float = TIME_LIMIT, sitting: float = math.inf) -> Counter[str]:
        """Measure each cell that has no result, but begin none after `sitting` seconds. Returns the
        number of the grid's cells by status, and sets `reasons`. Raises BadInput."""
        end = time.monotonic() + sitting
        self.check()
        begun = Begun(self.out)
        folder = Folder.make(self.out)
        with lock(self.out / "lock"), _interruptible() as asked, begun:
            folder.clear_leftovers()
            with self._writing():
                identity = folder.identity()
            own = own_name(identity)
            disk = self.out / "stores" if self.place == self.out else self.place / own
            on_disk = (
                MountedShelf(disk, identity, self.fs, self.delays)
                if self.fs
                else Shelf(disk, identity)
            )
            shelves = {"disk": on_disk, "tmpfs": Shelf(TMPFS / own, identity)}
            self._at_first.clear()  # leftovers of a killed sweep have been removed
            try:
                description = self._describe(shelves["disk"], identity)
                self.machine = description["machine"]
                self._set_aside(folder)  # of an earlier sweep
                todo = self.todo(folder, self.machine)
                on_disk.reserve([cell for _, cell, why in todo if self._on_disk(cell, why)])
                costs = self._costs(todo, description)
                if todo:
                    description |= self._limits(
                        on_disk, folder.machine(description["machine"]), sum(costs)
                    )
                with self._writing():
                    for grid in self.grids:
                        folder.add_grid(grid)
                    if todo:
                        folder.add_machine(description)
                if todo and description["file_system"] == NO_JOURNAL:
                    say(f"{NO_JOURNAL}: {RECENTLY_REMOVED}")
                self.warn(cell for _, cell, why in todo if not why)
                tried: set[str] = set()  # cells tried so far, since some fail at every retry
                while todo and not self.stopped:
                    costs = self._costs(todo, description)
                    for name, cell, why in progress(todo, costs, lambda item: str(item[1])):
                        if asked.is_set() or time.monotonic() > end:
                            self.stopped, self.interrupted = True, asked.is_set()
                            break
                        shelf = shelves[cell.place]
                        result = self._finish(name, cell, why, description, shelf, time_limit)
                        self._write(folder, name, result, shelves.values())
                        tried.add(name)
                    if not self.stopped:  # else a stopped sweep would lack what it measured
                        tried -= self._set_aside(folder)
                    found = self.todo(folder, description["machine"])
                    todo = [item for item in found if item[0] not in tried]
            finally:
                for shelf in shelves.values():
                    shelf.clear()
            return self._count(folder, description["machine"])

    def _costs(self, todo: Todo, description: dict[str, Any]) -> list[float]:
        """The expected seconds of each cell."""
        fsync_ms = description["fsync_ms"]
        return [0.0 if why else self.cost(cell, fsync_ms) for _, cell, why in todo]

    def cost(self, cell: Cell, fsync_ms: float) -> float:
        """The expected seconds of a cell: as long as it took in earlier sittings, or else from the
        time of the device's fsync."""
        read_ms = self.delays.read / 1000 if self.delays else 0.0
        known = self.before.seconds(cell)
        return seconds(cell, fsync_ms, read_ms) if known is None else known

    def warn(self, cells: Iterable[Cell]) -> None:
        """Warn about cells that are to be measured: if the stores are not on a disk, and for each
        place about the largest cell whose data fit only if the store compresses them."""
        largest: dict[str, Cell] = {}
        available = (cell for cell in cells if self.stores[cell.full_name].available)
        for cell in sorted(available, key=lambda cell: cell.live_bytes):
            largest[cell.place] = cell
        if "disk" in largest and self._memory:
            say(
                f"{self.place}: no sync reaches a disk from {self._memory}: memory is measured, "
                "not a disk; name a folder on one with --stores or --out"
            )
        for place, cell in largest.items():
            own = self.fs and place == "disk"  # its size is chosen to suffice
            if not own and cell.live_bytes > self._free(place)[0]:
                why = f"{cell.live_bytes:,} B of data: it will fail unless it compresses them"
                say(f"{title(cell)}: {why}: {self._room(cell)}")

    def _on_disk(self, cell: Cell, why: str) -> bool:
        available = self.stores[cell.full_name].available
        return available and not why and cell.place == "disk"

    def check(self) -> None:
        """Raise BadInput if the sweep cannot begin. Leaves nothing behind, neither its own files
        nor those of a killed command."""
        clear_dead(self.out, self.place)
        Folder.refuse_foreign(self.out)
        if self.begun():
            Folder(self.out).tables()  # report unreadable results before hours of work
        for path in dict.fromkeys((self.out, self.place)):
            try:
                with own_folder(_existing(path)) as (folder, _):
                    fsync_milliseconds(folder, 1)
            except OSError as error:
                raise BadInput(f"{path}: can't be written: {why_not(error)}") from None
        if self.place == self.out:
            Shelf.refuse_foreign(self.out / "stores")
        if self.fs:
            loopback.check(self.fs, self.nearest())
            if self.delays:
                served.check(served.SLOW)
            self.file_system_bytes()

    def begun(self) -> bool:
        """Whether the results folder exists with all its subfolders; git does not keep empty
        ones."""
        return all((self.out / name).exists() for name in (MARK, *FOLDERS))

    def nearest(self) -> Path:
        """The folder of the stores, or its nearest existing parent."""
        return _existing(self.place)

    def file_system_bytes(self) -> int:
        """The size in bytes of the file system made for the stores of the whole grid. Raises
        BadInput if the disk is too small."""
        cells = [cell for _, cell, why in self.plan() if self._on_disk(cell, why)]
        left = self.out / "stores" / loopback.IMAGE  # left by a killed sweep
        had = left.stat().st_blocks * 512 if self.place == self.out and left.exists() else 0
        return loopback.size_for(cells, self.nearest(), had)

    def _describe(self, shelf: Shelf, identity: str) -> dict[str, Any]:
        try:
            return describe(shelf.open(), self.stores, identity)
        except OSError as error:
            why = why_not(error)
            raise BadInput(f"{shelf.folder}: no store can be made here: {why}") from None

    def _limits(self, shelf: Shelf, before: dict[str, Any], expected: float) -> dict[str, Any]:
        """The columns with the limits of the machine: those known `before`, or new measurements."""
        kept = {name: before[name] for name in LIMITS if name in before}
        wanted = "sync_p50_us" not in kept and expected > WORTH_PROBING
        if wanted if self.probe is None else self.probe:
            return fingerprint(shelf.open())
        return {"probe": NOT_PROBED} | kept

    def _write(
        self, folder: Folder, name: str, result: dict[str, Any], shelves: Iterable[Shelf]
    ) -> None:
        """Write a result. If the disk is full, remove the measured stores and write again."""
        with self._writing():
            try:
                folder.write(name, result)
            except OSError:
                for shelf in shelves:
                    shelf.empty()
                folder.write(name, result)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadInput(
                f"{self.out}: results cannot be written: {error.strerror}; those that are here are "
                "kept; once this is mended, the same command goes on"
            ) from None

    def _reached(self, cell: Cell) -> str:
        """The durability level that the cell has here: in memory, no level covers a power
        failure."""
        level = self.stores[cell.full_name].guarantee(cell.durability)
        volatile = cell.place == "tmpfs" or self._memory
        return "process" if volatile and level in ("recoverable", *SYNCED) else level

    def _finish(
        self,
        name: str,
        cell: Cell,
        why: str,
        description: dict[str, Any],
        shelf: Shelf,
        time_limit: float,
    ) -> dict[str, Any]:
        """The result of a cell: the measurement, or the reason why there is none."""
        store = self.stores[cell.full_name]
        result = {
            "cell": cell.factors(),
            "guarantee": self._reached(cell),
            "machine": description["machine"],
            "engine_version": store.version,
            "binding_version": store.binding_version,
            "checksum": checksum(store) if store.available else "",
            "revision": description["revision"],
            "repeated": self._again[trial_of(cell)],
        }
        if why:
            return result | {"status": "skipped", "reason": why}
        if not store.available:
            return result | {"status": "unavailable", "reason": store.reason}
        number = result["repeated"]  # the store of an earlier time may be there still
        place, removed = shelf.place(f"again-{number}_{name}" if number else name, cell)
        try:
            settled = settle(place)
        except OSError as error:
            reason = f"data of earlier cells cannot be written back: {error.strerror}"
            return result | {"status": "failed", "reason": reason}
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        start = time.monotonic()
        answer = run_cell(cell, place, time_limit, shelf.owner, shelf.mounted)
        if answer["status"] == "failed" and (shelf.full() or NO_SPACE in answer["reason"]):
            answer["reason"] = f"no space left on the disk: {answer['reason']}"
        if answer["status"] == "ok" and cell.batch <= 1:
            answer["reason"] = unsynced(result["guarantee"], answer["operations"])
        if cell.place == "tmpfs":
            shelf.empty()  # frees memory; removal in memory does not disturb later cells
        result |= {"removed_files": removed, "settle_s": settled, "started": started, **answer}
        return result | {"wall_s": time.monotonic() - start}

    def results(self, folder: Folder) -> dict[str, dict[str, Any]]:
        """The results of all cells by name, after run."""
        plan = self.plan(self._done(folder, self.machine))
        names = (self._name(cell, self.machine) for _, cell, _ in plan)
        found = {name: folder.result(name) for name in names}
        return {name: result for name, result in found.items() if result}

    def _count(self, folder: Folder, machine_id: str) -> Counter[str]:
        plan = self.plan(self._done(folder, machine_id))
        names = (self._name(cell, machine_id) for _, cell, _ in plan)
        self.reasons = Counter(map(folder.outcome, names))
        counts: Counter[str] = Counter()
        for (status, _), number in self.reasons.items():
            counts[status] += number
        return counts
