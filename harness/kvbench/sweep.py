"""A sweep measures the cells of a grid, one process a cell, and goes on where it stopped."""

import datetime
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import psutil
from tqdm import tqdm

from kvbench import BadInput, how_it_ended, machine, stores
from kvbench.control_group import capped, refused
from kvbench.estimate import seconds
from kvbench.grid import LEVELS, TIME_LIMIT, UNCAPPED, Cell, Grid, parse_bytes
from kvbench.noise import Watch
from kvbench.results import Folder, NoAnswerError, answer_of, cell_name
from kvbench.shelf import Shelf, own_name
from kvbench.workload import NEEDS, parse

TMPFS = Path("/dev/shm")
# NumPy's library for linear algebra starts a thread for each core, which spin for a while.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
MARK = "KVBENCH_CELL"  # in the environment of a worker and of all that it starts
RECENTLY_REMOVED = (
    "files removed here in the last six minutes (a million of them: in the last half hour) slow "
    "down the stores of files; let the disk rest before a sweep that counts"
)
NO_SPACE = os.strerror(errno.ENOSPC)  # in the words of an engine
BAR = "{desc} |{bar}| {percentage:3.0f}% [{elapsed}, left {remaining}]{postfix}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One sweep a folder. The lock goes with the process, however that ends."""
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{folder}: another sweep is writing here; wait, or take another"
            ) from None
        yield


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Set by a first Ctrl-C, or a signal to terminate: the running cell is finished. A second one
    stops at once."""
    asked = threading.Event()

    def ask(_number: int, _frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        # Not print: the signal may come in the middle of one.
        os.write(2, b"\nstopping when the running cell is put down; once more: at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield asked  # signals are not for this thread
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number in before if before[number] != signal.SIG_IGN]  # as of nohup's kind
    for number in heard:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _memory_file(name: str) -> BinaryIO:
    return os.fdopen(os.memfd_create(name), "w+b")


def _content(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a worker with all that it started, be it in a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _end_marked(mark)


def marked(variable: str, mark: str) -> Iterator[psutil.Process]:
    """Running processes in whose environment the variable begins with the mark."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            own = process.environ().get(variable, "").startswith(mark)
            if own and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _end_marked(mark: str) -> None:
    for process in marked(MARK, mark):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _mark(shelf: Path) -> str:
    """Of all workers whose stores lie there, and of what they start."""
    return own_name(shelf)


def _unanswered(why: str, errors: str) -> dict[str, Any]:
    """The result of a worker that gave no answer, with the last that it wrote; but an engine that
    is out of space may say more after that."""
    lines = errors.strip().splitlines()
    last = [line for line in lines if NO_SPACE in line][-1:] or lines[-1:]
    return {"status": "failed", "reason": ": ".join([why, *(line[:200] for line in last)])}


def run_cell(cell: Cell, folder: Path, time_limit: float) -> dict[str, Any]:
    """Measure one cell in a process of its own, in a control group if its memory is capped."""
    if cell.memory_max == UNCAPPED:
        return _run_cell(cell, folder, time_limit, "")
    with capped(parse_bytes(cell.memory_max)) as group:
        answer = _run_cell(cell, folder, time_limit, str(group.members))
        if answer["status"] == "failed" and group.killed():
            answer["reason"] = f"needs more memory than its cap of {cell.memory_max}"
        return answer


def _run_cell(cell: Cell, folder: Path, time_limit: float, members: str) -> dict[str, Any]:
    task = {
        "cell": cell.factors(), "folder": str(folder), "parent": os.getpid(), "members": members
    }  # fmt: skip
    mark = f"{_mark(folder.parent)} {uuid.uuid4().hex}"
    # Files in memory and not pipes: a process that the engine started may hold on to a pipe.
    with _memory_file("answer") as answer, _memory_file("errors") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "kvbench.worker"],
            stdin=subprocess.PIPE,
            stdout=answer,
            stderr=errors,
            env=os.environ | ENVIRONMENT | {MARK: mark},
            start_new_session=True,
        )
        late = False
        try:
            process.communicate(json.dumps(task).encode(), timeout=time_limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            _end(process, mark)
        said, complaint = (_content(file) for file in (answer, errors))
    if late:
        return _unanswered(f"took longer than {time_limit:g} s", complaint)
    try:
        result = json.loads(said)
    except (ValueError, RecursionError):
        how = how_it_ended(process.returncode)
        return _unanswered(f"worker ended without an answer: {how}", complaint)
    try:
        return answer_of(result)
    except NoAnswerError as why:
        return {"status": "failed", "reason": f"worker gave no valid answer: {why}"}


class Sweep:
    """The cells of a grid in a results folder, done and to do."""

    def __init__(
        self, grids: Sequence[Grid], out: Path, retry: bool = False, place: Path | None = None
    ) -> None:
        """`place`: a folder in which the stores' folder is made; otherwise it is `out`."""
        self.grids, self.out, self.place = tuple(grids), out, place or out
        self.stores = stores.known()
        self.retry = retry
        self.stopped = False  # by an interrupt, with cells to do
        self._places = {
            "disk": place / own_name(out) if place else out / "stores",
            "tmpfs": TMPFS / own_name(out),
        }
        self._check_options()

    def _check_options(self) -> None:
        """Refuse an engine's own option that its store does not have."""
        for name, text in (pair for grid in self.grids for pair in grid.options):
            store = self.stores[name]
            own = {setting.name for setting in store.settings} - set(LEVELS)
            for option in (pair.split("=", 1)[0] for pair in text.split(", ") if pair):
                if store.available and option not in own:
                    raise BadInput(
                        f"options: {name} has no option {option!r}; allowed: "
                        f"{', '.join(sorted(own)) or 'none'}"
                    )

    def plan(self) -> Iterator[tuple[Cell, str]]:
        """Each cell with the reason to skip it, if there is one."""
        for grid, cell in self._cells():
            yield cell, grid.skip_reason(cell) or self._lacks(cell)

    def _cells(self) -> list[tuple[Grid, Cell]]:
        """Each once, the first trial of all grids before the second of any."""
        found = {cell: grid for grid in self.grids for cell in grid.cells()}
        pairs = ((grid, cell) for cell, grid in found.items())
        return sorted(pairs, key=lambda pair: pair[1].trial)

    def _lacks(self, cell: Cell) -> str:
        """Which level of the cell its store or this machine lacks, and why."""
        store = self.stores[cell.label]
        if store.available:
            for name, level in cell.settings().items():
                if why := store.lacks(name, level):
                    shown = getattr(cell, name, level)
                    return f"{name}={shown}: {why}"
        for step in parse(cell.workload):
            needed = NEEDS.get(step.name, "")
            if store.available and needed and not store.can(needed, cell.settings()):
                return f"{step.name}: the store lacks {needed}"
        if cell.memory_max != UNCAPPED and (why := refused()):
            return f"memory_max={cell.memory_max}: {why}"
        return ""

    def todo(self, folder: Folder, machine_id: str) -> list[tuple[str, Cell, str]]:
        """Name, cell and skip reason of what has no result yet."""
        final = {"ok"} if self.retry else {"ok", "failed"}
        names = ((cell_name(c, self.stores[c.label], machine_id), c, why) for c, why in self.plan())
        return [
            (name, cell, why)
            for name, cell, why in names
            if (status := folder.status(name)) not in final
            and not (status == "skipped" and why)
            and not (status == "unavailable" and not self.stores[cell.label].available)
        ]

    def run(self, time_limit: float = TIME_LIMIT) -> Counter[str]:
        """Measure what has no result yet. Returns how many cells of the grid have which status."""
        folder = Folder.make(self.out)
        with _lock(self.out), _interruptible() as asked:
            for place in self._places.values():
                _end_marked(_mark(place))  # what a killed sweep's engines have started
            folder.clear_leftovers()
            folder.tables()  # what can't be read is told before hours of work, not after
            shelves = {name: Shelf(place) for name, place in self._places.items()}
            try:
                description = self._describe(shelves["disk"])
                todo = self.todo(folder, description["machine"])
                with self._writing():
                    for grid in self.grids:
                        folder.add_grid(grid)
                    if todo:
                        folder.add_machine(description)
                if todo and description["file_system"] == machine.NO_JOURNAL:
                    print(f"{machine.NO_JOURNAL}: {RECENTLY_REMOVED}", file=sys.stderr)
                costs = [0 if why else seconds(c, description["fsync_ms"]) for _, c, why in todo]
                with tqdm(total=sum(costs), bar_format=BAR, disable=not todo) as bar:
                    for done, ((name, cell, why), cost) in enumerate(
                        zip(todo, costs, strict=True), start=1
                    ):
                        if asked.is_set():
                            self.stopped = True
                            break
                        bar.set_postfix_str(str(cell))
                        shelf = shelves[cell.place]
                        result = self._finish(name, cell, why, description, shelf, time_limit)
                        self._put_down(folder, name, result, shelves.values())
                        bar.set_description_str(f"{done}/{len(todo)}")
                        bar.update(min(cost, bar.total - bar.n))
            finally:
                for shelf in shelves.values():
                    shelf.clear()
            return self.counts(folder, description["machine"])

    def _describe(self, shelf: Shelf) -> dict[str, Any]:
        try:
            return machine.describe(shelf.open(), self.stores)
        except OSError as error:
            raise BadInput(f"{shelf.folder}: no store can be made here: {error.strerror}") from None

    def _put_down(
        self, folder: Folder, name: str, result: dict[str, Any], shelves: Iterable[Shelf]
    ) -> None:
        """Write a result, if need be in the room of the stores that were measured."""
        with self._writing():
            try:
                folder.write(name, result)
            except OSError:
                for shelf in shelves:
                    shelf.clear()
                folder.write(name, result)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadInput(
                f"{self.out}: results can't be written: {error.strerror}; those that are there "
                "are kept, and the same command goes on once they can"
            ) from None

    def _finish(
        self,
        name: str,
        cell: Cell,
        why: str,
        description: dict[str, Any],
        shelf: Shelf,
        time_limit: float,
    ) -> dict[str, Any]:
        """The result of a cell: measured, or why not."""
        store = self.stores[cell.label]
        result = {
            "cell": cell.factors(),
            "guarantee": store.guarantee(cell.durability),
            "machine": description["machine"],
            "engine_version": store.version,
            "binding_version": store.binding_version,
            "checksum": stores.checksum(store) if store.available else "",
            "revision": description["revision"],
        }
        if why:
            return result | {"status": "skipped", "reason": why}
        if not store.available:
            return result | {"status": "unavailable", "reason": store.reason}
        place, removed = shelf.place(name, cell)
        try:
            settled = machine.settle(place)
        except OSError as error:
            reason = f"what was written before can't reach the disk: {error.strerror}"
            return result | {"status": "failed", "reason": reason}
        watch = Watch()
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        start = time.monotonic()
        answer = run_cell(cell, place, time_limit) | watch.row()
        if answer["status"] == "failed" and (shelf.full() or NO_SPACE in answer["reason"]):
            answer["reason"] = f"no space left on the disk: {answer['reason']}"
        if cell.place == "tmpfs":
            shelf.empty()  # what it holds is memory, and no one is the slower for its going
        result |= {"removed_files": removed, "settle_s": settled, "started": started, **answer}
        return result | {"wall_s": time.monotonic() - start}

    def counts(self, folder: Folder, machine_id: str) -> Counter[str]:
        return Counter(
            folder.status(cell_name(cell, self.stores[cell.label], machine_id)) or "to do"
            for _, cell in self._cells()
        )
