"""The types of options, and the options that several commands share.

click's own types are used where their message is one line that names the option, the value and what
is allowed. The types here are for the rest.
"""

import contextlib
import difflib
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from kvbench.cell.factors import MOST
from kvbench.common.messages import BadInput, brief, listed
from kvbench.stores import catalogue
from kvbench.stores.known import KnownStore

Parameter = click.Parameter | None
Context = click.Context | None


class Read(click.ParamType):  # type: ignore[type-arg] # generic from click 8.5 on
    """An option type that converts its text with a function. If the function raises BadInput, the
    message gets the name of the option."""

    name = "text"

    def __init__(self, read: Callable[[str], Any]) -> None:
        self.read = read

    def convert(self, value: Any, param: Parameter, ctx: Context) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return self.read(value)
        except BadInput as error:
            option = f"{param.opts[0]}: " if isinstance(param, click.Option) else ""
            raise BadInput(f"{option}{error}") from None


def number(least: float, most: float) -> Read:
    """An option type for a number from `least` to `most`, or greater than 0 if `least` is 0."""
    allowed = f"{least} to {most}" if least else f"more than 0, and {most:,} at most"

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            found = float(text)
            if found and least <= found <= most:  # false for NaN
                return found
        raise BadInput(f"{text!r:.60} is not allowed; allowed: {allowed}")

    return Read(read)


def count(text: str) -> int:
    """A number of records: digits, optionally in groups of three, with k, M or an exponent. Raises
    BadInput."""
    plain = re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text.strip())
    match = re.fullmatch(r"(\d{1,19})|(\d{1,12}(?:\.\d{1,9})?) ?([kKM]|[eE]\+?\d{1,2})", plain)
    found = Decimal(0)
    if match and match[1]:
        found = Decimal(match[1])
    elif match:
        scale = {"k": "e3", "K": "e3", "M": "e6"}.get(match[3], match[3])
        found = Decimal(f"{match[2]}{scale}")
    if not 1 <= found <= MOST or found % 1:
        raise BadInput(f"{text!r:.60} is not a number of records; allowed: 1000, 100k, 1M, 1e6")
    return int(found)


def folder(text: str) -> Path:
    """A folder that exists or can be made. Raises BadInput."""
    path = Path(text)
    with contextlib.suppress(OSError):  # the name is too long
        if text and (path.is_dir() or not path.exists()):
            return path
    raise BadInput(f"{brief(text)!r} is no folder; allowed: a folder, new or existing")


class Writable(click.Path):
    """An output file. It is written at the end, so an unusable path is refused at the start."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> Path:
        path = Path(value)
        other = path.exists() and not path.is_file()  # such as a device, which would be replaced
        if other or not os.access(path.parent, os.W_OK):
            allowed = "a file in a folder that exists and is writable"
            raise BadInput(f"--out: {str(path)!r} cannot be written; allowed: {allowed}")
        return path


class StoresFolder(click.Path):
    """An existing folder, below which stores are created. If the text is the name of a store, the
    error hints at that."""

    def convert(self, value: Any, param: Parameter, ctx: Context) -> Path:
        path = Path(value)
        with contextlib.suppress(OSError):  # the name is too long
            if str(value) and path.is_dir():
                return path
        option = param.opts[0] if param else ""
        near = difflib.get_close_matches(str(value).split(",")[0], catalogue.names(), 1)
        hint = f"; to choose {near[0]}, name it in `stores` of the grid" if near else ""
        raise BadInput(
            f"{option}: {brief(str(value))!r} is not a folder; allowed: a folder below which "
            f"stores are made{hint}"
        )


def _store(name: str) -> KnownStore:
    known = catalogue.known()
    if name not in known:
        allowed = listed(known, name, "`kvbench stores`")
        raise BadInput(f"{name!r:.60} is not a store; allowed: {allowed}")
    return known[name]


PATH = click.Path(path_type=Path)
FILE = Writable(path_type=Path)

STORES = click.argument("stores", nargs=-1, type=Read(_store), metavar="[STORE]...")
PLACE = click.option(
    "--place",
    type=StoresFolder(),
    default=Path(),
    metavar="FOLDER",
    help="Create the stores below this folder.  [default: the current folder]",
)
TABLE = click.option("--out", type=FILE, required=True, help="The CSV file to write.")
NEW_FOLDER = click.option(
    "--out", type=PATH, required=True, help="The folder to create; it must be new or empty."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
