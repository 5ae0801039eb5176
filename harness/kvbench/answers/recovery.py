"""Whether stores come back after a loss of power, from the table of `kvbench crash --explore`."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from kvbench.cell.factors import DURABILITY
from kvbench.common.files import read_whole
from kvbench.common.messages import BadInput

TABLE = "faults/states.csv"  # beside the folder of results
LEAST = 200  # states that are enough to say that a store comes back
RECOVERABLE = "recoverable"
WEAKER = DURABILITY[: DURABILITY.index(RECOVERABLE)]  # the levels that promise less
MOST_BYTES = 16 << 20
NUMBERS = ("states", "recoverable", "cannot_be_mounted")


class Tried(NamedTuple):
    """The crash states of a store at a durability level, and how many of them it did not come back
    from as the level `recoverable` asks. `torn`: in each of these a block of 4 KiB survived
    in part, which the atomic writes of some disks exclude."""

    states: int
    broken: int
    torn: bool


class Recovery:
    """The crash states by store and durability level."""

    def __init__(self, tried: Mapping[tuple[str, str], Tried]) -> None:
        self._tried = tried

    @classmethod
    def beside(cls, folder: Path) -> Self | None:
        """The table beside a folder of results; None if there is none. Raises BadInput if it cannot
        be used."""
        path = folder.parent / TABLE
        if not path.is_file():
            return None
        try:
            text = read_whole(path, MOST_BYTES).decode()
            rows = list(csv.DictReader(io.StringIO(text), strict=True))
            found = {(row["store"], row["durability"]): _tried(row) for row in rows}
        except KeyError as error:
            raise BadInput(f"{path}: no column {error}; write it anew, or move it away") from None
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise BadInput(f"{path}: {error!s:.150}; write it anew, or move it away") from None
        return cls(found)

    def tried(self, store: str, level: str) -> Tried | None:
        """The states of a store at a level; None if it was not tested there."""
        return self._tried.get((store, level))

    def refuses(self, store: str, level: str) -> str:
        """The reason why it is not known that a store comes back at a level; empty if it does."""
        if said := self.says(store, level):
            return said
        found = self.tried(store, level)
        if found is None:
            return f"not tested: {TABLE} has no row of it at {level}"
        few = f"tested in only {found.states:,} crash states; {LEAST} are needed"
        return few if found.states < LEAST else ""

    def says(self, store: str, level: str) -> str:
        """What the crash states showed of a store that did not come back from all; else empty. What
        breaks a store at `recoverable` counts for weaker levels, at which it syncs no more."""
        levels = [level, RECOVERABLE] if level in WEAKER else [level]
        for own in levels:
            found = self.tried(store, own)
            if found is not None and found.broken:
                said = (
                    f"did not come back from {found.broken:,} of {found.states:,} crash states "
                    f"at {own}"
                )
                return f"{said}, all with a torn block of 4 KiB" if found.torn else said
        return ""


def _tried(row: Mapping[str, str]) -> Tried:
    states, recoverable, unmounted = (int(row[name]) for name in NUMBERS)
    if not 0 <= recoverable <= states - unmounted:
        raise ValueError(f"{row['store']}: {recoverable} of {states} states")
    broken = states - unmounted - recoverable
    return Tried(states - unmounted, broken, row.get("violations_torn") == str(broken) != "0")
