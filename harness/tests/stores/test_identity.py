"""What identifies a result: the code and the libraries that a worker runs, and nothing else."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import kvbench
import pytest
from kvbench.cell.library import shims_folder
from kvbench.cell.store import Store
from kvbench.stores import identity
from support import KNOWN

PACKAGE = Path(kvbench.__file__).parent

CHANGE_EACH_FILE = """
import sys
from pathlib import Path
import kvbench
from kvbench.cell.store import Store
from kvbench.stores import identity

root = Path(kvbench.__file__).parent
store = Store(*sys.argv[1:])
digest = identity.checksum(store)
for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".toml")):
    code = path.read_bytes()
    path.write_bytes(code + b"# changed")
    identity.forget()
    if identity.checksum(store) != digest:
        print(path.relative_to(root))
    path.write_bytes(code)
"""
RUN_A_WORKER = """
import importlib, sys
import kvbench.cell.worker

for name in sys.argv[1:]:
    importlib.import_module(f"kvbench.cell.bindings.{name}")
print(*(name for name in sys.modules if name.partition(".")[0] == "kvbench"), sep="\\n")
"""


def run_python(code: str, *arguments: str, path: Path) -> set[str]:
    """The lines that the code prints in a new Python process."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), "KVBENCH_SHIMS": str(shims_folder())},
    )
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("store", [("leveldb",), ("sqlite", "sqlite3")], ids="/".join)
def test_a_result_is_identified_by_all_of_the_cell_and_nothing_else(
    store: tuple[str, ...], tmp_path: Path
) -> None:
    """What a factor means, an answer or a command may be reworded, and results stay valid."""
    shutil.copytree(PACKAGE, tmp_path / "kvbench", ignore=shutil.ignore_patterns("shims"))
    changing = run_python(CHANGE_EACH_FILE, *store, path=tmp_path)
    cell = PACKAGE / "cell"
    assert changing == {str(path.relative_to(PACKAGE)) for path in cell.rglob("*.py")}


def importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:  # of an engine that is not here
        return False
    return True


def test_a_worker_runs_no_code_that_identifies_no_result(tmp_path: Path) -> None:
    """But for messages, files that are written whole, and the ends of processes."""
    bindings = [path.stem for path in (PACKAGE / "cell/bindings").glob("[a-z]*.py")]
    there = [name for name in bindings if importable(f"kvbench.cell.bindings.{name}")]
    for module in run_python(RUN_A_WORKER, *there, path=tmp_path):
        assert module == "kvbench" or module.split(".")[1] in ("cell", "common"), module


def test_only_the_libraries_of_core_store_and_null_store_identify_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in shims_folder().iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.setenv("KVBENCH_SHIMS", str(tmp_path))
    before = identity.checksum(Store("flat"))
    changing = set()
    for name in ("libloop", "null", "flat", "nested", "libother"):
        path = tmp_path / f"{name}.so"
        code = path.read_bytes() if path.exists() else b""
        path.write_bytes(code + b"changed")
        identity.forget()
        if identity.checksum(Store("flat")) != before:
            changing.add(name)
        path.write_bytes(code)
    assert changing == {"libloop", "null", "flat"}


def test_the_libraries_that_a_shim_loads_from_its_folder_identify_a_result(
    own_shims: Path, compile_shim: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that its libraries load count too; those of other stores do not."""
    link = f"-L{own_shims}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"
    compile_shim("libother", "int other;")
    compile_shim("libinner", "int inner;")
    compile_shim("libengine", "int engine;", *link, "-l:libinner.so")
    compile_shim("loading", '#include "null.c"', *link, "-l:libengine.so")
    for path in shims_folder().glob("*rocksdb.so*"):
        shutil.copy(path, own_shims)
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))

    def changing(name: str) -> set[str]:
        """The libraries whose change changes the store's checksum."""
        identity.forget()
        found, before = set(), identity.checksum(Store(name))
        for library in own_shims.glob("lib*"):
            code = library.read_bytes()
            library.write_bytes(code + b"changed")
            identity.forget()
            if identity.checksum(Store(name)) != before:
                found.add(library.name.partition(".")[0])
            library.write_bytes(code)
        return found

    assert Store("loading").driver().abi  # the loader finds them in the folder, too
    assert changing("loading") == {"libloop", "libengine", "libinner"}
    assert changing("flat") == {"libloop"}
    current = KNOWN["rocksdb"].available and "maven" in KNOWN["rocksdb"].version.lower()
    assert not current or changing("rocksdb") == {"libloop", "librocksdb"}
