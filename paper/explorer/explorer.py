"""Build the explorer, one page with all that it needs inside, beside the rendered paper.

    python paper/explorer/explorer.py FOLDER

Quarto runs this script after a render, with any Python: it imports the standard library alone.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ANSWERS = ROOT / "data" / "explorer" / "answers.json"  # written by notebooks/explorer.ipynb
MOST_BYTES = 5 << 20
INSTALL = "npm ci --prefix paper/explorer"
NOT_BUILT = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Explorer: not built</title>
</head>
<body>
<h1>The explorer was not built</h1>
<p>Its JavaScript libraries were missing when <a href="index.html">the paper</a> was rendered.
To build it, run <code>{INSTALL}</code> in the folder of the sources,
and render the paper again.</p>
</body>
</html>
"""


class LibrariesMissingError(Exception):
    """What bundles the page is not installed, or does not run here."""


def script() -> str:
    """The page's modules and the libraries that they use, as one script."""
    bundler = HERE / "node_modules" / ".bin" / "esbuild"
    options = ["--bundle", "--minify", "--format=iife", "--target=es2020", "--log-level=warning"]
    try:
        done = subprocess.run(
            [bundler, "main.js", *options],
            cwd=HERE,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except OSError as error:
        raise LibrariesMissingError from error
    if done.returncode:
        raise SystemExit(f"explorer: main.js: {done.stderr.strip()}")
    return done.stdout.replace("</script", "<\\/script")


def page(answers: Path) -> str:
    parts = {
        "/*STYLE*/": (HERE / "style.css").read_text(encoding="utf-8"),
        "/*DATA*/": answers.read_text(encoding="utf-8"),
        "/*SCRIPT*/": script(),
    }
    text = (HERE / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, after = text.split(mark)
        text = before + part + after
    return text


def main() -> None:
    output = os.environ.get("QUARTO_PROJECT_OUTPUT_DIR")
    parser = argparse.ArgumentParser(description="Build the explorer beside the rendered paper.")
    parser.add_argument(
        "folder",
        nargs="?" if output else None,
        type=Path,
        default=Path(output, "paper") if output else None,
        help="folder of the paper's page; Quarto says where it is",
    )
    parser.add_argument("--answers", type=Path, default=ANSWERS, help="its data")
    given = parser.parse_args()
    try:
        found = page(given.answers).encode()
    except LibrariesMissingError:
        print(f"explorer: not built, its libraries are missing ({INSTALL})", file=sys.stderr)
        found = NOT_BUILT.encode()  # the paper links to this page
    if len(found) > MOST_BYTES:
        sys.exit(f"explorer: {len(found):,} B; allowed: {MOST_BYTES:,} B at most")
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "explorer.html").write_bytes(found)


if __name__ == "__main__":
    main()
