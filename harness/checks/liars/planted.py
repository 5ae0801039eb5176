"""Compiles small stores with one planted bug each, and the same store without one."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click
from kvbench.cell.library import shims_folder
from kvbench.common.messages import BadInput

SOURCE = Path(__file__).parent / "liar.c"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
CORE = ("libloop.so", "build.json", "null.so")  # what every folder of shims holds
REPORT = "stores.json"


def bugs() -> list[str]:
    """The names of the bugs as the source lists them. The first, `none`, is none."""
    listed = re.search(r"enum bug \{(.*?)\};", SOURCE.read_text(), re.DOTALL)
    assert listed is not None
    return re.findall(r"^\s+(\w+),", listed[1], re.MULTILINE)


def store_name(bug: str) -> str:
    """The name of the store with this bug."""
    return "liar-" + bug.replace("_", "-")


def shims_for(folder: Path) -> None:
    """Make a folder of shims, with `null` alone. Raises BadInput if it holds something else."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / REPORT).exists():
        if any(folder.iterdir()):
            raise BadInput(f"{folder}: neither empty nor a folder of shims; name another")
        (folder / REPORT).write_text(json.dumps({"null": ""}))
    for name in CORE:
        shutil.copy(shims_folder() / name, folder)


def build(folder: Path, names: Sequence[str] = ()) -> list[str]:
    """Compile the stores with these bugs, or with each, into a folder of shims. Returns the names
    of the stores. Raises BadInput if the folder holds something else."""
    shims_for(folder)
    stores = {store_name(bug): bug for bug in names or bugs()}
    for store, bug in stores.items():
        defined = f"-DBUG={bug}", f'-DKV_NAME="{store}"'
        subprocess.run(["cc", *FLAGS, *defined, SOURCE, "-o", folder / f"{store}.so"], check=True)
    return list(stores)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, type=click.Choice(bugs()), metavar="[BUG]...")
def main(folder: Path, names: tuple[str, ...]) -> None:
    """Compile the stores with these bugs, or with each, into FOLDER. The bug `none` is none."""
    try:
        for store in build(folder, names):
            click.echo(store)
    except BadInput as error:
        raise click.UsageError(str(error)) from None
