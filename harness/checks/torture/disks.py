"""Disks that are full: the stores', and the results'."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvbench import stores
from sweeps import Sweep, scratch, traceback
from table import Row

SIZE = 300 << 20  # bytes of the stores' disk: some engines take 100 MiB before the first record
SIZES: dict[str, Any] = {"record_sizes": ["64 KiB", "100 B"], "records": [7000, 100]}
TOO_MUCH = ("64 KiB", 7000)  # of these: 440 MiB, incompressible
RESULTS = 1 << 20  # bytes of the results' disk
LIMIT = 60  # seconds a cell: an engine may hang for want of space
SHORT = ("flat", "leveldb", "lmdb", "tokyocabinet-tree")


class NoDiskError(Exception):
    """None can be made here; the text says why."""


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """An empty file system of `size` bytes."""
    with scratch(place, "disk") as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if mounted.returncode != 0:
            raise NoDiskError(f"no small disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def stores_disk(names: list[str], place: Path) -> Row:
    """A cell that does not fit, of each store, and one after it that does."""
    lost = 0
    wrong: list[str] = []
    with small_disk(place, SIZE) as disk, scratch(place, "full") as folder:
        for number, name in enumerate(names):
            sweep = Sweep(folder / str(number), stores=[name], **SIZES)
            sweep.stores_at = disk
            done = sweep.run("--time-limit", str(LIMIT))
            for result in sweep.cells():
                size, count = result["cell"]["record_size"], result["cell"]["records"]
                if (size, count) != TOO_MUCH:
                    lost += result["status"] != "ok"
                elif "no space left" not in result["reason"]:
                    wrong.append(f"{name}: {result['status']}: {result['reason']!r}")
            lost += 4 - len(sweep.cells())
            wrong += [done.stderr] if traceback(done) or done.returncode != 3 else []
            wrong += sweep.leftovers()
            wrong += [f"{path}: left" for path in disk.iterdir()]
    what = "the stores', a cell too large for it"
    note = "; ".join([f"{len(names)} stores", *wrong])
    return Row("disk full", what, len(names), cells_lost=lost, crashes=len(wrong), note=note)


def no_room(place: Path) -> Row:
    """A disk that is full before the first cell: one line that names it, and nothing left there."""
    wrong = []
    with small_disk(place, RESULTS) as disk, scratch(place, "aside") as folder:
        sweep = Sweep(folder)
        sweep.stores_at = disk
        fill(disk)
        done = sweep.run()
        if done.returncode != 2 or str(disk) not in done.stderr or done.stderr.count("\n") != 1:
            wrong.append(f"exit status {done.returncode}: {done.stderr}")
        wrong += sweep.leftovers()
    return Row(
        "disk full", "the stores', from the start", 1, crashes=len(wrong), note="; ".join(wrong)
    )


def fill(disk: Path) -> Path:
    """By a file that takes all its room."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def results_disk(place: Path) -> Row:
    """Filled up after the first cell; gone on when there is room again."""
    wrong = []
    with small_disk(place, RESULTS) as disk, scratch(place, "aside") as folder:
        sweep = Sweep(folder, stores=["flat", "lmdb"], records=[100, 200])
        sweep.out, sweep.stores_at = disk / "out", folder
        process = sweep.start()
        while process.poll() is None and not sweep.cells():
            pass
        filler = fill(disk)
        _, errors = process.communicate()
        before = len(sweep.cells())
        told = [line for line in errors.splitlines() if line.startswith("kvbench: ")]
        if process.returncode != 2 or len(told) != 1 or os.strerror(28) not in told[0]:
            wrong.append(f"exit status {process.returncode}: {errors}")
        wrong += [errors] if traceback(errors) else []
        wrong += sweep.leftovers()
        filler.unlink()
        again = sweep.run()
        wrong += [again.stderr] if again.returncode != 0 else []
        lost = abs(4 - len(sweep.cells())) + (before == 0)
        wrong += sweep.leftovers()
    what = "the results', after the first cell"
    return Row("disk full", what, 1, cells_lost=lost, crashes=len(wrong), note="; ".join(wrong))


def rows(short: bool, seed: int, place: Path) -> Iterator[Row]:
    del seed  # nothing here is left to chance
    own = [store for store in stores.known().values() if store.available and not store.binding]
    names = [store.name for store in own if "forgets" not in store.capabilities]
    try:
        yield stores_disk([name for name in names if not short or name in SHORT], place)
        yield no_room(place)
        yield results_disk(place)
    except NoDiskError as error:
        yield Row("disk full", "not tried", note=str(error))
