"""Preview pages of the paper with Pandoc and Typst where Quarto is not installed.

    python paper/preview/preview.py OUTPUT_FOLDER paper/index.qmd paper/this-machine.qmd

Quarto gives the reference rendering. The preview supports only the part of Quarto that the
paper uses, and refuses everything else: it writes complete pages or none.
"""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pypandoc
import typst
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
SHORTCODE = re.compile(r"\{\{<\s*(.*?)\s*>\}\}", re.DOTALL)
CODE_CELL = re.compile(r"^\s*(?:```+|~~~+)\s*(\{\w+.*\})", re.MULTILINE)

PICTURES = {"image/svg+xml": ".svg", "image/png": ".png"}
FORMATS = {"html": ".html", "typst": ".pdf"}
FILES = {"bibliography", "csl", "css", "filters"}  # what names files
NOT_FOR_PANDOC = {"project", "format", "execute", *FILES}

Metadata = dict[str, Any]


class PreviewError(Exception):
    """The findings about one file, a line each."""

    def __init__(self, file: Path, *findings: str) -> None:
        name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        lines = (f"preview: {name}: {' '.join(finding.split())}" for finding in findings)
        super().__init__("\n".join(dict.fromkeys(lines)))


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise PreviewError(path, f"cannot be read: {reason}") from error


def parse_yaml(text: str, file: Path) -> Metadata:
    try:
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise PreviewError(file, f"not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise PreviewError(file, "not valid YAML: a mapping is wanted (key: value)")
    return data


def read_yaml(file: Path) -> Metadata:
    return parse_yaml(read(file), file)


def known(names: Any) -> str:
    return f"(known: {', '.join(sorted(map(str, names))) or 'none'})"


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def locate(name: str, base: Path) -> Path:
    """The path of a file; as in Quarto, a leading slash means the root of the project."""
    return ROOT / name.lstrip("/") if name.startswith("/") else (base / name).resolve()


@dataclass
class Shortcodes:
    """Expands the shortcodes of one page; writes pictures of notebooks into a scratch folder."""

    page: Path
    variables: Metadata
    scratch: Path

    def expand(self, value: Any) -> Any:
        if isinstance(value, str):
            return SHORTCODE.sub(self.replacement, value)
        if isinstance(value, list):
            return [self.expand(item) for item in value]
        if isinstance(value, dict):
            return {key: self.expand(item) for key, item in value.items()}
        return value

    def replacement(self, match: re.Match[str]) -> str:
        match match[1].split():
            case ["var", name]:
                return self.variable(name)
            case ["embed", target] if "#" in target:
                return self.embed(*target.split("#", 1))
        allowed = "(allowed: var NAME, embed NOTEBOOK#LABEL)"
        raise PreviewError(self.page, f"unknown shortcode {match[0]} {allowed}")

    def variable(self, name: str) -> str:
        value: Any = self.variables
        for key in name.split("."):
            if not isinstance(value, dict) or key not in value:
                names = value if isinstance(value, dict) else ()
                raise PreviewError(self.page, f"unknown variable {name}: no {key} {known(names)}")
            value = value[key]
        if isinstance(value, dict | list) or value is None:
            raise PreviewError(self.page, f"variable {name} is no single value")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def embed(self, name: str, label: str) -> str:
        """The Div that Quarto writes for a figure or table: the content, then its caption."""
        notebook = locate(name, self.page.parent)
        if not notebook.is_file():
            others = (path.name for path in notebook.parent.glob("*.ipynb"))
            raise PreviewError(self.page, f"embed {name}#{label}: no such notebook {known(others)}")
        cell, options = self.find_cell(notebook, label)
        kind = label.partition("-")[0]
        alt = options.get("fig-alt")
        content = self.outputs(cell, f"{notebook.stem}-{label}", alt)
        if cell.get("execution_count") is None:
            raise PreviewError(
                self.page, f"embed {name}#{label}: never executed (run the notebook)"
            )
        if any(output["output_type"] == "error" for output in cell["outputs"]):
            raise PreviewError(self.page, f"embed {name}#{label}: the cell ended in an exception")
        if not content:
            raise PreviewError(self.page, f"embed {name}#{label}: the cell has no output")
        identifier = f"#{label} " if kind in ("fig", "tbl") else ""
        caption = self.expand(str(options.get(f"{kind}-cap", "")))
        return f"\n\n::::: {{{identifier}.cell}}\n\n{content}\n\n{caption}\n\n:::::\n\n"

    def find_cell(self, notebook: Path, label: str) -> tuple[Metadata, Metadata]:
        try:
            cells = json.loads(read(notebook))["cells"]
        except (ValueError, KeyError, TypeError) as error:
            raise PreviewError(notebook, "not a notebook of format 4") from error
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        labelled = [(cell, cell_options("".join(cell["source"]), notebook)) for cell in code]
        found = [pair for pair in labelled if pair[1].get("label") == label]
        if len(found) > 1:
            raise PreviewError(
                notebook, f"{len(found)} cells have the label {label} (allowed: one)"
            )
        if not found:
            labels = (options["label"] for _, options in labelled if "label" in options)
            raise PreviewError(self.page, f"no cell {label} in {notebook.name} {known(labels)}")
        return found[0]

    def outputs(self, cell: Metadata, stem: str, alt: str | None) -> str:
        """Pictures and tables of a cell as Markdown; without any, the plain text."""
        rich: list[str] = []
        plain = ""
        for number, output in enumerate(cell["outputs"], start=1):
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            if picture := next((kind for kind in PICTURES if kind in data), None):
                path = self.scratch / f"{stem}-{number}{PICTURES[picture]}"
                content = "".join(data[picture])
                is_text = picture.endswith("xml")
                path.write_bytes(content.encode() if is_text else base64.b64decode(content))
                rich.append(self.image(path, alt))
            elif "text/markdown" in data:
                rich.append("".join(data["text/markdown"]).strip())
            elif "<table" in html:
                rich.append(fenced(html, "{=html}"))
            elif output.get("name") != "stderr":
                plain += "".join(output.get("text", data.get("text/plain", "")))
        return "\n\n".join(rich) or (fenced(plain.rstrip()) if plain.strip() else "")

    def image(self, path: Path, alt: str | None) -> str:
        quoted = " ".join((alt or "").split()).replace("\\", "\\\\").replace('"', '\\"')
        return f'![](<{os.path.relpath(path, self.page.parent)}>){{fig-alt="{quoted}"}}'


def cell_options(source: str, notebook: Path) -> Metadata:
    head = takewhile(lambda line: line.startswith("#|"), source.splitlines())
    return parse_yaml("\n".join(line[2:].removeprefix(" ") for line in head), notebook)


def fenced(text: str, attributes: str = "") -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{attributes}\n{text}\n{fence}"


def listed_formats(metadata: Metadata) -> list[str]:
    formats = metadata.get("format", {})
    return [formats] if isinstance(formats, str) else list(formats)


@dataclass
class Page:
    path: Path
    metadata: Metadata
    body: str

    @classmethod
    def load(cls, path: Path) -> "Page":
        if not path.is_relative_to(ROOT):
            raise PreviewError(path, f"not a page of the project (allowed: below {ROOT})")
        source = read(path)
        front_matter = FRONT_MATTER.match(source)
        if not front_matter:
            raise PreviewError(path, "no front matter (wanted: YAML between two lines of ---)")
        body = source[front_matter.end() :]
        if cell := CODE_CELL.search(body):
            raise PreviewError(path, f"code cell {cell[1]} (allowed: embed a cell of a notebook)")
        return cls(path, parse_yaml(front_matter[1], path), body)

    def formats(self, project: Metadata) -> list[str]:
        wanted = listed_formats(self.metadata) or listed_formats(project) or ["html"]
        if not FORMATS.keys() & set(wanted):
            raise PreviewError(self.path, f"no preview as {', '.join(wanted)} {known(FORMATS)}")
        return [name for name in FORMATS if name in wanted]


def settings(metadata: Metadata, file: Path, target: str) -> Metadata:
    """The metadata of a file for one format, with absolute paths."""
    formats = metadata.get("format")
    options = formats.get(target) if isinstance(formats, dict) else None
    merged = {**metadata, **(options if isinstance(options, dict) else {})}
    for key in FILES & merged.keys():
        merged[key] = [locate(str(name), file.parent) for name in as_list(merged[key])]
        for path in merged[key]:
            if not path.is_file():
                raise PreviewError(file, f"{key}: there is no file {os.path.relpath(path, ROOT)}")
    return merged


def pandoc(page: Path, target: str, text: str, metadata: Metadata, scratch: Path) -> str:
    log = scratch / "log.json"
    bibliography = metadata.get("bibliography", [])
    options = {
        "lua-filter": [*metadata.get("filters", []), HERE / "quarto.lua"],
        "bibliography": bibliography,
        "csl": metadata.get("csl", []),
        "metadata": [f"preview-root={ROOT}"],
        "toc-depth": [metadata.get("toc-depth", 3)],
        "log": [log],
    }
    source = "markdown+autolink_bare_uris" if target == "gfm" else "markdown"
    command = [pypandoc.get_pandoc_path(), f"--from={source}", "--wrap=none"]
    command += [f"--{name}={value}" for name, values in options.items() for value in values]
    command += [f"--{name}" for name in ("toc", "number-sections") if metadata.get(name)]
    command += ["--citeproc", "--fail-if-warnings"]
    if target == "gfm":  # a part of a page
        command += ["--to=gfm", f"--lua-filter={HERE / 'forge.lua'}", "--shift-heading-level-by=1"]
    elif target == "html":
        command += [
            "--standalone",
            "--to=html",
            f"--template={HERE / 'template.html5'}",
            "--mathml",
        ]
        styles = [HERE / "preview.css", *metadata.get("css", [])]
        command += ["--embed-resources", *(f"--css={style}" for style in styles)]
    else:  # citeproc has set the citations, so that both formats agree
        command += ["--standalone", "--to=typst-citations", f"--template={HERE / 'template.typst'}"]
    run = subprocess.run(
        command, input=text, cwd=page.parent, capture_output=True, encoding="utf-8", check=False
    )
    if run.returncode:
        messages = json.loads(log.read_text(encoding="utf-8")) if log.exists() else []
        findings = [finding(m, bibliography) for m in messages if m["verbosity"] == "WARNING"]
        raise PreviewError(page, *findings or [run.stderr.split("stack traceback")[0]])
    return run.stdout


def finding(message: Metadata, bibliography: list[Path]) -> str:
    if message["type"] == "CiteprocWarning":
        files = ", ".join(path.name for path in bibliography)
        return f"{message['message']} (known: the entries of {files or 'no bibliography'})"
    return str(message["message" if message["type"] == "ScriptingWarning" else "pretty"])


def render(page: Page, target: str, project: Metadata, variables: Metadata) -> bytes:
    metadata = {"link-citations": True, "reference-section-title": "References"}
    metadata |= settings(project, ROOT / "_quarto.yml", target)
    metadata |= settings(page.metadata, page.path, target)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        shortcodes = Shortcodes(page.path, variables, scratch)
        shown = {key: metadata[key] for key in metadata.keys() - NOT_FOR_PANDOC}
        head = json.dumps(shortcodes.expand(shown), default=str, sort_keys=True)
        text = f"---\n{head}\n---\n\n{shortcodes.expand(page.body)}"
        result = pandoc(page.path, target, text, metadata, scratch)
        if target == "html":
            return result.encode()
        source = scratch / "page.typ"
        source.write_text(result, encoding="utf-8")
        try:
            return typst.compile(str(source), root="/")
        except typst.TypstError as error:
            raise PreviewError(page.path, f"Typst: {error}") from error


def write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise PreviewError(path, f"cannot be written: {error.strerror}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description="Preview pages of the paper with Pandoc.")
    parser.add_argument("output", type=Path, help="folder to write to")
    parser.add_argument("pages", type=Path, nargs="+", help="pages of the paper (.qmd)")
    arguments = parser.parse_args()
    rendered: dict[Path, bytes] = {}
    try:
        variables_file = ROOT / "_variables.yml"
        project = read_yaml(ROOT / "_quarto.yml")
        variables = read_yaml(variables_file) if variables_file.exists() else {}
        for page in (Page.load(path.resolve()) for path in arguments.pages):
            for target in page.formats(project):
                place = page.path.relative_to(ROOT).with_suffix(FORMATS[target])
                rendered[arguments.output / place] = render(page, target, project, variables)
        for path, content in rendered.items():
            write(path, content)
            print(path)
    except PreviewError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
