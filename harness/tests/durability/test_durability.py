"""Each durability level does what it claims: strace counts syncs, writers are killed, and disks are
copied in the middle of writes. At the end, `pytest` prints a table of the syncs."""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kvbench.cell.contract import StoreError
from kvbench.cell.factors import DEFAULT, SYNCED, WHOLE
from kvbench.cell.store import Store
from kvbench.cli import STOPPED
from kvbench.durability import evidence
from kvbench.durability.strace import tracing_fails
from kvbench.stores.opened import open_store
from support import BOUND, KEEPING, KNOWN, Run

PAIRS = [(KNOWN[name], level) for name in KEEPING + BOUND for level in evidence.levels(KNOWN[name])]

needs_tracing = pytest.mark.skipif(bool(tracing_fails()), reason=f"no tracing: {tracing_fails()}")


@pytest.fixture(scope="session")
def mountable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips a test that needs to mount a disk image, with the reason, where that fails."""
    if why := evidence.mounting_fails(tmp_path_factory.mktemp("mount")):
        pytest.skip(f"no image can be mounted: {why}")


def levels_of(label: str) -> list[str]:
    return [level for store, level in PAIRS if store.full_name == label]


def options_of(level: str) -> dict[str, str]:
    return {} if level == DEFAULT else {"durability": level}


def guarantee(store: Store, level: str) -> str:
    return store.default_durability if level == DEFAULT else level


def claims(*levels: str) -> list[tuple[Store, str]]:
    return [(store, level) for store, level in PAIRS if guarantee(store, level) in levels]


def name(value: object) -> str:
    return value.full_name if isinstance(value, Store) else str(value)


@pytest.mark.check
@needs_tracing
@pytest.mark.parametrize(("store", "level"), PAIRS, ids=name)
def test_syncs_per_write(
    store: Store, level: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Levels that survive a power failure sync at least once per write. `none` and `process` do not
    sync their writes, though an engine may when it flushes a buffer: Berkeley DB's hash once in 500
    writes. A default that amounts to `sync` syncs, too; other defaults may do either, and so may
    `recoverable`, at which the number says how the store keeps its order."""
    slopes = evidence.syncs_per_write(store, tmp_path, **options_of(level))
    total = sum(slopes.values())
    calls = ", ".join(f"{call} {slope:.2f}" for call, slope in slopes.items())
    row = (store.full_name, level, guarantee(store, level), f"{total:.3f}", calls)
    request.node.user_properties.append(("slope", row))
    if level in SYNCED:
        assert total >= 1
    elif level in ("none", "process"):
        assert total < 0.01
    elif level == "recoverable":
        most = 1 if store.name.startswith("lmdb") else 0.1  # LMDB syncs all but its meta page
        assert total <= most
    if guarantee(store, level) == "sync":
        assert total >= 1


@needs_tracing
def test_the_floor_of_sync_is_one_sync_a_write(tmp_path: Path) -> None:
    slopes = evidence.syncs_per_write(KNOWN["null"], tmp_path, durability="sync")
    assert slopes == {"fdatasync": pytest.approx(1)}


@pytest.mark.parametrize(
    ("name", "level", "commits"), [("null", "sync", 0), ("flat", "process", 0), ("flat", "sync", 1)]
)
def test_a_sync_commits_the_journal_if_a_name_or_a_length_changed(
    name: str, level: str, commits: int, tmp_path: Path, mountable: None
) -> None:
    """The null store overwrites the same block; a folder gets a file, or loses one."""
    found = evidence.commits_per_write(KNOWN[name], tmp_path, durability=level)
    assert commits <= found <= 2.5 * commits + 0.01


@pytest.mark.check
@needs_tracing
@pytest.mark.parametrize("option", ["two_phase_commit", "quick_repair"])
def test_redb_syncs_twice_per_write_when_asked_to(option: str, tmp_path: Path) -> None:
    if not KNOWN["redb"].available:
        pytest.skip(KNOWN["redb"].reason)
    slopes = evidence.syncs_per_write(KNOWN["redb"], tmp_path, durability="sync", **{option: "on"})
    assert sum(slopes.values()) == pytest.approx(2, abs=0.1)


KILLED = [  # in make test at the level that a kill tests
    pytest.param(*pair, 1009, 100, marks=[pytest.mark.check] * (pair[1] != "process"))
    for pair in claims("process", "recoverable", "sync", "atomic")
] + [pytest.param(*pair, 203, 20_000, marks=pytest.mark.check) for pair in claims("process")]


@pytest.mark.parametrize(("store", "level", "acknowledged", "size"), KILLED, ids=name)
def test_acknowledged_writes_survive_a_kill(
    store: Store, level: str, acknowledged: int, size: int, tmp_path: Path
) -> None:
    count = evidence.survive_kill(store, tmp_path, acknowledged, size, **options_of(level))
    assert count >= acknowledged


@pytest.mark.check
@pytest.mark.parametrize("acknowledged", [2003, 3001, 3999])
def test_writes_to_recycled_logs_survive_a_power_failure(
    acknowledged: int, tmp_path: Path, mountable: None
) -> None:
    """An old log holds old records behind the new ones. The write buffer is small, so that logs are
    recycled."""
    if not KNOWN["rocksdb"].available:
        pytest.skip(KNOWN["rocksdb"].reason)
    options = {"durability": "sync", "recycled_logs": "4", "write_buffer": str(128 << 10)}
    with tempfile.TemporaryDirectory(dir=tmp_path) as place:  # two disks of 256 MiB
        count = evidence.survive_power_loss(
            KNOWN["rocksdb"], Path(place), acknowledged, 1000, **options
        )
    assert count >= acknowledged


@pytest.mark.check
@pytest.mark.parametrize(("store", "level"), claims("sync", "atomic"), ids=name)
@pytest.mark.parametrize(("acknowledged", "size"), [(503, 100), (101, 20_000)])
def test_acknowledged_writes_survive_a_power_failure(
    store: Store, level: str, acknowledged: int, size: int, tmp_path: Path, mountable: None
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as place:  # two disks of 256 MiB
        count = evidence.survive_power_loss(
            store, Path(place), acknowledged, size, **options_of(level)
        )
    assert count >= acknowledged


SYNCING = """
import os, random, signal, sys
from pathlib import Path
from kvbench.stores.known import named
from kvbench.stores.opened import open_store

folder, name, seed = sys.argv[1:]
store, choose = open_store(named(name), Path(folder), durability="process"), random.Random(seed)
for _ in range(20):
    key, size = b"%d" % choose.randrange(12), choose.choice([0, 100, 5000, 100_000])
    value = choose.randbytes(size)
    if choose.random() < 0.3:
        store.sync()
    if choose.random() < 0.4:
        store.remove(key)
        print(key.hex())
    else:
        store.insert(key, value) or store.update(key, value)
        print(key.hex(), value.hex(), "")
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.check
@pytest.mark.parametrize("store", [s for s, level in PAIRS if level == "process"], ids=name)
def test_acknowledged_writes_survive_kills_after_syncs(store: Store, tmp_path: Path) -> None:
    """Eight writers in turn sync at random, and each is killed after its last write."""
    model: dict[bytes, bytes | None] = {}
    for seed in range(8):
        command = [sys.executable, "-c", SYNCING, str(tmp_path), store.full_name, str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        for line in done.stdout.splitlines():
            key, *value = line.split(" ")
            model[bytes.fromhex(key)] = bytes.fromhex(value[0]) if value else None
    opened = open_store(store, tmp_path, durability="process")
    assert {key: opened.get(key) for key in model} == model
    opened.close()


UNSYNCED = """
#include <leveldb/c.h>
#define leveldb_writeoptions_set_sync(options, value) ((void)(options), (void)(value))
#include "leveldb.c"
"""
UNLOGGED = """
#include <rocksdb/c.h>
#define rocksdb_writeoptions_disable_WAL(options, value) \\
    rocksdb_writeoptions_disable_WAL(options, 1)
#include "rocksdb.c"
"""


@pytest.fixture
def alter(
    own_shims: Path, compile_shim: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Store]:
    """Replaces the shim of a store by an altered one."""

    def build(name: str, source: str) -> Store:
        if not KNOWN[name].available:
            pytest.skip(KNOWN[name].reason)
        compile_shim(name, source, f"-l{name}")
        monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
        return KNOWN[name]

    return build


@needs_tracing
def test_a_shim_that_does_not_sync_is_detected_by_its_syncs(
    alter: Callable[..., Store], tmp_path: Path
) -> None:
    store = alter("leveldb", UNSYNCED)
    assert evidence.syncs_per_write(store, tmp_path, durability="sync") == {}


# The template, which has a file of its own open and writes to it beside each record.
BESIDE = """
#include <pthread.h>
#include <sys/uio.h>
#include <sys/wait.h>
static char beside[5000];
static int file;
static void open_file(int flag)
{{
    file = open(beside, O_WRONLY | O_CREAT | flag, 0666);
}}
static void *synced_in_thread(void *none)
{{
    open_file(O_DSYNC);
    return none;
}}
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    pthread_t thread;
    snprintf(beside, sizeof beside, "%s/beside", path);
    {opened}
    return honest.open(path, options, count, kv);
}}
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{{
    const struct iovec part = {{"x", 1}};
    {written}
    return honest.write(kv, mode, records, count);
}}
"""
OPEN_PLAIN, OPEN_SYNCED = "open_file(0);", "open_file(O_DSYNC);"
WRITE = 'write(file, "x", 1);'
EACH = WRITE + 'pwrite(file, "x", 1, 0); writev(file, &part, 1); pwritev(file, &part, 1, 0);'
IN_THREAD = "pthread_create(&thread, NULL, synced_in_thread, NULL); pthread_join(thread, NULL);"
IN_CHILD = "if (fork() == 0) { close(file); open_file(0); _exit(0); } wait(NULL);"
SYNCING_WRITES = {
    "O_DSYNC": (OPEN_SYNCED, WRITE, 1),
    "O_SYNC": ("open_file(O_SYNC);", WRITE, 1),
    "by each call": (OPEN_SYNCED, EACH, 4),
    "by a flag of the call": (OPEN_PLAIN, "pwritev2(file, &part, 1, 0, RWF_DSYNC);", 1),
    "to a duplicate": (OPEN_SYNCED + "file = dup(file);", WRITE, 1),
    "to a duplicate by fcntl": (OPEN_SYNCED + "file = fcntl(file, F_DUPFD, 99);", WRITE, 1),
    "opened by a thread": (IN_THREAD, WRITE, 1),
    "closed by a child": (OPEN_SYNCED + IN_CHILD, WRITE, 1),
    "opened for each write": ("", OPEN_SYNCED + WRITE + "close(file);", 1),
    "never written": (OPEN_SYNCED, "", 0),
    "opened often, never written": ("", OPEN_SYNCED + "close(file);", 0),
    "nothing written": (OPEN_SYNCED, "write(file, NULL, 0);", 0),
    "fails": (OPEN_SYNCED, "write(file, NULL, 1);", 0),
    "set too late": (OPEN_PLAIN + "fcntl(file, F_SETFL, O_DSYNC);", WRITE, 0),
    "beside another file": (OPEN_SYNCED + OPEN_PLAIN, WRITE, 0),
    "by the number of a closed one": (OPEN_SYNCED + "close(file);" + OPEN_PLAIN, WRITE, 0),
    "a pipe of that number": (
        OPEN_SYNCED + "close(file); int p[2]; pipe(p); dup2(p[1], file);",
        "",
        0,
    ),
}
METERED = """
import sys
from pathlib import Path
from kvbench.cell.meter import Meter
from kvbench.cell.store import Store
from kvbench.stores.opened import open_store

folder = Path(sys.argv[1])
meter, store = Meter(folder, None), open_store(Store("altered"), folder)
before = meter.read()["syncs"]
for i in range(100):
    store.insert(b"%d" % i, b"")
print(-1 if before is None else meter.read()["syncs"] - before)
"""


@needs_tracing
@pytest.mark.check
@pytest.mark.parametrize("case", SYNCING_WRITES)
def test_writes_that_are_synced_by_a_flag_are_counted(
    case: str, alter_shim: Callable[..., Store], tmp_path: Path, on_disk: Path
) -> None:
    """And not the opening of files. The kernel's own count, which the meter reads, is the same."""
    opened, written, syncs = SYNCING_WRITES[case]
    store = alter_shim("template", BESIDE.format(opened=opened, written=written), "open", "write")
    assert evidence.syncs_per_write(store, tmp_path) == ({"O_DSYNC": syncs} if syncs else {})
    command = [sys.executable, "-c", METERED, str(on_disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) in (100 * syncs, -1)  # -1: this needs root


def test_a_shim_that_does_not_sync_loses_writes_in_a_power_failure(
    alter: Callable[..., Store], tmp_path: Path, mountable: None
) -> None:
    store = alter("leveldb", UNSYNCED)
    with pytest.raises(StoreError, match="is missing"):
        evidence.survive_power_loss(store, tmp_path, 500, 100, durability="sync")


def test_a_shim_that_does_not_log_loses_writes_when_killed(
    alter: Callable[..., Store], tmp_path: Path
) -> None:
    store = alter("rocksdb", UNLOGGED)
    with pytest.raises(StoreError, match="is missing"):
        evidence.survive_kill(store, tmp_path, 500, 100, durability="process")


CUT = """
import resource, signal, sys
from pathlib import Path
from kvbench.stores.known import named
from kvbench.stores.opened import open_store

folder, name, level, limit = sys.argv[1:]
store = open_store(named(name), Path(folder), durability=level)
store.insert(b"key", b"%c" % 1 * 12_000)
store.update(b"key", b"%c" % 2 * 12_000)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
for i in range(3, 40):
    print(i, flush=True)
    store.update(b"key", b"%c" % i * 12_000)
"""


CUTTING = [(store, level) for store, level in PAIRS if level not in (DEFAULT, "none")]


@pytest.mark.parametrize(("store", "level"), CUTTING, ids=name)
def test_only_a_store_that_tears_updates_leaves_neither_value(
    store: Store, level: str, tmp_path: Path
) -> None:
    """The system lets a write reach the end of its second page, and then kills the writer."""
    command = [sys.executable, "-c", CUT, str(tmp_path), store.full_name, level, "8192"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cut = int(done.stdout.split()[-1])
    with closing(open_store(store, tmp_path, durability=level)) as opened:
        try:
            whole = opened.get(b"key") in {b"%c" % i * 12_000 for i in (cut - 1, cut)}
        except StoreError:
            whole = False
    assert whole == (level in WHOLE or not store.tears)


@pytest.mark.parametrize("level", WHOLE)
def test_an_update_by_rename_leaves_no_temporary_file(level: str, tmp_path: Path) -> None:
    labels = [label for label in ("flat", "nested", "flat/io") if level in levels_of(label)]
    for label in labels:
        folder = tmp_path / label
        folder.mkdir(parents=True)
        store = open_store(KNOWN[label], folder, durability=level)
        assert store.insert(b"key", b"first")
        assert not store.insert(b"key", b"second")
        assert store.update(b"key", b"third")
        assert not store.update(b"other", b"value")
        store.write_batch([(b"key", b"fourth"), (b"other", b"fifth")])
        assert (store.get(b"key"), store.get(b"other")) == (b"fourth", b"fifth")
        store.close()
        files = [name for _, _, names in os.walk(folder) for name in names]
        assert sorted(files) == sorted((b"key".hex(), b"other".hex()))


@pytest.mark.skipif(bool(tracing_fails()), reason=tracing_fails() or "")
@pytest.mark.check
def test_evidence_of_one_level(kvbench: Run, tmp_path: Path) -> None:
    out = tmp_path / "evidence.csv"
    command = ("evidence", "flat", "gdbm", "--out", out, "--durability")
    done = kvbench(*command, "none")
    assert done.returncode == 0, done.stderr
    assert [row["durability"] for row in csv.DictReader(out.open())] == ["none"]
    done = kvbench("evidence", "gdbm", "--out", out, "--durability", "atomic")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "none is available at atomic" in done.stderr


@pytest.mark.check
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=lambda stop: stop.name)
def test_evidence_that_is_stopped_leaves_nothing_behind(
    stop: signal.Signals, tmp_path: Path
) -> None:
    if why := evidence.mounting_fails(tmp_path) or tracing_fails():
        pytest.skip(why)
    place, out = tmp_path / "place", tmp_path / "evidence.csv"
    place.mkdir()
    command = [sys.executable, "-m", "kvbench.cli", "evidence", "gdbm", "--out", str(out)]
    with subprocess.Popen(
        [*command, "--place", str(place)], stderr=subprocess.PIPE, text=True
    ) as run:
        # Not by a look at the store: who lists a folder keeps it from being unmounted.
        while run.poll() is None and str(place) not in Path("/proc/mounts").read_text():
            time.sleep(0.001)
        run.send_signal(stop)
        _, said = run.communicate()
    assert run.returncode == STOPPED, said
    assert not list(place.iterdir()) and not out.exists()
    assert str(place) not in Path("/proc/mounts").read_text()
