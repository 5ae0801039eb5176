"""Do the numbers still support what the paper says in words?

    python -m study.answers.findings

The paper takes its numbers from data, but its words are typed. Each finding ties words of the paper
to a condition on the values that the notebooks publish in _variables.yml. Data that no longer
support the words fail `make figures` and the tests. `make falsify` shows that each condition can
fail: it alters the data of a finding and runs its notebook on them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from kvbench.stats.regret import GOOD

from study.common.notebook import root

HALF = 0.5  # of a factor: "much of the difference"; of a number: "most"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """Words of paper/index.qmd, the notebook that publishes their numbers, and whether its values
    support them."""

    words: str
    notebook: str
    holds: Callable[[Values], bool]


def number(text: object) -> float:
    """Return a published number. Raises ValueError if it is none."""
    return float(str(text).replace(",", ""))


def _spread_shrinks(values: Values) -> bool:
    factors = {name: number(own["factor"]) for name, own in values["durability"]["spread"].items()}
    return factors["sync"] < factors["process"] < HALF * factors["as_shipped"]


def _default_is_slower(values: Values) -> bool:
    return number(values["durability"]["sqlite"]["slower"]) > 1


def _ranking_turns(values: Values) -> bool:
    """LMDB is slow as shipped, and among the fastest at the better of its two settings."""
    own = values["beyond_memory"]
    least, most, shipped = map(
        number, (own["time"]["least"], own["time"]["most"], own["shipped"]["lmdb"])
    )
    fastest = own["fastest_stores"].replace(" and ", ", ").split(", ")
    return shipped > HALF * (least + most) and "lmdb" in fastest


def _scans_slow_down(values: Values) -> bool:
    return all(number(factor) > 1 for factor in values["beyond_memory"]["scan"].values())


def _records_are_damaged(values: Values) -> bool:
    return number(values["crashes"]["none"]["damaged"]) > 0


def _level_changes_the_winner(values: Values) -> bool:
    own, safest = values["reference"]["needs"], values["reference"]["safest"]["process"]["most"]
    changed = own["equal_mix_100_B_process"]["choose"] != own["equal_mix_100_B_sync"]["choose"]
    return bool(changed and number(safest) > GOOD)


def _sync_holds(values: Values) -> bool:
    levels = values["faults"]["states"]
    sync, process = (
        number(levels[name]["broken"]) / number(levels[name]["stores"])
        for name in ("sync", "process")
    )
    return sync < HALF < process


def _fewer_claims_at_equal_settings(values: Values) -> bool:
    claims, source, equal = (
        number(values["verdicts"]["known"][name]) for name in ("claims", "source", "equal")
    )
    return source > HALF * claims and equal < source


def _files_suit_large_values(values: Values) -> bool:
    """Close to the best: less than GOOD times its time."""
    needs = values["reference"]["needs"]
    small, large = (
        {level: number(needs[f"equal_mix_{size}_{level}"]["flat"]) for level in ("process", "sync")}
        for size in ("100_B", "1_MiB")
    )
    nearer = all(large[level] < small[level] for level in small)
    return nearer and large["sync"] < min(GOOD, large["process"]) and min(small.values()) > GOOD


FINDINGS = {
    "spread": Finding(
        "Much of the difference between stores as shipped is a difference in durability",
        "durability",
        _spread_shrinks,
    ),
    "default": Finding("slower to write", "durability", _default_is_slower),
    "read-ahead": Finding(
        "Beyond memory, one setting can reverse the ranking of gets",
        "beyond-memory",
        _ranking_turns,
    ),
    "scans": Finding(
        "The price is slower scans: the harness's final check takes",
        "beyond-memory",
        _scans_slow_down,
    ),
    "power": Finding(
        "Most stores held `sync` in each simulated power failure, and most would not have been "
        "recoverable at `process`",
        "faults",
        _sync_holds,
    ),
    "claims": Finding(
        "Most are replicated at their source's settings, and fewer at equal ones",
        "verdicts",
        _fewer_claims_at_equal_settings,
    ),
    "crashes": Finding("A crash may cost more than the last writes", "age", _records_are_damaged),
    "levels": Finding(
        "No store is the fastest everywhere, and for small values the durability level changes the "
        "winner",
        "reference",
        _level_changes_the_winner,
    ),
    "files": Finding(
        "For an equal mix, files therefore come close to the best store only for large values, and "
        "closest at `sync`",
        "reference",
        _files_suit_large_values,
    ),
}


def unsupported(values: Values) -> Iterator[str]:
    """Iterate over the names of the findings whose words the values do not support."""
    for name, finding in FINDINGS.items():
        if not finding.holds(values):
            yield name


def main() -> int:
    """Print each finding whose words the values do not support. Returns the exit status."""
    values = yaml.safe_load((root() / "_variables.yml").read_text(encoding="utf-8"))
    names = list(unsupported(values))
    for name in names:
        print(f"paper/index.qmd: its data do not support {FINDINGS[name].words!r}", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
