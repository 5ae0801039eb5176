"""While nothing crashes, the stores with planted bugs behave as the one without."""

import csv
import random
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.machine import device
from kvbench.stores.opened import OpenStore, open_store
from support import ROOT, Run

sys.path.insert(0, str(ROOT / "harness/checks/liars"))
import planted

OPERATIONS = 500
LONGEST = 6000  # bytes: the log is full every few dozen operations


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("liars")
    planted.build(folder)
    return folder


def change(opened: OpenStore, kept: dict[bytes, bytes], choose: random.Random) -> None:
    """Make one random change in a store, and in `kept`."""
    key, value = b"%d" % choose.randrange(200), choose.randbytes(choose.randrange(LONGEST))
    operation = choose.choice(["insert", "insert", "update", "remove"])
    allowed = (key in kept) == (operation != "insert")
    if operation == "remove":
        assert opened.remove(key) == allowed
        kept.pop(key, None)
    else:
        assert getattr(opened, operation)(key, value) == allowed
        kept |= {key: value} if allowed else {}


@pytest.mark.parametrize("bug", planted.bugs())
def test_a_planted_bug_does_not_show_without_a_crash(
    bug: str, liars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVBENCH_SHIMS", str(liars))
    choose, kept = random.Random(1), dict[bytes, bytes]()
    for _ in range(4):
        with closing(open_store(Store(planted.store_name(bug)), tmp_path)) as opened:
            assert list(opened.scan()) == sorted(kept.items())
            for _ in range(OPERATIONS):
                change(opened, kept, choose)
            assert all(opened.get(key) == value for key, value in kept.items())


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("keep me")
    with pytest.raises(planted.BadInput, match="neither empty nor a folder of shims"):
        planted.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


@pytest.mark.check
@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        ("none", ""),
        ("folder_not_synced", "lost_an_acknowledged_write"),  # a name that was not on the disk
        ("log_deleted_first", "does_not_open"),  # files in the wrong order
        ("recovery_not_synced", "does_not_open"),  # only a second power failure shows it
    ],
)
def test_the_crash_explorer_finds_a_planted_bug(
    bug: str, kind: str, liars: Path, kvbench: Run, tmp_path: Path
) -> None:
    try:
        device.check("ext4")
    except BadInput as missing:
        pytest.skip(str(missing))
    store, out = planted.store_name(bug), tmp_path / "found.csv"
    asked = ("--durability", "sync", "--states", 100, "--out", out, "--place", tmp_path)
    done = kvbench("crash", "--explore", store, *asked, env={"KVBENCH_SHIMS": str(liars)})
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(out.read_text().splitlines())
    assert int(row["states"]) > 50
    assert (int(row[kind]) > 0) if kind else (int(row["violations"]) == 0)
