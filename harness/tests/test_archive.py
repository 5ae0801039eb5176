"""The archive has all of a commit, with checksums, and always the same bytes."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def archive(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "harness/archive.py", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_archive_is_complete_and_its_bytes_are_always_the_same(tmp_path: Path) -> None:
    sums = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        done = archive(tmp_path / name)
        assert done.returncode == 0, done.stderr
        sums.append(done.stdout.splitlines()[-1])
    assert sums[0] == sums[1]
    (path,) = (tmp_path / "first").iterdir()
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    with zipfile.ZipFile(path) as found:
        names = {name.removeprefix("kvbench/") for name in found.namelist()}
        assert names >= {*listed, "SHA256SUMS"}
        assert any(name.startswith("engines/") for name in names)
        for line in found.read("kvbench/SHA256SUMS").decode().splitlines():
            wanted, name = line.split("  ", 1)
            assert hashlib.sha256(found.read(f"kvbench/{name}")).hexdigest() == wanted, name


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    done = archive(tmp_path / "missing")
    assert done.returncode == 2
    assert str(tmp_path / "missing") in done.stderr
    assert len(done.stderr.splitlines()) == 1
