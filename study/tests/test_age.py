"""The experiment with stores that grow old, at a tiny scale, and its analysis."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from kvbench.cell.factors import LEVELS

from study.common.results import Results
from study.experiments import age


@pytest.mark.check
def test_the_study_shows_how_each_store_grows_old(tiny: Callable[[str], Path]) -> None:
    data = Results(str(tiny("age")), varying=LEVELS)
    rows = age.seconds(data)
    assert age.window(data) == age.LEAST_WINDOW
    assert rows.groupby("cell").n.count().min() >= 5
    # Six seconds are too short for five windows of three seconds.
    assert set(age.verdicts(rows, 3).values()) == {"not steady after 0.1 minutes"}
    assert not age.lost(data)
    peaks = age.peaks(data)
    assert len(peaks) == len(data.cells)
    # At least the bytes of the values: keys that are names of files may take no space of their own.
    cells = data.cells.set_index("cell")
    values = cells.live_bytes - cells.live_records * cells.key_size
    assert (peaks * cells.live_bytes >= values).all()
    ends = age.ends(data)
    assert len(ends) == 2 * len(data.stores())
    live = data.cells.live_records / data.cells.records
    assert live.between(0.85, 1).all()
    for figure in (age.draw_rates(data, rows, 1), age.draw_space(data, rows)):
        assert len(figure.axes) >= len(data.stores())
    plt.close("all")
