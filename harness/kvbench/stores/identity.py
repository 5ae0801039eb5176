"""The identity of a store's results: a digest of the code that shaped them."""

import functools
import hashlib
from pathlib import Path

from kvbench import cell
from kvbench.cell.library import shims_folder
from kvbench.cell.store import Store


def libraries(path: Path) -> list[Path]:
    """The libraries next to a shim that it loads, directly or through others. Their names are found
    in its binary."""
    beside = set(path.parent.glob("lib*.so*")) - {path.parent / "libloop.so"}
    found = [path]
    for loading in found:
        code = loading.read_bytes()
        loaded = {library for library in beside if library.name.encode() + b"\0" in code}
        found += sorted(loaded)
        beside -= loaded
    return found[1:]


def checksum(store: Store) -> str:
    """The digest of the code that shapes a store's results: the folder `cell`, the core library,
    and the store's shim with the libraries next to it. Raises OSError if a file cannot be read."""
    return _checksum(store, shims_folder())


@functools.cache  # a sweep asks for it once or twice a cell
def _checksum(store: Store, folder: Path) -> str:
    digest = hashlib.sha256()
    shims = [] if store.binding else [store.path, *libraries(store.path), Store("null").path]
    for path in (folder / "libloop.so", *shims, *code()):
        digest.update(_digest(path))
    return digest.hexdigest()[:12]


@functools.cache  # all stores share the core and the folder `cell`
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def forget() -> None:
    """Read every file again at the next call of `checksum`, as after a file has changed."""
    _checksum.cache_clear()
    _digest.cache_clear()


def code() -> list[Path]:
    """The files of the folder `cell`, sorted."""
    return sorted(Path(cell.__path__[0]).rglob("*.py"))
