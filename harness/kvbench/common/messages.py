"""Messages to the user, one line each, and the error for bad input."""

import difflib
import os
import re
import sys
from collections.abc import Iterable

MOST_LISTED = 56  # characters of the allowed values in a message, which must stay short


def one_line(text: str) -> str:
    """A message as one line of printable characters, whatever it quotes, such as file names."""
    unfit = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
    return re.sub(unfit, lambda found: found[0].encode("unicode_escape").decode(), text)


def listed(names: Iterable[object], given: object = "", where: str = "") -> str:
    """The allowed names, for a message. If they are too many, only those most similar to the
    `given` name, or the first ones, with the number of the others and `where` all are listed."""
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
    """Input that cannot be used. The message is one line that names the value, the place and what
    is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))

    def _render_traceback_(self) -> list[str]:
        """The message alone, which IPython shows in a notebook."""
        return [f"{type(self).__name__}: {self}"]


def brief(text: str, most: int = 60) -> str:
    """A user's text for a message. A long text is cut in the middle, since a path's end is the most
    informative part."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def discard(descriptor: int) -> None:
    """From now on, lose what is written to a descriptor: what is buffered would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def say(text: str) -> None:
    """Print a line on standard error. If the terminal or pipe is closed, the line is dropped, so
    that a sweep goes on."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(2)
