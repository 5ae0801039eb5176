"""Workloads: steps on a store, named as in LevelDB's db_bench and in YCSB.

A workload is a text such as "fillrandom batch=1000, readrandom ops=5000": steps in order, each with
its parameters. The plain workload is `rounds` (see plan.py). The harness first loads the records
unless the first step is a fill.
"""

import dataclasses
from typing import Self

from kvbench.common.messages import BadInput, listed

ROUNDS = "rounds"
PAGE = "docs/measuring.md"  # the page that explains the steps
FILLS = ("fillseq", "fillrandom")
SCANS = ("readseq", "readreverse")
RANDOM_READS = ("readrandom", "rangerandom")
GROWING = "insertrandom"
TRAFFIC = "readwhilewriting"
PROCESSES = "processes"
BACKUP = "backup"
MIX = "mix"
CHURN = "churn"
# Mostly updates, as in the heavy mixes of YCSB, with enough removes and inserts of removed records
# to free and reuse space all the time. Removes and inserts are equally frequent, so that the number
# of live records is about constant.
CHURN_SHARES = {"update": 0.8, "remove": 0.1, "insert": 0.1}
CHURN_DEAD = 10  # at most one in this many records is dead at a time

# The shares of YCSB's core workloads (Cooper et al., 2010). Reads follow popularity, those of D
# recency. A read-modify-write is a get and an update of one record, each timed.
YCSB: dict[str, dict[str, float]] = {
    "ycsb-a": {"get": 0.5, "update": 0.5},
    "ycsb-b": {"get": 0.95, "update": 0.05},
    "ycsb-c": {"get": 1.0},
    "ycsb-d": {"get": 0.95, "insert": 0.05},
    "ycsb-e": {"scan": 0.95, "insert": 0.05},
    "ycsb-f": {"get": 0.5, "read-modify-write": 0.5},
}
NEWEST_FIRST = ("ycsb-d",)

# The parameters of each step, with their least values.
_RATE = {"rate": 1, "gaps": 0}
_OPS = {"ops": 1, **_RATE}
PARAMETERS: dict[str, dict[str, int]] = {
    **{name: {"batch": 1, **_RATE} for name in FILLS},
    "overwrite": {**_OPS, "batch": 1},
    **{name: {} for name in SCANS},
    GROWING: {**_OPS, "batch": 1},
    "readrandom": _OPS,
    "rangerandom": {**_OPS, "length": 1},
    "deleterandom": _OPS,
    "compact": {},
    **{name: _OPS for name in YCSB},
    MIX: {"reads": 0, "seconds": 1, "load": 1, **_OPS},
    CHURN: {"times": 1, "seconds": 1, "most": 1, **_RATE},
    TRAFFIC: {"readers": 0, "writers": 0, "reads": 0, "writes": 0, "seconds": 1},
    PROCESSES: {"readers": 0, "writers": 0, "writes": 0, "seconds": 1},
    BACKUP: {"writers": 0, "writes": 0},
}
CONCURRENT = (TRAFFIC, PROCESSES)
REWRITES = {"overwrite", MIX, CHURN} | {
    name for name, shares in YCSB.items() if {"update", "read-modify-write"} & set(shares)
}
# The records of a batch are made at once; a timeline has a place for each tenth of a second.
MOST_STEPS = 100
# A clock in nanoseconds resolves at most a billion operations per second. At the rate of the
# closed loop, the queue of an open loop grows without bound.
MOST_THREADS = 1024  # readers, or writers
MOST = {
    "batch": 100_000, "seconds": 3600, "readers": MOST_THREADS, "writers": MOST_THREADS,
    "rate": 10**9, "writes": 10**9, "load": 99, "times": 10_000, "most": 24 * 3600,
}  # fmt: skip
PERCENT = 100
MOST_OF = {(MIX, "reads"): PERCENT, (BACKUP, "writers"): 1}
GAPS = ("constant", "exponential")  # in an open loop


@dataclasses.dataclass(frozen=True)
class Step:
    """A step executes `ops` operations (default: as many as records), in batches of `batch`
    records. With `rate`, it is an open loop: a batch of b records is due every b / rate seconds,
    with constant gaps (`gaps` 0, the default) or exponential ones (1). Without it, the loop is
    closed.

    mix: `reads` per cent (50) are gets, the others updates, for `seconds`. With `load`, it is an
    open loop with exponential gaps, whose rate is that percentage of the rate that the same mix
    reached in an earlier closed loop.

    churn: updates by popularity, removes, and inserts of removed records (CHURN_SHARES), until
    `times` (3) as many bytes as the data have were written, and for at least `seconds`. It ends
    after `most` seconds (default: no limit).

    rangerandom: each operation reads `length` (10) records forward.

    readwhilewriting: each of `readers` (4) makes `reads` gets (default: as many as records; 0: no
    limit) while `writers` (1) together make `writes` per second (10,000; 0: no limit), for at most
    `seconds`. With 0 readers or 0 writers, the others run alone.

    processes: the same, but each reader and each writer is a process that has the store open.

    backup: one backup into a new folder beside the store's, while `writers` (1, or 0) overwrites
    `writes` random records per second (10,000; 0: no limit).
    """

    name: str
    given: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        name, *pairs = text.split() or [""]
        if name not in PARAMETERS:
            raise BadInput(f"{name!r:.60} is not a step; allowed: {listed(PARAMETERS, name, PAGE)}")
        given: dict[str, int] = {}
        for pair in pairs:
            key, _, value = pair.partition("=")
            least = PARAMETERS[name].get(key)
            if least is None:
                allowed = ", ".join(PARAMETERS[name]) or "none"
                raise BadInput(f"{name}: {pair!r:.60} is not a parameter; allowed: {allowed}")
            most = MOST_OF.get((name, key), MOST.get(key, 2**31 - 1))
            number = int(value) if value.isdecimal() and len(value) < 20 else -1
            allowed = f"{key}=N, N from {least} to {most}"
            if key == "gaps":
                number = GAPS.index(value) if value in GAPS else -1
                allowed = " or ".join(f"{key}={gaps}" for gaps in GAPS)
            if not least <= number <= most:
                raise BadInput(f"{name}: {pair!r:.60} is not allowed; allowed: {allowed}")
            given[key] = number
        step = cls(name, tuple(given.items()))
        if name in CONCURRENT and step.threads() == (0, 0):
            raise BadInput(f"{step}: no thread; allowed: 1 or more readers or writers")
        endless = step.threads()[0] == 0 or given.get("reads") == 0 or name == PROCESSES
        if name in CONCURRENT and endless and "seconds" not in given:
            raise BadInput(f"{step}: it would never end; allowed: with seconds=N")
        if given.get("most", 2**31) < given.get("seconds", 0):
            raise BadInput(
                f"{str(step)!r:.60} ends before it may; allowed: most={given['seconds']} or more"
            )
        if {"load", "rate"} <= set(given):
            raise BadInput(f"{str(step)!r:.60} has two rates; allowed: load or rate")
        if "gaps" in given and not {"load", "rate"} & set(given):
            raise BadInput(f"{str(step)!r:.60}: a closed loop has no gaps; allowed: gaps with rate")
        return step

    def get(self, key: str, default: int) -> int:
        return dict(self.given).get(key, default)

    @property
    def reads(self) -> int:
        """The percentage of gets in a mix."""
        return self.get("reads", 50)

    @property
    def open(self) -> bool:
        """Whether it is an open loop."""
        return bool({"load", "rate"} & set(dict(self.given)))

    @property
    def exponential(self) -> bool:
        """Whether the gaps of its open loop are exponential."""
        return bool(self.get("gaps", self.get("load", 0)))

    def shares(self) -> dict[str, float]:
        """The share (0 to 1) of each operation in a mix; empty for other steps."""
        if self.name == MIX:
            return {"get": self.reads / PERCENT, "update": 1 - self.reads / PERCENT}
        return YCSB.get(self.name, {})

    def threads(self) -> tuple[int, int]:
        """The number of readers and of writers of CONCURRENT steps; BACKUP is the one reader of its
        step."""
        return 1 if self.name == BACKUP else self.get("readers", 4), self.get("writers", 1)

    def gets(self, records: int) -> int:
        """The number of gets of each reader of a CONCURRENT step; 0: no limit."""
        return self.get("reads", 0 if self.name == PROCESSES else records)

    def __str__(self) -> str:
        said = ((key, GAPS[value] if key == "gaps" else value) for key, value in self.given)
        return " ".join((self.name, *(f"{key}={value}" for key, value in said)))


def parse(text: object) -> tuple[Step, ...]:
    """The steps of a workload; none for `rounds`. Raises BadInput. experiment/workload.py also
    checks their order."""
    if text == ROUNDS:
        return ()
    if not isinstance(text, str):
        raise BadInput(f'workloads: {text!r:.60} is not a text; allowed: "{ROUNDS}", "fillseq"')
    try:
        steps = tuple(Step.parse(part) for part in text.split(","))
    except BadInput as error:
        raise BadInput(f"workloads: {error}") from None
    if len(steps) > MOST_STEPS:
        raise BadInput(f"workloads: {len(steps)} steps; allowed: {MOST_STEPS} at most")
    return steps


def normal(text: object) -> str:
    """A workload in its shortest form."""
    return ", ".join(map(str, parse(text))) or ROUNDS
