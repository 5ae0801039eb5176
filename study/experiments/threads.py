"""Several threads on one store: what additional readers and writers gain, and what each gets."""

import math
from typing import Any

import pandas as pd
from kvbench.cell.workload import TRAFFIC, parse
from kvbench.experiment.factors import NOT_STATED
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from study.common import figures, formats, levels
from study.common.fields import each, over_trials, ranked, where
from study.common.results import Results

READS, BESIDE, WRITES = "reads alone", "reads beside a writer", "writes alone"
SYNCED = "synced writes alone"
WRITERS = (WRITES, SYNCED)
KINDS = (READS, BESIDE, *WRITERS)
COLUMNS = 5  # of the small charts


def rows(data: Results, step: str = TRAFFIC) -> pd.DataFrame:
    """Return one row per trial and side of a step, with the further columns `kind`; `number` of
    threads;
    `rate` in thousand operations per second; and the operations of the slowest and the fastest
    thread over the average of all, `least` and `most`. Cells that the machine's host disturbed are
    left out, because a thread without a processor would look like a slow store. Raises BadInput."""
    found = data.operations[~data.operations.disturbed]
    found = found[found.operation.isin([f"{step} read", f"{step} write"])]
    threads = {text: parse(text)[-1].threads() for text in found.workload.unique()}
    readers, writers = (found.workload.map(lambda text, i=i: threads[text][i]) for i in (0, 1))
    reads = found.operation == f"{step} read"
    kind = reads.map({True: BESIDE, False: ""})  # a writer beside readers has no kind
    alone, synced = ~reads & (readers == 0), found.durability == "sync"
    kind = kind.mask(reads & (writers == 0), READS)
    kind = kind.mask(alone & ~synced, WRITES).mask(alone & synced, SYNCED)
    shown: pd.DataFrame = found.assign(
        kind=kind,
        number=readers.where(reads, writers),
        rate=found.n / found.wall_s / 1000,
        least=found.least_share * found.threads,
        most=found.most_share * found.threads,
    )
    data.require(shown, "rate of threads")
    return shown[shown.kind != ""]


def rates(found: pd.DataFrame) -> pd.DataFrame:
    """Return the over_trials() summary of the rates: one panel per kind, one level per number of
    threads."""
    named = found.assign(panel=found.kind, level=found.number)
    return over_trials(named, "rate", ["panel", "store", "level"])


def gains(found: pd.DataFrame) -> pd.DataFrame:
    """Return the over_trials() summary of the rate over that of one thread in the same trial: one
    reader without a writer, or one writer of the same level."""
    key = ["store", "trial"]
    alone = where(found, number=1).rename(columns={"rate": "one", "cooled": "one_cooled"})
    alone = alone.set_index(key)[["kind", "one", "one_cooled"]]
    parts = []
    for kind in KINDS:
        base = where(alone, kind=READS if kind == BESIDE else kind).drop(columns="kind")
        own = where(found, kind=kind).join(base, on=key)
        cooled = own.cooled | own.one_cooled.eq(True)
        parts.append(own.assign(gain=own.rate / own.one, cooled=cooled))
    return over_trials(pd.concat(parts), "gain", ["kind", "store", "number"])


def fairness(found: pd.DataFrame) -> pd.DataFrame:
    """Return the operations of the slowest and the fastest thread over the average, at the greatest
    number of threads: one row per store, one column per kind, medians over the trials as text."""
    text: dict[str, pd.Series[str]] = {}
    for kind in [kind for kind in KINDS if kind in set(found.kind)]:
        own = where(found, kind=kind)
        own = where(own, number=own[own.store != "null"].number.max())
        ends = own.groupby("store")[["least", "most"]].median()
        said = [f"{end.least:.2f} to {end.most:.2f}" for end in each(ends)]
        text[f"{kind}, {own.number.max()} threads"] = pd.Series(said, ends.index)
    table = pd.DataFrame(text).fillna(NOT_STATED)
    return table.rename_axis("store").reset_index()


def _cores(found: pd.DataFrame, data: Results) -> int:
    """Return the number of the machine's cores, or the greatest number of threads if an import does
    not state it."""
    known = data.machine.cores
    return int(found.number.max() if pd.isna(known) else known)


def draw(found: pd.DataFrame, data: Results, *lines: str) -> Figure:
    """Draw one chart per store: the gain over the number of threads, one line per kind. The grey
    part has more threads than the machine has cores."""
    stores, cores = data.stores(), _cores(found, data)
    columns, most = min(COLUMNS, len(stores)), max(int(found.number.max()), 2)
    figure, axes = figures.grid(math.ceil(len(stores) / columns), columns, 1.25)
    handles: dict[str, Any] = {}
    numbers = sorted(found.number.unique())
    limits = min(found.low.min(), 0.5) / 1.2, max(found.high.max(), cores) * 1.2
    for axis, store in zip(axes.flat, stores, strict=False):
        if cores < most:
            axis.axvspan(cores, most * 1.15, color="#eeeeee", zorder=0)
        ends = [1, min(cores, most), most]
        axis.plot(ends, [min(end, cores) for end in ends], color="#777777", linewidth=0.6, ls=":")
        for kind, (ink, mark) in zip(KINDS, figures.LEVEL_STYLES[1:], strict=False):
            own = where(found, store=store, kind=kind).sort_values("number")
            look: Any = {"color": ink, "marker": mark, "markersize": 3, "linewidth": 0.9}
            handles[kind] = figures.draw_points(axis, own.number, own, elinewidth=0.7, **look)
            figures.ring(axis, own.number, own["median"], own.cooled)
        axis.set_title(store)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set(xlim=(0.87, most * 1.15), ylim=limits)
        axis.yaxis.set_major_locator(FixedLocator([0.01, 0.1, 0.5, 1, 2, 4, 8]))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_xticks(numbers, [str(number) for number in numbers])
        axis.minorticks_off()
    for axis in axes.flat[len(stores) :]:
        axis.set_axis_off()
    for at in range(columns):  # below the last chart of each column
        axes.flat[max(range(at, len(stores), columns))].set_xlabel("threads")
        axes.flat[max(range(at, len(stores), columns))].xaxis.set_tick_params(labelbottom=True)
    for row in axes:
        row[0].set_ylabel("rate / one thread's")
    figures.legend(figure, handles)
    figures.foot(figure, data, *lines, settings=False)
    return figure


def facts(found: pd.DataFrame, data: Results) -> dict[str, Any]:
    """Return, for the text, the stores that gain least and most with as many threads as the machine
    has cores, and the share of one reader's rate that remains beside a writer. Of synced writers,
    which wait for the device, the greatest number counts: the stores that each trial found more
    than twice as fast as with one (`doubled`), and the extremes of the others. The null store is
    left out, and stores with a trial of these that was not warm are not ranked but named."""
    cores = _cores(found, data)
    found = found[found.store != "null"]
    crowded, synced = (
        own[own.number == own.number.max()].sort_values("median")
        for own in (where(ranked(found), kind=kind) for kind in WRITERS)
    )
    doubled = synced.low > 2
    own = found[found.number <= cores]
    most = {kind: 1 if kind == BESIDE else where(own, kind=kind).number.max() for kind in KINDS}
    own = own[own.number == own.kind.map(most)]
    readers, beside, writers = (
        where(ranked(own), kind=kind).set_index("store")["median"].sort_values()
        for kind in (READS, BESIDE, WRITES)
    )
    return {
        "cores": data.facts()["cores"],
        "threads": int(own.number.max()) if len(own) else 0,
        "cooled": formats.listed(sorted(set(own.store[own.cooled.eq(True)])), "and") or "none",
        "trials": data.trials,
        **data.host(),
        "readers": levels.extremes(readers, ".2f", ".2f"),
        "writers": levels.extremes(writers, ".2f", ".2f"),
        "beside": levels.extremes(beside, ".2f", ".2f"),
        "crowded": levels.extremes(crowded.set_index("store")["median"], ".1g"),
        "synced": {
            "number": formats.stated(synced.number.max(), "{:.0f}"),
            "doubled": formats.listed(sorted(synced.store[doubled]), "and") or "none",
            **levels.extremes(synced[~doubled].set_index("store")["median"], ".2f", ".2f"),
        },
    }
