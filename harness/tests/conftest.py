"""Real shims, real files, and the command line as users have it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvbench import stores

SHIMS = Path(__file__).parents[1] / "shims"
AVAILABLE = [store.name for store in stores.known().values() if store.available]
KEEPING = [name for name in AVAILABLE if name != "null"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kvbench() -> Run:
    """Runs the command; `env` adds to its environment."""

    def run(*arguments: Any, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kvbench.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
        )

    return run


@pytest.fixture
def write_grid(tmp_path: Path) -> Callable[..., Path]:
    """A grid file of the given keys; small unless they say otherwise."""

    def write(**keys: Any) -> Path:
        values = {"stores": ["flat"], "records": [100], "trials": 1} | keys
        path = tmp_path / "grid.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        return path

    return write


@pytest.fixture
def own_shims(tmp_path: Path) -> Path:
    """A copy of the built shims, for tests that add to them or take from them."""
    folder = tmp_path / "shims"
    shutil.copytree(stores.shims_folder(), folder)
    return folder


@pytest.fixture
def compile_shim(own_shims: Path, tmp_path: Path) -> Callable[..., Path]:
    """Compiles C source into own_shims as a store of the given name."""

    def build(name: str, source: str, *flags: str) -> Path:
        file = tmp_path / f"{name}.c"
        file.write_text(source)
        include = f"-I{SHIMS}", f"-I{SHIMS / 'stores'}"
        command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", *include]
        output = own_shims / f"{name}.so"
        subprocess.run([*command, str(file), "-o", str(output), *flags], check=True)
        return output

    return build
