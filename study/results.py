"""Collected results as the notebooks read them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench import BadInput
from kvbench.factors import (
    CACHE,
    COMPARED,
    COMPRESSION,
    CONDITION,
    DEFAULT,
    DURABILITY,
    UNCAPPED,
    RecordSize,
    parse_bytes,
)
from kvbench.noise import SPREAD, unsteady
from kvbench.plan import SAMPLES
from kvbench.tables import read_tables
from kvbench.workload import ROUNDS

from study import formats
from study.notebook import parameter_folder
from study.stores import STORES

WARM = 0.95  # of a store's files in the page cache: less is named where it occurs
FLOORS = 3  # times that lie within so many of the harness's own are marked


class Results:
    """Collected results: `cells` has a row a measured trial, `operations` one a trial and
    operation with the factors of its cell; `machines` one a machine.

    Of the ways to reach a store only those of `access` are taken: stores are compared from C. They
    are compared at one level of durability, memory and the like, but for the factors in `varying`.
    `parameter` is the notebook's that gives the folder.
    """

    def __init__(
        self,
        folder: str,
        access: Sequence[str] = ("c",),
        varying: Sequence[str] = (),
        parameter: str = "results",
    ) -> None:
        path = parameter_folder(parameter, folder)
        self.folder = Path(folder)
        tables = {name: table.to_pandas() for name, table in read_tables(path).items()}
        self.machines: pd.DataFrame = tables["machines"]
        cells = tables["cells"]
        self.all_cells: pd.DataFrame = cells[cells.access.isin(access)]
        self.cells = self.all_cells[self.all_cells.status == "ok"].copy()
        if self.cells.empty:
            raise BadInput(f"{folder}: no cell was measured with access {' or '.join(access)}")
        if len(self.cells.machine.unique()) > 1:
            raise BadInput(f"{folder}: results of several machines; collect each by itself")
        for factor in COMPARED:
            found = sorted(self.cells[factor].unique())
            if len(found) > 1 and factor not in varying:
                raise BadInput(
                    f"{folder}: results of several levels of {factor}: "
                    f"{', '.join(map(str, found))}; collect each by itself"
                )
        peaks = self.cells.memory_anonymous_bytes + self.cells.memory_file_bytes
        self.cells["memory_bytes"] = peaks
        self.cells["space_efficiency"] = self.cells.live_bytes / self.cells.disk_bytes
        operations = tables["operations"].assign(mean_ns=lambda rows: rows.sum_ns / rows.n)
        self.unsteady = unsteady(self.cells, tables["operations"])
        factors = ["cell", "access", *CONDITION, "trial", "seed"]
        rows = self.cells[[*factors, "floor_ns"]].merge(operations, on="cell", validate="1:m")
        self.operations = rows.assign(near_floor=rows.mean_ns < FLOORS * rows.floor_ns)

    @property
    def machine(self) -> Any:
        """The row of the machine that measured."""
        return self.machines.set_index("machine").loc[self.cells.machine.iloc[0]]

    @property
    def trials(self) -> int:
        """The most trials that any cell has."""
        return int(self.cells.trial.nunique())

    def sizes(self) -> list[str]:
        """The record sizes: those of one size first, then the ranges, each in order."""
        sizes = [RecordSize.parse(size) for size in self.cells.record_size.unique()]
        return [str(size) for size in sorted(sizes, key=lambda s: (s.low != s.high, s))]

    def counts(self) -> list[int]:
        return sorted(int(count) for count in self.cells.records.unique())

    def stores(self) -> list[str]:
        present = set(self.cells.store)
        return [store for store in STORES if store in present] + sorted(present - set(STORES))

    def largest(self) -> dict[str, Any]:
        """The field of the largest records and count; of incompressible data, if measured."""
        return {
            "record_size": self.sizes()[-1],
            "records": max(self.counts()),
            "compressibility": max(self.cells.compressibility),
        }

    def level(self, factor: str) -> list[str]:
        """The levels of a factor, in the order of their definition or size."""
        order: dict[str, Sequence[str]] = {"durability": DURABILITY, "compression": COMPRESSION}
        found = set(self.cells[factor])
        if factor in order:
            return [level for level in order[factor] if level in found]
        names = sorted(found - {DEFAULT, UNCAPPED}, key=parse_bytes)
        return [level for level in (DEFAULT, UNCAPPED) if level in found] + names

    def levels(self) -> str:
        """Durability, memory, compression and the page cache, in words."""
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
        own = self.cells[self.cells.options != ""]
        for options, rows in own.groupby("options"):
            said.append(f"{', '.join(sorted(set(rows.store)))} with {options}")
        caps = self.level("memory_max")
        if caps != [UNCAPPED]:
            said.append(f"cap on all memory {', '.join(caps)}")
        return "; ".join(
            said + [self._cache(state) for state in CACHE if state in set(self.cells.cache)]
        )

    def _cache(self, state: str) -> str:
        """The state of the page cache, as mincore saw it."""
        rows = self.cells[self.cells.cache == state]
        if (rows.memory_max == UNCAPPED).any():
            rows = rows[rows.memory_max == UNCAPPED]  # a cap is there to keep the cache small
        if state == "cold":
            how = " or ".join(sorted(set(rows.eviction)))
            most = rows.cached_share.max()  # missing in newer data: looking would warm the cache
            left = "" if pd.isna(most) else f", at most {most:.1%} left"
            return f"page cache cold (by {how}{left})"
        if rows.cached_share.isna().any():
            return "page cache warm"
        least = rows.groupby("store").cached_share.min()
        less = [f"{name} {share:.0%}" for name, share in least[least < WARM].items()]
        rest = f"; less: {', '.join(less)}" if less else ""
        return f"page cache warm ({WARM:.0%} of a store's files in it or more{rest})"

    def _floor(self) -> str:
        """What the harness reports of an operation that does nothing, and what is close to that."""
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
        """Where and how the figures were measured, for the foot of each; without the levels of the
        cells where the figure says them itself."""
        machine, memory = self.machine, self.machine.memory_bytes
        data = self.cells.live_bytes.max()
        failed = (self.all_cells.status == "failed").sum()
        trials = f"{self.trials} trial{'s' if self.trials > 1 else ''}"
        some = "1 cell failed and is" if failed == 1 else f"{failed} cells failed and are"
        lost = f"; {some} missing here" if failed else ""
        rounds = set(self.cells.workload) == {ROUNDS}
        samples = f", at least {SAMPLES:,} operations of each kind a trial" if rounds else ""
        levels = f"; {self.levels()}" if settings else ""
        shaky = len(self.unsteady)
        if shaky:
            lost += (
                f"; {shaky} mean times unsteady (trials differ more than {SPREAD:g}-fold; "
                "where they matter, measure again on a quieter machine)"
            )
        return (
            f"{self.source()}: {trials} a cell{samples}{levels}{lost}; {self._floor()}.\n"
            f"{machine.cpu}, {machine.cores} cores, {memory / 2**30:.1f} GiB of memory (largest"
            f" data {data / 2**20:.0f} MiB, {data / memory:.2%} of it);"
            f" {machine.file_system}, fsync {machine.fsync_ms:.2f} ms; {machine.kernel}."
        )
