"""SIGKILL and Ctrl-C at random moments, and SIGKILL at each step that a sweep takes on the disk.
After all of it the collected cells have to be those of an unbroken run."""

import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from kvbench.cli import STOPPED
from sweeps import Sweep, liar_environment, scratch, traceback
from table import Form, Row

# Cells that are measured, on disk and in memory; skipped, for their size; and unavailable, where
# that engine can't be had.
GRID: dict[str, Any] = {
    "stores": ["flat", "lmdb", "tokudb"],
    "record_sizes": ["1 KiB"],
    "records": [100, 300],
    "byte_limit": 200_000,
    "place": ["disk", "tmpfs"],
}
LONGEST = 4.0  # seconds from the start of a sweep until it is disturbed
LONGEST_OF_A_CELL = 0.5  # seconds from the start of a worker
ENDS = (0, 3)  # exit statuses of a sweep that came to its end
KILLED = -signal.SIGKILL
DISTURBED = 20  # of the times that a sweep is started, until it is left in peace
PATIENCE = 50  # times that it is started at most until it has come to its end
STEPS = ("rename", "unlinkat", "mkdir", "unlink", "rmdir", "fsync")  # system calls
EACH = 8  # times at most that a sweep is killed at one of them
IDENTITY = ["store", "record_size", "records", "place", "trial", "status", "reason"]


def _collected(sweep: Sweep) -> pd.DataFrame:
    """The cells as `kvbench collect` gives them, in an order of their own."""
    subprocess.run(
        [sys.executable, "-m", "kvbench.cli", "collect", str(sweep.out)],
        check=True, capture_output=True, env=sweep.env,
    )  # fmt: skip
    cells = pd.read_parquet(sweep.out / "cells.parquet")[IDENTITY]
    return cells.sort_values(IDENTITY).reset_index(drop=True)


def _differences(sweep: Sweep, unbroken: pd.DataFrame) -> int:
    """Cells that are lost, doubled or of another status than in an unbroken run."""
    found = _collected(sweep).value_counts(dropna=False)
    wanted = unbroken.value_counts(dropna=False)
    return int(found.sub(wanted, fill_value=0).abs().sum())


def _kill_worker(sweep: Sweep, process: subprocess.Popen[str]) -> bool:
    """As soon as there is one; False if the sweep ends before."""
    while process.poll() is None:
        for worker in sweep.workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
                return True
    return False


def _disturb(sweep: Sweep, process: subprocess.Popen[str], choose: random.Random) -> str:
    """Kill the sweep, its worker or both, unless it ends before. Whether a cell was being measured
    or not, in words; empty if nothing was killed."""
    latest = LONGEST
    if choose.random() < 0.5:  # a sweep of so few cells is at its start for most of its time
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


def kills(
    count: int, seed: int, place: Path, grid: Mapping[str, Any], unbroken: pd.DataFrame
) -> Row:
    """`count` of them, over as many sweeps as that takes."""
    choose = random.Random(seed)
    done: Counter[str] = Counter()
    sweeps = lost = 0
    wrong: list[str] = []
    while done.total() < count:
        with scratch(place, "kill") as folder:
            sweep, sweeps = Sweep(folder, **grid), sweeps + 1
            for start in range(PATIENCE):
                # A cell whose worker was killed has failed, so it has to be asked for again.
                process = sweep.start("--retry")
                left = start < DISTURBED and done.total() < count
                if left and (during := _disturb(sweep, process, choose)):
                    done[during] += 1
                _, errors = process.communicate()
                wrong += [errors] if traceback(errors) else []
                if process.returncode == 0:
                    break
                if process.returncode not in (*ENDS, KILLED):
                    wrong.append(f"exit status {process.returncode}: {errors[-200:]}")
            lost += _differences(sweep, unbroken)
            wrong += sweep.leftovers()
    when = ", ".join(f"{number} {during}" for during, number in sorted(done.items()))
    note = "; ".join([f"over {sweeps} sweeps: {when}", *wrong])
    what = "of the sweep, its worker or both, at random moments"
    return Row("kill", what, faults=done.total(), cells_lost=lost, crashes=len(wrong), note=note)


def kills_at_steps(calls: Sequence[str], each: int, place: Path) -> Row:
    """Killed by strace on its first, second ... call of each kind."""
    grid = GRID | {"records": [100], "trials": 1, "place": ["disk"]}
    hit: Counter[str] = Counter()
    lost = 0
    wrong: list[str] = []
    with scratch(place, "steps") as folder:
        whole = Sweep(folder, **grid)
        whole.run()
        unbroken = _collected(whole)
    for call in calls:
        for number in range(1, each + 1):
            with scratch(place, "step") as folder:
                sweep = Sweep(folder, **grid)
                inject = f"inject={call}:signal=KILL:when={number}"
                tracer = ("strace", "-qqq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
                process = sweep.start(prefix=tracer)
                process.communicate()
                if process.returncode in ENDS:
                    break  # it makes no more of these calls
                if process.returncode != KILLED:
                    wrong.append(f"{call} {number}: not killed: {process.returncode}")
                    break
                hit[call] += 1
                again = sweep.run()
                wrong += [again.stderr] if traceback(again) or again.returncode != 0 else []
                lost += _differences(sweep, unbroken)
                wrong += sweep.leftovers()
    made = ", ".join(call for call in calls if hit[call])
    note = "; ".join([f"each of the first {each} calls of {made}", *wrong])
    what = "of the sweep, at its steps on the disk"
    return Row("kill", what, faults=hit.total(), cells_lost=lost, crashes=len(wrong), note=note)


def interrupts(
    count: int, seed: int, place: Path, grid: Mapping[str, Any], unbroken: pd.DataFrame
) -> Row:
    """Ctrl-C: the running cell is put down, and the command that is printed goes on."""
    choose = random.Random(seed)
    done = tries = lost = 0
    wrong: list[str] = []
    while done < count and tries < PATIENCE:
        tries += 1
        with scratch(place, "interrupt") as folder:
            sweep = Sweep(folder, **grid)
            process = sweep.start()
            while process.poll() is None and not list(sweep.out.glob("stores/*_*")):
                pass  # it has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(choose.uniform(0, LONGEST))
            before = len(sweep.cells())
            if done % 2:
                process.terminate()
            else:  # a terminal's Ctrl-C is for all that run in it
                os.killpg(process.pid, signal.SIGINT)
            said, errors = process.communicate()
            wrong += [errors] if traceback(errors) else []
            if process.returncode in ENDS:
                continue  # it had come to its end
            done += 1
            if process.returncode != STOPPED or " to do" not in said:
                wrong.append(f"exit status {process.returncode}: {said}")
                continue
            if len(sweep.cells()) < before or any(r["status"] == "failed" for r in sweep.cells()):
                wrong.append("the running cell was not put down")
            wrong += sweep.leftovers()
            command = shlex.split(said.splitlines()[-1].removeprefix("stopped; to go on: "))
            program = [sys.executable, "-m", "kvbench.cli", *command[1:]]
            again = subprocess.run(
                program, check=False, capture_output=True, text=True, env=sweep.env
            )
            wrong += [again.stderr] if again.returncode != 0 else []
            lost += _differences(sweep, unbroken)
    wrong += [f"only {done} heard in {tries} tries"] if done < count else []
    note = "; ".join(["gone on by the command that it printed", *wrong])
    what = "Ctrl-C and SIGTERM in turn, at random moments"
    return Row("interrupt", what, faults=done, cells_lost=lost, crashes=len(wrong), note=note)


@contextlib.contextmanager
def _hanging(place: Path) -> Iterator[tuple[Sweep, subprocess.Popen[str]]]:
    """A sweep whose worker hangs, and its process."""
    store = "liar-hang-at-get-17"
    with scratch(place, "hanging") as folder:
        sweep = Sweep(folder, liar_environment(folder, "flat", [store]), stores=[store])
        process = sweep.start()
        while process.poll() is None and not (folder / "told" / store).exists():
            pass
        yield sweep, process


def second_sweep(place: Path) -> Row:
    """Refused while one runs, and not after that was killed."""
    wrong = []
    with _hanging(place) as (sweep, process):
        second = sweep.run()
        if second.returncode != 2 or "another sweep is writing here" not in second.stderr:
            wrong.append(f"not refused: {second.stderr}")
        process.kill()
        process.communicate()
        third = sweep.run("--time-limit", "1")
        wrong += [f"after a kill: {third.stderr}"] if third.returncode not in ENDS else []
        wrong += sweep.leftovers()
    what = "a second sweep into the same folder"
    return Row("lock", what, faults=1, crashes=len(wrong), note="; ".join(wrong))


def orphan(place: Path) -> Row:
    """A worker that would go on for ever, when its sweep is killed."""
    with _hanging(place) as (sweep, process):
        process.kill()
        process.communicate()
        left = [f"process {one.pid}" for one in sweep.still_running()]
    return Row(
        "kill", "of the sweep, its worker hanging", 1, crashes=len(left), note="; ".join(left)
    )


def rows(form: Form) -> Iterator[Row]:
    short, seed, place = form.short, form.seed, form.place
    grid = GRID | {"trials": 1 if short else 2}
    with scratch(place, "unbroken") as folder:
        sweep = Sweep(folder, **grid)
        sweep.run()
        unbroken = _collected(sweep)
    yield kills(10 if short else 100, seed, place, grid, unbroken)
    if shutil.which("strace"):
        yield kills_at_steps(STEPS[:2] if short else STEPS, 1 if short else EACH, place)
    else:
        yield Row("kill", "not tried", note="at a sweep's steps on the disk: needs strace")
    yield orphan(place)
    yield interrupts(1 if short else 10, seed, place, grid, unbroken)
    yield second_sweep(place)
