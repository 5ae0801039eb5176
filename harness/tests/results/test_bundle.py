"""Results of others: what `kvbench submit` writes is accepted, and every forgery is refused."""

import functools
import io
import json
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from forged import Rows, another_trial, invent, retime
from kvbench.results.bundle import END, packed
from kvbench.results.crate import METADATA, described, encoded
from kvbench.results.tables import parquet, read_tables, write_tables
from support import ROOT, Run

DATA = ROOT / "data"
LARGE = "10 KiB"  # values that take memcpy 110 ns on the machine of these data
LONGEST = 200  # characters of a message, but for the path in it
HONEST = sorted(path.parent.name for path in DATA.glob("*/cells.parquet"))
QUICK = ("core", "devices-1ms", "memory-budget", "threads")  # those that make test tries
Tables = dict[str, pa.Table]
Forge = Callable[[Rows], object]


@functools.cache
def committed(name: str, trials: tuple[int, ...] = ()) -> Tables:
    """The tables of a folder of the committed data, or some of its trials."""
    tables = read_tables(DATA / name)
    if not trials:
        return tables
    cells = tables["cells"]
    cells = cells.filter(pc.is_in(cells["trial"], value_set=pa.array(trials)))
    kept = {"cells": cells, "machines": tables["machines"]}
    for own in set(tables) - set(kept):
        kept[own] = tables[own].filter(pc.is_in(tables[own]["cell"], value_set=cells["cell"]))
    return {own: kept[own] for own in tables}


def slow(names: list[Any], quick: tuple[Any, ...]) -> list[Any]:
    """Parameters, of which make check alone tries those that are not quick."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.check) for name in names
    ]


@pytest.mark.parametrize("name", slow(HONEST, QUICK))
def test_committed_results_are_submitted_and_accepted(
    name: str, kvbench: Run, tmp_path: Path
) -> None:
    """Capped memory, slowed devices, other file systems and two machines are among them."""
    file, into = tmp_path / "mine.zip", tmp_path / "submitted"
    done = kvbench("submit", DATA / name, "--out", file)
    assert (done.returncode, done.stderr) == (0, "")
    done = kvbench("accept", file, "--into", into)
    assert (done.returncode, done.stderr) == (0, "")
    (out,) = into.iterdir()
    assert done.stdout == f"{out}\n"
    assert read_tables(out) == read_tables(DATA / name)
    done = kvbench("accept", file, "--into", into)
    assert done.returncode == 2
    assert "those of" in done.stderr and out.name[-8:] in done.stderr


# Trials and sittings by themselves: bundles of fewer cells.
PARTS = [
    *(("core", (trial,)) for trial in range(1, 8)),
    *(("reference", trials) for trials in ((1, 2), (3,), (4,), (5,), (2, 4, 7))),
    *(("builds", trials) for trials in ((1, 2, 3), (15,))),
    ("devices-10ms", (2,)), ("devices-1us", (3,)), ("durability", (5,)), ("memory-budget", (1,)),
    ("logs-xfs", (7,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "trials"), PARTS, ids=str)
def test_parts_of_results_are_accepted(
    name: str, trials: tuple[int, ...], kvbench: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.zip").write_bytes(packed(committed(name, trials)))
    done = kvbench("accept", tmp_path / "mine.zip", "--into", tmp_path / "submitted")
    assert (done.returncode, done.stderr) == (0, "")


def assert_refused(kvbench: Run, data: bytes, tmp_path: Path, *words: str) -> None:
    """The file is refused in one short line, and nothing is left."""
    file, into = tmp_path / "theirs.zip", tmp_path / "submitted"
    file.write_bytes(data)
    before = set(tmp_path.rglob("*"))
    done = kvbench("accept", file, "--into", into)
    assert (done.returncode, done.stdout) == (2, ""), done
    said = done.stderr
    assert said.startswith(f"kvbench: {file}: ") or said.startswith(f"kvbench: {file}/"), said
    assert said.count("\n") == 1
    assert len(said.replace(str(file), "")) <= LONGEST, said
    for word in words:
        assert word in said
    assert set(tmp_path.rglob("*")) == before


def _set(table: str, **values: Any) -> Forge:
    """Change values of the first row of a table: of a measured cell, of its row `get`, or of the
    machine."""

    def forge(rows: Rows) -> None:
        own = {
            "cells": rows.cell,
            "operations": lambda: rows.operation("get"),
            "machines": lambda: rows.machine,
        }[table]()
        for name, value in values.items():
            own[name] = value(own) if callable(value) else value

    return forge


def _faster(operation: str, bins: int, **levels: Any) -> Forge:
    return lambda rows: retime(rows.operation(operation, **levels), -bins)


def _copied_in(nanoseconds: float, operation: str, **levels: Any) -> Forge:
    """Let an operation take so long per large value."""

    def forge(rows: Rows) -> None:
        row = rows.operation(operation, record_size=LARGE, **levels)
        invent(row, nanoseconds * row["items"] / row["n"])

    return forge


def _times(factor: float, name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: type(row[name])(row[name] * factor)


def _without(table: str, keep: Callable[[dict[str, Any]], bool]) -> Forge:
    def forge(rows: Rows) -> None:
        rows.rows[table] = [row for row in rows.rows[table] if keep(row)]

    return forge


def _no_trial(rows: Rows) -> None:
    """Leave out the slowest trial between others, of all cells."""
    gone = {row["cell"] for row in rows.rows["cells"] if row["trial"] == 2}
    for table in ("cells", "operations"):
        rows.rows[table] = [row for row in rows.rows[table] if row["cell"] not in gone]


def _copied_times(rows: Rows) -> None:
    """Give one store the times of another."""
    one, other = rows.operation("get", store="sqlite"), rows.operation("get", store="lmdb")
    for name in set(one) - {"cell", "operation"}:
        one[name] = other[name]


def _unsaid(rows: Rows) -> None:
    row = rows.operation("update", durability="sync")
    row["syncs"] = row["n"] // 10


def _bins(change: Callable[[dict[str, Any]], None]) -> Forge:
    return lambda rows: change(rows.operation("get"))


def _counted(row: dict[str, Any]) -> None:
    row["histogram_count"][0] += 1


def _exchanged(row: dict[str, Any]) -> None:
    row["histogram_bin"][:2] = row["histogram_bin"][1::-1]


def _uneven(row: dict[str, Any]) -> None:
    row["histogram_bin"].append(row["histogram_bin"][-1] + 1)


def _emptied(row: dict[str, Any]) -> None:
    row["histogram_bin"], row["histogram_count"] = [], []


KINDS: dict[str, list[tuple[Forge, str]]] = {
    "faster than a copy of memory": [
        (_copied_in(20, "get"), "to copy"),
        (_copied_in(20, "update"), "to copy"),
        (_copied_in(20, "insert"), "to copy"),
        (_copied_in(20, "load"), "to copy"),
        (_copied_in(10, "get", store="sqlite"), "to copy"),
    ],
    "faster than the device": [
        (_faster(name, 300, durability="sync", store=store), "sync")
        for name, store in (
            ("update", "sqlite"),
            ("insert", "sqlite"),
            ("update", "lmdb"),
            ("update", "flat"),
            ("insert", "leveldb"),
        )
    ],
    "counts that do not add up": [
        (_set("operations", n=lambda row: row["n"] + 1), "histogram"),
        (_set("operations", n=10**15), "n: "),
        (_set("operations", items=lambda row: 2 * row["items"]), "items"),
        (_bins(_counted), "histogram"),
        (_bins(_exchanged), "histogram_bin"),
        (_bins(_uneven), "as many counts as bins"),
        (_bins(_emptied), "histogram"),
        (_set("cells", live_records=7, live_bytes=7 * 1040), "live_"),
    ],
    "statistics that do not follow": [
        (_set("operations", p50_ns=_times(0.9, "p50_ns")), "p50_ns"),
        (_set("operations", p90_ns=_times(0.9, "p90_ns")), "p90_ns"),
        (_set("operations", p99_ns=_times(0.5, "p99_ns")), "p99_ns"),
        (_set("operations", p999_ns=_times(0.5, "p999_ns")), "p999_ns"),
        (_set("operations", p99_ns=None), "p99_ns"),
        (_set("operations", sum_ns=_times(0.9, "sum_ns")), "sum_ns"),
        (_set("operations", sum_ns=2**62), "sum_ns"),
        (_set("operations", min_ns=0), "min_ns"),
        (_set("operations", max_ns=_times(0.5, "max_ns")), "max_ns"),
    ],
    "more time than passed": [
        (_set("operations", wall_s=_times(0.1, "wall_s")), "wall time"),
        (_set("operations", user_s=_times(1e3, "user_s")), "user_s"),
        (_set("cells", wall_s=0.1), "wall_s"),
        (_set("cells", rounds_s=0.01), "rounds_s"),
        (_set("cells", load_s=0.0, records=1), "records"),
        (_set("cells", steal_s=1e6), "steal_s"),
        (_set("cells", debt_cpu_s=1e6), "debt_cpu_s"),
    ],
    "records without space": [
        (lambda rows: rows.cell(compressibility="incompressible").update(disk_bytes=4096), "disk_"),
        (_set("cells", live_bytes=_times(0.5, "live_bytes")), "live_bytes"),
        (_set("cells", live_bytes=_times(3, "live_bytes")), "live_bytes"),
        (_set("cells", memory_anonymous_bytes=1 << 50), "memory_anonymous_bytes"),
        (_set("cells", memory_max="1 MiB", memory_anonymous_bytes=2 << 20), "the cap"),
        (_set("cells", cached_share=1.5), "cached_share"),
    ],
    "trials that are copies": [
        (another_trial, "those of"),
        (functools.partial(another_trial, bins=-1), "those of"),
        (functools.partial(another_trial, bins=-20, store="lmdb"), "those of"),
        (functools.partial(another_trial, bins=-3, store="sqlite"), "those of"),
        (_copied_times, "those of"),
    ],
    "names of nothing": [
        (_set("cells", store="mystore"), "mystore"),
        (_set("cells", checksum=None, engine_version="1"), "checksum"),
        (_set("cells", checksum="ours"), "checksum"),
        (_set("cells", engine_version=""), "engine_version"),
        (_set("cells", engine_version="99.9"), "engine_version"),
        (_set("cells", machine="other"), "machine"),
        (_set("machines", machine="other"), "machine"),
        (_set("cells", durability="eternal"), "durability"),
    ],
    "dates that cannot be": [
        (_set("cells", started="2099-01-01T00:00:00.000+00:00"), "started"),
        (_set("cells", started="2020-02-02T00:00:00.000+00:00"), "started"),
        (_set("cells", started="2026-13-40T00:00:00.000+00:00"), "started"),
        (_set("cells", started="yesterday"), "started"),
        (_set("cells", started=None), "started"),
        (_set("cells", started="2026-11-25T10:00:00.000+09:00"), "started"),
    ],
    "what is left out": [
        (_no_trial, "trial"),
        (_without("operations", lambda row: row["operation"] != "remove"), "operations"),
        (_without("operations", lambda row: row["operation"] != "load"), "operations"),
        (_without("machines", lambda row: False), "machine"),
        (_unsaid, "reason"),
    ],
    "private words": [
        (_set("cells", reason="read /home/alice/store"), "reason"),
        (_set("cells", effective_options="dir=/Users/alice"), "effective_options"),
        (_set("cells", effective_options="dir=/root/x"), "effective_options"),
        (_set("machines", mount_options="user=alice@example.org"), "mount_options"),
        (_set("machines", cpu="C:\\Users\\alice"), "cpu"),
    ],
    "machines that cannot be": [
        (_set("machines", memory_rate=1e15), "memory_rate"),
        (_set("machines", cores=0), "cores"),
        (_set("machines", memory_bytes=1 << 60), "memory_bytes"),
        (_set("machines", clock_ns=0.0), "clock_ns"),
        (_set("machines", sync_p50_us=10.0, sync_p90_us=5.0), "sync_p90_us"),
    ],
}
BASE = {"trials that are copies": "core"}
FORGED = [
    pytest.param(kind, forge, said, id=f"{kind} {number}")
    for kind, own in KINDS.items()
    for number, (forge, said) in enumerate(own, 1)
]


@pytest.mark.parametrize(("kind", "forge", "said"), FORGED)
def test_a_forgery_is_refused(
    kind: str, forge: Forge, said: str, kvbench: Run, tmp_path: Path
) -> None:
    rows = Rows(committed(BASE.get(kind, "core"), (1, 2, 3)))
    forge(rows)
    assert_refused(kvbench, packed(rows.tables()), tmp_path, said)


def _members(tables: Tables) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(packed(tables))) as found:
        return {name: found.read(name) for name in found.namelist()}


def _zip(members: dict[str, bytes], **of_member: Any) -> bytes:
    """A zip of members; the keywords are those of each ZipInfo."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            for key, value in of_member.items():
                setattr(info, key, value)
            made.writestr(info, content)
    return buffer.getvalue()


def _twice(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO(_zip(members))
    with zipfile.ZipFile(buffer, "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr(METADATA, b"{}")
    return buffer.getvalue()


def _end(data: bytes, **changed: int) -> bytes:
    """A zip whose end says something else."""
    names = ("mark", "disk", "first", "here", "members", "size", "offset", "comment")
    values = dict(zip(names, END.unpack(data[-END.size :]), strict=True)) | changed
    return data[: -END.size] + END.pack(*values.values())


ZIPS: dict[str, tuple[Callable[[dict[str, bytes]], bytes], str]] = {
    "empty": (lambda own: b"", "zip"),
    "no zip": (lambda own: b"PK" * 100, "zip"),
    "cut off": (lambda own: _zip(own)[:-1000], "zip"),
    "one byte changed": (lambda own: _zip(own)[:5000] + b"!" + _zip(own)[5001:], "zip"),
    "a comment": (lambda own: _zip(own)[:-2] + b"\1\0!", "zip"),
    "no members": (lambda own: _zip({}), "0 times"),
    "no table": (lambda own: _zip({METADATA: own[METADATA]}), "cells.parquet is there 0 times"),
    "another member": (lambda own: _zip(own | {"run.py": b"1"}), "run.py"),
    "a name that climbs": (lambda own: _zip(own | {"../cells.parquet": b"1"}), "../cells.parquet"),
    "an absolute name": (lambda own: _zip(own | {"/etc/passwd": b"1"}), "/etc/passwd"),
    "a folder": (lambda own: _zip(own | {"cells.parquet/": b""}), "cells.parquet/"),
    "a member twice": (_twice, "2 times"),
    "many members": (lambda own: _zip(own | {f"{i}": b"" for i in range(9)}), "members"),
    "a link": (lambda own: _zip(own, external_attr=(stat.S_IFLNK | 0o777) << 16), "plain"),
    "compressed": (
        lambda own: _zip(own | {METADATA: bytes(1 << 20)}, compress_type=zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "too many counted": (lambda own: _end(_zip(own), members=60_000), "60000 members"),
    "a huge list": (lambda own: _end(_zip(own), size=1 << 31), "members"),
    "a large page": (lambda own: _zip(own | {METADATA: bytes(2 << 20)}), "2,097,152 B"),
    "metadata of nothing": (lambda own: _zip(own | {METADATA: b"{}"}), "not readable"),
    "metadata too deep": (lambda own: _zip(own | {METADATA: b"[" * 100_000}), "not readable"),
    "no Parquet": (lambda own: _zip(own | {"cells.parquet": b"x" * 999}), "not readable as Par"),
}


@pytest.mark.parametrize("name", ZIPS)
def test_a_hostile_zip_is_refused(name: str, kvbench: Run, tmp_path: Path) -> None:
    make, said = ZIPS[name]
    members = _members(committed("logs", (1,)))
    del members["timeline.parquet"]  # which a bundle may lack
    assert_refused(kvbench, make(members), tmp_path, said)


def test_what_is_no_file_or_too_large_is_not_read(kvbench: Run, tmp_path: Path) -> None:
    with open(tmp_path / "large.zip", "wb") as file:
        file.truncate((64 << 20) + 1)
    for path, said in (
        (tmp_path, "not a file"), (tmp_path / "none.zip", "No such file"),
        (tmp_path / "large.zip", "more than 67,108,864 B"),
    ):  # fmt: skip
        done = kvbench("accept", path, "--into", tmp_path / "submitted")
        assert done.returncode == 2
        assert done.stderr.startswith(f"kvbench: {path}: {said}") and done.stderr.count("\n") == 1
    assert not (tmp_path / "submitted").exists()


METADATA_CHANGED: dict[str, tuple[str, str, Any]] = {
    "another checksum": ("cells.parquet", "sha256", "0" * 64),
    "another size": ("cells.parquet", "contentSize", "1"),
    "another engine": ("#store-rocksdb", "softwareVersion", "99.9"),
    "another day": ("./", "datePublished", "2030-01-01"),
    "another licence": ("./", "license", "none"),
    "a name": ("./", "author", "somebody"),
    "a part": ("#evil", "@type", "Person"),
    "another profile": (METADATA, "conformsTo", "x"),
}


@pytest.mark.parametrize("name", METADATA_CHANGED)
def test_metadata_that_differ_from_the_tables_are_refused(
    name: str, kvbench: Run, tmp_path: Path
) -> None:
    members = _members(committed("logs", (1,)))
    found = json.loads(members[METADATA])
    entity, key, value = METADATA_CHANGED[name]
    own = next((own for own in found["@graph"] if own["@id"] == entity), None)
    if own is None:
        found["@graph"].append(own := {"@id": entity})
    own[key] = value
    assert_refused(
        kvbench, _zip(members | {METADATA: json.dumps(found).encode()}), tmp_path, entity
    )


def test_a_table_that_was_changed_later_is_refused(kvbench: Run, tmp_path: Path) -> None:
    members = _members(committed("logs", (1,)))
    rows = Rows(committed("logs", (1,)))
    rows.cell()["debt_s"] += 0.001
    changed = parquet(rows.tables()["cells"])
    assert_refused(
        kvbench, _zip(members | {"cells.parquet": changed}), tmp_path, "cells.parquet", "as in the"
    )


def _columns(change: Callable[[pa.Table], pa.Table]) -> Callable[[Tables], Tables]:
    return lambda tables: dict(tables) | {"cells": change(tables["cells"])}


def _replaced(name: str, values: Callable[[pa.Table], pa.Array]) -> Callable[[Tables], Tables]:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(name), name, values(table))

    return _columns(change)


TABLES: dict[str, tuple[Callable[[Tables], Tables], str]] = {
    "another column": (_columns(lambda own: own.append_column("x", own["cell"])), "'x'"),
    "a column less": (_columns(lambda own: own.drop_columns(["store"])), "store"),
    "another type": (_replaced("records", lambda own: own["records"].cast("double")), "double"),
    "no number": (_replaced("wall_s", lambda own: pa.array([float("nan")] * len(own))), "wall_s"),
    "a negative number": (_replaced("wall_s", lambda own: pa.array([-1.0] * len(own))), "wall_s"),
    "a name that climbs": (_replaced("cell", lambda own: pa.array(["../x"] * len(own))), "../x"),
    "another schema": (
        _columns(lambda own: own.replace_schema_metadata({"kvbench_schema": "1"})), "version 1",
    ),
    "no rows": (_columns(lambda own: own.slice(0, 0)), ""),
    "a row twice": (_columns(lambda own: pa.concat_tables([own, own.slice(0, 1)])), "twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_another_kind_are_refused(name: str, kvbench: Run, tmp_path: Path) -> None:
    change, said = TABLES[name]
    honest = committed("logs", (1,))
    contents = {f"{own}.parquet": parquet(table) for own, table in change(honest).items()}
    about = encoded(described(honest, contents))
    assert_refused(kvbench, _zip({METADATA: about} | contents), tmp_path, said)


def test_a_trial_of_a_folder_beside_is_refused(kvbench: Run, tmp_path: Path) -> None:
    """Also if its times are moved, and it names another machine."""
    tables = committed("logs", (1, 2))
    (tmp_path / "data" / "logs").mkdir(parents=True)
    write_tables(tmp_path / "data" / "logs", tables)
    rows = Rows(committed("logs", (2,)))
    for row in rows.rows["operations"]:
        retime(row, -5)
    for row in (*rows.rows["machines"], *rows.rows["cells"]):
        row["machine"] = "0123456789ab"
    file = tmp_path / "theirs.zip"
    file.write_bytes(packed(rows.tables()))
    done = kvbench("accept", file, "--into", tmp_path / "data" / "submitted")
    assert done.returncode == 2
    assert "those of" in done.stderr and "logs" in done.stderr
    assert not (tmp_path / "data" / "submitted").exists()


def test_a_bundle_names_no_user_and_no_host(
    kvbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows(committed("logs", (1,)))
    monkeypatch.setenv("LOGNAME", "alice")
    rows.cell()["effective_options"] = "dir=/home/bob/x; owner=alice; log=/root/x"
    rows.machine["mount_options"] = "rw,upperdir=/Users/carol/y"
    write_tables(tmp_path, rows.tables())
    done = kvbench("submit", tmp_path, "--out", tmp_path / "mine.zip")
    assert (done.returncode, done.stderr) == (0, "")
    done = kvbench("accept", tmp_path / "mine.zip", "--into", tmp_path / "submitted")
    assert (done.returncode, done.stderr) == (0, "")
    (out,) = (tmp_path / "submitted").iterdir()
    found = read_tables(out)
    assert found["cells"]["effective_options"][0].as_py() == "dir=~/x; owner=-; log=~/x"
    assert found["machines"]["mount_options"][0].as_py() == "rw,upperdir=~/y"


def test_what_would_be_refused_is_not_submitted(kvbench: Run, tmp_path: Path) -> None:
    rows = Rows(committed("logs", (1,)))
    rows.machine["memory_rate"] = 1e15
    write_tables(tmp_path, rows.tables())
    done = kvbench("submit", tmp_path, "--out", tmp_path / "mine.zip")
    assert done.returncode == 2
    assert done.stderr.startswith(f"kvbench: {tmp_path}: machine ") and "memory_rate" in done.stderr
    assert not (tmp_path / "mine.zip").exists()


def test_imported_results_are_not_submitted(kvbench: Run, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text(
        "store,operation,record_size,records,n,mean_ns\nlmdb,get,1 KiB,1000,1000,900\n"
    )
    assert kvbench("import", tmp_path / "theirs.csv", "--out", tmp_path / "in").returncode == 0
    done = kvbench("submit", tmp_path / "in", "--out", tmp_path / "mine.zip")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "mine.zip").exists()


def test_the_same_folder_gives_the_same_bundle(kvbench: Run, tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        assert kvbench("submit", DATA / "logs", "--out", tmp_path / name).returncode == 0
    one, two = ((tmp_path / name).read_bytes() for name in ("one.zip", "two.zip"))
    assert one == two
    graph = json.loads(_members(read_tables(DATA / "logs"))[METADATA])["@graph"]
    root = next(own for own in graph if own["@id"] == "./")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", root["datePublished"])
    assert {own["@id"] for own in root["hasPart"]} >= {"cells.parquet", "operations.parquet"}
