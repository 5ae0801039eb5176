"""Messages to the user: one line each, and the error that a bad input ends with."""

import difflib
import os
import re
import sys
from collections.abc import Iterable

MOST_LISTED = 56  # characters of what is allowed in a message: a line of it is to be read at once


def one_line(text: str) -> str:
    """A message as one printable line, whatever it quotes: file names, for example."""
    unfit = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
    return re.sub(unfit, lambda found: found[0].encode("unicode_escape").decode(), text)


def listed(names: Iterable[object], given: object = "", where: str = "") -> str:
    """What is allowed, in a message: all names if they are few, else those most like the given one,
    or the first, with the number of the others and `where` they are listed."""
    found = list(map(str, names))
    text = ", ".join(found)
    if len(text) <= MOST_LISTED:
        return text
    begun = str(given).lower()
    close = [name for name in found if begun and name.startswith(begun)]
    close = close or difflib.get_close_matches(begun, found, 3)
    shown: list[str] = []
    for name in close or found:
        if shown and len(", ".join([*shown, name])) > MOST_LISTED:
            break
        shown.append(name)
    more = f" and {len(found) - len(shown)} more" if len(shown) < len(found) else ""
    return f"{', '.join(shown)}{more}{f': see {where}' if more and where else ''}"


class BadInput(Exception):  # noqa: N818 - it names what was given, not what went wrong here
    """Input that cannot be used. One line names the value, the place and what is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the line alone."""
        return [f"{type(self).__name__}: {self}"]


def brief(text: str, most: int = 60) -> str:
    """A text of the user's for a message, its middle left out where it is long: a path's end says
    most."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def say(text: str) -> None:
    """Print a line on standard error. A closed terminal or pipe must not end a sweep."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
