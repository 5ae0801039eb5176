"""Write the paper's pages as Markdown with their numbers. A forge shows the sources without them.

    python paper/preview/forge.py docs/paper

Figures are those in figures/. The pages are the ones that _quarto.yml lists, but for that of the
reader's own machine.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from preview import (
    NOT_FOR_PANDOC,
    PICTURES,
    ROOT,
    Metadata,
    Page,
    PreviewError,
    Shortcodes,
    pandoc,
    read_yaml,
    settings,
    write,
)  # fmt: skip

NAME = re.compile(r'"([\w-]+)"')  # in code: the last of a figure is its own
LEFT_OUT = "this-machine.qmd"
NOTE = "<!-- Written by make figures from {}, _variables.yml and the notebooks; not by hand. -->"


class Figures(Shortcodes):
    """Shows the files in figures/ instead of the notebooks' pictures."""

    def outputs(self, cell: Metadata, stem: str, alt: str | None) -> str:
        if not any(PICTURES.keys() & output.get("data", {}).keys() for output in cell["outputs"]):
            return super().outputs(cell, stem, alt)
        code = re.sub(r"^#\|.*", "", "".join(cell["source"]), flags=re.MULTILINE)
        paths = [ROOT / "figures" / f"{name}.svg" for name in NAME.findall(code)]
        found = [path for path in paths if path.is_file()]
        if not found:
            raise PreviewError(self.page, f"embed {stem}: its cell names no figure in figures/")
        return self.image(found[-1], alt)


def folder_of(page: Path, out: Path) -> Path:
    """The folder of a page below `out`, as it is below paper/."""
    return out / page.relative_to(ROOT / "paper").parent


def markdown(page: Page, out: Path, project: Metadata, variables: Metadata) -> str:
    metadata = settings(project, ROOT / "_quarto.yml", "html")
    metadata |= settings(page.metadata, page.path, "html")
    metadata |= {"link-citations": True, "toc": False, "number-sections": False}
    with tempfile.TemporaryDirectory() as scratch:
        shortcodes = Figures(page.path, variables, Path(scratch).resolve())
        shown: dict[str, Any] = {
            key: metadata[key] for key in metadata.keys() - {*NOT_FOR_PANDOC, "title", "abstract"}
        }
        shown["forge-folder"] = str(folder_of(page.path, out))
        abstract = f"**Abstract.** {metadata['abstract']}" if "abstract" in metadata else ""
        body = shortcodes.expand(f"{abstract}\n\n{page.body}")
        head = json.dumps(shortcodes.expand(shown), default=str, sort_keys=True)
        text = pandoc(page.path, "gfm", f"---\n{head}\n---\n\n{body}", metadata, Path(scratch))
        title = shortcodes.expand(metadata["title"])
    source = page.path.relative_to(ROOT)
    return f"{NOTE.format(source)}\n\n# {title}\n\n{text.strip()}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the paper as Markdown with its numbers.")
    parser.add_argument("output", type=Path, help="folder to write to")
    out = Path(os.path.abspath(parser.parse_args().output))
    try:
        project, variables = read_yaml(ROOT / "_quarto.yml"), read_yaml(ROOT / "_variables.yml")
        paths = [ROOT / name for name in project["project"]["render"]]
        pages = [Page.load(path) for path in paths if path.name != LEFT_OUT]
        texts = {page.path: markdown(page, out, project, variables) for page in pages}
        for path, text in texts.items():
            write(folder_of(path, out) / f"{path.stem}.md", text.encode())
    except PreviewError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
