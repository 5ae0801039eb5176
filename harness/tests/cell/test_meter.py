"""What is counted of a worker is what it did, its debt and its memory included."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvbench.results.tables import read_tables
from kvbench.stats.intervals import steadiness
from kvbench.sweep.sweep import ENVIRONMENT
from support import AVAILABLE, Run

WriteGrid = Callable[..., Path]
COUNTED = ("syncs", "read_calls", "write_calls", "wchar")


def result_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(out.glob("cells/*")).read_text())
    return found


def measured(script: str, folder: Path) -> Any:
    """What a script prints as JSON, in a process like a worker."""
    head = """
import json, mmap, os, sys, threading, time
from pathlib import Path
from kvbench.cell.meter import Meter, count_system_calls
folder = Path(sys.argv[1])
meter = Meter(folder, None)
"""
    command = [sys.executable, "-c", head + script, str(folder)]
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


KNOWN_WORK = """
file = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
each = os.open(folder / "file", os.O_RDWR | os.O_DSYNC)
os.ftruncate(file, mmap.PAGESIZE)
shared = mmap.mmap(file, mmap.PAGESIZE)
pages = mmap.mmap(-1, 100 * mmap.PAGESIZE)
thread = threading.Thread(target=lambda: [os.fsync(file) for _ in range(7)])
before = meter.read()
for _ in range(50):
    os.write(file, bytes(1000))
for _ in range(20):
    os.pread(file, 10, 0)
for _ in range(5):
    os.write(each, bytes(1000))
shared[0] = 1
shared.flush()
os.fsync(file), os.fdatasync(file)
thread.start(), thread.join()
if os.fork() == 0:
    os.fsync(file)
    os._exit(0)
os.wait()
for at in range(0, len(pages), mmap.PAGESIZE):
    pages[at] = 1
after = meter.read()
print(json.dumps({name: v if v is None else v - before[name] for name, v in after.items()}))
"""


def test_known_work_is_counted(on_disk: Path) -> None:
    """Of the process with all its threads; not the syncs of a child, nor reads of the meter."""
    found = measured(KNOWN_WORK, on_disk)
    assert found["write_calls"] == 55
    assert found["wchar"] == 55 * 1000
    assert found["read_calls"] == 20
    assert found["rchar"] == 200
    assert found["write_bytes"] > 0
    assert 100 <= found["minor_faults"] < 1000
    assert found["user_s"] + found["system_s"] > 0
    assert found["device_write_bytes"] is None
    if found["syncs"] is None:
        pytest.skip("syncs cannot be counted here: this needs root and a file system that says so")
    assert found["syncs"] == 5 + 1 + 2 + 7  # O_DSYNC, msync, both kinds, in the thread


def test_what_cannot_be_counted_is_missing(tmp_path: Path) -> None:
    found = measured("print(json.dumps([meter.read()['syncs'], folder.is_mount()]))", tmp_path)
    in_memory = os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid
    assert found[0] is None if in_memory else found[0] in (None, 1)


def test_system_calls_are_counted(tmp_path: Path) -> None:
    script = """
found = []
for count in (0, 1000, 3000):
    with count_system_calls() as calls:
        for _ in range(count):
            os.getppid()
        found.append(calls())
print(json.dumps(found))
"""
    found = measured(script, tmp_path)
    if found[0] is None:
        pytest.skip("system calls cannot be counted here: this needs root")
    assert found == [0, 1000, 3000]


def test_a_process_without_other_threads_is_settled(tmp_path: Path) -> None:
    found = measured("print(json.dumps(meter.settle(60)))", tmp_path)
    assert found == {"settled": "yes", "debt_s": 0, "debt_cpu_s": 0, "debt_bytes": 0}


RESTING = """
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
found = meter.settle(0.2)
stop.set()
print(json.dumps(found))
"""


def test_a_thread_that_rests_owes_next_to_nothing(tmp_path: Path) -> None:
    found = measured(RESTING, tmp_path)
    assert (found["settled"], found["debt_bytes"]) == ("yes", 0)
    assert found["debt_cpu_s"] < 0.1


WRITING = """
stop = threading.Event()
file = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
def work():
    for _ in range({times}):
        if stop.is_set():
            break
        os.pwrite(file, os.urandom(1 << 20), 0)
        os.ftruncate(file, 0)
thread = threading.Thread(target=work)
thread.start()
found = meter.settle({quiet}, {limit})
found["alive"] = thread.is_alive()
stop.set()
print(json.dumps(found))
"""


def test_what_a_thread_still_does_is_waited_for_and_charged(on_disk: Path) -> None:
    found = measured(WRITING.format(times=400, quiet=0.5, limit=60), on_disk)
    assert (found["settled"], found["alive"]) == ("yes", False)
    assert found["debt_bytes"] >= 50 << 20  # some was written before
    assert 0 < found["debt_cpu_s"] <= 2 * found["debt_s"]


def test_an_engine_that_never_rests_is_not_settled(tmp_path: Path) -> None:
    found = measured(WRITING.format(times=10**9, quiet=0.5, limit=1.5), tmp_path)
    assert (found["settled"], found["alive"]) == ("no", True)
    assert found["debt_s"] >= 1.5
    assert found["debt_cpu_s"] > 0


# Passes on all calls to the store in the shared object KVBENCH_HONEST, but what begin() replaces.
WRAPPED = r"""
#include "shim.h"
#include "clock.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
struct kv_driver kv_driver;
static const struct kv_driver *honest;
static void begin(void);
__attribute__((constructor)) static void wrap(void)
{
    honest = dlsym(dlopen(getenv("KVBENCH_HONEST"), RTLD_NOW | RTLD_LOCAL), "kv_driver");
    kv_driver = *honest;
    begin();
}
"""
LAZY = r"""
static atomic_ullong called, owed;
static int debt;
static void *compact(void *none)
{
    static char block[16384];
    for (;;) {
        usleep(5000);
        for (; now() - called > 100000000 && owed > 0; owed--)
            if (write(debt, block, sizeof block) != sizeof block)
                _exit(1);
    }
    return none;
}
static int put(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{
    called = now();
    owed += count;
    return honest->write(kv, mode, records, count);
}
static int opened(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{
    static pthread_t thread;
    char name[4096];
    snprintf(name, sizeof name, "%s/debt", path);
    /* Appends: bytes are counted when a page becomes dirty, and one written before may still be. */
    debt = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (thread == 0 && pthread_create(&thread, NULL, compact, NULL) != 0)
        return KV_ERROR;
    return honest->open(path, options, count, kv);
}
static void begin(void)
{
    kv_driver.open = opened;
    kv_driver.write = put;
}
"""
GREEDY = r"""
static int put(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{
    static bool done;
    char *block = done ? NULL : malloc(100 << 20);
    if (block != NULL)
        memset(block, 1, 100 << 20);
    for (uint64_t start = now(); block != NULL && now() - start < 300000000;)
        memset(block, 1, 100 << 20);
    free(block);
    done = true;
    return honest->write(kv, mode, records, count);
}
static void begin(void)
{
    kv_driver.write = put;
}
"""


@pytest.fixture
def sweep_wrapped(
    kvbench: Run, write_grid: WriteGrid, own_shims: Path, compile_shim: Callable[..., Path]
) -> Callable[..., dict[str, Any]]:
    """Measures flat with its driver wrapped, and returns the result."""

    def sweep(source: str, out: Path, **keys: Any) -> dict[str, Any]:
        honest = (own_shims / "flat.so").rename(own_shims / "honest")
        compile_shim("flat", WRAPPED + source)
        env = {"KVBENCH_SHIMS": str(own_shims), "KVBENCH_HONEST": str(honest)}
        done = kvbench("sweep", write_grid(**keys), "--out", out, env=env)
        assert done.stdout.strip() == "1 ok", done.stderr
        return result_of(out)

    return sweep


def test_an_engine_that_works_while_it_is_not_called_is_charged(
    sweep_wrapped: Callable[..., dict[str, Any]], on_disk: Path
) -> None:
    result = sweep_wrapped(LAZY, on_disk / "out")
    assert result["settled"] == "yes"
    assert result["debt_s"] > 0
    assert result["debt_cpu_s"] > 0
    assert result["debt_bytes"] >= 16384


def test_the_peak_of_memory_is_seen(
    sweep_wrapped: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    result = sweep_wrapped(GREEDY, tmp_path / "out")
    assert 100 << 20 <= result["memory_anonymous_bytes"] < 110 << 20


# Writes are due at intervals of 2 ms, which grow by 1% a second, or are interrupted by a
# compaction of a quarter of a second after each half.
PACED = r"""
#include <math.h>
static int put(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{
    static uint64_t start, due, compacted;
    if (start == 0)
        start = due = compacted = now();
    due += INTERVAL;
    if (STALLS && due - compacted > 500000000)
        compacted = due += 250000000;
    while (now() < due)
        usleep(100);
    return honest->write(kv, mode, records, count);
}
static void begin(void)
{
    kv_driver.write = put;
}
"""
SLOWER = "(uint64_t)(2e6 * exp(0.01 * (double)(due - start) / 1e9))"
RHYTHMS = {"slower by 1% a second": (SLOWER, 0, False), "sawtooth": ("2000000", 1, True)}


@pytest.mark.check
@pytest.mark.parametrize("rhythm", RHYTHMS)
def test_a_store_that_slows_down_is_not_steady_and_one_that_compacts_is(
    sweep_wrapped: Callable[..., dict[str, Any]], tmp_path: Path, rhythm: str
) -> None:
    interval, stalls, steady = RHYTHMS[rhythm]
    source = PACED.replace("INTERVAL", interval).replace("STALLS", str(stalls))
    result = sweep_wrapped(source, tmp_path / "out", workloads=["churn seconds=17"])
    counts = [row["n"] for row in result["timeline"] if row["operation"] == "churn"]
    assert len(counts) > 16
    assert steadiness(counts[1:-1], 3).steady == steady


@pytest.mark.check
def test_churn_ends_after_the_seconds_that_it_may_take(
    sweep_wrapped: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Two milliseconds an operation, of which 33,000 would take a minute."""
    source = PACED.replace("INTERVAL", "2000000").replace("STALLS", "0")
    workload = "churn times=300 seconds=1 most=1"
    result = sweep_wrapped(source, tmp_path / "out", records=[100], workloads=[workload])
    churn = next(row for row in result["operations"] if row["operation"] == "churn")
    assert 0 < churn["n"] < 10_000
    counts = [row["n"] for row in result["timeline"] if row["operation"] == "churn"]
    assert sum(counts) == churn["n"]


@pytest.mark.check
@pytest.mark.skipif("lmdb" not in AVAILABLE, reason="no lmdb")
def test_the_seconds_of_a_timeline_add_up_to_its_step(
    kvbench: Run, write_grid: WriteGrid, on_disk: Path
) -> None:
    out = on_disk / "out"
    steps = "fillrandom, churn seconds=2, readrandom ops=3000"
    traffic = "fillrandom, readwhilewriting readers=3 reads=0 writes=500 seconds=2"
    for level, workloads in (("sync", [steps, traffic]), ("process", ["rounds"])):
        grid = write_grid(stores=["lmdb"], records=[300], durability=[level], workloads=workloads)
        assert kvbench("sweep", grid, "--out", out).returncode == 0
    assert kvbench("collect", out).returncode == 0
    tables = {name: table.to_pandas() for name, table in read_tables(out).items()}
    rounds = tables["cells"].set_index("cell").workload == "rounds"
    timeline, operations = tables["timeline"], tables["operations"]
    assert not set(timeline.cell) & set(rounds[rounds].index)
    keys = ["cell", "operation"]
    whole = operations.set_index(keys)
    for key, rows in timeline.groupby(keys):
        n, total, most, p99, wall = whole.loc[key, ["n", "sum_ns", "max_ns", "p99_ns", "wall_s"]]
        assert rows.n.sum() == n
        assert (rows.n * rows.mean_ns).sum() == pytest.approx(total)
        assert rows.max_ns.max() == most
        assert rows.p99_ns.min() <= p99 * 1.02
        assert rows.p99_ns.max() >= p99 / 1.02
        assert rows.second.tolist() == list(range(len(rows)))
        assert len(rows) - 1 <= wall
    named = set(timeline.operation)
    assert named == {
        "fillrandom", "churn", "readrandom", "readwhilewriting read", "readwhilewriting write",
    }  # fmt: skip
    churned = timeline[timeline.operation == "churn"]
    assert (churned.space_bytes.dropna() > 300 * 100).all()
    assert timeline.device_bytes.isna().all() or timeline.device_bytes.sum() > 0


STEPS = "fillrandom, overwrite ops=100, readrandom ops=200, deleterandom ops=50"


@pytest.mark.parametrize(
    ("names", "workload"),
    [
        pytest.param(("flat", "bdb"), "rounds", marks=pytest.mark.check),
        (("lmdb", "sqlite"), STEPS),
    ],
)
def test_two_runs_of_one_cell_count_the_same(
    kvbench: Run, write_grid: WriteGrid, on_disk: Path, names: tuple[str, ...], workload: str
) -> None:
    """Of engines without threads of their own, if both runs do equally many operations."""
    present = [name for name in names if name in AVAILABLE]
    grid = write_grid(stores=present, records=[200], workloads=[workload], least_ms=0)
    runs: list[dict[tuple[str, str], dict[str, Any]]] = []
    for name in ("one", "two"):
        out = on_disk / name
        assert kvbench("sweep", grid, "--out", out).stdout.strip() == f"{len(present)} ok"
        cells = [json.loads(path.read_text()) for path in out.glob("cells/*")]
        rows = [(cell["cell"]["store"], row) for cell in cells for row in cell["operations"]]
        runs.append({(store, row["operation"]): row for store, row in rows})
    for key, row in runs[0].items():
        other = runs[1][key]
        assert row["n"] == other["n"]
        for count in (*COUNTED, "system_calls"):
            if row.get(count) is not None:
                assert row[count] == pytest.approx(other[count], rel=0.01), (key, count)
    assert sum(row["wchar"] for row in runs[0].values()) > 0
    if workload != "rounds" and runs[0][present[0], "overwrite"]["syncs"] is not None:
        assert all(runs[0][name, "overwrite"]["syncs"] >= 100 for name in present)
