"""Records what a Python program does to its records, for `kvbench record`.

It runs in the recorded program, whose interpreter need not have kvbench: it imports nothing but the
standard library, and no module that a program may not import itself. It wraps each library of
records when the program imports it. What a wrapped call does within the library, such as the SQL of
a cache, is not recorded again.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import caches, folders, mappings, tables
from .rows import Calls, Rows

# What `kvbench record` sets: the trace, a secret for the keys' hashes, when the recording began,
# the greatest size of the trace, and folders whose files are records.
PATH, SECRET, START, MOST, FOLDERS = (
    f"KVBENCH_RECORD_{name}" for name in ("PATH", "SECRET", "START", "MOST", "FOLDERS")
)
HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "dbm.gnu": mappings.hook_dbm,
    "dbm.ndbm": mappings.hook_dbm,
    "dbm.dumb": mappings.hook_dbm,
    "dbm.sqlite3": mappings.hook_dbm,
    "plyvel": mappings.hook_plyvel,
    "lmdb": mappings.hook_lmdb,
    "sqlite3": tables.hook_sqlite3,
    "diskcache.core": caches.hook_diskcache,
}


class Finder:
    """Finds the modules of HOOKS as the other finders do, and hooks them once they are loaded."""

    def __init__(self) -> None:
        self._found: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = HOOKS.get(name)
        if hook is None or name in self._found:
            return None
        self._found.add(name)  # so that the next question goes to the other finders
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def begin() -> None:
    """Record from here on, if `kvbench record` began this process or one above it."""
    path = os.environ.get(PATH)
    if not path:
        return
    secret, start, most = (os.environ[name] for name in (SECRET, START, MOST))
    Calls.rows = Rows(path, bytes.fromhex(secret), int(start), int(most))
    sys.meta_path.insert(0, Finder())
    kept = [folder for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]
    if kept:
        folders.watch(kept)
