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


@pytest.mark.parametrize("name", ["pilot", "bindings"])
def test_committed_data_are_of_the_schema_and_small(name: str) -> None:
    tables = results.read_tables(DATA / name)
    assert tables["cells"].num_rows > 0
    assert not set(tables["cells"]["status"].to_pylist()) - {"ok", "skipped"}
    assert sum(path.stat().st_size for path in (DATA / name).iterdir()) < 10 << 20


def test_every_cell_from_python_has_its_cell_from_c() -> None:
    cells = results.read_tables(DATA / "bindings")["cells"].to_pandas()
    key = ["store", "record_size", "records", "compressibility", "trial", "seed"]
    from_c = set(map(tuple, cells[cells.access == "c"][key].to_numpy()))
    from_python = list(map(tuple, cells[cells.access == "python"][key].to_numpy()))
    assert from_python
    assert set(from_python) <= from_c


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
