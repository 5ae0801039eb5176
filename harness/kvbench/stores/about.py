"""What is said of each store: the file NAME.toml beside its source, installed with its shim.

It may say what an application's author asks of a store besides its speed, how figures draw it, how
long its cells are likely to take, and to which families it belongs. It shapes no result.
"""

from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from kvbench.cell.factors import DEFAULT
from kvbench.cell.library import shims_folder
from kvbench.common.files import read_toml
from kvbench.common.messages import BadInput, listed

DISTRIBUTED = "-debian"  # of the second build of an engine: the library of the distribution
MOST_BYTES = 1 << 20  # of such a file
C = "c"  # of rates: the shim
LAST = 10_000  # position of a store of which nothing is said
USUAL = {  # what a crash may cost at a level, in an engine that keeps a log
    "none": "a crash of the process, or a loss of power, may lose the last writes",
    "process": "a loss of power may lose the last writes",
}
FAMILIES = {  # which grids may name in the place of their stores
    "all": "what the paper measures: every store that set-up can build, but `null`",
    "files": "the file system: a file for each record",
    "main": "the engines of the main experiments, one or two of each kind",
    "ordered-sync": "engines that read in the order of the keys and sync a write",
    "compacting": "engines with a call that compacts the whole store",
}


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What CMakeLists.txt builds a shim with: see kv_read_build() there."""

    header: str = ""
    library: str = ""
    debian: str = ""
    advice: str = ""


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds for each record loaded and checked, for each byte of it, for each operation, and for
    each byte of that; and how many times a write as shipped waits for the device."""

    record: float = 0
    byte: float = 0
    operation: float = 0
    operation_byte: float = 0
    syncs: float = 0


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a store's file may say. The facts are texts, empty where one does not apply or was not
    found. `ordered` says whether the store is read in the order of the keys, `processes` whether
    several may use it at once, `known` what a user should know of it, `reuses` whether it uses the
    space of overwritten and removed records again without a call by the program, and `sources` has
    the address of the page for each fact that was read somewhere (on 2026-11-23). `consequence`
    says what a crash may cost, by durability level or, as shipped, by binding, where that is
    another thing than usual; see consequence(). `rates` are those of the shim, as `c`, and of
    bindings that use the engine in a way of their own."""

    name: Annotated[str, Meta(min_length=1)]
    what: str = ""
    language: str = ""
    ordered: bool = False
    licence: str = ""
    latest: str = ""
    maintained_by: str = ""
    platforms: str = ""
    processes: str = ""
    python: str = ""
    known: str = ""
    reuses: bool = True
    position: Annotated[int, Meta(ge=0, lt=LAST)] = LAST - 1  # in tables and figures
    families: tuple[str, ...] = ()
    colour: Annotated[str, Meta(pattern=r"\A(#[0-9A-Fa-f]{6})?\Z")] = ""
    marker: Annotated[str, Meta(max_length=1)] = ""  # of Matplotlib's
    consequence: dict[str, str] = {}
    sources: dict[str, str] = {}
    build: Build = Build()
    rates: dict[str, Rates] = {}


def _read(path: Path) -> About:
    """What a file says. Raises BadInput if it is none that can be used."""
    values = read_toml(path, MOST_BYTES)
    for key in values:
        if key not in About.__struct_fields__:
            allowed = listed(About.__struct_fields__, key, "template.toml")
            raise BadInput(f"{key!r:.60} is not a key; allowed: {allowed}")
    try:
        found = msgspec.convert(values, About)
    except msgspec.ValidationError as error:
        raise BadInput(str(error)) from None
    for name in found.families:
        if name not in FAMILIES:
            raise BadInput(f"families: {name!r:.60} is unknown; allowed: {listed(FAMILIES, name)}")
    return found


@cache
def _all(folder: Path) -> tuple[dict[str, About], dict[str, str]]:
    """What is said of each store, in the order of positions; and what is wrong with other files."""
    found, faults = {}, {}
    for path in sorted(folder.glob("*.toml")):
        try:
            found[path.stem] = _read(path)
        except BadInput as error:
            faults[path.stem] = f"{path.name}: {error}"
    return dict(sorted(found.items(), key=lambda item: item[1].position)), faults


def described() -> dict[str, About]:
    """What is said of each store, by its name, in the order of tables and figures."""
    return _all(shims_folder())[0]


def faults() -> dict[str, str]:
    """Of each store whose file cannot be used the reason, in one line."""
    return _all(shims_folder())[1]


def engine(store: str) -> str:
    """The name under which a store is described: another build of it has the engine's."""
    return store.removesuffix(DISTRIBUTED)


def entry(store: str) -> About:
    """What is said of a store, or the defaults where nothing is."""
    return described().get(engine(store)) or About(name=store)


def position(store: str) -> int:
    """Where a store stands in tables and figures: a key to sort by. Builds of one engine stand side
    by side, and stores of which nothing is said last."""
    found = described().get(engine(store))
    return 2 * (found.position if found else LAST) + (engine(store) != store)


def family(name: str) -> list[str]:
    """The stores of a family. Raises BadInput if a store's file cannot be used, since it may be of
    the family, or if there is no such store."""
    for fault in faults().values():
        raise BadInput(fault)
    return [store for store, said in described().items() if name in said.families]


def everything() -> dict[str, About]:
    """The facts about each store of which facts are stated, by its name."""
    return {store: said for store, said in described().items() if said.what}


def about(store: str) -> About | None:
    """The facts about a store; of another build of it, such as `lmdb-debian`, those of the engine.
    None if none are stated."""
    return everything().get(engine(store))


def has_c_interface(store: str) -> bool:
    """Whether programs in C can call the store; so they can one that is not described, as far as is
    known. Libraries in Rust have no other interface than Rust's."""
    return entry(store).language != "Rust"


def reuses(store: str) -> bool:
    """Whether a store uses the space of overwritten records again by itself; so does one that is
    not described, as far as is known."""
    return entry(store).reuses


WHOLE = "the whole store"  # how a consequence says that nothing may be left


def loses_all(store: str, level: str) -> bool:
    """Whether a crash that a durability level does not cover may cost the whole store."""
    return WHOLE in consequence(store, level)


def consequence(store: str, level: str, guarantee: str = "") -> str:
    """What a crash may cost a store at a durability level: how much is lost, and when. The store
    may be named with its binding; as shipped, `guarantee` is the level that it amounts to. Empty
    where nothing is known to be lost."""
    name, _, binding = store.partition("/")
    known = about(name)
    if known is None:
        return ""
    for key in (binding, level):
        if found := known.consequence.get(key):
            return found
    amounts = guarantee if level == DEFAULT else level
    return known.consequence.get(amounts, USUAL.get(amounts, ""))
