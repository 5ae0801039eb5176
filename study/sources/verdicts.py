"""Verdicts: published claims tested on collected data.

A claim is a figure with a limit, at its source's settings and at equal settings; claims.csv in each
source's folder has all claims.

A figure is computed trial by trial, so that both sides of a ratio have the same seed. Its mean has
a 95% confidence interval by Student's t. The claim is replicated if the whole interval satisfies
the limit, contradicted if none of it does, and otherwise inconclusive, as it is with one trial. It
is out of scope if the data for it were not measured, or cannot be measured here.
"""

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kvbench.cell.factors import DEFAULT, UNCAPPED
from kvbench.experiment.factors import NOT_STATED
from kvbench.results.frames import OF_CELL, Frames, refuse_several
from kvbench.results.warm import WARM
from kvbench.stats.intervals import Interval, mean_interval

from study.common import formats
from study.common.fields import longest_share, quantiles, where, written
from study.common.results import Results

HOLDS, FAILS, OPEN = "replicated", "contradicted", "inconclusive"
SCOPE = "out of scope"
OWN = "this paper"  # the `source` of our own questions
LARGEST = ("efficiency", "rate", "longest_share")  # columns whose largest value counts
LIMITS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le
}  # fmt: skip


# Columns of cells that are renamed because operations, or machines, have one of the same name.
OF_WHOLE = {"disk_bytes": "closed_bytes", "wall_s": "cell_s", "memory_bytes": "peak_bytes"}
RATIOS = {
    "ns": ("sum_ns", "items"),
    "rate": ("items", "wall_s"),
    "amplification": ("written", "user_bytes"),
    "space": ("closed_bytes", "live_bytes"),
    "efficiency": ("live_bytes", "closed_bytes"),
}


class Missing(Exception):  # noqa: N818 - not an error: it becomes the reason of a verdict
    """The data that a figure needs were not measured; the text says why."""


def load(folders: Mapping[str, Path], evidence: Path) -> pd.DataFrame:
    """Return the operations of all experiments: one row per trial and operation, with the columns
    of Frames for both and with `experiment`, its name; `memory_of_machine` (B) and `processors`;
    `written` and `written_by`, as fields.written() adds them; `filled`, the fill of its workload;
    `user_bytes` (B), keys and values; the ratios RATIOS; `longest_share` (1) of the slowest call;
    `cpu` (1, processor time over wall time); and `syncs_per_write`, `crashes` and `survived_kill`
    of the table `evidence`. The columns in OF_WHOLE have the names that it gives them. Cells that
    were not measured have one row without an operation."""
    tables = []
    for name, folder in folders.items():
        frames = Frames.read(folder)
        refuse_several(frames.operations, folder, ())
        cells = frames.cells.rename(columns=OF_WHOLE)
        machine = frames.machines.set_index("machine")
        cells["memory_of_machine"] = cells.machine.map(machine.memory_bytes)
        cells["processors"] = cells.machine.map(machine.cores)
        timed = frames.operations.drop(columns=list(OF_CELL[1:]))
        tables.append(cells.merge(timed, on="cell", how="left").assign(experiment=name))
    rows = written(pd.concat(tables, ignore_index=True))
    rows["filled"] = rows.workload.str.extract("^(fillseq|fillrandom)", expand=False)
    mean = (rows.record_size_min + rows.record_size_max) / 2
    keys = pd.to_numeric(rows.key_size, errors="coerce")  # an import may not state it
    rows["user_bytes"] = rows["items"] * (keys + mean)
    for column, (above, below) in RATIOS.items():
        rows[column] = rows[above] / rows[below]
    rows["longest_share"] = longest_share(rows)
    rows["cpu"] = (rows.user_s + rows.system_s) / rows.wall_s
    shown = pd.read_csv(evidence)
    known = shown[["store", "durability", "syncs_per_write", "crashes", "survived_kill"]]
    return rows.merge(known, on=["store", "durability"], how="left")


@dataclasses.dataclass(frozen=True)
class Side:
    """The rows of one operation of one store. `rank` gives a record count as its position among
    those measured, so that a claim can be tested at every scale."""

    experiment: str
    operation: str
    where: Mapping[str, Any]

    @property
    def store(self) -> str:
        return str(self.where["store"])

    def rows(self, data: pd.DataFrame) -> pd.DataFrame:
        wanted = dict(self.where)
        rank = wanted.pop("rank", None)
        cells = where(data, experiment=self.experiment, **wanted)
        measured = where(cells, status="ok", operation=self.operation)
        counts = sorted(set(measured.records))
        if rank is not None and -len(counts) <= rank < len(counts):
            measured = measured[measured.records == counts[rank]]
        if measured.empty:
            reasons = sorted(set(cells[cells.status != "ok"].reason))
            why = reasons[0] if reasons else "not measured"
            raise Missing(f"{self.store}: {why}")
        if measured.groupby("trial").size().max() > 1:
            raise ValueError(f"{self}: more than one cell a trial")
        return measured.set_index("trial").sort_index()

    def __str__(self) -> str:
        return f"{self.operation} of {self.store}"


def side(experiment: str, store: str, operation: str, **where: Any) -> Side:
    return Side(experiment, operation, {"store": store, **where})


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number for each trial. `sides` are the rows that it is computed from, for which reasons are
    given. `share` is the contribution of a single field to a share of fields: even if all trials
    agree, the share is uncertain by that much."""

    text: str
    values: Callable[[pd.DataFrame], pd.Series]
    sides: tuple[Side, ...]
    share: Callable[[pd.DataFrame], float] | None = None

    def interval(self, data: pd.DataFrame) -> Interval:
        mean = mean_interval(self.values(data).replace([np.inf, -np.inf], np.nan))
        if self.share is None or mean.n < 2:
            return mean
        one = self.share(data)
        low, high = min(mean.low, mean.mean - one), max(mean.high, mean.mean + one)
        return mean._replace(low=max(low, 0.0), high=min(high, 1.0))


def value(one: Side, column: str, name: str) -> Figure:
    """Return the figure that is a column of one side."""
    return Figure(f"{name}, {one}", lambda data: one.rows(data)[column], (one,))


def ratio(
    above: Side, below: Side, column: str = "ns", name: str = "time", text: str = ""
) -> Figure:
    """Return the figure that is a column of one side over that of another, trial by trial."""
    same = above.operation == below.operation and above.store != below.store
    what = f"{name}, {above.operation}: " if same else f"{name}: "
    shown = f"{above.store} / {below.store}" if same else f"{above} / {below}"
    sides = value(above, column, ""), value(below, column, "")
    return dataclasses.replace(over(*sides), text=text or what + shown)


def over(above: Figure, below: Figure) -> Figure:
    """Return the ratio of two figures."""
    text = f"({above.text}) / ({below.text})"
    sides = above.sides + below.sides
    return Figure(text, lambda data: (above.values(data) / below.values(data)).dropna(), sides)


def combined(figures: Sequence[Figure], how: str, text: str) -> Figure:
    """Return the `min`, `max` or `median` of several figures in each trial."""

    def values(data: pd.DataFrame) -> pd.Series:
        table = pd.concat([figure.values(data) for figure in figures], axis=1).dropna()
        found: pd.Series = table.agg(how, axis=1)
        return found

    return Figure(text, values, tuple(side for figure in figures for side in figure.sides))


def tail(one: Side, share: float) -> Figure:
    """Return a quantile that the tables do not have, computed from the histogram."""
    text = f"P{share * 100:g} [ns], {one}"
    return Figure(text, lambda data: quantiles(one.rows(data), share), (one,))


@dataclasses.dataclass(frozen=True)
class Fields:
    """The fields of a grid: record size, count, kind of data, operation. `by` is the factor whose
    levels are compared, each in a column. Over factors that vary otherwise (compression, for
    example) the least value counts, or the largest for the columns LARGEST. Fields that lack a
    level are left out, and so are rows whose levels are all in `but`."""

    experiment: str
    by: str
    levels: tuple[Any, ...]
    name: str
    where: Mapping[str, Any]
    column: str = "ns"
    but: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def largest(self) -> bool:
        return self.column in LARGEST

    def table(self, data: pd.DataFrame) -> pd.DataFrame:
        keys = ["record_size", "records", "compressibility", "operation", "trial", "store"]
        kept = (data.experiment == self.experiment) & (data.status == "ok")
        kept &= _with(data, self.where)
        if self.but:
            kept &= ~_with(data, self.but)
        rows = data[kept & data[self.by].isin(self.levels)]
        keys = [key for key in keys if key != self.by]
        grouped = rows.groupby([*keys, self.by])[self.column]
        table = (grouped.max() if self.largest else grouped.min()).unstack(self.by)
        lacking = [level for level in self.levels if level not in table]
        table = pd.DataFrame() if lacking else table.dropna()
        if table.empty:
            lacked = (
                f": {', '.join(str(formats.level(one)) for one in lacking)} not measured"
                if lacking
                else ""
            )
            failed = f" ({reason})" if (reason := self._failed(data, lacking)) else ""
            raise Missing(f"{self.name}: not measured on this scale{lacked}{failed}")
        return table[list(self.levels)]

    def _failed(self, data: pd.DataFrame, lacking: Sequence[Any]) -> str:
        """Return why cells of these levels failed; empty if none did."""
        where = {name: level for name, level in self.where.items() if name != "operation"}
        cells = data[(data.experiment == self.experiment) & (data.status == "failed")]
        cells = cells[_with(cells, where) & cells[self.by].isin(lacking)]
        return "; ".join(sorted(set(cells.reason)))

    def figure(self, text: str, of: Callable[[pd.DataFrame], pd.Series], how: str) -> Figure:
        """Return the figure that computes `of` for each field of the table and aggregates the
        fields of each trial by `how`."""

        def values(data: pd.DataFrame) -> pd.Series:
            by_trial: pd.Series = of(self.table(data)).groupby("trial").agg(how)
            return by_trial

        return Figure(text, values, ())


def _with(data: pd.DataFrame, factors: Mapping[str, Any]) -> Any:
    """Return which rows have, for each of these factors, the level or one of the tuple of
    levels."""
    kept = pd.Series(True, data.index)
    for name, wanted in factors.items():
        kept &= data[name].isin(wanted if isinstance(wanted, tuple) else (wanted,))
    return kept


def levels(
    experiment: str,
    by: str,
    several: Sequence[Any],
    name: str,
    column: str = "ns",
    but: Mapping[str, Any] | None = None,
    **where: Any,
) -> Fields:
    """Return the fields of an experiment with the levels `several` of the factor `by` in its
    columns."""
    return Fields(experiment, by, tuple(several), name, where, column, but or {})


def share(fields: Fields, winners: Sequence[Any], slack: float = 1.0) -> Figure:
    """Return the share of fields in which the best of the winners is the best of all, or within a
    factor of it."""
    within = f" within {slack - 1:.0%} of the best" if slack > 1 else " best"
    found = fields.figure(
        f"share of fields ({fields.name}) with {' or '.join(winners)}{within}",
        lambda table: table[list(winners)].min(axis=1) <= slack * table.min(axis=1),
        "mean",
    )
    return dataclasses.replace(
        found, share=lambda data: 1 / fields.table(data).groupby("trial").size().min()
    )


def middle(fields: Fields, most: bool = False) -> Figure:
    """Return the median, or with `most` the maximum, over the fields of the first level's value
    over the second's."""
    above, below = fields.levels[:2]
    which = "greatest" if most else "median"
    text = f"{which} over fields ({fields.name}): {formats.level(above)} / {formats.level(below)}"
    how = "max" if most else "median"
    return fields.figure(text, lambda table: table[above] / table[below], how)


def spread(fields: Fields) -> Figure:
    """Return the median over the fields of the greatest level's value over the least's."""
    text = f"median over fields ({fields.name}): greatest / least"
    return fields.figure(text, lambda table: table.max(axis=1) / table.min(axis=1), "median")


def ahead(fields: Fields, store: str, place: int, alone: bool = False) -> Figure:
    """Return the median over the fields of how many times as good a store is as the other store at
    this place, counted from the best of the others (1). Above 1, the store has this place or a
    better one. With `alone`, the result exceeds 1 only if the store has exactly this place: each
    field counts with the lesser of the ratio and of how many times as good the store one place
    ahead is."""

    def of(table: pd.DataFrame) -> pd.Series:
        own, others = table[store], np.sort(table.drop(columns=store).to_numpy(), axis=1)
        best = others[:, ::-1] if fields.largest else others
        ratio: pd.Series = own / best[:, place - 1] if fields.largest else best[:, place - 1] / own
        if alone and place > 1:
            better = best[:, place - 2] / own if fields.largest else own / best[:, place - 2]
            ratio = np.minimum(ratio, better)
        return ratio

    which = "the best" if place == 1 else f"number {place}"
    bounded = f", or number {place - 1} as good as it, the lesser" if alone and place > 1 else ""
    text = f"times as good as {which} of the others{bounded} ({fields.name}): {store}"
    return fields.figure(text, of, "median")


@dataclasses.dataclass(frozen=True)
class Limit:
    """The limit of a figure. `number` is what the figure is compared with; for "within", `factor`
    is the factor around it. `theirs` says that the source states the number, or asks only which of
    two values is larger."""

    sign: str
    number: float
    factor: float = 1.0
    theirs: bool = False
    once: bool = False  # for claims with "can" or "up to": one trial shows them, none refutes them

    def holds(self, found: float) -> bool:
        if self.sign == "within":
            return self.number / self.factor <= found <= self.number * self.factor
        return bool(LIMITS[self.sign](found, self.number))

    def verdict(self, low: float, high: float) -> str:
        """Return the verdict on a figure that lies between `low` and `high`. What a limit allows
        has no gaps."""
        ends = self.holds(low), self.holds(high)
        if all(ends):
            return HOLDS
        straddles = self.sign == "within" and low < self.number < high
        return OPEN if any(ends) or straddles else FAILS

    def __str__(self) -> str:
        whose = (
            "" if self.theirs or (self.number == 1 and self.sign in "<>") else ", threshold ours"
        )
        if self.sign == "within":
            ends = (self.number / self.factor, self.number * self.factor)
            low, high = (f"{end:,.0f}" if end >= 1000 else f"{end:.3g}" for end in ends)
            return f"from {low} to {high}{whose}"
        return f"{self.sign} {self.number:g}{whose}"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim. `claim` is in our own words; `place` says where the source has it. `source` and
    `equal` are the same figure at the source's settings and at equal settings. A text in their
    place says why there is no figure; without `equal`, the sides of the source differ only in what
    the claim is about. `processors` is the number of processors without which the claim cannot
    hold: on fewer, its figure is shown but not judged. Nor is it if `unlike` says how what was
    measured differs from what the claim is about."""

    id: str
    document: str
    place: str
    claim: str
    source: Figure | str
    equal: Figure | str | None
    limit: Limit
    published: str = ""  # the source's own figure
    note: str = ""  # what the data cannot show
    processors: int = 1
    unlike: str = ""


NOTHING = mean_interval([])


@dataclasses.dataclass(frozen=True)
class Answer:
    verdict: str
    why: str
    interval: Interval = NOTHING


def answer(figure: Figure | str, limit: Limit, data: pd.DataFrame) -> Answer:
    if isinstance(figure, str):
        return Answer(SCOPE, figure)
    try:
        interval = figure.interval(data)
        facts = [fact(one, data) for one in figure.sides]
    except Missing as missing:
        return Answer(SCOPE, str(missing))
    if not interval.n:
        two = len(figure.sides) > 1
        return Answer(SCOPE, f"no trial has {'both sides' if two else 'this figure'}")
    if limit.once:
        verdict = HOLDS if figure.values(data).map(limit.holds).any() else OPEN
        if verdict == OPEN:
            facts.insert(0, "in no trial")
    elif interval.n == 1:
        verdict = OPEN
        facts.insert(0, "one trial has no interval")
    else:
        verdict = limit.verdict(interval.low, interval.high)
        if verdict == OPEN:
            facts.insert(0, "the interval includes the limit")
    return Answer(verdict, "; ".join(dict.fromkeys(facts)), interval)


def fact(one: Side, data: pd.DataFrame) -> str:
    """Return what the harness knows of a side besides its figure, in words."""
    rows = one.rows(data)
    first = rows.iloc[0]
    words = [f"durability {formats.stated(first.guarantee)}"]
    writes = not one.operation.startswith(("read", "get"))
    if writes and np.isfinite(first.syncs_per_write):
        # Sync calls were counted without options.
        bare = "" if first.options in ("", NOT_STATED) else " without its options"
        words.append(f"{first.syncs_per_write:.3g} syncs a write{bare}")
    amplification = rows.amplification.median()
    if writes and np.isfinite(amplification):
        words.append(f"{amplification:.1f} B written a byte ({first.written_by})")
    if np.isfinite(first.cpu):
        words.append(f"{rows.cpu.median():.2f} processors busy")
    if rows.resident.min() < WARM:
        words.append(f"only {rows.resident.min():.0%} of its files in the page cache")
    caps = {UNCAPPED: "", NOT_STATED: f", cap {NOT_STATED}"}
    cap = caps.get(first.memory_max, f", capped at {first.memory_max}")
    share_ = first.live_bytes / first.memory_of_machine
    words.append(f"data {formats.share(share_)} of memory{cap}")
    changed = [
        f"{name} {NOT_STATED}" if first[name] == NOT_STATED else str(first[name])
        for name in ("memory", "compression", "options")
        if first[name] not in (DEFAULT, "")
    ]
    return f"{one}: " + ", ".join(words + changed)


def judge(claims: Sequence[Claim], data: pd.DataFrame) -> pd.DataFrame:
    """Return the table of verdicts, one row per claim; data/README.md describes its columns."""
    rows = []
    for claim in claims:
        row: dict[str, Any] = {
            "id": claim.id,
            "source": claim.document,
            "place": claim.place,
            "claim": claim.claim,
            "published": claim.published,
            "predicate": f"{_text(claim)} {claim.limit}",
        }
        for settings, figure in (("source", claim.source), ("equal", claim.equal)):
            got = answer(claim.source if figure is None else figure, claim.limit, data)
            if got.interval.n and (why := _unjudged(claim, data)):
                got = dataclasses.replace(got, verdict=SCOPE, why=f"{why}; {got.why}")
            row |= {
                f"{settings}_verdict": got.verdict,
                f"{settings}_value": got.interval.mean,
                f"{settings}_low": got.interval.low,
                f"{settings}_high": got.interval.high,
                f"{settings}_trials": got.interval.n,
                f"{settings}_why": got.why,
            }
        rows.append(row | {"note": claim.note})
    return pd.DataFrame(rows)


def _unjudged(claim: Claim, data: pd.DataFrame) -> str:
    """Return why the figures of a claim are shown but not judged; empty if they are judged."""
    if claim.processors > 1 and (here := int(data.processors.min())) < claim.processors:
        return f"measured on {here} processors, the claim needs {claim.processors}"
    return claim.unlike


def _text(claim: Claim) -> str:
    figures = [one for one in (claim.source, claim.equal) if isinstance(one, Figure)]
    return figures[0].text if figures else "no figure"


def machines(results: Mapping[str, Results]) -> str:
    """Return the machines that measured some experiments, each with the names of the experiments,
    as text."""
    named: dict[str, list[str]] = {}
    for name, data in results.items():
        one = data.machine
        description = f"{one.cpu}, {one.cores} cores, {one.kernel}, {one.file_system}"
        named.setdefault(description, []).append(name)
    return "; ".join(f"{description} ({', '.join(names)})" for description, names in named.items())


def effects(table: pd.DataFrame) -> pd.DataFrame:
    """Return the claims with a published ratio and a ratio measured at the source's settings: one
    row per published figure, `printed`. Two versions of a source may print one each."""
    texts = table.published.str.replace(",", "").str.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w%])")
    plain = table.published.str.fullmatch(r"[\d.,]+( and [\d.,]+)?")
    rated = table.assign(printed=texts)[plain & table.source_value.notna()].explode("printed")
    return rated.assign(printed=rated.printed.astype(float))


def headlines(table: pd.DataFrame, claims: Sequence[str], names: Mapping[str, str]) -> pd.DataFrame:
    """Return some claims, by their `id`, with what was published and what was measured, as text.
    `names` are the names of the sources."""
    chosen = table.set_index("id").loc[list(claims)].reset_index()
    return pd.DataFrame(
        {
            "source": chosen.source.map(names),
            "claim": chosen.claim,
            "published": chosen.published,
            "at the source's settings": _short(chosen, "source"),
            "at equal settings": _short(chosen, "equal"),
        }
    )


def known(table: pd.DataFrame, claims: Sequence[str]) -> dict[str, int]:
    """Return, for the text, the number of these claims, of those that are replicated at the
    source's and at equal settings, and of those that equal settings contradict."""
    chosen = table.set_index("id").loc[list(claims)]
    return {
        "claims": len(chosen),
        "source": int((chosen.source_verdict == HOLDS).sum()),
        "equal": int((chosen.equal_verdict == HOLDS).sum()),
        "against": int((chosen.equal_verdict == FAILS).sum()),
    }


def measured(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return, for the text, the figures of each claim with their intervals, by its `id`."""
    return {
        row["id"].replace("-", "_").replace(".", "_"): {
            settings: _figure(row, settings)
            for settings in ("source", "equal")
            if row[f"{settings}_trials"]
        }
        for row in table.to_dict("records")
    }


def _short(table: pd.DataFrame, settings: str) -> list[str]:
    """Return verdicts with their figures, without the reasons for missing ones."""
    return [
        _told(row, settings) if row[f"{settings}_trials"] else str(row[f"{settings}_verdict"])
        for row in table.to_dict("records")
    ]


def listing(table: pd.DataFrame, sources: Sequence[str]) -> str:
    """Return the verdicts on the claims of some sources, and on our own questions beside them, as a
    Markdown table."""
    beside = table.source.where(table.source != OWN, table.place.str.split(",").str[0])
    chosen = table[beside.isin(sources)]
    notes = chosen.note.map(lambda note: f" ({note})" if note else "")
    shown = pd.DataFrame(
        {
            "place": chosen.place,
            "claim": chosen.claim + notes + ". *" + chosen.predicate + "*",
            "published": chosen.published,
            "at the source's settings": [_told(row, "source") for row in chosen.to_dict("records")],
            "at equal settings": [_told(row, "equal") for row in chosen.to_dict("records")],
        }
    )
    return formats.table(shown, list(map(str, shown)), disable_numparse=True)


def _figure(row: Mapping[Any, Any], settings: str) -> str:
    """Return a figure with its interval as text; a figure of one trial has no interval."""
    value, low, high = (
        formats.number(row[f"{settings}_{name}"]) for name in ("value", "low", "high")
    )
    return f"{value} ({low} to {high})" if row[f"{settings}_trials"] > 1 else value


def _told(row: Mapping[Any, Any], settings: str) -> str:
    """Return a verdict with its figure, or with the reason why there is none."""
    verdict, why, trials = (row[f"{settings}_{name}"] for name in ("verdict", "why", "trials"))
    if not trials:
        return f"{verdict}: {formats.escape(why)}"
    return f"**{verdict}**{', one trial:' if trials == 1 else ''} {_figure(row, settings)}"
