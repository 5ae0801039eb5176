"""The check of rendered pages through its command line."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "paper/check.py"

GOOD = """<!DOCTYPE html>
<link rel="stylesheet" href="style.css"><link rel="canonical" href="https://example.org/">
<script>let remote = "?@fig-a ?var:b <figure>";</script>
<p><strong>Why?</strong> <a href="https://example.org/">a link</a>
<span class="citation" data-cites="doe">(<a href="#ref-doe">Doe 2020</a>)</span></p>
<p id="ref-doe">5% of 10,000 in 2020-11-25T10:00:00, v1.12345, <code>record_size=100000</code>, and
<a href="https://example.org/">DOI 1234567</a> <a href="index.html#fig-a"><i></i>the page</a>
<a href="a%20b.svg">a file</a> <a href="index.pdf"><i></i> PDF</a></p>
<table><tr><th>record size</th><th><code>block_cache</code></th></tr></table>
<figure id="fig-a"><p><img src="a%20b.svg?v=1" alt="A dot"></p>
<figcaption>Figure 1: A <em>dot</em>.</figcaption></figure>
<figure><figcaption>Table 1</figcaption><div><table><tr><td>1</td></tr></table></div></figure>
<figure><figure><svg></svg><figcaption>(a)</figcaption></figure><figcaption>Both</figcaption>
</figure><img src="data:image/png;base64,AA==" alt="inline"><img src="/a b.svg" alt="root">
<p>A folder of another name: ROOT-2/a and ROOTS.</p>
""".replace("ROOT", str(ROOT))

BAD = {
    "<strong>?@fig-none</strong>": "unresolved reference fig-none",
    '<span class="quarto-unresolved-ref">sec-none</span>': "unresolved reference sec-none",
    "<p>:::{.quarto-embed}</p>": "markup in the text: :::{.quarto-embed}",
    "<p>See ?var:runs.total.</p>": "unresolved variable runs.total",
    '<span class="citation" data-cites="doe none">(Doe; <strong>none?</strong>)</span>': (
        "unresolved citation none"
    ),
    '<img src="none.svg" alt="x">': "image file does not exist: none.svg",
    '<img alt="x">': "image file does not exist: no src",
    '<img src="a b.svg">': "image without alternative text: a b.svg",
    '<img src="a b.svg" alt=" ">': "image without alternative text: a b.svg",
    '<img src="https://example.org/a.svg" alt="x">': "remote img https://example.org/a.svg",
    '<script src="//example.org/a.js"></script>': "remote script //example.org/a.js",
    '<link rel="stylesheet" href="http://example.org/a.css">': (
        "remote stylesheet http://example.org/a.css"
    ),
    '<figure><img src="a b.svg" alt="x"></figure>': "figure without caption",
    '<figure><img src="a b.svg" alt="x"><figcaption> </figcaption></figure>': (
        "figure without caption"
    ),
    f'<div data-notebook="{ROOT}/notebooks/a.ipynb"></div>': (
        f"absolute path {ROOT}/notebooks/a.ipynb"
    ),
    f"<pre>See {ROOT}.</pre>": f"absolute path {ROOT}.",
    "<p>5 % of them</p>": "blank before a per cent sign: 5 %",
    "<table><tr><th>record_size</th></tr></table>": (
        "name of the data as the head of a column: record_size"
    ),
    "<table><tr><td>10000</td></tr></table>": "number without separators: 10000",
    "<p>of 1000000 records.</p>": "number without separators: 1000000",
    '<a href="none.html">x</a>': "link to a file that does not exist: none.html",
    '<a href="#none">x</a>': "link to a place that does not exist: #none",
    '<a href="index.html#none">x</a>': "link to a place that does not exist: index.html#none",
    '<a href="index.pdf"><i></i>Typst</a>': "link to a PDF that is called Typst",
    "<figure> <figcaption>Nothing</figcaption></figure>": "empty figure",
}


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, CHECK, folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "paper").mkdir()
    for place in (tmp_path, tmp_path / "paper"):
        (place / "a b.svg").write_text("<svg></svg>", encoding="utf-8")
    (tmp_path / "paper/index.html").write_text(GOOD, encoding="utf-8")
    (tmp_path / "paper/index.pdf").write_bytes(b"%PDF-")
    return tmp_path


def test_good_page(folder: Path) -> None:
    run = check(folder)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 pages checked, 0 findings\n", "")


@pytest.mark.parametrize("html", BAD)
def test_finding(folder: Path, html: str) -> None:
    page = folder / "paper/other.html"
    page.write_text(f"<!DOCTYPE html>\n<p>\n{html}\n", encoding="utf-8")
    run = check(folder)
    assert run.stderr == f"check: {page}:3: {BAD[html]}\n"
    assert run.stdout == "2 pages checked, 1 findings\n"
    assert run.returncode == 1


def test_no_page(tmp_path: Path) -> None:
    run = check(tmp_path)
    assert run.returncode == 1
    assert run.stderr == f"check: {tmp_path}: there is no page to check (wanted: .html files)\n"
