"""Check the pages of the paper that Quarto or the preview rendered.

    python paper/check.py OUTPUT_FOLDER

Quarto only warns about mistakes such as unresolved references; here they are errors.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
MARKUP = re.compile(r"^\s*:{3,}", re.MULTILINE)  # of a block that the renderer did not understand
UNRESOLVED = re.compile(r"\?(@|var:)([\w.-]*\w)")
# The folder of the checkout, which differs between readers.
HERE = re.compile(rf"({re.escape(str(ROOT))}|{re.escape(quote(str(ROOT)))})(?![\w-])[^\s\"'<>]*")
REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
SPACED = re.compile(r"\d[ \u00a0\u202f]%")
LONG_COUNT = re.compile(r"(?<![\w.,:/#=-])\d{5,}(?![\w:/-]|\.\d)")
# What links to a page in another format may be called, by the ending of its file.
DOWNLOADS = {".pdf": "PDF"}
# Elements that tell where a text stands, and elements that fill a figure.
TRACKED = {
    "figure",
    "figcaption",
    "span",
    "strong",
    "script",
    "style",
    "code",
    "pre",
    "th",
    "a",
    "title",
}
VERBATIM = ("code", "pre", "a")  # names and numbers as another program writes them
CONTENT = {"img", "svg", "table", "pre", "math", "video", "canvas", "iframe", "object"}

Attributes = dict[str, str]


@dataclass(eq=False)
class Element:
    tag: str
    attributes: Attributes
    line: int
    caption: str = ""
    filled: bool = False


class Page(HTMLParser):
    def __init__(self, path: Path, folder: Path) -> None:
        super().__init__()
        self.path = path
        self.folder = folder
        self.open: list[Element] = []
        self.findings: list[str] = []
        self.names: set[str] = set()  # what a fragment can point to
        self.links: list[tuple[str, int]] = []
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.split("\n"), start=1):
            for match in HERE.finditer(line):
                self.report(f"absolute path {match[0]}", number)
        self.feed(text)
        self.close()

    def report(self, text: str, line: int | None = None) -> None:
        finding = f"{self.path}:{line or self.getpos()[0]}: {text}"
        if finding not in self.findings:
            self.findings.append(finding)

    def innermost(self, tag: str) -> Element | None:
        return next((element for element in reversed(self.open) if element.tag == tag), None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.names.update(attributes.get(name, "") for name in ("id", "name"))
        if tag == "a" and "href" in attributes:
            self.links.append((attributes["href"], self.getpos()[0]))
        figure = self.innermost("figure")
        if figure and tag in CONTENT | {"figure"}:
            figure.filled = True
        if tag in TRACKED:
            self.open.append(Element(tag, attributes, self.getpos()[0]))
        if tag in {"img", "script"} and REMOTE.match(attributes.get("src", "")):
            self.report(f"remote {tag} {attributes['src']}")
        elif tag == "img":
            self.check_file(attributes.get("src", ""))
        if tag == "img" and not attributes.get("alt", "").strip():
            self.report(f"image without alternative text: {attributes.get('src', '')[:80]}")
        is_style = tag == "link" and "stylesheet" in attributes.get("rel", "").split()
        if is_style and REMOTE.match(attributes.get("href", "")):
            self.report(f"remote stylesheet {attributes['href']}")

    def check_file(self, source: str) -> None:
        url = urlsplit(source)
        base = self.folder if url.path.startswith("/") else self.path.parent
        if not url.scheme and not (base / unquote(url.path).lstrip("/")).is_file():
            self.report(f"image file does not exist: {source or 'no src'}")

    def handle_data(self, data: str) -> None:
        if self.innermost("script") or self.innermost("style"):
            return
        for kind, name in UNRESOLVED.findall(data):
            self.report(f"unresolved {'reference' if kind == '@' else 'variable'} {name}")
        if MARKUP.search(data):
            self.report(f"markup in the text: {data.strip()[:60]}")
        self.check_span(data.strip())
        self.check_style(data)
        figure, caption = self.innermost("figure"), self.innermost("figcaption")
        if figure and caption and self.open.index(caption) > self.open.index(figure):
            figure.caption += data
        elif figure and data.strip():
            figure.filled = True

    def check_style(self, data: str) -> None:
        """One way to write what a reader sees: 5%, and 10,000 records of a record size."""
        for match in SPACED.finditer(data):
            self.report(f"blank before a per cent sign: {match[0]}")
        if self.innermost("th") and not self.innermost("code") and "_" in data:
            self.report(f"name of the data as the head of a column: {data.strip()}")
        if not any(map(self.innermost, VERBATIM)):
            for match in LONG_COUNT.finditer(data):
                self.report(f"number without separators: {match[0]}")
        link = self.innermost("a")
        wanted = (
            DOWNLOADS.get(Path(urlsplit(link.attributes.get("href", "")).path).suffix)
            if link
            else None
        )
        if wanted and data.strip() and wanted not in data:
            self.report(f"link to a {wanted} that is called {data.strip()}")

    def check_links(self, pages: "dict[Path, Page]") -> None:
        """Links to what is not there; `pages` are all, by their paths."""
        for target, line in self.links:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            path = (self.path.parent / unquote(url.path) if url.path else self.path).resolve()
            page = pages.get(path)
            if not (page or path.exists()):
                self.report(f"link to a file that does not exist: {target}", line)
            elif page and url.fragment and unquote(url.fragment) not in page.names:
                self.report(f"link to a place that does not exist: {target}", line)

    def check_span(self, text: str) -> None:
        span = self.innermost("span")
        if not span:
            return
        if "quarto-unresolved-ref" in span.attributes.get("class", "").split():
            self.report(f"unresolved reference {text.lstrip('?@')}")
        cited = span.attributes.get("data-cites", "").split()
        if text.endswith("?") and text[:-1] in cited and self.innermost("strong"):
            self.report(f"unresolved citation {text[:-1]}")

    def handle_endtag(self, tag: str) -> None:
        element = self.innermost(tag)
        if not element:
            return
        del self.open[self.open.index(element) :]
        if tag == "figure" and not element.filled:
            self.report("empty figure", element.line)
        if tag == "figure" and not element.caption.strip():
            self.report("figure without caption", element.line)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the rendered pages of the paper.")
    parser.add_argument("folder", type=Path, help="folder that holds the rendered pages")
    folder = parser.parse_args().folder
    found = [Page(path, folder) for path in sorted(folder.rglob("*.html"))]
    pages = {page.path.resolve(): page for page in found}
    for page in found:
        page.check_links(pages)
    findings = [finding for page in found for finding in page.findings]
    if not pages:
        findings = [f"{folder}: there is no page to check (wanted: .html files)"]
    for finding in findings:
        print(f"check: {finding}", file=sys.stderr)
    print(f"{len(pages)} pages checked, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
