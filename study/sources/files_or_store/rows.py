"""The rows that Hines and others published with their paper (2023): as a results folder, and what
they show about the claims of its text.

The rows have no licence, so they are not kept here. Fetch results/benchmark.csv at commit
519d18635a93c8619fc4a3f05af3982ab224c843 of jesse-r-s-hines/KeyValueStoreBenchmark on GitHub, then:
python -m study.sources.files_or_store.rows benchmark.csv --out build/hines
"""

import argparse
import contextlib
import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from kvbench.cell.factors import RecordSize
from kvbench.common.messages import BadInput
from kvbench.results.importer import import_table

from study.common.notebook import root
from study.sources.files_or_store.claims import SOURCE
from study.sources.verdicts import OWN, Figure, Missing, load

DIGEST = "8719806838b189d608fb0c99bab9c3abd890708e5bba9829ffd0b0a066ba9a59"  # of the file, SHA-256
STORES = {
    "FlatFolder": "flat", "NestedFolder": "nested", "LevelDB": "leveldb", "RocksDB": "rocksdb",
    "BerkeleyDB": "bdb", "SQLite3": "sqlite",
}  # fmt: skip
SIZES = {
    "1B to 1KiB": "1 B-1 KiB", "1KiB to 10KiB": "1-10 KiB", "10KiB to 100KiB": "10-100 KiB",
    "100KiB to 1MiB": "100 KiB-1 MiB",
}  # fmt: skip
TIMED = ["insert", "get", "update", "remove"]


def read(path: Path) -> pd.DataFrame:
    """Return the published rows: store, size, records, data type and op (texts), measurements (1),
    and the sum, min and max of their times (ns). Raises BadInput if the file is not the published
    one."""
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
        raise BadInput(f"{path}: not the published rows; allowed: the file with SHA-256 {DIGEST}")
    return pd.read_csv(path)


def converted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table for `kvbench import`, with columns of data/README.md. The rows state space
    efficiency in percent, live bytes over bytes on disk; the mean record size converts it to bytes.
    Their single run is one trial."""
    cell = ["store", "size", "records", "data type"]
    space = rows[rows.op == "space"].set_index(cell)["sum"].rename("percent")
    own = rows[rows.op.isin(TIMED)].join(space, on=cell)
    names = own["size"].map(SIZES)
    live = own.records * names.map(lambda name: RecordSize.parse(name).mean)
    return pd.DataFrame(
        {
            "store": own.store.map(STORES),
            "label": "as shipped",
            "trial": 1,
            "operation": own.op,
            "record_size": names,
            "records": own.records,
            "compressibility": own["data type"],
            "n": own.measurements,
            "items": own.measurements,
            "sum_ns": own["sum"],
            "min_ns": own["min"],
            "max_ns": own["max"],
            "live_bytes": live.astype(int),
            "disk_bytes": (live / own.percent * 100).round().astype(int),
        }
    )


def decided_claims(data: pd.DataFrame) -> pd.DataFrame:
    """Return one row per claim that these rows can decide: their figure, and whether it agrees with
    the claim."""
    found = []
    for claim in SOURCE.claims():
        if claim.document != OWN and isinstance(claim.source, Figure):
            with contextlib.suppress(Missing):
                one = claim.source.values(data).mean()
                found.append({"id": claim.id, "value": one, "agrees": claim.limit.holds(one)})
    return pd.DataFrame(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Print what the published rows show about the claims of their paper, as CSV, "
        "and write the rows as a results folder."
    )
    parser.add_argument("rows", type=Path, help="the file, as fetched")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make; new or empty")
    given = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "rows.csv"
            converted(read(given.rows)).to_csv(table, index=False)
            import_table(table, given.out)
    except BadInput as error:
        parser.exit(2, f"{error}\n")
    data = load({"files-or-store": given.out}, root() / "data/durability/evidence.csv")
    decided_claims(data).to_csv(sys.stdout, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
