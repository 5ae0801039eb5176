"""`kvbench installed`: how much a program grows with a store."""

import os
from pathlib import Path

import pandas as pd
import pytest
from kvbench.cell.library import shims_folder
from kvbench.stores import catalogue
from support import KNOWN, ROOT, Run

OF_ITS_OWN = {"rocksdb": "librocksdb", "bdb": "libdb-5.3.so", "kyoto-tree": "libkyotocabinet.so"}


def test_an_engine_takes_what_its_files_take(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("installed", "--out", tmp_path / "installed.csv")
    assert (done.returncode, done.stderr) == (0, "")
    found = pd.read_csv(tmp_path / "installed.csv", keep_default_na=False).set_index("store")
    assert not found.compile_s.any()  # no log of a build was given
    there = {name for name in filter(catalogue.compared, catalogue.names())}
    assert set(found.index) == {name for name in there if KNOWN[name].available}
    for store, row in found.iterrows():
        shim = os.path.getsize(shims_folder() / f"{store}.so")
        assert row.bytes > shim if row.libraries else row.bytes == shim, store
    assert not found.libraries["flat"] and not found.libraries.str.contains("libc.so").any()
    for store, library in OF_ITS_OWN.items():
        assert store not in found.index or library in found.libraries[store]


LOG = """# ninja log v7
0\t100\t1\tCMakeFiles/flat.dir/flat.c.o\ta
0\t1500\t1\tCMakeFiles/leveldb_engine.dir/db/a.cc.o\tb
500\t1000\t1\tCMakeFiles/leveldb_snappy.dir/b.cc.o\tc
0\t70\t1\tCMakeFiles/leveldb.dir/leveldb.c.o\td
70\t90\t1\tleveldb.so\te
0\t3000\t1\tredb.so\tf
0\t3000\t1\t/elsewhere/redb.so\tf
no entry
"""


def test_the_time_to_compile_an_engine_is_that_of_its_files(kvbench: Run, tmp_path: Path) -> None:
    (tmp_path / ".ninja_log").write_text(LOG)
    done = kvbench("installed", "--build", tmp_path, "--out", tmp_path / "installed.csv")
    assert (done.returncode, done.stderr) == (0, "")
    found = pd.read_csv(tmp_path / "installed.csv").set_index("store").compile_s.dropna()
    assert found.to_dict() == {"leveldb": 2.0, "redb": 3.0}


@pytest.mark.skipif(not (ROOT / "build/shims/.ninja_log").exists(), reason="built elsewhere")
def test_engines_that_the_set_up_compiles_have_a_time(kvbench: Run, tmp_path: Path) -> None:
    build, out = ROOT / "build/shims", tmp_path / "installed.csv"
    assert kvbench("installed", "--build", build, "--out", out).returncode == 0
    found = pd.read_csv(out).set_index("store").compile_s
    for store in ("leveldb", "sqlite", "lmdb", "redb", "fjall"):
        assert store not in found.index or found[store] > 1, store
    assert found[["flat", "bdb"]].isna().all()
