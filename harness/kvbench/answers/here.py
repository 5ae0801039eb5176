"""Measures the candidates of an answer on this machine."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.answers.advise import Query
from kvbench.common.messages import BadInput
from kvbench.experiment.grid import Grid
from kvbench.machine.scratch import clear_dead, own_folder
from kvbench.results.folder import Folder
from kvbench.results.frames import Frames
from kvbench.results.measured import Measured
from kvbench.stats.regret import LOOKS
from kvbench.stores import catalogue
from kvbench.sweep.sweep import Sweep

TRIALS = f"{min(LOOKS)}-{max(LOOKS)}"


class Here(NamedTuple):
    """The outcome of a measurement: its data, or None if no trial has all candidates; and `why` it
    ended before the best stores were known, empty if they are known."""

    data: Measured | None
    why: str
    interrupted: bool


def measure(query: Query, candidates: Sequence[str], seconds: float, out: Path | None) -> Here:
    """Measure the candidates trial by trial, until the best are known or `seconds` have passed.
    Results go to the folder `out`, or to one that is removed. Only trials that have all candidates
    count."""
    values = {
        "stores": list(candidates), "record_sizes": [query.size], "records": [query.records],
        "operations": list(query.mix), "durability": [query.durability],
        "memory": [query.memory], "trials": TRIALS,
    }  # fmt: skip
    grid = Grid.from_values(values, catalogue.names())
    with contextlib.ExitStack() as stack:
        if (folder := out) is None:
            clear_dead(Path())
            own, _ = stack.enter_context(own_folder(Path()))
            folder = own / "results"
        job = Sweep([grid], folder, probe=False)
        job.run(sitting=seconds)
        collected = Frames.of(Folder(folder).tables(), "what was measured here")
    lost = sorted({reason for (status, reason) in job.reasons if status not in ("ok", "to do")})
    why = f"some cells failed: {lost[0]}" if lost else ""
    if job.stopped:
        why = "it was interrupted" if job.interrupted else f"its {seconds:g} s were over"
    try:
        found = Measured(collected)
    except BadInput:
        return Here(None, why, job.interrupted)
    counts = found.rows.groupby("trial").store.nunique()
    whole = counts.index[counts == len(candidates)]
    found.rows = found.rows[found.rows.trial.isin(whole)]
    return Here(None if found.rows.empty else found, why, job.interrupted)
