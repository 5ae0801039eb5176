"""`kvbench audit`: what a program writes and syncs, and the level that this amounts to."""

import json
import sys
from pathlib import Path

import pytest
from conftest import Run
from kvbench.evidence import tracing_fails

pytestmark = pytest.mark.skipif(bool(tracing_fails()), reason=tracing_fails() or "")

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
def test_the_level_is_what_the_program_does(case: str, kvbench: Run, tmp_path: Path) -> None:
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


def test_a_log_for_people_need_not_be_synced(kvbench: Run, tmp_path: Path) -> None:
    program = f"""
import os
os.write(os.open({str(tmp_path / "LOG")!r}, os.O_WRONLY | os.O_CREAT), b"opened")
file = os.open({str(tmp_path / "data")!r}, os.O_WRONLY | os.O_CREAT)
for _ in range(20):
    os.write(file, b"x")
    os.fsync(file)
"""
    done = kvbench("audit", "--operations", "20", "--", sys.executable, "-c", program)
    assert "durability level: sync: " in done.stderr
    assert "1 files with 1 write calls left unsynced" in done.stderr


def test_writes_that_wait_in_the_process_are_none(kvbench: Run, tmp_path: Path) -> None:
    program = f"file = open({str(tmp_path / 'data')!r}, 'wb')\nfor _ in range(20): file.write(b'x')"
    report = tmp_path / "report"
    command = ("--operations", "20", "--out", report, "--", sys.executable, "-c", program)
    done = kvbench("audit", *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "durability level: none: 1 write calls" in report.read_text()


def test_the_report_as_json_has_what_the_text_has(kvbench: Run, tmp_path: Path) -> None:
    program, target, report = tmp_path / "writer.py", tmp_path / "data", tmp_path / "report"
    program.write_text(WRITER.format(flags="0", after="pass", last=""))
    command = ("--operations", "20", "--json", "--out", report, "--")
    assert kvbench("audit", *command, sys.executable, program, target).returncode == 7
    found = json.loads(report.read_text())
    counts = {"status": 7, "operations": 20, "writes": 20, "bytes_written": 2000, "syncs": 0}
    assert counts.items() <= found.items()
    assert (found["level"], found["unsynced"]) == ("process", [str(target)])


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


def test_the_signal_that_ends_a_program_passes_through(kvbench: Run) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert kvbench("audit", "--", sys.executable, "-c", program).returncode == 128 + 9


def test_a_program_that_is_not_there_is_refused(kvbench: Run) -> None:
    done = kvbench("audit", "--", "/no/such/program")
    assert done.returncode == 2
    assert "'/no/such/program' cannot be run" in done.stderr
