"""What a command makes beside its results: however it ends, nothing stays; of one that was killed,
until the next command. Real commands, mounts and engines."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import psutil
import pytest
from kvbench.cli import STOPPED
from kvbench.durability import evidence
from kvbench.durability.crashes import KINDS
from kvbench.machine import loopback
from kvbench.machine.scratch import scratch
from kvbench.machine.shelf import MARK, runs
from kvbench.results.folder import Folder
from support import ENDS, KNOWN, ROOT, Run, gone, heed_hangup

DATA = ROOT / "data"
CRASH = ("crash", "sqlite", "--crashes", "2", "--records", "300", "--seconds", "0.05")

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where stores are made."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "letter").write_text("dear")
    yield folder
    for mount in reversed(mounts(tmp_path)):  # of a test that failed
        subprocess.run(["umount", mount], check=False)


@pytest.fixture
def aside(tmp_path: Path) -> Path:
    """Where temporary files are made."""
    folder = tmp_path / "aside"
    folder.mkdir()
    return folder


@pytest.fixture
def start(aside: Path) -> Iterator[Start]:
    """Starts a command."""
    started = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kvbench.cli", *map(str, arguments)]
        env = os.environ | {"TMPDIR": str(aside)}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
            preexec_fn=heed_hangup,  # noqa: PLW1509 - no thread runs here
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def mounts(folder: Path) -> list[str]:
    found = [disk.mountpoint for disk in psutil.disk_partitions(all=True)]
    return [mount for mount in found if mount.startswith(f"{folder}/")]


def devices(folder: Path) -> list[str]:
    """The files below a folder that are behind loop devices."""
    return [path for path in loopback.backing_files() if path.startswith(f"{folder}/")]


def processes(folder: Path) -> list[psutil.Process]:
    """Those that were started to work below a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(part.startswith(f"{folder}/kvbench-") for part in process.cmdline()):
                found.append(process)
    return found


def writes(place: Path) -> bool:
    return any("kvbench.durability.writer" in " ".join(own.cmdline()) for own in processes(place))


def stopped(place: Path) -> bool:
    """Whether a writer is stopped, and its disk copied."""
    return any(own.status() == psutil.STATUS_STOPPED for own in processes(place))


def works(place: Path) -> bool:
    return bool(processes(place))


def mounted(place: Path) -> bool:
    return bool(mounts(place))


def begun(place: Path) -> bool:
    return any(place.glob(f"kvbench-*/{MARK}"))


def shelves(place: Path) -> list[Path]:
    return list(place.glob("kvbench-*"))


MOMENTS = [
    (("evidence", "gdbm"), begun),
    (("evidence", "gdbm"), writes),
    pytest.param(("evidence", "gdbm"), mounted, marks=pytest.mark.check),
    (("sharing", "gdbm"), works),
    (CRASH, works),
    (CRASH, mounted),
    (CRASH, stopped),
]
CASES = pytest.mark.parametrize(
    ("command", "moment"), MOMENTS, ids=lambda v: v[0] if isinstance(v, tuple) else v.__name__
)


def wait_for(moment: Callable[[Path], bool], place: Path, process: subprocess.Popen[str]) -> None:
    """Until the moment comes; the test is skipped where it cannot."""
    if moment in (mounted, stopped) and (why := evidence.mounting_fails(place)):
        pytest.skip(why)
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            if moment(place):
                return
    pytest.fail(f"ended before: {process.communicate()}")


def halt_while(moment: Callable[[Path], bool], place: Path, process: subprocess.Popen[str]) -> None:
    """Stop a process at a moment that would pass."""
    while True:
        wait_for(moment, place, process)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if moment(place):
            return
        process.send_signal(signal.SIGCONT)


def left(place: Path, aside: Path) -> list[object]:
    files = [path for folder in (place, aside) for path in folder.iterdir()]
    found = [path for path in files if path.name != "letter"]
    return [*found, *mounts(place), *devices(place), *processes(place)]


@CASES
@pytest.mark.check
def test_the_next_command_removes_what_a_killed_one_left(
    command: tuple[str, ...],
    moment: Callable[[Path], bool],
    start: Start,
    place: Path,
    aside: Path,
    tmp_path: Path,
) -> None:
    """Its processes end with it, even one that is stopped. The next one is another command."""
    first = start(*command, "--place", place, "--out", tmp_path / "first.csv")
    wait_for(moment, place, first)
    own = processes(place)
    assert begun(place)  # before the kill: another command may remove it from then on
    first.kill()
    first.wait()
    end = time.monotonic() + ENDS
    while any(map(runs, own)) and time.monotonic() < end:
        time.sleep(0.001)
    assert not any(map(runs, own))
    second = start("sharing", "null", "--place", place, "--out", tmp_path / "second.csv")
    assert second.wait() == 0, second.communicate()
    assert gone(*shelves(place), *shelves(aside))
    assert left(place, aside) == []
    assert (place / "letter").read_text() == "dear"
    assert not (tmp_path / "first.csv").exists()


@pytest.mark.check
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@CASES
def test_a_command_that_is_stopped_leaves_nothing(
    command: tuple[str, ...],
    moment: Callable[[Path], bool],
    stop: signal.Signals,
    start: Start,
    place: Path,
    aside: Path,
    tmp_path: Path,
) -> None:
    """Nor if it is told twice, as `timeout` does."""
    out = tmp_path / "out.csv"
    first = start(*command, "--place", place, "--out", out)
    wait_for(moment, place, first)
    first.send_signal(stop)
    first.send_signal(stop)
    _, said = first.communicate()
    assert first.returncode == STOPPED, said
    assert said.splitlines()[-1].startswith("kvbench: stopped; ")
    assert left(place, aside) == []
    assert not out.exists()


def test_a_disk_is_unmounted_from_below_a_program_that_nobody_ends(place: Path) -> None:
    """As if Ctrl-C came between its start and the block that ends it."""
    if why := evidence.mounting_fails(place):
        pytest.skip(why)
    with pytest.raises(KeyboardInterrupt), scratch(place) as folder:
        evidence.make_image(folder / "image", 8 << 20)
        with evidence.mounted(folder / "image", folder / "mounted") as disk:
            held = ["sh", "-c", 'exec > "$0/file"; echo; exec sleep inf', str(disk)]
            own = subprocess.Popen(held, start_new_session=True)
            while not any((disk / "file").parent.glob("file")):
                assert own.poll() is None
            raise KeyboardInterrupt
    assert own.wait() == -signal.SIGKILL
    assert mounts(place) == devices(place) == []
    assert [path.name for path in place.iterdir()] == ["letter"]


def test_a_sweep_removes_what_a_killed_crash_left(
    kvbench: Run, write_grid: Callable[..., Path], start: Start, place: Path, tmp_path: Path
) -> None:
    """Wherever it is, if anything of it is still mounted; test_filesystem.py has the reverse."""
    grid, out = write_grid(), tmp_path / "out"
    first = start(*CRASH, "--place", place, "--out", tmp_path / "first.csv")
    halt_while(mounted, place, first)
    first.kill()
    first.wait()
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    assert gone(*shelves(place))
    assert not mounts(place) + devices(place)
    assert [path.name for path in place.iterdir()] == ["letter"]


def test_only_what_a_dead_command_of_kvbench_made_is_removed(
    start: Start, place: Path, aside: Path, tmp_path: Path
) -> None:
    """Neither a folder that is only named so, with a mount in it, nor what a living command uses,
    nor what a link leads to."""
    if why := evidence.mounting_fails(tmp_path):
        pytest.skip(why)
    foreign, linked = place / "kvbench-0123456789ab", tmp_path / "linked"
    foreign.mkdir()
    linked.mkdir()
    (linked / MARK).write_text("\n")
    (place / "kvbench-0123456789ac").symlink_to(linked)
    evidence.make_image(foreign / "image", 8 << 20)
    with evidence.mounted(foreign / "image", foreign / "mounted") as folder:
        (folder / "letter").write_text("dear")
        living = start("sharing", "gdbm", "--place", place, "--out", tmp_path / "living.csv")
        wait_for(begun, place, living)
        second = start("sharing", "null", "--place", place, "--out", tmp_path / "second.csv")
        assert second.wait() == 0, second.communicate()
        assert (folder / "letter").read_text() == "dear"
        assert os.listdir(linked) == [MARK]
        assert living.wait() == 0, living.communicate()


@pytest.mark.check
def test_a_crash_that_was_stopped_goes_on(start: Start, place: Path, tmp_path: Path) -> None:
    """The rows of a level are kept as soon as they are known, with what they depend on."""
    if not KNOWN["sqlite"].available:
        pytest.skip(KNOWN["sqlite"].reason)
    if why := evidence.mounting_fails(place):
        pytest.skip(why)
    out = tmp_path / "crashes.csv"
    part = tmp_path / "crashes.csv.part"
    command = (*CRASH, "--place", place, "--out", out)
    first = start(*command)
    while first.poll() is None and not part.exists():
        time.sleep(0.001)
    first.terminate()
    _, said = first.communicate()
    assert first.returncode == STOPPED, said
    words = f"stopped; 2 rows are kept in {part}; the same command goes on from there"
    assert said.splitlines()[-1] == f"kvbench: {words}"
    (kept,) = json.loads(part.read_text())["rows"].values()
    second = start(*command)
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert not part.exists()
    table = pd.read_csv(out)
    assert table.durability.tolist() == [level for level in KINDS for _ in range(2)]
    found = table.acknowledged_writes.tolist()[:2]
    assert found == [row["acknowledged_writes"] for row in kept]


@pytest.mark.check
@pytest.mark.parametrize("text", ["", "[]", '{"about": {}}', '{"about": 1, "rows": 2}', "\0"])
def test_rows_of_other_conditions_are_not_used(
    text: str, start: Start, place: Path, tmp_path: Path
) -> None:
    out, part = tmp_path / "crashes.csv", tmp_path / "crashes.csv.part"
    part.write_text(text)
    (tmp_path / "crashes.csv.part.123.tmp").touch()  # a write that was killed
    (tmp_path / "crashes.csv.tmp").touch()
    few = ("--crashes", 1, "--records", 100, "--seconds", 0.02)
    done = start("crash", "gdbm", *few, "--place", place, "--out", out)
    _, said = done.communicate()
    if not KNOWN["gdbm"].available:
        pytest.skip(KNOWN["gdbm"].reason)
    assert done.returncode == 0, said
    assert f"{part}: kept under other conditions; all is measured again" in said
    assert len(pd.read_csv(out)) == 1
    names = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert names == {"crashes.csv", "crashes.csv.tmp"}


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.check
def test_a_restored_folder_is_whole_or_not_there(
    stop: signal.Signals, there: bool, start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "below" / "out"
    if there:
        out.mkdir(parents=True)
    command = ("restore", DATA / "durability", "--out", out)
    first = start(*command)
    while first.poll() is None and not any(tmp_path.rglob("cells/*.json")):
        time.sleep(0.001)
    first.send_signal(stop)
    _, said = first.communicate()
    killed = stop == signal.SIGKILL
    assert first.returncode == (-stop if killed else STOPPED), said
    assert killed or said.splitlines()[-1] == "kvbench: stopped; nothing was kept"
    assert out.exists() == there
    assert killed or not there or not any(out.iterdir())
    second = start(*command)
    _, said = second.communicate()
    assert second.returncode == 0, said
    cells = len(pd.read_parquet(DATA / "durability" / "cells.parquet"))
    assert len(Folder(out).current()) == cells
    assert sorted(os.listdir(out)) == ["cells", "grids", "kvbench.json", "machines"]
    assert not any(path.name.startswith("kvbench-") for path in tmp_path.rglob("*"))
