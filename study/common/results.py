"""Collected results, as the notebooks read them."""

import functools
from collections.abc import Callable, Collection, Sequence, Sized
from copy import copy
from pathlib import Path
from typing import Any, Self

import pandas as pd
from kvbench.cell.factors import (
    CACHE,
    COMPRESSIBILITY,
    COMPRESSION,
    DEFAULT,
    DURABILITY,
    LEVELS,
    SYNCED,
    UNCAPPED,
    RecordSize,
    parse_bytes,
)
from kvbench.cell.workload import ROUNDS
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import CONDITION, NOT_STATED
from kvbench.machine.noise import SHARE, SPREAD, stolen_share, unsteady
from kvbench.results.frames import Frames, machine_of, refuse_several, sitting_of
from kvbench.results.warm import WARM
from kvbench.stores import about

from study.common import formats
from study.common.fields import where
from study.common.notebook import parameter_folder

ADJUSTED = 1.005  # a time that the host made longer by less counts as measured
FLOORS = 3  # times below this multiple of the harness's own are marked
ORDER: dict[str, Sequence[str]] = {
    "compressibility": COMPRESSIBILITY, "durability": DURABILITY, "compression": COMPRESSION,
    "cache": CACHE,
}  # fmt: skip


class Results:
    """Collected results, as frames with the columns of kvbench's Frames:

    - `cells`: one row per measured trial, with the further column `space_efficiency` (live bytes
      over bytes on disk)
    - `all_cells`: also the cells that were not measured
    - `operations`: one row per trial and operation, with the further column `near_floor`, which
      says whether the operation took less than FLOORS times the harness's own time
    - `timeline`: one row per second of a step
    - `machines`: one row per machine
    - `unsteady`: the result of machine.noise

    Only cells of the given ways of `access` are kept, because stores are compared from C. All cells
    must agree in durability level, memory, label and the like, except for the factors in `varying`.
    `parameter` is the notebook's parameter that gives the folder; `experiment` names the grid that
    measures what the notebook shows. Raises BadInput.
    """

    def __init__(
        self,
        folder: str,
        access: Sequence[str] = ("c",),
        varying: Sequence[str] = (),
        parameter: str = "results",
        experiment: str = "reference",
    ) -> None:
        path = parameter_folder(parameter, folder)
        self.folder, self.experiment = Path(folder), experiment
        if not any((path / name).exists() for name in ("cells", "cells.parquet")):
            raise self.lacking("cell")
        found = Frames.read(path, folder)
        self.machines, self.average = found.machines, found.average
        cells = found.cells
        self.all_cells: pd.DataFrame = cells[cells.access.isin([*access, NOT_STATED])]
        self.cells = self.all_cells[self.all_cells.status == "ok"].copy()
        if self.cells.empty:
            ways = " or from ".join({"c": "C", "python": "Python"}[way] for way in access)
            raise self.lacking(f"cell from {ways}", self._lost())
        self.operations, self.timeline = (
            table[table.cell.isin(self.cells.cell)].reset_index(drop=True)
            for table in (found.operations, found.timeline)
        )
        compared = [factor for factor in LEVELS if factor not in varying]
        refuse_several(self.operations, folder, compared)
        self.cells["space_efficiency"] = self.cells.live_bytes / self.cells.disk_bytes
        del self.cells["cooled"]  # which concerns times, not space or memory
        floors = FLOORS * self.operations.floor_ns
        self.operations["near_floor"] = self.operations.mean_ns < floors
        self.unsteady = unsteady(self.operations)

    def lacking(self, what: str, why: str = "") -> BadInput:
        """Return the error that says which data these results lack, and how to measure them."""
        return BadInput(
            f"{self.folder}: no {what} was measured{why}; `make reference EXPERIMENT="
            f"{self.experiment}` sweeps harness/grids/{self.experiment}.toml"
        )

    def require(self, found: Sized, what: str) -> None:
        """Raise BadInput if `found` is empty, where `what` names the data that a notebook shows."""
        if not len(found):
            raise self.lacking(what)

    def timed(self, rows: pd.DataFrame, operations: Sequence[str]) -> list[str]:
        """Return those of the operations whose times the rows have. Raises BadInput if there are
        none."""
        known = set(rows.operation[rows.mean_ns.notna()])
        found = [operation for operation in operations if operation in known]
        self.require(found, f"time of {formats.listed(operations, 'or')}")
        return found

    def _lost(self) -> str:
        """Return how many cells failed, and why the first one did, as text."""
        reasons = self.all_cells[self.all_cells.status == "failed"].reason
        return f" ({len(reasons)} failed, the first: {reasons.iloc[0]})" if len(reasons) else ""

    def at(self, **levels: Any) -> Self:
        """Return the same results with only the cells of these levels."""
        return self._kept(lambda rows: where(rows, **levels))

    def of(self, stores: Collection[str]) -> Self:
        """Return the same results with only these stores."""
        return self._kept(lambda rows: rows[rows.store.isin(stores)])

    def reusing(self) -> Self:
        """Return the same results without the stores whose file only grows. They are ranked apart,
        because they trade space for time."""
        return self.of([store for store in set(self.all_cells.store) if about.reuses(store)])

    def as_measured(self) -> Self:
        """Return the same results with times that are not adjusted to no processor time withheld
        by the machine's host."""
        found = copy(self)
        times = self.operations.mean_ns * self.operations.slowed
        found.operations = self.operations.assign(mean_ns=times)
        return found

    def by_machine(self) -> dict[str, Self]:
        """Return the same results of each machine, by the name of its processor; those of a further
        machine with the same processor have a number, too. Empty if one machine measured all."""
        machines = list(dict.fromkeys(self.cells.sort_values("trial").machine))
        found: dict[str, Self] = {}
        for machine in machines if len(machines) > 1 else ():
            own = self._kept(functools.partial(where, machine=machine))
            name = formats.stated(own.machine.cpu)
            alike = sum(known.partition(" (")[0] == name for known in found)
            found[f"{name} ({alike + 1})" if alike else name] = own
        return found

    def _kept(self, keep: Callable[[pd.DataFrame], pd.DataFrame]) -> Self:
        """Return the same results, with `keep` applied to each table."""
        found = copy(self)
        for table in ("all_cells", "cells", "operations", "timeline"):
            setattr(found, table, keep(getattr(self, table)))
        found.unsteady = unsteady(found.operations)
        return found

    @property
    def sittings(self) -> dict[int, int]:
        """The number of the sitting of each trial."""
        return sitting_of(self.cells)

    @property
    def machine(self) -> Any:
        """The machine that measured; see frames.machine_of."""
        return machine_of(self.cells, self.machines)

    @property
    def trials(self) -> int:
        """The number of trials of the cell that has the most; 0 if none is numbered."""
        return int(self.cells.trial.nunique())

    def trials_text(self) -> str:
        """Return the least and the greatest number of trials of a condition, including failed ones,
        as text. Fields that are decided early have fewer trials."""
        tried = self.all_cells[self.all_cells.status.isin(["ok", "failed"])]
        each = tried.groupby(list(CONDITION), observed=True, dropna=False).trial.nunique()
        return " to ".join(map(str, sorted({each.min(), each.max()})))

    def sizes(self) -> list[str]:
        """Return the record sizes in order: the fixed sizes first, then the ranges."""
        sizes = [RecordSize.parse(size) for size in self.cells.record_size.unique()]
        return [str(size) for size in sorted(sizes, key=lambda s: (s.low != s.high, s))]

    def counts(self) -> list[int]:
        return sorted(int(count) for count in self.cells.records.unique())

    def stores(self) -> list[str]:
        return sorted(set(self.cells.store), key=lambda store: (about.position(store), store))

    def largest(self) -> dict[str, Any]:
        """Return the levels of the field with the largest records and, among these, the largest
        count; of incompressible data, if measured."""
        kind = self.kind()
        own = self.cells[self.cells.compressibility == kind]
        size = [size for size in self.sizes() if size in set(own.record_size)][-1]
        return {
            "record_size": size,
            "records": int(own.records[own.record_size == size].max()),
            "compressibility": kind,
        }

    def kind(self) -> str:
        """Return the kind of data that a notebook shows if it shows one: incompressible, if
        measured."""
        kinds = self.level("compressibility")
        return "incompressible" if "incompressible" in kinds else kinds[0]

    def level(self, factor: str) -> list[str]:
        """Return the levels of a factor, in the order of their definition or size."""
        found = set(self.cells[factor])
        usual = (DEFAULT, UNCAPPED)
        if (order := ORDER.get(factor)) is None:
            order = [*usual, *sorted(found - {*usual, NOT_STATED}, key=parse_bytes)]
        return [level for level in (*order, NOT_STATED) if level in found]

    def durability(self, wanted: str = "") -> str:
        """Return the durability level to show if only one is shown: `wanted`, which a notebook's
        parameter names, or else `process`, if measured. Raises BadInput if `wanted` was not
        measured."""
        known = self.level("durability")
        if wanted and wanted not in known:
            raise BadInput(f"durability: {wanted!r} was not measured; allowed: {known}")
        return wanted or ("process" if "process" in known else known[0])

    def levels(self) -> str:
        """Return durability level, memory, compression and state of the page cache, in words."""
        names = {
            "durability": "durability",
            "memory": "memory budget",
            "compression": "compression",
        }
        said = []
        for factor, name in names.items():
            levels = self.level(factor)
            shipped = levels == [DEFAULT]
            said.append(f"{name} {'as shipped' if shipped else ', '.join(levels)}")
        own = self.cells[~self.cells.options.isin(["", NOT_STATED])]
        for options, rows in own.groupby("options"):
            said.append(f"{', '.join(sorted(set(rows.store)))} with {options}")
        caps = self.level("memory_max")
        if caps != [UNCAPPED]:
            said.append(f"cap on all memory {', '.join(caps)}")
        return "; ".join(said + [self._cache(state) for state in self.level("cache")])

    def _cache(self, state: str) -> str:
        """Return the state of the page cache, as mincore reports it, in words."""
        rows = self.cells[self.cells.cache == state]
        if state == "cold":
            how = " or ".join(sorted(set(rows.eviction.dropna()))) or NOT_STATED
            most = rows.cached_share.max()  # missing in newer data: to measure it warms the cache
            left = "" if pd.isna(most) else f", at most {most:.1%} left"
            return f"page cache cold (by {how}{left})"
        kept = rows.resident[rows.memory_max == UNCAPPED]
        if state != "warm" or kept.empty or kept.isna().any():
            return f"page cache {state}"
        some = ", but for those named" if (kept < WARM).any() else ""
        return f"page cache warm ({WARM:.0%} of a store's files in it or more{some})"

    def _cooled(self) -> str:
        """Return the stores with warm cells that are not ranked, as part of a sentence."""
        least = self.cells[self.cells.resident < WARM].groupby("store").resident.min()
        named = ", ".join(f"{store} {share:.0%}" for store, share in least.items())
        why = f"less than {WARM:.0%} of their files were in the page cache"
        return f"; ringed where drawn and not ranked, because {why}: {named}" if named else ""

    def _floor(self) -> str:
        """Return the time that the harness reports for an operation that does nothing, and which
        times are close to it, in words."""
        if self.cells.checksum.isna().all():
            return f"floor of the program that measured {NOT_STATED}"
        if self.cells.floor_ns.isna().any():
            return "the harness's floor was not measured with them"
        own = self.cells.groupby("access").floor_ns.median()
        floors = " and ".join(
            f"{formats.time(floor)}{' from Python' if access == 'python' else ''}"
            for access, floor in own.items()
        )
        near = self.operations[self.operations.operation != "load"].near_floor.any()
        marks = "hollow, or with a °: within" if near else "no time is within"
        return f"floor of the harness {floors} an operation ({marks} {FLOORS} times that)"

    def source(self) -> str:
        if self.folder.parts[:1] == ("data",):
            return f"{self.folder.name.capitalize()} data"
        return f"Results of {self.folder.as_posix()}"

    def conditions(self, settings: bool = True) -> str:
        """Return where and how the data were measured, for the foot of a figure. Without
        `settings`, the levels of the cells are left out, because the figure states them itself."""
        failed = (self.all_cells.status == "failed").sum()
        trials = f"{self.trials_text()} trial{'s' if self.trials > 1 else ''} a cell"
        trials = trials if self.trials else f"trials {NOT_STATED}"
        some = "1 cell failed and is" if failed == 1 else f"{failed} cells failed and are"
        lost = f"; {some} missing here" if failed else ""
        timed = self.operations[self.operations.operation != "load"]
        rounds = set(self.cells.workload) <= {ROUNDS, NOT_STATED}
        samples = f", at least {timed.n.min():,} operations of each kind a trial" if rounds else ""
        if self.average == "median":
            samples += ", times are medians where figures have means, which are not stated"
        elif lacking := (timed.mean_ns.isna() & (timed.n > 0)).sum():
            samples += f", but none of {lacking} for which no mean time is stated"
        slowed = timed.slowed[timed.mean_ns.notna()]
        if (slowed > ADJUSTED).any():
            samples += (
                ", adjusted to no processor time withheld by the host: divided by "
                f"{slowed.median():.2f} in the median and by {slowed.max():.2f} at most"
            )
        levels = f"; {self.levels()}" if settings else ""
        shaky = (self.unsteady.operation != "load").sum()
        if shaky:
            lost += (
                f"; {shaky} {self.average} times unsteady (trials differ more than {SPREAD:g}"
                "-fold; where they matter, measure again on a quieter machine)"
            )
        if host := int(self.cells.disturbed.sum()):
            withheld = (stolen_share(self.cells)[self.cells.disturbed] > SHARE).all()
            what = (
                f"the host withheld processors for more than {SHARE:.0%} of the time"
                if withheld
                else "the host withheld processors or memory, stopped the worker or set the clock"
            )
            lost += f"; in {host} of {len(self.cells)} cells {what}"
        found = f"{trials}{samples}{levels}{self._cooled()}{lost}; {self._floor()}"
        return f"{self.source()}: {found}.\n{self._machine()}."

    def bound(self, operation: str, size: str) -> float | None:
        """Return a physical bound of an operation in ns: a get takes at least as long as copying
        its record in memory, a synchronous write at least as long as one sync of the device. None
        if neither was measured."""
        known = self.machine.dropna()
        if operation == "get" and "memory_rate" in known:
            return float(RecordSize.parse(size).mean / known.memory_rate * 1e9)
        synced = set(self.level("durability")) & {*SYNCED}
        if operation != "get" and synced and "sync_p50_us" in known:
            return float(known.sync_p50_us * 1000)
        return None

    def facts(self) -> dict[str, Any]:
        """Return what is known of the machine, in words; NOT_STATED for what is not."""
        machine, stated = self.machine, formats.stated
        return {
            "cpu": stated(machine.cpu),
            "cores": NOT_STATED if pd.isna(machine.cores) else int(machine.cores),
            "memory": stated(machine.memory_bytes / 2**30, "{:.1f} GiB"),
            "file_system": stated(machine.file_system),
            "read_ahead": NOT_STATED
            if pd.isna(machine.read_ahead_bytes)
            else formats.size(machine.read_ahead_bytes),
            "fsync": stated(machine.fsync_ms, "{:.2f} ms"),
            "kernel": stated(machine.kernel),
            "reclaim": stated(machine.proactive_reclaim),
        }

    def host(self) -> dict[str, str]:
        """Return, for the text, the number of cells and how many of them the machine's host
        disturbed."""
        return {
            "cells": f"{len(self.cells):,}",
            "disturbed": f"{int(self.cells.disturbed.sum()):,}",
        }

    def _machine(self) -> str:
        data, memory = self.cells.live_bytes.max(), self.machine.memory_bytes
        largest = f"largest data {formats.stated(data / 2**20, '{:.0f} MiB')}"
        if not pd.isna(data / memory):
            largest += f", {data / memory:.2%} of it"
        texts = {
            "cores": "{} cores", "memory": "{} of memory", "fsync": "fsync {}",
            "read_ahead": "read-ahead {}", "reclaim": "proactive reclaim {}",
        }  # fmt: skip
        cpu, cores, held, file_system, read_ahead, fsync, kernel, reclaim = (
            f"{name.replace('_', ' ')} {fact}"
            if fact == NOT_STATED
            else texts.get(name, "{}").format(fact)
            for name, fact in self.facts().items()
        )
        number = self.cells.machine.nunique()
        several = f"{number} machines: " if number > 1 else ""
        return (
            f"{several}{cpu}, {cores}, {held} ({largest}); {file_system}, {read_ahead}, {fsync}; "
            f"{kernel}, {reclaim}"
        )
