"""SIGKILL and Ctrl-C at random moments, and SIGKILL at the first system calls of each kind in
STEPS. Afterwards the collected cells must equal those of an uninterrupted run."""

import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from kvbench.cli import STOPPED
from sweeps import Sweep, liar_environment, scratch, traceback
from table import Form, Row

# Some cells are measured, on disk and in memory. Some are skipped because of their size. Some may
# be unavailable, because few machines have TokuDB.
GRID: dict[str, Any] = {
    "stores": ["flat", "lmdb", "tokudb"],
    "record_sizes": ["1 KiB"],
    "records": [100, 300],
    "byte_limit": 200_000,
    "place": ["disk", "tmpfs"],
}
SMALL = GRID | {"records": [100], "trials": 1, "place": ["disk"]}
LONGEST = 4.0  # seconds from the start of a sweep until it is disturbed
LONGEST_OF_A_CELL = 0.5  # seconds from the start of a worker
ENDS = (0, 3)  # exit statuses of a complete sweep
KILLED = -signal.SIGKILL
DISTURBED = 20  # how often a sweep is started and disturbed before it may run undisturbed
PATIENCE = 50  # how often a sweep is started at most until it is complete
STEPS = ("rename", "unlinkat", "mkdir", "unlink", "rmdir", "fsync")  # system calls
EACH = 8  # kills at each of these calls, at most
IDENTITY = ["store", "record_size", "records", "place", "trial", "status", "reason"]


def _collected(sweep: Sweep) -> pd.DataFrame:
    """The cells that `kvbench collect` writes, sorted."""
    collect = [sys.executable, "-m", "kvbench.cli", "collect", str(sweep.out)]
    subprocess.run(collect, check=True, capture_output=True, env=sweep.env)
    cells = pd.read_parquet(sweep.out / "cells.parquet")[IDENTITY]
    return cells.sort_values(IDENTITY).reset_index(drop=True)


def _uninterrupted(place: Path, grid: Mapping[str, Any]) -> pd.DataFrame:
    with scratch(place, "uninterrupted") as folder:
        sweep = Sweep(folder, **grid)
        sweep.run()
        return _collected(sweep)


@dataclass
class Found:
    """The cells that sweeps over one grid lost, and a line for each other failure."""

    wanted: pd.DataFrame = field(default_factory=pd.DataFrame)  # cells of an uninterrupted run
    lost: int = 0
    wrong: list[str] = field(default_factory=list)

    def ended(self, status: int, errors: str, *allowed: int) -> None:
        if traceback(errors) or status not in allowed:
            why = errors[errors.find("Traceback") :] if traceback(errors) else errors[-200:]
            self.wrong.append(f"exit status {status}: {why}")

    def left(self, sweep: Sweep) -> None:
        """Count cells that are missing, duplicated or of an unexpected status."""
        if len(self.wanted):
            found, wanted = (
                cells.value_counts(dropna=False) for cells in (_collected(sweep), self.wanted)
            )
            self.lost += int(found.sub(wanted, fill_value=0).abs().sum())
        self.wrong += sweep.leftovers()

    def row(self, kind: str, what: str, faults: int, *notes: str) -> Row:
        note = "; ".join([*notes, *self.wrong])
        return Row(kind, what, faults, cells_lost=self.lost, crashes=len(self.wrong), note=note)


def _kill_worker(sweep: Sweep, process: subprocess.Popen[str]) -> bool:
    """Kill the first worker that appears. Returns False if the sweep ends before."""
    while process.poll() is None:
        for worker in sweep.workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
                return True
    return False


def _disturb(sweep: Sweep, process: subprocess.Popen[str], choose: random.Random) -> str:
    """Kill the sweep, its worker or both, unless the sweep ends before. Returns whether a cell was
    being measured, in words; empty if nothing was killed."""
    latest = LONGEST
    if choose.random() < 0.5:  # in so small a sweep, start-up takes most of the time
        while process.poll() is None and not sweep.workers():
            pass
        latest = LONGEST_OF_A_CELL
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(choose.uniform(0, latest))
        return ""
    during = "while a cell was measured" if sweep.workers() else "between cells"
    victim = choose.choice(("sweep", "worker", "both"))
    if victim != "sweep" and not _kill_worker(sweep, process):
        return ""
    if victim != "worker":
        process.kill()
    return during


def kills(count: int, seed: int, place: Path, grid: Mapping[str, Any], found: Found) -> Row:
    """Disturb sweeps until `count` kills are made."""
    choose, done, sweeps = random.Random(seed), Counter[str](), 0
    while done.total() < count:
        with scratch(place, "kill") as folder:
            sweep, sweeps = Sweep(folder, **grid), sweeps + 1
            for start in range(PATIENCE):
                # A cell whose worker was killed has failed, so it is measured only on request.
                process = sweep.start("--retry")
                left = start < DISTURBED and done.total() < count
                if left and (during := _disturb(sweep, process, choose)):
                    done[during] += 1
                _, errors = process.communicate()
                found.ended(process.returncode, errors, *ENDS, KILLED)
                if process.returncode == 0:
                    break
            found.left(sweep)
    when = ", ".join(f"{number} {during}" for during, number in sorted(done.items()))
    what = "of the sweep, its worker or both, at random moments"
    return found.row("kill", what, done.total(), f"over {sweeps} sweeps: {when}")


def kills_at_steps(short: bool, place: Path) -> Row:
    """Let strace kill the sweep at its first, second and further calls of each kind."""
    if not shutil.which("strace"):
        return Row("kill", "not tried", note="at a sweep's steps on the disk: needs strace")
    calls, each = STEPS[: 2 if short else None], 1 if short else EACH
    found, hit = Found(_uninterrupted(place, SMALL)), Counter[str]()
    for call in calls:
        for number in range(1, each + 1):
            with scratch(place, "step") as folder:
                sweep = Sweep(folder, **SMALL)
                inject = f"inject={call}:signal=KILL:when={number}"
                tracer = ("strace", "-qqq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
                process = sweep.start(prefix=tracer)
                _, errors = process.communicate()
                found.ended(process.returncode, errors, *ENDS, KILLED)
                if process.returncode != KILLED:
                    break  # the sweep makes fewer calls of this kind
                hit[call] += 1
                again = sweep.run()
                found.ended(again.returncode, again.stderr, 0)
                found.left(sweep)
    made = ", ".join(call for call in calls if hit[call])
    note = f"each of the first {each} calls of {made}"
    return found.row("kill", "of the sweep, at its steps on the disk", hit.total(), note)


def interrupts(count: int, seed: int, place: Path, grid: Mapping[str, Any], found: Found) -> Row:
    """Send Ctrl-C: the running cell is finished, and the printed command continues the sweep."""
    choose = random.Random(seed)
    done = tries = 0
    while done < count and tries < PATIENCE:
        tries += 1
        with scratch(place, "interrupt") as folder:
            sweep = Sweep(folder, **grid)
            process = sweep.start()
            while process.poll() is None and not list(sweep.out.glob("stores/*_*")):
                pass  # the sweep has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(choose.uniform(0, LONGEST))
            before = len(sweep.cells())
            if done % 2:
                process.terminate()
            else:  # a terminal sends Ctrl-C to all processes of its group
                os.killpg(process.pid, signal.SIGINT)
            said, errors = process.communicate()
            found.ended(process.returncode, errors, *ENDS, STOPPED)
            if process.returncode in ENDS:
                continue  # the sweep had ended already
            done += 1
            failed = any(result["status"] == "failed" for result in sweep.cells())
            if len(sweep.cells()) < before or failed or " to do" not in said:
                found.wrong.append(f"the running cell was not finished: {said}")
                continue
            found.wrong += sweep.leftovers()
            command = shlex.split(said.splitlines()[-1].partition(": ")[2])
            program = [sys.executable, "-m", "kvbench.cli", *command[1:]]
            again = subprocess.run(
                program, check=False, capture_output=True, text=True, env=sweep.env
            )
            found.ended(again.returncode, again.stderr, 0)
            found.left(sweep)
    found.wrong += [f"only {done} heard in {tries} tries"] if done < count else []
    what = "Ctrl-C and SIGTERM in turn, at random moments"
    return found.row("interrupt", what, done, "continued by the command that it printed")


@contextlib.contextmanager
def _hanging(place: Path) -> Iterator[tuple[Sweep, subprocess.Popen[str]]]:
    """Start a sweep whose worker hangs. Returns the sweep and its process."""
    store = "liar-hang-at-get-17"
    with scratch(place, "hanging") as folder:
        sweep = Sweep(folder, liar_environment(folder, "flat", [store]), stores=[store])
        process = sweep.start()
        while process.poll() is None and not (folder / "told" / store).exists():
            pass
        yield sweep, process


def second_sweep(place: Path) -> Row:
    """Check that a second sweep is refused while the first runs, and accepted after the first was
    killed."""
    found = Found()
    with _hanging(place) as (sweep, process):
        second = sweep.run()
        if second.returncode != 2 or "another sweep is writing here" not in second.stderr:
            found.wrong.append(f"not refused: {second.stderr}")
        process.kill()
        process.communicate()
        third = sweep.run("--time-limit", "1")
        found.ended(third.returncode, third.stderr, *ENDS)
        found.left(sweep)
    return found.row("lock", "a second sweep into the same folder", 1)


def orphan(place: Path) -> Row:
    """Check that a hanging worker ends when its sweep is killed."""
    found = Found()
    with _hanging(place) as (sweep, process):
        process.kill()
        process.communicate()
        found.wrong += [f"process {one.pid}" for one in sweep.still_running()]
    return found.row("kill", "of the sweep, its worker hanging", 1)


def rows(form: Form) -> Iterator[Row]:
    seed, place, grid = form.seed, form.place, GRID | {"trials": 1 if form.short else 2}
    wanted = _uninterrupted(place, grid)
    yield kills(5 if form.short else 100, seed, place, grid, Found(wanted))
    yield kills_at_steps(form.short, place)
    yield orphan(place)
    yield interrupts(1 if form.short else 10, seed, place, grid, Found(wanted))
    yield second_sweep(place)
