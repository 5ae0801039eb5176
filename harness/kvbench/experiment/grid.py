"""A grid holds the factor levels of one experiment. Its cells are their combinations."""

import dataclasses
import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from kvbench.cell.factors import (
    BATCH_OPERATIONS,
    COLD_OPERATIONS,
    LEVELS,
    MOST_TRIALS,
    OPERATIONS,
    Cell,
    Operation,
    parse_bytes,
)
from kvbench.cell.workload import MOST_THREADS, ROUNDS
from kvbench.common.files import read_toml
from kvbench.common.messages import BadInput, listed
from kvbench.experiment.factors import FACTORS
from kvbench.experiment.workload import checked
from kvbench.stats.regret import LOOKS
from kvbench.stores.about import FAMILIES, family
from kvbench.stores.bindings import BINDINGS
from kvbench.stores.catalogue import compared

MOST_BYTES = 1 << 20  # in a grid file
BATCH_SHARE, BATCH_BYTES = 10, 64 << 20  # a batch is a tenth of the records at most; its bytes
MOST_CELLS = 100_000  # in an experiment: more are a mistake, and take minutes to list
ACCESS = ("c", "python")
THREADS = "=threads"  # in a workload: replaced by each number of threads
PARTS = Annotated[list[dict[str, Any]], Meta(min_length=1)]
SCALES = dict[str, dict[str, Any]]
OPTION = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.-]+=[A-Za-z0-9_ .:/+-]{1,100}\Z")]
TIMES = Annotated[float, Meta(gt=0, lt=1e9)]
VARIED = {name: factor for name, factor in FACTORS.items() if factor.varied}
# Meaning and allowed values of the keys that are not factors, or whose values are not levels.
OWN = {
    "stores": ("Stores to measure, as `kvbench stores` lists them", "names, also of families"),
    "access": ("`c`: through shims in C; `python`: through Python bindings", "c, python"),
    "bindings": ("Bindings to measure where `access` has `python`", "names"),
    "trials": (
        'Trials of each cell, each in a fresh process on a fresh store. `"7-15"`: after 7 and 10 '
        "trials a sweep goes on with those fields alone whose best stores are not yet known",
        f'a whole number from 1 to {MOST_TRIALS:,}, or two of 7, 10 and 15, as "7-15"',
    ),
    "first_trial": (
        "Number of the first trial: `kvbench sweep --after` sets it to the one after an earlier "
        "sitting",
        f"a whole number from 1 to {MOST_TRIALS:,}",
    ),
    "options": (
        "The engines' own options, a table for each store: `{ sqlite = { page_size = 1024 } }`",
        "numbers, sizes and words",
    ),
    "threads": (
        "What `=threads` stands for in `workloads`, as in `readwhilewriting readers=threads`: each "
        "of these numbers in turn; `kvbench sweep --threads 1,2,4,8,16` replaces them",
        f"1 to {MOST_THREADS}",
    ),
    "byte_limit": ("Cells with more bytes of values are skipped", 'a size as "4 MiB"'),
}
KEYS = (
    "stores",
    "access",
    *(f.key for f in FACTORS.values() if f.name != "store"),
    "first_trial",
    "threads",
    "byte_limit",
)


def _some(key: str, values: object, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The distinct results of `read` for a list with one or more values. Raises BadInput."""
    if not isinstance(values, list) or not values:
        raise BadInput(f"{key}: {values!r:.60} is not a list of one or more values")
    return tuple(dict.fromkeys(map(read, values)))


def _choices(key: str, values: object, allowed: Sequence[str]) -> tuple[str, ...]:
    def read(value: str) -> str:
        if value not in allowed:
            shown = listed(allowed, value, "`kvbench stores`")
            raise BadInput(f"{key}: {value!r:.60} is unknown; allowed: {shown}")
        return value

    return _some(key, values, read)


def _stores(values: object, known: Sequence[str]) -> tuple[str, ...]:
    """The stores in a list of names of stores and families. Raises BadInput."""

    def read(value: object) -> tuple[str, ...]:
        if value in known:
            return (str(value),)
        if isinstance(value, str) and value in FAMILIES:
            return _choices(f"stores: {value}", family(value), known)
        shown = listed(known, value, "`kvbench stores`")
        families = ", ".join(FAMILIES)
        raise BadInput(
            f"stores: {value!r:.60} is unknown; allowed: {shown}; of families: {families}"
        )

    return tuple(dict.fromkeys(itertools.chain.from_iterable(_some("stores", values, read))))


def _threaded(workloads: object, threads: object) -> Any:
    """The workloads, where each with THREADS is repeated for each number of threads."""
    if not isinstance(workloads, list):
        return workloads

    def read(value: object) -> int:
        if type(value) is not int or not 1 <= value <= MOST_THREADS:
            allowed = f"a whole number, 1 to {MOST_THREADS}"
            raise BadInput(f"threads: {value!r:.60} is not allowed; allowed: {allowed}")
        return value

    numbers = _some("threads", threads, read)
    return [
        found
        for text in workloads
        for found in (
            (text.replace(THREADS, f"={number}") for number in numbers)
            if isinstance(text, str) and THREADS in text
            else (text,)
        )
    ]


def _trials(value: object) -> tuple[int, int]:
    """The least and the greatest number of trials. Raises BadInput."""
    allowed = f"allowed: {OWN['trials'][1]}"
    if isinstance(value, str):
        found = tuple(number for number in LOOKS if str(number) in value.split("-"))
        if "-".join(map(str, found)) == value and len(found) == 2:
            return found
        raise BadInput(f"trials: {value!r:.60} is not allowed; {allowed}")
    number = _trial("trials", value)
    return number, number


def _trial(key: str, value: object) -> int:
    try:
        return int(FACTORS["trial"].level(value))
    except BadInput:
        allowed = OWN[key][1]
        raise BadInput(f"{key}: {value!r:.60} is not allowed; allowed: {allowed}") from None


def _options(values: object, stores: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The options of each store that has any, as one text, with sizes in bytes. Raises BadInput."""
    found = []
    for store, given in _typed("options", values, dict[str, Any], "a table of stores").items():
        if store not in stores:
            allowed = listed(stores, store)
            raise BadInput(f"options: {store!r:.60} is not measured; allowed: {allowed}")
        texts = {}
        where = f"options: {store}"
        for name, value in _typed(where, given, dict[str, Any], "a table").items():
            if name in LEVELS:
                raise BadInput(f"{where}: {name!r:.60} is a key of the grid itself")
            try:
                text = str(parse_bytes(value))
            except BadInput:
                text = str(value)
            _typed(f"{where}: {name}", f"{name}={text}", OPTION, "a number or a word")
            texts[name] = f"{name}={text}"
        text = ", ".join(texts[name] for name in sorted(texts))
        found.append((store, FACTORS["options"].level(text)))
    return tuple(sorted(found))


@dataclasses.dataclass(frozen=True)
class Grid:
    """The factor levels of one experiment."""

    stores: tuple[str, ...]
    access: tuple[str, ...]
    bindings: tuple[str, ...]  # used for a store if access is python
    operations: tuple[Operation, ...]
    options: tuple[tuple[str, str], ...]  # pairs of a store and its options
    levels: Mapping[str, tuple[Any, ...]]  # of every other factor
    label: str
    trials: tuple[int, int]  # the least number, and the most if the best stores stay unknown
    first_trial: int  # its number
    seed: int
    least_ms: int
    byte_limit: int  # cells with more bytes of values are skipped

    @classmethod
    def from_values(cls, values: Mapping[str, Any], known_stores: list[str]) -> Self:
        """A grid from the values of TOML or papermill; missing keys have their defaults. Raises
        BadInput."""
        for key in values:
            if key not in KEYS:
                allowed = listed(KEYS, key, "`kvbench grid-keys`")
                raise BadInput(f"{key!r:.60} is not a key of a grid; allowed: {allowed}")
        if "bindings" in values and "access" not in values:
            raise BadInput('bindings: of no use for access "c" alone; add access = ["c", "python"]')
        given = defaults(known_stores) | dict(values)
        given["workloads"] = _threaded(given["workloads"], given["threads"])
        try:
            byte_limit = parse_bytes(given["byte_limit"])
        except BadInput as error:
            raise BadInput(f"byte_limit: {error}") from None
        chosen = _stores(given["stores"], known_stores)
        stores = tuple(map(FACTORS["store"].level, chosen))  # a shim's file may have any name
        grid = cls(
            stores=stores,
            access=_choices("access", given["access"], ACCESS),
            bindings=_choices("bindings", given["bindings"], list(BINDINGS)),
            operations=tuple(dict.fromkeys(FACTORS["operations"].level(given["operations"]))),
            options=_options(given["options"], stores),
            levels={
                name: _some(factor.key, given[factor.key], factor.level)
                for name, factor in VARIED.items()
            },
            label=FACTORS["label"].level(given["label"]),
            trials=_trials(given["trials"]),
            first_trial=_trial("first_trial", given["first_trial"]),
            seed=FACTORS["seed"].level(given["seed"]),
            least_ms=FACTORS["least_ms"].level(given["least_ms"]),
            byte_limit=byte_limit,
        )
        grid._check()
        return grid

    def _check(self) -> None:
        """Raise BadInput for levels that do not go together."""
        if not self.accesses():
            bound = dict.fromkeys(BINDINGS[name].store for name in self.bindings)
            raise BadInput(
                f"access: none of {listed(self.bindings)} is a binding of "
                f"{listed(self.stores)}; allowed: {listed(bound)}"
            )
        _refuse_many([self])
        if (last := self.up_to(self.trials[1])[-1]) > MOST_TRIALS:
            raise BadInput(f"first_trial: trial {last:,} is not allowed; allowed: {MOST_TRIALS:,}")
        fewest = min(self.levels["records"])
        for step in itertools.chain.from_iterable(map(checked, self.levels["workload"])):
            if step.get("writers", 0) > fewest:
                raise BadInput(
                    f"workloads: {step}: writers share no record; allowed: as many as the fewest "
                    f"records, {fewest:,}"
                )
        plain = self.levels["workload"] == (ROUNDS,)
        if "python" in self.access and not plain:
            raise BadInput('access: "python" runs the workload "rounds" only')
        if any(self.levels["batch"]) and not plain:
            raise BadInput(
                'batch: of no use for steps, which have their own; allowed: workload "rounds"'
            )
        if any(self.levels["batch"]) and not set(self.operations) & set(BATCH_OPERATIONS):
            wanted = " or ".join(BATCH_OPERATIONS)
            raise BadInput(f"batch: is measured with {wanted}; add one to operations")
        if "cold" in self.levels["cache"] and any(self.levels["batch"]):
            raise BadInput('batch: cells with cache "cold" write single records; allowed: 0')
        if "cold" in self.levels["cache"] and not plain:
            raise BadInput('cache: "cold" is measured with the workload "rounds" only')
        if "cold" in self.levels["cache"] and not set(self.operations) & set(COLD_OPERATIONS):
            wanted = " or ".join(COLD_OPERATIONS)
            raise BadInput(f"cache: 'cold' is measured with {wanted}; add one to operations")

    def accesses(self) -> list[tuple[str, str]]:
        """Each store with the binding that reaches it; an empty binding is the shim in C."""
        return [
            (store, binding)
            for store in self.stores
            for access in self.access
            for binding in ([""] if access == "c" else self.bindings)
            if not binding or BINDINGS[binding].store == store
        ]

    def size(self) -> int:
        """The greatest number of cells."""
        return self.trials[1] * len(self.accesses()) * math.prod(map(len, self.levels.values()))

    def values(self) -> dict[str, Any]:
        """The grid as plain values, which from_values accepts."""
        values: dict[str, Any] = {
            **{key: value for key, value in vars(self).items() if key != "levels"},
            **{VARIED[name].key: levels for name, levels in self.levels.items()},
        }
        least, most = self.trials
        values["trials"] = least if least == most else f"{least}-{most}"
        values["record_sizes"] = tuple(map(str, self.levels["record_size"]))
        values["options"] = {
            store: dict(pair.split("=", 1) for pair in text.split(", ") if pair)
            for store, text in self.options
        }
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}

    def digest(self) -> str:
        text = json.dumps(self.values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def up_to(self, number: int) -> range:
        """The numbers of the first so many trials."""
        return range(self.first_trial, self.first_trial + number)

    def looks(self) -> list[int]:
        """How many trials there are when the fields are ranked; the greatest is the last."""
        least, most = self.trials
        return [*(number for number in LOOKS if least <= number < most), most]

    def cells(self) -> Iterator[Cell]:
        """All cells, one trial after the other. The seed shuffles the fields of a trial, and the
        stores of a field. The stores of a field follow one another, so a drift of the machine
        affects them alike."""
        options = dict(self.options)
        fields = list(itertools.product(*self.levels.values()))
        for trial in self.up_to(self.trials[1]):
            order = random.Random(f"{self.seed} {trial}")
            for levels in order.sample(fields, len(fields)):
                stores = self.accesses()
                for store, binding in order.sample(stores, len(stores)):
                    yield Cell(
                        store=store,
                        binding=binding,
                        operations=self.operations,
                        trial=trial,
                        seed=self.seed,
                        label=self.label,
                        least_ms=self.least_ms,
                        options=options.get(store, ""),
                        **dict(zip(self.levels, levels, strict=True)),
                    )

    def skip_reason(self, cell: Cell) -> str:
        """The reason why the cell is not measured; empty if it is."""
        expected = int(cell.records * cell.record_size.mean)
        if expected > self.byte_limit:
            return f"{expected:,} bytes of values exceed the byte limit of {self.byte_limit:,}"
        if cell.batch * BATCH_SHARE > cell.records and cell.batch > 1:
            return f"batches of {cell.batch:,}: allowed: a tenth of the {cell.records:,} records"
        if (most := cell.batch * cell.record_size.high) > BATCH_BYTES:
            return f"batches of {most:,} bytes: allowed: {BATCH_BYTES:,}"
        return ""


def defaults(known_stores: Sequence[str]) -> dict[str, Any]:
    """The values of the keys that a grid leaves out."""
    usual = {name: f.default if name in LEVELS else f.usual for name, f in FACTORS.items()}
    return {
        **{f.key: [usual[name]] if f.varied else usual[name] for name, f in FACTORS.items()},
        "stores": list(filter(compared, known_stores)),
        "access": ["c"],
        "bindings": [name for name in BINDINGS if name != "null"],
        "operations": list(OPERATIONS),
        "options": {},
        "first_trial": 1,
        "threads": [1],
        "byte_limit": "50 GiB",
    }


def reference() -> str:
    """The text of the page docs/grids.md."""
    words = {f.key: (f.meaning, f.levels()) for f in FACTORS.values()} | OWN
    usual = {key: f"`{json.dumps(value)}`" for key, value in defaults(()).items()}
    usual |= {"stores": "all but `null` and `...-debian`", "bindings": "all but `null`"}
    usual |= {"options": "none"}
    rows = (f"| `{key}` | {' | '.join(words[key])} | {usual[key]} |" for key in KEYS)
    head = (
        "# The keys of a grid\n",
        "`kvbench grid-keys` prints this page. A key whose default is a list takes a list. A sweep",
        "measures every combination of the levels.\n",
        "| key | meaning | levels | default |",
        "|---|---|---|---|",
    )
    families = (
        "\nIn `stores` the name of a family stands for its members, as in",
        '`stores = ["files", "main"]`. [Stores](stores.md) lists the families of each store.\n',
        "| family | members |",
        "|---|---|",
        *(f"| `{name}` | {members} |" for name, members in FAMILIES.items()),
    )
    return "\n".join((*head, *rows, *families, ""))


def _refuse_many(grids: Sequence[Grid]) -> None:
    cells = sum(grid.size() for grid in grids)
    if cells > MOST_CELLS:
        raise BadInput(f"{cells:,} cells by all levels and trials; allowed: {MOST_CELLS:,} at most")


def _typed(key: str, value: object, kind: Any, allowed: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise BadInput(f"{key}: {value!r:.60} is not allowed; allowed: {allowed}") from None


def read_grids(
    path: Path,
    known_stores: list[str],
    replaced: Mapping[str, Any] | None = None,
    scale: str | None = None,
) -> list[Grid]:
    """The grids of an experiment, a TOML file; a file without parts is one grid. Raises BadInput.

    Keys at the top apply to all parts, and the keys of each of its [[parts]] to that part. A
    [scale.NAME] replaces keys in every part, and its `factor` multiplies the numbers of records. A
    part may have a table with the name of a scale; its keys are applied last, and its numbers of
    records are not multiplied. A scale that is `like` another one has all keys of that scale, also
    in the parts, except those it sets itself.
    """
    try:
        shared = read_toml(path, MOST_BYTES)
        parts = _typed("parts", shared.pop("parts", [{}]), PARTS, "one or more tables")
        scales = _typed("scale", shared.pop("scale", {}), SCALES, "a table of tables")
        names, change = _scale(scales, scale)
        factor = _typed("scale: factor", change.pop("factor", 1), TIMES, "more than 0")
        found, threaded = [], False
        for part in parts:
            values = shared | {key: part[key] for key in part if key not in scales} | change
            if factor != 1 and isinstance(values.get("records"), list):
                counts = map(FACTORS["records"].level, values["records"])
                values["records"] = [max(1, round(count * factor)) for count in counts]
            for name in names:
                values |= _typed(name, part.get(name, {}), dict[str, Any], "a table of keys")
            values |= dict(replaced or {})
            threaded = threaded or THREADS in str(values.get("workloads"))
            found.append(Grid.from_values(values, known_stores))
            _refuse_many(found)
        if "threads" in (replaced or {}) and not threaded:
            raise BadInput(f"--threads: of no use; no workload says readers{THREADS}")
        return found
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _scale(scales: Mapping[str, Any], wanted: str | None) -> tuple[list[str], dict[str, Any]]:
    """The names of the tables of a scale in a part, where the scale that it is `like` comes first,
    and the changes that it makes. Raises BadInput."""
    if wanted is None and not scales:
        return [], {}
    if wanted is not None and wanted in scales:
        change = dict(scales[wanted])
        if (like := change.pop("like", None)) is None:
            return [wanted], change
        if like == wanted or like not in scales or "like" in scales[like]:
            plain = [name for name in scales if name != wanted and "like" not in scales[name]]
            allowed = listed(plain, like)
            raise BadInput(f"scale: like: {like!r:.60} is not allowed; allowed: {allowed}")
        return [like, wanted], scales[like] | change
    try:
        return [], {"factor": float(wanted or "")}
    except ValueError:
        names = listed([*scales, "a number"], wanted or "")
        why = f"{wanted!r:.60} is none of its scales" if wanted is not None else "none was chosen"
        raise BadInput(f"scale: {why}; allowed: {names}") from None
