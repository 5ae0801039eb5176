"""Compare a reader's results with the paper's, for the page this-machine.qmd:
`python -m study.answers.beside build/local --out build/this-machine/beside.md`.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd
from kvbench.cell.factors import OPERATIONS

from study.common import formats, publish
from study.common.fields import NOT_RANKED, best_of, regrets
from study.common.results import Results

FIELD = ["operation", "record_size", "records", "compressibility"]
PAPER, HERE = "the paper", "this machine"


def machines(paper: Results, here: Results) -> str:
    """Return a Markdown table of what each results folder states of its machine, one row per
    fact."""
    names = {"cpu": "processor", "fsync": "write and fsync", "file_system": "file system"}
    facts = {}
    for who, data in ((PAPER, paper), (HERE, here)):
        sync = data.machine.get("sync_p50_us", float("nan")) * 1000
        facts[who] = data.facts() | {
            "sync of an overwritten block": formats.time(sync),
            "trials": data.trials_text(),
        }
    found = pd.DataFrame(facts).rename(index=names).rename_axis("").reset_index()
    return formats.table(found.astype(str), disable_numparse=True)


def shared(data: Results, other: Results) -> pd.DataFrame:
    """Return the rows of `data.operations`, with its columns, in the fields, and of the stores in
    them, that `other` has as well."""
    keys = other.operations[[*FIELD, "store"]].drop_duplicates()
    rows: pd.DataFrame = data.operations.merge(keys, on=[*FIELD, "store"])
    return rows[rows.operation.isin(OPERATIONS)]


def fields(paper: pd.DataFrame, here: pd.DataFrame, sizes: Sequence[str]) -> str:
    """Return a Markdown table with one row per field: the best store of each side with its time,
    and the regret here of the paper's best store."""
    theirs, ours = (best_of(rows, "mean_ns", FIELD) for rows in (paper, here))
    costs = regrets(here, "mean_ns", FIELD)
    costs = costs[costs.verdict != NOT_RANKED][[*FIELD, "store", "regret"]]
    found = theirs.merge(costs, how="left", on=[*FIELD, "store"])
    found = found.merge(ours, on=FIELD, suffixes=("", "_here"))
    found["at"] = found.operation.map(list(OPERATIONS).index)
    found["size"] = found.record_size.map(list(sizes).index)
    found = found.sort_values(["at", "size", "records", "compressibility"])
    columns = {
        "operation": found.operation,
        "record size": found.record_size,
        "records": found.records.map("{:,}".format),
        "data": found.compressibility,
        PAPER: [named(*own) for own in zip(found.store, found.value, found.reason, strict=True)],
        HERE: [
            named(*own)
            for own in zip(found.store_here, found.value_here, found.reason_here, strict=True)
        ],
        "the paper's best, here": found.regret.map("{:.2f}".format).where(
            found.regret.notna(), NOT_RANKED
        ),
    }
    return formats.table(pd.DataFrame(columns), disable_numparse=True)


def named(store: str, value: float, reason: str) -> str:
    return f"{store}, {formats.time(value)}" if store else reason


def stores(paper: pd.DataFrame, here: pd.DataFrame) -> str:
    """Return a Markdown table with one row per store: its regret over the shared fields (geometric
    mean)."""
    means = {}
    for who, rows in ((PAPER, paper), (HERE, here)):
        own = regrets(rows, "mean_ns", FIELD)
        own = own[own.verdict != NOT_RANKED]
        means[who] = own.groupby("store").regret.agg(lambda regret: np.exp(np.log(regret).mean()))
    found = pd.DataFrame(means).sort_values(PAPER).map(formats.stated, text="{:.2f}")
    return formats.table(found.rename_axis("store").reset_index(), disable_numparse=True)


def page(reference: str, folder: str) -> str:
    """Return the tables in Markdown, or a sentence in their place if the folders share no field."""
    paper, here = (Results(name, varying=["durability"]) for name in (reference, folder))
    level = here.durability()
    paper, here = (data.at(durability=level) for data in (paper, here))
    theirs, ours = shared(paper, here), shared(here, paper)
    if ours.empty:
        return (
            f"The paper has no field of these results (durability level `{level}`). "
            "`make measure` measures fields that the paper has.\n"
        )
    names = [store for store in paper.stores() if store in set(ours.store)]
    return f"""The machines, and the number of trials on each:

{machines(paper, here)}

The best of {formats.listed(names, "and")} in each field that both measured, at durability level
`{level}`, with its mean time (geometric mean over the trials). The last column is the time that the
paper's best store takes here, divided by that of the best store here.

{fields(theirs, ours, here.sizes())}

The time of each store divided by that of the best store of its field, over these fields (geometric
mean). Fields in which a store is not ranked are left out.

{stores(theirs, ours)}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m study.answers.beside", description="Compare results with the paper's."
    )
    parser.add_argument("results", help="a collected folder, from the repository's root")
    parser.add_argument("--reference", default="data/reference", help="the paper's results")
    return publish.print_page(parser, lambda given: page(given.reference, given.results), arguments)


if __name__ == "__main__":
    sys.exit(main())
