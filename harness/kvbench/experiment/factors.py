"""The meaning of each factor of a cell, and how grids, names and comparisons use it.

The keys of grids, columns of results, names of cells, separation of comparisons and reference pages
all follow from this table. Types and levels are in cell/factors.py, so that a changed description
here makes no result stale.
"""

import dataclasses
from typing import Any

from kvbench.cell import factors
from kvbench.cell.factors import DEFAULTS, LEVELS, NAMES, Cell
from kvbench.common.messages import BadInput

NOT_STATED = "not stated"  # the level of a factor that an import does not state


@dataclasses.dataclass(frozen=True)
class Factor:
    """The description of a factor, and its use in grids, names and comparisons."""

    meaning: str  # for the reference pages
    key: str = ""  # in a grid, if it differs from the name
    usual: Any = None  # default in a grid, if the cell has none
    unit: str = ""
    in_name: str = "{}"  # format of a non-default level in the name of a cell
    varied: bool = True  # whether a grid lists its levels
    compared: bool = True  # whether stores are compared at one level of it
    name: str = ""  # as in Cell

    @property
    def default(self) -> Any:
        """The level of a cell that states none; MISSING if every cell must state one."""
        return DEFAULTS.get(self.name, dataclasses.MISSING)

    @property
    def column(self) -> type:
        """The Python type of its values in a table."""
        return factors.column(self.name)

    def level(self, value: object) -> Any:
        """The level that `value` stands for. Raises BadInput, which names the key and what is
        allowed."""
        try:
            return factors.level(self.name, value)
        except BadInput as error:
            raise BadInput(f"{self.key}: {error}") from None

    def levels(self) -> str:
        """The allowed levels, in words."""
        return factors.allowed(self.name)


_USES = {
    "store": Factor("Name of the store, as `kvbench stores` lists it", "stores", varied=False),
    "binding": Factor("The Python binding; empty: the shim in C", "bindings", varied=False),
    "record_size": Factor(
        'Size of a value: `"100 B"`, or uniform in a range: `"1-10 KiB"`',
        "record_sizes",
        "1 KiB",
    ),
    "records": Factor("Nominal number of live records", usual=1000, unit="1"),
    "compressibility": Factor(
        "Kind of data: words by Zipf's law, or random bytes", usual="incompressible"
    ),
    "operations": Factor("Operations of the workload `rounds` that are timed", varied=False),
    "trial": Factor("Number of the trial", "trials", 3, "1", varied=False),
    "seed": Factor("Seed of order, keys and values", "seed", 1, "1", varied=False),
    "label": Factor(
        'Name of a part of a grid, as `"equal settings"`; empty: none',
        varied=False,
        compared=False,
    ),
    "durability": Factor(
        "Durability level. `none`: acknowledged writes may be lost when the process is killed; "
        "`process`: they survive that; `recoverable`: the same, and acknowledged writes of the "
        "last moments may be lost when power fails, but the store opens, every record holds a "
        "value that was written to it, and no record that was on disk before is lost; `sync`: "
        "they survive a power failure; `atomic`: and the update of a file is all or nothing; "
        "`default`: as shipped"
    ),
    "memory": Factor("Budget of the engine's own caches and buffers"),
    "compression": Factor("Compression by the engine"),
    "options": Factor(
        "The engine's own options, as `name=value, ...`", varied=False, compared=False
    ),
    "cache": Factor(
        "Page cache. `warm`: as earlier operations leave it; `cold`: before every ten gets or "
        "updates, the harness closes the store, evicts it and opens it again; it times no other "
        "operations"
    ),
    "key_order": Factor(
        "Order of the keys in `rounds` and in `mix`. With `zipfian` (0.99), inserts and removes "
        "stay uniform"
    ),
    "memory_max": Factor(
        "Cap on all memory of a cell, page cache included; needs root",
        in_name="max {}",
    ),
    "workload": Factor("`rounds` of single operations, or steps", "workloads"),
    "key_size": Factor("Size of a key", unit="B", in_name="keys of {} B"),
    "place": Factor(
        "Where the store's folder is: `disk`, below the results; `tmpfs`, in `/dev/shm`"
    ),
    "batch": Factor(
        "Records of an update in `rounds`. `0`: one, whose key must exist; n: a call stores n "
        "records, in one transaction if the store has any, whether their keys exist or not (a "
        "blind write). With n, only gets and updates are timed",
        unit="1",
        in_name="batches of {}",
    ),
    "least_ms": Factor(
        "Least time for each operation of `rounds`, which is repeated until it has passed. It "
        "also applies to `readrandom` and to mixes without inserts, unless they state `ops` or "
        "`seconds`",
        unit="ms",
        in_name="{} ms",
        varied=False,
        compared=False,
    ),
}
FACTORS = {
    name: dataclasses.replace(_USES[name], name=name, key=_USES[name].key or name) for name in NAMES
}
# The factors at one level of which stores are compared.
COMPARED = tuple(name for name in LEVELS if FACTORS[name].compared)
# The factors that all trials of one combination of levels share.
CONDITION = tuple(name for name in FACTORS if name not in ("operations", "trial", "seed"))


def non_default(cell: Cell) -> list[str]:
    """The non-default levels of a cell, in words."""
    found = ((FACTORS[name], getattr(cell, name)) for name in LEVELS)
    return [factor.in_name.format(level) for factor, level in found if level != factor.default]


def title(cell: Cell) -> str:
    """A description of a cell for people."""
    what = (cell.full_name, f"{cell.record_size} x {cell.records}", cell.compressibility)
    return ", ".join((*what, *non_default(cell)))
