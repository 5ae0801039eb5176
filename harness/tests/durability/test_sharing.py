"""Whether a second process may use a store that is open: what the engines' manuals say is seen."""

from pathlib import Path

import pandas as pd
import pytest
from kvbench.durability.sharing import NO, YES
from support import AVAILABLE, Run

SEEN = {  # whether a second process may open the store, and whether it sees what the first inserts
    "flat": (True, True),
    "sqlite": (True, True),
    "lmdb": (True, True),
    "mdbx": (True, True),
    "leveldb": (False, False),
    "rocksdb": (False, False),
    "wiredtiger-btree": (False, False),
    "redb": (False, False),
    "fjall": (False, False),
}


@pytest.mark.check
@pytest.mark.parametrize("store", SEEN)
def test_a_second_process_may_do_what_the_engine_allows(
    store: str, kvbench: Run, tmp_path: Path
) -> None:
    if store not in AVAILABLE:
        pytest.skip("not available here")
    done = kvbench("sharing", store, "--out", tmp_path / "sharing.csv", "--place", tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = pd.read_csv(tmp_path / "sharing.csv", keep_default_na=False).to_dict("records")
    opens, sees = SEEN[store]
    assert row["intact"] == YES
    if opens:
        assert (row["opens"], row["reads"], row["writes"]) == (YES, YES, YES)
        assert row["sees_new"] == (YES if sees else NO)
    else:
        assert row["opens"].startswith("refused: ")
        assert (row["reads"], row["sees_new"], row["writes"]) == ("", "", "")


def test_an_unknown_store_is_refused(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("sharing", "mongodb", "--out", tmp_path / "sharing.csv")
    assert done.returncode == 2
    assert "'mongodb' is not a store; allowed: " in done.stderr
