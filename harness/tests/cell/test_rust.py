"""What the C compiler does not check for a shim in Rust: the contract's layout, and panics."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from kvbench.cell.library import Mode, Status, structure
from kvbench.stores.opened import OpenShim, make_slice, open_store
from support import KNOWN, SHIMS

pytestmark = pytest.mark.skipif(not KNOWN["fjall"].available, reason=KNOWN["fjall"].reason)


def compile_contract(headers: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compiles the contract in Rust against the layout of the headers."""
    program, layout = folder / "layout", folder / "kv_layout.rs"
    subprocess.run(["cc", "-D_GNU_SOURCE", headers / "rust/layout.c", "-o", program], check=True)
    layout.write_bytes(subprocess.run([program], capture_output=True, check=True).stdout)
    command = ["rustc", "--edition", "2024", "--crate-type", "lib", "--emit", "metadata"]
    return subprocess.run(
        [*command, "-o", folder / "kv.rmeta", headers / "rust/src/kv.rs"],
        env=os.environ | {"KV_LAYOUT": str(layout), "KV_VERSION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("max_key, max_value;", "max_value, max_key;", "place of kv_driver.max_key"),
        ("uint64_t least;", "uint32_t least, most[3];", "size of kv_setting"),
        ("#define KV_ABI 5", "#define KV_ABI 6", "a new ABI"),
    ],
)
def test_a_contract_that_rust_does_not_follow_fails_the_build(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    shutil.copytree(SHIMS, tmp_path / "shims")
    contract = tmp_path / "shims/kv.h"
    assert old in contract.read_text()
    contract.write_text(contract.read_text().replace(old, new) if old else contract.read_text())
    done = compile_contract(tmp_path / "shims", tmp_path)
    assert (done.returncode == 0) == (not said), done.stderr
    assert said in done.stderr


def test_a_panic_is_an_error_with_its_text(tmp_path: Path) -> None:
    """The engine panics at a key beyond its limit, which the harness otherwise keeps from it."""
    opened = open_store(KNOWN["fjall"], tmp_path)
    assert isinstance(opened, OpenShim)
    driver, kv = KNOWN["fjall"].driver(), opened._kv
    too_long = b"k" * (KNOWN["fjall"].max_key + 1)
    record = structure("kv_record")(make_slice(too_long), make_slice(b""))
    assert driver.write(kv, Mode.PUT, ctypes.byref(record), 1) == Status.ERROR
    assert b"panic: Keys can be up to 65535 bytes long" in driver.error()
    assert opened.insert(b"key", b"value")
    assert opened.get(b"key") == b"value"
    opened.close()
