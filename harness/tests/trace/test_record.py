"""What a program does to its records is recorded, and nothing else of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvbench.trace.asked import Asked, asked, stores
from kvbench.trace.format import read
from kvbench.trace.recorder.kvbench_recorder.rows import COMMIT, GET, PUT
from support import Run

Record = Callable[..., "tuple[Path, subprocess.CompletedProcess[str]]"]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Run a program in tmp_path/work under `kvbench record`; return the trace and what it did."""

    def run(source: str, *options: object, env: dict[str, str] | None = None) -> Any:
        work, trace = tmp_path / "work", tmp_path / "trace"
        work.mkdir(exist_ok=True)
        (tmp_path / "program.py").write_text(source)
        kvbench = [sys.executable, "-m", "kvbench.cli", "record", "--out", trace, *options]
        command = [*map(str, kvbench), "--", sys.executable, str(tmp_path / "program.py")]
        done = subprocess.run(
            command, cwd=work, env=os.environ | (env or {}), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return trace, done

    return run


# 60 records of 1,000 B: 40 are read again, 5 that are not there are asked for, 30 are overwritten
# and 10 removed.
USE = """
for i in range(60):
    put(key(i), b"x" * 1000)
for i in range(40):
    assert len(get(key(i))) == 1000
for i in range(5):
    assert get(key(1000 + i)) is None
for i in range(30):
    put(key(i), b"y" * 1000)
for i in range(10):
    remove(key(i))
"""
EXPECTED = {"insert": 60, "get": 45, "update": 30, "remove": 10}
KEY = "key = lambda i: b'secret-%06d' % i\n"
PROGRAMS = {
    "dbm.dumb": f"""{KEY}
import dbm.dumb
db = dbm.dumb.open("secret", "c")
put, get, remove = db.__setitem__, db.get, db.__delitem__
{USE}
db.close()
""",
    "dbm.gnu": f"""{KEY}
import dbm.gnu
db = dbm.gnu.open("secret", "c")
put, get, remove = db.__setitem__, db.get, db.__delitem__
{USE}
db.close()
""",
    "plyvel": f"""{KEY}
from plyvel import DB
with DB("secret", create_if_missing=True) as db:
    put, get, remove = db.put, db.get, db.delete
{"".join("    " + line + chr(10) for line in USE.splitlines())}
""",
    "lmdb": f"""{KEY}
import lmdb
env = lmdb.open("secret", map_size=1 << 26)
def put(k, v):
    with env.begin(write=True) as txn:
        assert txn.put(k, v)
def get(k):
    with env.begin() as txn:
        return txn.get(k)
def remove(k):
    with env.begin(write=True) as txn:
        assert txn.delete(k)
{USE}
env.close()
""",
    "sqlite3": f"""{KEY}
import sqlite3
db = sqlite3.connect("secret")
db.execute("create table secrets (k blob primary key, v blob)")
def put(k, v):
    with db:
        db.execute("insert or replace into secrets (k, v) values (?, ?)", (k, v))
def get(k):
    found = db.execute("select v from secrets where k = ?", [k]).fetchone()
    return found and found[0]
def remove(k):
    db.execute("delete from secrets where k = :key", {{"key": k}})
    db.commit()
{USE}
db.close()
""",
    "diskcache": f"""{KEY}
import diskcache
with diskcache.Cache("secret") as db:
    put, get, remove = db.set, db.get, db.delete
{"".join("    " + line + chr(10) for line in USE.splitlines())}
""",
    "files": f"""{KEY}
import os
from pathlib import Path
os.mkdir("secret")
def put(k, v):
    with open(f"secret/{{k.decode()}}", "wb") as file:
        file.write(v)
def get(k):
    try:
        return Path("secret", k.decode()).read_bytes()
    except FileNotFoundError:
        return None
def remove(k):
    os.remove(f"secret/{{k.decode()}}")
{USE}
""",
}


def only(path: Path) -> Asked:
    trace = read(path)
    assert len(stores(trace)) == 1
    return asked(trace)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_each_library_is_recorded(kind: str, record: Record, tmp_path: Path) -> None:
    if kind == "dbm.gnu":
        pytest.importorskip("dbm.gnu")
    (tmp_path / "work" / "secret").mkdir(parents=True) if kind == "files" else None
    source = PROGRAMS[kind].replace('os.mkdir("secret")', "")
    folders = ["--folder", tmp_path / "work" / "secret"] if kind == "files" else []
    path, done = record(source, *folders)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    found = only(path)
    assert found.kind == kind
    assert {name: found.operations.get(name) for name in EXPECTED} == EXPECTED
    assert (found.operations["scan"], found.operations["other"]) == (0, 0)
    assert found.records == 60
    assert found.size == 1000 and set(found.sizes) == {1000}
    assert found.missed == pytest.approx(5 / 45)
    assert found.batch == 1
    assert found.threads == 1
    assert (found.spent > 0) == (kind != "files")
    assert found.spent < found.seconds


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_trace_has_no_content_and_no_name(kind: str, record: Record, tmp_path: Path) -> None:
    if kind == "dbm.gnu":
        pytest.importorskip("dbm.gnu")
    folders = ["--folder", tmp_path / "work"] if kind == "files" else []
    path, done = record(PROGRAMS[kind], *folders)
    assert done.returncode == 0, done.stderr
    data = path.read_bytes()
    for secret in (b"secret", b"000001", b"xxxx", os.fsencode(tmp_path)):
        assert secret not in data


def test_equal_keys_have_equal_hashes_in_one_trace_alone(record: Record, tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        path, _ = record(PROGRAMS["dbm.dumb"])
        rows = read(path).rows
        found.append(set(rows[rows["operation"] == PUT]["key"].tolist()))
        path.rename(tmp_path / name)
        for old in (tmp_path / "work").iterdir():
            old.unlink()
    assert len(found[0]) == len(found[1]) == 60
    assert not found[0] & found[1]


BATCHES = {
    "sqlite3": """
import sqlite3
db = sqlite3.connect("t")
db.execute("create table t (k integer primary key, v text)")
db.commit()
for start in range(0, 100, 10):
    for i in range(start, start + 10):
        db.execute("insert into t values (?, ?)", (i, "v" * 50))
    db.commit()
""",
    "sqlite3 many": """
import sqlite3
db = sqlite3.connect("t")
db.execute("create table t (k integer primary key, v text)")
for start in range(0, 100, 10):
    with db:
        rows = [(i, "v" * 50) for i in range(start, start + 10)]
        db.executemany("insert into t values (?, ?)", rows)
""",
    "plyvel": """
import plyvel
db = plyvel.DB("t", create_if_missing=True)
for start in range(0, 100, 10):
    with db.write_batch() as batch:
        for i in range(start, start + 10):
            batch.put(b"%d" % i, b"v" * 50)
""",
    "lmdb": """
import lmdb
env = lmdb.open("t")
for start in range(0, 100, 10):
    with env.begin(write=True) as txn, txn.cursor() as cursor:
        cursor.putmulti([(b"%d" % i, b"v" * 50) for i in range(start, start + 10)])
""",
}


@pytest.mark.parametrize("way", BATCHES)
def test_borders_of_transactions_are_recorded(way: str, record: Record) -> None:
    path, done = record(BATCHES[way])
    assert done.returncode == 0, done.stderr
    trace = read(path)
    assert (trace.rows["operation"] == COMMIT).sum() == 10
    puts = asked(trace)
    assert puts.operations["insert"] == 100
    assert puts.size == 50
    assert puts.batch == 10


@pytest.mark.parametrize("factory", ["sqlite3.Row", "lambda cursor, row: {'v': row[0]}"])
def test_rows_of_any_form_have_their_size(factory: str, record: Record) -> None:
    source = f"""
import sqlite3
db = sqlite3.connect("t")
db.row_factory = {factory}
db.execute("create table t (k text, v text)")
db.execute("insert into t values ('a', ?)", ["v" * 70])
assert db.execute("select v from t where k = ?", "a").fetchone()["v"] == "v" * 70
"""
    path, done = record(source)
    assert done.returncode == 0, done.stderr
    rows = read(path).rows
    assert rows[rows["operation"] == GET]["size"].tolist() == [70]


def test_threads_and_processes_share_a_trace(record: Record) -> None:
    source = """
import dbm.dumb, os, threading
def use(name):
    db = dbm.dumb.open(name, "c")
    for i in range(3000):
        db["%d" % i] = "v"
    db.close()
children = []
for name in ("a", "b"):
    child = os.fork()
    if child == 0:
        use(name)
        raise SystemExit
    children.append(child)
threads = [threading.Thread(target=use, args=(name,)) for name in ("c", "d")]
for thread in threads: thread.start()
for thread in threads: thread.join()
for child in children: assert os.waitpid(child, 0)[1] == 0
"""
    path, done = record(source)
    assert done.returncode == 0, done.stderr
    trace = read(path)
    assert stores(trace).operations.tolist() == [3000] * 4
    puts = trace.rows[trace.rows["operation"] == PUT]
    assert len(set(puts["thread"].tolist())) == 4


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(5)", "os.abort()"])
def test_a_program_may_end_at_any_moment(end: str, record: Record) -> None:
    source = f"""
import dbm.dumb, os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
db = dbm.dumb.open("t", "c")
for i in range(5000):
    db["%d" % i] = "v"
{end}
"""
    path, done = record(source)
    assert done.returncode == {"os.kill": 137, "os._exi": 5, "os.abor": 134}[end[:7]]
    rows = read(path).rows
    assert 4000 <= (rows["operation"] == PUT).sum() <= 5000  # but for the last block


def test_a_program_runs_as_before(record: Record, tmp_path: Path) -> None:
    """Its output, errors, exit status, environment's own start and descriptors are as without."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.customized = 'yes'")
    source = """
import dbm.dumb, os, sys
os.closerange(3, 100)
db = dbm.dumb.open("t", "c")
try:
    db["missing"]
except KeyError as error:
    print(repr(error), customized, "k" in db, len(db), list(db.keys()))
for i in range(3000):
    db[str(i)] = "v"
print("said", file=sys.stderr)
sys.exit(7)
"""
    path, done = record(source, env={"PYTHONPATH": str(own)})
    assert done.returncode == 7
    assert done.stdout == "KeyError(b'missing') yes False 0 []\n"
    assert done.stderr.startswith("said\n")
    assert f"{path}: 3" in done.stderr.splitlines()[-1]
    assert (read(path).rows["operation"] == PUT).sum() == 3000


def test_recording_ends_at_its_limit_and_the_program_goes_on(record: Record) -> None:
    source = """
import dbm.dumb
db = dbm.dumb.open("t", "c")
for i in range(40000):
    db["k"] = "v"
print(db["k"])
"""
    path, done = record(source, "--most", "1 MiB")
    assert (done.returncode, done.stdout) == (0, "b'v'\n"), done.stderr
    assert 0.9 * 2**20 < path.stat().st_size <= 2**20
    assert len(read(path).rows) == (path.stat().st_size - 21) // 36


def test_ctrl_c_is_the_programs(tmp_path: Path) -> None:
    source = """
import dbm.dumb, signal
db = dbm.dumb.open("t", "c")
db["k"] = "v"
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    db["l"] = "v"
    raise SystemExit(9)
"""
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "-m", "kvbench.cli", "record", "--out", "trace", "--"]
    process = subprocess.Popen(
        [*command, sys.executable, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE,
        start_new_session=True, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 9
    assert (read(tmp_path / "trace").rows["operation"] == PUT).sum() == 2


def test_what_ran_no_python_is_said(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("record", "--out", tmp_path / "t", "--", "true")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "nothing was recorded" in done.stderr


def test_a_command_that_cannot_run_leaves_nothing(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("record", "--out", tmp_path / "t", "--", str(tmp_path / "missing"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept(kvbench: Run, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("mine")
    done = kvbench("record", "--out", tmp_path / "t", "--", "true")
    assert done.returncode == 2 and "is there" in done.stderr
    assert (tmp_path / "t").read_text() == "mine"


def test_advice_from_a_trace_names_the_gain(record: Record, kvbench: Run) -> None:
    path, _ = record(PROGRAMS["sqlite3"])
    done = kvbench("advise", "--trace", path, "--json", "--durability", "process")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["query"]["records"] == 60 and told["query"]["record_size"] == "1000 B"
    own = told["trace"]
    assert own["store"] == "sqlite/sqlite3"
    row = next(row for row in told["stores"] if row["store"] == own["store"])
    assert (own["gain"]["estimate"], own["gain"]["low"]) == (row["regret"], row["low"])
    text = kvbench("advise", "--trace", path, "--durability", "process").stdout
    assert "The trace: 60 records in sqlite/sqlite3, " in text


def test_what_a_trace_lacks_can_be_given(record: Record, kvbench: Run) -> None:
    path, _ = record(PROGRAMS["plyvel"])
    done = kvbench(
        "advise", "--trace", path, "--records", "10k", "--access", "c", "--mix", "get=1", "--json"
    )
    told = json.loads(done.stdout)
    assert told["query"]["records"] == 10_000
    assert told["query"]["mix"] == {"get": 1.0}
    assert told["trace"]["why"]  # the packages for Python are not among these stores
