"""The list of experiments, harness/experiments.toml, which explains its keys.

python -m kvbench.experiment.listed NAME         # print the notebooks of this experiment
python -m kvbench.experiment.listed --headline   # print what `make headline` measures
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from kvbench.common.files import read_toml
from kvbench.common.messages import BadInput, listed, say

LIST = Path("harness/experiments.toml")  # relative to the root of the repository
OWN = "own"  # stands for the file system of the results
Also = Literal["sharing", "evidence", "crashes", "openings", "installed"]
ELSEWHERE = "elsewhere"  # the scale of an experiment on other file systems


class Headline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `make headline` measures an experiment."""

    grid: str = ""  # never empty once read
    scale: str = "1"
    capped: bool = False  # whether it needs a cap on memory


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the list, with its name."""

    notebooks: tuple[str, ...]
    serves: str = ""
    grid: str = ""  # never empty once read
    scale: str = "1"
    file_system: str = ""
    device: str = ""  # the value of `kvbench sweep --device`
    also: Mapping[Also, int] = {}  # minutes
    headline: Headline | None = None
    judged: str = "`kvbench compare`"
    name: str = ""


class _Other(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    grids: dict[str, str]
    notebooks: dict[str, str]
    data: dict[str, str]


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The experiments by name, in order; and the reason why a grid, a notebook or a folder of data
    belongs to none of them."""

    experiment: dict[str, Experiment]
    other: _Other

    def named(self, names: Iterable[str]) -> list[Experiment]:
        """The experiments with these names. Raises BadInput if one is unknown."""
        return [self._one(name) for name in names]

    def _one(self, name: str) -> Experiment:
        if name not in self.experiment:
            allowed = listed(self.experiment, name, str(LIST))
            raise BadInput(f"EXPERIMENT: {name!r} is not listed; allowed: {allowed}")
        return self.experiment[name]

    def headlines(self) -> list[str]:
        """What `make headline` measures: lines with the name, the grid and the scale of an
        experiment, and "capped" if it needs a cap on memory, or else "free"."""
        return [
            f"{name} {how.grid} {how.scale} {'capped' if how.capped else 'free'}"
            for name, experiment in self.experiment.items()
            if (how := experiment.headline)
        ]

    def served(self) -> list[Experiment]:
        """The experiments that the paper uses."""
        return [experiment for experiment in self.experiment.values() if experiment.serves]


def read(root: Path = Path()) -> Listed:
    """The list of the repository at `root`. Raises BadInput if it cannot be read."""
    path = root / LIST
    try:
        values = read_toml(path)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    at = ""  # the entry that is being read
    try:
        for name, entry in values.get("experiment", {}).items():
            at = f"experiment.{name}: "
            msgspec.convert(entry, Experiment)
        at = ""
        found = msgspec.convert(values, Listed)
    except (AttributeError, msgspec.ValidationError) as error:
        raise BadInput(f"{path}: {at}{error}") from None
    for name, entry in found.experiment.items():
        grid, how = entry.grid or name, entry.headline
        how = how and replace(how, grid=how.grid or grid)
        found.experiment[name] = replace(entry, name=name, grid=grid, headline=how)
    return found


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["--headline"]:
            print(*read().headlines(), sep="\n")
        else:
            for chosen in read().named(sys.argv[1:]):
                print(*chosen.notebooks)
    except BadInput as problem:
        say(str(problem))
        sys.exit(2)
