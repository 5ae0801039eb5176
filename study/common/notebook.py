"""Check the parameters of a notebook, folders and tables, before anything is computed."""

import ast
import io
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import pandas as pd
from kvbench.common.files import read_whole
from kvbench.common.messages import BadInput


def root() -> Path:
    """Return the root of the repository, to which paths in the notebooks are relative. Raises
    BadInput outside of a repository."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "_quarto.yml").exists():
            return folder
    raise BadInput(f"{here}: not inside the repository (no _quarto.yml above)")


def published(name: str) -> pd.DataFrame:
    """Return a table of data/published: the figures that a source printed. It has the columns of
    the file, which data/published/README.md explains: numbers, or texts where one is missing."""
    return pd.read_csv(root() / "data" / "published" / f"{name}.csv", keep_default_na=False)


def parameter_folder(name: str, given: object) -> Path:
    """Return the folder that the parameter `name` gives, relative to the root of the repository.
    Raises BadInput if it is not a folder."""
    fit = isinstance(given, str) and given and "\0" not in given
    path = root() / str(given) if fit else None
    try:
        if path is not None and (path.is_dir() or not path.exists()):
            return path
    except OSError:  # the name is too long, for example
        pass
    raise BadInput(f"{name}: {given!r} is no folder")


def parameter_folders(name: str, given: object) -> dict[str, str]:
    """Return the folders that the parameter `name` gives, by experiment. Raises BadInput for
    anything but a dictionary of folders by name."""
    if not isinstance(given, dict):
        raise BadInput(f"{name}: {given!r} is no dictionary of folders by name")
    for key, folder in given.items():
        if not isinstance(key, str) or not key:
            raise BadInput(f"{name}: {key!r} is no name of an experiment")
        parameter_folder(f"{name}[{key!r}]", folder)
    return given


def parameter_table(
    name: str, given: object, file: str, command: str, columns: Mapping[str, type]
) -> pd.DataFrame:
    """Return the CSV `file` in the folder that the parameter `name` gives, with the `columns`, each
    of its type, in the order of the file. `command` is the one that writes the file. Raises
    BadInput if it is missing, empty or damaged."""
    path = parameter_folder(name, given) / file
    if not path.exists():
        raise BadInput(f"{path}: not there; run `{command}`")
    table = read_table(path, columns)
    if table.empty:
        raise BadInput(f"{path}: no rows; run `{command}`")
    return table[[name for name in table if name in columns]]


def read_table(
    path: Path, columns: Mapping[str, type], *key: str, missing: bool = False
) -> pd.DataFrame:
    """Return a CSV table of a results folder with all columns of the file. Those in `columns` must
    be there, each of its type; the types of the others follow from their values. An empty field is
    an empty text or, with `missing`, missing; "nan" is not a number. Raises BadInput if the file is
    damaged, lacks a column or has two rows with the same `key`, and FileNotFoundError if it does
    not exist."""
    numbers = {name: ["nan"] for name, kind in columns.items() if kind is float}
    try:
        text = io.StringIO(read_whole(path).decode())
        table = pd.read_csv(text, dtype=dict(columns), keep_default_na=missing, na_values=numbers)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # errors of pandas are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path}: {reason!s:.150}; write it anew, or move it away") from None
    for name in columns:
        if name not in table:
            raise BadInput(f"{path}: no column {name!r}; write it anew, or move it away")
    twice = table[table.duplicated(list(key))] if key else table.head(0)
    for row in twice.head(1).to_dict("records"):
        raise BadInput(f"{path}: two rows of {' '.join(str(row[name]) for name in key)}")
    return table


def check_parameters(*known: str) -> None:
    """Raise BadInput for a parameter that the notebook does not have; papermill would only print a
    notice.

    It looks at the cells that ran before this one: those of the parameters and papermill's.
    """
    from IPython import get_ipython  # noqa: PLC0415 - slow, and outside a notebook there is none

    sources = takewhile(
        lambda text: "check_parameters" not in text, get_ipython().user_ns["In"][1:]
    )
    given = {
        target.id
        for source in sources
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for name in sorted(given - set(known)):
        raise BadInput(f"unknown parameter '{name}'; allowed: {', '.join(known)}")
