"""Compiles the programs of torture, all below build/torture, and runs programs under sanitizers."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from kvbench.stores import catalogue

ROOT = Path(__file__).parents[3]
SHIMS = ROOT / "harness/shims"
BUILT = ROOT / "build/torture"
ADDRESS = "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
PRELOADED = ("libasan.so", "libubsan.so", "libstdc++.so")  # libstdc++: to intercept exceptions
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ")
UNSANITIZED = "tokudb"  # PerconaFT's allocator does not start under the address sanitizer
FEW = ("flat", "lmdb", "leveldb", "bdb", "sqlite")  # of the short form: one or two of each kind


def available(short: bool) -> list[str]:
    """The available shims that keep what is written; in the short form, only those of FEW."""
    return [
        store.name
        for store in catalogue.known().values()
        if store.available
        and not store.binding
        and "forgets" not in store.capabilities
        and (store.name in FEW if short else catalogue.compared(store.name))
    ]


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its status."""
    return subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _build(command: Sequence[str | Path]) -> None:
    done = run(command)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def program(name: str, sources: Sequence[Path], *flags: str, compiler: str = "cc") -> Path:
    """Compile our C sources into a program, and return its path."""
    if shutil.which(compiler) is None:
        raise click.UsageError(f"{compiler} is missing; install it: sh harness/system-packages.sh")
    output = BUILT / name
    output.parent.mkdir(parents=True, exist_ok=True)
    strict = "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"
    debug = "-g", "-O1", "-fno-omit-frame-pointer", *flags
    libraries = "-lm", "-ldl", "-lpthread"
    _build([compiler, *strict, *debug, *sources, "-o", output, *libraries])
    return output


def sanitized_shims(kind: str = "address", names: Sequence[str] = ()) -> Path:
    """Build these stores, or all, with the address and undefined-behaviour sanitizers or with
    another `kind`. Returns the folder."""
    folder = BUILT / kind
    folder.mkdir(parents=True, exist_ok=True)
    options = f"-DKV_SANITIZE={kind}", "-DKV_WERROR=ON", f"-DKV_STORES={';'.join(names)}"
    with open(folder / "lock", "w") as lock:  # parts run concurrently
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build(["cmake", "-S", SHIMS, "-B", folder, *options])
        _build(["cmake", "--build", folder, "--parallel", str(os.cpu_count() or 1)])
        if kind == "address":
            template = [SHIMS / "stores/template.c"]
            program("address/template.so", template, *ADDRESS, "-shared", "-fPIC")
    return folder


def sanitized_environment(shims: Path, logs: Path) -> dict[str, str]:
    """The environment in which a Python process loads sanitized shims; reports go to the folder
    `logs`."""
    log = f"log_path='{logs}/log'"
    libraries = (run(["cc", f"-print-file-name={name}"]).stdout.strip() for name in PRELOADED)
    return {
        "KVBENCH_SHIMS": str(shims),
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONPATH": str(ROOT / "harness"),
        "PYTHONMALLOC": "malloc",  # to detect writes beyond Python's buffers
        "ASAN_OPTIONS": f"detect_leaks=0:{log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
    }


def reports(logs: Path) -> list[str]:
    """The reports of the sanitizers in a folder, one line each."""
    texts = (log.read_text("utf-8", "replace") for log in logs.glob("log.*"))
    return [line for text in texts for line in text.splitlines() if REPORT.search(line)]
