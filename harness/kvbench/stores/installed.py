"""How much a program grows with a store: its engine, and the shared libraries that this loads."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from kvbench.cell.store import Store
from kvbench.common.messages import BadInput, one_line

# A program in C or C++ has these already; patterns of names that `ldd` prints.
RUNTIME = re.compile(r"linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
LOADED = re.compile(r"(\S+) => (/\S+) \(0x[0-9a-f]+\)")
TIME_LIMIT = 60  # seconds


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
