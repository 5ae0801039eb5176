"""Pack the repository, and the sources of the engines that set-up fetched, into one zip.

    python harness/archive.py FOLDER

The zip has the files of the last commit, the packages below build/shims whose SHA-256 these files
state, as engines/, and SHA256SUMS of both. Its bytes depend on nothing else: files are stored
uncompressed, in order, with the time of the commit.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIMS = ROOT / "build" / "shims"
PACKAGES = ("npm/*.tgz", "cargo/registry/cache/*/*.crate", "mvn/**/*.jar")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def tracked() -> Iterator[tuple[str, bytes, bool]]:
    """The files of the last commit: name, content, and whether each is executable."""
    for line in git("ls-tree", "-r", "-z", "HEAD").decode().rstrip("\0").split("\0"):
        mode, _, rest = line.split(" ", 2)
        number, name = rest.split("\t", 1)
        yield name, git("cat-file", "blob", number), mode == "100755"


def packages(files: list[tuple[str, bytes, bool]]) -> Iterator[tuple[str, bytes, bool]]:
    """The packages that set-up fetched and whose checksum a file below harness/shims states. This
    excludes packages of earlier set-ups and incomplete ones. A package under two registries appears
    once."""
    sources = (content for name, content, _ in files if name.startswith("harness/shims/"))
    wanted = {sum_ for content in sources for sum_ in re.findall(rb"\b[0-9a-f]{64}\b", content)}
    found = {path.name: path for pattern in PACKAGES for path in SHIMS.glob(pattern)}
    for name in sorted(found):
        content = found[name].read_bytes() if found[name].is_file() else b""
        if hashlib.sha256(content).hexdigest().encode() in wanted:
            yield f"engines/{name}", content, False


def write(folder: Path) -> Path:
    """Write the zip atomically, and return its path."""
    revision, when = git("show", "--no-patch", "--format=%h %ct", "HEAD").decode().split()
    files = list(tracked())
    files = sorted([*files, *packages(files)])
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content, _ in files)
    files.append(("SHA256SUMS", sums.encode(), False))
    path = folder / f"kvbench-{revision}.zip"
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)  # left by a killed run, or a link
    try:
        with unfinished.open("xb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, content, executable in files:
                info = zipfile.ZipInfo(f"kvbench/{name}", time.gmtime(int(when))[:6])
                info.create_system = 3  # Unix, so that the mode counts
                info.external_attr = (0o100755 if executable else 0o100644) << 16
                archive.writestr(info, content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="Pack the repository and its engines' sources.")
    parser.add_argument("folder", type=Path, help="where the zip goes")
    folder = parser.parse_args().folder
    if not folder.is_dir():
        print(f"archive: {folder}: no folder; make it first", file=sys.stderr)
        return 2
    try:
        path = write(folder)
        size, sum_ = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
    except subprocess.CalledProcessError as error:
        print(f"archive: {ROOT}: git {error.cmd[1]} failed; archive a clone", file=sys.stderr)
        return 2
    except OSError as error:
        where = error.filename or folder
        print(f"archive: {where}: {error.strerror}; nothing was written", file=sys.stderr)
        return 2
    print(f"{path}: {size:,} B")
    print(f"sha256 {sum_}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
