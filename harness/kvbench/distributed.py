"""A sweep over several hosts, by Dask.

A field's stores stay together: a task is a field with all its stores and trials, and a host does
one task at a time. A worker keeps what it measured in a folder below its own working directory, so
that it goes on where it was killed. What comes home are the same result files, which name the
machine that measured them.
"""

import asyncio
import concurrent.futures
import contextlib
import fcntl
import functools
import logging
import os
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.config
from distributed import Client, as_completed
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from kvbench import BadInput, say, stores
from kvbench.decide import Means, field_of, means, needed
from kvbench.factors import Cell
from kvbench.grid import Grid
from kvbench.progress import progress
from kvbench.results import Folder
from kvbench.shelf import CELL, lock
from kvbench.sweep import Sweep
from kvbench.tables import SCHEMA_VERSION

WORK, CORE_WORK = "kvbench-work", "kvbench-core"  # a worker's folders
CORE = "core"  # that of the core fields at home, in the folder of the results
RESOURCE = {"measure": 1}  # that each worker has once
TURN = "kvbench-measures.lock"  # held by the worker of a host that measures
CONNECT = 10  # seconds
LOST = (
    CommClosedError, OSError, TimeoutError, concurrent.futures.CancelledError,
    asyncio.CancelledError,
)  # fmt: skip
Task = Mapping[str, Any]

_opened: set[str] = set()  # on a worker: the runs whose first core fields it has measured


# --- On a worker


def measure(task: Task) -> dict[str, Any]:
    """Measure a field, and before the first one of a run the core fields, if there are any; a task
    without a field is the core fields once more. Returns the results that came about."""
    host = socket.gethostname()
    try:
        if task["schema"] != SCHEMA_VERSION:
            raise BadInput(
                f"results of schema version {task['schema']!r} are wanted; allowed: "
                f"{SCHEMA_VERSION}: install the same kvbench on all hosts"
            )
        with _turn():
            for name in dask.config.get("distributed.nanny.pre-spawn-environ", {}):
                os.environ.pop(name, None)  # a nanny changes how memory is allocated
            found: dict[str, Any] = {"host": host}
            field = field_of(Cell.from_factors(task["cell"])) if task["cell"] else None
            if task["core"] and (field is None or task["run"] not in _opened):
                found[CORE] = _core(task)
                _opened.add(task["run"])
            if field is not None:
                grids = _grids(task["grids"])
                found["field"] = _sweep(task, grids, Path.cwd() / WORK, field)
            return found
    except BadInput as error:
        raise BadInput(f"{host}: {error}") from None


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait until no other worker of this host measures."""
    path = Path(tempfile.gettempdir(), TURN)
    try:
        number = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        number = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _grids(values: Sequence[Mapping[str, Any]]) -> list[Grid]:
    return [Grid.from_values(dict(own), stores.names()) for own in values]


def _core(task: Task) -> dict[str, Any]:
    """One trial more of the core fields than the worker has."""
    folder = Path.cwd() / CORE_WORK
    trials = Folder(folder).trials() if folder.exists() else 0
    grids = _grids([dict(own) | {"trials": trials + 1} for own in task["core"]])
    return _sweep(task, grids, folder)


def _sweep(task: Task, grids: list[Grid], out: Path, field: Cell | None = None) -> dict[str, Any]:
    job = Sweep(grids, out, task["retry"], fs=task["fs"], field=field, probe=task["probe"])
    job.run(task["time_limit"])
    folder = Folder(out)
    return {"machine": folder.machine(job.machine), "results": job.results(folder)}


# --- At home


class Distributed:
    """The fields of a sweep, handed out to the workers of a scheduler."""

    def __init__(self, job: Sweep, address: str, core: Sequence[Grid], time_limit: float) -> None:
        self.job, self.address, self.core = job, address, core
        self.lost: dict[str, str] = {}  # fields without a result, and why
        self.counts: Counter[str] = Counter()  # results that came home, by status
        self._task = {
            "schema": SCHEMA_VERSION,
            "run": os.urandom(6).hex(),
            "grids": [grid.values() for grid in job.grids],
            "core": [grid.values() for grid in core],
            "fs": job.fs,
            "retry": job.retry,
            "probe": job.probe,
            "time_limit": time_limit,
        }

    def todo(self, folder: Folder) -> list[Cell]:
        """A cell of each field that no machine has measured whole, in the order of the plan."""
        final = {"ok", "skipped", "unavailable"} | (set() if self.job.retry else {"failed"})
        done: dict[str, dict[Cell, Mapping[str, float]]] = {}
        for result in folder.current().values():
            if result["status"] in final:
                own = done.setdefault(str(result.get("machine")), {})
                own[Cell.from_factors(result["cell"])] = means(result)
        fields = {field_of(cell): cell for _, cell, _ in reversed(list(self.job.plan()))}
        lacking = [self._lacking(own) for own in done.values()]
        left = [cell for field, cell in fields.items() if all(field in own for own in lacking)]
        return left[::-1]

    def _lacking(self, done: Means) -> set[Cell]:
        cells = (cell for grid in self.job.grids for cell in needed(grid, done))
        return {field_of(cell) for cell in cells if cell not in done}

    def run(self) -> None:
        """Measure what is left. Raises BadInput when the scheduler does not answer, or goes away;
        what came home by then is kept."""
        folder = Folder.make(self.job.out)
        core = Folder.make(self.job.out / CORE) if self.core else None
        logging.disable()  # what Dask would say of a lost scheduler, we say in one line
        with lock(self.job.out / "lock"):
            folder.clear_leftovers()
            fields = self.todo(folder)
            for kept, grids in ((folder, self.job.grids), (core, self.core)):
                for grid in grids:
                    assert kept  # there is a folder for the core fields if there are any
                    kept.add_grid(grid)
            if not fields:
                return
            with self._connected() as client:
                self._hand_out(client, fields, functools.partial(self._keep, folder, core))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Client]:
        try:
            client = Client(self.address, timeout=CONNECT, set_as_default=False)
        except (*LOST, ValueError) as error:
            raise BadInput(
                f"--scheduler: {self.address!r}: no scheduler answers ({error}); allowed: the "
                "address that `dask scheduler` prints"
            ) from None
        try:
            with client:
                yield client
        except LOST:
            raise BadInput(
                f"--scheduler: {self.address} went away; what came home is kept, and the workers "
                "keep what they have; the same command goes on"
            ) from None

    def _hand_out(self, client: Client, fields: Sequence[Cell], keep: Any) -> None:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if not any(set(RESOURCE) <= set(worker["resources"]) for worker in workers):
            say("no worker has the resource measure=1 yet; waiting for one")
        waiting = {self._submit(client, field): field for field in fields}
        arrived = as_completed(list(waiting), loop=client.loop)
        for _ in progress(fields, [1] * len(fields), lambda _: "fields"):
            future = next(arrived)
            field = waiting.pop(future)
            try:
                keep(future.result())
            except KilledWorker as error:
                self.lost[str(field_of(field))] = (
                    f"{error.allowed_failures + 1} workers were lost with it"
                )
            future.release()
        if self.core:
            found = client.scheduler_info(n_workers=-1)["workers"].items()
            able = [address for address, own in found if set(RESOURCE) <= set(own["resources"])]
            closing = [self._submit(client, None, address) for address in able]
            for future in as_completed(closing, loop=client.loop):
                keep(future.result())

    def _submit(self, client: Client, cell: Cell | None, worker: str | None = None) -> Any:
        task = self._task | {"cell": cell and cell.factors()}
        where = {"workers": [worker], "allow_other_workers": False} if worker else {}
        return client.submit(measure, task, resources=RESOURCE, pure=False, **where)

    def _keep(self, folder: Folder, core: Folder | None, found: Mapping[str, Any]) -> None:
        for name, kept in (("field", folder), (CORE, core)):
            if name not in found or kept is None:
                continue
            kept.add_machine(found[name]["machine"])
            for cell, result in found[name]["results"].items():
                if not re.fullmatch(f"[A-Za-z0-9._=+-]*{CELL.pattern}", cell) or "/" in cell:
                    raise BadInput(f"{found['host']}: {cell!r} is no cell's name")
                Cell.from_factors(result["cell"])
                if kept.outcome(cell)[0] in ("to do", "failed", "unavailable", "skipped"):
                    kept.write(cell, result)
                    self.counts[result["status"]] += kept is folder
