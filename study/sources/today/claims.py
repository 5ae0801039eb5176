"""Today's benchmarks (data/published/claims-2026.csv): claims on TidesDB and fjall.

Claims on redb are judged with its table, in redb_2026/rerun.py. At the source's settings TidesDB
has its own default, which keeps acknowledged writes in the process. Equal settings: writes survive
a crash of the process in every store. fjall's author does not state the durability of the curves,
so these have equal settings only. If a claim compares two stores, a ratio above 1 means that the
store named by the source is ahead; two stores within a factor of 1.25 are equally fast.
"""

from typing import Any

from study.common.fields import each
from study.sources import published
from study.sources.table import Source

EQUAL = "equal durability"
RANGES = {"T-27": "seed time", "T-29": "write amplification"}  # of keybench's factors


def terms(store: str, operation: str, settings: str) -> dict[str, Any]:
    return {"label": settings if store == "tidesdb" else EQUAL}


def factors(quantity: str) -> str:
    """Return the range of keybench's factors of a quantity, RocksDB's over TidesDB's, as text."""
    rows = each(published.table("keybench-2026"))
    found = [
        float(row.value)
        for row in rows
        if (row.store, row.quantity) == ("rocksdb;tidesdb", quantity)
    ]
    return f"{min(found):g} to {max(found):g}"


def text(name: str, row: Any) -> str:
    """Return the claim in our words, or its figure, from the row with the same number in
    claims-2026.csv."""
    if name == "printed" and row.id in RANGES:
        return factors(RANGES[row.id])
    table = each(published.table("claims-2026"))
    own = next(one for one in table if f"T-{one.claim_number}" == row.id)
    return str({"claim": own.claim, "printed": own.value}[name])


SOURCE = Source(__file__, "claims-2026", terms, text=text)
