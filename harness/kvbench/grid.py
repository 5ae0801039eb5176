"""A grid holds the factor levels of one experiment; its cells are their combinations."""

import dataclasses
import hashlib
import itertools
import json
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from kvbench import BadInput
from kvbench.bindings import BINDINGS, label

ACCESS = ("c", "python")
OPERATIONS = ("insert", "get", "update", "remove")
COMPRESSIBILITY = ("compressible", "incompressible")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MAX_RECORD_SIZE = 64 << 20
KEY_SIZE = 16


def parse_bytes(text: object) -> int:
    """The bytes that "10 KiB" or 10240 stand for."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(r"\s*(\d+)\s*(B|KiB|MiB|GiB)\s*", text) if isinstance(text, str) else None
    if match is None:
        raise BadInput(f'{text!r} is no size; allowed: "100 B", "10 KiB", "1 MiB", "50 GiB", ...')
    return int(match[1]) * UNITS[match[2]]


def format_bytes(count: int) -> str:
    """The shortest exact form: 10240 is "10 KiB"."""
    name = next(
        unit for unit in reversed(UNITS) if count % UNITS[unit] == 0 and count >= UNITS[unit]
    )
    return f"{count // UNITS[name]} {name}"


@dataclasses.dataclass(frozen=True, order=True)
class RecordSize:
    """The bytes of a value: all alike, or uniform from `low` to `high`, both included."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: object) -> Self:
        parts: list[Any] = text.split("-") if isinstance(text, str) else [text]
        if len(parts) == 2 and parts[0].strip().isdecimal():  # "1-10 KiB"
            parts[0] += "".join(re.findall(r"[A-Za-z]+", parts[1]))
        try:
            sizes = [parse_bytes(part) for part in parts]
        except BadInput:
            sizes = []
        if len(sizes) not in (1, 2) or not 1 <= sizes[0] <= sizes[-1] <= MAX_RECORD_SIZE:
            limit = format_bytes(MAX_RECORD_SIZE)
            raise BadInput(
                f'record_sizes: {text!r} is no record size; allowed: 1 B to {limit}, as "1 KiB", '
                'or a range as "1-10 KiB"'
            )
        return cls(sizes[0], sizes[-1])

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        low, high = format_bytes(self.low), format_bytes(self.high)
        if low == high:
            return low
        return f"{low.split()[0]}-{high}" if low.split()[1] == high.split()[1] else f"{low}-{high}"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One trial of one combination of factor levels."""

    store: str
    binding: str  # the package in Python; empty: the shim in C
    record_size: RecordSize
    records: int
    compressibility: str
    operations: tuple[str, ...]
    trial: int
    seed: int  # of the grid

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def label(self) -> str:
        return label(self.store, self.binding)

    @property
    def live_bytes(self) -> int:
        """Expected bytes of keys and values."""
        return int(self.records * (KEY_SIZE + self.record_size.mean))

    @property
    def plan_seed(self) -> int:
        """Seeds the plan: the same for every store, so that a trial pairs them."""
        factors = (self.seed, self.trial, str(self.record_size), self.records)
        return int.from_bytes(hashlib.sha256(repr(factors).encode()).digest()[:8], "big") >> 1

    def factors(self) -> dict[str, Any]:
        """As plain values, for a result file."""
        return {
            "store": self.store,
            "access": self.access,
            "binding": self.binding,
            "record_size": str(self.record_size),
            "records": self.records,
            "compressibility": self.compressibility,
            "operations": list(self.operations),
            "trial": self.trial,
            "seed": self.seed,
        }

    @classmethod
    def from_factors(cls, factors: Mapping[str, Any]) -> Self:
        values = {name: factors[name] for name in (field.name for field in dataclasses.fields(cls))}
        values["record_size"] = RecordSize.parse(values["record_size"])
        values["operations"] = tuple(values["operations"])
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.label}, {self.record_size} x {self.records}, {self.compressibility}"


def _choices(name: str, values: object, allowed: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{name}: {values!r} is no list of one or more of: {', '.join(allowed)}")
    for value in values:
        if value not in allowed:
            raise BadInput(f"{name}: {value!r} is unknown; allowed: {', '.join(allowed)}")
    return tuple(dict.fromkeys(values))


def _count(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        allowed = f"a whole number from {least} to 2^63 - 1"
        raise BadInput(f"{name}: {value!r} is not allowed; allowed: {allowed}")
    return value


def _list(name: str, values: object) -> list[object]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{name}: {values!r} is no list of one or more values")
    return values


@dataclasses.dataclass(frozen=True)
class Grid:
    """The factor levels of one experiment."""

    stores: tuple[str, ...]
    access: tuple[str, ...]
    bindings: tuple[str, ...]  # which stand for a store where access is python
    record_sizes: tuple[RecordSize, ...]
    records: tuple[int, ...]
    operations: tuple[str, ...]  # which of the four are timed
    compressibility: tuple[str, ...]
    trials: int
    seed: int
    byte_limit: int  # cells whose values exceed it are skipped

    @classmethod
    def from_values(cls, values: Mapping[str, Any], known_stores: list[str]) -> Self:
        """Check values as they come from TOML or papermill; what is missing has a default."""
        keys = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in keys:
                raise BadInput(f"{key!r} is no key of a grid; allowed: {', '.join(keys)}")
        if "bindings" in values and "access" not in values:
            raise BadInput('bindings: of no use for access "c" alone; add access = ["c", "python"]')
        default = {
            "stores": [store for store in known_stores if store != "null"],
            "access": ["c"],
            "bindings": [name for name in BINDINGS if name != "null"],
            "record_sizes": ["1 KiB"],
            "records": [1000],
            "operations": list(OPERATIONS),
            "compressibility": ["incompressible"],
            "trials": 3,
            "seed": 1,
            "byte_limit": "50 GiB",
        }
        given = {**default, **values}
        sizes = [RecordSize.parse(size) for size in _list("record_sizes", given["record_sizes"])]
        records = [_count("records", count, 1) for count in _list("records", given["records"])]
        try:
            byte_limit = parse_bytes(given["byte_limit"])
        except BadInput as error:
            raise BadInput(f"byte_limit: {error}") from None
        grid = cls(
            stores=_choices("stores", given["stores"], known_stores),
            access=_choices("access", given["access"], ACCESS),
            bindings=_choices("bindings", given["bindings"], list(BINDINGS)),
            record_sizes=tuple(dict.fromkeys(sizes)),
            records=tuple(dict.fromkeys(records)),
            operations=_choices("operations", given["operations"], OPERATIONS),
            compressibility=_choices("compressibility", given["compressibility"], COMPRESSIBILITY),
            trials=_count("trials", given["trials"], 1),
            seed=_count("seed", given["seed"], 0),
            byte_limit=byte_limit,
        )
        if not grid.accesses():
            bound = dict.fromkeys(BINDINGS[name].store for name in grid.bindings)
            raise BadInput(
                f"access: none of {', '.join(grid.bindings)} is a binding of "
                f"{', '.join(grid.stores)}; allowed: {', '.join(bound)}"
            )
        return grid

    def accesses(self) -> list[tuple[str, str]]:
        """Each store with the binding that reaches it; an empty one stands for the shim in C."""
        return [
            (store, binding)
            for store in self.stores
            for access in self.access
            for binding in ([""] if access == "c" else self.bindings)
            if not binding or BINDINGS[binding].store == store
        ]

    @classmethod
    def read(cls, path: Path, known_stores: list[str]) -> Self:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise BadInput(f"{path}: not a readable TOML file: {reason}") from None
        try:
            return cls.from_values(values, known_stores)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None

    def values(self) -> dict[str, Any]:
        """As plain values: what from_values takes."""
        values = {key: value for key, value in vars(self).items()}
        values["record_sizes"] = [str(size) for size in self.record_sizes]
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}

    def digest(self) -> str:
        text = json.dumps(self.values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def cells(self) -> Iterator[Cell]:
        """All cells: a block a trial, shuffled within the block by the seed."""
        for trial in range(1, self.trials + 1):
            block = [
                Cell(
                    store,
                    binding,
                    size,
                    records,
                    compressibility,
                    self.operations,
                    trial,
                    self.seed,
                )
                for (store, binding), size, records, compressibility in itertools.product(
                    self.accesses(), self.record_sizes, self.records, self.compressibility
                )
            ]
            random.Random(f"{self.seed} {trial}").shuffle(block)
            yield from block

    def skip_reason(self, cell: Cell) -> str:
        """Why a cell is not measured; empty when it is."""
        expected = int(cell.records * cell.record_size.mean)
        if expected <= self.byte_limit:
            return ""
        return f"{expected:,} bytes of values exceed the byte limit of {self.byte_limit:,}"
