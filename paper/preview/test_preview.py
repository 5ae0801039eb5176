"""The preview through its command line, on small projects with real notebook files."""

import base64
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

HERE = Path(__file__).resolve().parent
SOURCES = ["preview.py", "quarto.lua", "preview.css", "template.html5", "template.typst"]

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><circle r="9"/></svg>'
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
BIBLIOGRAPHY = """
@book{knuth, title={The Art}, author={Knuth, Donald E.}, publisher={Wesley}, year=1968}
@article{doe, title={Waves}, author={Doe, Jane}, journal={Physics}, year=2020}
"""


def shown(kind: str, data: str) -> nbformat.NotebookNode:
    return new_output("display_data", {kind: data, "text/plain": "<repr>"})


def stream(text: str) -> nbformat.NotebookNode:
    return new_output("stream", text=text)


def cell(source: str, *outputs: nbformat.NotebookNode, count: int | None = 1):
    return new_code_cell(source, outputs=list(outputs), execution_count=count)


CELLS = [
    cell(
        "#| label: fig-svg\n"
        "#| fig-cap: >\n"
        "#|   A *folded* caption of {{< var runs.total >}} runs,\n#|   see @tbl-md.\n"
        '#| fig-alt: |\n#|   A "dot" & less < more,\n#|   in C:\\temp.\n'
        "plot()",
        stream("drawing\n"),
        shown("image/svg+xml", SVG),
    ),
    cell("#| label: fig-png\n#| fig-cap: A pixel.\n#| fig-alt: Dot", shown("image/png", PNG)),
    cell(
        "#| label: tbl-md\n#| tbl-cap: In Markdown.\ntable()",
        new_output(
            "execute_result",
            {"text/markdown": "| a | b |\n|---|--:|\n| md | 2 |", "text/html": "<table></table>"},
        ),
    ),
    cell(
        "#| label: tbl-html\n#| tbl-cap: In HTML.\ntable()",
        shown(
            "text/html",
            "<div><style scoped>th {}</style><table><thead><tr><th>x</th></tr></thead>"
            "<tbody><tr><td>from-html</td></tr></tbody></table></div>",
        ),
    ),
    cell("#| label: cores\nprint()", stream("cores: 2 ```\n")),
    cell("#| label: twice", stream("1")),
    cell("#| label: twice", stream("2")),
    cell("#| label: silent\nx = 1"),
    cell("#| label: fresh\nx = 1", count=None),
    cell("#| label: failed\n1 / 0", new_output("error", ename="ZeroDivisionError", evalue="")),
    cell("#| label: bare\nplot()", shown("image/svg+xml", SVG)),
    cell("#| label: fig-bare\nplot()", shown("image/svg+xml", SVG)),
]


class Project:
    """A small project; `page` writes its paper, `run` previews it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in SOURCES:
            self.write(f"paper/preview/{name}", (HERE / name).read_text(encoding="utf-8"))
        self.write(
            "_quarto.yml",
            "lang: en\nnumber-sections: true\ntoc: true\nbibliography: paper/references.bib\n"
            "project: {type: default}\nformat:\n  html: {theme: cosmo}\n  typst: default\n",
        )
        self.write("_variables.yml", "runs: {total: 1280, speed: '*3.5* ms'}\nexact: true\n")
        self.write("paper/references.bib", BIBLIOGRAPHY)
        self.write("paper/figures/scheme one.svg", SVG)
        (root / "notebooks").mkdir()
        nbformat.write(new_notebook(cells=CELLS), root / "notebooks/results.ipynb")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def page(self, body: str, front_matter: str = "format: html", name: str = "index") -> None:
        self.write(f"paper/{name}.qmd", f"---\ntitle: A title\n{front_matter}\n---\n\n{body}\n")

    def run(self, *pages: str) -> subprocess.CompletedProcess[str]:
        arguments = ["out", *(pages or ["paper/index.qmd"])]
        command = [sys.executable, "paper/preview/preview.py", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

    def written(self) -> list[str]:
        out = self.root / "out"
        return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())

    def html(self, body: str, front_matter: str = "format: html") -> str:
        self.page(body, front_matter)
        run = self.run()
        assert run.returncode == 0, run.stderr
        assert run.stderr == ""
        return (self.root / "out/paper/index.html").read_text(encoding="utf-8")

    def error(self, body: str, front_matter: str = "format: html") -> str:
        self.page(body, front_matter)
        run = self.run()
        assert run.returncode == 2
        assert run.stderr.startswith("preview: ")
        assert run.stderr.count("\n") == 1
        assert self.written() == []
        return run.stderr.removeprefix("preview: ").rstrip()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def text(html: str) -> str:
    """What a reader sees, with plain spaces."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", html)))


EMBED = "{{{{< embed ../notebooks/results.ipynb#{} >}}}}".format


# --- Constructs ---------------------------------------------------------------------------


def test_front_matter(project: Project) -> None:
    html = project.html(
        "# First\n\nText.",
        "subtitle: A subtitle of {{< var runs.total >}}\n"
        "author:\n  - name: Jane Doe\n    affiliation: [Here, There]\n  - Richard Roe\n"
        "date: 2025-11-20\nkeywords: [waves, time]\nformat: html\n"
        "abstract: |\n  At {{< var runs.speed >}}, as [@doe] has it.\n\n  More.\n"
        "toc: false\n",
    )
    assert "<title>A title</title>" in html
    assert 'lang="en"' in html
    seen = text(html)
    assert "A subtitle of 1280" in seen
    assert "Jane DoeHereThere Richard Roe 2025-11-20" in seen
    assert "At 3.5 ms, as (Doe 2020) has it. More." in seen
    assert "Keywords: waves, time" in seen
    assert 'id="TOC"' not in html


def test_page_is_marked_and_self_contained(project: Project) -> None:
    html = project.html("# First\n\n![Cap](figures/scheme one.svg){#fig-a fig-alt='x'}\n\n$x^2$")
    assert "Preview by Pandoc. Quarto gives the reference rendering." in html
    assert 'id="TOC"' in html
    assert "<math" in html
    assert "data:image/svg+xml;base64" in html
    assert "max-width: 48em" in html
    assert not re.search(r'(src|href)="(https?:)?//', html)
    assert "<link" not in html


def test_variables(project: Project) -> None:
    html = project.html("We did {{< var runs.total >}} at {{<var runs.speed>}}: {{< var exact >}}.")
    assert "We did 1280 at <em>3.5</em> ms: true." in html


def test_embedded_figures(project: Project) -> None:
    html = project.html(
        f"See @fig-png, @fig-svg.\n\n{EMBED('fig-svg')}\n\n{EMBED('fig-png')}\n\n{EMBED('tbl-md')}"
    )
    assert "See Figure 2, Figure 1." in text(html)
    assert "Figure 1: A folded caption of 1280 runs, see Table 1." in text(html)
    assert "<em>folded</em>" in html
    assert 'alt="A &quot;dot&quot; &amp; less &lt; more, in C:\\temp."' in html
    assert base64.b64encode(SVG.encode()).decode() in html
    assert PNG in html
    assert '<figure id="fig-png"' in html
    assert "drawing" not in html
    assert "repr" not in html


def test_embedded_tables_and_text(project: Project) -> None:
    cells = "\n\n".join(map(EMBED, ["tbl-html", "tbl-md", "cores"]))
    html = project.html(f"In @tbl-md and [@tbl-html].\n\n{cells}")
    assert "In Table 2 and Table 1." in text(html)
    assert "<td>from-html</td>" in html
    assert "scoped" not in html
    assert '<td style="text-align: right;">2</td>' in html
    assert re.findall("<caption>(.*?)</caption>", html.replace("\u00a0", " ")) == [
        "Table 1: In HTML.",
        "Table 2: In Markdown.",
    ]
    assert "<pre><code>cores: 2 ```</code></pre>" in html


def test_embed_from_the_root_and_without_caption(project: Project) -> None:
    html = project.html("{{< embed /notebooks/results.ipynb#bare >}}")
    assert '<img role="img"' in html
    assert "<figure" not in html


def test_cross_references(project: Project) -> None:
    html = project.html(
        "See @sec-two, [@fig-a; @tbl-a] or (panel -@fig-a) and [Fig. @fig-b].\n\n# One\n\n"
        "![First, like @fig-b](figures/scheme one.svg){#fig-a fig-alt='alt a' width=50%}\n\n"
        "::: {#fig-b}\n![](/paper/figures/scheme one.svg){fig-alt='alt b'}\n\nSecond.\n:::\n\n"
        "| x |\n|---|\n| 1 |\n\n: By hand {#tbl-a}\n\n"
        "# Not counted {.unnumbered}\n\n# Two\n\n## Below {#sec-two}\n"
    )
    seen = text(html)
    assert "See Section 2.1, Figure 1, Table 1 or (panel 1) and Fig. 2." in seen
    assert "Figure 1: First, like Figure 2" in seen
    assert "Figure 2: Second." in seen
    assert "Table 1: By hand" in seen
    assert '<a href="#fig-a">' in html
    assert '<span class="header-section-number">2.1</span> Below' in html
    assert 'alt="alt a"' in html
    assert "width:50.0%" in html


def test_sections_count_from_the_second_level(project: Project) -> None:
    html = project.html("## One\n\n### Below {#sec-below}\n\n@sec-below")
    assert "Section 1.1" in text(html)
    assert '<span class="header-section-number">1.1</span> Below' in html


def test_unnumbered_sections_are_named(project: Project) -> None:
    html = project.html("# The One {#sec-one}\n\n@sec-one", "number-sections: false\nformat: html")
    assert '<a href="#sec-one">The One</a>' in html


def test_citations_and_references(project: Project) -> None:
    html = project.html("As @doe has it [@knuth, p. 3].\n\n# Sources\n\n::: {#refs}\n:::\n\n# End")
    assert "As Doe (2020) has it (Knuth 1968, 3)." in text(html)
    assert html.index("Sources</h1>") < html.index("<em>The Art</em>") < html.index("End</h1>")
    assert "References</h1>" not in html


def test_references_go_to_the_end(project: Project) -> None:
    html = project.html("# One\n\nAs @doe has it.")
    assert html.index("One</h1>") < html.index("References</h1>") < html.index('id="ref-doe"')


def test_callouts(project: Project) -> None:
    html = project.html(
        "::: {.callout-note title='What is *it*'}\nText, @sec-a.\n:::\n\n"
        "::: {.callout-warning}\nCareful.\n:::\n\n::: callout-tip\n## Hint\nTry.\n:::\n\n"
        "# A {#sec-a}"
    )
    assert '<div class="callout callout-note">' in html
    assert "<strong>What is <em>it</em></strong>" in html
    assert "<strong>Warning</strong>" in html
    assert "<strong>Hint</strong>" in html
    assert "Text, Section 1." in text(html)


def test_content_for_one_format(project: Project) -> None:
    html = project.html(
        "::: {.content-visible when-format='html'}\nfor-html\n:::\n\n"
        "::: {.content-visible when-format='typst'}\nfor-pdf\n:::\n"
    )
    assert "for-html" in html
    assert "for-pdf" not in html


def test_links_to_pages(project: Project) -> None:
    html = project.html("[other](this-machine.qmd#sec-cpu) and [web](https://example.org/a.qmd)")
    assert 'href="this-machine.html#sec-cpu"' in html
    assert 'href="https://example.org/a.qmd"' in html


def test_filters_of_the_page_run_first(project: Project) -> None:
    cite = "pandoc.Cite('', {pandoc.Citation('fig-a', 'AuthorInText')})"
    project.write(
        "tools/claims.lua", f"function Str(s) if s.text == 'REF.' then return {cite} end end"
    )
    project.write("paper/shout.lua", "function Str(s) s.text = s.text:upper() return s end")
    html = project.html(
        "See ref.\n\n![cap](figures/scheme one.svg){#fig-a fig-alt='x'}",
        "filters: [shout.lua, /tools/claims.lua]\nformat: html",
    )
    assert "SEE Figure 1" in text(html)


def test_pdf(project: Project) -> None:
    cells = "\n\n".join(map(EMBED, ["fig-svg", "fig-png", "tbl-md", "tbl-html", "cores"]))
    project.page(
        "## One {#sec-one}\n\nAs @doe has it, @fig-svg, @tbl-md, @sec-one: $\\frac{a}{b}$.\n\n"
        f"{cells}\n\n::: {{.callout-note}}\nNote.\n:::\n\n"
        "![By hand](figures/scheme one.svg){#fig-a fig-alt='x' width=50%}\n\n"
        "```python\nx = 1\n```\n\nA note.[^1]\n\n[^1]: Below.\n",
        "author: [{name: Jane Doe, affiliation: Here}]\nabstract: Short.\nkeywords: [waves]",
    )
    project.page(EMBED("cores"), name="this-machine")
    run = project.run("paper/index.qmd", "paper/this-machine.qmd")
    assert run.returncode == 0, run.stderr
    assert project.written() == ["paper/index.html", "paper/index.pdf", "paper/this-machine.html"]
    assert (project.root / "out/paper/index.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="pdftotext reads the PDF")
def test_pdf_says_the_same_as_html(project: Project) -> None:
    body = (
        "# One\n\n## Two {#sec-two}\n\nAs @doe has it, see @fig-svg, @tbl-md and @sec-two.\n\n"
        f"{EMBED('fig-svg')}\n\n{EMBED('tbl-md')}\n"
    )
    html = project.html(body, "toc: false")
    command = ["pdftotext", str(project.root / "out/paper/index.pdf"), "-"]
    pdf = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in (
        "Preview by Pandoc. Quarto gives the reference rendering.",
        "1.1 Two",
        "As Doe (2020) has it, see Figure 1, Table 1 and Section 1.1.",
        "Figure 1: A folded caption of 1280 runs, see Table 1.",
        "Table 1: In Markdown.",
    ):
        assert line in text(html)
        assert line in text(pdf)


# --- Errors -------------------------------------------------------------------------------

RESULTS = "embed ../notebooks/results.ipynb"

PAGE_ERRORS = {
    "{{< video a.mp4 >}}": "unknown shortcode {{< video a.mp4 >}} "
    "(allowed: var NAME, embed NOTEBOOK#LABEL)",
    "{{< var runs.none >}}": "unknown variable runs.none: no none (known: speed, total)",
    "{{< var runs >}}": "variable runs is no single value",
    "{{< embed ../notebooks/none.ipynb#a >}}": "embed ../notebooks/none.ipynb#a: "
    "no such notebook (known: results.ipynb)",
    EMBED("none"): "no cell none in results.ipynb (known: bare, cores, failed, fig-bare, fig-png, "
    "fig-svg, fresh, silent, tbl-html, tbl-md, twice, twice)",
    EMBED("silent"): f"{RESULTS}#silent: the cell has no output",
    EMBED("fresh"): f"{RESULTS}#fresh: never executed (run the notebook)",
    EMBED("failed"): f"{RESULTS}#failed: the cell ended in an exception",
    EMBED("fig-bare"): "fig-bare has no caption",
    f"{EMBED('fig-png')}\n\n{EMBED('fig-png')}": "label fig-png is used twice (allowed: once)",
    "# A {#sec-a}\n\nSee @fig-none.": "unresolved cross-reference @fig-none (known: sec-a)",
    "As @none has it.": "citation none not found (known: the entries of references.bib)",
    "![c](none.svg){#fig-a}": "no image none.svg (allowed: files of the project)",
    "![c](https://example.org/a.svg)": "no image https://example.org/a.svg "
    "(allowed: files of the project)",
    "![](figures/scheme one.svg){#fig-a}": "fig-a has no caption or is no paragraph of its own",
    "# A {#sec-a}\n\n[@sec-a; @doe]": "[@sec-a; @doe] mixes cross-references and citations",
    "::: {.content-visible when-format='docx'}\nx\n:::": "content-visible when-format=docx "
    "(allowed: html, typst)",
    "```{python}\nx = 1\n```": "code cell {python} (allowed: embed a cell of a notebook)",
}


@pytest.mark.parametrize("body", PAGE_ERRORS)
def test_error_in_the_page(project: Project, body: str) -> None:
    assert project.error(body) == f"paper/index.qmd: {PAGE_ERRORS[body]}"


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("abstract: '{{< var none >}}'", "unknown variable none: no none (known: exact, runs)"),
        ("abstract: See @fig-none.", "unresolved cross-reference @fig-none (known: )"),
        ("bibliography: none.bib", "bibliography: there is no file paper/none.bib"),
        ("filters: [/none.lua]", "filters: there is no file none.lua"),
        ("format: docx", "no preview as docx (known: html, typst)"),
    ],
)
def test_error_in_the_front_matter(project: Project, front_matter: str, message: str) -> None:
    assert project.error("Text.", front_matter) == f"paper/index.qmd: {message}"


def test_invalid_yaml_is_an_error(project: Project) -> None:
    assert project.error("Text.", "a: [").startswith("paper/index.qmd: not valid YAML: ")
    project.write("_variables.yml", "- a\n")
    assert project.error("Text.").startswith("_variables.yml: not valid YAML: a mapping is wanted")


def test_label_twice_in_a_notebook(project: Project) -> None:
    message = "notebooks/results.ipynb: 2 cells have the label twice (allowed: one)"
    assert project.error(EMBED("twice")) == message


def test_broken_notebook(project: Project) -> None:
    project.write("notebooks/results.ipynb", "{}")
    assert project.error(EMBED("a")) == "notebooks/results.ipynb: not a notebook of format 4"


def test_failing_filter_is_an_error_of_one_line(project: Project) -> None:
    project.write("paper/broken.lua", "function Str(s) error('no way') end")
    assert "no way" in project.error("Text.", "filters: [broken.lua]\nformat: html")


def test_missing_page(project: Project) -> None:
    run = project.run("paper/none.qmd")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "preview: paper/none.qmd: cannot be read: No such file or directory\n"


def test_page_without_front_matter(project: Project) -> None:
    project.write("paper/index.qmd", "Text.\n")
    assert project.run().stderr == (
        "preview: paper/index.qmd: no front matter (wanted: YAML between two lines of ---)\n"
    )


def test_an_error_leaves_the_former_preview(project: Project) -> None:
    former = project.html("Text.")
    project.page("{{< var none >}}")
    project.page("Text.", name="this-machine")
    assert project.run("paper/this-machine.qmd", "paper/index.qmd").returncode == 2
    assert project.written() == ["paper/index.html"]
    assert (project.root / "out/paper/index.html").read_text(encoding="utf-8") == former


def test_several_errors_are_told_at_once(project: Project) -> None:
    project.page("See @fig-a, @fig-b and @none.")
    assert project.run().stderr.count("preview: paper/index.qmd: ") == 3
