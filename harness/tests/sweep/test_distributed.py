"""A sweep over several hosts: real schedulers and workers of Dask, on this one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from kvbench.cli.measure import MOST_SHOWN
from support import ROOT, Run

pytest.importorskip("distributed")
DASK = [sys.executable, "-m", "dask"]
QUIET = dict(os.environ) | {"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false"}
Sweeping = Callable[..., subprocess.Popen[str]]


def end(process: subprocess.Popen[Any]) -> None:
    """With all that it started: a worker's nanny would start it again."""
    for own in [*psutil.Process(process.pid).children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):  # one ends with another
            own.kill()
    process.wait()


def said(errors: str) -> list[str]:
    """The lines of a sweep, but for those of its progress and those that no worker has come yet."""
    usual = re.compile("no worker has|.* done, about ")
    return [line for line in errors.splitlines() if not usual.match(line)]


class Cluster:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[subprocess.Popen[Any]] = []
        self.address = ""

    def scheduler(self, *options: str, host: str = "tcp://127.0.0.1:0") -> subprocess.Popen[Any]:
        command = [*DASK, "scheduler", "--host", host, "--no-dashboard", *options]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=self.root, env=QUIET
        )
        self.started.append(process)
        assert process.stderr
        for line in process.stderr:
            if found := re.search(r"Scheduler at:\s+(\S+)", line):
                self.address = found[1]
                break
        return process

    def worker(self, name: str, *options: str, **env: str) -> subprocess.Popen[Any]:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        size = ["--nthreads", "1", "--nworkers", "1", "--resources", "measure=1", "--no-dashboard"]
        command = [*DASK, "worker", self.address, *size, *options]
        with open(folder / "log", "a") as log:
            process = subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, env=QUIET | env)
        self.started.append(process)
        return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            end(process)


@pytest.fixture
def sweeping(cluster: Cluster, tmp_path: Path) -> Iterator[Sweeping]:
    """Starts a sweep on the cluster."""
    started = []

    def start(grid: Path, *options: object) -> subprocess.Popen[str]:
        command = ["sweep", grid, "--out", tmp_path / "out", "--scheduler", cluster.address]
        process = subprocess.Popen(
            [sys.executable, "-m", "kvbench.cli", *map(str, [*command, *options])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def cells(out: Path) -> pd.DataFrame:
    rows = [json.loads(path.read_text()) for path in (out / "cells").glob("*.json")]
    return pd.DataFrame([row["cell"] | row for row in rows])


def wait_for(path: Path, count: int, process: subprocess.Popen[Any]) -> None:
    """Until a folder has so many results, or the process has ended."""
    while process.poll() is None and len(list(path.glob("*.json"))) < count:
        time.sleep(0.001)
    assert process.poll() is None


STORES = ["flat", "nested", "sqlite"]
SIZES = ["100 B", "1 KiB", "2 KiB", "10 KiB"]


@pytest.mark.check
def test_a_killed_worker_goes_on_and_each_cell_is_measured_once(
    cluster: Cluster,
    sweeping: Sweeping,
    write_grid: Callable[..., Path],
    tmp_path: Path,
    kvbench: Run,
) -> None:
    cluster.scheduler()
    one = cluster.worker("one")
    cluster.worker("two")
    grid = write_grid(stores=STORES, record_sizes=SIZES, trials=3, least_ms=20)
    job = sweeping(grid)
    wait_for(tmp_path / "one" / "kvbench-work" / "cells", 1, job)
    end(one)
    cluster.worker("one")
    output, errors = job.communicate()
    assert (job.returncode, said(errors)) == (0, [])
    found = cells(tmp_path / "out")
    wanted = {(s, size, t) for s in STORES for size in SIZES for t in (1, 2, 3)}
    assert Counter(zip(found.store, found.record_size, found.trial, strict=True)) == Counter(wanted)
    assert set(found.status) == {"ok"}
    assert found.machine.nunique() == 1  # the workers are on one host, and say so
    assert kvbench("collect", tmp_path / "out").returncode == 0
    assert sum(map(int, re.findall(r"\b(\d+) ok", output))) == len(wanted) or "36" in output
    again = sweeping(grid)
    assert again.wait() == 0
    assert len(cells(tmp_path / "out")) == len(wanted)


@pytest.mark.check
def test_a_worker_measures_a_disturbed_trial_again(
    cluster: Cluster,
    sweeping: Sweeping,
    write_grid: Callable[..., Path],
    eventful: Callable[[str], dict[str, str]],
    tmp_path: Path,
) -> None:
    cluster.scheduler()
    cluster.worker("one", **eventful("--s---"))
    job = sweeping(write_grid(stores=["flat", "nested"], trials=3), "--repeats", "1")
    output, errors = job.communicate()
    assert (job.returncode, output.strip()) == (0, "6 ok")
    assert "measured again: " in errors
    found = cells(tmp_path / "out")
    assert (found.stopped_s < 0.1).all()
    assert (found.repeated[found.trial == 2] >= 1).all()
    aside = list((tmp_path / "one" / "kvbench-work" / "disturbed").iterdir())
    assert len(aside) == found.repeated.sum()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.check
def test_a_scheduler_that_goes_away_loses_nothing(
    how: signal.Signals,
    cluster: Cluster, sweeping: Sweeping, write_grid: Callable[..., Path], tmp_path: Path,
) -> None:  # fmt: skip
    scheduler = cluster.scheduler()
    worker = cluster.worker("one")
    grid = write_grid(stores=STORES, record_sizes=SIZES, least_ms=20)
    job = sweeping(grid)
    wait_for(tmp_path / "out" / "cells", 1, job)
    scheduler.send_signal(how)
    _, errors = job.communicate()
    assert job.returncode == 2
    assert re.fullmatch(
        "kvbench: --scheduler: .* went away; .*; the same command goes on\n", errors
    )
    assert set(cells(tmp_path / "out").status) == {"ok"}
    end(worker)
    cluster.scheduler()
    cluster.worker("one")
    assert sweeping(grid).wait() == 0
    assert len(cells(tmp_path / "out")) == len(STORES) * len(SIZES)


@pytest.mark.check
def test_core_fields_come_first_and_last(
    cluster: Cluster, sweeping: Sweeping, write_grid: Callable[..., Path], tmp_path: Path
) -> None:
    cluster.scheduler()
    cluster.worker("one")
    core = write_grid(stores=["flat", "nested"], records=[50]).rename(tmp_path / "core.toml")
    job = sweeping(write_grid(), "--core", core)
    _, errors = job.communicate()
    assert (job.returncode, said(errors)) == (0, [])
    found = cells(tmp_path / "out" / "core")
    order = pd.concat([found, cells(tmp_path / "out")]).sort_values("started")
    assert order.records.tolist() == [50, 50, 100, 50, 50]
    assert sorted(found.trial) == [1, 1, 2, 2]


@pytest.mark.check
def test_where_no_scheduler_answers(
    kvbench: Run, write_grid: Callable[..., Path], tmp_path: Path
) -> None:
    done = kvbench(
        "sweep", write_grid(), "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9"
    )
    assert done.returncode == 2
    assert re.fullmatch(
        "kvbench: --scheduler: 'tcp://127.0.0.1:9': no scheduler answers .*\n", done.stderr
    )


# A worker that answers as the file HOW says for each record size: code on the answer `found`, its
# part `field`, and the first `result` with its `name`.
NASTY = """
import copy, json, os, threading
import kvbench.sweep.distributed as distributed
honest = distributed.measure
def measure(task):
    how = json.load(open(os.environ["HOW"])).get(task["cell"]["record_size"], "")
    if how.startswith("instead: "):
        exec(how.removeprefix("instead: "))
        return None
    found = honest(task)
    field = found["field"]
    machine, results = field["machine"], field["results"]
    name, result = min(results.items())
    row = result["operations"][0]
    exec(how)
    return found
measure.__module__, measure.__qualname__ = "kvbench.sweep.distributed", "measure"
distributed.measure = measure
def dask_setup(worker): pass
"""
MACHINE = "machine['machine'] = {0}; [own.update(machine={0}) for own in results.values()]"
ANSWERS = {  # with the number of cells that are kept, of two, and what is said
    "instead: raise OSError('on fire')": (0, "OSError: on fire"),
    "instead: raise distributed.CommClosedError('gone')": (0, "CommClosedError: gone"),
    "instead: pass": (0, "no valid answer"),
    "del found['field']": (0, "no results"),
    "results.clear()": (0, "2 of its cells did not come"),
    "field['results'] = [1]": (0, ""),
    "del field['machine']": (0, "machine"),
    MACHINE.format("'../../pwned'"): (0, "'../../pwned' is no name"),
    MACHINE.format("'m' * 300"): (0, "is no name"),
    MACHINE.format("'..'"): (0, "is no name"),
    "machine['cores'] = -1": (0, "cores: -1 is not allowed"),
    "del machine['packages']": (0, "not a description of a machine"),
    "del results[name]": (1, "1 of its cells did not come"),
    "results['../../evil_0123456789abcdef'] = results.pop(name)": (1, "is no name"),
    "results['evil_0123456789abcdef'] = results.pop(name)": (1, "not the name of its cell"),
    "results['x' * 300] = results.pop(name)": (1, "is no name"),
    "results[name[:-16] + 16 * '0'] = copy.deepcopy(result)": (2, "nobody asked"),
    "results[name] = 7": (1, "not a result"),
    "result['cell']['records'] = 77": (1, "nobody asked for this cell"),
    "result['cell']['store'] = 'lmdb'": (1, "nobody asked for this cell"),
    "result['machine'] = 'another'": (1, ""),
    "result['operations'] = []": (1, "has no operations"),
    "row['n'] = -1": (1, "n: -1 is not allowed"),
    "row['sum_ns'] = float('nan')": (1, "does not fit the schema"),
    "result['floor_ns'] = float('inf')": (1, "floor_ns"),
    "result['disk_bytes'] = None": (1, "disk_bytes: a value is missing"),
    "result['status'] = 'fine'": (1, "status"),
    "result['guarantee'] = '<b>forever</b>'": (1, "guarantee"),
    "result['engine_version'] = 'v' * 100_001": (1, "engine_version"),
    "result['more'] = object()": (0, "no valid answer"),
}


def nasty(cluster: Cluster, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start a scheduler and such a worker; returns the file HOW."""
    (root / "nasty.py").write_text(NASTY)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setitem(QUIET, "PYTHONPATH", str(root))
    monkeypatch.setitem(QUIET, "HOW", str(root / "how"))
    cluster.scheduler()
    cluster.worker("nasty", "--preload", "nasty")
    return root / "how"


@pytest.mark.check
def test_an_answer_that_does_not_fit_costs_its_cells(
    cluster: Cluster,
    sweeping: Sweeping,
    write_grid: Callable[..., Path],
    tmp_path: Path,
    kvbench: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It leaves no file outside the folder and nothing that is refused later."""
    how, out = nasty(cluster, tmp_path, monkeypatch), tmp_path / "out"
    cases = {f"{size} B": (code, *wanted) for size, (code, wanted) in enumerate(ANSWERS.items(), 8)}
    how.write_text(json.dumps({size: code for size, (code, *_) in cases.items()}))
    sizes = list(cases)
    for some in (sizes[at : at + MOST_SHOWN] for at in range(0, len(sizes), MOST_SHOWN)):
        grid = write_grid(stores=["flat", "nested"], record_sizes=some)
        job = sweeping(grid)
        _, errors = job.communicate()
        assert job.returncode == 3, errors
        assert kvbench("collect", out).returncode == 0
        rows = (json.loads(path.read_text()) for path in out.glob("cells/*.json"))
        found = Counter(row["cell"]["record_size"] for row in rows)
        for size in some:
            code, kept, said = cases[size]
            (line,) = (own for own in errors.splitlines() if own.startswith(f"{size} x 100, "))
            assert said in line, code
            assert found[size] == kept, code
    assert not [path for path in tmp_path.rglob("*pwned*") if "work" not in str(path)]
    assert not list(tmp_path.rglob("evil*"))
    how.write_text("{}")
    assert sweeping(grid).wait() == 0
    assert set(cells(out).status) == {"ok"}


IMPATIENT = (
    "import kvbench.sweep.distributed as d; d.GRACE = 1; from kvbench.cli import main; main()"
)


@pytest.mark.check
def test_a_worker_that_hangs_is_awaited_as_long_as_its_cells_may_take(
    cluster: Cluster,
    write_grid: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how, out = nasty(cluster, tmp_path, monkeypatch), tmp_path / "out"
    how.write_text(json.dumps(dict.fromkeys(SIZES, "instead: threading.Event().wait()")))
    grid = write_grid(stores=["flat", "nested"], record_sizes=SIZES)
    command = ["sweep", grid, "--out", out, "--scheduler", cluster.address, "--time-limit", 1]
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *map(str, command)],
        capture_output=True, text=True, check=False, env=QUIET,
    )  # fmt: skip
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if not line.startswith("no worker has")]
    assert len(lines) == len(SIZES)
    for line in lines:
        assert line.endswith(
            "not measured: no worker answered within 1 s a cell; the same command tries again"
        )


@pytest.mark.check
@pytest.mark.parametrize("what", ["dangling", "file", "pipe", "folder"])
def test_the_lock_of_a_host_is_a_file(
    what: str,
    cluster: Cluster,
    sweeping: Sweeping,
    write_grid: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anybody may make something else of its name where all may write."""
    shared = tmp_path / "shared"
    shared.mkdir()
    lock, elsewhere = shared / "kvbench-measures.lock", tmp_path / "elsewhere"
    make: dict[str, Callable[[], object]] = {
        "dangling": lambda: lock.symlink_to(elsewhere),
        "file": lambda: (elsewhere.touch(), lock.symlink_to(elsewhere)),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
    }
    make[what]()
    monkeypatch.setitem(QUIET, "TMPDIR", str(shared))
    cluster.scheduler()
    cluster.worker("one")
    job = sweeping(write_grid())
    _, errors = job.communicate()
    assert job.returncode == 3
    assert f"{lock}: cannot be locked: " in errors
    assert what != "dangling" or not elsewhere.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--core", "core.toml"], "--core: 'core.toml' is not allowed without --scheduler"),
        (["--scheduler", "tcp://x:1", "--minutes", "3"], "--minutes: '3.0' is not allowed with"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], said: str, kvbench: Run, write_grid: Callable[..., Path], tmp_path: Path
) -> None:
    done = kvbench("sweep", write_grid(), "--out", tmp_path / "out", *options)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_the_job_of_a_cluster_with_slurm() -> None:
    """What docs/measuring.md has users run, without the cluster: the script that would be sent."""
    import dask_jobqueue  # noqa: PLC0415

    text = (ROOT / "docs" / "measuring.md").read_text()
    (block,) = re.findall(r"cluster = (SLURMCluster\(.*?\n\))", text, re.DOTALL)
    made = eval(block.replace("SLURMCluster(", "job(", 1), {"job": lambda **own: own})
    script = dask_jobqueue.slurm.SLURMJob("tcp://127.0.0.1:8786", name="x", **made).job_script()
    assert "#SBATCH --exclusive" in script
    assert "--resources measure=1" in script
    assert "--nthreads 1" in script
