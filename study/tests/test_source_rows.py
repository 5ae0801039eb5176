"""The rows that a source published, against the claims of its text."""

from pathlib import Path

import pandas as pd
import pytest
from kvbench.results.importer import import_table

from study.common.notebook import root
from study.sources.files_or_store import rows as source_rows
from study.sources.files_or_store.claims import SOURCE
from study.sources.verdicts import load

COLUMNS = [
    "hardware", "store", "op", "size", "records", "data type",
    "measurements", "sum", "min", "max", "avg",
]  # fmt: skip


def published(times: dict[str, int], percent: int) -> pd.DataFrame:
    """Rows as the source has them: a thousand removes of each store, and its space."""
    size, kind = "100KiB to 1MiB", "incompressible"
    rows = []
    for store, mean in times.items():
        removes = ("remove", 1000, mean * 1000, mean // 2, mean * 3, mean)
        for op, n, *found in (removes, ("space", 1, *[percent] * 4), ("memory", 1, *[5] * 4)):
            rows.append(("vm", store, op, size, 10_000, kind, n, *found))
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize(("files", "agrees"), [(100, True), (900, False)])
def test_rows_decide_a_claim_of_their_text(files: int, agrees: bool, tmp_path: Path) -> None:
    times = dict.fromkeys(source_rows.STORES, 500) | {"FlatFolder": files, "NestedFolder": files}
    table = source_rows.converted(published(times, percent=50))
    table.to_csv(tmp_path / "rows.csv", index=False)
    import_table(tmp_path / "rows.csv", tmp_path / "out")
    data = load({"files-or-store": tmp_path / "out"}, root() / "data/durability/evidence.csv")
    assert set(data.efficiency) == {0.5}
    assert data.set_index("store").ns["flat"] == files
    found = source_rows.decided_claims(data).set_index("id")
    assert found.agrees["F-5.1-large-files"] == agrees


def test_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.csv"
    published({"LevelDB": 1}, 50).to_csv(path, index=False)
    with pytest.raises(SystemExit, match="2"):
        source_rows.main([str(path), "--out", str(tmp_path / "out")])
    assert str(path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_kept_table_is_of_the_claims_as_they_are() -> None:
    kept = pd.read_csv(root() / "data/published/files-or-store-rows.csv").set_index("id")
    limits = {claim.id: claim.limit for claim in SOURCE.claims()}
    assert kept.index.is_unique
    for name, row in kept.iterrows():
        assert limits[str(name)].holds(row.value) == row.agrees
