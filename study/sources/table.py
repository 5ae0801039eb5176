"""Claims as rows: claims.csv in a source's folder has one row per claim, in our own words.

A file has the columns that its claims need, out of these:

id, source, section, claim, published, note   as in verdicts.Claim
statistic       computes the figure: one of STATISTICS, or one that the source's claims.py adds
column, name    the measured column, `ns` if empty, and its name in the predicate
store, operation   of the figure; `;` between several
settings        of the source; claims.py translates them into factors. `none: why` if no data have
                them
versus, versus_operation, versus_settings   the other side of a ratio; empty: same as the first
equal, equal_versus   the equal settings of both sides; empty: the source's sides differ only in
                what the claim is about
by, levels      the factor whose levels each field compares, the store if empty, and these levels
record_size, records, compressibility   of the fields; empty: all
text            the predicate, if the statistic does not state it
limit           `> 1`; `within 0.8 x 1.1`, a factor around it; `theirs`, `once` as in verdicts.Limit
processors      the number without which the claim cannot hold; empty: one
unlike          how what we measured differs from what the claim is about, so that its figures are
                shown but not judged; empty: it does not

Names in braces stand for values that claims.py reads from the source's printed figures.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kvbench.common.messages import BadInput

from study.common.fields import each
from study.sources.verdicts import (
    Claim,
    Fields,
    Figure,
    Limit,
    Side,
    ahead,
    combined,
    levels,
    middle,
    ratio,
    share,
    side,
    spread,
    tail,
    value,
)

COLUMNS = (
    "id", "source", "section", "claim", "statistic", "column", "name", "store", "operation",
    "settings", "versus", "versus_operation", "versus_settings", "equal", "equal_versus", "by",
    "levels", "record_size", "records", "compressibility", "text", "limit", "published", "note",
    "processors", "unlike",
)  # fmt: skip
FACTORS = ("operation", "record_size", "records", "compressibility")  # these select fields
NONE = "none: "
LIMIT = re.compile(
    r"(?P<sign>[<>]=?|within) (?P<number>\S+)(?: x (?P<factor>\S+))?"
    r"(?P<theirs> theirs)?(?P<once> once)?"
)


def listed(text: str) -> tuple[Any, ...]:
    """Return the parts of a cell; whole numbers as integers."""
    return tuple(int(part) if part.isdigit() else part for part in text.split(";"))


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def limit(text: str, claim: str = "") -> Limit:
    """Return the limit that the text states. Raises BadInput, which names the claim, if it states
    none."""
    found = LIMIT.fullmatch(text)
    if not found:
        allowed = "> 1, <= 4 theirs, within 0.8 x 1.1 and the like"
        raise BadInput(f"{claim}: limit {text!r}: allowed: {allowed}")
    factor = _number(found["factor"] or "1")
    theirs, once = bool(found["theirs"]), bool(found["once"])
    return Limit(found["sign"], _number(found["number"]), factor, theirs, once)


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of claims.csv at the source's settings, or at equal settings."""

    row: Any
    source: "Source"
    settings: str
    versus_settings: str

    @property
    def store(self) -> str:
        return str(self.row.store)

    @property
    def stores(self) -> list[str]:
        return self.store.split(";")

    @property
    def column(self) -> str:
        return self.row.column or "ns"

    def side(self, store: str, operation: str, settings: str) -> Side:
        terms = self.source.terms(store, operation, settings)
        return side(self.source.experiment, store, operation, **terms)

    @property
    def one(self) -> Side:
        return self.side(self.store, self.row.operation, self.settings)

    @property
    def ratios(self) -> list[Figure]:
        """Return the ratio of each store and operation to its other side."""
        row, found = self.row, []
        for store, operation in itertools.product(self.stores, row.operation.split(";")):
            other = row.versus or store, row.versus_operation or operation
            above = self.side(store, operation, self.settings)
            below = self.side(*other, self.versus_settings)
            found.append(ratio(above, below, self.column, row.name or "time"))
        return found

    @property
    def fields(self) -> Fields:
        by = self.row.by or "store"
        terms = dict(self.source.terms(self.store, self.row.operation, self.settings))
        for factor in FACTORS:
            if cell := getattr(self.row, factor):
                terms[factor] = listed(cell)
        if by != "store":
            terms["store"] = listed(self.store)
        compared = listed(self.row.levels) if self.row.levels else self.source.stores
        name = self.row.name.format(**terms)
        return levels(self.source.experiment, by, compared, name, self.column, **terms)


def _ratio(case: Case) -> Figure:
    (one,) = case.ratios
    return dataclasses.replace(one, text=case.row.text or one.text)


def _place(case: Case, place: str, alone: str = "") -> Figure:
    return ahead(case.fields, case.store, int(place), bool(alone))


# The first word of a statistic selects the function; further words are its arguments.
STATISTICS: dict[str, Callable[..., Figure]] = {
    "ratio": _ratio,
    "least-ratio": lambda case: combined(case.ratios, "min", case.row.text),
    "greatest-ratio": lambda case: combined(case.ratios, "max", case.row.text),
    "value": lambda case: value(case.one, case.column, case.row.name),
    "percentile": lambda case, percent: tail(case.one, float(percent) / 100),
    "share": lambda case, slack="1": share(case.fields, case.stores, float(slack)),
    "median": lambda case: middle(case.fields),
    "greatest": lambda case: middle(case.fields, most=True),
    "spread": lambda case: spread(case.fields),
    "place": _place,
}


def labelled(store: str, operation: str, settings: str) -> dict[str, Any]:
    """Return the factors of settings that are the label of a part of the grid."""
    return {"label": settings}


def _no_text(name: str, row: Any) -> str:
    raise KeyError(f"{row.id}: this source has no text for {{{name}}}")


@dataclasses.dataclass(frozen=True)
class Source:
    """What the rows of a source need: the path of its claims.py, its experiment, the factors that
    its settings stand for, the stores that it compares, its own statistics by name, and the text
    for a name in braces."""

    file: str
    experiment: str
    terms: Callable[[str, str, str], Mapping[str, Any]] = labelled
    stores: Sequence[str] = ()
    statistics: Mapping[str, Callable[..., Figure]] = dataclasses.field(default_factory=dict)
    text: Callable[[str, Any], str] = _no_text

    def claims(self) -> list[Claim]:
        """Return the claims in claims.csv beside claims.py. Raises BadInput for unknown columns
        or statistics."""
        path = Path(self.file).with_name("claims.csv")
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if unknown := [name for name in table if name not in COLUMNS]:
            raise BadInput(f"{path}: unknown columns {unknown}; allowed: {COLUMNS}")
        return [self._claim(row) for row in each(table.reindex(columns=COLUMNS, fill_value=""))]

    def _claim(self, row: Any) -> Claim:
        def told(text: str) -> str:
            return re.sub(r"{([^}]+)}", lambda name: self.text(name[1], row), text)

        def figure(settings: str, versus: str) -> Figure | str:
            if settings.startswith(NONE):
                return told(settings.removeprefix(NONE))
            name, *arguments = row.statistic.split()
            known = {**STATISTICS, **self.statistics}
            if name not in known:
                raise BadInput(f"{row.id}: statistic {name!r} is unknown; allowed: {[*known]}")
            return known[name](Case(row, self, settings, versus or settings), *arguments)

        return Claim(
            row.id,
            row.source,
            row.section,
            told(row.claim),
            figure(row.settings, row.versus_settings),
            figure(row.equal, row.equal_versus) if row.equal else None,
            limit(told(row.limit), row.id),
            told(row.published),
            told(row.note),
            int(row.processors or 1),
            row.unlike,
        )
