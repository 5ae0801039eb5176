"""Runs our C under sanitizers: the conformance suite and the tests of plans and loop on sanitized
shims, the threaded loop under ThreadSanitizer, every store's opening and closing under
LeakSanitizer, and a fuzzer of the file names of the folder stores."""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from builds import (
    BUILT,
    FEW,
    ROOT,
    SHIMS,
    available,
    program,
    reports,
    run,
    sanitized_environment,
    sanitized_shims,
)
from kvbench.machine.scratch import memory
from kvbench.stores.catalogue import known
from table import Form, Row

SOURCES = ROOT / "harness/checks/sanitize"
SUITES = [ROOT / f"harness/tests/cell/test_{name}.py" for name in ("conformance", "plan", "loop")]
CORE = ("traffic", "loop", "plan", "records", "tally", "store", "meter")
DESELECTED = "the_template"  # these cases compile their own shims without sanitizers
# Cases that the short form omits: a slow one, and bindings, whose C is not ours.
OMITTED = (
    "compact_leaves", "apsw", "berkeleydb", "bsddb3", "dbm.gnu", "diskcache", "plyvel", "shelve",
    "sqlite3", "sqlitedict",
)  # fmt: skip
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
LEAK = re.compile(r"^(?:Direct|Indirect) leak of .*", re.MULTILINE)
FOUND = BUILT / "fuzz"  # inputs that made the fuzzer fail, which are kept
# ThreadSanitizer: only races count, and they are read from its log.
# The longest history, so that the earlier access of a race keeps its stack.
TSAN = "exitcode=0:detect_deadlocks=0:report_thread_leaks=0:report_mutex_bugs=0:history_size=7"
ACCESS = re.compile(r"^  (?:Previous )?(?:atomic )?(?:read|write) of size", re.I | re.M)
ENDED = re.compile(r"^(?:==\d+==)?ERROR: (ThreadSanitizer: .*)", re.M)  # by a signal; exitcode is 0
FRAME = re.compile(r"^    #\d+ (.*)", re.M)
OWN = re.compile(r"/harness/(?:shims|checks/sanitize)/")
KEYS = {True: 100_000, False: 1_000_000}  # inputs of the fuzzer in the short and the long form


def rows(form: Form) -> Iterator[Row]:
    """Yield the rows. The seed is the fuzzer's; the test suites have their own seeds."""
    yield folder_keys(form)
    built = sanitized_shims()
    yield conformance(built, form)
    yield threads(form)
    yield leaks(built, form.place)


def folder_keys(form: Form) -> Row:
    flags = "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"
    fuzzer = program("folder_keys", [SOURCES / "folder_keys.c"], *flags, compiler="clang")
    FOUND.mkdir(parents=True, exist_ok=True)
    limits = (
        f"-runs={KEYS[form.short]}",
        f"-seed={form.seed}",
        "-len_control=0",
        "-max_len=300",
        "-detect_leaks=0",
    )
    done = run([fuzzer, *limits, "-print_final_stats=1", f"-artifact_prefix={FOUND}/"])
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    coverage = re.findall(r"cov: (\d+) ft: (\d+)", done.stderr)
    note = "cov {} ft {}".format(*coverage[-1]) if coverage else "did not begin"
    if done.returncode != 0:
        said = re.findall(r"^(?:folder keys|SUMMARY|.*runtime error).*", done.stderr, re.M)
        kept = re.findall(r"Test unit written to (\S+)", done.stderr)
        note = "; ".join([note, *(said or done.stderr.splitlines()[-1:]), *kept])
    inputs, crashes = int(executed[1]) if executed else 0, int(done.returncode != 0)
    return Row("fuzz", "folder keys", inputs=inputs, crashes=crashes, note=note)


def conformance(built: Path, form: Form) -> Row:
    """Run the suites. The first report of a sanitizer ends the process, and thus the suite."""
    chosen = f"not {DESELECTED}"
    if form.short:
        chosen += f" and (test_plan or {' or '.join(FEW)}) and not ({' or '.join(OMITTED)})"
    with (
        tempfile.TemporaryDirectory(dir=form.place) as logs,
        tempfile.TemporaryDirectory(prefix="sanitizers-", dir=memory(form.place, 0)) as folder,
    ):
        command = [*PYTEST, f"--basetemp={folder}/tests", *map(str, SUITES), "-k", chosen]
        done = run(command, sanitized_environment(built, Path(logs)))
        found = reports(Path(logs))
    counts = {
        name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)
    }
    broken = counts.get("failed", 0) + counts.get("error", 0) + (done.returncode not in (0, 1))
    failed = re.findall(r"^(?:FAILED|ERROR) .*::(\S+)", done.stdout, re.MULTILINE)
    omitted = f"{counts.get('skipped', 0)} skipped, deselected: {DESELECTED}"
    return Row(
        "sanitizer",
        "conformance, address + undefined",
        inputs=counts.get("passed", 0),
        crashes=len(found) or broken,
        note="; ".join([omitted, *found, *failed]),
    )


def races(text: str) -> list[str]:
    """ThreadSanitizer's reports of races between two accesses by our own code, and of the end of
    the program by a signal. The engines are not built with it, so it does not see their
    synchronisation."""
    found = [line[:200] for line in ENDED.findall(text)]
    for report in text.split("=" * 18):
        stacks = [part for part in re.split(r"\n\s*\n", report) if ACCESS.search(part)]
        frames = [[f for f in FRAME.findall(stack) if "libtsan" not in f] for stack in stacks]
        if stacks and all(own and OWN.search(own[0]) for own in frames):
            found.append(f"race: {' and '.join(own[0].strip() for own in frames)}")
    return found


def threads(form: Form) -> Row:
    """Run two writers on each store that allows several, with two readers if it also allows those.
    Address space randomisation is off, because a map of 1 TiB may otherwise not fit."""
    sources = [SOURCES / "threads.c", *(SHIMS / f"{name}.c" for name in CORE)]
    tested = program("threads", sources, "-fsanitize=thread")
    built = sanitized_shims("thread", ["null", *FEW] if form.short else [])
    unbuilt = {name for name, why in json.loads((built / "stores.json").read_text()).items() if why}
    ran, crashes, notes = 0, 0, list[str]()
    for store in map(known().__getitem__, ["null", *available(form.short)]):
        options = {} if store.can("writers", {}) else {"durability": "process", "threads": "on"}
        if store.name in unbuilt or any(store.lacks(*option) for option in options.items()):
            continue
        readers = "2" if store.can("threads", options) else "0"
        given = [readers, *(f"{name}={value}" for name, value in options.items())]
        with (
            tempfile.TemporaryDirectory(dir=form.place) as logs,
            tempfile.TemporaryDirectory(dir=memory(form.place, 0)) as folder,
        ):
            environment = {"TSAN_OPTIONS": f"log_path='{logs}/log':{TSAN}"}
            command: list[str | Path] = [tested, built / f"{store.name}.so", folder, *given]
            done = run(["setarch", "-R", *command], environment)
            text = "".join(log.read_text("utf-8", "replace") for log in Path(logs).glob("log.*"))
        broken = [done.stderr.strip()[:200] or "died"] if done.returncode else []
        found = races(text) + broken
        ran, crashes = ran + 1, crashes + len(found)
        said = found or ([done.stdout.strip()] if form.short else [])
        notes += [f"{store.name}: {line}" for line in said]
    return Row("sanitizer", "threads", inputs=ran, crashes=crashes, note="; ".join(notes))


def leaks(built: Path, place: Path) -> Row:
    """Run each store in a separate process, whose leaks are counted when it ends."""
    sources = [SOURCES / "open_close.c", SHIMS / "store.c"]
    tested = program("open_close", sources, "-fsanitize=address")
    report = json.loads((built / "stores.json").read_text())
    unbuilt = {name: why for name, why in report.items() if why}
    wanted = [*available(False), "null", "template"]
    names = [name for name in wanted if name not in unbuilt]
    environment = {
        # Engines lack frame pointers, and the suppressions name functions far up the stack.
        "ASAN_OPTIONS": "detect_leaks=1:fast_unwind_on_malloc=0",
        "LSAN_OPTIONS": f"suppressions='{SOURCES}/leaks.supp':print_suppressions=0",
    }
    crashes, notes = 0, [f"{name} {unbuilt[name]}" for name in wanted if name in unbuilt]
    for name in names:
        with tempfile.TemporaryDirectory(prefix="leaks-", dir=memory(place, 0)) as folder:
            done = run([tested, built / f"{name}.so", Path(folder)], environment)
        if done.returncode != 0:
            found = LEAK.findall(done.stderr) or done.stderr.splitlines()[-1:] or ["no word"]
            crashes += len(found)
            notes.append(f"{name}: {found[0]}")
    return Row("sanitizer", "leaks", inputs=len(names), crashes=crashes, note="; ".join(notes))
