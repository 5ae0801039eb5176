"""A grid holds the factor levels of one experiment; its cells are their combinations."""

import dataclasses
import hashlib
import itertools
import json
import math
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kvbench import BadInput
from kvbench import workload as workloads
from kvbench.bindings import BINDINGS, label
from kvbench.workload import ROUNDS

ACCESS = ("c", "python")
OPERATIONS = ("insert", "get", "update", "remove")
COMPRESSIBILITY = ("compressible", "incompressible")
TIME_LIMIT = 3600.0  # seconds a cell may take, unless a sweep is told otherwise
DEFAULT = "default"  # the level of what is left as shipped
DURABILITY = (DEFAULT, "none", "process", "sync", "atomic")  # the levels of kv.h
COMPRESSION = (DEFAULT, "none", "snappy", "zlib", "lz4", "zstd", "lzo", "lzma", "bzip2")
CACHE = ("warm", "cold")
KEY_ORDER = ("uniform", "sequential", "zipfian")
COLD_OPERATIONS = ("get", "update")
UNCAPPED = "none"
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MAX_RECORD_SIZE = 64 << 20
MOST = 2**63 - 1  # of any number
MOST_CHARACTERS = 100  # of an option
MOST_CELLS = 100_000  # of an experiment: more are a slip, and take minutes to list
KEY_SIZE = 16
KEY_SIZES = (8, KEY_SIZE)
PLACES = ("disk", "tmpfs")


def parse_bytes(text: object) -> int:
    """The bytes that "10 KiB" or 10240 stand for."""
    count = text if isinstance(text, int) and not isinstance(text, bool) else -1
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d{1,19})\s*(B|KiB|MiB|GiB)\s*", text)
        count = int(match[1]) * UNITS[match[2]] if match else -1
    if not 0 <= count <= MOST:
        raise BadInput(f'{text!r} is no size; allowed: "100 B", "10 KiB", "1 MiB", "50 GiB", ...')
    return count


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


# What a cell sets beside the records: the fields of a cell that an older result may lack.
LEVELS = (
    "durability", "memory", "compression", "options", "cache", "key_order", "memory_max",
    "workload", "key_size", "place",
)  # fmt: skip


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
    durability: str = DEFAULT
    memory: str = DEFAULT  # the budget of the store's own caches: "4 MiB"
    compression: str = DEFAULT
    options: str = ""  # the engine's own: "page_size=1024, ..."
    cache: str = "warm"
    key_order: str = "uniform"
    memory_max: str = UNCAPPED  # of the cell with its page cache: "64 MiB"
    workload: str = ROUNDS  # or steps: "fillrandom, readrandom"
    key_size: int = KEY_SIZE
    place: str = "disk"  # where the store's folder is

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def label(self) -> str:
        return label(self.store, self.binding)

    @property
    def timed(self) -> tuple[str, ...]:
        """The operations that are timed: of a cold cache those that read."""
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
        named = (
            self.durability, self.memory, self.compression, self.options, self.cache, self.key_order
        )  # fmt: skip
        plain = (DEFAULT, DEFAULT, DEFAULT, "", "warm", "uniform")
        found = [level for level, usual in zip(named, plain, strict=True) if level != usual]
        found += [f"max {self.memory_max}"] if self.memory_max != UNCAPPED else []
        found += [self.workload] if self.workload != ROUNDS else []
        found += [f"keys of {self.key_size} B"] if self.key_size != KEY_SIZE else []
        return found + ([self.place] if self.place != "disk" else [])

    @property
    def live_bytes(self) -> int:
        """Expected bytes of keys and values."""
        return int(self.records * (self.key_size + self.record_size.mean))

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
            **{name: getattr(self, name) for name in LEVELS},
            "operations": list(self.operations),
            "trial": self.trial,
            "seed": self.seed,
        }

    @classmethod
    def from_factors(cls, factors: Mapping[str, Any]) -> Self:
        values = {name: factors[name] for name in (field.name for field in dataclasses.fields(cls))}
        values["record_size"] = RecordSize.parse(values["record_size"])
        values["operations"] = _choices("operations", values["operations"], OPERATIONS)
        for field in dataclasses.fields(cls):
            if field.type in (str, int) and type(values[field.name]) is not field.type:
                raise BadInput(f"{field.name}: {values[field.name]!r} is not allowed")
        return cls(**values)

    def __str__(self) -> str:
        what = (self.label, f"{self.record_size} x {self.records}", self.compressibility)
        return ", ".join((*what, *self.levels()))


def _choices(name: str, values: object, allowed: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{name}: {values!r} is no list of one or more of: {', '.join(allowed)}")
    for value in values:
        if value not in allowed:
            raise BadInput(f"{name}: {value!r} is unknown; allowed: {', '.join(allowed)}")
    return tuple(dict.fromkeys(values))


def _count(name: str, value: object, least: int, most: int = MOST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        shown = "2^63 - 1" if most == MOST else most
        allowed = f"a whole number from {least} to {shown}"
        raise BadInput(f"{name}: {value!r} is not allowed; allowed: {allowed}")
    return value


def budgets(name: str, values: object, usual: str) -> tuple[str, ...]:
    """Sizes in their shortest form, or the usual level."""
    found = []
    for value in _list(name, values):
        try:
            found.append(usual if value == usual else format_bytes(parse_bytes(value)))
        except (BadInput, StopIteration):
            raise BadInput(
                f'{name}: {value!r} is no size; allowed: "{usual}", or a size as "4 MiB"'
            ) from None
    return tuple(dict.fromkeys(found))


def _options(values: object, stores: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Of each store that has any, its own options as one text; sizes in bytes."""
    if not isinstance(values, Mapping):
        raise BadInput(f"options: {values!r} is no table of stores; allowed: sqlite = {{...}}, ...")
    found = []
    for store, given in values.items():
        if store not in stores:
            raise BadInput(f"options: {store!r} is not measured; allowed: {', '.join(stores)}")
        if not isinstance(given, Mapping):
            raise BadInput(f"options: {store}: {given!r} is no table of names and values")
        texts = {}
        for name, value in given.items():
            if name in LEVELS:
                raise BadInput(f"options: {store}: {name!r} is a key of the grid itself")
            try:
                texts[name] = str(parse_bytes(value))
            except BadInput:
                texts[name] = str(value)
            fit = 0 < len(texts[name]) <= MOST_CHARACTERS and texts[name].isprintable()
            if {",", "="} & set(name) or "," in texts[name] or not fit:
                raise BadInput(
                    f"options: {store}: {name!r} can't be {value!r}; allowed: a number or word"
                )
        found.append((store, ", ".join(f"{name}={texts[name]}" for name in sorted(texts))))
    return tuple(sorted(found))


def _list(name: str, values: object) -> list[object]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{name}: {values!r} is no list of one or more values")
    return values


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        repr(values)  # raises what no message could show: too long a number, too deep a list
        return values
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path}: not a readable TOML file: {reason}") from None


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
    durability: tuple[str, ...]
    memory: tuple[str, ...]
    compression: tuple[str, ...]
    options: tuple[tuple[str, str], ...]  # of a store, its own options
    cache: tuple[str, ...]
    key_order: tuple[str, ...]
    memory_max: tuple[str, ...]
    workloads: tuple[str, ...]
    key_size: tuple[int, ...]
    place: tuple[str, ...]
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
            "durability": [DEFAULT],
            "memory": [DEFAULT],
            "compression": [DEFAULT],
            "options": {},
            "cache": ["warm"],
            "key_order": ["uniform"],
            "memory_max": [UNCAPPED],
            "workloads": [ROUNDS],
            "key_size": [KEY_SIZE],
            "place": ["disk"],
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
        stores = _choices("stores", given["stores"], known_stores)
        grid = cls(
            stores=stores,
            access=_choices("access", given["access"], ACCESS),
            bindings=_choices("bindings", given["bindings"], list(BINDINGS)),
            record_sizes=tuple(dict.fromkeys(sizes)),
            records=tuple(dict.fromkeys(records)),
            operations=_choices("operations", given["operations"], OPERATIONS),
            compressibility=_choices("compressibility", given["compressibility"], COMPRESSIBILITY),
            durability=_choices("durability", given["durability"], DURABILITY),
            memory=budgets("memory", given["memory"], DEFAULT),
            compression=_choices("compression", given["compression"], COMPRESSION),
            options=_options(given["options"], stores),
            cache=_choices("cache", given["cache"], CACHE),
            key_order=_choices("key_order", given["key_order"], KEY_ORDER),
            memory_max=budgets("memory_max", given["memory_max"], UNCAPPED),
            workloads=tuple(
                dict.fromkeys(map(workloads.normal, _list("workloads", given["workloads"])))
            ),
            key_size=tuple(
                dict.fromkeys(
                    _count("key_size", size, *KEY_SIZES)
                    for size in _list("key_size", given["key_size"])
                )
            ),
            place=_choices("place", given["place"], PLACES),
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
        _refuse_many([grid])
        plain = grid.workloads == (ROUNDS,)
        if "python" in grid.access and not (plain and grid.key_size == (KEY_SIZE,)):
            raise BadInput('access: "python" runs the workload "rounds" with keys of 16 B only')
        if "cold" in grid.cache and not plain:
            raise BadInput('cache: "cold" is measured with the workload "rounds" only')
        if "cold" in grid.cache and not set(grid.operations) & set(COLD_OPERATIONS):
            wanted = " or ".join(COLD_OPERATIONS)
            raise BadInput(f"cache: 'cold' is measured with {wanted}; add one to operations")
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

    def _levels(self) -> dict[str, tuple[Any, ...]]:
        """The levels of each field of a cell that the grid varies for every store."""
        return {
            "record_size": self.record_sizes,
            "records": self.records,
            "compressibility": self.compressibility,
            "durability": self.durability,
            "memory": self.memory,
            "compression": self.compression,
            "cache": self.cache,
            "key_order": self.key_order,
            "memory_max": self.memory_max,
            "workload": self.workloads,
            "key_size": self.key_size,
            "place": self.place,
        }

    def size(self) -> int:
        """How many cells it has."""
        levels = math.prod(map(len, self._levels().values()))
        return self.trials * len(self.accesses()) * levels

    def values(self) -> dict[str, Any]:
        """As plain values: what from_values takes."""
        values = {key: value for key, value in vars(self).items()}
        values["record_sizes"] = [str(size) for size in self.record_sizes]
        values["options"] = {
            store: dict(pair.split("=", 1) for pair in text.split(", ") if pair)
            for store, text in self.options
        }
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}

    def digest(self) -> str:
        text = json.dumps(self.values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def cells(self) -> Iterator[Cell]:
        """All cells: a block a trial, shuffled within the block by the seed."""
        options = dict(self.options)
        factors = self._levels()
        for trial in range(1, self.trials + 1):
            block = [
                Cell(
                    store=store,
                    binding=binding,
                    operations=self.operations,
                    trial=trial,
                    seed=self.seed,
                    options=options.get(store, ""),
                    **dict(zip(factors, levels, strict=True)),
                )
                for (store, binding), *levels in itertools.product(
                    self.accesses(), *factors.values()
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


def _refuse_many(grids: Sequence[Grid]) -> None:
    cells = sum(grid.size() for grid in grids)
    if cells > MOST_CELLS:
        raise BadInput(f"{cells:,} cells by all levels and trials; allowed: {MOST_CELLS:,} at most")


def read_grids(
    path: Path,
    known_stores: list[str],
    replaced: Mapping[str, Any] | None = None,
    scale: str | None = None,
) -> list[Grid]:
    """The grids of an experiment: a TOML file with the keys of a grid that its parts share, a table
    of the others for each of its [[parts]], and what each [scale.NAME] changes: `factor`
    multiplies the record counts, other keys replace those of every part. A part may have a table
    named as a scale, whose keys come last; its record counts are taken as they are.

    A file with no parts and no scales is one grid.
    """
    shared = _read_toml(path)
    parts, scales = shared.pop("parts", [{}]), shared.pop("scale", {})
    if not _tables(parts, list) or not parts:
        raise BadInput(f"{path}: parts: {parts!r} is no list of one or more tables")
    if not _tables(scales, dict):
        raise BadInput(f"{path}: scale: {scales!r} is no table of tables")
    name, change = _scale(path, scales, scale)
    factor = change.pop("factor", 1)
    if not isinstance(factor, (int, float)) or isinstance(factor, bool) or not 0 < factor < 1e9:
        raise BadInput(f"{path}: scale: factor {factor!r} is not allowed; allowed: more than 0")
    found = []
    for part in parts:
        own = {key: value for key, value in part.items() if key not in scales}
        last = part.get(name, {}) if name is not None else {}
        values = shared | own | change
        try:
            if not isinstance(last, dict):
                raise BadInput(f"{name}: {last!r} is no table, as a part has for a scale")
            if factor != 1 and isinstance(values.get("records"), list):
                counts = [_count("records", count, 1) for count in values["records"]]
                values["records"] = [max(1, round(count * factor)) for count in counts]
            values |= last | dict(replaced or {})
            found.append(Grid.from_values(values, known_stores))
            _refuse_many(found)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None
    return found


def _tables(value: object, kind: type) -> bool:
    """Whether it is a list, or a table, of tables."""
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, kind) and all(isinstance(table, dict) for table in inner)  # type: ignore[attr-defined]


def _scale(
    path: Path, scales: Mapping[str, Any], wanted: str | None
) -> tuple[str | None, dict[str, Any]]:
    """The name of a scale, if it is one of the file's own, and what it changes."""
    if wanted is None and not scales:
        return None, {}
    if wanted is not None and wanted in scales:
        return wanted, dict(scales[wanted])
    try:
        return None, {"factor": float(wanted or "")}
    except ValueError:
        names = ", ".join([*scales, "a number"])
        raise BadInput(
            f"{path}: scale: {wanted!r} is none of its scales; allowed: {names}"
        ) from None
