"""Render the paper into build/paper: with Quarto if it is on the PATH, else as a preview.

    python paper/render.py              # render the pages that _quarto.yml lists
    python paper/render.py preview      # render a preview even where Quarto is
    python paper/render.py install      # install Quarto beside this Python, if it can be downloaded

A render that fails or is interrupted leaves no file in paper/.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 120  # seconds for Quarto's installation, and for its check of itself


def run(*command: str | Path, limit: int | None = None, **environment: str) -> int:
    """The exit status of a command, whose processes end when we do; with a limit it is silent."""
    output = subprocess.DEVNULL if limit else None
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(limit)
        finally:
            for stop in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, stop)
                    process.wait(5)


def render(preview: bool) -> int:
    import yaml  # noqa: PLC0415 - installing Quarto does without it

    project = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["project"]
    pages = [ROOT / page for page in project["render"]]
    if not shutil.which("quarto"):
        print("quarto is not on the PATH: rendering a preview with Pandoc and Typst", flush=True)
        preview = True
    if preview:
        status = run(sys.executable, "paper/preview/preview.py", project["output-dir"], *pages)
        output = str(ROOT / project["output-dir"])
        for script in project.get("post-render", []):  # which learn the folder as Quarto tells it
            status = status or run(sys.executable, script, QUARTO_PROJECT_OUTPUT_DIR=output)
        return status
    try:
        with tempfile.TemporaryDirectory() as scratch:
            return run("quarto", "render", TMPDIR=scratch)
    finally:  # Quarto writes beside the pages, and moves its files when all pages are rendered
        for page in pages:
            for suffix in (".html", ".typ", ".pdf"):
                page.with_suffix(suffix).unlink(missing_ok=True)
            shutil.rmtree(page.with_name(f"{page.stem}_files"), ignore_errors=True)


def install() -> int:
    """Failing to install Quarto is no error, since the preview needs none."""
    if not shutil.which("quarto") and (reason := try_install()):
        print(
            f"Quarto could not be installed: {reason}. make render will give a preview of the "
            "paper. To try again: rm build/.quarto && make setup"
        )
    return 0


def try_install() -> str | None:
    """Why Quarto can't be installed from PyPI, whose package downloads it while it is built."""
    packages = Path(sysconfig.get_path("purelib"))
    link = Path(sysconfig.get_path("scripts"), "quarto")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes"]
    works = False
    try:
        with tempfile.TemporaryDirectory() as scratch:  # where the build leaves its download
            if run(*pip, "-r", "requirements-quarto.lock", limit=LIMIT, TMPDIR=scratch):
                return "the download failed"
        # The package's own quarto drops the exit status: name the program itself.
        link.unlink(missing_ok=True)
        link.symlink_to(next(packages.glob("quarto_cli/quarto-*/bin/quarto")))
        works = run(link, "check", limit=LIMIT) == 0
        return None if works else "quarto check failed"
    except subprocess.TimeoutExpired:
        return f"it took more than {LIMIT} seconds"
    finally:
        if not works:
            link.unlink(missing_ok=True)
            for folder in packages.glob("quarto_cli*"):
                shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description="Render the paper, with Quarto or as a preview.")
    actions = ["render", "preview", "install"]
    parser.add_argument(
        "action", nargs="?", choices=actions, default="render", help="default: render"
    )
    action = parser.parse_args().action
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return install() if action == "install" else render(action == "preview")
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
