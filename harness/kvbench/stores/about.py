"""What an application's author asks of a store besides its speed; see about.toml."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from kvbench.cell.factors import DEFAULT

USUAL = {  # what a crash may cost at a level, in an engine that keeps a log
    "none": "a crash of the process, or a loss of power, may lose the last writes",
    "process": "a loss of power may lose the last writes",
}


@dataclass(frozen=True)
class About:
    """Facts about a store, as text; empty where one does not apply to it. `ordered` says whether it
    is read in the order of the keys, `processes` whether several may use it at once, `known` what a
    user should know of it, `reuses` whether it uses the space of overwritten and removed records
    again without a call by the program, and `sources` has the address of the page for each fact
    that was read somewhere. `consequence` says what a crash may cost, by durability level or, as
    shipped, by binding, where that is another thing than usual; see consequence()."""

    name: str
    what: str
    language: str
    ordered: bool
    licence: str
    latest: str
    maintained_by: str
    platforms: str
    processes: str
    python: str
    known: str
    reuses: bool = True
    consequence: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


@cache
def everything() -> dict[str, About]:
    """The facts about each store, by its name."""
    text = files("kvbench.stores").joinpath("about.toml").read_text(encoding="utf-8")
    return {store: About(**facts) for store, facts in tomllib.loads(text).items()}


def about(store: str) -> About | None:
    """The facts about a store; of another build of it, such as `lmdb-debian`, those of the engine.
    None if it is none that is listed."""
    return everything().get(store.removesuffix("-debian"))


def has_c_interface(store: str) -> bool:
    """Whether programs in C can call the store; so they can one that is not listed, as far as is
    known. Libraries in Rust have no other interface than Rust's."""
    known = about(store)
    return known is None or known.language != "Rust"


def reuses(store: str) -> bool:
    """Whether a store uses the space of overwritten records again by itself; so does one that is
    not listed, as far as is known."""
    known = about(store)
    return known is None or known.reuses


WHOLE = "the whole store"  # how a consequence says that nothing may be left


def loses_all(store: str, level: str) -> bool:
    """Whether a crash that a durability level does not cover may cost the whole store."""
    return WHOLE in consequence(store, level)


def consequence(store: str, level: str, guarantee: str = "") -> str:
    """What a crash may cost a store at a durability level: how much is lost, and when. The store
    may be named with its binding; as shipped, `guarantee` is the level that it amounts to. Empty
    where nothing is known to be lost."""
    engine, _, binding = store.partition("/")
    known = about(engine)
    if known is None:
        return ""
    for name in (binding, level):
        if found := known.consequence.get(name):
            return found
    amounts = guarantee if level == DEFAULT else level
    return known.consequence.get(amounts, USUAL.get(amounts, ""))
