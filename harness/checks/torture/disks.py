"""Fills disks: the disk with the stores, and the disk with the results."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builds import available, run
from sweeps import Sweep, scratch, traceback
from table import Form, Row

SIZE = 300 << 20  # bytes of the stores' disk: some engines allocate 100 MiB before the first record
# Cells that cannot fit are skipped, so these values would fit if compressed to a fifth.
SIZES: dict[str, Any] = {
    "record_sizes": ["64 KiB", "100 B"], "records": [24_000, 100],
    "compressibility": ["compressible"],
}  # fmt: skip
TOO_MUCH = ("64 KiB", 24_000)
RESULTS = 1 << 20  # bytes of the results' disk
LIMIT = 60  # seconds per cell: an engine may hang on a full disk


class NoDiskError(Exception):
    """No small disk can be mounted; the message states why."""


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """Mount an empty file system of `size` bytes. Raises NoDiskError if that fails."""
    with scratch(place, "disk") as folder:
        mounted = run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder])
        if mounted.returncode != 0:
            raise NoDiskError(f"no small disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield folder
        finally:
            run(["umount", "--lazy", folder]).check_returncode()


def fill(disk: Path) -> Path:
    """Fill the disk with one file, and return its path."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def _row(what: str, wrong: list[str], lost: int = 0, faults: int = 1, note: str = "") -> Row:
    notes = "; ".join(filter(None, [note, *wrong]))
    return Row("disk full", what, faults, cells_lost=lost, crashes=len(wrong), note=notes)


def stores_disk(names: list[str], place: Path) -> Row:
    """For each store, check that the cell that does not fit states the reason, and that the other
    three pass."""
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
    note = f"{len(names)} stores"
    return _row("the stores', a cell too large for it", wrong, lost, len(names), note)


def no_room(place: Path) -> Row:
    """Check that a disk that is full before the first cell is reported in one line, and that
    nothing is left on it."""
    wrong = []
    with small_disk(place, RESULTS) as disk, scratch(place, "aside") as folder:
        sweep = Sweep(folder)
        sweep.stores_at = disk
        fill(disk)
        done = sweep.run()
        if done.returncode != 2 or str(disk) not in done.stderr or done.stderr.count("\n") != 1:
            wrong.append(f"exit status {done.returncode}: {done.stderr}")
        wrong += sweep.leftovers()
    return _row("the stores', from the start", wrong)


def results_disk(place: Path) -> Row:
    """Fill the results' disk after the first cell, free it, and check that the sweep then
    completes."""
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
    return _row("the results', after the first cell", wrong, lost)


def rows(form: Form) -> Iterator[Row]:
    try:
        yield stores_disk(available(form.short), form.place)
        yield no_room(form.place)
        yield results_disk(form.place)
    except NoDiskError as error:
        yield Row("disk full", "not tried", note=str(error))
