"""What a store is said to do when a call fails, for stores that do it on purpose."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pytest
from kvbench.cell.store import declared
from kvbench.common.messages import BadInput
from kvbench.durability.evidence import mounting_fails
from kvbench.faults import attempt, broken, calls, full
from kvbench.faults.calls import Subject, fail
from kvbench.faults.injection import CALLS, fault_of
from kvbench.faults.laboratory import KINDS
from kvbench.stores.known import KnownStore
from support import AVAILABLE, KNOWN, Run

JOURNAL = (Path(__file__).parent / "journal.c").read_text()
Journal = Callable[..., Subject]


@pytest.fixture
def journal(
    compile_shim: Callable[..., Path], own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> Journal:
    """A store that does as told after a refused write and a refused sync."""

    def build(on_write: str = "HONEST", on_sync: str = "HONEST") -> Subject:
        name = f"journal-{on_write}-{on_sync}".lower()
        flags = f"-DON_WRITE={on_write}", f"-DON_SYNC={on_sync}"
        store = KnownStore(**vars(declared(compile_shim(name, JOURNAL, *flags))))
        monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
        return Subject(store, "sync", 1)

    return build


@pytest.mark.parametrize(
    ("way", "outcome"),
    [
        ("HONEST", calls.INTACT),
        ("IGNORES", calls.SILENT),
        ("LOSES", calls.KNOWN_LOSS),
        ("CRASHES", calls.CRASH),
        ("CHANGES", calls.WRONG_VALUES),
        ("CLOSES", calls.CLOSED),
        ("ENDS_READERS", calls.CLOSED),
    ],
)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_what_a_store_does_after_a_refused_write_is_its_outcome(
    journal: Journal, tmp_path: Path, way: str, outcome: str, error: str
) -> None:
    run = fail(journal(on_write=way), fault_of(f"write {error} 9 once"), tmp_path)
    assert (run.outcome, run.hits, run.struck) == (outcome, 1, "write of log")


def test_a_store_that_hangs_is_ended(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LIMIT", 1.0)
    run = fail(journal(on_sync="HANGS"), fault_of("fsync EIO 3 once"), tmp_path)
    assert run.outcome == calls.HANG


def test_an_ignored_sync_is_unnoticed_because_no_power_is_cut(
    journal: Journal, tmp_path: Path
) -> None:
    run = fail(journal(on_sync="IGNORES"), fault_of("fsync EIO 3 once"), tmp_path)
    assert (run.outcome, run.hits, run.told.reported) == (calls.UNNOTICED, 1, False)


def test_all_calls_from_the_nth_on_fail(journal: Journal, tmp_path: Path) -> None:
    subject = journal()
    once, on = (
        fail(subject, fault_of(f"write EIO 5 {repeat}"), tmp_path) for repeat in ("once", "on")
    )
    assert (once.hits, on.hits) == (1, on.calls - 4)
    assert once.outcome == on.outcome == calls.INTACT
    assert len(on.told.errors) > len(once.told.errors) == 1


def test_calls_of_opening_are_counted_apart(journal: Journal, tmp_path: Path) -> None:
    subject = journal()
    opening = fail(subject, fault_of("create EIO 1 once opening"), tmp_path)
    assert (opening.told.refused, opening.outcome) == ("the log does not open", calls.INTACT)
    assert fail(subject, fault_of("create EIO 1 once writing"), tmp_path).outcome == calls.NOT_HIT


def test_a_run_can_be_replayed(journal: Journal, tmp_path: Path) -> None:
    subject, fault = journal(on_write="LOSES"), fault_of("write ENOSPC 12 on")
    texts = {fail(subject, fault, tmp_path).text(subject.plan) for _ in range(3)}
    assert len(texts) == 1


def test_a_failed_write_may_surface_later_but_not_an_older_value() -> None:
    key, other = b"k" * 16, b"o" * 16
    plan = attempt.Plan(
        (attempt.Operation("insert", key, b"old"),),
        (
            attempt.Operation("insert", other, b"failed"),
            attempt.Operation("update", other, b"refused"),
            attempt.Operation("update", key, b"new"),
        ),
    )
    states = bytes([attempt.FAILED, attempt.REFUSED, attempt.DONE])
    expected = attempt.Expected(plan, states, tears=False)
    found = {
        value: expected.differs(plan.keys, [attempt.digest(value), attempt.digest(b"failed")])
        for value in (b"new", b"old", b"else")
    }
    assert found == {b"new": {}, b"old": {attempt.LOST: 1}, b"else": {attempt.WRONG: 1}}
    assert expected.differs(plan.keys, [attempt.digest(b"new"), None]) == {}
    assert not expected.contradictions


@pytest.mark.check
@pytest.mark.parametrize("name", ["flat", "leveldb", "lmdb", "sqlite", "redb", "bdb"])
def test_a_store_without_a_fault_is_intact(name: str, tmp_path: Path) -> None:
    if name not in AVAILABLE:
        pytest.skip(KNOWN[name].reason)
    for call in CALLS:
        subject = Subject(KNOWN[name], "sync", 2)
        run = fail(subject, fault_of(f"{call} EIO 99999 once"), tmp_path)
        assert run.outcome == calls.NOT_HIT, run.text(subject.plan)


def test_calls_of_other_folders_do_not_count(journal: Journal, tmp_path: Path) -> None:
    """The child sends its answer by write(2), which must not fail."""
    run = fail(journal(), fault_of("write EIO 1 on"), tmp_path)
    assert run.told.seen is not None
    assert run.calls == run.hits


@pytest.mark.check
def test_the_table_counts_outcomes_and_names_the_first_n(
    journal: Journal, kvbench: Run, tmp_path: Path
) -> None:
    name = journal(on_write="LOSES", on_sync="IGNORES").store.name
    out = tmp_path / "faults.csv"
    done = kvbench("faults", name, "--first", 3, "--out", out, "--place", tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out, keep_default_na=False).set_index(["call", "error", "repeat", "phase"])
    written = table.loc["write", "EIO", "once", "writing"]
    assert written["reported_and_lost"] == written["tried"] > 3
    assert (written["first"], written["every_n"]) == ("reported and lost 1", False)
    synced = table.loc["fsync", "ENOSPC", "on", "writing"]
    assert synced["tried"] > 3
    assert table.loc["msync", "EIO", "once", "writing"]["tried"] == 0
    replayed = kvbench("faults", name, "--replay", "write EIO 1 once", "--place", tmp_path)
    assert "outcome: reported and lost (1 of " in replayed.stdout
    assert list(tmp_path.glob("kvbench-*")) == []


@pytest.mark.check
def test_a_killed_command_leaves_no_process_and_goes_on(
    journal: Journal, kvbench: Run, tmp_path: Path
) -> None:
    name, out = journal().store.name, tmp_path / "faults.csv"
    part = tmp_path / "faults.csv.part"
    command = ["faults", name, "--first", "2", "--out", out, "--place", tmp_path]
    process = subprocess.Popen([sys.executable, "-m", "kvbench.cli", *map(str, command)])
    while process.poll() is None and not part.exists():
        time.sleep(0.001)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(workers) >= 2
    assert psutil.wait_procs(workers, 10)[1] == []
    kept = part.read_text()
    assert kvbench(*command).returncode == 0
    assert len(pd.read_csv(out)) == len(calls.steps([Subject(KNOWN["flat"], "sync", 1)]))
    assert '"rows"' in kept
    assert not part.exists()
    assert list(tmp_path.glob("kvbench-*")) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("fsyn EIO 3 once", "'fsyn'"),
        ("fsync EPERM 3 once", "'EPERM'"),
        ("fsync EIO 0 once", "'0'"),
        ("fsync EIO 3 twice", "'twice'"),
        ("fsync EIO 3 once later", "'later'"),
        ("fsync", "'fsync' is not a fault"),
    ],
)
def test_a_fault_that_does_not_exist_is_refused(text: str, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        fault_of(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--out FILE"),
        (("--replay", "flush 3 never", "--kind", "device"), "'flush 3 never'"),
        (("--replay", "fsync EIO 1 once", "--kind", "full"), "a full disk has no nth call"),
        (("--durability", "atomic", "--replay", "fsync EIO 1 once"), "no durability atomic"),
    ],
)
def test_bad_input_is_one_line(kvbench: Run, arguments: tuple[str, ...], said: str) -> None:
    done = kvbench("faults", "lmdb", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder in which file systems can be mounted."""
    if why := mounting_fails(tmp_path):
        pytest.skip(why)
    return tmp_path


@pytest.mark.check
@pytest.mark.parametrize("way", ["HONEST", "LOSES", "IGNORES"])
def test_a_full_disk_shows_what_a_store_loses(journal: Journal, root: Path, way: str) -> None:
    (row,) = full.rows(journal(on_write=way), root, 0)
    assert row["error"] == ("" if way == "IGNORES" else "not written")
    assert (row["reads_while_full"], row["goes_on"], row["closes"]) == ("yes", "yes", "yes")
    if way == "HONEST":
        assert row["intact"] == row["intact_while_full"] == row["intact_with_room"] == "yes"
    else:
        assert "lost" in row["intact"]


@pytest.mark.check
def test_a_store_that_ignores_a_failed_flush_loses_its_write(journal: Journal, root: Path) -> None:
    """The file system stops, so later writes fail and are reported, or are lost."""
    if why := KINDS["device"].fails(root):
        pytest.skip(why)
    runs = {
        way: broken.fail(broken.Step(journal(on_sync=way), "flush", "on"), 5, root)
        for way in ("HONEST", "IGNORES")
    }
    assert runs["HONEST"].outcome == calls.INTACT
    assert runs["IGNORES"].outcome == calls.KNOWN_LOSS
    assert all(run.hits for run in runs.values())


@pytest.mark.check
def test_a_device_that_does_not_fail_loses_nothing(journal: Journal, root: Path) -> None:
    if why := KINDS["device"].fails(root):
        pytest.skip(why)
    for request in broken.REQUESTS:
        run = broken.fail(broken.Step(journal(), request, "once"), 10_000, root)
        assert (run.outcome, run.hits) == (calls.NOT_HIT, 0), run.wrong


def test_leveldb_loses_what_follows_a_failed_write(tmp_path: Path) -> None:
    """A defect of the engine, which data/faults/reproducers shows without this tool."""
    run = fail(Subject(KNOWN["leveldb"], "sync", 1), fault_of("write ENOSPC 7 once"), tmp_path)
    assert (run.outcome, len(run.told.errors)) == (calls.KNOWN_LOSS, 1)
    assert run.told.errors[0][0] < 10
    assert "lost" in run.wrong["records after opening it again"]


def test_calls_of_a_compaction_are_counted_apart(tmp_path: Path) -> None:
    subject = Subject(KNOWN["leveldb"], "sync", 1)
    run = fail(subject, fault_of("create EIO 1 once compacting"), tmp_path)
    before = [number for number, _ in run.told.errors if number < attempt.COMPACT_AT]
    assert (run.hits, before) == (1, [])
    assert run.struck.startswith("openat of ")


def test_a_compaction_ends_when_the_flush_before_it_fails(tmp_path: Path) -> None:
    subject = Subject(KNOWN["fjall"], "sync", 1)
    run = fail(subject, fault_of("create EIO 1 once compacting"), tmp_path)
    assert (run.outcome, run.hits) == (calls.INTACT, 1)
