"""Sweeps through the command line: real stores, real kills, real folders."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kvbench.cell.bindings import full_name
from kvbench.cell.factors import parse_bytes
from kvbench.cell.library import Constant
from kvbench.cli import STOPPED
from kvbench.common.messages import BadInput
from kvbench.common.progress import progress
from kvbench.machine import control_group
from kvbench.results import tables
from kvbench.results.folder import Folder
from kvbench.stores import catalogue
from support import BINDINGS, KEEPING, SHIMS, TWINS, Run

WriteGrid = Callable[..., Path]


def cells(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))]


def test_every_store_measures_a_cell(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    """Twins are measured by the sweep of two levels of each factor."""
    out, stores = tmp_path / "out", [name for name in KEEPING if name not in TWINS]
    grid = write_grid(
        stores=stores,
        access=["c", "python"],
        bindings=BINDINGS,
        records=[100],
        record_sizes=["1-10 KiB"],
        compressibility=["compressible"],
    )
    done = kvbench("sweep", grid, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{len(stores) + len(BINDINGS)} ok"
    for result in cells(out):
        assert result["status"] == "ok", result
        assert result["live_records"] == 100
        assert 100 * (16 + 1024) <= result["live_bytes"] <= 100 * (16 + 10240)
        assert result["disk_bytes"] > result["live_bytes"] / 4
        assert 0 < result["compressed_share"] <= 1.01
        assert result["floor_ns"] > 0
        assert result["effective_options"]
        rows = {row["operation"]: row for row in result["operations"]}
        assert list(rows) == ["load", "insert", "get", "update", "remove"]
        for name, row in rows.items():
            assert row["n"] >= (1 if name == "load" else 1000)
            assert row["min_ns"] <= row["p50_ns"] <= row["p99_ns"] <= row["max_ns"] <= row["sum_ns"]
            assert sum(row["histogram_count"]) == row["n"]
        # These stores write by system calls, not only through a memory map.
        if result["cell"]["store"] in ("flat", "leveldb", "sqlite"):
            assert sum(row["wchar"] + row["write_bytes"] for row in rows.values()) > 0
    assert not (out / "stores").exists()


def test_a_worker_loads_no_more_than_it_needs() -> None:
    """The imports of a worker add to the cost of every cell."""
    code = "import sys, kvbench.cell.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"pandas", "pyarrow", "psutil", "click", "tqdm", "matplotlib", "scipy"}


def test_a_kill_at_the_very_start_leaves_no_foreign_folder(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "kvbench.json.1.tmp").write_text("{")
    assert kvbench("sweep", write_grid(), "--out", out).stdout.strip() == "1 ok"
    (out / "cells" / "flat.json.1.tmp").write_text("{")
    assert kvbench("sweep", write_grid(), "--out", out).stdout.strip() == "1 ok"
    assert not list(out.rglob("*.tmp"))


def test_a_user_s_temporary_file_is_kept(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tmp").write_text("three years")
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 2
    (out / "thesis.tmp").rename(tmp_path / "thesis.tmp")
    assert kvbench("sweep", write_grid(byte_limit=1), "--out", out).returncode == 0
    (tmp_path / "thesis.tmp").rename(out / "cells" / "thesis.tmp")
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    assert (out / "cells" / "thesis.tmp").exists()


def test_a_batch_is_a_tenth_of_the_records_at_most(
    write_grid: Callable[..., Path], kvbench: Run, tmp_path: Path
) -> None:
    grid = write_grid(stores=["lmdb"], records=[100, 1000], batch=[0, 1, 20])
    done = kvbench("sweep", grid, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout.strip()) == (0, "5 ok, 1 skipped")
    assert "batches of 20: allowed: a tenth" in kvbench("status", tmp_path / "out").stdout


def test_a_cell_over_the_byte_limit_is_skipped_until_the_limit_is_raised(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = kvbench("sweep", write_grid(records=[100], byte_limit=1000), "--out", out)
    assert done.stdout.strip() == "1 skipped"
    assert "byte limit" in cells(out)[0]["reason"]
    done = kvbench("sweep", write_grid(records=[100]), "--out", out)
    assert done.stdout.strip() == "1 ok"


def test_dry_run_measures_and_writes_nothing(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(stores=["flat", "lmdb"], records=[100, 100_000], byte_limit="1 MiB")
    done = kvbench("sweep", grid, "--out", out, "--dry-run")
    assert done.returncode == 0
    assert "1 trials: 2 cells to measure, 2 not, 208,000 bytes to load, about" in done.stdout
    assert not out.exists()


def test_a_field_gets_trials_until_its_best_stores_are_known(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """A store that does nothing is surely faster than files. Made to look alike, both go on."""
    out = tmp_path / "out"
    grid = write_grid(stores=["null", "flat"], operations=["get"], records=[10], trials="7-15")
    dry = kvbench("sweep", grid, "--out", out, "--dry-run").stdout
    assert (
        "7 trials: 14 cells to measure" in dry
        and "15 trials, if nothing is decided: 30 cells to measure" in dry
    )
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "14 ok"
    assert kvbench("status", out).stdout.strip() == "14 ok"
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "14 ok"
    for path in (out / "cells").glob("*.json"):
        result = json.loads(path.read_text())
        get = next(row for row in result["operations"] if row["operation"] == "get")
        pace = 3 if result["cell"]["store"] == "flat" else 5
        get["n"] = get["sum_ns"] // (1000 + 400 * (pace * result["cell"]["trial"] % 7))
        path.write_text(json.dumps(result))
    assert "14 ok, 6 to do" in kvbench("status", out).stdout
    assert "left: 6 cells to measure" in kvbench("sweep", grid, "--out", out, "--dry-run").stdout
    assert kvbench("sweep", grid, "--out", out).stdout.strip() in ("20 ok", "30 ok")


def test_results_of_other_code_are_measured_again(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """A dry run foretells it."""
    out = tmp_path / "out"
    grid = write_grid(stores=["null", "flat"], records=[10], trials=3)
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "6 ok"
    assert "left: 0 cells to measure" in kvbench("sweep", grid, "--out", out, "--dry-run").stdout
    for path in list((out / "cells").glob("*.json")):  # a name ends in a hash of the code
        other = path.with_name(f"{path.stem[:-16]}0123456789abcdef.json")
        other.write_text(json.dumps(json.loads(path.read_text()) | {"checksum": "other"}))
        path.unlink()
    assert "left: 6 cells to measure" in kvbench("sweep", grid, "--out", out, "--dry-run").stdout
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "6 ok"
    assert [result["checksum"] for result in cells(out)].count("other") == 6
    assert "left: 0 cells to measure" in kvbench("sweep", grid, "--out", out, "--dry-run").stdout


def test_again_measures_one_more_trial(kvbench: Run, write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grid = write_grid(stores=["null", "flat"], trials=9)
    for trial in (1, 2, 3):
        done = kvbench("sweep", grid, "--out", out, "--again")
        assert done.stdout.strip() == f"{2 * trial} ok"
    next((out / "cells").glob("flat*_t3_*.json")).unlink()
    assert kvbench("sweep", grid, "--out", out, "--again").stdout.strip() == "6 ok"


def test_a_sitting_ends_and_the_next_goes_on(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    stopped = kvbench("sweep", write_grid(trials=2), "--out", out, "--minutes", "1e-9")
    assert stopped.returncode == STOPPED
    assert stopped.stdout.startswith("2 to do\nstopped; to go on: ")
    done = kvbench("sweep", write_grid(trials=2), "--out", out, "--minutes", "9999")
    assert (done.returncode, done.stdout.strip()) == (0, "2 ok")


@pytest.mark.check
@pytest.mark.parametrize(
    "levels",
    [
        {"durability": ["process", "sync"], "memory": ["4 MiB"]},
        {"memory": ["128 MiB"], "compression": ["snappy"]},
    ],
    ids=str,
)
def test_two_levels_of_each_factor_over_all_stores(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, on_disk: Path,
    levels: dict[str, list[str]],
) -> None:  # fmt: skip
    """No cell fails: a store obeys its settings, or the cell is skipped with the reason."""
    out = tmp_path / "out"
    usual = {"durability": ["process"], "compression": ["none"]}
    grid = write_grid(stores=KEEPING, **usual | levels)
    done = kvbench("sweep", grid, "--out", out, "--stores", on_disk)
    assert done.returncode == 0, kvbench("status", out).stdout
    measured = 0
    for result in cells(out):
        cell, store = result["cell"], catalogue.known()[result["cell"]["store"]]
        asked = {name: cell[name] for name in ("durability", "memory", "compression")}
        asked["memory"] = str(parse_bytes(cell["memory"]))
        lacking = [name for name, level in asked.items() if store.lacks(name, level)]
        assert result["status"] == ("skipped" if lacking else "ok")
        if lacking:
            assert result["reason"].startswith(f"{lacking[0]}={cell[lacking[0]]}: ")
        else:
            assert result["guarantee"] == cell["durability"]
            measured += 1
    assert measured > 8
    dry = kvbench("sweep", grid, "--out", out, "--stores", on_disk, "--dry-run").stdout
    assert f"memory={levels['memory'][0]}: no cache of its own" in dry


def test_bindings_are_measured_at_the_levels_that_they_have(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, on_disk: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(
        stores=["sqlite", "flat"],
        access=["python"],
        bindings=["sqlite3", "io"],
        durability=["default", "none", "sync"],
        operations=["insert"],
    )
    done = kvbench("sweep", grid, "--out", out, "--stores", on_disk)
    assert done.stdout.strip() == "5 ok, 1 skipped"
    found = {(r["cell"]["binding"], r["cell"]["durability"]): r for r in cells(out)}
    why = "durability=none: the operating system has its bytes at once"
    assert found["io", "none"]["reason"] == why
    assert found["sqlite3", "default"]["guarantee"] == "process"
    assert found["sqlite3", "sync"]["guarantee"] == "sync"
    assert found["sqlite3", "sync"]["effective_options"]["synchronous"] == "2"
    assert found["sqlite3", "none"]["effective_options"]["synchronous"] == "0"


def test_a_binding_has_no_settings_but_its_levels(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    grid = write_grid(stores=["sqlite"], access=["python"], bindings=["sqlite3"], memory=["4 MiB"])
    assert kvbench("sweep", grid, "--out", tmp_path / "out").stdout.strip() == "1 skipped"
    (result,) = cells(tmp_path / "out")
    assert result["reason"] == "memory=4 MiB: Python packages are measured with their own default"


def test_a_cold_cache_is_cold_and_a_warm_one_warm(
    kvbench: Run, write_grid: WriteGrid, on_disk: Path
) -> None:
    out = on_disk / "out"
    levels = {"records": [1000], "cache": ["warm", "cold"], "operations": ["insert", "get"]}
    grid = write_grid(stores=["flat", "lmdb"], **levels)
    assert kvbench("sweep", grid, "--out", out).stdout.strip() == "4 ok"
    for result in cells(out):
        rows = {row["operation"]: row for row in result["operations"]}
        if result["cell"]["cache"] == "warm":
            assert result["eviction"] == ""
            assert result["cached_share"] > 0.99
            assert list(rows) == ["load", "insert", "get"]
        else:
            assert result["eviction"] in ("drop_caches", "fadvise")
            assert result["cached_share"] is None  # looking would warm names and inodes
            assert list(rows) == ["load", "get", "get later"]
            assert (rows["get"]["n"], rows["get later"]["n"]) == (100, 900)
            assert rows["get"]["read_bytes"] >= 100 * 4096


@pytest.mark.check
def test_a_cap_holds_the_page_cache_too(kvbench: Run, write_grid: WriteGrid, on_disk: Path) -> None:
    """A store that uses the page cache gets less of it. A store that allocates more than the cap is
    killed, and its cell records the reason."""
    if why := control_group.refused():
        pytest.skip(why)
    grid = write_grid(
        stores=["lmdb", "sqlite"],
        record_sizes=["16 KiB"],
        records=[4000],
        operations=["get"],
    )
    out = on_disk / "out"
    done = kvbench("sweep", grid, "--out", out, "--memory-max", "32 MiB")
    assert done.stdout.strip() == "2 ok"
    for result in cells(out):
        assert result["cell"]["memory_max"] == "32 MiB"
        assert result["cached_share"] < 0.6
    large = write_grid(
        stores=["sqlite"], record_sizes=["16 KiB"], records=[4000], memory=["64 MiB"]
    )
    done = kvbench("sweep", large, "--out", on_disk / "large", "--memory-max", "32 MiB")
    assert (done.returncode, done.stdout.strip()) == (3, "1 failed")
    assert cells(on_disk / "large")[0]["reason"] == "needs more memory than its cap of 32 MiB"


MISSING = '#include "kv.h"\nextern int engine(void); int use(void) { return engine(); }\n'


def test_a_missing_engine_costs_one_store(
    kvbench: Run,
    write_grid: WriteGrid,
    tmp_path: Path,
    own_shims: Path,
    compile_shim: Callable[..., Path],
) -> None:
    """A shim lacks its library: the loader's reason is printed, and other stores are measured."""
    library = tmp_path / "libengine.so"
    source = tmp_path / "engine.c"
    source.write_text("int engine(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    compile_shim("rocksdb", MISSING, str(library))
    library.unlink()
    env = {"KVBENCH_SHIMS": str(own_shims)}
    listed = kvbench("stores", env=env)
    assert listed.returncode == 0
    assert "libengine.so: cannot open shared object file" in listed.stdout
    rows = listed_stores(kvbench, env=env)
    assert not rows["rocksdb"]["available"]
    assert "libengine.so" in rows["rocksdb"]["reason"]
    assert rows["flat"]["available"]
    grid = write_grid(stores=["flat", "rocksdb"])
    done = kvbench("sweep", grid, "--out", tmp_path / "out", env=env)
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok, 1 unavailable")


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("__builtin_trap();", "died when it was loaded: signal SIG"),
        ("_exit(0);", "died when it was loaded: exit status 0"),
        (
            'for (int f = 3; f < 64; f++) (void)!write(f, "{", 1);',
            "its answer to the probe is not valid",
        ),
        ("if (fork() == 0) for (;;) pause();", "undefined symbol: kv_driver"),
    ],
)
def test_a_store_that_breaks_when_it_is_loaded_is_unavailable(
    kvbench: Run,
    write_grid: WriteGrid,
    tmp_path: Path,
    own_shims: Path,
    compile_shim: Callable[..., Path],
    code: str,
    how: str,
) -> None:
    source = f"#include <unistd.h>\n__attribute__((constructor)) static void die(void) {{ {code} }}"
    compile_shim("rocksdb", source)
    env = {"KVBENCH_SHIMS": str(own_shims)}
    done = kvbench(
        "sweep", write_grid(stores=["flat", "rocksdb"]), "--out", tmp_path / "o", env=env
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok, 1 unavailable")
    reason = listed_stores(kvbench, env=env)["rocksdb"]["reason"]
    assert how in reason


def test_a_store_of_another_abi_is_refused(
    kvbench: Run, own_shims: Path, compile_shim: Callable[..., Path]
) -> None:
    compile_shim("old", '#include "kv.h"\nconst struct kv_driver kv_driver = {.abi = 99};\n')
    listed = kvbench("stores", env={"KVBENCH_SHIMS": str(own_shims)})
    assert listed.returncode == 0
    assert f"built for ABI 99, the harness has {Constant.KV_ABI:d}" in listed.stdout


def test_a_cell_that_takes_too_long_is_ended(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(stores=["sqlite"], records=[100_000])
    done = kvbench("sweep", grid, "--out", out, "--time-limit", "0.5")
    assert (done.returncode, done.stdout.strip()) == (3, "1 failed")
    assert cells(out)[0]["reason"] == "took longer than 0.5 s"
    assert kvbench("sweep", grid, "--out", out, "--time-limit", "0.5").returncode == 3
    done = kvbench("sweep", write_grid(stores=["sqlite"]), "--out", out, "--retry")
    assert (done.returncode, done.stdout.strip()) == (0, "1 ok")


@pytest.mark.check
def test_what_an_engine_said_before_it_hung_is_kept(
    kvbench: Run,
    write_grid: WriteGrid,
    tmp_path: Path,
    own_shims: Path,
    compile_shim: Callable[..., Path],
) -> None:
    """It hung on a full disk, which only the engine reported."""
    said = f"pwrite: {os.strerror(errno.ENOSPC)}"
    hang = (
        'if (getenv("KVBENCH_CELL"))'  # only in a worker that measures
        f' {{ fputs("{said}\\nlibrary panic\\n", stderr); for (;;) pause(); }}'
    )
    compile_shim(
        "null",
        '#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include "null.c"\n'
        f"__attribute__((constructor)) static void hang(void) {{ {hang} }}\n",
    )
    out = tmp_path / "out"
    env = {"KVBENCH_SHIMS": str(own_shims)}
    grid = write_grid(stores=["null"])
    done = kvbench("sweep", grid, "--out", out, "--time-limit", "5", env=env)
    assert done.returncode == 3
    assert cells(out)[0]["reason"] == (f"no space left on the disk: took longer than 5 s: {said}")


def test_two_machines_results_merge_by_copying(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    folder = Folder(out)
    name, result = next(folder.results())
    other = json.loads(next((out / "machines").iterdir()).read_text()) | {"machine": "other"}
    folder.add_machine(other)
    folder.write(name[:-16] + "0" * 16, result | {"machine": "other"})
    assert "2 cells, 10 operations, 2 machines" in kvbench("collect", out).stdout


def test_a_change_of_shim_or_engine_is_measured_again(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, own_shims: Path
) -> None:
    out = tmp_path / "out"
    env = {"KVBENCH_SHIMS": str(own_shims)}
    assert kvbench("sweep", write_grid(), "--out", out, env=env).returncode == 0
    with open(own_shims / "flat.so", "ab") as file:
        file.write(b"\0")
    assert kvbench("sweep", write_grid(), "--out", out, env=env).returncode == 0
    first, second = sorted(cells(out), key=lambda result: result["started"])
    assert first["checksum"] != second["checksum"]
    assert "1 cells, 5 operations" in kvbench("collect", out, env=env).stdout
    assert list(pd.read_parquet(out / "cells.parquet").checksum) == [second["checksum"]]


def test_tables_are_exported_as_csv_and_excel(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid(stores=["flat", "bdb"], records=[100, 10**6], byte_limit="1 MiB")
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    assert kvbench("collect", out, "--csv", "--xlsx").returncode == 0
    for name in tables.TABLES:
        parquet = pd.read_parquet(out / f"{name}.parquet")
        csv = pd.read_csv(out / f"{name}.csv")
        sheet = pd.read_excel(out / "results.xlsx", sheet_name=name)
        assert list(csv.columns) == list(sheet.columns) == list(parquet.columns)
        assert len(csv) == len(sheet) == len(parquet) > 0
    operations = pd.read_csv(out / "operations.csv")
    for row in operations.itertuples():
        assert sum(json.loads(row.histogram_count)) == row.n


def test_the_same_cells_collect_to_the_same_bytes(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    kvbench("sweep", write_grid(), "--out", out)
    content = []
    for _ in range(2):
        assert kvbench("collect", out).returncode == 0
        content.append([(out / f"{name}.parquet").read_bytes() for name in tables.TABLES])
    assert content[0] == content[1]


@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_the_null_store_costs_little_more_than_the_buffer(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path, size: int
) -> None:
    out = tmp_path / "out"
    grid = write_grid(stores=["null"], record_sizes=[f"{size} B"])
    assert kvbench("sweep", grid, "--out", out).returncode == 0
    result = cells(out)[0]
    assert result["disk_bytes"] <= 4096
    assert result["memory_anonymous_bytes"] < size + (1 << 20)


def listed_stores(kvbench: Run, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """The output of `kvbench stores --json`, by label."""
    rows = json.loads(kvbench("stores", "--json", env=env).stdout)
    return {full_name(row["store"], row["binding"]): row for row in rows}


def test_an_older_release_is_listed_with_the_reason(kvbench: Run, own_shims: Path) -> None:
    why = "is an older release; the current one is not built: cargo not found"
    (own_shims / "older.json").write_text(json.dumps({"leveldb": why}))
    listed = kvbench("stores", env={"KVBENCH_SHIMS": str(own_shims)})
    assert f"leveldb: {why}" in listed.stdout.splitlines()


LATE = """
import builtins, os, signal
from kvbench import cli

class Late:
    def __del__(self, kill=os.kill, number=signal.{name}, own=os.getpid()):
        kill(own, number)

builtins.late = Late()  # among the last that the interpreter deletes
cli.main(["--version"])
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_after_the_last_word_changes_nothing(name: str) -> None:
    command = [sys.executable, "-c", LATE.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_capabilities_are_listed(kvbench: Run) -> None:
    rows = listed_stores(kvbench)
    assert set(rows) == set(catalogue.known())
    known = ["batch", "scan", "threads", "writers", "processes", "backup"]
    assert rows["lmdb"]["capabilities"] == known
    assert rows["lmdb"]["max_key"] == 511
    assert rows["sqlite"]["version"].startswith("3.")


def test_damage_is_reported_before_a_sweep_measures(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kvbench("sweep", write_grid(), "--out", out).returncode == 0
    (path,) = (out / "cells").glob("*.json")
    whole = path.read_text()
    path.write_text(whole.replace('"n": ', '"n": -'))
    done = kvbench("sweep", write_grid(stores=["flat", "lmdb"]), "--out", out)
    assert done.returncode == 2
    assert "is not allowed" in done.stderr
    assert len(cells(out)) == 1
    path.write_text(whole)
    done = kvbench("sweep", write_grid(stores=["flat", "lmdb"]), "--out", out)
    assert done.stdout.strip() == "2 ok"


def test_a_table_without_the_times_of_its_cells_is_refused(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """An interrupted `collect` might leave such tables."""
    out = tmp_path / "out"
    kvbench("sweep", write_grid(stores=["flat"]), "--out", out)
    kvbench("collect", out)
    times = (out / "operations.parquet").read_bytes()
    kvbench("sweep", write_grid(stores=["lmdb"]), "--out", out)
    kvbench("collect", out)
    (out / "operations.parquet").write_bytes(times)
    with pytest.raises(BadInput, match=r"cells: cell 'lmdb.*has no operations"):
        tables.read_tables(out)


def test_status_counts_a_cell_measured_again_by_newer_code_once(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    grid = write_grid()
    kvbench("sweep", grid, "--out", out)
    (path,) = (out / "cells").glob("*.json")
    older = json.loads(path.read_text()) | {"started": "2020-01-01T00:00:00.000+00:00"}
    path.with_name(path.name.replace(".json", "0.json")).write_text(json.dumps(older))
    assert kvbench("status", out).stdout.strip() == "1 ok"


def test_ctrl_c_at_the_start_does_not_change_the_machine(
    write_grid: WriteGrid, tmp_path: Path
) -> None:
    """A terminal sends it to the process that reads the processor's name, too."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "kvbench.cli", "sweep", str(write_grid()), "--out", str(out)]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while started.poll() is None and not (out / "lock").exists():
        time.sleep(0.001)
    os.killpg(started.pid, signal.SIGINT)
    said, errors = started.communicate()
    assert started.returncode == STOPPED, said + errors
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout.strip() == "1 ok"
    assert len(list(out.glob("machines/*.json"))) == 1


def machines(out: Path) -> set[str]:
    return {path.stem for path in out.glob("machines/*.json")}


@pytest.mark.skipif(os.geteuid() != 0, reason="hides /etc/machine-id, which needs root")
@pytest.mark.check
def test_equal_containers_without_a_machine_id_stay_apart(
    write_grid: WriteGrid, tmp_path: Path
) -> None:
    """Their results can be merged by copying, and no result overwrites another."""
    sweep = '"$@" && "$@"'  # the second run must find the first one's results
    hidden = ["unshare", "--mount", "sh", "-ec", f"mount --bind /dev/null /etc/machine-id; {sweep}"]
    grid = write_grid()
    for name in ("a", "b"):
        command = [sys.executable, "-m", "kvbench.cli", "sweep", grid, "--out", tmp_path / name]
        done = subprocess.run(
            [*hidden, "-", *map(str, command)], capture_output=True, text=True, check=False
        )
        if "unshare failed" in done.stderr:
            pytest.skip(done.stderr)
        assert done.stdout.split() == ["1", "ok", "1", "ok"], done.stderr
    first, second = machines(tmp_path / "a"), machines(tmp_path / "b")
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)
    for kind in ("cells", "machines"):
        shutil.copytree(tmp_path / "b" / kind, tmp_path / "a" / kind, dirs_exist_ok=True)
    assert len(cells(tmp_path / "a")) == 2


def test_a_machine_with_an_id_is_the_same_in_every_folder(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    if not Path("/etc/machine-id").exists() or not Path("/etc/machine-id").read_text().strip():
        pytest.skip("no /etc/machine-id")
    for name in ("a", "b"):
        assert kvbench("sweep", write_grid(byte_limit=1), "--out", tmp_path / name).returncode == 0
    assert machines(tmp_path / "a") == machines(tmp_path / "b")


@pytest.mark.check
def test_a_path_need_not_be_utf_8(write_grid: WriteGrid, tmp_path: Path) -> None:
    out, grid = os.fsencode(tmp_path) + b"/out\xff", write_grid(stores=["flat", "lmdb"])
    kvbench = [sys.executable, "-m", "kvbench.cli"]
    for command, said in (
        (["sweep", grid, "--out", out, "--dry-run"], b"2 cells to measure"),
        (["sweep", grid, "--out", out], b"2 ok"),
        (["status", out], b"2 ok"),
        (["collect", out], b"2 cells"),
        (["sweep", grid, "--out", out, "--stores", out + b"/none"], b""),
    ):
        done = subprocess.run([*kvbench, *command], capture_output=True, check=False)
        assert said in done.stdout, done.stderr
        assert done.returncode == (0 if said else 2)
        assert b"Traceback" not in done.stderr


@pytest.mark.check
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "2> >(true)", ">&- 2>&-", "<&-"])
def test_a_closed_stream_ends_no_sweep(write_grid: WriteGrid, tmp_path: Path, closed: str) -> None:
    """No engine's file may get the number of the stream, and reporting progress must not fail."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "kvbench.cli", "sweep", str(write_grid()), "--out", str(out)]
    done = subprocess.run(["bash", "-c", f'"$@" {closed}', "-", *command], check=False)
    assert done.returncode == 0
    assert [result["status"] for result in cells(out)] == ["ok"]


def test_a_pipe_in_the_folder_of_a_store_does_not_block(tmp_path: Path) -> None:
    """Opening the pipe would wait for a writer. Files outside, behind links, are not counted."""
    (tmp_path / "store").mkdir()
    (tmp_path / "elsewhere").write_bytes(bytes(1 << 20))
    (tmp_path / "store" / "data").write_bytes(bytes(1 << 16))
    os.mkfifo(tmp_path / "store" / "pipe")
    (tmp_path / "store" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "store" / "nowhere").symlink_to(tmp_path / "gone")
    code = (
        "import sys; from pathlib import Path; from kvbench.cell.cache import cached_share, evict\n"
        "evict(Path(sys.argv[1])); print(cached_share(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert 0 <= float(done.stdout) <= 1, done.stderr


@pytest.mark.check
def test_the_revision_is_that_of_this_project(tmp_path: Path) -> None:
    """It is not that of another repository into which the project was unpacked."""
    outer, project = tmp_path / "outer", tmp_path / "outer" / "project"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    commit = [*git, "commit", "--quiet", "--allow-empty", "-m", "x"]
    shutil.copytree(SHIMS, project / "harness" / "shims")
    subprocess.run([*git, "init", "--quiet", outer], check=True)
    subprocess.run(commit, cwd=outer, check=True)

    def revision() -> str:
        build = tmp_path / "build"
        command = ["cmake", "-S", project / "harness" / "shims", "-B", build]
        subprocess.run(command, check=True, capture_output=True)
        return str(json.loads((build / "build.json").read_text())["revision"])

    assert revision() == ""
    subprocess.run([*git, "init", "--quiet", project], check=True)
    subprocess.run(commit, cwd=project, check=True)
    described = ["git", "describe", "--always", "--abbrev=12"]
    own = subprocess.run(described, cwd=project, check=True, capture_output=True, text=True)
    assert revision() == own.stdout.strip()


def test_why_cells_were_not_measured_is_printed(
    kvbench: Run, write_grid: WriteGrid, tmp_path: Path
) -> None:
    """The sweep and `status` print one line for each reason, with the number of cells."""
    out = tmp_path / "out"
    grid = write_grid(stores=["flat", "lmdb"], memory=["default", "4 MiB"], records=[100, 200])
    done = kvbench("sweep", grid, "--out", out)
    reasons = Counter(r["reason"] for r in cells(out) if r["status"] == "skipped")
    lines = [f"{number} skipped: {reason}" for reason, number in reasons.items()]
    assert sum(reasons.values()) == 4
    said = [line for line in done.stderr.splitlines() if " skipped: " in line]
    assert sorted(said) == sorted(lines)
    assert sorted(kvbench("status", out).stdout.splitlines()[1:]) == sorted(lines)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root's rights, which needs root")
def test_a_lack_of_rights_is_printed(write_grid: WriteGrid, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grid = write_grid(memory_max=["64 MiB"])
    command = [sys.executable, "-m", "kvbench.cli", "sweep", str(grid), "--out", str(out)]
    less = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs -o ro none /sys/fs/cgroup; "$@"']
    done = subprocess.run([*less, "-", *command], capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.strip() == "1 skipped"
    assert "1 skipped: memory_max=64 MiB: no control group can be made here" in done.stderr
    assert "try as root" in done.stderr


def test_progress_into_a_pipe_is_plain_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines() -> list[str]:
        assert list(progress(["a", "b"], [1, 3], str)) == ["a", "b"]
        return capsys.readouterr().err.splitlines()

    assert lines() == []  # less than a minute has passed
    monkeypatch.setattr("kvbench.common.progress.INTERVAL", 0)
    assert lines() == ["1/2 done, about 00:00 left", "2/2 done, about 00:00 left"]


def test_progress_on_a_terminal_is_a_bar(write_grid: WriteGrid, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [sys.executable, "-m", "kvbench.cli", "sweep", str(write_grid()), "--out"]
    subprocess.run(
        [*command, str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=theirs, check=True
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # its other end is closed
        while True:
            said += os.read(ours, 4096)
    os.close(ours)
    assert b"\r1/1 |" in said
