"""What torture compiles, all below build/torture, and where it runs."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

ROOT = Path(__file__).parents[3]
SHIMS = ROOT / "harness" / "shims"
BUILT = ROOT / "build" / "torture"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def run(command: Sequence[str | Path], **environment: str) -> None:
    """Runs what must not fail; what it said is in the error otherwise."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")


def program(name: str, sources: Sequence[Path], *flags: str, compiler: str = "cc") -> Path:
    """Compiles C sources of ours into a program."""
    output = BUILT / name
    output.parent.mkdir(parents=True, exist_ok=True)
    language = "-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer"
    libraries = "-lm", "-ldl", "-lpthread"
    run([compiler, *language, *WARNINGS, *flags, *sources, "-o", output, *libraries])
    return output


def shims(name: str, stores: Sequence[str], *defines: str, **environment: str) -> Path:
    """Builds these stores, or all, with the address sanitizer; the folder of the shared objects."""
    folder = BUILT / name
    chosen = f"-DKV_STORES={';'.join(stores)}", "-DKV_SANITIZE=address", "-DKV_WERROR=ON"
    run(["cmake", "-S", SHIMS, "-B", folder, *chosen, *defines], **environment)
    run(["cmake", "--build", folder, "--parallel", str(os.cpu_count() or 1)])
    return folder


def in_memory(place: Path) -> Path:
    """Where stores need not wait for a disk, if there is such a place; else the place itself."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else place


def need(command: str, packages: str) -> None:
    if shutil.which(command) is None:
        raise click.UsageError(f"no {command} here; apt-get install {packages}")


def settings(**options: Mapping[str, object]) -> dict[str, str]:
    """Options of the sanitizers, as the variables that they read."""
    return {
        name: ":".join(f"{key}={value}" for key, value in given.items())
        for name, given in options.items()
    }
