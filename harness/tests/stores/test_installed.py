"""`kvbench installed`: how much a program grows with a store."""

import os
from pathlib import Path

import pandas as pd
from kvbench.cell.library import shims_folder
from kvbench.stores import catalogue
from support import KNOWN, Run

OF_ITS_OWN = {"rocksdb": "librocksdb", "bdb": "libdb-5.3.so", "kyoto-tree": "libkyotocabinet.so"}


def test_an_engine_takes_what_its_files_take(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("installed", "--out", tmp_path / "installed.csv")
    assert (done.returncode, done.stderr) == (0, "")
    found = pd.read_csv(tmp_path / "installed.csv", keep_default_na=False).set_index("store")
    there = {name for name in filter(catalogue.compared, catalogue.names())}
    assert set(found.index) == {name for name in there if KNOWN[name].available}
    for store, row in found.iterrows():
        shim = os.path.getsize(shims_folder() / f"{store}.so")
        assert row.bytes > shim if row.libraries else row.bytes == shim, store
    assert not found.libraries["flat"] and not found.libraries.str.contains("libc.so").any()
    for store, library in OF_ITS_OWN.items():
        assert store not in found.index or library in found.libraries[store]
