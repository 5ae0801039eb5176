"""Sweeps over several hosts, with Dask.

A task is a field with all its stores and trials, so they are measured on one host. A host executes
one task at a time. A worker keeps its results in a folder below its working directory, so that a
killed worker can continue. The home process receives the same result files, which name the machine
that measured them.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import re
import socket
import stat
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.config
from distributed import Client, Future, wait
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker

from kvbench.cell.factors import Cell
from kvbench.common.messages import BadInput, say
from kvbench.common.progress import progress
from kvbench.experiment.decide import Means, field_of, lacking, means, needed
from kvbench.experiment.factors import title
from kvbench.experiment.grid import Grid
from kvbench.machine.shelf import lock
from kvbench.results.folder import Folder, check_machine, check_result, readable_name
from kvbench.results.tables import SCHEMA_VERSION
from kvbench.stores import catalogue
from kvbench.sweep.again import repeated
from kvbench.sweep.sweep import Sweep

WORK, CORE_WORK = "kvbench-work", "kvbench-core"  # a worker's folders
CORE = "core"  # the folder of the core fields' results at home
RESOURCE = {"measure": 1}  # the resource that each worker provides once
TURN = "kvbench-measures.lock"  # the lock of the worker that measures on a host
CONNECT = 10  # seconds
GRACE = 60  # seconds for a field beyond the time limits of its cells
MOST_SHOWN = 150  # characters of a worker's message
LOST = (
    CommClosedError, OSError, TimeoutError, concurrent.futures.CancelledError,
    asyncio.CancelledError,
)  # fmt: skip
Task = Mapping[str, Any]
Kept = Mapping[str, Folder | None]  # where the results of "field" and CORE go

_opened: set[str] = set()  # on a worker: the runs for which it has measured core fields


# --- On a worker


def measure(task: Task) -> dict[str, Any]:
    """Measure the field of a task. The first task of a run on a worker also measures the core
    fields, if there are any, and a task without a field measures only these. Returns the host and
    the results. Raises BadInput."""
    host = socket.gethostname()
    try:
        if task["schema"] != SCHEMA_VERSION:
            raise BadInput(
                f"results of schema version {task['schema']!r} are wanted; allowed: "
                f"{SCHEMA_VERSION}: install the same kvbench on all hosts"
            )
        with _turn():
            for name in dask.config.get("distributed.nanny.pre-spawn-environ", {}):
                os.environ.pop(name, None)  # Dask's nanny changes the allocation of memory
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
    """Wait until no other worker of this host measures. Every user may write to the folder of the
    lock, so the lock is opened only if it is a regular file and not a link."""
    path = Path(tempfile.gettempdir(), TURN)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            number = os.open(path, flags)
        except FileNotFoundError:
            number = os.open(path, flags | os.O_CREAT, 0o644)
    except OSError as error:
        raise BadInput(f"{path}: cannot be locked: {error.strerror}; remove it") from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise BadInput(f"{path}: cannot be locked: not a file; remove it")
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _grids(values: Sequence[Mapping[str, Any]]) -> list[Grid]:
    return [Grid.from_values(dict(keys), catalogue.names()) for keys in values]


def _core(task: Task) -> dict[str, Any]:
    """Measure one more trial of the core fields than the worker has."""
    folder = Path.cwd() / CORE_WORK
    trials = Folder(folder).trials() if folder.exists() else 0
    grids = _grids([dict(own) | {"trials": trials + 1} for own in task["core"]])
    return _sweep(task, grids, folder)


def _sweep(task: Task, grids: list[Grid], out: Path, field: Cell | None = None) -> dict[str, Any]:
    keys = ("retry", "fs", "probe", "repeats")
    job = Sweep(grids, out, field=field, **{key: task[key] for key in keys})
    job.run(task["time_limit"])
    folder = Folder(out)
    return {"machine": folder.machine(job.machine), "results": job.results(folder)}


# --- At home


class Distributed:
    """Distributes the fields of a sweep to the workers of a scheduler."""

    def __init__(self, job: Sweep, address: str, core: Sequence[Grid], time_limit: float) -> None:
        self.job, self.address, self.core = job, address, core
        self.lost: dict[str, str] = {}  # fields without a result, with the reason
        self.counts: Counter[str] = Counter()  # received results by status
        self._cells, self._time_limit = self._by_field(), time_limit
        self._task = {
            "schema": SCHEMA_VERSION,
            "run": os.urandom(6).hex(),
            "grids": [grid.values() for grid in job.grids],
            "core": [grid.values() for grid in core],
            "fs": job.fs,
            "retry": job.retry,
            "repeats": job.repeats,
            "probe": job.probe,
            "time_limit": time_limit,
        }

    def _by_field(self) -> dict[Cell, list[list[Cell]]]:
        """The cells of each field, as one list for each grid."""
        found: dict[Cell, list[list[Cell]]] = defaultdict(lambda: [[] for _ in self.job.grids])
        for number, grid in enumerate(self.job.grids):
            for cell in grid.cells():
                found[field_of(cell)][number].append(cell)
        return found

    def todo(self, folder: Folder) -> list[Cell]:
        """One cell of each field that no machine has measured completely, in the order of the
        plan."""
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
        """Measure the remaining fields. Raises BadInput if the scheduler does not answer or
        disappears; received results are kept."""
        folder = Folder.make(self.job.out)
        core = Folder.make(self.job.out / CORE) if self.core else None
        logging.disable()  # replace Dask's log of a lost scheduler by one line
        with lock(self.job.out / "lock"):
            folder.clear_leftovers()
            fields = self.todo(folder)
            for kept, grids in ((folder, self.job.grids), (core, self.core)):
                for grid in grids:
                    assert kept  # it exists if there are core fields
                    kept.add_grid(grid)
            if not fields:
                return
            with self._connected() as client:
                self._hand_out(client, fields, {"field": folder, CORE: core})

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
            with client, client.as_current():  # wait() looks for the current one
                yield client
        except Exception as error:
            # The exception depends on what Dask was doing when it lost the scheduler.
            if isinstance(error, BadInput) or not (isinstance(error, LOST) or _gone(client)):
                raise
            raise BadInput(
                f"--scheduler: {self.address} went away; what came home is kept, and the workers "
                "keep what they have; the same command goes on"
            ) from None

    def _hand_out(self, client: Client, fields: Sequence[Cell], kept: Kept) -> None:
        if not _able(client):
            say("no worker has the resource measure=1 yet; waiting for one")
        waiting = {self._submit(client, cell): field_of(cell) for cell in fields}
        arrived = self._arrivals(client, waiting)
        for _ in progress(fields, [1] * len(fields), lambda _: "fields"):
            future, field = next(arrived)
            self._receive(client, future, title(field).lstrip(", "), field, kept)
        if self.core:
            closing = {self._submit(client, None, own): own for own in _able(client)}
            for future, address in self._arrivals(client, closing):
                self._receive(client, future, f"core fields of {address}", None, kept)

    def _arrivals(
        self, client: Client, waiting: dict[Future[Any], Any]
    ) -> Iterator[tuple[Future[Any] | None, Any]]:
        """Yield each future with its value when it is done. If none is done for longer than any
        field may take, although a worker was available, yield the remaining values with None
        instead of a future."""
        limit = self._longest() * self._time_limit + GRACE
        while waiting:
            there = _able(client)
            try:
                done = wait(list(waiting), timeout=limit, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                if there & _able(client):
                    break
                continue
            for future in done:
                yield future, waiting.pop(future)
        for value in waiting.values():
            yield None, value

    def _longest(self) -> int:
        """The largest number of cells that a worker measures for one task."""
        most = max(sum(map(len, parts)) for parts in self._cells.values())
        return most + sum(grid.size() for grid in self.core)

    def _receive(
        self, client: Client, future: Future[Any] | None, name: str, field: Cell | None, kept: Kept
    ) -> None:
        """Store the results of a worker, or the reason why there are none."""
        try:
            if future is None:
                raise BadInput(f"no worker answered within {self._time_limit:g} s a cell")
            self._keep(_answer(client, future), field, kept)
        except BadInput as error:
            self.lost[name] = str(error)
        finally:
            if future is not None:
                future.release()

    def _submit(self, client: Client, cell: Cell | None, worker: str | None = None) -> Future[Any]:
        task = self._task | {"cell": cell and cell.factors()}
        where = {"workers": [worker], "allow_other_workers": False} if worker else {}
        return client.submit(measure, task, resources=RESOURCE, pure=False, **where)

    def _keep(self, answer: Any, field: Cell | None, kept: Kept) -> None:
        """Store the valid results of an answer. Raises BadInput, which names what is invalid or
        missing."""
        try:
            found = json.loads(json.dumps(answer))  # plain values only
            host = str(found["host"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadInput(f"no valid answer: {error!s:.{MOST_SHOWN}}") from None
        wrong = []
        for name, asked in (("field", field), (CORE, None)):
            if name in found and (folder := kept[name]) is not None:
                try:
                    self._keep_part(found[name], asked, folder)
                except (BadInput, AttributeError, KeyError, TypeError) as error:
                    wrong.append(str(error))
        if field is not None and "field" not in found:
            wrong.append("no results")
        if wrong:
            raise BadInput(f"{host:.40}: {wrong[0]:.{MOST_SHOWN}}")

    def _keep_part(self, part: Any, field: Cell | None, kept: Folder) -> None:
        """Store the results of a field or, without it, of the core fields. Raises BadInput."""
        machine, results = part["machine"], part["results"]
        identity = check_machine(machine)
        asked = {_first(cell) for grid in self.core for cell in grid.cells()}
        if field is not None:
            asked = {cell for cells in self._cells[field] for cell in cells}
        done: dict[Cell, Mapping[str, float]] = {}
        wrong = []
        kept.add_machine(machine)
        for name, result in results.items():
            try:
                cell = check_result(name, result, machine)
                if (cell if field else _first(cell)) not in asked or cell in done:
                    raise BadInput(f"{name}: nobody asked for this cell")
                if not re.fullmatch(f"{re.escape(readable_name(cell))}_[0-9a-f]{{16}}", name):
                    raise BadInput(f"{name}: not the name of its cell")
                if result["machine"] != identity:
                    raise BadInput(f"{name}: not of the machine {identity}")
                done[cell] = means(result)
            except BadInput as error:
                wrong.append(str(error))
                continue
            before = kept.result(name) or {"status": "to do"}
            if before["status"] != "ok" or repeated(before) < repeated(result):
                kept.write(name, result)
                self.counts[result["status"]] += field is not None
        left = 0
        if field is not None:
            parts = zip(self._cells[field], self.job.grids, strict=True)
            left = len({cell for own, grid in parts for cell in lacking(own, grid, done)})
        if wrong or left:
            raise BadInput(
                "; ".join([f"{left} of its cells did not come"] * bool(left) + wrong[:1])
            )


def _first(cell: Cell) -> Cell:
    """The first trial of a cell: a host measures as many trials of the core fields as there were
    runs."""
    return dataclasses.replace(cell, trial=1)


def _gone(client: Client) -> bool:
    """Whether the scheduler no longer answers."""
    try:
        client.nthreads()
    except Exception:  # Dask raises various exceptions
        return True
    return False


def _able(client: Client) -> set[str]:
    """The addresses of the workers that provide RESOURCE."""
    workers = client.scheduler_info(n_workers=-1)["workers"].items()
    return {address for address, own in workers if set(RESOURCE) <= set(own["resources"])}


def _answer(client: Client, future: Future[Any]) -> Any:
    """The answer of a worker. Raises BadInput if the task failed, and an error of LOST if the
    connection did."""
    try:
        return future.result()
    except KilledWorker as error:
        raise BadInput(f"{error.allowed_failures + 1} workers were lost with it") from None
    except Exception as error:
        if future.status == "cancelled":
            raise
        if _gone(client):
            raise CommClosedError from error
        what = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"{what:.{MOST_SHOWN}}") from None
