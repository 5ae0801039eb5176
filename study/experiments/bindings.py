"""Engines called from C and from Python: the time that a call from Python adds."""

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from kvbench.cell.bindings import full_name
from kvbench.cell.factors import DEFAULT, DURABILITY, OPERATIONS, RecordSize
from kvbench.cell.histogram import LOG_WIDTH
from kvbench.common.messages import BadInput
from kvbench.stats.intervals import mean_interval
from kvbench.stats.regret import Regret, by_trial, rank
from kvbench.stores.bindings import BINDINGS
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from study.answers.decision import Need
from study.common import figures, formats
from study.common.fields import each, over_trials, where
from study.common.results import Results

BY = ["operation", "record_size", "store", "binding"]
OWN = [name for name, entry in BINDINGS.items() if not entry.counterpart]
STYLES = (("#D55E00", "--"), ("#0072B2", ":"), ("#009E73", "-."))  # of the bindings of an engine


class Bindings:
    """The engines that were measured from both languages, at the most records of each size.
    Packages that use an engine in their own way have no counterpart in C and are left out.

    `bound` has one row per binding: `engine_version` is the version of the engine that the binding
    contains, `shim` that of the engine behind the shim in C, and `same` says whether they are
    equal. Raises BadInput if no engine was measured from both, or one in several versions.
    """

    def __init__(self, data: Results) -> None:
        rows = data.operations[data.operations.operation.isin(OPERATIONS)]
        rows = rows[~rows.binding.isin(OWN) & rows.p50_ns.notna()]
        reached = {access: set(part.store) for access, part in rows.groupby("access")}
        both = reached.get("c", set()) & reached.get("python", set())
        self.engines = [store for store in data.stores() if store in both]
        if not both:
            raise data.lacking("store with median times from C and from Python")
        self.kind = max(rows.compressibility)  # incompressible, if that was measured
        rows = rows[rows.store.isin(self.engines) & (rows.compressibility == self.kind)]
        most = rows.groupby("record_size").records.transform("max")
        self.rows = rows[rows.records == most]
        self.operations = [name for name in OPERATIONS if name in set(rows.operation)]
        self.sizes = data.sizes()
        self.bound = self._bound(data)
        self.pairs = self._pairs()

    def _bound(self, data: Results) -> pd.DataFrame:
        cells = data.cells[data.cells.store.isin(self.engines) & ~data.cells.binding.isin(OWN)]
        versions = cells.groupby(["store", "binding"])[["binding_version", "engine_version"]]
        if (versions.nunique() > 1).any(axis=None):
            raise BadInput(
                f"{data.folder}: several versions of one engine or binding; allowed: one"
            )
        bound = versions.first().drop("", level="binding", errors="ignore").reset_index()
        shims = where(cells, binding="").groupby("store").engine_version.first()
        bound["shim"] = bound.store.map(shims)
        engines = [str(shim).partition(" (")[0] for shim in bound.shim]  # without the build
        bound["same"] = np.where(bound.engine_version == engines, "yes", "no")
        place = bound.store.map(self.engines.index)
        order: pd.DataFrame = bound.assign(place=place).sort_values(["place", "binding"])
        return order.drop(columns="place")

    def _pairs(self) -> pd.DataFrame:
        """Return the trials from Python, each beside the trial from C with the same seed."""
        key = ["store", "record_size", "records", "compressibility", "trial", "seed", "operation"]
        from_c = where(self.rows, access="c").set_index(key).p50_ns
        assert from_c.index.is_unique
        pairs = where(self.rows, access="python")
        pairs = pairs.join(from_c.rename("c_ns"), on=key).dropna(subset="c_ns")
        return pairs.assign(share=1 - pairs.c_ns / pairs.p50_ns, added_ns=pairs.p50_ns - pairs.c_ns)

    def shares(self) -> pd.DataFrame:
        """Return the over_trials() summary of Python's share of an operation's time. `sure` says
        whether it differs from zero: its range excludes zero, and its median exceeds one bin of the
        histogram from which the medians come."""
        shares = over_trials(self.pairs, "share", BY)
        shares = shares[shares.binding != "null"].merge(
            self.bound[["binding", "same"]], on="binding", validate="m:1"
        )
        apart = (shares.low > 0) | (shares.high < 0)
        return shares.assign(sure=apart & (shares["median"].abs() > np.expm1(LOG_WIDTH)))

    def added(self) -> pd.DataFrame:
        """Return the over_trials() summary of the time that Python adds to an operation, in ns."""
        return over_trials(self.pairs, "added_ns", BY)

    def records(self) -> str:
        """Return the record count of each size, in words."""
        counts = self.rows.groupby("record_size").records.first()
        return ", ".join(f"{formats.count(counts[size])} of {size}" for size in self.sizes)


def draw_times(found: Bindings) -> Figure:
    """Draw one row per engine and one column per operation: the median time against the record
    size."""
    summary = over_trials(found.rows, "p50_ns", BY)
    engines, operations = found.engines, found.operations
    height = 1.05 + 0.1 / len(engines)
    figure, axes = figures.grid(len(engines), len(operations), height)
    means = [RecordSize.parse(size).mean for size in found.sizes]
    for (i, store), (j, operation) in figures.pairs(engines, operations):
        axis = axes[i, j]
        own = where(found.bound, store=store).binding
        lines = [("", "C", "#222222", "-")]
        lines += [(name, name, *style) for name, style in zip(own, STYLES, strict=False)]
        for binding, label, colour, style in lines:
            panel = where(summary, store=store, operation=operation, binding=binding)
            line = panel.set_index("record_size").reindex(found.sizes)
            figures.draw_points(
                axis,
                means,
                line[["median", "low", "high"]] / 1000,
                color=colour,
                linestyle=style,
                marker="o" if binding == "" else "s",
                markersize=2.5,
                linewidth=1,
                elinewidth=0.7,
                label=label,
            )
        figures.name_times(axes, i, j, store, operation, "record size")
        if operation == "get" or "get" not in operations:
            axis.legend(frameon=False, fontsize=5, loc="best", handlelength=2.2)
        axis.set_xticks(means, found.sizes, fontsize=5, rotation=30)
        axis.minorticks_off()
    return figure


def draw_shares(found: Bindings) -> Figure:
    """Draw one table per operation: one row per binding, one column per record size."""
    listed = [row for row in each(found.bound) if row.binding != "null"]
    depth = -(-len(found.operations) // 2)
    figure, axes = plt.subplots(
        depth,
        min(2, len(found.operations)),
        figsize=(7, 0.5 + (0.35 + 0.26 * (len(found.bound) - 1)) * depth),
        squeeze=False,
        layout="constrained",
    )
    shares = found.shares()
    for axis, operation in zip(axes.flat, found.operations, strict=False):
        axis.set_title(operation, loc="left", fontweight="bold")
        names = [f"{row.binding}{'' if row.same == 'yes' else '*'}" for row in listed]
        figures.frame_table(axis, names, found.sizes)
        panel = where(shares, operation=operation).set_index(["binding", "record_size"])
        for (y, row), (x, size) in figures.pairs(listed, found.sizes):
            if (row.binding, size) in panel.index:
                _draw_share(axis, x, y, panel.loc[(row.binding, size)])
    for axis in axes.flat[len(found.operations) :]:
        axis.set_axis_off()
    return figure


def _draw_share(axis: Any, x: int, y: int, share: Any) -> None:
    strength = min(1, max(0, share["median"])) if share.sure else 0
    colour = plt.get_cmap("Oranges")(0.75 * strength)
    axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white"))
    look = {"ha": "center", "va": "center", "color": "black" if share.sure else "#777777"}
    axis.text(x + 0.5, y + 0.36, f"{share['median']:.0%}", fontsize=6, **look)
    axis.text(x + 0.5, y + 0.75, f"{share.low:.0%} to {share.high:.0%}", fontsize=4.2, **look)


def extremes(shares: pd.DataFrame, operation: str, size: str) -> dict[str, str]:
    """Return the least and the greatest share that differ from zero, among the bindings with the
    same engine as the shim; and all bindings whose share does not differ from zero."""
    part = where(shares, operation=operation, record_size=size)
    found = {"unsure": ", ".join(part[~part.sure].binding) or "none"}
    part = where(part[part.sure], same="yes").sort_values("median")
    if part.empty:
        return found
    first, last = part.iloc[0], part.iloc[-1]
    return found | {
        "least": f"{first['median']:.0%}",
        "least_binding": first.binding,
        "greatest": f"{last['median']:.0%}",
        "greatest_binding": last.binding,
    }


def added_table(found: Bindings, operation: str, sizes: Sequence[str]) -> pd.DataFrame:
    """Return the median time that Python adds to an operation, as text: one row per binding, one
    column per record size."""
    shown = where(found.added(), operation=operation)
    wide = shown.pivot(index=["store", "binding"], columns="record_size", values="median")
    order = [(row.store, row.binding) for row in each(found.bound)]
    return wide.reindex(
        index=pd.MultiIndex.from_tuples(order, names=wide.index.names), columns=list(sizes)
    )


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column `package`, as "lmdb/lmdb"."""
    return rows.assign(package=list(map(full_name, rows.store, rows.binding)))


def _costs(data: Results, level: str) -> "pd.Series[float]":
    """Return the cost of decision.over_fields() of the packages at a level, over all sizes, with as
    many operations of each kind."""
    need = Need("from Python", level, data.sizes(), data.counts(), suits=lambda store: True)
    return need.cost(data, need)


def _shown(regret: Regret) -> str:
    """Return a regret with its interval as text; "alone" for a package that is not ranked."""
    if np.isnan(regret.high):
        return "alone"
    estimate, low, high = map(formats.number, regret[:3])
    return f"{estimate} ({low} to {high})"


def packages(data: Results) -> pd.DataFrame:
    """Return the packages that a Python program can choose, as shipped, all as text. One row per
    package: what its acknowledged writes survive (`guarantee`), the mean time of each operation at
    the middle record size, and its regret, with the interval, among the packages with the same
    guarantee. The cost is that of decision.over_fields() with as many operations of each kind. The
    strongest guarantee comes first, and within it the fastest package."""
    sizes = data.sizes()
    costs = _costs(data, DEFAULT)
    cells = _named(where(data.cells, durability=DEFAULT))
    guarantees = cells.groupby("package").guarantee.first().to_dict()
    reached = pd.Series(costs.index.get_level_values("store").map(guarantees), costs.index)
    found = []
    for guarantee in reversed(DURABILITY):
        own = costs[reached == guarantee]
        for package, regret in _rank(data, own).items():
            found.append((package, guarantee, _shown(regret)))
    middle = where(data.operations, record_size=sizes[len(sizes) // 2])
    middle = middle.merge(cells[["cell", "package"]], on="cell")
    times = middle.groupby(["package", "operation"]).mean_ns.median().unstack("operation")
    table = pd.DataFrame(found, columns=["package", "guarantee", "regret"]).set_index("package")
    return table.join(times[list(OPERATIONS)].map(formats.time)).reset_index()


def _ranked(data: Results) -> Iterator[tuple[str, dict[str, Regret]]]:
    """Yield each level that packages were set to, with their regrets."""
    for level in (level for level in DURABILITY[1:] if level in set(data.cells.durability)):
        yield level, _rank(data, _costs(data, level))


def _rank(data: Results, costs: "pd.Series[float]") -> dict[str, Regret]:
    planned = range(1, data.trials + 1)
    return rank(by_trial(costs), planned, sittings=data.sittings).regrets


def at_levels(data: Results) -> pd.DataFrame:
    """Return the packages that were set to a durability level, each with those of its level, all as
    text. One row per level and package, the fastest of a level first: `package`; `level`; the mean
    time of each operation at the middle record size in µs, with its 95% interval over the trials;
    and `regret` within the level, as in packages(). Empty if all were measured as shipped."""
    sizes, found = data.sizes(), []
    middle = _named(where(data.operations, record_size=sizes[len(sizes) // 2]))
    for level, regrets in _ranked(data):
        own = where(middle, durability=level)
        for package, regret in regrets.items():
            times = {}
            for operation in OPERATIONS:
                means = where(own, package=package, operation=operation).mean_ns / 1000
                if len(means):
                    mean, low, high = map(formats.number, mean_interval(means)[:3])
                    times[f"{operation}, µs"] = f"{mean} ({low} to {high})"
            row = {"package": package, "level": level, "regret": _shown(regret)}
            found.append(row | times)
    return pd.DataFrame(found).fillna("")


def level_facts(data: Results) -> dict[str, Any]:
    """Return, for the text: by level, the package with the least regret of at_levels(), the number
    of packages and of those that may be good enough; and the records, their middle size
    and the trials."""
    sizes = data.sizes()
    found: dict[str, Any] = {
        "size": sizes[len(sizes) // 2],
        "records": f"{data.cells.records.max():,}",
        "trials": data.trials,
    }
    for level, regrets in _ranked(data):
        perhaps = [one for one, regret in regrets.items() if regret.verdict != "out"]
        found[level] = {"first": next(iter(regrets)), "of": len(regrets), "perhaps": len(perhaps)}
    return found


def fastest(packages: pd.DataFrame) -> dict[str, str]:
    """Return, for the text, the fastest of packages() for each guarantee."""
    first = packages.drop_duplicates("guarantee")
    return dict(zip(first.guarantee, first.package, strict=True))
