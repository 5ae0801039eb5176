"""How a command ends: its exit status, its last line, and what is kept if it is stopped."""

import contextlib
import errno
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click

from kvbench.common.files import why_not
from kvbench.common.messages import BadInput, brief, discard, one_line, say
from kvbench.common.processes import STOPS

SLOWER = 1  # exit status of a comparison that found more than is allowed
BAD_INPUT = 2
SOME_FAILED = 3  # exit status when the sweep ended, but not every cell was measured
STOPPED = 130  # exit status after an interrupt, by the convention of shells
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
GOES_ON = "the cells that are done are kept; the same command goes on from there"
NOTHING_KEPT = "nothing was kept"  # unless a command calls `kept`


@contextlib.contextmanager
def kept(what: str) -> Iterator[None]:
    """Set what the last line says is kept if the command is stopped from now on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what) from None


def _prepare_streams() -> None:
    """Replace standard streams that are closed, because a file opened later would take their
    number. Print paths that are not UTF-8 unchanged."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]


def _ignore_stops() -> None:
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def _stop(_number: int, _frame: object) -> None:
    """Stop the command at the first signal; ignore a second one during clean-up."""
    _ignore_stops()
    raise KeyboardInterrupt


def _again(ignored: "sys.UnraisableHookArgs") -> None:
    """Raise the interrupt again a little later: Python drops exceptions raised in callbacks, such
    as those at a fork."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(ignored)


def run(command: click.Command, arguments: Sequence[str] | None) -> NoReturn:
    """Run a command and exit with its status. Any error is one line on standard error."""
    _prepare_streams()
    sys.unraisablehook = _again
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # under nohup, for example
            signal.signal(number, _stop)
    try:
        code = command.main(arguments, prog_name="kvbench", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the help page
        say(error.format_message())
        code = error.exit_code
    except click.ClickException as error:
        said = re.sub(r"'([^']+)'", lambda found: f"'{brief(found[1])}'", error.format_message())
        say(f"kvbench: {one_line(said)}")
        code = error.exit_code
    except BadInput as error:
        say(f"kvbench: {error}")
        code = BAD_INPUT
    except OSError as error:
        printed = "standard output" if error.errno in UNWRITTEN else ""  # else it has a name
        where = f"{error.filename or printed}: ".removeprefix(": ")
        say(f"kvbench: {one_line(f'{where}{why_not(error)}')}")
        if printed:  # what is left of the output would fail again at exit, with another status
            discard(1)
        code = BAD_INPUT
    except (click.Abort, KeyboardInterrupt) as stop:
        say(f"kvbench: stopped; {one_line(str(stop.__cause__ or stop)) or NOTHING_KEPT}")
        code = STOPPED
    finally:
        _ignore_stops()  # the work is done: let the status stand
    sys.exit(code)
