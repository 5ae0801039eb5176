"""A bundle: the tables of a collected folder as one file to hand on, an RO-Crate in a zip.

A bundle comes from anywhere. It has few members with known names, none of them compressed, and is
read in memory; nothing is extracted. Its tables are read as those of any folder, must be plausible,
and are written anew.
"""

import getpass
import hashlib
import io
import re
import socket
import stat
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from kvbench.common.files import read_whole, write_whole
from kvbench.common.messages import BadInput
from kvbench.machine.scratch import whole
from kvbench.results.crate import METADATA, check, described, encoded
from kvbench.results.plausible import implausible
from kvbench.results.tables import SCHEMAS, TIMELINE, parquet, read_tables, write_tables

SUBMITTED = "submitted"  # the folder of accepted results among those of data
MOST_BYTES = 64 << 20
MOST_METADATA = 1 << 20
MOST_DIRECTORY = 1 << 16  # bytes of the list of a zip's members
FILES = (METADATA, *(f"{name}.parquet" for name in SCHEMAS))
OPTIONAL = f"{TIMELINE}.parquet"
MOMENT = (1980, 1, 1, 0, 0, 0)  # of each member, so that the same tables give the same bytes
END = struct.Struct("<4s4H2LH")  # the end of a zip; see `_directory`
LOCATOR = 20  # bytes before it, which a zip of more than 4 GiB has
FREE = {  # columns whose text may name a user or the host
    "cells": ("reason", "effective_options"), "machines": ("mount_options", "probe"),
}  # fmt: skip
COMMON = ("root", "user", "localhost", "debian", "ubuntu", "linux")  # names that name nobody
HOME = r"(?i)[/\\](?:home|users)[/\\]+[^/\\\s,;:'\"]+|/root(?=/)"


def packed(tables: Mapping[str, pa.Table]) -> bytes:
    """The tables as a bundle. The same tables give the same bytes."""
    contents = {f"{name}.parquet": parquet(table) for name, table in tables.items()}
    members = {METADATA: encoded(described(tables, contents)), **contents}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in members.items():
            made.writestr(zipfile.ZipInfo(name, MOMENT), content)
    return buffer.getvalue()


def submit(folder: Path, out: Path) -> dict[str, pa.Table]:
    """Write a collected folder as a bundle without names of users and hosts, and return its tables.
    Raises BadInput if they are not plausible, or imported."""
    tables = _nameless(read_tables(folder))
    _refuse(folder, tables)
    data = packed(tables)
    if len(data) > MOST_BYTES:
        raise BadInput(f"{folder}: {len(data):,} B as a bundle; allowed: {MOST_BYTES:,} B at most")
    write_whole(out, data)
    return tables


def accept(path: Path, into: Path) -> Path:
    """Write the tables of a bundle into a new folder below `into`, which date, machine and contents
    name, and return it. Raises BadInput, and writes nothing, if the bundle is not what submit
    writes, or is not plausible, or has a trial of a folder accepted before. Beside `submitted`,
    folders of data are looked through for it, too."""
    contents = _members(path)
    given = contents.pop(METADATA)
    tables = read_tables(path, contents)
    wanted = described(tables, contents)
    try:
        check(given, wanted)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    places = (into, into.parent) if into.name == SUBMITTED else (into,)
    known = {file.parent for place in places for file in place.glob("*/cells.parquet")}
    _refuse(path, tables, sorted(known))
    out = into / _name(tables, contents)
    with whole(out) as made:
        write_tables(made, tables)
        written = {file.name: file.read_bytes() for file in sorted(made.glob("*.parquet"))}
        write_whole(made / METADATA, encoded(described(tables, written)))
    return out


def _refuse(path: Path, tables: dict[str, pa.Table], beside: Iterable[Path] = ()) -> None:
    if "ok" not in tables["cells"]["status"].to_pylist():
        raise BadInput(f"{path}: no cell was measured; allowed: results of a sweep")
    if said := implausible(tables, beside):
        raise BadInput(f"{path}: {said}")


def _name(tables: Mapping[str, pa.Table], contents: Mapping[str, bytes]) -> str:
    """The name of the folder of a bundle: the last day, the machine and a digest."""
    cells = tables["cells"]
    day = max(cells["started"].drop_null().to_pylist())[:10]
    digest = hashlib.sha256(b"".join(contents[name] for name in sorted(contents)))
    return f"{day}-{cells['machine'][0]}-{digest.hexdigest()[:8]}"


def _members(path: Path) -> dict[str, bytes]:
    """The contents of a bundle's members by name. Raises BadInput if it is not such a zip."""
    data = read_whole(path, MOST_BYTES)
    allowed = "a bundle that `kvbench submit` wrote"
    try:
        _directory(data)
        with zipfile.ZipFile(io.BytesIO(data)) as found:
            members = found.infolist()
            for member in members:
                _plain(member)
            names = [member.filename for member in members]
            for name in FILES:
                if names.count(name) != 1 and (name != OPTIONAL or name in names):
                    raise ValueError(f"{name} is there {names.count(name)} times")
            if sum(member.file_size for member in members) > len(data):
                raise ValueError("members overlap")
            return {member.filename: found.read(member) for member in members}
    except ValueError as error:
        raise BadInput(f"{path}: {error!s:.80}; allowed: {allowed}") from None
    except (zipfile.BadZipFile, struct.error, EOFError, RuntimeError, NotImplementedError, OSError):
        raise BadInput(f"{path}: not a readable zip; allowed: {allowed}") from None


def _directory(data: bytes) -> None:
    """Raise ValueError for what does not end as a zip, or has more members than a bundle has. This
    is known before the list of members is read."""
    mark, *_, members, size, _, comment = END.unpack(data[-END.size :])
    if mark != b"PK\5\6" or comment:
        raise ValueError("does not end as a zip without comment")
    large = data[: -END.size][-LOCATOR:].startswith(b"PK\6\7")
    if members > len(FILES) or size > MOST_DIRECTORY or large:
        raise ValueError(f"{members} members")


def _plain(member: zipfile.ZipInfo) -> None:
    """Raise ValueError for a member with an unknown name, or one that is not plain bytes."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.filename not in FILES:
        raise ValueError(f"member {member.filename!r:.50} is unknown")
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{member.filename} is compressed")
    if member.filename == METADATA and member.file_size > MOST_METADATA:
        raise ValueError(f"{METADATA} of {member.file_size:,} B")
    if member.flag_bits & 1 or kind not in (0, stat.S_IFREG):
        raise ValueError(f"{member.filename} is no plain file")


def _nameless(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables without the names of users' folders, of the present user and of this host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # it has none
        user = ""
    own = {user, *socket.gethostname().split(".")[:1]} - {"", *COMMON}
    words = "|".join(rf"\b{re.escape(name)}\b" for name in sorted(own))
    found = dict(tables)
    for table, columns in FREE.items():
        for column in columns:
            values = [
                text and re.sub(words or "$^", "-", re.sub(HOME, "~", text))
                for text in found[table][column].to_pylist()
            ]
            at = found[table].schema.get_field_index(column)
            field = found[table].schema.field(at)
            found[table] = found[table].set_column(at, field, pa.array(values, field.type))
    return found
