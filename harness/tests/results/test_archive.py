"""The archive has all of a commit, with checksums, and always the same bytes."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT


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


@pytest.fixture
def package() -> Iterator[Path]:
    """A package of an earlier set-up, of which no checksum is known."""
    path = ROOT / "build" / "shims" / "npm" / "leveldown-basho-0.0.1.tgz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"left over")
    yield path
    path.unlink()


def test_only_packages_that_the_build_would_take_are_packed(package: Path, tmp_path: Path) -> None:
    done = archive(tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    with zipfile.ZipFile(path) as found:
        engines = [name for name in found.namelist() if name.startswith("kvbench/engines/")]
        pinned = "".join(path.read_text() for path in (ROOT / "harness" / "shims").rglob("*.cmake"))
        pinned += (ROOT / "harness" / "shims" / "rust" / "Cargo.lock.in").read_text()
        for name in engines:
            assert hashlib.sha256(found.read(name)).hexdigest() in pinned, name
    assert engines
    assert not any(package.name in name for name in engines)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "kvbench-test", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        done = archive(tmp_path)
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"archive: {tmp_path}: No space left on device")
    assert len(done.stderr.splitlines()) == 1


def test_an_unfinished_archive_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    assert archive(tmp_path).returncode == 0
    (path,) = tmp_path.iterdir()
    elsewhere = tmp_path / "elsewhere"
    path.with_suffix(".unfinished").symlink_to(elsewhere)
    assert archive(tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == [path]
