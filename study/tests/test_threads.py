"""The experiment with several threads, at a tiny scale, and its analysis."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from kvbench.cell.factors import LEVELS

from study.common.results import Results
from study.experiments import threads


@pytest.mark.check
def test_the_study_shows_what_each_number_of_threads_gains(tiny: Callable[[str], Path]) -> None:
    data = Results(str(tiny("threads")), varying=LEVELS)
    found = threads.rows(data)
    read = found[found.kind == threads.READS].groupby("store").number.agg(list)
    assert all(sorted(numbers) == [1, 2] for numbers in read)
    assert {"flat", "null"} <= set(read.index)
    assert "flat" not in set(found[found.kind == threads.BESIDE].store)
    gains = threads.gains(found)
    alone = gains[(gains.number == 1) & (gains.kind != threads.BESIDE)]
    assert (alone["median"] == 1).all()
    assert (found.least <= 1).all()
    assert (found.most >= 1).all()
    assert set(threads.fairness(found).store) == set(read.index)
    assert threads.facts(gains, data)["threads"] == 2
    assert len(threads.draw(gains, data).axes) >= len(read)
    plt.close("all")


def test_synced_writers_are_compared_with_one_synced_writer() -> None:
    data = Results("data/threads", varying=LEVELS)
    found = threads.rows(data)
    levels = found[found.store != "null"].groupby("kind").durability.agg(set)
    assert levels.to_dict() == {
        kind: {"sync" if kind == threads.SYNCED else "process"} for kind in threads.KINDS
    }
    gains = threads.gains(found)
    alone = gains[(gains.number == 1) & (gains.kind == threads.SYNCED)]
    assert len(alone) > 10 and (alone["median"] == 1).all()
    said = threads.facts(gains, data)["synced"]
    crowded = gains[(gains.kind == threads.SYNCED) & (gains.number == int(said["number"]))]
    doubled = set(crowded.store[crowded.low > 2])
    assert doubled and all(store in said["doubled"] for store in doubled)
    assert said["least_store"] not in doubled and float(said["least"]) <= float(said["most"]) <= 2
