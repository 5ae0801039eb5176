"""Runs our C under sanitizers: the conformance suite on shims that are compiled for the address and
undefined-behaviour sanitizers, the threaded loop under ThreadSanitizer, and every store's opening
and closing under LeakSanitizer. By itself it prints the table, and fails where a row is not clean.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from builds import ROOT, SHIMS, in_memory, program, settings, shims
from table import Row, show

SOURCES = ROOT / "harness/checks/sanitize"
TESTS = ROOT / "harness" / "tests"
SHORT = ("flat", "nested", "lmdb", "leveldb", "bdb", "sqlite")  # stores of the short form
DESELECTED = "the_template"  # these cases compile shims of their own, without sanitizers
# Cases that the short form leaves out: a slow one, and bindings, whose C is not ours.
LONG = ("compact_leaves", "apsw", "berkeleydb", "bsddb3", "plyvel", "sqlite3")
PRELOADED = ("libasan.so", "libubsan.so", "libstdc++.so")  # the last so that exceptions are seen
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ")
LEAK = re.compile(r"^(?:Direct|Indirect) leak of .*", re.MULTILINE)


def rows(short: bool, seed: int, place: Path) -> Iterator[Row]:
    """The seed changes nothing: the suites have seeds of their own."""
    built = shims("address", SHORT if short else ())
    address = "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    program("address/template.so", [SHIMS / "stores" / "template.c"], *address, "-shared", "-fPIC")
    yield conformance(built, short, place)
    yield threads(place)
    yield leaks(built, place)


def reports(place: Path) -> list[str]:
    """What the sanitizers wrote, a line a report."""
    lines = (
        line
        for log in place.glob("log.*")
        for line in log.read_text("utf-8", "replace").splitlines()
    )
    return [line for line in lines if REPORT.search(line)]


def conformance(built: Path, short: bool, place: Path) -> Row:
    """A report ends the process, and with it the suite."""
    files = [TESTS / "test_conformance.py", TESTS / "test_loop.py"]
    chosen = f"not {DESELECTED}"
    if short:
        chosen += f" and ({' or '.join(SHORT)}) and not ({' or '.join(LONG)})"
    with (
        tempfile.TemporaryDirectory(dir=place) as logs,
        tempfile.TemporaryDirectory(prefix="sanitizers-", dir=in_memory(place)) as folder,
    ):
        environment = settings(
            ASAN_OPTIONS={"detect_leaks": 0, "log_path": f"{logs}/log"},
            UBSAN_OPTIONS={"print_stacktrace": 1, "log_path": f"{logs}/log"},
        )
        done = subprocess.run(
            [*PYTEST, f"--basetemp={folder}/tests", *map(str, files), "-k", chosen],
            cwd=ROOT,
            env={
                **os.environ,
                **environment,
                "KVBENCH_SHIMS": str(built),
                "PYTHONPATH": str(ROOT / "harness"),
                "LD_PRELOAD": " ".join(map(library, PRELOADED)),
            },
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        found = reports(Path(logs))
    counts = {
        name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)
    }
    broken = counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1))
    failed = re.findall(r"^(?:FAILED|ERROR) .*::(\S+)", done.stdout, re.MULTILINE)
    told = f"{counts.get('skipped', 0)} skipped, deselected: {DESELECTED}"
    note = "; ".join([told, *found, *failed])
    return Row(
        "sanitizer",
        "conformance, address + undefined",
        inputs=counts.get("passed", 0),
        crashes=len(found) or broken,
        note=note,
    )


def library(name: str) -> str:
    """Where the compiler has it."""
    found = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def threads(place: Path) -> Row:
    sources = [SOURCES / "threads.c", SHIMS / "stores" / "null.c"]
    sources += [SHIMS / name for name in ("traffic.c", "loop.c", "records.c", "store.c")]
    tested = program("threads", sources, "-fsanitize=thread")
    with tempfile.TemporaryDirectory(dir=place) as logs:
        environment = settings(TSAN_OPTIONS={"log_path": f"{logs}/log"})
        done = subprocess.run(
            [tested],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        found = reports(Path(logs))
    crashes = len(found) or int(done.returncode != 0)
    note = "; ".join([done.stdout.strip(), done.stderr.strip()[:200]]).strip("; ")
    return Row("sanitizer", "threads", inputs=1, crashes=crashes, note=note)


def leaks(built: Path, place: Path) -> Row:
    """Each store in a process of its own, whose leaks are counted when it ends."""
    sources = [SOURCES / "open_close.c", SHIMS / "store.c"]
    tested = program("open_close", sources, "-fsanitize=address")
    missing = json.loads((built / "stores.json").read_text())
    stores = [name for name, reason in missing.items() if not reason] + ["template"]
    environment = settings(
        # The engines have no frame pointers; the suppressions name functions far up the stack.
        ASAN_OPTIONS={"detect_leaks": 1, "fast_unwind_on_malloc": 0},
        LSAN_OPTIONS={"suppressions": SOURCES / "leaks.supp", "print_suppressions": 0},
    )
    crashes, notes = 0, []
    for name in stores:
        with tempfile.TemporaryDirectory(prefix="leaks-", dir=in_memory(place)) as folder:
            done = subprocess.run(
                [tested, built / f"{name}.so", folder],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        if done.returncode != 0:
            found = LEAK.findall(done.stderr) or done.stderr.splitlines()[-1:] or ["no word"]
            crashes += len(found)
            notes.append(f"{name}: {found[0]}")
    return Row("sanitizer", "leaks", inputs=len(stores), crashes=crashes, note="; ".join(notes))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sanitizers-") as place:
        found = list(rows(False, 1, Path(place)))
    print(show(found))
    return int(not all(row.clean() for row in found))


if __name__ == "__main__":
    sys.exit(main())
