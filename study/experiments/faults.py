"""What is left of a store when the disk fails: crash states, failed calls, full disks, damage."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from kvbench.cell.factors import DEFAULT, DURABILITY
from kvbench.experiment.factors import NOT_STATED
from kvbench.faults.recording import WRITEBACK
from kvbench.stores.about import family, position
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Patch
from scipy.stats import binomtest, fisher_exact

from study.common import figures, formats
from study.common.fields import each, where
from study.common.levels import rate_below
from study.common.notebook import read_table

LEVELS = ("process", "recoverable", "sync")  # those of figure and text
CHECKS = "default"  # an engine's own checks, as shipped
YES = "yes"
LEAST_SHOWN = 0.03  # the width of a bar whose share is less, so that it can be seen
SHIMS = "KVBENCH_SHIMS=FOLDER"  # a folder of the stores to test
SURPRISING = (  # told in the text
    ("tkrzw-hash", "sync"), ("tkrzw-tree", "sync"), ("mdbx", "recoverable"), ("flat", "process"),
    ("leveldb", "recoverable"),
)  # fmt: skip
HONEST = "liar-none"  # the store without a planted bug
FINE, SAID, LOST, SILENT, WRONG, DEAD = (  # from the best; five colours of Okabe and Ito
    "#D9D9D9", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7", "#000000"
)  # fmt: skip


class Outcome(NamedTuple):
    """What a fault led to: its name, its colour, and the columns of the table that count it."""

    name: str
    colour: str
    columns: tuple[str, ...]


class Kind(NamedTuple):
    """A kind of fault: its table, the command that writes the table, the columns that identify a
    row, the column with the number of faults, the outcomes from the best to the worst, and further
    columns of numbers."""

    file: str
    command: str
    key: tuple[str, ...]
    tried: str
    outcomes: tuple[Outcome, ...]
    further: tuple[str, ...] = ()

    @property
    def counted(self) -> list[str]:
        return [column for outcome in self.outcomes for column in outcome.columns]


UNMOUNTED = "cannot_be_mounted"  # states that are the file system's fault, which are not counted
HOLDS = "holds"  # states that keep what the level guarantees, a column that read() adds
TOLD = (  # numbers that some rows do not have
    "lost_median", "lost_most", "lost_ms_median", "lost_ms_most", "violations_torn"
)  # fmt: skip
CONDITIONS = ("cpu", "cores", "kernel", "fs", "seed", "revision")
STATES = Kind(
    "states.csv",
    "kvbench crash --explore",
    ("store", "durability"),
    "states",
    (
        Outcome("keeps its guarantee", FINE, (HOLDS,)),
        Outcome("loses acknowledged writes", LOST, ("lost_an_acknowledged_write",)),
        Outcome("loses records that were on disk", SILENT, ("lost_a_record_that_was_on_disk",)),
        Outcome(
            "returns wrong records",
            WRONG,
            (
                "holds_a_wrong_value", "holds_a_record_never_written",
                "holds_a_write_that_was_not_issued",
            ),
        ),
        Outcome(
            "does not open or work",
            DEAD,
            ("hangs", "crashes", "does_not_open", "fails_to_read", "does_not_work_afterwards"),
        ),
    ),
    ("recordings",),
)  # fmt: skip
_ANSWERS = (
    Outcome("no error, all is there", FINE, ("unnoticed",)),
    Outcome("error, all is there", SAID, ("reported_and_intact",)),
    Outcome("error, writes lost", LOST, ("reported_and_lost",)),
    Outcome("no error, writes lost", SILENT, ("acknowledged_but_lost",)),
    Outcome("returns wrong records", WRONG, ("wrong_values",)),
    Outcome("does not open, crashes, hangs", DEAD, ("does_not_open", "crash", "hang")),
)
ERRORS = Kind(
    "errors.csv",
    "kvbench faults",
    ("store", "durability", "call", "error", "repeat", "phase"),
    "tried",
    _ANSWERS,
)
DEVICE = Kind(
    "device.csv",
    "kvbench faults --kind device",
    ("store", "durability", "request", "repeat"),
    "tried",
    _ANSWERS,
)
ROT = Kind(
    "rot.csv",
    "kvbench rot",
    ("store", "checks", "damage"),
    "damages",
    (
        Outcome("harmless", FINE, ("harmless",)),
        Outcome("error", SAID, ("reported",)),
        Outcome("record missing, no error", SILENT, ("missing",)),
        Outcome("wrong record, no error", WRONG, ("wrong",)),
        Outcome("crashes or hangs", DEAD, ("crash", "hang")),
    ),
    ("stale",),
)
LIARS = STATES._replace(file="liars.csv", command=f"{SHIMS} {STATES.command}")
KINDS = {
    "states": STATES, "errors": ERRORS, "device": DEVICE, "rot": ROT, "liars": LIARS
}  # fmt: skip
COMMANDS = {name: kind.command for name, kind in KINDS.items()} | {
    "full": "kvbench faults --kind full",
    "recall": "python harness/checks/recall FOLDER --out FILE",
}
FAULTS = {  # the kinds of findings.csv, in words
    "power": "power failure", "call": "failed call", "device": "failing device",
    "full": "full disk", "rot": "damaged file", "threads": "another thread",
}  # fmt: skip
FULL = {  # the columns of full-disk.csv, after store and level, in words
    "reads_while_full": "open store reads when full",
    "goes_on": "goes on once there is room", "intact": "all is there then",
    "intact_while_full": "opens again when full", "intact_with_room": "opens again with room",
}  # fmt: skip


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the order of stores and levels in tables, a binding after its store."""
    level = {name: place for place, name in enumerate(DURABILITY)}
    keys = [
        (position(row.store.partition("/")[0]), row.store, level.get(row.durability, -1))
        for row in each(table.assign(durability=table.get("durability", "")))
    ]
    return table.iloc[sorted(range(len(table)), key=keys.__getitem__)].reset_index(drop=True)


def _table(path: Path, columns: Mapping[str, type], *key: str) -> pd.DataFrame:
    """Return a table; without rows if there is none. Raises BadInput."""
    if not path.exists():
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in columns.items()})
    return read_table(path, columns, *key)


def read(folder: Path, kind: Kind) -> pd.DataFrame:
    """Return a table of faults, in the order of tables; without rows if the folder lacks it. Raises
    BadInput."""
    numbers = [kind.tried, *kind.further, *(name for name in kind.counted if name != HOLDS)]
    columns = dict.fromkeys(kind.key, str) | dict.fromkeys(numbers, int)
    if kind.tried != STATES.tried:
        return _ordered(_table(folder / kind.file, columns, *kind.key))
    columns |= dict.fromkeys((UNMOUNTED, "prefix"), int) | {"kept": str}
    columns |= dict.fromkeys((*TOLD, *CONDITIONS), str)
    return _ordered(_judged(_table(folder / kind.file, columns, *kind.key)))


def _judged(states: pd.DataFrame) -> pd.DataFrame:
    """Return crash states with a further column: those that keep what the level guarantees. States
    that could not be mounted are not counted."""
    tried = states.states - states[UNMOUNTED]
    broken = [column for column in STATES.counted if column != HOLDS]
    numbers = {name: pd.to_numeric(states[name], errors="coerce") for name in TOLD}
    kept = tried - states[broken].sum(axis="columns")
    return states.assign(**numbers, states=tried, **{HOLDS: kept})


def full(folder: Path) -> pd.DataFrame:
    """Return what stores did on a full disk: one row per store and level. Raises BadInput."""
    columns = dict.fromkeys(("store", "durability", *FULL), str)
    return _ordered(_table(folder / "full-disk.csv", columns, "store", "durability"))


def recall(folder: Path) -> pd.DataFrame:
    """Return what the explorer found in pairs of releases, one row each. Raises BadInput."""
    texts = ("pair", "engine", "level", "bug", "bug_kinds", "fix", "report", "says")
    numbers = ("bug_states", "bug_wrong", "fix_states", "fix_wrong")
    columns = dict.fromkeys(texts, str) | dict.fromkeys(numbers, int)
    return _table(folder / "recall.csv", columns, "pair")


def findings(folder: Path) -> pd.DataFrame:
    """Return what the tests found in the engines, one row each. Raises BadInput."""
    names = ("store", "engine_version", "kind", "what", "verdict", "source", "reproducer")
    return _ordered(_table(folder / "findings.csv", dict.fromkeys(names, str)))


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Return all tables of a folder by name: one for each of COMMANDS, and the findings. Raises
    BadInput."""
    return {name: read(folder, kind) for name, kind in KINDS.items()} | {
        "full": full(folder), "recall": recall(folder), "findings": findings(folder)
    }  # fmt: skip


def counts(table: pd.DataFrame, kind: Kind, by: Sequence[str]) -> pd.DataFrame:
    """Return one row per group, in the order of the table: the columns `by`, `n` faults, and a
    column for each outcome, named by it, with the number of faults."""
    found = []
    for key, own in table.groupby(list(by), sort=False):
        row = dict(zip(by, key, strict=True)) | {"n": int(own[kind.tried].sum())}
        row |= {
            outcome.name: int(own[list(outcome.columns)].to_numpy().sum())
            for outcome in kind.outcomes
        }
        found.append(row)
    return pd.DataFrame(found, columns=[*by, "n", *(outcome.name for outcome in kind.outcomes)])


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the exact 95% confidence interval of a share (C. Clopper and E. Pearson, 1934)."""
    found = binomtest(count, of).proportion_ci(confidence_level=0.95, method="exact")
    return float(found.low), float(found.high)


def percent(found: float) -> str:
    """Return a share in percent, without the sign. Only a whole is 100."""
    if 0.995 <= found < 1:
        return f"{min(100 * found, 99.9):.1f}"
    return f"{100 * found:.0f}" if found >= 0.095 else f"{100 * found:.2g}"


def share(count: int, of: int) -> str:
    """Return a share in percent with its 95% confidence interval, as text."""
    if not of:
        return ""
    low, high = map(percent, interval(count, of))
    return f"{percent(count / of)} ({low} to {high})"


def _said(row: pd.Series, outcomes: Iterable[Outcome]) -> str:
    """Return the bad kinds of a row with their counts, as text."""
    columns = [column for outcome in outcomes for column in outcome.columns]
    return ", ".join(
        f"{column.replace('_', ' ')} {row[column]:,}" for column in columns if row[column]
    )


def _count(number: float) -> str:
    return "" if pd.isna(number) else f"{number:,.0f}"


def _amounts(middle: float, most: float) -> str:
    return "" if pd.isna(most) else f"{formats.number(middle)} ({formats.number(most)})"


def state_table(states: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store and level, as text: the crash states, those that break the level or,
    at levels that promise nothing, `recoverable`; and what was lost."""
    return pd.DataFrame(
        {
            "store": row.store,
            "level": row.durability,
            "states": f"{row.states:,}",
            "broken": f"{row.states - row.holds:,}",
            "share [%]": share(row.states - row.holds, row.states),
            "with a torn block": ""
            if pd.isna(row.violations_torn)
            else f"{row.violations_torn:,.0f}",
            "how": _said(row, STATES.outcomes[1:]),
            "prefix left": formats.share(row.prefix / row.states) if row.states else "",
            "lost [writes]": _amounts(row.lost_median, row.lost_most),
            "lost [ms]": _amounts(row.lost_ms_median, row.lost_ms_most),
        }
        for _, row in states.iterrows()
    )


def _verdict(row: Any) -> str:
    """Return whether a store came back from the crash states of a level, in words."""
    broken = row.states - row.holds
    if not broken:
        return f"holds in {row.states:,}"
    torn = broken == row.violations_torn
    return f"breaks in {broken:,} of {row.states:,}{', all torn' if torn else ''}"


def verdict_table(states: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store: at each of LEVELS, whether it holds in all crash states."""
    said = {(row.store, row.durability): _verdict(row) for row in each(states)}
    return pd.DataFrame(
        {"store": store} | {level: said.get((store, level), "") for level in LEVELS}
        for store in dict.fromkeys(states.store[states.durability.isin(LEVELS)])
    )


def replays(states: pd.DataFrame) -> pd.DataFrame:
    """Return the command that looks again at the first kept state of each store and level that
    broke."""
    kept = states[(states.kept != "") & (states[HOLDS] < states.states)]
    return pd.DataFrame(
        {
            "store": row.store,
            "level": row.durability,
            "command": f"`kvbench crash --explore {row.store} --durability {row.durability} "
            f"--fs {row.fs} --out build/faults/{STATES.file} --replay {row.kept.split()[0]}`",
        }
        for row in each(kept)
    )


def outcome_table(table: pd.DataFrame, kind: Kind, by: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per group: the columns `by` under their new names, the number of faults, how
    many had each outcome, and the share of those that are worse than an error."""
    found = counts(table, kind, list(by))
    worse = [outcome.name for outcome in kind.outcomes if outcome.colour not in (FINE, SAID)]
    rows = zip(found[worse].sum(axis="columns"), found.n, strict=True)
    found["worse than an error [%]"] = [share(count, of) for count, of in rows]
    return found.rename(columns=by)


def full_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return what stores did on a full disk, in words but the engines' own."""
    answers = {name: table[name].str.split(":").str[0] for name in FULL}
    found = table[["store", "durability"]].assign(**answers)
    return found.rename(columns=FULL | {"durability": "level"})


def liar_table(liars: pd.DataFrame) -> pd.DataFrame:
    """Return one row per store with a planted bug, and the one without: whether it was found."""
    return pd.DataFrame(
        {
            "store": row.store,
            "level": row.durability,
            "states": f"{row.states:,}",
            "broken": f"{row.states - row.holds:,}",
            "how": _said(row, LIARS.outcomes[1:]),
            "found": "yes" if row.states > row.holds else "no",
        }
        for _, row in liars.iterrows()
    )


def recall_table(old: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of releases, the one with a bug that its authors reported and the one
    with the fix: the broken states of each, and the report."""
    return pd.DataFrame(
        {
            "engine": row.engine,
            "level": row.level,
            "with the bug": f"{row.bug}: {row.bug_wrong:,} of {row.bug_states:,}",
            "how": row.bug_kinds,
            "with the fix": f"{row.fix}: {row.fix_wrong:,} of {row.fix_states:,}",
            "what was reported": f"[{formats.escape(row.says)}]({row.report})",
        }
        for row in each(old)
    )


def finding_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return what the tests found in the engines, in words, with the source of the verdict and the
    program or command that shows it again."""
    return pd.DataFrame(
        {
            "store": row.store,
            "version": row.engine_version,
            "fault": FAULTS[row.kind],
            "what happens": row.what,
            "verdict": f"[{row.verdict}]({row.source})" if row.source else row.verdict,
            "shown by": f"`{row.reproducer}`",
        }
        for row in each(found)
    )


# The figure

TEXT = 7  # points
TITLES = {STATES.file: "Power failure", ERRORS.file: "Failed system call", ROT.file: "Damaged file"}
UNITS = {STATES.file: "states", ERRORS.file: "calls", ROT.file: "damages"}


def _bars(axis: Any, found: pd.DataFrame, kind: Kind, stores: Sequence[str]) -> None:
    """Draw, for each store, the shares of its outcomes as one bar, and beside it how many faults
    had an outcome worse than an error."""
    rows = {row["store"]: row for _, row in found.iterrows()}
    for y, store in enumerate(stores):
        row, left = rows.get(store), 0.0
        if row is None or not row.n:
            look: Any = {"ha": "center", "va": "center", "color": "#555555", "fontsize": TEXT}
            axis.text(0.5, y, "-", **look)
            continue
        shares = [row[outcome.name] / row.n for outcome in kind.outcomes]
        wide = [max(own, LEAST_SHOWN) if own else 0.0 for own in shares]
        for outcome, width in zip(kind.outcomes, wide, strict=True):
            axis.barh(
                y, width / sum(wide), left=left, height=0.72, color=outcome.colour, linewidth=0,
            )  # fmt: skip
            left += width / sum(wide)
        bad = sum(row[own.name] for own in kind.outcomes if own.colour not in (FINE, SAID))
        look = {"fontweight": "bold" if bad else "normal", "va": "center", "fontsize": TEXT}
        axis.text(1.04, y, f"{percent(bad / row.n)}%" if bad else "0", **look)
    axis.set(xlim=(0, 1.45), xticks=(0, 0.5, 1))
    axis.set_xticklabels(["0", "50", "100%"], fontsize=TEXT)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False)
    axis.spines["bottom"].set_bounds(0, 1)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def _number(found: pd.DataFrame, word: str) -> str:
    """Return the number of faults of each store, as the line below a title."""
    if found.empty:
        return ""
    least, most = found.n.min(), found.n.max()
    return f"{least:,} {word}" if least == most else f"{least:,} to {most:,} {word}"


def draw(states: pd.DataFrame, errors: pd.DataFrame, rot: pd.DataFrame) -> Figure:
    """Draw what is left, one row per store: the outcomes of crash states at each of LEVELS that was
    tested, of failed system calls over all levels, and of damage with the checks as shipped."""
    panels: list[tuple[str, Kind, pd.DataFrame]] = []
    for level in LEVELS:
        own = where(states, durability=level)
        if len(own):
            panels.append((f"power failure,\n{level}", STATES, own))
    if len(errors):
        panels.append(("failed\nsystem call", ERRORS, errors))
    own = where(rot, checks=CHECKS)
    if len(own):
        panels.append(("damaged\nfile", ROT, own))
    named = {store for _, _, own in panels for store in own.store}
    stores = list(_ordered(pd.DataFrame({"store": sorted(named)})).store) if named else []
    heights = (0.75 + 0.19 * len(stores), 1.05)
    figure = plt.figure(figsize=(7, sum(heights)), layout="constrained")
    parts = GridSpec(2, 1, figure, height_ratios=heights)
    above, below = figure.add_subfigure(parts[0]), figure.add_subfigure(parts[1])
    axes = above.subplots(1, max(1, len(panels)), sharey=True, squeeze=False)[0]
    for axis, (title, kind, own) in zip(axes, panels, strict=False):
        found = counts(own, kind, ["store"])
        _bars(axis, found, kind, stores)
        axis.set_title(f"{title}\n{_number(found, UNITS[kind.file])}", fontsize=TEXT)
    if stores:
        figures.name_rows(axes[0], stores, fontsize=TEXT)
    kinds = list(dict.fromkeys(kind for _, kind, _ in panels))
    for axis, kind in zip(
        below.subplots(1, len(kinds) or 1, squeeze=False)[0], kinds, strict=False
    ):
        handles = [Patch(facecolor=own.colour, label=own.name) for own in kind.outcomes]
        axis.legend(
            handles=handles, title=TITLES[kind.file], loc="upper left", borderaxespad=0,
            frameon=False, fontsize=TEXT, title_fontsize=TEXT, alignment="left", labelspacing=0.3,
        )  # fmt: skip
    for axis in below.axes:
        axis.set_axis_off()
    return figure


# What the text says


def _named(stores: Iterable[str]) -> str:
    return formats.listed(list(dict.fromkeys(stores)), "and") or "none"


def _rates(table: pd.DataFrame, hit: str, tried: str) -> str:
    """Return the stores of a table with their counts in two of its columns, summed over its rows,
    as text: "a (1 of 2)". Stores whose first count is 0 are left out."""
    found = table.groupby("store", sort=False)[[hit, tried]].sum()
    return _named(
        f"{row.Index} ({getattr(row, hit):,} of {getattr(row, tried):,})"
        for row in found.itertuples()
        if getattr(row, hit)
    )


def _least(states: pd.DataFrame) -> int:
    return int(states.states.min()) if len(states) else 0


def _rate(states: pd.DataFrame) -> str:
    """Return the greatest share of broken states, with 95% confidence, of any one of these stores,
    none of which has a broken state."""
    holding = states[states[HOLDS] == states.states]
    return rate_below(_least(holding)) if len(holding) else "100%"


def _levels(states: pd.DataFrame) -> dict[str, Any]:
    """Return, for each of LEVELS: the stores tested, and the greatest number of states; the least
    number of states, and the greatest share of broken states of a store that has none, of the
    engines of the main experiments and of the others, files included; the stores that broke what
    the level guarantees (at `process`, what `recoverable` would), those of them that did so where
    no block was torn, those that did not open or work, and those that held but broke at the
    stricter level `recoverable`."""
    found: dict[str, Any] = {}
    dead = list(STATES.outcomes[-1].columns)
    above = where(states, durability="recoverable")
    stricter = set(above.store[above[HOLDS] < above.states])
    for level in LEVELS:
        own = where(states, durability=level)
        own = own.assign(broken=own.states - own[HOLDS])
        broken = own[own.broken > 0]
        untorn = broken.store[broken.broken > broken.violations_torn]
        gone = own.store[own[dead].sum(axis="columns") > 0]
        ranked = own.store.isin(family("main"))
        held = own.store[own.broken == 0]
        found[level] = {
            "stores": len(own),
            "states": f"{_least(own[ranked]):,}",
            "greatest": f"{int(own.states.max()) if len(own) else 0:,}",
            "others": f"{_least(own[~ranked]):,}",
            "rate": _rate(own[ranked]),
            "rate_others": _rate(own[~ranked]),
            "broken": len(broken),
            "broken_stores": _named(broken.store),
            "held_stores": _named(held),
            "broken_rates": _rates(broken, "broken", "states"),
            "untorn_stores": _named(untorn),
            "dead": len(gone),
            "dead_stores": _named(gone),
            "stricter_stores": _named(held[held.isin(stricter)]),
        }
    return found


def _shipped(states: pd.DataFrame) -> dict[str, str]:
    """Return the packages for Python that, as shipped, held in all crash states what `recoverable`
    guarantees, and the others with their numbers of states."""
    own = where(states, durability=DEFAULT)
    own = own.assign(broken=own.states - own[HOLDS])
    return {
        "held_stores": _named(own.store[own.broken == 0]),
        "broken_rates": _rates(own, "broken", "states"),
    }


def _window(states: pd.DataFrame) -> dict[str, Any]:
    """Return what the stores lose that hold `recoverable`: how many there are, the most writes, and
    how many always keep a prefix of the acknowledged writes; the states of the others without."""
    own = where(states, durability="recoverable")
    own = own[own[HOLDS] == own.states]
    own = own.assign(mixed=own.states - own.prefix)
    return {
        "stores": len(own),
        "main": int(own.store.isin(family("main")).sum()),
        "prefix": int((own.mixed == 0).sum()),
        "mixed": _rates(own, "mixed", "states"),
        "most": f"{own.lost_most.max():,.0f}" if own.lost_most.notna().any() else "0",
        "between": WRITEBACK,
    }


def _surprising(states: pd.DataFrame) -> dict[str, str]:
    """Return, for each of SURPRISING, how many of its crash states are broken, how many of these
    have no torn block, and how many had which outcome, as text."""
    found = {}
    for store, level in SURPRISING:
        own = where(states, store=store, durability=level)
        broken, of = int((own.states - own[HOLDS]).sum()), int(own.states.sum())
        name = store.replace("-", "_")
        found[name] = f"{broken:,} of {of:,}"
        found[f"{name}_untorn"] = f"{broken - own.violations_torn.sum():,.0f}"
        outcomes = own[[column for column in STATES.counted if column != HOLDS]].sum()
        found[f"{name}_kinds"] = ", ".join(
            f"{str(column).replace('_', ' ')}: {n:,}" for column, n in outcomes.items() if n
        )
    return found


def _conditions(states: pd.DataFrame) -> str:
    """Return machine, kernel, file system, seed and revision of the crash states, as text."""
    if states.empty:
        return NOT_STATED
    row = states.iloc[0]
    told = f"{row.cpu}, {row.cores} cores, {row.kernel}, {row.fs}, seed {row.seed}"
    return f"{told}, revision {formats.listed(sorted(set(states.revision)), 'and')}"


def _outcomes(table: pd.DataFrame, kind: Kind, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the number of stores and faults, and for each outcome of `names`, given by its colour,
    the stores that had it, with their counts."""
    found: dict[str, Any] = {
        "stores": table.store.nunique(),
        "tried": f"{table[kind.tried].sum():,}",
    }
    for colour, name in names.items():
        columns = [c for own in kind.outcomes if own.colour == colour for c in own.columns]
        own = table.assign(hit=table[columns].sum(axis="columns"))
        found[name] = _rates(own, "hit", kind.tried)
    return found


def _errors(errors: pd.DataFrame) -> dict[str, Any]:
    """Return _outcomes() of failed calls, the stores that hung, those that crashed or did not open,
    and the runs in which all later calls failed, too."""
    gone = errors.assign(gone=errors.does_not_open + errors.crash)
    return _outcomes(errors, ERRORS, {LOST: "lost", SILENT: "silent", WRONG: "wrong"}) | {
        "hung": _rates(errors, "hang", ERRORS.tried),
        "gone": _rates(gone, "gone", ERRORS.tried),
        "on": f"{where(errors, repeat='on').tried.sum():,}",
    }


def _rot(rot: pd.DataFrame) -> dict[str, Any]:
    """Return, of damage with the checks as shipped: the stores and damages; the stores that neither
    returned a wrong record nor missed one without an error; those whose wrong records were all
    earlier values; those with others; and those that crashed or hung."""
    own = where(rot, checks=CHECKS)
    sums = own.groupby("store", sort=False)[["wrong", "stale", "missing", "crash", "hang"]].sum()
    return {
        "stores": len(sums),
        "tried": f"{own.damages.sum():,}",
        "clean": _named(sums.index[sums.wrong + sums.missing == 0]),
        "older": _named(sums.index[(sums.wrong > 0) & (sums.wrong == sums.stale)]),
        "never": _named(sums.index[sums.wrong > sums.stale]),
        "dead": _named(sums.index[sums.crash + sums.hang > 0]),
    }


def _full(disk: pd.DataFrame) -> dict[str, Any]:
    """Return, of full disks: the stores; those that went on at once, or after a while, once there
    was room; those that did not, or had ended; those that lost acknowledged writes; and those that
    did not open while the disk was full, and once there was room."""
    goes_on = disk.goes_on.str.split(" ").str[0]
    return {
        "stores": disk.store.nunique(),
        "late": _named(disk.store[goes_on == "after"]),
        "stuck": _named(disk.store[goes_on == "not"]),
        "ended": _named(disk.store[goes_on == ""]),
        "lost": _named(disk.store[disk.intact != YES]),
        "closed": _named(disk.store[disk.intact_while_full != YES]),
        "closed_with_room": _named(disk.store[disk.intact_with_room != YES]),
    }


def _breaks_more(pair: Any) -> bool:
    states = (pair.bug_states, pair.bug_wrong), (pair.fix_states, pair.fix_wrong)
    table = [[wrong, of - wrong] for of, wrong in states]
    return bool(fisher_exact(table, alternative="greater").pvalue < 0.05)


def _recall(pairs: pd.DataFrame) -> dict[str, Any]:
    """Return the pairs of releases, those told apart, those in which both releases broke, those in
    which the fixed one alone or neither did, those whose release with the bug surely broke in more
    states (Fisher's exact test, 5%), and the names of all but those told apart."""
    bug, fix = pairs.bug_wrong > 0, pairs.fix_wrong > 0
    found = bug & ~fix
    return {
        "pairs": len(pairs),
        "found": int(found.sum()),
        "both": int((bug & fix).sum()),
        "later": int((fix & ~bug).sum()),
        "nothing": int((~bug & ~fix).sum()),
        "more": sum(map(_breaks_more, each(pairs))),
        "missed": _named(pairs.pair[~found]),
        "states": f"{pairs[['bug_states', 'fix_states']].to_numpy().max(initial=0):,}",
    }


def facts(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the values for the text from tables(), any of which may be without rows."""
    bugs, device = tables["liars"], tables["device"]
    planted = bugs[bugs.store != HONEST]
    names = {LOST: "lost", SILENT: "silent", WRONG: "wrong", DEAD: "dead"}
    return {
        "machine": _conditions(tables["states"]),
        "states": _levels(tables["states"]),
        "unmounted": int(tables["states"][UNMOUNTED].max()) if len(tables["states"]) else 0,
        "recordings": formats.listed(
            [str(n) for n in sorted(set(tables["states"].recordings))], "or"
        ),
        "shipped": _shipped(tables["states"]),
        "surprise": _surprising(tables["states"]),
        "window": _window(tables["states"]),
        "errors": _errors(tables["errors"]),
        "device": _outcomes(device, DEVICE, names) | {"names": _named(device.store)},
        "rot": _rot(tables["rot"]),
        "full": _full(tables["full"]),
        "liars": {
            "machine": _conditions(bugs),
            "count": len(planted),
            "found": int((planted[HOLDS] < planted.states).sum()),
        },
        "recall": _recall(tables["recall"]),
        "findings": {
            "count": len(tables["findings"]),
            "defects": int((tables["findings"].verdict == "defect").sum()),
            "stores": _named(where(tables["findings"], verdict="defect").store),
        },
    }
