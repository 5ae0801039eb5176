"""What is left of stores when the disk fails, from hand-made tables, whole and partial."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from executed import run
from IPython.core.interactiveshell import InteractiveShell
from kvbench.common.messages import BadInput
from kvbench.stores import about
from support import ROOT

from study.experiments import faults
from study.experiments.faults import DEVICE, ERRORS, LIARS, ROT, STATES, Kind

COMMITTED = ROOT / "data" / "faults"
Row = dict[str, object]
Write = Callable[..., Path]


def state(store: str, level: str, states: int, **counts: object) -> Row:
    """A row of states. All keep the level, except those of `counts`."""
    row: Row = {"store": store, "engine_version": "1.0", "durability": level, "states": states}
    row |= {"recordings": 5, "violations_torn": 0, "cannot_be_mounted": 0, "kept": ""}
    row |= {name: 0 for name in STATES.counted if name != "holds"}
    row |= {"prefix": states}
    row |= {"lost_median": 0, "lost_most": 0, "lost_ms_median": 0, "lost_ms_most": 0}
    row |= {"cpu": "A", "cores": 2, "kernel": "L", "fs": "ext4", "seed": 1, "revision": "r"}
    return row | counts


def outcome(kind: Kind, *key: str, **counts: int) -> Row:
    """A row of a table of faults: its key, and the counts of outcomes."""
    row: Row = dict(zip(kind.key, key, strict=True)) | {"engine_version": "1.0"}
    row |= dict.fromkeys((*kind.counted, *kind.further), 0)
    return row | counts | {kind.tried: sum(counts[name] for name in kind.counted if name in counts)}


def pair(engine: str, **counts: object) -> Row:
    """A row of recall.csv, of two releases in which nothing was found but `counts`."""
    row: Row = {"pair": f"{engine}-1", "engine": engine, "level": "sync", "report": "https://a.b"}
    row |= {"bug": "1.0", "fix": "1.1", "bug_states": 200, "fix_states": 200, "says": "A crash."}
    return row | {"bug_wrong": 0, "fix_wrong": 0, "bug_kinds": "", "fix_kinds": ""} | counts


def finding(store: str, kind: str, verdict: str, **texts: str) -> Row:
    """A row of findings.csv."""
    row: Row = {"store": store, "engine_version": "1.0", "kind": kind, "verdict": verdict}
    return row | {"what": "It does not open.", "source": "", "reproducer": "kvbench rot"} | texts


TABLES: dict[str, list[Row]] = {
    STATES.file: [
        state("lmdb", "process", 500, does_not_open=20, hangs=5, kept="a-1 b-2"),
        state("leveldb", "process", 500),
        state("leveldb", "recoverable", 2000, lost_median=3, lost_most=1200, lost_ms_most=250.5),
        state("sqlite", "recoverable", 2100, prefix=2099, lost_most=7, lost_ms_most=9),
        state("leveldb", "sync", 2003, cannot_be_mounted=3),
        state("flat", "sync", 2000, holds_a_wrong_value=8, violations_torn=8),
        state("sqlite", "sync", 2000, lost_an_acknowledged_write=1),
    ],
    ERRORS.file: [
        outcome(
            ERRORS, "sqlite", "sync", "fsync", "EIO", "once", "writing",
            reported_and_intact=30, unnoticed=5,
        ),
        outcome(
            ERRORS, "leveldb", "sync", "write", "ENOSPC", "on", "opening",
            acknowledged_but_lost=3, reported_and_lost=2, unnoticed=5,
        ),
        outcome(ERRORS, "lmdb", "sync", "rename", "EIO", "once", "writing"),  # no such call
    ],
    DEVICE.file: [outcome(DEVICE, "lmdb", "sync", "flush", "once", crash=1, unnoticed=1)],
    ROT.file: [
        outcome(ROT, "sqlite", "default", "bit", wrong=600, harmless=350, reported=50),
        outcome(ROT, "sqlite", "on", "bit", reported=1000),
        outcome(ROT, "rocksdb", "default", "cut", reported=999, hang=1),
    ],
    LIARS.file: [
        state("liar-none", "sync", 200),
        state("liar-one", "sync", 200, lost_an_acknowledged_write=9),
        state("liar-two", "sync", 200),
    ],
    "recall.csv": [
        pair("redb", bug_wrong=3, bug_kinds="crashes"),
        pair("sled", fix_wrong=1, fix_kinds="does not open"),
    ],
    "findings.csv": [
        finding("tidesdb", "power", "defect", reproducer="log.c"),
        finding("lmdb", "rot", "known", source="https://a.b"),
    ],
    "full-disk.csv": [
        {"store": "lmdb", "durability": "sync"} | dict.fromkeys(faults.FULL, "yes"),
        {"store": "leveldb", "durability": "sync"} | dict.fromkeys(faults.FULL, "yes")
        | {"goes_on": "after 6 s: no space", "intact": "17 lost"},
    ],
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes these tables, or else all, into a folder."""

    def written(*names: str) -> Path:
        folder = tmp_path / "faults"
        folder.mkdir()
        for name in names or TABLES:
            pd.DataFrame(TABLES[name]).to_csv(folder / name, index=False)
        return folder

    return written


def test_the_text_says_what_the_tables_have(write: Write) -> None:
    found = faults.facts(faults.tables(write()))
    process, recoverable, sync = (found["states"][level] for level in faults.LEVELS)
    assert (process["stores"], process["broken_stores"], process["dead"]) == (2, "lmdb", 1)
    assert (recoverable["broken"], recoverable["broken_rates"]) == (0, "none")
    assert (sync["states"], sync["broken"]) == ("2,000", 2)
    assert sync["broken_rates"] == "flat (8 of 2,000) and sqlite (1 of 2,000)"
    assert (sync["untorn_stores"], sync["dead"]) == ("sqlite", 0)
    assert sync["rate"] == "0.15%"  # 1 - 0.05 ** (1 / 2000)
    window = {"stores": 2, "prefix": 1, "mixed": "sqlite (1 of 2,100)", "most": "1,200"}
    assert found["window"] | window == found["window"]
    errors = {"tried": "45", "stores": 3, "on": "10", "hung": "none", "gone": "none"}
    assert found["errors"] | errors == found["errors"]
    assert found["errors"]["silent"] == "leveldb (3 of 10)"
    assert found["errors"]["lost"] == "leveldb (2 of 10)"
    assert found["device"]["dead"] == "lmdb (1 of 2)"
    rot = {"tried": "2,000", "clean": "rocksdb", "never": "sqlite", "older": "none"}  # as shipped
    assert found["rot"] | rot | {"dead": "rocksdb"} == found["rot"]
    full = {"late": "leveldb", "stuck": "none", "lost": "leveldb", "stores": 2}
    assert found["full"] | full == found["full"]
    assert found["liars"] | {"count": 2, "found": 1} == found["liars"]
    recall = {
        "pairs": 2,
        "found": 1,
        "both": 0,
        "later": 1,
        "nothing": 0,
        "more": 0,
        "missed": "sled-1",
    }
    assert found["recall"] | recall == found["recall"]
    assert found["findings"] == {"count": 2, "defects": 1, "stores": "tidesdb"}


def test_what_breaks_a_store_at_recoverable_is_told_at_process(write: Write) -> None:
    states = pd.DataFrame(TABLES[STATES.file])
    broken = (states.store == "leveldb") & (states.durability == "recoverable")
    states.loc[broken, "does_not_open"] = 4
    path = write()
    states.to_csv(path / STATES.file, index=False)
    found = faults.facts(faults.tables(path))["states"]["process"]
    assert found["stricter_stores"] == "leveldb"


def test_a_store_holds_or_breaks_each_level_in_words(write: Write) -> None:
    states = faults.tables(write())["states"]
    binding = states.head(1).assign(store="lmdb/lmdb", durability="default")
    shown = faults.verdict_table(pd.concat([states, binding])).set_index("store")
    assert "lmdb/lmdb" not in shown.index
    assert shown.sync["flat"] == "breaks in 8 of 2,000, all torn"
    assert shown.process["lmdb"] == "breaks in 25 of 500"
    assert shown.recoverable["leveldb"] == "holds in 2,000"
    assert shown.recoverable["lmdb"] == ""


def test_tables_count_states_that_were_mounted_and_name_what_broke(write: Write) -> None:
    tables = faults.tables(write())
    shown = faults.state_table(tables["states"]).set_index(["store", "level"])
    rows = [row for row in shown.index if row[1] != "recoverable"]
    assert rows == sorted(rows, key=lambda row: (about.position(row[0]), row[1]))
    assert shown.states["leveldb", "sync"] == "2,000"
    assert shown.broken["leveldb", "sync"] == "0"
    assert shown.how["lmdb", "process"] == "hangs 5, does not open 20"
    assert shown["share [%]"]["lmdb", "process"] == "5 (3.3 to 7.3)"
    (again,) = faults.replays(tables["states"]).command
    assert "--explore lmdb --durability process" in again and again.endswith("--replay a-1`")
    assert list(faults.liar_table(tables["liars"]).found) == ["no", "yes", "no"]
    known, defect = faults.finding_table(tables["findings"]).itertuples(index=False)
    assert (known.store, known.fault, known.verdict) == (
        "lmdb",
        "damaged file",
        "[known](https://a.b)",
    )
    assert (defect.verdict, defect[-1]) == ("defect", "`log.c`")
    old = faults.recall_table(tables["recall"]).set_index("engine")
    assert old["with the bug"]["redb"] == "1.0: 3 of 200"
    errors = faults.outcome_table(tables["errors"], ERRORS, {"store": "store"}).set_index("store")
    assert errors["worse than an error [%]"]["leveldb"] == "50 (19 to 81)"
    assert errors["worse than an error [%]"]["lmdb"] == ""


def test_the_figure_has_a_row_a_store_and_a_column_for_each_test(write: Write) -> None:
    tables = faults.tables(write())
    figure = faults.draw(tables["states"], tables["errors"], tables["rot"])
    charts = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title().split("\n")[1] for axis in charts] == [
        "process", "recoverable", "sync", "system call", "file",
    ]  # fmt: skip
    names = [label.get_text() for label in charts[0].get_yticklabels()]
    assert sorted(names) == ["flat", "leveldb", "lmdb", "rocksdb", "sqlite"]
    texts = [text.get_text() for text in charts[0].texts]
    assert "5%" in texts and texts.count("-") == 3
    assert "0.05%" in [text.get_text() for text in charts[2].texts]  # 1 of 2,000 is not lost
    for bar in charts[2].patches:
        assert bar.get_x() + bar.get_width() < 1.001
    sizes = {text.get_fontsize() for axis in figure.axes for text in axis.texts}
    assert min(sizes) >= 7


PARTS = {"nothing": ["none"], **{name: [name] for name in TABLES}, "all": [*TABLES]}


@pytest.mark.parametrize("part", PARTS)
def test_the_notebook_draws_what_there_is(
    part: str, shell: InteractiveShell, write: Write, tmp_path: Path
) -> None:
    folder = tmp_path / "faults" if part == "nothing" else write(*PARTS[part])
    run(shell, "faults", results=str(folder))
    tables = faults.tables(folder)
    whole = faults.facts(faults.tables(COMMITTED))
    assert faults.facts(tables).keys() == whole.keys()
    for name, values in faults.facts(tables).items():
        assert not isinstance(values, dict) or values.keys() == whole[name].keys(), name


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hangs", "hang", "no column 'hangs'"),
        ("lmdb,1.0,process", "leveldb,1.0,process", "two rows of leveldb process"),
        (",500,", ",many,", "many"),
    ],
)
def test_a_damaged_table_is_refused_by_name(old: str, new: str, said: str, write: Write) -> None:
    path = write(STATES.file) / STATES.file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadInput, match=f"^{path}: .*{said}"):
        faults.read(path.parent, STATES)


def test_the_committed_tables_are_whole() -> None:
    for kind in (STATES, ERRORS, DEVICE, ROT):
        table = faults.read(COMMITTED, kind)
        assert len(table), kind.file
        assert (table[kind.counted].sum(axis="columns") == table[kind.tried]).all(), kind.file
    assert len(faults.full(COMMITTED))
