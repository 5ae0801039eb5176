"""What a program writes before a power failure, and what may be left of it.

A scenario is seeded: a base load, which is on disk before, then steps of which some number had been
acknowledged when the power failed. A history says which values each record had, and judges what a
store holds afterwards.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvbench.cell.factors import SYNCED
from kvbench.faults.apart import HANGS
from kvbench.faults.left import Left, Value, digest

LOADED, STEPS = 300, 700  # records of the base load; steps
SIZES = ((1, 16), (17, 200), (201, 2000), (2001, 9000))  # bytes of a value, from a few to pages
SHARES = (20, 40, 25, 15)  # of these sizes, in percent
LONGEST_KEY = 40  # bytes
MODES, MIX = ("insert", "update", "remove"), (35, 40, 25)  # percent
AGAIN = 0.3  # the share of inserts that bring back a removed record
PROBE = b"written after the crash"  # a key that no scenario has

CRASHES, REFUSED = "crashes", "does not open"
UNREAD, WRONG, STRANGER = "fails to read", "holds a wrong value", "holds a record never written"
LOST_BASE, LOST = "lost a record that was on disk", "lost an acknowledged write"
AFTER, AHEAD = "does not work afterwards", "holds a write that was not issued"
KINDS = (HANGS, CRASHES, REFUSED, UNREAD, WRONG, STRANGER, LOST_BASE, LOST, AFTER, AHEAD)
CLAIMING = (*SYNCED, "recoverable")  # the levels that promise something about power failures


class Step(NamedTuple):
    """A write: its mode, the key, and the value, which is empty for a remove."""

    mode: str
    key: bytes
    value: bytes

    @property
    def left(self) -> bytes | None:
        """The digest of what the record holds after it."""
        return None if self.mode == "remove" else digest(self.value)


def _value(choose: random.Random) -> bytes:
    (sizes,) = choose.choices(SIZES, SHARES)
    return choose.randbytes(choose.randint(*sizes))


def _keys(choose: random.Random, count: int) -> list[bytes]:
    """Distinct keys in random order."""
    found: dict[bytes, None] = {}
    while len(found) < count:
        found[choose.randbytes(choose.randint(4, LONGEST_KEY))] = None
    return list(found)


def steps(
    choose: random.Random, live: Sequence[bytes], dead: Sequence[bytes], count: int
) -> list[Step]:
    """Writes that succeed in a store with these live records; `dead` are keys to insert."""
    here, gone, removed = list(live), list(dead), list[bytes]()
    found = []

    def taken(keys: list[bytes]) -> bytes:
        at = choose.randrange(len(keys))
        keys[at], keys[-1] = keys[-1], keys[at]
        return keys.pop()

    for _ in range(count):
        (mode,) = choose.choices(MODES, MIX)
        if not here or (mode == "insert" and not gone + removed):
            mode = "insert" if gone + removed else "update"
        if mode == "remove":
            key = taken(here)
            removed.append(key)
            found.append(Step(mode, key, b""))
            continue
        if mode == "update":
            key = choose.choice(here)
        else:
            back = removed and (not gone or choose.random() < AGAIN)
            key = taken(removed if back else gone)
            here.append(key)
        found.append(Step(mode, key, _value(choose)))
    return found


class Scenario:
    """The base load and the steps of a seed, and all keys that they use."""

    def __init__(self, seed: str, count: int = STEPS) -> None:
        choose = random.Random(seed)
        self.keys = _keys(choose, LOADED + count // 2)
        self.base = {key: _value(choose) for key in self.keys[:LOADED]}
        self.steps = steps(choose, self.keys[:LOADED], self.keys[LOADED:], count)

    def history(self) -> "History":
        start = {key: digest(value) for key, value in self.base.items()}
        return History(self.keys, [start.get(key) for key in self.keys], self.steps)


class Verdict(NamedTuple):
    """What a store kept at a power failure."""

    kind: str = ""  # the guarantee that is violated, one of KINDS; empty if none is
    detail: str = ""
    recoverable: bool = True  # whether the guarantee of the level `recoverable` holds
    prefix: int = -1  # the store holds exactly what these first steps leave; -1 if nothing such


class History:
    """The values that each record had: `start` before the first step, then what the steps leave.
    If a power failure came before, `first` is the history until then, with the number of its steps
    that had been acknowledged, and `start` is what a look has found since."""

    def __init__(
        self,
        keys: Sequence[bytes],
        start: Sequence[bytes | None],
        steps: Sequence[Step],
        first: "tuple[History, int] | None" = None,
    ) -> None:
        self.keys, self.steps, self._first = keys, steps, first
        self._changes: list[list[tuple[int, bytes | None]]] = [[(0, value)] for value in start]
        place = {key: at for at, key in enumerate(keys)}
        for number, step in enumerate(steps, start=1):
            self._changes[place[step.key]].append((number, step.left))

    def allowed(self, at: int, most: int) -> set[bytes | None]:
        """The values that a record had at any time up to step `most`."""
        earlier = self._first[0].allowed(at, self._first[1] + 1) if self._first else set()
        return {value for number, value in self._changes[at] if number <= most} | earlier

    def _before(self, at: int) -> set[bytes | None]:
        """The values that a record may have at a strict level until a step writes it: that of the
        step under way at the first failure may yet come or go."""
        if self._first is None:
            return {self.after(at, 0)}
        history, acknowledged = self._first
        return {self.after(at, 0)} | {history.after(at, acknowledged + more) for more in (0, 1)}

    def after(self, at: int, number: int) -> bytes | None:
        """The value of a record after some number of steps."""
        return [value for since, value in self._changes[at] if since <= number][-1]

    def _prefixes(self, found: Sequence[Value], torn: bytes | None, level: str) -> np.ndarray:
        """For each number of steps, whether the records are exactly as these steps leave them."""
        fits = np.ones(len(self.steps) + 1, bool)
        for at, (key, value, changes) in enumerate(
            zip(self.keys, found, self._changes, strict=True)
        ):
            if key == torn:
                continue
            ends = [since for since, _ in changes[1:]] + [len(fits)]
            for (since, own), end in zip(changes, ends, strict=True):
                if value == own or (since == 0 and level in SYNCED and value in self._before(at)):
                    continue
                fits[since:end] = False
        if self._first and level not in SYNCED:  # the second failure may have cost more
            history, acknowledged = self._first
            fits[0] |= history._prefixes(found, torn, level)[: acknowledged + 2].any()
        return fits

    def _wrong(self, found: Sequence[Value], most: int) -> tuple[str, str]:
        """What violates the level `recoverable`, and at which record."""
        faults = []
        for at, value in enumerate(found):
            allowed = self.allowed(at, most)
            if value in allowed:
                continue
            if isinstance(value, str):
                kind = UNREAD
            elif value is None:
                kind = LOST_BASE
            else:
                kind = AHEAD if value in self.allowed(at, len(self.steps)) else WRONG
            detail = f": {value}" if isinstance(value, str) else ""
            faults.append((KINDS.index(kind), f"record {self.keys[at].hex()}{detail}"))
        if not faults:
            return "", ""
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        worst, detail = min(faults)
        return KINDS[worst], f"{detail}{more}"

    def _late(self, found: Sequence[Value], acknowledged: int) -> str:
        """The first records whose values are not those after the acknowledged steps, or after one
        more."""
        for at, value in enumerate(found):
            own = self.steps[:acknowledged]
            last = max((n for n, step in enumerate(own, 1) if step.key == self.keys[at]), default=0)
            wanted = {self.after(at, acknowledged + more) for more in (0, 1)}
            if last == 0:
                wanted |= self._before(at)
            if value not in wanted:
                what = f"{own[last - 1].mode} {last} of {acknowledged}" if last else "what was left"
                return f"{what}, of record {self.keys[at].hex()}"
        return f"no number of steps leaves this; {acknowledged} were acknowledged"

    def judge(self, left: Left, acknowledged: int, level: str, tears: bool = False) -> Verdict:
        """Compare what a store holds with what it must hold, if the power failed after this many
        acknowledged steps, at a durability level that is not DEFAULT. The step that was under way
        may have been done or not; with `tears` its record may hold anything."""
        if left.ended:
            kind = HANGS if left.ended == HANGS else CRASHES
            return Verdict(kind, f"{left.ended} {left.said}".strip(), False)
        if left.refused:
            return Verdict(REFUSED, left.refused, False)
        most = min(acknowledged + 1, len(self.steps))
        under_way = self.steps[acknowledged] if acknowledged < len(self.steps) else None
        torn = under_way.key if tears and under_way and under_way.value else None
        found = [
            self.after(at, acknowledged) if key == torn else value
            for at, (key, value) in enumerate(zip(self.keys, left.found, strict=True))
        ]
        kind, detail = self._wrong(found, most)
        if not kind and left.extra:
            kind, detail = STRANGER, f"{left.extra} records"
        if not kind and (left.after or left.closing):
            kind, detail = AFTER, left.after or left.closing
        fits = np.flatnonzero(self._prefixes(found, torn, level))
        prefix = int(fits[fits <= most].max(initial=-1))
        recoverable = not kind
        if not kind and level in SYNCED and prefix < acknowledged:
            kind, detail = LOST, self._late(found, acknowledged)
        return Verdict(kind, detail, recoverable, prefix)
