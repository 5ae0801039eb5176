"""The factors of a cell, each in one place: type, default, allowed levels, unit and words.

`Cell` is the table. The grid's keys, the results' columns, the names of cells, what separates
comparisons and the reference pages all follow from it. To add a factor, add a field.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args

import msgspec
from msgspec import Meta

from kvbench import BadInput
from kvbench.bindings import full_name
from kvbench.workload import ROUNDS, normal

DEFAULT = "default"  # the level of a setting that the engine chooses itself
UNCAPPED = "none"
NOT_STATED = "not stated"  # the level of a factor of which an import says nothing
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MAX_RECORD_SIZE = 64 << 20
MOST = 2**63 - 1  # of any number
MOST_TRIALS = 10_000  # every trial up to the last counts as planned
KEY_SIZE, LONGEST_KEY = 16, 64

Operation = Literal["insert", "get", "update", "remove"]
Compressibility = Literal["compressible", "incompressible"]
Durability = Literal["default", "none", "process", "sync", "atomic"]  # as in kv.h
Compression = Literal[
    "default", "none", "snappy", "zlib", "lz4", "zstd", "lzo", "lzma", "bzip2"
]  # fmt: skip
Cache = Literal["warm", "cold"]
KeyOrder = Literal["uniform", "sequential", "zipfian"]
Place = Literal["disk", "tmpfs"]

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
COMPRESSIBILITY: tuple[Compressibility, ...] = get_args(Compressibility)
DURABILITY: tuple[Durability, ...] = get_args(Durability)
COMPRESSION: tuple[Compression, ...] = get_args(Compression)
CACHE: tuple[Cache, ...] = get_args(Cache)
KEY_ORDER: tuple[KeyOrder, ...] = get_args(KeyOrder)
COLD_OPERATIONS = ("get", "update")


def parse_bytes(text: object) -> int:
    """The bytes that "10 KiB" or 10240 stand for."""
    count = text if isinstance(text, int) and not isinstance(text, bool) else -1
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d{1,19})\s*(B|KiB|MiB|GiB)?\s*", text)
        count = int(match[1]) * UNITS[match[2] or "B"] if match else -1
    if not 0 <= count <= MOST:
        raise BadInput(f"{text!r:.60} is not a size; allowed: {_spelling(text)}")
    return count


def _spelling(text: object) -> str:
    """How a size is written: that which may be meant, as 4 KB may be 4 KiB or 4,000 B."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([kmg])i?b?\s*", str(text).lower())
    if match and (count := Decimal(match[1]) * UNITS[f"{match[2].upper()}iB"]) % 1 == 0 and count:
        return f'"{format_bytes(int(count))}" for {int(count):,} B, or a number of bytes'
    return '"100 B", "10 KiB", "1 MiB", "50 GiB"'


def format_bytes(count: int) -> str:
    """The shortest exact form: 10240 is "10 KiB"."""
    name = next(unit for unit in reversed(UNITS) if count % UNITS[unit] == 0 and count)
    return f"{count // UNITS[name]} {name}"


@dataclasses.dataclass(frozen=True, order=True)
class RecordSize:
    """The bytes of a value: all alike, or uniform from `low` to `high`, both included."""

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
    """Reads the usual level, or a size in its shortest form."""

    def read(value: object) -> object:
        count = 1 if value == usual else parse_bytes(value)
        if not count:
            raise BadInput(f"{value!r:.60} is not a budget")
        return value if value == usual else format_bytes(count)

    return read


@dataclasses.dataclass(frozen=True)
class Factor:
    """What is known of a factor. The last three come from its field in Cell."""

    meaning: str  # for the reference pages
    key: str = ""  # the grid's, where it differs from the name
    usual: Any = None  # the grid's default where the cell has none
    unit: str = ""
    told: str = "{}"  # a level that is not the default, in the name of a cell
    read: Callable[[Any], Any] = lambda level: level  # turns a level into its shortest form
    varied: bool = True  # a grid lists its levels
    compared: bool = True  # stores are compared at one level of it
    name: str = ""
    kind: Any = None
    default: Any = None

    def level(self, value: object) -> Any:
        """The level that `value` stands for; a BadInput names what is allowed."""
        if isinstance(value, float) and value.is_integer() and self.column is int:
            value = int(value)  # 1e4 in TOML
        try:
            return msgspec.convert(self.read(value), self.kind)
        except (msgspec.ValidationError, UnicodeEncodeError, BadInput) as error:
            # A workload has many parts: its own error names the one that is wrong.
            why = str(error) if self.read is normal else f"{value!r:.60} is not allowed"
            raise BadInput(f"{self.key}: {why}; allowed: {self.levels()}") from None

    def levels(self) -> str:
        """What is allowed, in words."""
        kind, limits, *_ = get_args(self.kind)
        return getattr(limits, "description", "") or ", ".join(get_args(kind))

    @property
    def column(self) -> type:
        """Of its values in a table."""
        return int if get_args(self.kind)[0] is int else str


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
Memory = Annotated[str, Meta(description='"default", or a size as "4 MiB"')]
Cap = Annotated[str, Meta(description='"none", or a size as "4 MiB"')]
Timed = Annotated[
    tuple[Operation, ...], Meta(min_length=1, description=f"a list of {', '.join(OPERATIONS)}")
]
Workload = Annotated[str, Meta(description='"rounds", or steps as "fillrandom, readrandom"')]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One trial of one combination of factor levels."""

    store: Annotated[
        Name,
        Factor("Name of the store, as `kvbench stores` lists it", "stores", varied=False),
    ]
    binding: Annotated[
        Name,
        Factor("The Python binding; empty: the shim in C", "bindings", varied=False),
    ]
    record_size: Annotated[
        Size,
        Factor(
            'Size of a value: `"100 B"`, or uniform in a range: `"1-10 KiB"`',
            "record_sizes",
            "1 KiB",
            read=RecordSize.parse,
        ),
    ]
    records: Annotated[Count, Factor("Nominal number of live records", usual=1000, unit="1")]
    compressibility: Annotated[
        Compressibility,
        Factor("Kind of data: words by Zipf's law, or random bytes", usual="incompressible"),
    ]
    operations: Annotated[
        Timed, Factor("Which operations of the workload `rounds` are timed", varied=False)
    ]
    trial: Annotated[Trial, Factor("Number of the trial", "trials", 3, "1", varied=False)]
    seed: Annotated[Seed, Factor("Seed of order, keys and values", "seed", 1, "1", varied=False)]
    label: Annotated[
        Label,
        Factor(
            'Name of a part of a grid, as `"equal settings"`; empty: none',
            varied=False,
            compared=False,
        ),
    ] = ""
    durability: Annotated[
        Durability,
        Factor(
            "Durability level. `none`: acknowledged writes may be lost when the process is killed; "
            "`process`: they survive that; `sync`: they survive a power failure; `atomic`: and "
            "the update of a file is all or nothing; `default`: as shipped"
        ),
    ] = "default"
    memory: Annotated[
        Memory,
        Factor("Budget of the engine's own caches and buffers", read=budget(DEFAULT)),
    ] = DEFAULT
    compression: Annotated[
        Compression, Factor("Compression by the engine, whatever the data are")
    ] = "default"
    options: Annotated[
        Options,
        Factor("The engine's own options, as `name=value, ...`", varied=False, compared=False),
    ] = ""
    cache: Annotated[
        Cache,
        Factor(
            "Page cache. `warm`: as earlier operations leave it; `cold`: before each ten gets or "
            "updates the harness closes the store, evicts it and opens it again, and it times no "
            "other operations"
        ),
    ] = "warm"
    key_order: Annotated[
        KeyOrder,
        Factor(
            "Order of the keys in rounds and in `mix`; `zipfian` (0.99) leaves inserts and removes "
            "uniform"
        ),
    ] = "uniform"
    memory_max: Annotated[
        Cap,
        Factor(
            "Cap on all memory of a cell, page cache included; needs root",
            told="max {}",
            read=budget(UNCAPPED),
        ),
    ] = UNCAPPED
    workload: Annotated[
        Workload,
        Factor("`rounds` of single operations, or steps", "workloads", read=normal),
    ] = ROUNDS
    key_size: Annotated[KeySize, Factor("Size of a key", unit="B", told="keys of {} B")] = KEY_SIZE
    place: Annotated[
        Place,
        Factor("Where the store's folder is: `disk`, below the results; `tmpfs`, in `/dev/shm`"),
    ] = "disk"

    least_ms: Annotated[
        Milliseconds,
        Factor(
            "Least time for each operation of `rounds`, which is repeated until then; also for "
            "`readrandom` and the mixes without inserts, unless `ops` or `seconds` is given",
            unit="ms",
            told="{} ms",
            varied=False,
            compared=False,
        ),
    ] = 250

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def full_name(self) -> str:
        return full_name(self.store, self.binding)

    @property
    def timed(self) -> tuple[str, ...]:
        """The operations that are timed: with a cold cache, those that read."""
        cold = self.cache == "cold"
        return tuple(name for name in self.operations if not cold or name in COLD_OPERATIONS)

    def settings(self) -> dict[str, str]:
        """What the store is opened with; nothing for what is left as shipped."""
        memory = self.memory if self.memory == DEFAULT else str(parse_bytes(self.memory))
        levels = {
            "durability": self.durability, "memory": memory, "compression": self.compression
        }  # fmt: skip
        own = dict(pair.split("=", 1) for pair in self.options.split(", ") if pair)
        return {name: level for name, level in levels.items() if level != DEFAULT} | own

    def levels(self) -> list[str]:
        """The levels that differ from a plain cell's."""
        found = ((FACTORS[name], getattr(self, name)) for name in LEVELS)
        return [factor.told.format(level) for factor, level in found if level != factor.default]

    @property
    def live_bytes(self) -> int:
        """Expected bytes of keys and values."""
        return int(self.records * (self.key_size + self.record_size.mean))

    @property
    def plan_seed(self) -> int:
        """The seed of a trial's records and random numbers, the same for every store."""
        factors = (self.seed, self.trial, str(self.record_size), self.records)
        return int.from_bytes(hashlib.sha256(repr(factors).encode()).digest()[:8], "big") >> 1

    def factors(self) -> dict[str, Any]:
        """As plain values, for a result file."""
        values = {name: getattr(self, name) for name in FACTORS}
        plain = {"record_size": str(self.record_size), "operations": list(self.operations)}
        return values | plain | {"access": self.access}

    @classmethod
    def from_factors(cls, factors: Mapping[str, Any]) -> Self:
        """The cell of a result file; a level that an older one lacks is the default."""
        values = {
            name: factor.level(
                factors[name] if name not in LEVELS else factors.get(name, factor.default)
            )
            for name, factor in FACTORS.items()
        }
        return cls(**values)

    def __str__(self) -> str:
        what = (self.full_name, f"{self.record_size} x {self.records}", self.compressibility)
        return ", ".join((*what, *self.levels()))


def _factor(field: "dataclasses.Field[Any]") -> Factor:
    words = next(part for part in get_args(field.type) if isinstance(part, Factor))
    key = words.key or field.name
    return dataclasses.replace(
        words, name=field.name, key=key, kind=field.type, default=field.default
    )


FACTORS = {field.name: _factor(field) for field in dataclasses.fields(Cell)}
# What a cell sets beside the records: the factors that have a default.
LEVELS = tuple(name for name, f in FACTORS.items() if f.default is not dataclasses.MISSING)
# Stores are compared at one level of each of these.
COMPARED = tuple(name for name in LEVELS if FACTORS[name].compared)
# What the trials of one combination of levels share.
CONDITION = tuple(name for name in FACTORS if name not in ("operations", "trial", "seed"))
