"""`kvbench audit`: what a program writes and syncs, and the level that this amounts to."""

import ctypes
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kvbench.cli import STOPPED
from kvbench.durability import evidence
from kvbench.durability.strace import Trace, tracing_fails
from kvbench.machine.shelf import marked
from support import Run, heed_hangup, runs

pytestmark = pytest.mark.skipif(bool(tracing_fails()), reason=tracing_fails() or "")

N = 20
SOURCE = Path(__file__).with_name("writers.c")
PROGRAMS = dict(re.findall(r'^PROGRAM\((\w+), "(.*)"\)', SOURCE.read_text(), re.MULTILINE))
# What a loss of power leaves of some of them: at least so many bytes, and at most.
LEAVES = {
    "fsync_each": (2000, 2000),
    "synced_by_hard_link": (2000, 2000),
    "dsync_duplicated": (2000, 2000),
    "synced_by_child": (2000, 2000),
    "opened_each_time": (2000, 2000),
    "copied_in_the_kernel_and_synced": (2000, 2000),
    "spliced_and_synced": (2000, 2000),
    "nothing_synced": (0, 0),
    "synced_before_written": (1900, 1900),
    "sync_file_range_each": (0, 0),
    "syncfs_of_another_disk": (0, 0),
    "dsync_in_a_name": (0, 0),
    "dsync_number_taken_over": (0, 0),
    "log_synced_data_not": (0, 1999),
    "stdio_synced_not_flushed": (0, 0),
    "copied_in_the_kernel": (0, 0),
    "standard_output_of_ones_own": (0, 0),
    "mapped_beside_a_log": (0, 0),
}  # fmt: skip


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of known truth, compiled."""
    built = tmp_path_factory.mktemp("writers") / "writers"
    flags = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run(["cc", *flags, str(SOURCE), "-o", str(built)], check=True)
    return built


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that some programs find."""
    folder = tmp_path / "folder"
    folder.mkdir()
    prepare(folder)
    monkeypatch.chdir(folder)
    return folder


def prepare(folder: Path) -> None:
    for i in range(N):
        (folder / f"before{i}").write_text("x")
    (folder / "old").write_text("x")
    os.link(folder / "old", folder / "linked")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_level_is_the_one_that_the_program_has(
    name: str, writers: Path, inside: Path, kvbench: Run, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    command = ("--operations", N, "--json", "--out", report, "--", writers, name, N)
    done = kvbench("audit", *command)
    assert (done.returncode, done.stderr) == (137 if name == "killed" else 0, "")
    found = json.loads(report.read_text())
    assert (found["level"], found["why"]) == (PROGRAMS[name], found["why"])


@pytest.mark.check
@pytest.mark.parametrize("name", LEAVES)
def test_a_loss_of_power_leaves_what_the_level_says(
    name: str, writers: Path, tmp_path: Path
) -> None:
    """The truth about the programs, from a disk that is shut down right after they have ended."""
    if why := evidence.mounting_fails(tmp_path):
        pytest.skip(f"no image can be mounted: {why}")
    image, copy = tmp_path / "image", tmp_path / "copy"
    evidence.make_image(image, 32 << 20)
    with evidence.mounted(image, tmp_path / "mounted") as folder:
        prepare(folder)
    with evidence.mounted(image, tmp_path / "mounted") as folder:
        subprocess.run([writers, name, str(N)], cwd=folder, check=True)
        evidence.shut_down(folder)
        evidence.copy_of(image, copy)
    with evidence.mounted(copy, tmp_path / "again") as folder:
        names = ("data", "O_DSYNC", "other")
        sizes = [(folder / name).stat().st_size for name in names if (folder / name).exists()]
        if name == "mapped_beside_a_log":
            sizes = [sum((folder / "data").read_bytes()) if sizes else 0]
    least, most = LEAVES[name]
    assert least <= sum(sizes) <= most


WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | {flags})
for _ in range(20):
    os.write(file, b"x" * 100)
    {after}
{last}
print("written")
sys.exit(7)
"""
LEVELS = {
    "each is synced": ("0", "os.fsync(file)", "", "sync: "),
    "by a flag": ("os.O_DSYNC", "pass", "", "sync: "),
    "all are synced at the end": ("0", "pass", "os.fdatasync(file)", "process: "),
    "none is synced": ("0", "pass", "", "process: "),
    "the last one is not": ("0", "os.fsync(file)", "os.write(file, b'y')", "process: "),
}


@pytest.mark.parametrize("case", LEVELS)
def test_the_report_tells_what_was_done_to_each_file(
    case: str, kvbench: Run, tmp_path: Path
) -> None:
    flags, after, last, level = LEVELS[case]
    program, target = tmp_path / "writer.py", tmp_path / "data"
    program.write_text(WRITER.format(flags=flags, after=after, last=last))
    done = kvbench("audit", "--operations", "20", "--", sys.executable, program, target)
    assert (done.returncode, done.stdout) == (7, "written\n")
    assert f"durability level: {level}" in done.stderr
    row = next(line for line in done.stderr.splitlines() if line.startswith(str(target)))
    cells = row.split()[1:]
    assert cells[:2] == (["21", "2,001"] if "b'y'" in last else ["20", "2,000"])
    assert cells[-1] == ("no" if case in ("none is synced", "the last one is not") else "yes")


def test_each_kind_of_sync_is_counted_apart(kvbench: Run, tmp_path: Path) -> None:
    program, report = (
        f"""
import os
file = os.open({str(tmp_path / "data")!r}, os.O_WRONLY | os.O_CREAT)
for sync, times in ((os.fsync, 2), (os.fdatasync, 3)):
    for _ in range(times):
        os.write(file, b"x")
        sync(file)
os.sync()
os.write(os.open({str(tmp_path / "data")!r}, os.O_WRONLY | os.O_DSYNC), b"x")
""",
        tmp_path / "report",
    )
    done = kvbench("audit", "--json", "--out", report, "--", sys.executable, "-c", program)
    assert done.returncode == 0
    found = json.loads(report.read_text())
    assert found["calls"] == {
        "fsync": 2, "fdatasync": 3, "sync": 1, "O_DSYNC": 1,
        "msync": 0, "syncfs": 0, "sync_file_range": 0,
    }  # fmt: skip
    assert (found["writes"], found["unsynced"]) == (6, [])
    text = kvbench("audit", "--", sys.executable, "-c", program).stderr
    assert re.search(r"^fsync calls +2 ", text, re.MULTILINE)
    assert re.search(r"^fdatasync calls +3 ", text, re.MULTILINE)


def test_files_that_are_set_aside_do_not_count(writers: Path, inside: Path, kvbench: Run) -> None:
    for name, patterns in (
        ("log_for_people_each_time", ["LOG"]),
        ("mapped_beside_a_log", ["*/data"]),
        ("files_without_folder_synced", [str(inside)]),
    ):
        aside = [part for pattern in patterns for part in ("--aside", pattern)]
        done = kvbench("audit", "--operations", N, *aside, "--", writers, name, N)
        assert "durability level: sync: " in done.stderr, name


@pytest.mark.parametrize(
    ("program", "level"),
    [
        ("i=0; while [ $i -lt 20 ]; do echo x >> data; i=$((i+1)); done", "process"),
        ("i=0; while [ $i -lt 20 ]; do echo x >> data; sync data; i=$((i+1)); done", "sync"),
        ("i=0; while [ $i -lt 20 ]; do echo x >> data; sync; i=$((i+1)); done", "sync"),
        ("dd if=/dev/zero of=data bs=10 count=20 status=none", "process"),
        ("dd if=/dev/zero of=data bs=10 count=20 oflag=dsync status=none", "sync"),
        ("dd if=/dev/zero of=data bs=10 count=20 conv=fsync status=none", "process"),
        ("i=0; while [ $i -lt 20 ]; do cp old data; i=$((i+1)); done", "process"),
        ("cp old data", "not known"),
        ("i=0; while [ $i -lt 20 ]; do echo x; i=$((i+1)); done > data", "process"),
        ("true", "none"),
    ],
)
def test_the_level_of_shell_commands(program: str, level: str, inside: Path, kvbench: Run) -> None:
    done = kvbench("audit", "--operations", N, "--", "sh", "-c", program)
    assert f"durability level: {level}: " in done.stderr
    assert level == "none" or "wait in the process" not in done.stderr


def test_output_that_is_inherited_does_not_count(kvbench: Run, writers: Path, inside: Path) -> None:
    """The fixture takes the output into files."""
    program = "i=0; while [ $i -lt 20 ]; do echo x; i=$((i+1)); done"
    done = kvbench("audit", "--operations", N, "--", "sh", "-c", program)
    assert (done.returncode, done.stdout) == (0, "x\n" * 20)
    assert "was inherited, as output for people: it does not count" in done.stderr
    assert "durability level: not known: only files that the program inherited" in done.stderr


def test_writes_that_wait_in_the_process_are_none(kvbench: Run, tmp_path: Path) -> None:
    program = f"file = open({str(tmp_path / 'data')!r}, 'wb')\nfor _ in range(20): file.write(b'x')"
    report = tmp_path / "report"
    command = ("--operations", "20", "--out", report, "--", sys.executable, "-c", program)
    done = kvbench("audit", *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search("durability level: none: .* wait in the process", report.read_text())


def test_the_report_as_json_has_what_the_text_has(kvbench: Run, tmp_path: Path) -> None:
    program, target, report = tmp_path / "writer.py", tmp_path / "data", tmp_path / "report"
    program.write_text(WRITER.format(flags="0", after="pass", last=""))
    command = ("--operations", "20", "--json", "--out", report, "--")
    assert kvbench("audit", *command, sys.executable, program, target).returncode == 7
    found = json.loads(report.read_text())
    counts = {"status": 7, "operations": 20, "writes": 20, "bytes_written": 2000, "settled": 0}
    assert counts.items() <= found.items()
    assert (found["level"], found["unsynced"]) == ("process", [str(target)])
    assert found["unsynced_folders"] == [str(tmp_path)]


def test_a_synced_write_leaves_earlier_ones_unsynced(kvbench: Run, tmp_path: Path) -> None:
    program = f"""
import os
for flags in (0, os.O_DSYNC):
    file = os.open({str(tmp_path / "data")!r}, os.O_WRONLY | os.O_CREAT | flags)
    os.write(file, b"x")
    os.close(file)
"""
    done = kvbench("audit", "--operations", "1", "--", sys.executable, "-c", program)
    assert "1 files were written after their last sync" in done.stderr
    assert "durability level: process" in done.stderr


def test_what_is_mapped_is_named(kvbench: Run, tmp_path: Path) -> None:
    program = f"""
import mmap
with open({str(tmp_path / "data")!r}, "w+b") as file:
    file.truncate(4096)
    with mmap.mmap(file.fileno(), 4096) as page:
        page[:4] = b"data"
        page.flush()
"""
    done = kvbench("audit", "--", sys.executable, "-c", program)
    assert "1 files were mapped to be written, which is not seen; 1 calls synced" in done.stderr


def test_paths_are_taken_as_they_are(kvbench: Run, tmp_path: Path) -> None:
    """Names that look like part of a trace: none is taken for one."""
    names = ["a) = 5", 'b", O_DSYNC', "c>(deleted)", "d\nfsync(3) = 0", b'e\xff <f> \\ "g', "ü"]
    for name in map(os.fsencode, names):
        program = f"""
import os
os.chdir({os.fsencode(tmp_path)!r})
file = os.open({name!r}, os.O_WRONLY | os.O_CREAT)
other = os.open({name!r}, os.O_RDONLY)
os.rename({name!r}, {name!r} + b"2")
for _ in range(20):
    os.write(file, b"x")
    {{}}
os.unlink({name!r} + b"2")
"""
        for after, level in (("os.fsync(other)", "sync"), ("pass", "process")):
            text, report = program.format(after), tmp_path / "report"
            command = ("--operations", N, "--json", "--out", report, "--")
            assert kvbench("audit", *command, sys.executable, "-c", text).returncode == 0
            assert json.loads(report.read_text())["level"] == level


def test_the_signal_that_ends_a_program_passes_through(kvbench: Run) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = kvbench("audit", "--operations", "1", "--", sys.executable, "-c", program)
    assert done.returncode == 128 + 9
    assert "durability level: not known: the program was ended by SIGKILL" in done.stderr


@pytest.mark.parametrize("kind", ["missing", "not in PATH", "a folder", "not executable", "text"])
def test_what_cannot_be_run_is_refused(kind: str, kvbench: Run, tmp_path: Path) -> None:
    program = tmp_path / "program"
    if kind == "text":
        program.write_text("neither a script nor a program")
        program.chmod(0o755)
    elif kind == "not executable":
        program.write_text("#!/bin/sh\n")
    name = {"a folder": tmp_path, "not in PATH": "no-such-program"}.get(kind, program)
    done = kvbench("audit", "--operations", "1", "--", name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{str(name)!r} cannot be run: " in done.stderr


WAITING = """
import os, signal, sys
if sys.argv[2] == "deaf":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    with open(sys.argv[1], "w") as file:
        file.write(str(os.getpid()))
    print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the audit of a program that waits, and whose child has written its number."""
    started = []

    def start(how: str = "") -> subprocess.Popen[str]:
        program = [sys.executable, "-c", WAITING, str(tmp_path / "child"), how]
        command = [sys.executable, "-m", "kvbench.cli", "audit", "--operations", "1", "--"]
        process = subprocess.Popen(
            [*command, *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=heed_hangup,  # noqa: PLW1509 - no thread runs here
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_audit_that_is_stopped_ends_the_program_and_reports(
    stop: signal.Signals, waiting: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = waiting()
    process.send_signal(stop)
    _, said = process.communicate()
    assert process.returncode == STOPPED
    assert f"stopped by {stop.name}" in said
    assert "durability level: not known: " in said
    assert not runs(tmp_path / "child")


def test_a_signal_that_another_thread_receives_is_heeded(
    waiting: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """The kernel may choose any thread, and the main one waits for strace."""
    process = waiting()
    others = set(map(int, os.listdir(f"/proc/{process.pid}/task"))) - {process.pid}
    tgkill = 234  # x86_64
    if platform.machine() != "x86_64":
        pytest.skip("the number of tgkill(2) is that of x86_64")
    assert others
    ctypes.CDLL(None).syscall(tgkill, process.pid, min(others), signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED
    assert "stopped by SIGTERM" in said
    assert not runs(tmp_path / "child")


def test_a_second_signal_ends_a_program_that_ignores_the_first(
    waiting: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = waiting("deaf")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1]
    assert process.returncode == STOPPED
    assert not runs(tmp_path / "child")


def test_a_trace_that_ends_at_its_beginning_leaves_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """strace starts a program that stops itself until it is traced."""
    for number in range(20):
        monkeypatch.setenv("KVBENCH_TRACED", mark := f"{os.getpid()} {number}")
        with pytest.raises(KeyboardInterrupt), Trace(["sleep", "99"], ["fsync"]):
            sum(range(number * 10_000))  # takes a while: a later moment of its beginning
            raise KeyboardInterrupt
        assert list(marked("KVBENCH_TRACED", mark)) == []


def test_a_trace_that_is_cut_short_gives_no_verdict(
    waiting: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = waiting()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1  # strace
    os.kill(int(children[0]), signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 2
    assert said.count("\n") == 1 and "was cut short" in said
    assert not runs(tmp_path / "child")


def test_a_report_that_cannot_be_written_is_shown(kvbench: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    out = ("--operations", "1", "--out", folder / "report")
    done = kvbench("audit", *out, "--", "rmdir", folder)
    assert done.returncode == 2
    assert "durability level: process" in done.stderr
    assert f"{folder}/report" in done.stderr


def test_a_report_does_not_take_the_place_of_what_is_no_file(kvbench: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = kvbench("audit", "--out", tmp_path / "fifo", "--", "touch", tmp_path / "touched")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (tmp_path / "fifo").is_fifo() and not (tmp_path / "touched").exists()
