"""The two builds of engines: current ones have no assertions; the distribution's may have them."""

import re
import subprocess
from pathlib import Path

import pytest
from kvbench.cell.store import Store
from kvbench.stores.about import DISTRIBUTED
from kvbench.stores.identity import libraries
from support import KNOWN

# What assertions leave in a file: the function that reports one, and the text of each function of
# the engine that holds one. LMDB reports its own. RocksDB's library also holds compressors, whose
# assertions are not the engine's.
TRACES = {
    "leveldb": rb"__assert_fail|leveldb::[^\0\n]*\)\0",
    "rocksdb": rb"rocksdb::[^\0\n]*\)\0",
    "lmdb": rb"__assert_fail|Assertion '",
    "sqlite": rb"__assert_fail",
}
ASSERTING = ("leveldb", "rocksdb", "lmdb")  # as Debian 12 builds them


def traces(engine: str, files: list[Path]) -> int:
    return sum(len(re.findall(TRACES[engine], path.read_bytes())) for path in files)


def store_or_skip(label: str, build: str) -> Store:
    store = KNOWN.get(label, Store(label, reason="not built"))
    if not store.available:
        pytest.skip(f"{label}: {store.reason}")
    if build not in store.version:
        pytest.skip(f"{label}: {store.version} is not the build meant, which says {build}")
    return store


@pytest.mark.parametrize("engine", TRACES)
def test_current_builds_carry_no_assertions(engine: str) -> None:
    store = store_or_skip(engine, " (")
    if "(debian" in store.version:
        pytest.skip(f"{engine}: set-up got no current release")
    assert traces(engine, [store.path, *libraries(store.path)]) == 0


@pytest.mark.parametrize("engine", ASSERTING)
def test_the_assertions_of_debian_s_builds_are_found(engine: str) -> None:
    """This shows that the search would find assertions in a current build."""
    store = store_or_skip(engine + DISTRIBUTED, "(debian 12)")
    loaded = subprocess.run(["ldd", store.path], capture_output=True, text=True, check=True).stdout
    found = [Path(path) for path in re.findall(rf"=> (\S*lib{engine}\S*)", loaded)]
    assert traces(engine, found) > 0
