"""Stores that shirk: records that a store does not keep are found, and work that it puts off is
charged to it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvbench.cell.factors import DURABILITY
from kvbench.cell.store import Store
from support import ALTERED, SHIMS, Run

WriteGrid = Callable[..., Path]
AlterShim = Callable[..., Store]


def cells(kvbench: Run, grid: Path, out: Path) -> list[dict[str, Any]]:
    done = kvbench("sweep", grid, "--out", out)
    assert done.returncode in (0, 3), done.stderr
    return [json.loads(path.read_text()) for path in sorted(out.glob("cells/*.json"))]


# The template, whose records stay in memory until the process ends. It writes {written} bytes of
# zeros for each byte of its records when it is closed, and claims every level of durability.
CACHED = """
#undef ROOM
static struct kv *records;
static char folder[4096];
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    (void)options, (void)count;
    snprintf(folder, sizeof folder, "%s", path);
    if (records == NULL)
        records = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *kv = records;
    return records == MAP_FAILED ? kv_fail("no memory") : KV_OK;
}}
static int my_close(struct kv *kv)
{{
    char name[5000];
    snprintf(name, sizeof name, "%s/records", folder);
    FILE *file = fopen(name, "w");
    for (size_t i = 0; i < kv->size * {written}; i++)
        putc(0, file);
    return fclose(file);
}}
static int my_sync(struct kv *kv)
{{
    (void)kv;
    return KV_OK;
}}
static const struct kv_setting my_settings[] = {{
    {{.name = "durability", .value = "none", .means = "claimed"}},
    {{.name = "durability", .value = "process", .means = "claimed"}},
    {{.name = "durability", .value = "recoverable", .means = "claimed"}},
    {{.name = "durability", .value = "sync", .means = "claimed"}},
    {{.name = "durability", .value = "atomic", .means = "claimed"}},
    {{.name = NULL}},
}};
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("written", "compressibility", "said"),
    [
        (0, "incompressible", "less than the 102,400 B of its incompressible values"),
        (0, "compressible", "done, though its key exists"),
        (1, "incompressible", "done, though its key exists"),
    ],
)
def test_records_that_are_only_kept_in_the_process_are_missing(
    written: int,
    compressibility: str,
    said: str,
    kvbench: Run,
    write_grid: WriteGrid,
    alter_shim: AlterShim,
    on_disk: Path,
) -> None:
    """A process that never had the store open checks it, at each durability level."""
    code = CACHED.format(written=written)
    store = alter_shim("template", code, "open", "close", "sync", "settings")
    grid = write_grid(
        stores=[store.name],
        durability=list(DURABILITY),
        compressibility=[compressibility],
        workloads=["rounds", "fillseq, readrandom"],
    )
    found = cells(kvbench, grid, on_disk / "out")
    assert len(found) == 2 * len(DURABILITY)
    for cell in found:
        assert cell["status"] == "failed"
        assert cell["reason"].startswith("wrong answer: ")
        assert said in cell["reason"]


# The template, with its file in the folder ASIDE. On closing it writes to the store's folder what
# {part} says of each record.
ASIDE = """
static char folder[4096];
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    snprintf(folder, sizeof folder, "%s", path);
    return honest.open(getenv("ASIDE"), options, count, kv);
}}
static int my_close(struct kv *kv)
{{
    char name[5000];
    snprintf(name, sizeof name, "%s/records", folder);
    FILE *file = fopen(name, "w");
    for (size_t place = 0, next; place < kv->size; place = next) {{
        struct kv_record record = record_at(kv, place, &next);
        {part}
    }}
    fclose(file);
    return honest.close(kv);
}}
"""
KEYS = "fwrite(record.key.data, 1, record.key.size, file);"
MOST = "fwrite(record.value.data, 1, record.value.size * 9 / 10, file);"
WHOLE = "fwrite(record.value.data, 1, record.value.size, file);"


@pytest.mark.check
@pytest.mark.parametrize(
    ("part", "caught"),
    [(KEYS, True), (MOST, True), (KEYS + MOST, True), (WHOLE, False)],
    ids=["keys", "most of each value", "keys and most of each value", "all values"],
)
def test_values_that_are_kept_elsewhere_are_missed(
    part: str,
    caught: bool,
    kvbench: Run,
    write_grid: WriteGrid,
    alter_shim: AlterShim,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if another process finds all of them, wherever they are. No compressor could have saved
    a byte of these values."""
    store = alter_shim("template", ASIDE.format(part=part), "open", "close")
    found = []
    for workload in ("rounds", "fillseq"):
        aside = tmp_path / workload
        aside.mkdir()
        monkeypatch.setenv("ASIDE", str(aside))
        grid = write_grid(stores=[store.name], records=[1000], workloads=[workload])
        found += cells(kvbench, grid, tmp_path / f"{workload}-out")
    for cell in found:
        if caught:
            assert "less than the" in cell["reason"]
            assert "of its incompressible values" in cell["reason"]
        else:
            assert cell["status"] == "ok"


# LMDB, which takes one in 2,000 inserts of keys that exist.
ACCEPTING = """
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{
    static int refused;
    int status = honest.write(kv, mode, records, n);
    return status == KV_EXISTS && ++refused % 2000 == 0 ? KV_OK : status;
}
"""


def test_one_insert_in_2000_of_a_key_that_exists_is_noticed(
    kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    store = alter_shim("lmdb", ACCEPTING, "write")
    workloads = ["rounds", "fillrandom, readrandom", "readseq", "fillseq, deleterandom ops=90"]
    for records in (100, 5000):
        grid = write_grid(stores=[store.name], records=[records], workloads=workloads)
        for cell in cells(kvbench, grid, tmp_path / f"out-{records}"):
            assert cell["status"] == "failed"
            assert "insert of record" in cell["reason"]
            assert "done, though its key exists" in cell["reason"]


# LMDB, which refuses to update a record to the value that it holds: libmdbx makes such an update
# nearly free, so the harness must not ask for one.
IDENTICAL = """
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{
    static unsigned char held[1000];
    for (size_t i = 0; i < n && (mode == KV_UPDATE || mode == KV_PUT); i++) {
        size_t size;
        int status = honest.get(kv, records[i].key, held, sizeof held, &size);
        if (status == KV_OK && kv_same(records[i].value, (struct kv_slice){held, size}))
            return kv_fail("an update that changes nothing");
    }
    return honest.write(kv, mode, records, n);
}
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("records", "workload"),
    [
        (1, "rounds"),
        (300, "rounds"),
        (500, "fillseq, overwrite, overwrite batch=7, overwrite"),
        (10, "fillrandom, ycsb-a ops=5000, ycsb-b ops=5000, ycsb-f ops=5000"),
        (10, "fillseq, ycsb-d ops=5000, ycsb-a ops=5000"),
        (10, "fillseq, readwhilewriting readers=1 reads=1000000 seconds=1 writes=50000"),
    ],
)
def test_every_update_changes_the_value(
    records: int,
    workload: str,
    kvbench: Run,
    write_grid: WriteGrid,
    alter_shim: AlterShim,
    tmp_path: Path,
) -> None:
    """Even of one byte, and of a record that is updated more often than it has versions."""
    store = alter_shim("lmdb", IDENTICAL, "write")
    grid = write_grid(
        stores=[store.name],
        records=[records],
        record_sizes=["1 B", "1-5 B"],
        key_order=["uniform", "sequential", "zipfian"] if workload == "rounds" else ["uniform"],
        workloads=[workload],
        seed=2,
    )
    found = cells(kvbench, grid, tmp_path / "out")
    assert {(cell["status"], cell["reason"]) for cell in found} == {("ok", "")}


# LMDB, whose backups are not whole: {damage} afterwards. `first` is the record that was written
# first, with its first value.
DAMAGED = """
static unsigned char bytes[2][1024];
static struct kv_record first;
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{{
    if (first.key.data == NULL && n > 0) {{
        first = *records;
        first.key.data = memcpy(bytes[0], records->key.data, records->key.size);
        first.value.data = memcpy(bytes[1], records->value.data, records->value.size);
    }}
    return honest.write(kv, mode, records, n);
}}
static int my_backup(struct kv *kv, const char *path)
{{
    struct kv *copy;
    int status = honest.backup(kv, path);
    if (status == KV_OK && (status = honest.open(path, NULL, 0, &copy)) == KV_OK) {{
        status = ({damage});
        honest.close(copy);
    }}
    return status;
}}
"""
DAMAGES = {
    "honest.write(copy, KV_REMOVE, &first, 1)": "get of record 0: key not found",
    "honest.write(copy, KV_UPDATE, &first, 1)": "get of record 0: wrong answer: a value that was",
    "((char *)bytes[0])[9] ^= 1, honest.write(copy, KV_INSERT, &first, 1)": "scan: a record that",
    'kv_fail("full")': "backup: full",
    "KV_OK": "",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=["lost", "old", "strange", "error", "none"])
def test_a_backup_that_is_not_whole_is_noticed(
    damage: str, kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    """With a writer beside it or none."""
    store = alter_shim("lmdb", DAMAGED.format(damage=damage), "write", "backup")
    workloads = [f"fillseq, overwrite, backup{writers}" for writers in ("", " writers=0")]
    grid = write_grid(stores=[store.name], durability=["process"], workloads=workloads)
    found = cells(kvbench, grid, tmp_path / "out")
    assert len(found) == 2
    for cell in found:
        assert cell["status"] == ("failed" if DAMAGES[damage] else "ok")
        assert DAMAGES[damage] in cell["reason"]
        assert cell["reason"].startswith("backup: " if DAMAGES[damage] else "")


# LMDB, which owes a piece of compaction for each 20 writes. A thread of its own does that, while
# nothing has been called for 2 us: 1 ms of processor time and 4 KiB written for each piece.
RESTLESS = """
#include "clock.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

enum { EVERY = 20, PIECE = 4096 };
static atomic_ulong called; /* when the last call ended; 0 in one */
static sem_t more;
static atomic_bool stop;
static pthread_t thread;
static int file;

static uint64_t used(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}
static void *compact(void *argument)
{
    static const char piece[PIECE];
    (void)argument;
    while (sem_wait(&more) == 0 && !stop) {
        for (unsigned long at; !stop && ((at = called) == 0 || now() - at < 2000);)
            ;
        for (uint64_t until = used() + 1000000; used() < until;)
            ;
        if (write(file, piece, sizeof piece) != PIECE)
            abort();
    }
    return NULL;
}
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{
    char name[5000];
    snprintf(name, sizeof name, "%s/compacted", path);
    file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    called = now();
    stop = false;
    if (file < 0 || sem_init(&more, 0, 0) != 0 || pthread_create(&thread, NULL, compact, NULL) != 0)
        return kv_fail("no thread");
    return honest.open(path, options, count, kv);
}
static int my_close(struct kv *kv)
{
    stop = true;
    sem_post(&more);
    pthread_join(thread, NULL);
    close(file);
    return honest.close(kv);
}
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{
    called = 0;
    int status = honest.get(kv, key, buffer, capacity, size);
    called = now();
    return status;
}
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{
    static unsigned long writes;
    called = 0;
    int status = honest.write(kv, mode, records, n);
    if (++writes % EVERY == 0)
        sem_post(&more);
    called = now();
    return status;
}
"""
PIECES, PIECE, PIECE_S = 500, 4096, 0.001


def test_an_engine_that_compacts_while_it_is_not_called_is_charged(
    kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, on_disk: Path
) -> None:
    """Within a step it finds next to no time to. What it owes at the end is waited for."""
    store = alter_shim("lmdb", RESTLESS, "open", "close", "get", "write")
    grid = write_grid(
        stores=[store.name, "lmdb"],
        records=[20 * PIECES],
        record_sizes=["100 B"],
        durability=["process"],
        workloads=[f"fillrandom, readrandom ops={20 * PIECES}"],
    )
    found = {cell["cell"]["store"]: cell for cell in cells(kvbench, grid, on_disk / "out")}
    restless, honest = found[store.name], found["lmdb"]
    assert (restless["settled"], honest["settled"]) == ("yes", "yes")
    assert honest["debt_bytes"] == 0
    steps = {
        name: {row["operation"]: row for row in cell["operations"]} for name, cell in found.items()
    }
    within = sum(
        row["wchar"] - steps["lmdb"][name]["wchar"] for name, row in steps[store.name].items()
    )
    owed, debt = PIECES * PIECE, restless["debt_bytes"]
    assert debt > owed / 2
    assert within + debt > 0.9 * owed  # the rest fell between two steps
    assert restless["debt_cpu_s"] > 0.9 * PIECE_S * debt / PIECE
    assert restless["debt_disk_bytes"] - restless["ended_disk_bytes"] > owed / 2


# The template, which changes what it declared: {change} while it opens, and {before} when a process
# loads it to measure.
TURNCOAT = """
static void *nothing(void) {{ abort(); }}
static const struct kv_setting other_settings[] = {{
    {{.name = "durability", .value = "sync", .means = "claimed later"}},
    {{.name = NULL}},
}};
static const char *other_version(void) {{ return "999"; }}
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    (void)other_settings, (void)other_version, (void)nothing;
    {change};
    return honest.open(path, options, count, kv);
}}
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t capacity, size_t *size)
{{
    int status = honest.get(kv, key, buffer, capacity, size);
    if ({lies} && status == KV_OK && *size > 0)
        ((char *)buffer)[0] ^= 1;
    return status;
}}
static int (*turn(void))(struct kv *)
{{
    if (getenv("KVBENCH_CELL") != NULL) {{
        {before};
    }}
    return honest.sync;
}}
#define my_sync turn() /* called when the driver is made */
"""
CHANGES = {
    "capabilities": "kv_driver.capabilities = KV_FORGETS",
    "no scan": "kv_driver.capabilities &= ~(uint32_t)KV_SCAN, kv_driver.scan = NULL",
    "more capabilities": "kv_driver.capabilities |= KV_THREADS | KV_WRITERS | KV_BATCH",
    "name": 'kv_driver.name = "null"',
    "version": "kv_driver.version = other_version",
    "limits": "kv_driver.max_key = kv_driver.max_value = 1",
    "settings": "kv_driver.settings = other_settings",
    "guarantee": 'kv_driver.default_durability = "sync"',
    "functions": (
        "kv_driver.get = (void *)nothing, kv_driver.write = (void *)nothing, "
        "kv_driver.scan = (void *)nothing, kv_driver.close = (void *)nothing, "
        "kv_driver.error = (void *)nothing, kv_driver.effective_options = (void *)nothing"
    ),
    "abi": "kv_driver.abi = 0",
    "all": "memset(&kv_driver, 0, sizeof kv_driver)",
}
WORKLOADS = ["rounds", "fillseq, readrandom, readseq"]


def turncoats(
    alter_shim: AlterShim, change: str = "", before: str = "", lies: bool = False
) -> Store:
    code = TURNCOAT.format(change=change, before=before, lies=int(lies))
    return alter_shim(
        "template", "extern struct kv_driver kv_driver;" + code, "open", "get", "sync"
    )


@pytest.mark.check
@pytest.mark.parametrize(
    ("change", "lies"),
    [
        *((name, False) for name in CHANGES),
        ("all", True),
        *(pytest.param(n, True, marks=pytest.mark.check) for n in CHANGES if n != "all"),
    ],
)
def test_what_a_store_declares_when_it_is_loaded_counts(
    change: str,
    lies: bool,
    kvbench: Run,
    write_grid: WriteGrid,
    alter_shim: AlterShim,
    tmp_path: Path,
) -> None:
    """Whatever it writes into its driver while it is open: its answers are checked, and the result
    is that of the store that it was."""
    store = turncoats(alter_shim, CHANGES[change], lies=lies)
    grid = write_grid(stores=[store.name], workloads=WORKLOADS)
    found = cells(kvbench, grid, tmp_path / "out")
    assert len(found) == len(WORKLOADS)
    for cell in found:
        assert cell["guarantee"] == "none"
        assert cell["engine_version"] != "999"
        if lies:
            assert cell["status"] == "failed"
            assert cell["reason"].startswith("wrong answer: get of record")
        else:
            assert (cell["status"], cell["reason"]) == ("ok", "")


@pytest.mark.check
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_store_that_is_opened_again_and_again_declares_itself_once(
    cache: str, kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    store = turncoats(alter_shim, CHANGES["all"])
    grid = write_grid(stores=[store.name], cache=[cache])
    (found,) = cells(kvbench, grid, tmp_path / "out")
    assert (found["status"], found["reason"]) == ("ok", "")


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in ("functions", "name")])
def test_a_store_that_declares_something_else_when_it_is_measured_fails(
    name: str, kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    store = turncoats(alter_shim, before=CHANGES[name])
    (found,) = cells(kvbench, write_grid(stores=[store.name]), tmp_path / "out")
    assert found["status"] == "failed"
    assert "declaration has changed since it was probed" in found["reason"] or (
        name in ("abi", "all") and "built for ABI 0" in found["reason"]
    )


FUNCTIONS = (
    "open", "close", "get", "write", "scan", "sync", "version", "error", "settings",
    "effective_options", "name", "default_durability",
)  # fmt: skip


def test_a_store_without_a_function_is_unavailable(kvbench: Run, alter_shim: AlterShim) -> None:
    for number, function in enumerate(FUNCTIONS):
        code = "static void *const my_nothing;\n"
        code += f"#define my_{function} (void *)my_nothing\n"
        alter_shim("template", code, function, name=f"lacking{number}")
    done = kvbench("stores")
    assert done.returncode == 0
    for number, function in enumerate(FUNCTIONS):
        said = f"lacking{number}: its driver has no {function}, which kv.h requires"
        assert said in done.stdout


# The template, with {code}.
WORDS = """
static const char *my_version_(void) {{ return {version}; }}
#define my_version my_version_
#define my_default_durability {guarantee}
static const struct kv_setting my_settings[] = {{
    {{.name = "durability", .value = "none", .means = "as shipped"}},
    {{.name = {setting}, .value = {value}, .means = {means}}},
    {{.name = NULL}},
}};
"""
SOUND = {
    "version": '"1.0"', "guarantee": '"none"', "setting": '"page"', "value": '"4096"',
    "means": '"pages"',
}  # fmt: skip
LONG = "((char[100001]){[0 ... 99999] = 'v'})"  # GCC's way to fill an array
BAD_WORDS = {
    "guarantee": ['"<b>forever</b>"', '""', '"default"', '"for ever"', '"process\\n"', LONG],
    "version": ['""', '"1\\n2"', '"\\x1b[31m"', '"\\xff"', "NULL", LONG],
    "setting": ['"a=b"', '"a, b"', '"<b>"', '"\\xc3\\xa4"', LONG],
    "value": ['"a\\nb"', '"<b>"', LONG],
    "means": [LONG],
}


@pytest.mark.check
def test_stores_whose_words_no_result_takes_are_unavailable(
    kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    """And touch no other store: what is written can be read."""
    bad = [(word, text) for word, texts in BAD_WORDS.items() for text in texts]
    for number, (word, text) in enumerate(bad):
        code = WORDS.format(**SOUND | {word: text})
        functions = ("version", "default_durability", "settings")
        alter_shim("template", code, *functions, name=f"bad{number}")
    out, stores = tmp_path / "out", [f"bad{number}" for number in range(len(bad))]
    done = kvbench("sweep", write_grid(stores=[*stores, "flat"]), "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"1 ok, {len(bad)} unavailable\n"
    assert max(map(len, done.stderr.splitlines())) < 300
    assert kvbench("collect", out).returncode == 0
    assert kvbench("status", out).returncode == 0


def test_sound_words_are_taken(
    kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, tmp_path: Path
) -> None:
    code = WORDS.format(**SOUND)
    store = alter_shim("template", code, "version", "default_durability", "settings")
    done = kvbench("sweep", write_grid(stores=[store.name]), "--out", tmp_path / "out")
    assert done.stdout == "1 ok\n"


def test_a_store_with_a_name_that_no_grid_takes_is_unavailable(
    kvbench: Run, own_shims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grid that names no store leaves it out."""
    names = ["a b", "<b>", "x" * 61, "-x", "line\nbreak"]
    for name in names:
        shutil.copy(own_shims / "null.so", own_shims / f"{name}.so")
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
    said = kvbench("stores").stdout
    assert said.count("is not allowed; allowed: up to 60 letters") == len(names)
    grid = tmp_path / "grid.toml"
    grid.write_text("records = [10]\n")
    done = kvbench("sweep", grid, "--out", tmp_path / "out", "--dry-run")
    assert done.returncode == 0, done.stderr


# The store flat, which syncs {honest} of ten single writes.
LAZY = """
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t n)
{{
    static unsigned written;
    struct kv own = *kv;
    own.sync = kv->sync && (n > 1 || written++ % 10 < {honest});
    own.rename = kv->rename && own.sync;
    return honest.write(&own, mode, records, n);
}}
"""


@pytest.mark.check
@pytest.mark.parametrize("level", ["sync", "atomic"])
def test_a_store_that_promises_syncs_and_makes_too_few_is_flagged(
    level: str,
    kvbench: Run,
    write_grid: WriteGrid,
    compile_shim: Callable[..., Path],
    own_shims: Path,
    on_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its cells, by `sweep`, `status` and `collect`. An honest store is not."""
    names = {honest: f"lazy-{honest}" for honest in (0, 9, 10)}
    flat = "enum { NESTED = 0 };\n" + (SHIMS / "stores" / "folder.h").read_text()
    flat = flat.replace('"../shim.h"', '"shim.h"').replace(
        "kv_driver kv_driver", "kv_driver honest"
    )
    for honest, name in names.items():
        code, replaced = LAZY.format(honest=honest), "kv_driver.write = my_write;"
        compile_shim(name, ALTERED.format(honest=flat, code=code, replaced=replaced))
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
    grid = write_grid(
        stores=[*names.values(), "flat"],
        durability=[level, "process"],
        records=[50],
    )
    out = on_disk / "out"
    done = kvbench("sweep", grid, "--out", out)
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in out.glob("cells/*.json")]
    if found[0]["operations"][0]["syncs"] is None:
        pytest.skip("syncs are not counted here: it needs root")
    flag = f"promises {level}, but syncs less often than it writes"
    for cell in found:
        own = cell["cell"]
        lazy = own["store"] in (names[0], names[9]) and own["durability"] == level
        assert cell["reason"].startswith(flag) if lazy else cell["reason"] == ""
    assert f"2 ok: {flag}" in done.stderr
    assert flag in kvbench("status", out).stdout
    collected = kvbench("collect", out)
    assert [line.partition(":")[0] for line in collected.stderr.splitlines()] == [
        names[0],
        names[9],
    ]
    assert all(flag in line for line in collected.stderr.splitlines())


# The template, which makes {deep} folders within each other when it is first opened.
DEEP = """
#include <sys/stat.h>
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{{
    int here = open(path, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < {deep} && mkdirat(here, "folder", 0777) == 0; i++) {{
        int below = openat(here, "folder", O_RDONLY | O_DIRECTORY);
        close(here);
        close(openat(below, "file", O_WRONLY | O_CREAT, 0666));
        here = below;
    }}
    close(here);
    return honest.open(path, options, count, kv);
}}
"""


@pytest.mark.check
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_store_with_3000_nested_folders_costs_no_other(
    cache: str, kvbench: Run, write_grid: WriteGrid, alter_shim: AlterShim, on_disk: Path
) -> None:
    """They are measured, evicted and removed, though a path to the last would be too long."""
    store = alter_shim("template", DEEP.format(deep=3000), "open")
    grid = write_grid(stores=[store.name, "flat"], cache=[cache], records=[20])
    for cell in cells(kvbench, grid, on_disk / "out"):
        assert (cell["status"], cell["reason"]) == ("ok", "")
    assert not (on_disk / "out" / "stores").exists()
