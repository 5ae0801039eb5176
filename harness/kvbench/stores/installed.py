"""How much a program grows with a store: its engine, and the shared libraries that this loads;
and how long the engine took to compile."""

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from kvbench.cell.store import Store
from kvbench.common.messages import BadInput, brief, one_line

# A program in C or C++ has these already; patterns of names that `ldd` prints.
RUNTIME = re.compile(r"linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
LOADED = re.compile(r"(\S+) => (/\S+) \(0x[0-9a-f]+\)")
TIME_LIMIT = 60  # seconds

# Ninja's log of a build, at https://ninja-build.org/manual.html#_the_ninja_log
LOG = ".ninja_log"
ENTRY = re.compile(r"(\d+)\t(\d+)\t\d+\t([^\t]+)\t[0-9a-f]+")  # begin and end in ms, output
OBJECT = re.compile(r"CMakeFiles/([\w-]+?)(?:_(engine|snappy))?\.dir/.*\.o")
LIBRARY = re.compile(r"([\w-]+)\.so")


class Installed(NamedTuple):
    """The bytes of all files that a store needs, symbols removed, and the names of the libraries
    among them."""

    bytes: int
    libraries: tuple[str, ...]


def installed(store: Store) -> Installed:
    """The size of a store's shim, which has the engine or loads its library, and of the libraries
    that it loads, directly or through others, but for those of C and C++. Sizes are those of the
    files, which Debian and our build strip. Raises BadInput if `ldd` fails."""
    try:
        done = subprocess.run(
            ["ldd", store.path], capture_output=True, text=True, check=False, timeout=TIME_LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"ldd: {error!s:.100}; it comes with the C library") from None
    if done.returncode:
        raise BadInput(f"ldd {store.path}: {one_line(done.stderr):.100}")
    found = {
        name: Path(path) for name, path in LOADED.findall(done.stdout) if not RUNTIME.match(name)
    }
    size = os.path.getsize(store.path) + sum(path.stat().st_size for path in found.values())
    return Installed(size, tuple(sorted(found)))


def compile_times(build: Path) -> dict[str, float]:
    """The seconds that compilers took for the engine of each store that a build with CMake and
    Ninja in this folder compiled, added over its files. Of an engine in Rust, which brings no
    object files of its own, it is the time of Cargo. Raises BadInput."""
    try:
        lines = (build / LOG).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise BadInput(
            f"{brief(str(build))!r} has no {LOG}; allowed: the folder of a build, as build/shims"
        ) from None
    took = {
        entry[3]: int(entry[2]) - int(entry[1]) for entry in map(ENTRY.fullmatch, lines) if entry
    }
    objects = [(found, took[found[0]]) for found in map(OBJECT.fullmatch, took) if found]
    shims = {found[1] for found, _ in objects if not found[2]}  # in C, their engine apart
    times: dict[str, float] = defaultdict(float)
    for found, milliseconds in objects:
        if found[2]:
            times[found[1]] += milliseconds / 1000
    for found in filter(None, map(LIBRARY.fullmatch, took)):
        if found[1] not in shims:
            times[found[1]] += took[found[0]] / 1000
    return dict(times)
