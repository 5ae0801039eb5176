"""Publish figures, tables and variables for the paper, if KVBENCH_FIGURES names a folder."""

import argparse
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kvbench.cell.factors import KEY_SIZE, format_bytes
from kvbench.cell.plan import PER_EVICTION, SAMPLES, TRIED
from kvbench.common.files import write_whole
from kvbench.common.messages import BadInput
from kvbench.experiment.factors import FACTORS
from kvbench.machine.noise import SPREAD
from kvbench.results.warm import SELDOM, WARM
from kvbench.stats.regret import GOOD, SITTINGS
from matplotlib.figure import Figure

from study.common import formats
from study.common.notebook import root


def method() -> dict[str, str]:
    """Return the constants of the harness that the paper's method section states, as text."""
    return {
        "key_size": format_bytes(KEY_SIZE),
        "samples": f"{SAMPLES:,}",
        "least": f"{FACTORS['least_ms'].default / 1000:g} s",
        "per_eviction": f"{PER_EVICTION}",
        "tried": f"{TRIED:,}",
        "looks": formats.listed(list(map(str, SITTINGS)), "and"),
        "errors": formats.listed([f"{100 * error:g}" for error in SITTINGS.values()], "and") + "%",
        "good": f"{GOOD - 1:.0%}",
        "warm": f"{WARM:.0%}",
        "seldom": f"{SELDOM:.0%}",
        "spread": f"{SPREAD:g}",
    }


def _folder() -> Path | None:
    """Return the folder for figures and variables; None unless KVBENCH_FIGURES names one."""
    name = os.environ.get("KVBENCH_FIGURES")
    if not name:
        return None
    folder = root() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def figure(drawn: Figure, name: str, png: bool = False) -> None:
    """Save a figure as SVG, and with `png` also as PNG, for places that cannot show SVG.

    The layout is computed once, so that the notebook's own picture has the same bytes whether or
    not the figure was saved first.
    """
    for axis in drawn.axes:  # a chart without values has no limits for a logarithmic axis
        if axis.get_xscale() == "log" and not min(axis.get_xlim()) > 0:
            axis.set_xlim(1, 10)
        if axis.get_yscale() == "log" and not min(axis.get_ylim()) > 0:
            axis.set_ylim(1, 10)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    _save(drawn, f"{name}.svg", metadata={"Date": None})
    if png:
        _save(drawn, f"{name}.png", dpi=200)


def _save(drawn: Figure, name: str, **how: Any) -> None:
    folder = _folder()
    if folder is not None:
        picture = io.BytesIO()
        drawn.savefig(picture, format=name.rpartition(".")[2], bbox_inches="tight", **how)
        write_whole(folder / name, picture.getvalue())


def text(found: str, name: str) -> None:
    folder = _folder()
    if folder is not None:
        write_whole(folder / name, found.encode())


def pick(values: Mapping[str, Any], names: str) -> dict[str, Any]:
    """Return the values that the text uses. `names` lists them, separated by spaces, with dots
    between levels. Names that these results lack are left out."""
    found: dict[str, Any] = {}
    for name in names.split():
        *above, last = name.split(".")
        inner, outer = values, found
        for key in above:
            inner, outer = inner.get(key, {}), outer.setdefault(key, {})
        if last in inner:
            outer[last] = inner[last]
    return found


def _safe(value: Any) -> Any:
    """Return the values as text that can stand in Markdown."""
    if isinstance(value, Mapping):
        return {name: _safe(inner) for name, inner in value.items()}
    return formats.escape(value) if isinstance(value, str) else value


def variables(name: str, values: Mapping[str, Any]) -> None:
    """Save values for the paper's text under the key `name`."""
    plain = json.loads(json.dumps({name.replace("-", "_"): _safe(values)}))
    text(yaml.safe_dump(plain, allow_unicode=True, sort_keys=True), f"{name}.yml")


def print_page(
    parser: argparse.ArgumentParser,
    page: Callable[[argparse.Namespace], str],
    arguments: Sequence[str] | None,
) -> int:
    """Print the page that the arguments ask for, or write it to the file of `--out`. Returns the
    exit status; bad input ends the process with one line and 2."""
    parser.add_argument("--out", type=Path, help="the file to write instead of standard output")
    given = parser.parse_args(arguments)
    try:
        text = page(given)
        if given.out:
            write_whole(given.out, text.encode())
        else:
            print(text, end="")
    except BadInput as error:
        parser.exit(2, f"{parser.prog.rpartition('.')[2]}: {error}\n")
    return 0
