"""SIGKILL and Ctrl-C at random moments, and SIGKILL at each step that a sweep takes on the disk.
After all of it the collected cells have to be those of an unbroken run."""

import contextlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from sweeps import Sweep, liar_environment, scratch, traceback
from table import Row

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
ENDS = (0, 3)  # exit statuses of a sweep that came to its end
KILLED = -signal.SIGKILL
PATIENCE = 50  # times that a sweep is started at most until it has come to its end
STEPS = ("rename", "unlinkat", "mkdir", "unlink", "rmdir", "fsync")  # system calls
EACH = 20  # times at most that a sweep is killed at one of them
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


def _disturb(sweep: Sweep, process: subprocess.Popen[str], choose: random.Random) -> bool:
    """Kill the sweep, its worker or both, unless it ends before."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(choose.uniform(0, LONGEST))
        return False
    victim = choose.choice(("sweep", "worker", "both"))
    if victim != "sweep" and not _kill_worker(sweep, process):
        return False
    if victim != "worker":
        process.kill()
    return True


def kills(
    count: int, seed: int, place: Path, grid: Mapping[str, Any], unbroken: pd.DataFrame
) -> Row:
    """`count` of them, over as many sweeps as that takes."""
    choose = random.Random(seed)
    done = sweeps = lost = 0
    wrong: list[str] = []
    while done < count:
        with scratch(place, "kill") as folder:
            sweep, sweeps = Sweep(folder, **grid), sweeps + 1
            for _ in range(PATIENCE):
                # A cell whose worker was killed has failed, so it has to be asked for again.
                process = sweep.start("--retry")
                done += done < count and _disturb(sweep, process, choose)
                _, errors = process.communicate()
                wrong += [errors] if traceback(errors) else []
                if process.returncode == 0:
                    break
                if process.returncode not in (*ENDS, KILLED):
                    wrong.append(f"exit status {process.returncode}: {errors[-200:]}")
            lost += _differences(sweep, unbroken)
            wrong += sweep.leftovers()
    note = "; ".join([f"over {sweeps} sweeps", *wrong])
    what = "of the sweep, its worker or both, at random moments"
    return Row("kill", what, faults=done, cells_lost=lost, crashes=len(wrong), note=note)


def kills_at_steps(calls: Sequence[str], each: int, place: Path) -> Row:
    """Killed by strace on its first, second ... call of each kind."""
    grid = GRID | {"records": [100], "trials": 1, "place": ["disk"]}
    done = lost = 0
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
                done += 1
                again = sweep.run()
                wrong += [again.stderr] if traceback(again) or again.returncode != 0 else []
                lost += _differences(sweep, unbroken)
                wrong += sweep.leftovers()
    note = "; ".join([f"each of the first {each} calls of {', '.join(calls)}", *wrong])
    what = "of the sweep, at its steps on the disk"
    return Row("kill", what, faults=done, cells_lost=lost, crashes=len(wrong), note=note)


def interrupts(
    count: int, seed: int, place: Path, grid: Mapping[str, Any], unbroken: pd.DataFrame
) -> Row:
    """Ctrl-C: the running cell is put down, and the command that is printed goes on."""
    choose = random.Random(seed)
    done = lost = 0
    wrong: list[str] = []
    while done < count:
        with scratch(place, "interrupt") as folder:
            sweep = Sweep(folder, **grid)
            process = sweep.start()
            while process.poll() is None and not list(sweep.out.glob("stores/*_*")):
                pass  # it has begun
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(choose.uniform(0, LONGEST))
            before = len(sweep.cells())
            process.send_signal(choose.choice((signal.SIGINT, signal.SIGTERM)))
            said, errors = process.communicate()
            wrong += [errors] if traceback(errors) else []
            if process.returncode != 130:
                continue  # it had come to its end
            done += 1
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
    note = "; ".join(["gone on by the command that it printed", *wrong])
    what = "Ctrl-C or SIGTERM at a random moment"
    return Row("interrupt", what, faults=done, cells_lost=lost, crashes=len(wrong), note=note)


def second_sweep(place: Path) -> Row:
    """Refused while one runs, and not after that was killed."""
    wrong = []
    with scratch(place, "lock") as folder:
        sweep = Sweep(folder, **GRID)
        process = sweep.start()
        while process.poll() is None and not list(sweep.out.glob("stores/*_*")):
            pass
        second = sweep.run()
        if second.returncode != 2 or "another sweep is writing here" not in second.stderr:
            wrong.append(f"not refused: {second.stderr}")
        process.kill()
        process.communicate()
        third = sweep.run()
        wrong += [f"after a kill: {third.stderr}"] if third.returncode != 0 else []
        wrong += sweep.leftovers()
    what = "a second sweep into the same folder"
    return Row("lock", what, faults=1, crashes=len(wrong), note="; ".join(wrong))


def orphan(place: Path) -> Row:
    """A worker that would go on for ever, when its sweep is killed."""
    hanging = "liar-hang-at-get-17"
    with scratch(place, "orphan") as folder:
        sweep = Sweep(folder, liar_environment(folder, "flat", [hanging]), stores=[hanging])
        process = sweep.start()
        while process.poll() is None and not (folder / "told" / hanging).exists():
            pass
        process.kill()
        process.communicate()
        left = [f"process {one.pid}" for one in sweep.still_running()]
    return Row(
        "kill", "of the sweep, its worker hanging", 1, crashes=len(left), note="; ".join(left)
    )


def rows(short: bool, seed: int, place: Path) -> Iterator[Row]:
    grid = GRID | {"trials": 1 if short else 2}
    with scratch(place, "unbroken") as folder:
        sweep = Sweep(folder, **grid)
        sweep.run()
        unbroken = _collected(sweep)
    yield kills(10 if short else 100, seed, place, grid, unbroken)
    if shutil.which("strace"):
        yield kills_at_steps(STEPS[:2] if short else STEPS, 1 if short else EACH, place)
    yield orphan(place)
    yield interrupts(1 if short else 10, seed, place, grid, unbroken)
    yield second_sweep(place)
