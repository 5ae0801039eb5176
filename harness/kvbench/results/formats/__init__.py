"""Formats of results that other programs write. Each is a module that says whether a text is of its
kind, and reads it as rows: the number of a line, and its values as text, by the column of
data/README.md that they belong to. What a format does not state is not in its rows. An operation
that is none of ours stays as it is named there."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvbench.common.messages import BadInput, listed
from kvbench.results.formats import (
    benchmark_dotnet,
    crud_bench,
    db_bench,
    go_bench,
    ioarena,
    keybench,
    redb_table,
    report_tsv,
    storage_bench,
    tidesdb,
    ycsb,
)

Rows = Iterator[tuple[int, dict[str, str]]]


class Format(NamedTuple):
    """`says`: whose it is. `fits`: whether a text is of this kind. `read`: its rows; it raises
    BadInput, which names the line."""

    says: str
    fits: Callable[[str], bool]
    read: Callable[[str], Rows]


FORMATS = {  # the first that fits a text is taken
    "db_bench": Format("db_bench of LevelDB, RocksDB or LMDB", db_bench.fits, db_bench.read),
    "report-tsv": Format("RocksDB's benchmark.sh", report_tsv.fits, report_tsv.read),
    "tidesdb": Format("TidesDB's benchtool", tidesdb.fits, tidesdb.read),
    "redb": Format("the table of redb or canopydb", redb_table.fits, redb_table.read),
    "ycsb": Format("YCSB in Java, C++ or Go", ycsb.fits, ycsb.read),
    "crud-bench": Format("crud-bench, CSV or JSON", crud_bench.fits, crud_bench.read),
    "go-bench": Format("go test -bench", go_bench.fits, go_bench.read),
    "benchmark-dotnet": Format(
        "BenchmarkDotNet's CSV", benchmark_dotnet.fits, benchmark_dotnet.read
    ),
    "ioarena": Format("ioarena", ioarena.fits, ioarena.read),
    "storage-bench": Format("rust-storage-bench", storage_bench.fits, storage_bench.read),
    "keybench": Format("keybench", keybench.fits, keybench.read),
}
AUTO, TABLE = "auto", "table"  # find out; a table of our own columns, or of usual names


def check_name(name: str) -> None:
    """Raise BadInput if there is no such format."""
    known = [AUTO, TABLE, *FORMATS]
    if name not in known:
        allowed = listed(known, name, "kvbench import --help")
        raise BadInput(f"--format: {name!r:.60} is unknown; allowed: {allowed}")


def detected(text: str, name: str = AUTO) -> str:
    """The name of the format of a text, TABLE if it is of no known program. `name` is that of a
    format or AUTO. Raises BadInput if the text is not of that format."""
    if name == AUTO:
        return next((name for name, one in FORMATS.items() if one.fits(text)), TABLE)
    if name != TABLE and not FORMATS[name].fits(text):
        raise BadInput(f"not of {FORMATS[name].says}; allowed: --format auto, or another")
    return name
