"""What make render does around Quarto: fall back, clean up, and give the same pages anywhere.

A stand-in for quarto fails or waits as the test needs; where Quarto is installed, it is run too.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import psutil
import pypandoc
import pytest
import yaml
from kvbench.machine.shelf import await_end, runs
from selenium import webdriver

PAPER = Path(__file__).resolve().parents[1]
LEFTOVERS = "touch paper/index.html paper/index.typ $TMPDIR/x; mkdir -p paper/index_files/figures\n"
PAGE = "---\ntitle: A title\n---\n\nText.\n"
NAME = "quarto_cli-1.9.38"


class Checkout:
    """A small project with its own quarto, and its own Python for what is installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "paper").mkdir(parents=True)
        (root / "bin").mkdir()
        shutil.copy(PAPER / "render.py", root / "paper")
        shutil.copytree(PAPER / "preview", root / "paper/preview")
        (root / "_quarto.yml").write_text(
            "project: {output-dir: build/paper, render: [paper/index.qmd]}\n"
        )
        (root / "paper/index.qmd").write_text(PAGE)
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        self.sources = self.files()
        self.environment = os.environ | {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "TMPDIR": str(self.scratch),
        }

    def files(self) -> set[Path]:
        """The files of the paper and the temporary files."""
        paths = [*(self.root / "paper").rglob("*"), *self.scratch.rglob("*")]
        return {path for path in paths if "__pycache__" not in path.parts}

    def quarto(self, script: str) -> None:
        (self.root / "bin/quarto").write_text(f"#!/bin/sh\n{script}")
        (self.root / "bin/quarto").chmod(0o755)

    def start(self, *arguments: str, python: Path | str = sys.executable) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python, "paper/render.py", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, python: Path | str = sys.executable) -> tuple[int, str]:
        process = self.start(*arguments, python=python)
        output, _ = process.communicate()
        return process.returncode, output


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_without_quarto_a_preview_is_rendered(checkout: Checkout) -> None:
    status, output = checkout.run()
    assert status == 0
    assert output.startswith("quarto is not on the PATH: rendering a preview")
    assert (checkout.root / "build/paper/paper/index.html").exists()


def test_a_preview_can_be_asked_for(checkout: Checkout) -> None:
    checkout.quarto("exit 7\n")
    assert checkout.run("preview") == (0, "build/paper/paper/index.html\n")


@pytest.mark.parametrize("script_fails", [False, True])
def test_a_preview_is_followed_by_the_scripts_that_the_project_names(
    checkout: Checkout, script_fails: bool
) -> None:
    (checkout.root / "_quarto.yml").write_text(
        "project: {output-dir: build/paper, render: [paper/index.qmd], post-render: [after.py]}\n"
    )
    ends = int(script_fails) * 7
    (checkout.root / "after.py").write_text(
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['QUARTO_PROJECT_OUTPUT_DIR'])\n"
        "print((folder / 'paper/index.html').exists())\n"
        f"raise SystemExit({ends})\n"
    )
    status, output = checkout.run("preview")
    assert status == ends
    assert output.splitlines()[-2:] == ["build/paper/paper/index.html", "True"]


def test_failed_render_leaves_no_files(checkout: Checkout) -> None:
    checkout.quarto(f"{LEFTOVERS}exit 7\n")
    assert checkout.run() == (7, "")
    assert checkout.files() == checkout.sources


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_render_leaves_no_files_and_no_process(
    checkout: Checkout, stop: signal.Signals
) -> None:
    checkout.quarto(f"{LEFTOVERS}sh -c 'echo $$; exec sleep 600'\n")
    process = checkout.start()
    assert process.stdout
    grandchild = int(process.stdout.readline())
    process.send_signal(stop)
    assert process.wait() == 128 + stop
    assert checkout.files() == checkout.sources
    with suppress(psutil.NoSuchProcess):
        ending = psutil.Process(grandchild)
        await_end([ending], time.monotonic() + 10)
        assert not runs(ending)


@pytest.mark.skipif(not shutil.which("quarto"), reason="needs Quarto")
def test_quarto_cleans_up_after_a_page_that_fails(checkout: Checkout) -> None:
    checkout.environment["PATH"] = os.environ["PATH"]
    # HTML is written, then Typst misses the image.
    (checkout.root / "paper/index.qmd").write_text(
        f"{PAGE}\n![A missing image](none.png)\n".replace(
            "---\n\n", "format: {html: default, typst: default}\n---\n\n"
        )
    )
    assert checkout.run()[0] != 0
    assert checkout.files() == checkout.sources


def copied(root: Path) -> Path:
    """The sources of the paper without what set-up installs."""
    for folder in ("paper", "notebooks", "figures", "data/explorer"):
        without = shutil.ignore_patterns("node_modules")
        shutil.copytree(PAPER.parent / folder, root / folder, ignore=without)
    for file in ("_quarto.yml", "_variables.yml"):
        shutil.copy(PAPER.parent / file, root)
    return root


def scripts() -> list[str]:
    project = yaml.safe_load((PAPER.parent / "_quarto.yml").read_text())["project"]
    return [*project.get("pre-render", []), *project.get("post-render", [])]


@pytest.mark.parametrize("script", scripts())
def test_scripts_that_quarto_runs_need_no_package(tmp_path: Path, script: str) -> None:
    root, output = copied(tmp_path / "a fôlder"), tmp_path / "elsewhere"
    done = subprocess.run(
        [sys.executable, "-I", "-S", script],  # without site-packages
        cwd=root,
        env={"QUARTO_PROJECT_OUTPUT_DIR": str(output), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "explorer: not built, its libraries are missing (npm ci --prefix paper/explorer)\n"
    )
    assert "The explorer was not built" in (output / "paper/explorer.html").read_text()


@pytest.mark.skipif(not shutil.which("quarto"), reason="needs Quarto")
def test_quarto_gives_the_same_pages_in_two_folders(tmp_path: Path) -> None:
    """Also in another folder for the output, with a Python without packages, and below a blank."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    pages = set()
    for name, output in (("one", "build/paper"), ("the öther one", "a folder")):
        root = copied(tmp_path / name)
        subprocess.run(
            ["quarto", "render", "paper/this-machine.qmd", "--output-dir", output],
            cwd=root,
            env=os.environ | {"QUARTO_PYTHON": str(python)},
            check=True,
            capture_output=True,
        )
        pages.add((root / output / "paper/this-machine.html").read_bytes())
        assert "not built" in (root / output / "paper/explorer.html").read_text()
        assert not (root / "build/paper").exists() or output == "build/paper"
    assert len(pages) == 1


def test_embedded_cells_do_not_name_the_folder_of_the_checkout() -> None:
    cell = '::: {.quarto-embed-nb-cell notebook="/checkout/notebooks/a.ipynb"}\nx\n:::'
    html = pypandoc.convert_text(
        cell, "html", format="markdown", extra_args=[f"--lua-filter={PAPER / 'paths.lua'}"]
    )
    assert "/checkout" not in html
    assert 'data-notebook="a.ipynb"' in html


def laid_out(text: str, target: str) -> str:
    options = [f"--lua-filter={PAPER / 'layout.lua'}", "--wrap=none"]
    return pypandoc.convert_text(text, target, format="markdown", extra_args=options)


def test_nothing_keeps_a_figure_of_a_cell_from_floating_in_the_pdf() -> None:
    cell = (
        "::::: {.quarto-embed-nb-cell}\n:::: {.cell}\n::: {.cell-output .cell-output-display}\n"
        "![A caption](a.svg)\n\n:::\n::::\n:::::"
    )
    typst = laid_out(cell, "typst")
    assert typst.startswith("#figure(")
    assert "#block" not in typst


@pytest.mark.parametrize(("rows", "folded"), [(25, False), (26, True)])
@pytest.mark.parametrize(("text", "marked"), [("x" * 60, False), ("x" * 61, True)])
def test_a_table_scrolls_and_a_long_one_is_folded(
    rows: int, folded: bool, text: str, marked: bool
) -> None:
    table = "| a | b |\n|---|---|\n" + f"| {text} | 1 |\n" * rows
    html = laid_out(table, "html")
    assert html.count('class="wide texts"' if marked else 'class="wide"') == 1
    assert (f"<summary>All {rows} rows</summary>" in html) is folded
    assert ("beforeprint" in html) is folded
    assert html.count("<tr") == rows + 1
    assert "details" not in laid_out(table, "typst")


@pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs Chromium and its driver")
def test_a_wide_table_scrolls_within_the_page_of_a_phone(tmp_path: Path) -> None:
    words = "| [commercially](https://example.org) " * 12 + "|\n"
    table = laid_out(f"{words}{'|---' * 12}|\n{words}", "html")
    style = (PAPER / "pages.css").read_text()
    (tmp_path / "page.html").write_text(
        '<!doctype html><meta name="viewport" content="width=device-width">'
        f"<style>{style}</style><main>{table}"
    )
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        browser.get((tmp_path / "page.html").as_uri())
        page, hidden, lines = browser.execute_script(
            "const table = document.querySelector('.wide');"
            "return [document.documentElement.scrollWidth, table.scrollWidth - table.clientWidth,"
            " [...document.querySelectorAll('td a')].map((link) => link.getClientRects().length)]"
        )
    finally:
        browser.quit()
    assert page == 390
    assert hidden > 0
    assert set(lines) == {1}  # no word is broken


@pytest.mark.parametrize("measured", [False, True])
def test_this_machine_has_no_heading_without_data(tmp_path: Path, measured: bool) -> None:
    (tmp_path / "paper").mkdir()
    page = tmp_path / "paper/this-machine.qmd"
    shutil.copy(PAPER / page.name, page)
    folder = tmp_path / "build/this-machine"
    if measured:
        folder.mkdir(parents=True)
        (folder / "beside.md").write_text("| store | here |\n|---|---|\n| lmdb | 1.2 |\n")
        (folder / "space.svg").write_text("<svg></svg>")
    html = pypandoc.convert_file(
        str(page), "html", format="markdown", extra_args=[f"--lua-filter={PAPER / 'local.lua'}"]
    )
    heads = re.findall("<h1.*?>(.*?)</h1>", html)
    assert heads == (["Beside the paper", "Space here"] if measured else [])
    assert ("Nothing has been measured" in html) is not measured
    assert ("<td>1.2</td>" in html.replace(' style="text-align: left;"', "")) is measured


@pytest.mark.parametrize("target", ["html", "typst"])
def test_links_to_pages_name_what_is_rendered(target: str) -> None:
    text = "[a](a.qmd) [b](../b.qmd#sec-c) [c](c.html) [d](https://example.org/d.qmd)"
    found = pypandoc.convert_text(
        text, target, format="markdown", extra_args=[f"--lua-filter={PAPER / 'paths.lua'}"]
    )
    for link in ("a.html", "../b.html#sec-c", "c.html", "https://example.org/d.qmd"):
        assert f'"{link}"' in found


# --- Installing Quarto --------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder


def publish(checkout: Checkout, script: str) -> None:
    """A package of the name and version that is pinned, with a quarto in it."""
    shelf = checkout.root / "shelf"
    shelf.mkdir()
    wheel = shelf / f"{NAME}-py3-none-any.whl"
    program = zipfile.ZipInfo(f"quarto_cli/{NAME}/bin/quarto".replace("/quarto_cli-", "/quarto-"))
    program.external_attr = 0o100755 << 16
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(program, f"#!/bin/sh\n{script}")
        file.writestr(
            f"{NAME}.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: quarto-cli\nVersion: 1.9.38\n",
        )
        file.writestr(f"{NAME}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{NAME}.dist-info/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    checkout.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf)}
    (checkout.root / "requirements-quarto.lock").write_text(
        f"quarto-cli==1.9.38 --hash=sha256:{digest}\n"
    )


def installed(environment: Path) -> list[str]:
    return [path.name for path in environment.rglob("quarto*")]


@pytest.mark.check
def test_quarto_that_works_is_installed(checkout: Checkout, environment: Path) -> None:
    publish(checkout, "[ $1 = check ] || exit 7\n")
    assert checkout.run("install", python=environment / "bin/python") == (0, "")
    assert subprocess.run([environment / "bin/quarto", "render"], check=False).returncode == 7
    subprocess.run(
        [environment / "bin/python", "-m", "pip", "uninstall", "-qy", "quarto-cli"], check=True
    )
    (environment / "bin/quarto").unlink(missing_ok=True)


@pytest.mark.parametrize("published", [False, True])
def test_quarto_that_fails_leaves_nothing_but_one_line(
    checkout: Checkout, environment: Path, published: bool
) -> None:
    publish(checkout, "exit 1\n")
    reason = "quarto check failed" if published else "the download failed"
    if not published:
        shutil.rmtree(checkout.root / "shelf")
    assert checkout.run("install", python=environment / "bin/python") == (
        0,
        f"Quarto could not be installed: {reason}. make render will give a preview of the paper. "
        "To try again: rm build/.quarto && make setup\n",
    )
    assert installed(environment) == []


def test_quarto_on_the_path_is_kept(checkout: Checkout, environment: Path) -> None:
    checkout.quarto("exit 0\n")
    assert checkout.run("install", python=environment / "bin/python") == (0, "")
    assert installed(environment) == []
