"""The factors of a cell: the type, the allowed levels and the default of each.

To add a factor, add a field to `Cell`, and say what it means in experiment/factors.py.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args

import msgspec
from msgspec import Meta

from kvbench.cell.bindings import full_name
from kvbench.cell.workload import ROUNDS, normal
from kvbench.common.messages import BadInput

DEFAULT = "default"  # the level of a setting that the engine chooses itself
UNCAPPED = "none"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MAX_RECORD_SIZE = 64 << 20
MOST = 2**63 - 1  # the greatest value of any number
MOST_TRIALS = 10_000  # ranking plans every trial up to the last
KEY_SIZE, LONGEST_KEY = 16, 64

Operation = Literal["insert", "get", "update", "remove"]
Compressibility = Literal["compressible", "incompressible"]
Durability = Literal["default", "none", "process", "recoverable", "sync", "atomic"]  # as in kv.h
Compression = Literal[
    "default", "none", "snappy", "zlib", "lz4", "zstd", "lzo", "lzma", "bzip2"
]  # fmt: skip
Cache = Literal["warm", "cold"]
KeyOrder = Literal["uniform", "sequential", "zipfian"]
Place = Literal["disk", "tmpfs"]

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
COMPRESSIBILITY: tuple[Compressibility, ...] = get_args(Compressibility)
DURABILITY: tuple[Durability, ...] = get_args(Durability)  # each survives what those before do
SYNCED: tuple[Durability, ...] = ("sync", "atomic")  # acknowledged writes survive a loss of power
WHOLE: tuple[Durability, ...] = ("recoverable", "atomic")  # no crash tears an update
COMPRESSION: tuple[Compression, ...] = get_args(Compression)
CACHE: tuple[Cache, ...] = get_args(Cache)
KEY_ORDER: tuple[KeyOrder, ...] = get_args(KeyOrder)
COLD_OPERATIONS = BATCH_OPERATIONS = ("get", "update")
MOST_BATCH = 100_000  # records of a write


def parse_bytes(text: object) -> int:
    """The number of bytes in a size, such as "10 KiB" or 10240. Raises BadInput."""
    count = text if isinstance(text, int) and not isinstance(text, bool) else -1
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d{1,19})\s*(B|KiB|MiB|GiB)?\s*", text)
        count = int(match[1]) * UNITS[match[2] or "B"] if match else -1
    if not 0 <= count <= MOST:
        raise BadInput(f"{text!r:.60} is not a size; allowed: {_spelling(text)}")
    return count


def _spelling(text: object) -> str:
    """How to write a size, for a message. Suggests what `text` may mean, as 4 KB may be 4 KiB or
    4,000 B."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([kmg])i?b?\s*", str(text).lower())
    if match and (count := Decimal(match[1]) * UNITS[f"{match[2].upper()}iB"]) % 1 == 0 and count:
        return f'"{format_bytes(int(count))}" for {int(count):,} B, or a number of bytes'
    return '"100 B", "10 KiB", "1 MiB", "50 GiB"'


def format_bytes(count: int) -> str:
    """A number of bytes in its shortest exact form: 10240 is "10 KiB"."""
    name = next(unit for unit in reversed(UNITS) if count % UNITS[unit] == 0 and count)
    return f"{count // UNITS[name]} {name}"


@dataclasses.dataclass(frozen=True, order=True)
class RecordSize:
    """The size of values in bytes: constant, or uniform from `low` to `high`, both included."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: object) -> Self:
        if isinstance(text, cls):
            return text
        parts: list[Any] = text.split("-") if isinstance(text, str) else [text]
        if len(parts) == 2 and parts[0].strip().isdecimal():  # "1-10 KiB"
            parts[0] += "".join(re.findall(r"[A-Za-z]+", parts[1]))
        sizes = [parse_bytes(part) for part in parts]
        if len(sizes) > 2 or not 1 <= sizes[0] <= sizes[-1] <= MAX_RECORD_SIZE:
            raise BadInput(f"{text!r:.60} is out of range")
        return cls(sizes[0], sizes[-1])

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        low, high = format_bytes(self.low), format_bytes(self.high)
        if low == high:
            return low
        return f"{low.split()[0]}-{high}" if low.split()[1] == high.split()[1] else f"{low}-{high}"


def budget(usual: str) -> Callable[[object], object]:
    """A function that reads the level `usual` or a size, which it returns in its shortest form."""

    def read(value: object) -> object:
        count = 1 if value == usual else parse_bytes(value)
        if not count:
            raise BadInput(f"{value!r:.60} is not a budget")
        return value if value == usual else format_bytes(count)

    return read


@dataclasses.dataclass(frozen=True)
class Read:
    """A function that brings a level into its shortest form before its type is checked."""

    level: Callable[[Any], Any]


Name = Annotated[
    str,
    Meta(
        pattern=r"\A([A-Za-z0-9][A-Za-z0-9_.+-]*)?\Z",
        max_length=60,
        description="up to 60 letters, digits and _.+-",
    ),
]
Label = Annotated[
    str,
    Meta(
        pattern=r"\A([A-Za-z0-9][A-Za-z0-9 .,:/%+-]*)?\Z",
        max_length=60,
        description="up to 60 letters, digits, spaces and .,:/%+-",
    ),
]
Options = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_ .=,:/+-]*\Z",
        max_length=2000,
        description="name=value, ... of letters, digits and _.:/+-",
    ),
]
Count = Annotated[int, Meta(ge=1, le=MOST, description="a whole number from 1 to 2^63 - 1")]
Trial = Annotated[
    int, Meta(ge=1, le=MOST_TRIALS, description=f"a whole number from 1 to {MOST_TRIALS:,}")
]
Seed = Annotated[int, Meta(ge=0, le=MOST, description="a whole number from 0 to 2^63 - 1")]
Milliseconds = Annotated[int, Meta(ge=0, le=3_600_000, description="a whole number, 0 to 3600000")]
KeySize = Annotated[
    int, Meta(ge=8, le=LONGEST_KEY, description=f"a whole number, 8 to {LONGEST_KEY}")
]
Size = Annotated[
    RecordSize,
    Meta(description='1 B to 64 MiB, as "1 KiB", or a range as "1-10 KiB"'),
]
Batch = Annotated[
    int, Meta(ge=0, le=MOST_BATCH, description=f"a whole number from 0 to {MOST_BATCH:,}")
]
Memory = Annotated[str, Meta(description='"default", or a size as "4 MiB"')]
Cap = Annotated[str, Meta(description='"none", or a size as "4 MiB"')]
Timed = Annotated[
    tuple[Operation, ...], Meta(min_length=1, description=f"a list of {', '.join(OPERATIONS)}")
]
Workload = Annotated[str, Meta(description='"rounds", or steps as "fillrandom, readrandom"')]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One trial of one combination of factor levels. experiment/factors.py says what each means."""

    store: Name
    binding: Name  # empty: the shim in C
    record_size: Annotated[Size, Read(RecordSize.parse)]
    records: Count
    compressibility: Compressibility
    operations: Timed
    trial: Trial
    seed: Seed
    label: Label = ""
    durability: Durability = "default"
    memory: Annotated[Memory, Read(budget(DEFAULT))] = DEFAULT
    compression: Compression = "default"
    options: Options = ""
    cache: Cache = "warm"
    key_order: KeyOrder = "uniform"
    memory_max: Annotated[Cap, Read(budget(UNCAPPED))] = UNCAPPED
    workload: Annotated[Workload, Read(normal)] = ROUNDS
    key_size: KeySize = KEY_SIZE
    place: Place = "disk"
    least_ms: Milliseconds = 250
    batch: Batch = 0

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def full_name(self) -> str:
        return full_name(self.store, self.binding)

    @property
    def timed(self) -> tuple[str, ...]:
        """The operations that are timed: with a cold cache, those that read; in batches, those that
        keep the records."""
        few = self.cache == "cold" or self.batch
        return tuple(name for name in self.operations if not few or name in COLD_OPERATIONS)

    def settings(self) -> dict[str, str]:
        """The settings that the store is opened with, by name; settings left as shipped are
        absent."""
        memory = self.memory if self.memory == DEFAULT else str(parse_bytes(self.memory))
        levels = {
            "durability": self.durability, "memory": memory, "compression": self.compression
        }  # fmt: skip
        own = dict(pair.split("=", 1) for pair in self.options.split(", ") if pair)
        return {name: level for name, level in levels.items() if level != DEFAULT} | own

    @property
    def live_bytes(self) -> int:
        """The expected size of all live keys and values in bytes."""
        return int(self.records * (self.key_size + self.record_size.mean))

    @property
    def plan_seed(self) -> int:
        """The seed of a trial's records and random numbers, which is the same for every store."""
        factors = (self.seed, self.trial, str(self.record_size), self.records)
        return int.from_bytes(hashlib.sha256(repr(factors).encode()).digest()[:8], "big") >> 1

    def factors(self) -> dict[str, Any]:
        """The factors as plain values, for a result file."""
        values = {name: getattr(self, name) for name in NAMES}
        plain = {"record_size": str(self.record_size), "operations": list(self.operations)}
        return values | plain | {"access": self.access}

    @classmethod
    def from_factors(cls, factors: Mapping[str, Any]) -> Self:
        """The cell of a result file. A factor that an older file lacks has its default."""
        given = {name: factors[name] for name in NAMES if name not in LEVELS or name in factors}
        return cls(**{name: level(name, value) for name, value in given.items()})


_TYPES = {field.name: field.type for field in dataclasses.fields(Cell)}
NAMES = tuple(_TYPES)
DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(Cell)
    if field.default is not dataclasses.MISSING
}
LEVELS = tuple(DEFAULTS)  # the factors that have a default


def column(name: str) -> type:
    """The Python type of a factor's values in a table: int or str."""
    return int if get_args(_TYPES[name])[:1] == (int,) else str


def level(name: str, value: object) -> Any:
    """The level of a factor that `value` stands for. Raises BadInput, which lists what is
    allowed."""
    kind = _TYPES[name]
    read = next((part.level for part in get_args(kind) if isinstance(part, Read)), None)
    if isinstance(value, float) and value.is_integer() and column(name) is int:
        value = int(value)  # 1e4 in TOML
    try:
        return msgspec.convert(read(value) if read else value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError, BadInput) as error:
        # A workload has many parts: its own error names the one that is wrong.
        why = str(error) if read is normal else f"{value!r:.60} is not allowed"
        raise BadInput(f"{why}; allowed: {allowed(name)}") from None


def allowed(name: str) -> str:
    """The levels that a factor allows, in words."""
    kind = _TYPES[name]
    limits = next((part for part in get_args(kind) if isinstance(part, Meta)), None)
    return (limits and limits.description) or ", ".join(get_args(kind))
