"""Figures and tables depend on the data and the locked packages, not on a user's settings."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import pytest
from support import ROOT

NOTEBOOKS = ROOT / "notebooks"
# Text, ticks, a legend, markers and a frame that is saved, as PNG too; and a table.
CELLS = (
    """
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Markdown

from study.common import figures, formats, publish

figures.use_style()
""",
    """
figure, axes = figures.grid(1, 2, 1.5)
for axis in axes.flat:
    shown = axis.errorbar([1, 2, 4], [1000.5, 2000, 4000], yerr=[[1, 2, 3], [3, 2, 1]], marker="o")
    axis.set(title="1.5 µs, LevelDB (ÄÖ)", ylabel="time [µs]")
axes[0, 0].axhline(2000, linewidth=0.6)
axes[0, 0].set_xlabel("records $x^2$")
figures.legend(figure, {"a": shown, "b": shown})
figures.note(figure, "1,000 records")
publish.figure(figure, "drawn", png=True)
""",
    """
table = pd.DataFrame({"store": ["lmdb"] * 80, "time": [1234567.891, 2.5] * 40})
Markdown(formats.table(table))
""",
)
HOSTILE_RC = """
axes.xmargin: 0
axes.formatter.use_locale: True
axes.prop_cycle: cycler(color=["red"])
axes.unicode_minus: False
errorbar.capsize: 5
figure.constrained_layout.w_pad: 1
figure.max_open_warning: 1
font.size: 20
lines.linewidth: 9
path.sketch: 1, 100, 2
savefig.bbox: standard
savefig.facecolor: yellow
savefig.pad_inches: 1
svg.fonttype: none
mathtext.fontset: cm
no.such.key: 1
"""
CONFIGURATION = """
c = get_config()
c.InlineBackend.figure_formats = {"png", "retina"}
c.InlineBackend.print_figure_kwargs = {"bbox_inches": None, "facecolor": "yellow"}
c.InlineBackend.rc = {"axes.xmargin": 0, "font.size": 20}
c.InlineBackend.close_figures = False
c.InteractiveShell.ast_node_interactivity = "all"
c.DisplayFormatter.active_types = ["text/plain"]
"""
STARTUP = """
import locale
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

sns.set_theme(style="dark", font="serif", palette="pastel", rc={"axes.xmargin": 0})
plt.style.use("ggplot")
mpl.rcParams["lines.linewidth"] = 9
pd.options.display.max_rows = 2
pd.options.display.max_colwidth = 3
pd.options.display.float_format = "{:.0f}".format
pd.options.plotting.backend = "matplotlib"
np.set_printoptions(precision=1)
get_ipython().run_line_magic("matplotlib", "agg")
get_ipython().run_line_magic("config", "InlineBackend.figure_formats = ['png']")
"""


def _matplotlibrc(home: Path) -> dict[str, str]:
    (home / "matplotlib").mkdir(exist_ok=True)
    (home / "matplotlib" / "matplotlibrc").write_text(HOSTILE_RC)
    return {"MPLCONFIGDIR": str(home / "matplotlib")}


def _named_matplotlibrc(home: Path) -> dict[str, str]:
    (home / "own-rc").write_text(HOSTILE_RC)
    return {"MATPLOTLIBRC": str(home / "own-rc")}


def _backend(home: Path) -> dict[str, str]:
    return {"MPLBACKEND": "agg"}


def _profile(home: Path, name: str, text: str) -> dict[str, str]:
    path = home / "ipython" / "profile_default" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {"IPYTHONDIR": str(home / "ipython")}


def _configuration(home: Path) -> dict[str, str]:
    return _profile(home, "ipython_kernel_config.py", CONFIGURATION)


def _startup(home: Path) -> dict[str, str]:
    return _profile(home, "startup/own.py", STARTUP)


def _pythonstartup(home: Path) -> dict[str, str]:
    (home / "own.py").write_text(STARTUP)
    return {"PYTHONSTARTUP": str(home / "own.py")}


def _environment(home: Path) -> dict[str, str]:
    """A German locale in Latin-1, a far zone, a narrow terminal, a seed of hashes, a date."""
    locales = home / "locales"
    locales.mkdir()
    command = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(locales / "de_DE")]
    if shutil.which("localedef"):  # else the name alone
        subprocess.run(command, check=True)
    return {
        "LOCPATH": str(locales), "LC_ALL": "de_DE", "LANG": "de_DE", "TZ": "Pacific/Kiritimati",
        "COLUMNS": "20", "LINES": "5", "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "86400",
    }  # fmt: skip


def _fonts(home: Path) -> dict[str, str]:
    """A list of fonts in which another one has the name of ours."""
    shadow = """
import json, matplotlib
from pathlib import Path
from matplotlib import font_manager
cache = next(Path(matplotlib.get_cachedir()).glob("fontlist*.json"))
found = json.loads(cache.read_text())
other = next(font for font in found["ttflist"] if font["fname"].endswith("cmtt10.ttf"))
for font in found["ttflist"]:
    if font["name"] == "DejaVu Sans":
        font["fname"] = other["fname"]
cache.write_text(json.dumps(found))
"""
    where = {"MPLCONFIGDIR": str(home / "matplotlib")}
    subprocess.run([sys.executable, "-c", shadow], env=os.environ | where, check=True)
    return where


HOSTILE: Mapping[str, Callable[[Path], dict[str, str]]] = {
    "matplotlibrc": _matplotlibrc,
    "MATPLOTLIBRC": _named_matplotlibrc,
    "MPLBACKEND": _backend,
    "ipython_kernel_config": _configuration,
    "startup files": _startup,
    "PYTHONSTARTUP": _pythonstartup,
    "environment": _environment,
    "fonts": _fonts,
}


def drawn(folder: Path, env: Mapping[str, str]) -> dict[str, object]:
    """The outputs of the cells, and the bytes of the figure as it is published."""
    folder.mkdir()
    (folder / "_quarto.yml").touch()  # the root of a repository, as the notebooks look for it
    shutil.copy(NOTEBOOKS / "matplotlibrc", folder)
    path = folder / "drawn.ipynb"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbformat.write(made, path)
    command = [sys.executable, str(NOTEBOOKS / "execute.py"), str(path)]
    own = {"KVBENCH_FIGURES": "figures", "HOME": str(folder), **env}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MPL", "IPY"))}
    done = subprocess.run(command, env=kept | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = {
        name: (folder / "figures" / name).read_bytes() for name in ("drawn.svg", "drawn.png")
    }
    for number, cell in enumerate(nbformat.read(path, 4).cells):
        found[f"outputs of cell {number}"] = [
            (output.output_type, output.get("data"), output.get("text")) for output in cell.outputs
        ]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What is drawn without settings."""
    found = drawn(tmp_path_factory.mktemp("plain") / "repository", {"LC_ALL": "C.UTF-8"})
    assert b"<svg" in found["drawn.svg"] and found["outputs of cell 1"]
    return found


def _same(found: Mapping[str, object], plain: Mapping[str, object]) -> None:
    assert [name for name in plain if found[name] != plain[name]] == []


@pytest.mark.check
def test_no_setting_of_a_user_changes_a_figure_or_a_table(
    plain: dict[str, object], tmp_path: Path
) -> None:
    together: dict[str, str] = {}
    for settings in HOSTILE.values():
        together |= settings(tmp_path)
    _same(drawn(tmp_path / "repository", together), plain)


@pytest.mark.check
@pytest.mark.parametrize("settings", HOSTILE)
def test_no_single_setting_of_a_user_changes_a_figure_or_a_table(
    settings: str, plain: dict[str, object], tmp_path: Path
) -> None:
    _same(drawn(tmp_path / "repository", HOSTILE[settings](tmp_path)), plain)


def _sanitized(text: str) -> str:
    """The text as nbval compares it."""
    rules = configparser.RawConfigParser()
    rules.read(NOTEBOOKS / "nbval.cfg")
    for section in rules.sections():
        text = re.sub(rules.get(section, "regex"), rules.get(section, "replace"), text)
    return text


def test_nbval_compares_all_digits_but_those_of_places_in_figures() -> None:
    table = "| lmdb | 0.123456 | 12.345678 |\n<p>0.123456</p>"
    assert _sanitized(table) == table
    near = "<svg><path d='M 1.234567 8.765432'/></svg>\n"
    assert _sanitized(near) == _sanitized(near.replace("4567", "4999"))
    assert _sanitized(near) != _sanitized(near.replace("234567", "235567"))
