"""Checks the order of a workload's steps, and states which capabilities of a store they need."""

import dataclasses
from collections.abc import Callable

from kvbench.cell.workload import (
    BACKUP,
    CHURN,
    CONCURRENT,
    FILLS,
    GROWING,
    MIX,
    PROCESSES,
    RANDOM_READS,
    REWRITES,
    SCANS,
    Step,
    parse,
)
from kvbench.common.messages import BadInput

# The capability that a store needs for a step; `lacks` covers steps with several threads.
NEEDS = {
    **dict.fromkeys((*SCANS, "rangerandom", "ycsb-e"), "scan"),
    **{name: name for name in ("compact", PROCESSES, BACKUP)},
}
LAST = (*CONCURRENT, BACKUP)


def checked(text: str) -> tuple[Step, ...]:
    """The steps of a workload. Raises BadInput if a step cannot be measured at its position."""
    steps = parse(text)
    names = [step.name for step in steps]
    for i, name in enumerate(names):
        if name in FILLS and i > 0:
            raise BadInput(
                f"workloads: {text!r:.60}: {name} fills an empty store; allowed: as first"
            )
        last = i == len(names) - 1
        if name in LAST and not last:
            raise BadInput(f"workloads: {text!r:.60}: {name} is allowed as the last step only")
        if name == "ycsb-e" and GROWING in names:
            raise BadInput(
                f"workloads: {text!r:.60}: {name} finds no gaps; allowed: without {GROWING}"
            )
        if name == "ycsb-e" and (before := REWRITES & set(names[:i])):
            # A scan in a mix expects the first version of each record (plan.h).
            raise BadInput(
                f"workloads: {text!r:.60}: after {', '.join(sorted(before))} records have changed; "
                f"allowed: {name} before it"
            )
        later = set(names[i + 1 :]) - {*RANDOM_READS, *SCANS, "compact"}
        if name == CHURN and (lost := {*LAST, GROWING} & set(names)):
            raise BadInput(
                f"workloads: {text!r:.60}: {CHURN} leaves records removed; "
                f"allowed: without {', '.join(sorted(lost))}"
            )
        if name == "deleterandom" and later:
            raise BadInput(f"workloads: {text!r:.60}: after {name} only reads are allowed")
        found = [step.reads for step in steps[:i] if step.name == MIX and not step.open]
        if steps[i].get("load", 0) and steps[i].reads not in found:
            raise BadInput(
                f"workloads: {str(steps[i])!r:.60}: no closed loop has found its rate; "
                f'allowed: after "{MIX} reads={steps[i].reads}"'
            )
    return steps


def closed(step: Step) -> Step:
    """The same step in a closed loop, with the default number of operations."""
    own = ("ops", "seconds", "rate", "load", "gaps")
    return dataclasses.replace(step, given=tuple(pair for pair in step.given if pair[0] not in own))


def lacks(step: Step, can: Callable[[str], bool]) -> str:
    """The capability that the step needs and the store lacks; empty if there is none."""
    needed = NEEDS.get(step.name, "")
    if needed and not can(needed):
        return needed
    readers, writers = step.threads()
    if step.name not in LAST or (step.name == BACKUP and not writers):
        return ""
    if writers > 1 and not can("writers"):
        return "writers"
    # Read-only threads may also use a store that allows several writers, such as a folder.
    fit = can("threads") or (can("writers") and not (readers and writers))
    return "" if fit else "threads"
