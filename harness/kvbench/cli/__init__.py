"""The command kvbench: a module for each section of its help, and what their commands share."""

from collections.abc import Sequence
from typing import NoReturn

import click

from kvbench.cli import advise, durability, faults, measure, results, trace
from kvbench.cli.ends import SOME_FAILED, STOPPED, run

__all__ = ["SOME_FAILED", "STOPPED", "cli", "main"]

SECTIONS = {
    "Measure": (
        measure.stores, measure.installed, measure.grid_keys, measure.sweep, measure.status,
    ),
    "Use results": (
        results.collect, results.join, results.compare, results.restore, results.import_,
        results.submit, results.accept,
    ),
    "Choose a store": (advise.advise, trace.record, trace.trace),
    "Test durability": (
        durability.evidence, durability.crash, faults.faults, faults.rot,
        durability.sharing,
        durability.audit,
    ),
}  # fmt: skip


class Sections(click.Group):
    """A group that lists its commands by section, each section in the order of their use."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                room = formatter.width - longest - 6
                rows = [(f"{own.name:{longest}}", own.get_short_help_str(room)) for own in commands]
                formatter.write_dl(rows)


@click.group(
    cls=Sections,
    commands=[command for commands in SECTIONS.values() for command in commands],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done; 1 slower than --fail-above allows; 2 bad input, or a file that "
    "cannot be read or written; 3 some cells failed, or --measure did not finish; 130 stopped. "
    "`kvbench COMMAND --help` explains a command and its options.",
)
@click.version_option(package_name="kvbench")
def cli() -> None:
    """Measure files and embedded key-value stores under equal conditions.

    A grid is a TOML file that lists the factors of an experiment and their levels. A sweep measures
    each combination of levels in a process of its own and writes its result into a results folder.
    Tables of these results answer which store is best.

    \b
      kvbench sweep GRID --out DIR --dry-run    what it would measure, how long
      kvbench sweep GRID --out DIR              measure, or go on measuring
      kvbench status DIR                        what is done, what failed, and why
      kvbench collect DIR                       write the tables
      kvbench advise --record-size 4KiB --records 10k --data DIR
                                                which store to choose
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit. Bad input is one line on standard error and exit status 2."""
    run(cli, arguments)
