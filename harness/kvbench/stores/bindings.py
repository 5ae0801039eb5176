"""Facts about each Python binding that are known before it is imported."""

import dataclasses
import platform
import sys


@dataclasses.dataclass(frozen=True)
class Entry:
    """Facts about a binding that are known before it is imported."""

    store: str  # the name of the shim of its engine
    distribution: str = ""  # on the Python Package Index; empty: the standard library
    advice: str = ""  # what to do if it cannot be imported
    counterpart: bool = True  # whether the shim uses the engine in the same way

    def version(self) -> str:
        if not self.distribution:
            return platform.python_version()
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import

        try:
            return version(self.distribution)
        except PackageNotFoundError:  # another package provides the module
            return "of unknown version"


NEWER = (
    f"it needs Python 3.13 or newer, and this is {platform.python_version()}; set up again with a "
    "newer one, as by `make clean setup PYTHON=python3.13`"
)
NEW_DBM = sys.version_info >= (3, 13)  # here shelve uses dbm.sqlite3
GNU = "try `make engines`; Debian's Python has it by apt install python3-gdbm"

BINDINGS = {
    "null": Entry("null"),
    "io": Entry("flat"),
    "plyvel": Entry("leveldb", "plyvel"),
    "rocksdict": Entry("rocksdb", "rocksdict"),
    "python-rocksdb": Entry(
        "rocksdb",
        "python-rocksdb",
        "`make engines` compiles it against RocksDB 6; rocksdict is its maintained successor",
    ),
    "lmdb": Entry("lmdb", "lmdb"),
    "bsddb3": Entry("bdb", "bsddb3"),
    "berkeleydb": Entry("bdb", "berkeleydb"),
    "sqlite3": Entry("sqlite"),
    "apsw": Entry("sqlite", "apsw"),
    "diskcache": Entry("sqlite", "diskcache", counterpart=False),
    "sqlitedict": Entry("sqlite", "sqlitedict", counterpart=False),
    "dbm.gnu": Entry("gdbm", advice=GNU),
    "dbm.sqlite3": Entry("sqlite", advice=NEWER, counterpart=False),
    "shelve": Entry("sqlite" if NEW_DBM else "gdbm", advice=GNU, counterpart=False),
}
