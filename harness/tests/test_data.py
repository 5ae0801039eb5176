"""The committed data and the page that explains it."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kvbench import BadInput, results

DATA = Path(__file__).parents[2] / "data"


def dictionary() -> dict[str, list[tuple[str, str, str]]]:
    """The tables of data/README.md: column, type and unit of each, in order."""
    tables = {}
    for section in re.split(r"^## ", (DATA / "README.md").read_text(), flags=re.M)[1:]:
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in row] for row in rows[2:]]
        assert all(len(row) == 4 and row[3] for row in cells)
        tables[section.split("\n")[0]] = [(row[0], row[1], row[2]) for row in cells]
    return tables


def test_the_dictionary_is_the_schema() -> None:
    schema = {
        name: [(field.name, str(field.type), field.metadata[b"unit"].decode()) for field in columns]
        for name, columns in results.TABLES.items()
    }
    assert dictionary() == schema


def test_the_pilot_is_of_the_schema_and_small() -> None:
    tables = results.read_tables(DATA / "pilot")
    assert tables["cells"].num_rows > 0
    assert not set(tables["cells"]["status"].to_pylist()) - {"ok", "skipped"}
    assert sum(path.stat().st_size for path in (DATA / "pilot").iterdir()) < 10 << 20


def test_tables_of_another_schema_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="kvbench collect"):
        results.read_tables(tmp_path)
    for name in results.TABLES:
        table = pq.read_table(DATA / "pilot" / f"{name}.parquet")
        pq.write_table(
            table.drop_columns(["cell" if name != "machines" else "cpu"]),
            tmp_path / f"{name}.parquet",
        )
    with pytest.raises(BadInput, match="columns differ"):
        results.read_tables(tmp_path)
    table = pq.read_table(DATA / "pilot" / "cells.parquet")
    known = results.SCHEMA_VERSION
    later = table.replace_schema_metadata({"kvbench_schema": str(known + 1)})
    pq.write_table(later, tmp_path / "cells.parquet")
    with pytest.raises(BadInput, match=f"schema version {known + 1}; allowed: {known}"):
        results.read_tables(tmp_path)
    (tmp_path / "cells.parquet").write_bytes(b"not Parquet")
    with pytest.raises(BadInput, match="not readable as Parquet"):
        results.read_tables(tmp_path)
