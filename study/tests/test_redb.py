"""redb's benchmark: our rows beside the published ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.factors import LEVELS
from support import KNOWN, SHIMS

from study.common.results import Results
from study.sources.redb_2026 import rerun as redb_2026
from study.sources.redb_2026.rerun import SPACE, TIMES, Page

ROOT = SHIMS.parents[1]
PUBLISHED = {  # of the README: milliseconds over operations, MiB over records
    ("bulk load", "redb"): ("3.4 µs", "1.00"),
    ("bulk load", "lmdb"): ("1.8 µs", "0.54"),
    ("individual writes", "sqlite"): ("7.0 ms", "7.65"),
    ("batch writes", "fjall"): ("3.5 µs", "0.22"),
    ("random reads", "rocksdb"): ("2.9 µs", "3.09"),
    ("range reads", "redb"): ("2.3 µs", "1.00"),
    ("reads, 8 threads", "lmdb"): ("84 ns", "0.56"),
    ("removals", "fjall"): ("2.4 µs", "0.26"),
    ("size", "rocksdb"): ("367 B", "0.22"),
}


@pytest.mark.check
def test_redbs_benchmark_stands_beside_the_published_table(
    tiny: Callable[..., Path], on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    out = tiny("redb-2026", on_disk)
    data = Results(str(out), varying=LEVELS)
    page = Page(data)
    assert set(data.cells[data.cells.label == "removals"].guarantee) == {"process"}
    assert set(data.cells[data.cells.label == "one thread"].guarantee) == {"sync"}

    for works in (TIMES, SPACE):
        beside = page.beside(works, page.stores).set_index(["workload", "store"])
        for key, expected in PUBLISHED.items():
            if key in beside.index:
                assert tuple(beside.loc[key, ["published", "over redb"]]) == expected
        measured = {name for name in page.stores if name in KNOWN and KNOWN[name].available}
        rows = beside.reset_index()
        rows = rows[rows.store.isin(measured) & (rows.workload != "compacted size")]
        assert rows.here.all()
        assert not beside.xs("sled", level="store").here.any()
    if "redb" in data.stores():
        summary = page.over_redb(TIMES)
        assert set(summary.work) == {work.name for work in TIMES}
        assert (summary[summary.store == "redb"]["median"] == 1).all()
    assert set(page.scaling().readers) == {4, 8}
    assert len(redb_2026.differences(page, data)) > 10
    judged = redb_2026.judge(page, out)
    assert list(judged.published) == [
        "0.64", "1.74", "1.51", "1.28", "1.48", "2.08", "1.65", "1.15", "1.12", "1.22"
    ]  # fmt: skip
    # The source removes in one transaction, and LMDB has no call for compaction.
    known = ~judged.index.isin([7, 9])
    assert (judged.verdict[~known] == "out of scope").all()
    if set(page.stores) - {"sled"} <= set(data.stores()):
        assert judged.here[known].all()
