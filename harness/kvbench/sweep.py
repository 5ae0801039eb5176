"""A sweep measures the cells of a grid, one process a cell, and goes on where it stopped."""

import datetime
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from kvbench import BadInput, machine, stores
from kvbench.control_group import capped, refused
from kvbench.estimate import seconds
from kvbench.grid import LEVELS, UNCAPPED, Cell, Grid, parse_bytes
from kvbench.results import Folder, cell_name
from kvbench.workload import NEEDS, parse

TMPFS = Path("/dev/shm")
TIME_LIMIT = 3600.0  # seconds a cell may take
# NumPy's library for linear algebra starts a thread for each core, which spin for a while.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
MANY_FILES = 100_000  # take long enough to remove that the user is told
RECENTLY_REMOVED = (
    "files removed here in the last six minutes (a million of them: in the last half hour) slow "
    "down the stores of files; let the disk rest before a sweep that counts"
)
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


class _Shelf:
    """The folders of the stores that were measured, kept until the sweep ends.

    Removing them at once would spoil what follows: ext4 without a journal shuns the inode of a
    removed file for a minute to six, and so makes the next store create its files more and more
    slowly (seen: 50 us a file rising to 600 us over four minutes). They go early only when they
    take more than half of the space, or of the inodes, that was free.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.empty()
        self._limit = self._free()

    def _free(self) -> tuple[int, int]:
        free = os.statvfs(self.folder)
        return free.f_bavail * free.f_frsize, free.f_favail

    def place(self, name: str, cell: Cell) -> tuple[Path, int]:
        """A new empty folder, and how many files had to be removed for it."""
        bytes_, inodes = self._free()
        removed = 0
        # Every engine may need several times the live bytes for a while; inode 0: no limit known.
        short = bytes_ - 4 * cell.live_bytes < self._limit[0] / 2
        if short or (self._limit[1] and inodes - 2 * cell.records < self._limit[1] / 2):
            removed = self.empty()
        (self.folder / name).mkdir()
        return self.folder / name, removed

    def empty(self) -> int:
        """Remove what is there. Returns the number of files."""
        removed = self.clear()
        self.folder.mkdir()
        return removed

    def clear(self) -> int:
        """Remove all, the folder itself too, following no link. Returns the number of files."""
        count = sum(len(files) for _, _, files in os.walk(self.folder))
        if count > MANY_FILES:
            print(f"removing {count:,} files of stores that were measured", file=sys.stderr)
        if self.folder.exists():
            shutil.rmtree(self.folder)
        return count


def _reason(process: subprocess.Popen[str], errors: str) -> str:
    """Why a worker gave no answer."""
    code = process.returncode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    last = (errors.strip().splitlines() or [""])[-1]
    return f"worker ended without an answer: {how}" + (f": {last[:200]}" if last else "")


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
    process = subprocess.Popen(
        [sys.executable, "-m", "kvbench.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | ENVIRONMENT,
        start_new_session=True,
    )
    try:
        answer, errors = process.communicate(json.dumps(task), timeout=time_limit)
    except subprocess.TimeoutExpired:
        return {"status": "failed", "reason": f"took longer than {time_limit:g} s"}
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    try:
        result: dict[str, Any] = json.loads(answer)
    except ValueError:
        return {"status": "failed", "reason": _reason(process, errors)}
    return result


class Sweep:
    """The cells of a grid in a results folder, done and to do."""

    def __init__(self, grids: Sequence[Grid], out: Path, retry: bool = False) -> None:
        self.grids, self.out = tuple(grids), out
        self.stores = stores.known()
        self.retry = retry
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
        with _lock(self.out):
            folder.clear_leftovers()
            name = hashlib.sha256(str(self.out.resolve()).encode()).hexdigest()[:12]
            places = {"disk": self.out / "stores", "tmpfs": TMPFS / f"kvbench-{name}"}
            shelves = {name: _Shelf(place) for name, place in places.items()}
            try:
                description = machine.describe(self.out, self.stores)
                todo = self.todo(folder, description["machine"])
                for grid in self.grids:
                    folder.add_grid(grid)
                if todo:
                    folder.add_machine(description)
                    if description["file_system"] == machine.NO_JOURNAL:
                        print(f"{machine.NO_JOURNAL}: {RECENTLY_REMOVED}", file=sys.stderr)
                costs = [0 if why else seconds(c, description["fsync_ms"]) for _, c, why in todo]
                with tqdm(total=sum(costs), bar_format=BAR, disable=not todo) as bar:
                    for done, ((name, cell, why), cost) in enumerate(
                        zip(todo, costs, strict=True), start=1
                    ):
                        bar.set_postfix_str(str(cell))
                        result = self._finish(
                            name, cell, why, description, shelves[cell.place], time_limit
                        )
                        folder.write(name, result)
                        bar.set_description_str(f"{done}/{len(todo)}")
                        bar.update(min(cost, bar.total - bar.n))
            finally:
                for shelf in shelves.values():
                    shelf.clear()
            return self.counts(folder, description["machine"])

    def _finish(
        self,
        name: str,
        cell: Cell,
        why: str,
        description: dict[str, Any],
        shelf: _Shelf,
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
        settled = machine.settle(self.out)
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        start = time.monotonic()
        answer = run_cell(cell, place, time_limit)
        if cell.place == "tmpfs":
            shelf.empty()  # what it holds is memory, and no one is the slower for its going
        result |= {"removed_files": removed, "settle_s": settled, "started": started, **answer}
        return result | {"wall_s": time.monotonic() - start}

    def counts(self, folder: Folder, machine_id: str) -> Counter[str]:
        return Counter(
            folder.status(cell_name(cell, self.stores[cell.label], machine_id)) or "to do"
            for _, cell in self._cells()
        )
