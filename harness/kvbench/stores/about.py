"""Facts about each store, from the file NAME.toml next to its source, which is installed with its
shim.

The file has what an application's author wants to know besides the speed, how figures draw the
store, estimates of how long its cells take, and the families it belongs to. It affects no result.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kvbench.cell.factors import DEFAULT, DURABILITY
from kvbench.cell.library import shims_folder
from kvbench.common.files import read_toml
from kvbench.common.messages import BadInput, listed
from kvbench.stores.bindings import BINDINGS

DISTRIBUTED = "-debian"  # suffix of a store that uses the distribution's build of an engine
MOST_BYTES = 1 << 20  # in such a file
C = "c"  # the key of the shim's rates
CITED = (  # the facts that have a source
    "licence", "latest", "maintained_by", "platforms", "processes", "known", "consequence"
)  # fmt: skip
READ_ON = "2026-11-23"  # the day on which the sources of all facts were read
LAST = 10_000  # position of a store without a file
USUAL = {  # by level, what a crash may cost in an engine that keeps a log
    "none": "a crash of the process, or a loss of power, may lose the last writes",
    "process": "a loss of power may lose the last writes",
    "recoverable": "a loss of power may lose the last writes",
}
FAMILIES = {  # names that stand for several stores in grids
    "all": "what the paper measures: every store that set-up can build, but `null`",
    "files": "the file system: a file for each record",
    "main": "the engines of the main experiments, one or two of each kind",
    "ordered-sync": "engines that read in the order of the keys and sync a write",
    "compacting": "engines with a call that compacts the whole store",
}


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What CMakeLists.txt needs to build a shim: see kv_read_build() there."""

    header: str = ""
    library: str = ""
    debian: str = ""
    advice: str = ""


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds for each record loaded and checked, for each byte of it, for each operation, and for
    each byte of an operation; and the number of waits for the device per write as shipped."""

    record: float = 0
    byte: float = 0
    operation: float = 0
    operation_byte: float = 0
    syncs: float = 0


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a store's file. Facts are texts, which are empty if they do not apply or were
    not found.

    `ordered`: whether records can be read in key order. `systems`: where it runs, of the three,
    by `platforms`. `copyleft`: whether its licence asks for the source of a program that ships with
    it, in all that it offers without a fee. `transactions`: whether a crash leaves all or none of
    several records that are written together. `one_file`: whether a closed store, at the level
    process, is one file, beside a file of locks at most. `processes`: whether several processes may
    use the store at once. `known`: what a user should know. `reuses`: whether the space of
    overwritten and removed records is reused without a call by the program. `write_buffer`: how
    much a log-structured engine, as shipped, collects in memory before it writes a table, as a
    size; it is from the source code of the release that we build. `sources`: the address
    of the source of each fact that has one (read on READ_ON). `consequence`: what a crash may cost,
    by durability level or, as shipped, by binding, where it differs from the usual; see
    consequence(). `rates`: those of the shim, as `c`, and of bindings that use the engine in a
    different way.
    """

    name: Annotated[str, Meta(min_length=1)]
    what: str = ""
    language: str = ""
    ordered: bool = False
    systems: tuple[Literal["linux", "macos", "windows"], ...] = ()
    copyleft: bool = False
    transactions: bool = False
    one_file: bool = False
    licence: str = ""
    latest: str = ""
    maintained_by: str = ""
    platforms: str = ""
    processes: str = ""
    python: str = ""
    known: str = ""
    reuses: bool = True
    write_buffer: Annotated[str, Meta(pattern=r"\A([0-9]+ [KM]iB)?\Z")] = ""
    position: Annotated[int, Meta(ge=0, lt=LAST)] = LAST - 1  # the order in tables and figures
    families: tuple[str, ...] = ()
    colour: Annotated[str, Meta(pattern=r"\A(#[0-9A-Fa-f]{6})?\Z")] = ""
    marker: Annotated[str, Meta(max_length=1)] = ""  # a marker of Matplotlib
    consequence: dict[str, str] = {}
    sources: dict[str, str] = {}
    build: Build = Build()
    rates: dict[str, Rates] = {}


def _read(path: Path) -> About:
    """The contents of a file. Raises BadInput if they cannot be used."""
    values = read_toml(path, MOST_BYTES)
    for key in values:
        if key not in About.__struct_fields__:
            allowed = listed(About.__struct_fields__, key, "template.toml")
            raise BadInput(f"{key!r:.60} is not a key; allowed: {allowed}")
    try:
        found = msgspec.convert(values, About)
    except msgspec.ValidationError as error:
        raise BadInput(str(error)) from None
    for key, names, known in (
        ("families", found.families, [*FAMILIES]),
        ("sources", found.sources, [*CITED]),
        ("consequence", found.consequence, [*DURABILITY, *BINDINGS]),
        ("rates", found.rates, [C, *BINDINGS]),
    ):
        for name in names:
            if name not in known:
                raise BadInput(f"{key}: {name!r:.60} is unknown; allowed: {listed(known, name)}")
    return found


@cache
def _all(folder: Path) -> tuple[dict[str, About], dict[str, str]]:
    """The facts about each store, in the order of positions, and the errors of files that cannot be
    used."""
    found, faults = {}, {}
    for path in sorted(folder.glob("*.toml")):
        try:
            found[path.stem] = _read(path)
        except BadInput as error:
            faults[path.stem] = f"{path.name}: {error}"
    return dict(sorted(found.items(), key=lambda item: item[1].position)), faults


def described() -> dict[str, About]:
    """The facts about each store that has a file, by name, in the order of tables and figures."""
    return _all(shims_folder())[0]


def faults() -> dict[str, str]:
    """For each store whose file cannot be used, the reason in one line."""
    return _all(shims_folder())[1]


def engine(store: str) -> str:
    """The name of the file that describes a store: other builds of an engine share its file."""
    return store.removesuffix(DISTRIBUTED)


def entry(store: str) -> About:
    """The facts about a store, or defaults if it has no file."""
    return described().get(engine(store)) or About(name=store)


def position(store: str) -> int:
    """A sort key for the position of a store in tables and figures. Builds of one engine are
    adjacent, and stores without a file come last."""
    found = described().get(engine(store))
    return 2 * (found.position if found else LAST) + (engine(store) != store)


def family(name: str) -> list[str]:
    """The names of the stores of a family. Raises BadInput if the file of any store cannot be used,
    since that store may belong to the family."""
    for fault in faults().values():
        raise BadInput(fault)
    return [store for store, facts in described().items() if name in facts.families]


def everything() -> dict[str, About]:
    """The facts about each store whose facts are stated, by name."""
    return {store: facts for store, facts in described().items() if facts.what}


def about(store: str) -> About | None:
    """The facts about a store, or for another build such as `lmdb-debian` about its engine; None if
    none are stated. Raises BadInput if the store's file cannot be used."""
    if fault := faults().get(engine(store)):
        raise BadInput(fault)
    return everything().get(engine(store))


def has_c_interface(store: str) -> bool:
    """Whether programs in C can call the store, which is assumed of a store without a file.
    Libraries in Rust have an interface for Rust only."""
    return entry(store).language != "Rust"


def reuses(store: str) -> bool:
    """Whether a store reuses the space of overwritten records by itself, which is assumed of a
    store without a file."""
    return entry(store).reuses


WHOLE = "the whole store"  # these words in a consequence state that all data may be lost


def loses_all(store: str, level: str) -> bool:
    """Whether a crash that a durability level does not cover may destroy the whole store."""
    return WHOLE in consequence(store, level)


def consequence(store: str, level: str, guarantee: str = "") -> str:
    """What a crash may cost a store at a durability level, in words: how much is lost, and when.
    The store may be named with its binding; as shipped, `guarantee` is the level that it provides.
    Empty if no loss is known."""
    name, _, binding = store.partition("/")
    known = about(name)
    if known is None:
        return ""
    for key in (binding if level == DEFAULT else "", level):
        if found := known.consequence.get(key):
            return found
    amounts = guarantee if level == DEFAULT else level
    return known.consequence.get(amounts, USUAL.get(amounts, ""))
