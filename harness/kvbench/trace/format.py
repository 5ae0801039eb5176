"""A trace: what programs did to their records, call by call, without contents and names.

A trace file is a line of JSON, MAGIC, then rows of the type ROW. `kvbench record` writes it; the
modules beside this one read other formats into the same rows.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvbench.common.messages import BadInput, brief
from kvbench.trace.recorder.kvbench_recorder.rows import GET, KINDS, OPEN, OTHER, ROW

VERSION = 1
MAGIC = b'{"kvbench trace": %d}\n' % VERSION
ROWS = np.dtype(
    {
        "names": [
            "time", "key", "size", "took", "thread", "store", "key_size", "operation", "flags",
        ],
        "formats": ["<u8", "<u8", "<u4", "<u4", "<u4", "<u4", "<u2", "u1", "u1"],
    }
)  # fmt: skip
assert ROWS.itemsize == ROW.size
MOST_ROWS = 100_000_000
Rows = npt.NDArray[Any]
RECORDER = Path(__file__).parent / "recorder"  # the folder that a recorded program imports first


@dataclass(frozen=True)
class Trace:
    """The rows of a trace, in the order of their times, of the type ROWS: the time since the
    beginning and of the call in ns (0: not known), the bytes of key and value, and hashes of key
    and store. `kinds` has the library of each store, where that is known."""

    rows: Rows
    kinds: dict[int, str]


def begin(path: Path) -> None:
    """Make an empty trace. Raises BadInput if the file is there or cannot be made."""
    try:
        with path.open("xb") as file:
            file.write(MAGIC)
    except FileExistsError:
        raise BadInput(f"--out: {brief(str(path))!r} is there; allowed: a new file") from None
    except OSError as error:
        raise BadInput(f"--out: {brief(str(path))!r}: {error.strerror}") from None


def is_trace(data: bytes) -> bool:
    """Whether the first bytes of a file are those of a trace of some version."""
    return data.startswith(b'{"kvbench trace"')


def read(path: Path) -> Trace:
    """Read a trace file; what was not written whole at its end is left out. Raises BadInput."""
    name = brief(str(path))
    with path.open("rb") as file:
        head = file.readline(len(MAGIC) + 20)
        if head != MAGIC:
            raise BadInput(f"{name}: a trace of version {_version(head)}; allowed: {VERSION}")
        rows = np.fromfile(file, dtype=ROWS, count=MOST_ROWS)
        if file.read(ROWS.itemsize):
            raise BadInput(f"{name}: more than {MOST_ROWS:,} rows; allowed: that many")
    bad = (rows["operation"] < GET) | (rows["operation"] > OTHER)
    if bad.any():
        at = int(np.argmax(bad))
        raise BadInput(f"{name}: row {at + 1} has the operation {rows['operation'][at]}; "
                       f"allowed: {GET} to {OTHER}")  # fmt: skip
    opened = rows[rows["operation"] == OPEN]
    kinds = {int(row["store"]): KINDS[row["size"]] for row in opened if row["size"] < len(KINDS)}
    return Trace(np.sort(rows, order="time", kind="stable"), kinds)


def _version(head: bytes) -> str:
    try:
        found = json.loads(head)["kvbench trace"]
    except (ValueError, KeyError, TypeError):
        found = "?"
    return brief(str(found))
