"""The crash explorer: what may be left of a store, which states a disk may be in, and whether it
finds a store that does not keep its word."""

import csv
import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.faults import scenario
from kvbench.faults.explorer import MOST_HANGS, UNMOUNTED, explore, table
from kvbench.faults.left import Left, Value, digest
from kvbench.faults.recording import Subject
from kvbench.faults.scenario import History, Step
from kvbench.faults.states import Epoch, State, chosen, epochs, others, tears, whole
from kvbench.machine import device
from kvbench.machine.device import FLUSH, WRITE, Entry
from kvbench.machine.scratch import scratch
from kvbench.stores.known import KnownStore
from support import Run

A, B, C = b"a", b"b", b"c"
STEPS = (Step("update", A, b"2"), Step("insert", C, b"3"), Step("remove", B, b""))
ONE, TWO, THREE, FOUR = map(digest, (b"1", b"2", b"3", b"4"))
AT_PROCESS_INSTEAD = """
static int my_open(const char *path, const struct kv_option *options, size_t count, struct kv **kv)
{
    struct kv_option lie = {"durability", "process"};
    return honest.open(path, count ? &lie : options, count, kv);
}
"""


def history() -> History:
    """A and B are on disk; A is updated, C inserted, B removed."""
    return History([A, B, C], [ONE, ONE, None], STEPS)


@pytest.mark.parametrize(
    ("found", "acknowledged", "kind", "prefix"),
    [
        ((ONE, ONE, None), 0, "", 0),
        ((TWO, ONE, None), 0, "", 1),  # it was under way
        ((TWO, ONE, THREE), 2, "", 2),
        ((TWO, None, THREE), 3, "", 3),
        ((ONE, ONE, None), 2, scenario.LOST, 0),
        ((TWO, ONE, None), 3, scenario.LOST, 1),
        ((ONE, ONE, THREE), 2, scenario.LOST, -1),
        ((None, ONE, None), 0, scenario.LOST_BASE, -1),
        ((TWO, None, THREE), 1, scenario.LOST_BASE, -1),  # the remove was not issued
        ((TWO, ONE, THREE), 0, scenario.AHEAD, -1),
        ((THREE, ONE, None), 3, scenario.WRONG, -1),
        (("no such page", ONE, None), 0, scenario.UNREAD, -1),
    ],
)
def test_what_is_left_is_compared_with_the_steps(
    found: tuple[Value, ...], acknowledged: int, kind: str, prefix: int
) -> None:
    verdict = history().judge(Left(found=found), acknowledged, "sync")
    assert (verdict.kind, verdict.prefix) == (kind, prefix)
    assert verdict.recoverable == (kind in ("", scenario.LOST))


def test_a_level_below_sync_may_lose_the_last_steps_but_no_record_that_was_there() -> None:
    for found in [(ONE, ONE, None), (ONE, ONE, THREE), (TWO, None, None)]:
        assert not history().judge(Left(found=found), 3, "recoverable").kind
    lost = history().judge(Left(found=(None, ONE, THREE)), 3, "recoverable")
    assert lost.kind == scenario.LOST_BASE


@pytest.mark.parametrize(
    ("left", "kind"),
    [
        (Left(ended="hangs"), scenario.HANGS),
        (Left(ended="signal SIGSEGV"), scenario.CRASHES),
        (Left(refused="no such table"), scenario.REFUSED),
        (Left(found=(ONE, ONE, None), extra=1), scenario.STRANGER),
        (Left(found=(ONE, ONE, None), after="disk I/O error"), scenario.AFTER),
        (Left(found=(ONE, ONE, None), closing="disk I/O error"), scenario.AFTER),
    ],
)
def test_other_failures_are_told_apart(left: Left, kind: str) -> None:
    assert history().judge(left, 0, "recoverable").kind == kind


def test_the_record_of_the_step_under_way_may_be_torn_where_the_level_says_so() -> None:
    torn = Left(found=(digest(b"neither"), ONE, None))
    assert history().judge(torn, 0, "sync").kind == scenario.WRONG
    assert not history().judge(torn, 0, "sync", tears=True).kind
    assert history().judge(torn, 1, "sync", tears=True).kind == scenario.WRONG


@pytest.mark.parametrize(
    ("found", "acknowledged", "level", "kind", "prefix"),
    [
        ((TWO, ONE, THREE), 0, "sync", "", 0),
        ((TWO, None, THREE), 0, "sync", "", 0),  # under way at the first failure
        ((TWO, None, THREE), 1, "sync", scenario.LOST, 0),  # and the update of A is lost
        ((FOUR, None, THREE), 1, "sync", "", 1),
        ((ONE, ONE, THREE), 0, "sync", scenario.LOST, -1),  # an older value, but none that is wrong
        ((ONE, ONE, THREE), 0, "recoverable", "", -1),
        ((ONE, ONE, None), 0, "recoverable", "", 0),  # what no step would have left
        ((FOUR, ONE, None), 1, "recoverable", "", -1),
        ((THREE, ONE, THREE), 0, "recoverable", scenario.WRONG, -1),
    ],
)
def test_after_a_second_failure_the_first_counts_too(
    found: tuple[Value, ...], acknowledged: int, level: str, kind: str, prefix: int
) -> None:
    steps = [Step("update", A, b"4")]
    second = History([A, B, C], [TWO, ONE, THREE], steps, (history(), 2))
    verdict = second.judge(Left(found=found), acknowledged, level)
    assert (verdict.kind, verdict.prefix) == (kind, prefix)
    assert verdict.recoverable == (kind in ("", scenario.LOST))


def log(*sizes: int) -> list[Entry]:
    """Writes of these sizes; 0 is a flush. The number of acknowledged operations is the entry's."""
    return [
        Entry(WRITE if size else FLUSH, 4096 * at, size, at, at, 0) for at, size in enumerate(sizes)
    ]


def test_writes_between_flushes_are_an_epoch_that_ends_with_the_arrival_of_the_flush() -> None:
    found = epochs(log(0, 512, 4096, 0, 0, 1024, 0, 512), 20, 30)
    assert [len(epoch.writes) for epoch in found] == [2, 1, 1, 0]
    assert [epoch.acknowledged for epoch in found] == [3, 6, 20, 20]


def test_states_are_distinct_and_repeat_with_the_seed() -> None:
    found = epochs(log(*[512, 4096, 65536, 512, 0] * 20), 100, 100)
    states = chosen(found, 300, random.Random(1))
    assert len({(state.epoch, state.kept) for state in states}) == len(states) == 300
    assert states == chosen(found, 300, random.Random(1))
    assert {state.how for state in states} == {"flush", "subset", "prefix", "torn"}
    for state in states:
        epoch = found[state.epoch]
        assert others(epoch, others(epoch, state.kept)) == state.kept
        assert state.kept != tuple(whole(epoch)) or not epoch.writes


def test_a_state_is_torn_if_a_block_survives_in_part() -> None:
    (epoch, _) = epochs(log(16384), 1, 1)
    for kept, torn in [
        ((), False), (((0, 0, 32),), False), (((0, 8, 24),), False), (((0, 0, 9),), True),
        (((0, 3, 32),), True),
    ]:  # fmt: skip
        assert tears(epoch, kept) is torn
    torn = [state for state in chosen([epoch], 60, random.Random(1)) if tears(epoch, state.kept)]
    assert 0 < len(torn) < 55  # the others miss whole blocks


def test_no_more_states_are_chosen_than_there_are() -> None:
    single = [Epoch((log(512)[0],), 1, 1), Epoch((), 1, 1)]
    assert chosen(single, 100, random.Random(1)) == [State(0, (), "flush"), State(1, (), "flush")]


def skip_without_device() -> None:
    try:
        device.check("ext4")
    except BadInput as why:
        pytest.skip(str(why))


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.check
def test_a_store_that_syncs_holds(kvbench: Run, tmp_path: Path) -> None:
    skip_without_device()
    out = tmp_path / "out.csv"
    explore = ("crash", "flat", "--explore", "--durability", "sync", "--states", 60)
    done = kvbench(*explore, "--out", out)
    assert done.returncode == 0, done.stderr
    (row,) = rows(out)
    assert 50 <= int(row["states"]) <= int(row["wanted"]) == 60
    assert int(row["second"]) >= 10
    unmounted = int(row["cannot_be_mounted"])  # ext4 itself may be torn
    assert row["violations"] == "0"
    assert int(row["complete"]) + unmounted == int(row["states"])
    assert (tmp_path / "out.states").exists() == (unmounted > 0)


@pytest.mark.check
def test_a_store_that_does_not_sync_is_found_and_the_violation_can_be_replayed(
    kvbench: Run, alter_shim: Callable[..., Store], tmp_path: Path
) -> None:
    skip_without_device()
    out = tmp_path / "out.csv"
    alter_shim("lmdb", AT_PROCESS_INSTEAD, "open")
    shims = {"KVBENCH_SHIMS": os.environ["KVBENCH_SHIMS"]}
    explore = ("crash", "altered", "--explore", "--durability", "sync", "--out", out)
    done = kvbench(*explore, "--states", 60, env=shims)
    assert done.returncode == 0, done.stderr
    (row,) = rows(out)
    assert int(row["lost_an_acknowledged_write"]) > 0
    name = row["kept"].split()[0]
    assert f"--replay {name}" in done.stderr
    again = kvbench(*explore, "--replay", name, env=shims)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(f"{name}: ")
    assert not again.stdout.endswith("holds\n")


HANGING = """
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t room, size_t *size)
{
    pause();
    return honest.get(kv, key, buffer, room, size);
}
"""


@pytest.mark.check
def test_a_store_that_always_hangs_ends_its_row_early(
    alter_shim: Callable[..., KnownStore], tmp_path: Path
) -> None:
    skip_without_device()
    store = alter_shim("lmdb", "#include <unistd.h>" + HANGING, "get")
    with scratch(tmp_path) as place:
        subject = Subject(store, "sync", limit=0.5)
        row = explore(subject, "1.1", 200, place / "work", tmp_path / "kept")
    assert row["kinds"].keys() <= {scenario.HANGS, UNMOUNTED}
    assert MOST_HANGS <= row["kinds"][scenario.HANGS] < row["states"] + 1 < 60
    (written,) = csv.DictReader(io.StringIO(table([row], {"wanted": 200}).decode()))
    assert (written["states"], written["wanted"]) == (str(row["states"]), "200")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--states", "5"), "--states: allowed with --explore only"),
        (("--explore", "--records", "5"), "--records: allowed without --explore only"),
        (("--explore", "--fs", "ntfs"), "'ntfs'"),
        (("--explore", "--replay", "x"), "name one STORE and one --durability"),
        (("--explore", "--durability", "none"), "no store to explore at none"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    kvbench: Run, tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    skip_without_device()
    done = kvbench("crash", "flat", *options, "--out", tmp_path / "out.csv")
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_replay_of_an_unknown_state_names_those_that_are_kept(
    kvbench: Run, tmp_path: Path
) -> None:
    skip_without_device()
    (tmp_path / "out.states").mkdir()
    (tmp_path / "out.states/flat-sync-1.1-7-00.state").write_text("{}")
    explore = ("crash", "flat", "--explore", "--durability", "sync", "--out", tmp_path / "out.csv")
    done = kvbench(*explore, "--replay", "nosuch")
    assert (done.returncode, "flat-sync-1.1-7-00" in done.stderr) == (2, True)
    done = kvbench(*explore, "--replay", "flat-sync-1.1-7-00")
    assert (done.returncode, "not a kept state" in done.stderr) == (2, True)
