"""Fixtures: real shims, real files, and the command line as users run it."""

import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import kvbench as package
import psutil
import pytest
from kvbench import cli
from kvbench.cell import cache
from kvbench.cell.library import shims_folder
from kvbench.machine.noise import JUDGED
from kvbench.stores import about, catalogue
from kvbench.stores.known import KnownStore
from kvbench.sweep import REPEATS
from tabulate import tabulate

# Import now what commands import when they run, or each fork would import it again.
for module in pkgutil.walk_packages(package.__path__, "kvbench."):
    if not module.name.startswith(("kvbench.cell.bindings.", "kvbench.sweep.distributed")):
        importlib.import_module(module.name)

# A shell's background jobs ignore Ctrl-C, and processes that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY = Path("/dev/shm")
ROOT = Path(__file__).resolve().parents[2]
SHIMS = ROOT / "harness/shims"
KNOWN = catalogue.known()
AVAILABLE = [name for name, store in KNOWN.items() if store.available and not store.binding]
KEEPING = [name for name in AVAILABLE if name != "null"]
BOUND = [n for n, s in KNOWN.items() if s.available and s.binding not in ("", "null")]
BINDINGS = [KNOWN[name].binding for name in BOUND]
# Stores that share the shim or binding of another store, for a second build of the engine or the
# same library. Only make check tests these.
TWINS = {name for name in KNOWN if name.endswith(about.DISTRIBUTED)} | {"bdb/bsddb3"}

FEW = ("null", "flat", "nested", "leveldb", "lmdb", "sqlite")

ENDS = 30  # seconds until a killed process, or what it left, is gone

FORKING = ("crash", "faults", "rot")  # commands that open stores in forks of their own process

Run = Callable[..., subprocess.CompletedProcess[str]]
# A store that hangs when it is measured, after it has started a process that leaves the worker's
# session. It can be probed as usual.
HANGING = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "null.c"
__attribute__((constructor)) static void hang(void) {
    if (!getenv("KVBENCH_CELL")) return;
    if (fork() == 0) {
        char number[20], part[4096];
        setsid();
        prctl(PR_SET_PDEATHSIG, 0);
        snprintf(part, sizeof part, "%s.part", getenv("HUNG"));
        int file = open(part, O_CREAT | O_WRONLY, 0600);
        if (write(file, number, (size_t)snprintf(number, sizeof number, "%d", getpid())) > 0)
            rename(part, getenv("HUNG"));
    }
    for (;;) pause();
}
"""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of tests into memory if there is enough, so that no sync waits for a disk.
    The tests check the same things there. Take Ctrl-C back, which a job in the background ignores:
    the programs under test would inherit that. Let no sweep repeat what the tests' host disturbs.
    """
    os.environ["KVBENCH_REPEATS"] = "0"
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    fits = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 << 30
    if fits and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="pytest-", dir=MEMORY)
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


def _is_twin(value: object) -> bool:
    """Whether a parameter is, names or contains a twin."""
    store = getattr(value, "store", value)
    name = getattr(store, "full_name", store)
    return isinstance(name, str) and name in TWINS


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave twins, and conformance cases with settings, to make check."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        settings = getattr(parameters.get("subject"), "options", None)
        if settings or any(map(_is_twin, parameters.values())):
            item.add_marker(pytest.mark.check)


def forked(
    main: Callable[[list[str]], object], *arguments: Any, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the main function of a command in a fork, where everything is imported already;
    `env` adds to its environment."""
    texts = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = get_context("fork").Process(
            target=_command, args=(main, texts, env or {}, output.fileno(), errors.fileno())
        )
        child.start()
        child.join()
        output.seek(0), errors.seek(0)
        assert child.exitcode is not None
        return subprocess.CompletedProcess(texts, child.exitcode, output.read(), errors.read())


@pytest.fixture
def kvbench() -> Run:
    """Run the command `kvbench`: see forked(). One that opens stores in forks of its own is started
    anew, since an engine's threads, which this process may have, do not survive a fork."""

    def run(*arguments: Any, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        if not arguments or str(arguments[0]) not in FORKING:
            return forked(cli.main, *arguments, env=env)
        command = [sys.executable, "-m", "kvbench.cli", *map(str, arguments)]
        return subprocess.run(
            command, env=os.environ | (env or {}), capture_output=True, text=True, check=False
        )

    return run


def calm(out: Path) -> None:
    """Change the results of a sweep as if the machine's host had disturbed none of its cells. Some
    analyses leave such cells out."""
    for path in out.glob("cells/*"):
        result = json.loads(path.read_text())
        undisturbed = {name: 0.0 for name in JUDGED if name.endswith("_s") and name != "wall_s"}
        path.write_text(json.dumps(result | undisturbed))


@pytest.fixture
def tiny(kvbench: Run, tmp_path: Path) -> Callable[..., Path]:
    """Sweep an experiment at its tiny scale, and return the folder of the collected results. The
    folder is created below the given one, or else in memory, where no store waits for a disk."""

    def sweep(name: str, below: Path = tmp_path) -> Path:
        grid, out = SHIMS.parent / "grids" / f"{name}.toml", below / "out"
        assert kvbench("sweep", grid, "--scale", "tiny", "--out", out).returncode == 0
        calm(out)
        assert kvbench("collect", out).returncode == 0
        return out

    return sweep


def _command(
    main: Callable[[list[str]], object], texts: list[str], env: dict[str, str], output: int,
    errors: int,
) -> None:  # fmt: skip
    os.dup2(output, 1), os.dup2(errors, 2)
    os.closerange(3, 1024)  # a new process would not inherit these descriptors
    os.environ.update(env)
    sys.argv = ["kvbench", *texts]
    with (
        os.fdopen(1, "w") as out,
        os.fdopen(2, "w") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        sys.exit(main(texts))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def write_grid(tmp_path: Path) -> Callable[..., Path]:
    """Write a grid file of one small cell, changed by the given keys. By default operations are
    repeated only for their number, not for a least time."""

    def write(**keys: Any) -> Path:
        values = {"stores": ["flat"], "records": [100], "trials": 1, "least_ms": 0} | keys
        path = tmp_path / "grid.toml"
        lines = (f"{key} = {_toml(value)}\n" for key, value in values.items())
        path.write_text("".join(lines))
        return path

    return write


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk. Skips the test if the folder is in memory, because its files cannot be
    evicted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "probe").write_bytes(bytes(1 << 20))
        cache.evict(folder)
        if cache.cached_share(folder) > 0:
            pytest.skip(f"{folder}: a file system in memory")
        yield folder


@pytest.fixture
def own_shims(tmp_path: Path) -> Path:
    """A copy of the shims of FEW, to which a test may add and from which it may remove. Each
    command probes them all."""
    folder = tmp_path / "shims"
    folder.mkdir()
    kept = [f"{name}.{kind}" for name in FEW for kind in ("so", "toml")]
    for name in ("libloop.so", "build.json", "older.json", *kept):
        if (shims_folder() / name).exists():
            shutil.copy(shims_folder() / name, folder)
    report = json.loads((shims_folder() / "stores.json").read_text())
    (folder / "stores.json").write_text(json.dumps({name: report[name] for name in FEW}))
    return folder


@pytest.fixture
def compile_shim(own_shims: Path, tmp_path: Path) -> Callable[..., Path]:
    """Compile C source into own_shims, as a store with the given name."""

    def build(name: str, source: str, *flags: str) -> Path:
        file = tmp_path / f"altered-{name}.c"  # unlike the names of included files
        file.write_text(source)
        include = f"-I{SHIMS}", f"-I{SHIMS / 'stores'}"
        command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", *include]
        output = own_shims / f"{name}.so"
        subprocess.run([*command, str(file), "-o", str(output), *flags], check=True)
        return output

    return build


# Every worker loads this store, which does nothing, to measure the harness itself. The letters of
# EVENTS say what happens then, one worker after the other: s: a signal stops the worker for 0.2 s;
# k: the sweep is killed; i: it is interrupted; anything else: nothing.
EVENTFUL = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "null.c"

__attribute__((constructor)) static void happen(void)
{
    const char *events = getenv("EVENTS"), *starts = getenv("STARTS");
    if (!getenv("KVBENCH_CELL") || !events)
        return;
    int file = open(starts, O_WRONLY | O_CREAT | O_APPEND, 0600);
    struct stat found;
    if (write(file, "+", 1) != 1 || fstat(file, &found))
        abort();
    close(file);
    size_t number = (size_t)found.st_size;
    char event = number > strlen(events) ? '-' : events[number - 1];
    if (event == 'k')
        kill(getppid(), SIGKILL);
    if (event == 'i')
        kill(getppid(), SIGINT);
    if (event != 's')
        return;
    pid_t worker = getpid(), child = fork();
    if (child == 0) {
        kill(worker, SIGSTOP);
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        kill(worker, SIGCONT);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}
"""


@pytest.fixture
def eventful(
    own_shims: Path, compile_shim: Callable[..., Path], tmp_path: Path
) -> Callable[[str], dict[str, str]]:
    """Return the environment in which these events happen to the workers. The file `starts` has a
    byte for each worker."""
    compile_shim("null", EVENTFUL)
    own = {"KVBENCH_SHIMS": str(own_shims), "STARTS": str(tmp_path / "starts")}
    own["KVBENCH_REPEATS"] = str(REPEATS)
    return lambda events: own | {"EVENTS": events}


@pytest.fixture
def hanging(
    write_grid: Callable[..., Path],
    own_shims: Path,
    compile_shim: Callable[..., Path],
    tmp_path: Path,
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a sweep whose worker hangs. The worker has started a process in a new session, and
    written its process ID into the file `hung`, by default next to the results folder."""
    compile_shim("null", HANGING)
    started = []

    def start(out: Path, *arguments: object, hung: Path | None = None) -> subprocess.Popen[bytes]:
        hung = hung or out.parent / "hung"
        sweep = ["sweep", write_grid(stores=["null"]), "--out", out, *arguments]
        env = os.environ | {"KVBENCH_SHIMS": str(own_shims), "HUNG": str(hung)}
        process = subprocess.Popen(
            [sys.executable, "-m", "kvbench.cli", *map(str, sweep)],
            stderr=subprocess.PIPE, env=env,
        )  # fmt: skip
        started.append(process)
        while process.poll() is None and not hung.exists():
            time.sleep(0.001)
        assert process.poll() is None
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    for path in tmp_path.rglob("hung"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def heed_hangup() -> None:
    """For preexec_fn: under nohup, a program would ignore the SIGHUP that a test sends to it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def runs(path: Path) -> bool:
    """Whether the process whose ID the file contains is still running."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(int(path.read_text())).status() != psutil.STATUS_ZOMBIE
    return False


def gone(*paths: Path) -> bool:
    """Whether what a killed command left is removed, if need be soon: a command of a test that runs
    beside may have been the first to find it, and the others leave it to that one."""
    end = time.monotonic() + ENDS
    while any(map(os.path.lexists, paths)) and time.monotonic() < end:
        time.sleep(0.001)
    return not any(map(os.path.lexists, paths))


ALTERED = """
{honest}
{code}
struct kv_driver kv_driver;
__attribute__((constructor)) static void alter(void)
{{
    kv_driver = honest;
    {replaced}
}}
"""
LIBRARIES = {"lmdb": ("-llmdb",), "leveldb": ("-lleveldb",)}


@pytest.fixture
def alter_shim(
    compile_shim: Callable[..., Path], own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., KnownStore]:
    """Build a store from the shim `honest`, whose driver the C code finds under that name. The code
    defines my_get, my_write and so on, which replace the driver's functions."""

    def build(honest: str, code: str, *functions: str, name: str = "altered") -> KnownStore:
        if honest != "template" and honest not in AVAILABLE:
            pytest.skip(f"built on the shim of {honest}: {KNOWN[honest].reason}")
        text = (SHIMS / "stores" / f"{honest}.c").read_text()
        for old, new in (("kv_driver kv_driver", "kv_driver honest"), ("&kv_driver", "&honest")):
            text = text.replace(old, new)
        replaced = "".join(f"kv_driver.{function} = my_{function};" for function in functions)
        source = ALTERED.format(honest=text, code=code, replaced=replaced)
        compile_shim(name, source, *LIBRARIES.get(honest, ()))
        monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
        return KnownStore(name)

    return build


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many conformance cases each store passed, and the syncs of each level."""
    slopes = [
        value
        for report in terminalreporter.stats.get("passed", [])
        if report.when == "call"
        for name, value in report.user_properties
        if name == "slope"
    ]
    if slopes:
        headers = ("store", "durability", "guarantee", "syncs per write", "calls")
        terminalreporter.section("syncs per write, between 1,000 and 2,000 writes")
        terminalreporter.write_line(tabulate(slopes, headers=headers, disable_numparse=True))
    passed: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        if report.when == "call" and "test_conformance" in report.nodeid:
            names = [value for name, value in report.user_properties if name == "subject"]
            passed.update(names)
    if passed:
        terminalreporter.section("conformance")
    for name, count in passed.items():
        terminalreporter.write_line(f"{name}: {count} cases passed")


@pytest.fixture(autouse=True)
def count_subject(request: pytest.FixtureRequest) -> None:
    """Record the store that a conformance case tests, for the summary."""
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    if "subject" in parameters:
        request.node.user_properties.append(("subject", str(parameters["subject"])))
