"""Runs small sweeps that can be disturbed, and checks what they leave behind."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from builds import SHIMS
from kvbench.cell.library import shims_folder
from kvbench.common.messages import BadInput
from kvbench.machine.scratch import TMPFS
from kvbench.machine.shelf import marked, own_name
from kvbench.results.folder import Folder

HERE = Path(__file__).parent
MARK = "KVBENCH_TORTURE"  # an environment variable that marks the processes of a sweep
PATIENCE = 20.0  # seconds in which a process must end after its parent was killed
_numbers = itertools.count()


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def toml(values: Mapping[str, object]) -> str:
    """The values as the text of a grid file."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in values.items())


class Sweep:
    """A grid, its results folder and the command that sweeps it. All its processes have a mark in
    their environment."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None, **keys: Any) -> None:
        """Write the grid: one small cell, changed by `keys`."""
        self.out = folder / "out"
        self.stores_at: Path | None = None  # the value of the option --stores
        self.mark = f"{os.getpid()}-{next(_numbers)}."
        self.env = {**os.environ, **(env or {}), MARK: self.mark}
        values = {"stores": ["flat"], "records": [100], "trials": 1, "least_ms": 0} | keys
        folder.mkdir(parents=True, exist_ok=True)
        self.grid = folder / "grid.toml"
        self.grid.write_text(toml(values))

    def command(self, *more: str) -> list[str]:
        where = ["--stores", str(self.stores_at)] if self.stores_at else []
        sweep = ["sweep", str(self.grid), "--out", str(self.out), *where, *more]
        return [sys.executable, "-m", "kvbench.cli", *sweep]

    def start(self, *more: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*prefix, *self.command(*more)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env=self.env, start_new_session=True,
        )  # fmt: skip

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*more), capture_output=True, text=True, errors="replace", check=False,
            env=self.env,
        )  # fmt: skip

    def cells(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.out.glob("cells/*.json"))]

    def processes(self) -> list[psutil.Process]:
        """All running processes of the sweep."""
        return list(marked(MARK, self.mark))

    def workers(self) -> list[psutil.Process]:
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if "kvbench.cell.worker" in process.cmdline():
                    found.append(process)
        return found

    def still_running(self) -> list[psutil.Process]:
        """The processes that have not ended after PATIENCE seconds, which are then killed."""
        end = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < end:
            pass
        for process in left:
            process.kill()
        return left

    def leftovers(self) -> list[str]:
        """What an ended sweep must not leave behind: processes, stores and incomplete files."""
        found = [f"process {process.pid}" for process in self.still_running()]
        found += [str(path) for path in self.out.rglob("*.tmp")]
        shelves = [self.out / "stores", *TMPFS.glob("kvbench-*")]
        shelves += self.stores_at.glob("kvbench-*") if self.stores_at else []
        found += [str(path) for path in shelves if path.exists() and self._own(path)]
        for path in self.out.glob("cells/*.json"):
            try:
                json.loads(path.read_text())
            except ValueError:
                found.append(f"{path}: not whole")
        return found

    def _own(self, shelf: Path) -> bool:
        """Whether the shelf belongs to this sweep. Shelves of other sweeps are in memory, too."""
        with contextlib.suppress(BadInput):  # without a results folder there are no stores
            return shelf.parent != TMPFS or shelf.name == own_name(Folder(self.out).identity())
        return False


@contextlib.contextmanager
def scratch(place: Path, name: str) -> Iterator[Path]:
    """Create a folder below `place`, which is removed at the end."""
    folder = place / f"{name}-{os.getpid()}-{next(_numbers)}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def liar_environment(place: Path, honest: str, names: Iterable[str]) -> dict[str, str]:
    """An environment in which each of the names is the faulty store liar.c on top of the store
    `honest`. When a faulty store injects its fault, it creates a file with its name in
    `place`/told."""
    shims, built = place / "shims", place / "liar.so"
    shutil.copytree(shims_folder(), shims)
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra"]
    command = ["cc", *flags, f"-I{SHIMS}", str(HERE / "liar.c"), "-o", str(built)]
    subprocess.run(command, check=True)
    for name in names:
        shutil.copy(built, shims / f"{name}.so")
    (place / "told").mkdir()
    return {
        "KVBENCH_SHIMS": str(shims),
        "KVBENCH_HONEST": str(shims / f"{honest}.so"),
        "KVBENCH_TOLD": str(place / "told"),
    }


def traceback(done: subprocess.CompletedProcess[str] | str) -> bool:
    """Whether the command itself printed a traceback; the reason of a cell may quote its
    worker's."""
    text = done if isinstance(done, str) else done.stderr
    return any(line.startswith("Traceback") for line in text.splitlines())
