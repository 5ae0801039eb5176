"""Stores at each durability level, compared."""

import pandas as pd

from study.common import levels


def test_levels_are_compared_over_the_stores_that_have_them_all() -> None:
    """b, the slowest as shipped, has no setting for `sync`."""
    times = {"a": (1, 2, 3), "b": (100, 200), "c": (10, 8, 6)}
    rows = [
        {"panel": "100 B", "store": store, "level": level, "median": float(time)}
        for store, own in times.items()
        for level, time in zip(("default", "process", "sync"), own, strict=False)
    ]
    found = levels.spreads(pd.DataFrame(rows), ["100 B"], ["default", "process", "sync"])
    assert found.compared.tolist() == ["as shipped", "process", "sync"]
    assert found.factor.tolist() == [10, 4, 2]
    assert found.slowest.tolist() == ["c"] * 3 and found.stores.tolist() == [2] * 3
