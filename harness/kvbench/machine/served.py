"""A disk that a program serves: nbdkit serves an image with a plugin of ours, and nbdfuse shows the
served disk as a file, of which a loop device can make a disk."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from kvbench.cell.filesystem import unmount
from kvbench.common.messages import BadInput
from kvbench.common.processes import dying, how_it_ended, uninterrupted

PLUGINS = Path(__file__).parents[1] / "device"
RECORDER, SLOW = PLUGINS / "recorder.so", PLUGINS / "slow.so"
STARTING = 10.0  # seconds until the served file must be there
UNITS = {"us": 1, "ms": 1000}  # in microseconds
MOST = 1_000_000  # microseconds


class Delays(NamedTuple):
    """The least time of a read and of a flush of a slow disk, in microseconds."""

    read: int = 0
    sync: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a text such as "sync=10ms,read=200us". Raises BadInput."""
        found: dict[str, int] = {}
        for part in text.split(","):
            match = re.fullmatch(r"\s*(read|sync)=(\d{1,7})(us|ms)\s*", part)
            delay = int(match[2]) * UNITS[match[3]] if match else 0
            if not match or not 0 < delay <= MOST or match[1] in found:
                raise BadInput(
                    f"{text!r:.60} is not allowed; allowed: read=TIME, sync=TIME or both with a "
                    'comma, once each, 1us to 1000ms, as "sync=10ms,read=200us"'
                )
            found[match[1]] = delay
        return cls(**found)

    def __str__(self) -> str:
        given = {name: delay for name, delay in self._asdict().items() if delay}
        return ", ".join(f"{name}={_time(delay)}" for name, delay in given.items())


def _time(microseconds: int) -> str:
    whole = microseconds % UNITS["ms"] == 0
    return f"{microseconds // UNITS['ms']}ms" if whole else f"{microseconds}us"


def check(plugin: Path) -> None:
    """Raise BadInput if no disk can be served with a plugin here."""
    for program, debian in (("nbdkit", "nbdkit"), ("nbdfuse", "libnbd-bin")):
        if shutil.which(program) is None:
            raise BadInput(f"no disk can be served: {program} is not installed (Debian: {debian})")
    if not plugin.is_file():
        raise BadInput(
            f"no disk can be served: {plugin.name} was not built, since nbdkit-plugin.h was not "
            "found (Debian: nbdkit-plugin-dev); install it and set up again"
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise BadInput("no disk can be served: /dev/fuse is missing, or may not be used")


@contextlib.contextmanager
def served(plugin: Path, image: Path, own: Path, **given: object) -> Iterator[Path]:
    """Serve an image with a plugin and the values `given` to it; yield the file that is the disk.
    What belongs to it is in the folder `own`, where it stays. Raises BadInput."""
    folder, ready, said = own / "served", own / "ready", own / "said"
    folder.mkdir()
    pairs = [f"{name}={value}" for name, value in (("image", image), *given.items())]
    server = ["nbdkit", "--exit-with-parent", os.fspath(plugin), *pairs]
    command = ["nbdfuse", "-P", os.fspath(ready), os.fspath(folder / "disk"), "[", *server, "]"]
    with open(said, "wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, **dying())
    try:
        end = time.monotonic() + STARTING
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                why = " ".join(said.read_text(errors="replace").split())[-300:]
                ended = how_it_ended(process.poll() or 0)
                raise BadInput(f"no disk can be served: nbdfuse: {why or ended}")
            time.sleep(0.002)
        yield folder / "disk"
    finally:
        with uninterrupted():
            if folder.is_mount():
                unmount(os.fspath(folder))  # nbdfuse ends, and nbdkit with it
            else:
                process.kill()
            process.wait()
