"""Pack the repository and the sources of the engines that set-up fetched into one zip.

    python harness/archive.py FOLDER

The zip has the files of the last commit, the packages below build/shims as engines/, and SHA256SUMS
of both. Its bytes depend on nothing else: files are stored as they are, in order, with the time of
the commit.
"""

import argparse
import hashlib
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
    """Each file of the last commit: name, content, and whether it may be executed."""
    for line in git("ls-tree", "-r", "-z", "HEAD").decode().rstrip("\0").split("\0"):
        mode, _, rest = line.split(" ", 2)
        number, name = rest.split("\t", 1)
        yield name, git("cat-file", "blob", number), mode == "100755"


def packages() -> Iterator[tuple[str, bytes, bool]]:
    """The packages that set-up fetched; the same one under two registries counts once."""
    found = {path.name: path for pattern in PACKAGES for path in SHIMS.glob(pattern)}
    for name in sorted(found):
        yield f"engines/{name}", found[name].read_bytes(), False


def write(folder: Path) -> Path:
    revision, when = git("show", "--no-patch", "--format=%h %ct", "HEAD").decode().split()
    files = sorted([*tracked(), *packages()])
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content, _ in files)
    files.append(("SHA256SUMS", sums.encode(), False))
    path = folder / f"kvbench-{revision}.zip"
    unfinished = path.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
        for name, content, executable in files:
            info = zipfile.ZipInfo(f"kvbench/{name}", time.gmtime(int(when))[:6])
            info.create_system = 3  # Unix, so that the mode counts
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, content)
    unfinished.replace(path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description="Pack the repository and its engines' sources.")
    parser.add_argument("folder", type=Path, help="where the zip goes")
    folder = parser.parse_args().folder
    if not folder.is_dir():
        print(f"archive: {folder}: no folder; make it first", file=sys.stderr)
        return 2
    path = write(folder)
    print(f"{path}: {path.stat().st_size:,} B")
    print(f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
