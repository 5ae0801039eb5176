"""Build the explorer, one page with all that it needs inside, beside the rendered paper.

python paper/explorer/explorer.py [OUTPUT_FOLDER]
"""

import argparse
import subprocess
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ANSWERS = ROOT / "data" / "explorer" / "answers.json"  # written by notebooks/explorer.ipynb
MOST_BYTES = 5 << 20


def script() -> str:
    """The page's modules and the libraries that they use, as one script."""
    bundler = HERE / "node_modules" / ".bin" / "esbuild"
    if not bundler.exists():
        sys.exit("explorer: its libraries are missing: npm ci --prefix paper/explorer")
    options = ["--bundle", "--minify", "--format=iife", "--target=es2020", "--log-level=warning"]
    done = subprocess.run(
        [bundler, "main.js", *options], cwd=HERE, capture_output=True, text=True, check=False
    )
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
    parser = argparse.ArgumentParser(description="Build the explorer beside the rendered paper.")
    parser.add_argument("folder", nargs="?", type=Path, help="default: the paper's")
    parser.add_argument("--answers", type=Path, default=ANSWERS, help="its data")
    given = parser.parse_args()
    project = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["project"]
    folder = given.folder or ROOT / project["output-dir"] / "paper"
    found = page(given.answers).encode()
    if len(found) > MOST_BYTES:
        sys.exit(f"explorer: {len(found):,} B; allowed: {MOST_BYTES:,} B at most")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "explorer.html").write_bytes(found)


if __name__ == "__main__":
    main()
