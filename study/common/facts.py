"""Tables of facts about the stores, with links to their sources."""

import re
from collections.abc import Mapping, Sequence

import pandas as pd
from kvbench.answers.needs import FOLDERS, INSTALLED, NEEDS, Needs, Observed
from kvbench.results.frames import Frames
from kvbench.stores import catalogue
from kvbench.stores.about import About, everything, position

from study.common import formats
from study.common.fields import where
from study.common.levels import RANKED, extremes
from study.common.notebook import parameter_folder, parameter_table, read_table, root

SHARING = {
    "store": "store", "opens": "opens", "reads": "reads", "sees_new": "sees new records",
    "writes": "writes", "intact": "intact",
}  # fmt: skip
UNTESTED = re.compile("not (tested|tried|measured)|tested in only")  # reasons why a need is not met
NAMES = {
    "what": "what it is", "latest": "latest release", "maintained_by": "maintained by",
    "processes": "several processes", "python": "from Python", "known": "to be known",
}  # fmt: skip


def _linked(facts: About, fact: str) -> str:
    text = formats.escape(getattr(facts, fact))
    source = facts.sources.get(fact)
    return f"[{text}]({source})" if source and text else text


def table(
    stores: Sequence[str], facts: Sequence[str], measured: Mapping[str, str] | None = None
) -> str:
    """Return a Markdown table of facts: one row per store, one column per fact, and the version of
    each store that was `measured`, if given."""
    rows = {
        store: {NAMES.get(fact, fact): _linked(everything()[store], fact) for fact in facts}
        for store in stores
    }
    found = pd.DataFrame(rows).T.rename_axis("store").reset_index()
    if measured is not None:
        found["measured"] = found.store.map(measured).fillna("").map(formats.escape)
    return formats.table(found, [str(name) for name in found if name != "store"])


def versions(name: str, given: object) -> dict[str, str]:
    """Return the version of each store that was measured last from C in the folder which the
    notebook's parameter `name` gives; empty if it has no collected results. Raises BadInput."""
    folder = parameter_folder(name, given)
    if not (folder / "cells.parquet").exists():
        return {}
    cells = Frames.read(folder, given).cells.sort_values("started")
    own = where(cells, access="c").dropna(subset="engine_version")
    last = own.groupby("store").engine_version.last()
    return dict(zip(map(str, last.index), last, strict=True))


def sharing(name: str, given: object) -> pd.DataFrame:
    """Return the table that `kvbench sharing` wrote into the folder which the notebook's parameter
    `name` gives: one row per store, with the text columns SHARING. Raises BadInput."""
    columns = dict.fromkeys(SHARING, str)
    return parameter_table(name, given, "sharing.csv", "kvbench sharing", columns)


def shared(found: pd.DataFrame) -> str:
    """Return a Markdown table of what a second process may do with each store."""
    answers = {  # without the engine's words
        column: found[column].str.split(": ").str[0] for column in SHARING if column != "store"
    }
    found = found.assign(**answers)
    found = found.sort_values("store", key=lambda names: names.map(position))
    return formats.table(found[list(SHARING)].rename(columns=SHARING))


def met(stores: Sequence[str]) -> pd.DataFrame:
    """Return which needs of `kvbench advise` each store meets: one row per store, one column per
    need. "yes" and "no" hold for each level of the main grid; otherwise the levels are named at
    which it is met. "not known" is a need for which the store was not tested, or not enough."""
    observed = Observed(root() / "data/reference")

    def said(store: str, need: str) -> str:
        own = Needs((need,), observed)
        lacks = {level: own.refuses(store, level) for level in RANKED}
        good = [level for level, why in lacks.items() if not why]
        if len(good) == len(lacks):
            return "yes"
        if good:
            return ", ".join(good)
        return "not known" if all(map(UNTESTED.search, lacks.values())) else "no"

    return pd.DataFrame(
        {"store": store} | {need: said(store, need) for need in NEEDS} for store in stores
    )


def opening_soon(stores: Sequence[str]) -> list[str]:
    """Return those of these stores that meet the need `opens-soon` at each level."""
    needs = met(stores)
    return list(needs.store[needs["opens-soon"] == "yes"])


def installed(stores: Sequence[str]) -> pd.DataFrame:
    """Return the bytes of the engine of each store and of the libraries that it loads, and the time
    `compile_s` of those that the set-up compiles, as `kvbench installed` measured them: one row per
    measured store, the least first."""
    columns = {"store": str, "bytes": int, "compile_s": float}
    found = read_table(root() / "data" / INSTALLED, columns, missing=True)
    own = found[found.store.isin(stores) & ~found.store.isin(FOLDERS)]
    return own[["store", "bytes", "compile_s"]].sort_values("bytes", ignore_index=True)


def compiled(sizes: pd.DataFrame) -> dict[str, str]:
    """Return, for the text, the least and the greatest time to compile of installed(), each with
    its store."""
    own = sizes.dropna(subset="compile_s").set_index("store").compile_s.sort_values()
    return extremes(own, ".0f", ".0f")


def least_and_most(sizes: pd.DataFrame) -> dict[str, str]:
    """Return, for the text, the least and the greatest size of installed(), each with its store."""
    first, last = sizes.iloc[0], sizes.iloc[-1]
    return {
        "least": formats.size(first.bytes),
        "least_store": str(first.store),
        "most": formats.size(last.bytes),
        "most_store": str(last.store),
    }


def limits(stores: Sequence[str]) -> pd.DataFrame:
    """Return the largest key and value that each available store takes, as its shim declares them:
    one row per store, as text."""
    known = catalogue.known()
    return pd.DataFrame(
        {
            "store": store,
            "largest key": formats.size(known[store].max_key),
            "largest value": formats.size(known[store].max_value),
        }
        for store in stores
        if known[store].available
    )
