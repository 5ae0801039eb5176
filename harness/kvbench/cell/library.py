"""The core in C, libloop.so. Python builds its structures from the library's own description and
compares the constants below with the library's, so that the two cannot disagree."""

import ctypes
import enum
import functools
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from kvbench.cell.contract import Capability
from kvbench.common.messages import BadInput

Address = ctypes.c_void_p


class Status(enum.IntEnum):
    """enum kv_status"""

    OK = 0
    NOT_FOUND = 1
    EXISTS = 2
    TOO_LARGE = 3
    ERROR = 4


class Mode(enum.IntEnum):
    """enum kv_mode"""

    PUT = 0
    INSERT = 1
    UPDATE = 2
    REMOVE = 3


class Direction(enum.IntEnum):
    """enum kv_direction"""

    FORWARD = 0
    BACKWARD = 1


class Operation(enum.IntEnum):
    """enum plan_operation"""

    INSERT = 0
    GET = 1
    UPDATE = 2
    REMOVE = 3
    SCAN = 4


class Source(enum.IntEnum):
    """enum plan_source"""

    ALL = 0
    MISSING = 1
    SHUFFLED = 2
    DRAWN = 3
    DEAD_ONES = 4
    MIXED = 5
    LISTED = 6
    CHURNED = 7


class Order(enum.IntEnum):
    """enum plan_order"""

    UNIFORM = 0
    SEQUENTIAL = 1
    ZIPFIAN = 2
    NEWEST = 3


class Constant(enum.IntEnum):
    KV_ABI = 5  # of kv.h; _functions copies the types of that version
    PLAN_OPERATIONS = 5
    PLAN_DEAD = 128
    RECORDS_KEY_MAX = 64
    STORE_ERROR = 640
    TALLY_RECENT = 4


CONSTANTS: dict[type[enum.IntEnum | enum.IntFlag], str] = {  # by the prefix of their names in C
    Status: "KV_",
    Mode: "KV_",
    Direction: "KV_",
    Capability: "KV_",
    Operation: "PLAN_",
    Source: "PLAN_",
    Order: "PLAN_",
    Constant: "",
}


def shims_folder() -> Path:
    """The folder of the shared objects: the environment variable KVBENCH_SHIMS, or the one beside
    this file."""
    return Path(os.environ.get("KVBENCH_SHIMS") or Path(__file__).parents[1] / "shims")


def check_constants(lines: Iterable[str]) -> None:
    """Compare the enumerations of this module with the library's lines of "name=value"."""
    said = dict(line.split("=") for line in lines if "=" in line)
    for kind, prefix in CONSTANTS.items():
        for member in kind:
            name = f"{prefix}{member.name}"
            if said.get(name) != str(member.value):
                raise BadInput(
                    f"libloop.so: {name} is {said.get(name, 'missing')} there, and {member.value} "
                    f"in {Path(__file__).name}: build the shims again, by make setup"
                )


def _functions(slice_: type[ctypes.Structure]) -> dict[str, Any]:
    """The types of the driver's functions, as in kv.h. Whoever changes them increases KV_ABI."""
    status, kv, size, text = ctypes.c_int, Address, ctypes.c_size_t, ctypes.c_char_p
    take = ctypes.CFUNCTYPE
    return {
        "version": take(text),
        "error": take(text),
        "open": take(status, text, Address, size, Address),
        "close": take(status, kv),
        "begin": take(status, kv, Address),
        "end": take(status, kv),
        "get": take(status, kv, slice_, Address, size, Address),
        "write": take(status, kv, ctypes.c_int, Address, size),
        "scan": take(status, kv, slice_, ctypes.c_int, visit_type(slice_), Address),
        "compact": take(status, kv),
        "backup": take(status, kv, text),
        "sync": take(status, kv),
        "effective_options": take(status, kv, Address, size),
    }


@functools.cache
def visit_type(slice_: type[ctypes.Structure]) -> Any:
    """kv_visit"""
    return ctypes.CFUNCTYPE(ctypes.c_int, Address, slice_, slice_)


NUMBERS = {"4": ctypes.c_uint32, "8": ctypes.c_uint64}


def build_structures(lines: Iterable[str]) -> dict[str, type[ctypes.Structure]]:
    """The structures that the library's lines describe, by name; layout_text in layout.c has the
    format."""
    found: dict[str, type[ctypes.Structure]] = {}
    rows = (line.split() for line in lines if "=" not in line)
    for name, group in itertools.groupby(rows, lambda row: row[0]):
        *fields, (_, whole) = group
        functions = _functions(found["kv_slice"]) if name == "kv_driver" else {}
        members: list[tuple[str, Any]] = []
        for _, field, kind, _, size in fields:
            kinds: dict[str, Any] = {
                **found,
                "number": NUMBERS.get(size),
                "real": ctypes.c_double,
                "integer": ctypes.c_int32,
                "text": ctypes.c_char_p,
                "bytes": ctypes.c_char * int(size),
                "address": functions.get(field, Address),
            }
            members.append((field, kinds[kind]))

        class Built(ctypes.Structure):
            __slots__ = ()  # so that assigning to an unknown field fails
            _fields_ = members

        Built.__name__ = name
        ours = [str(getattr(Built, field).offset) for field, _ in members]
        theirs = [row[3] for row in fields]
        if [*ours, str(ctypes.sizeof(Built))] != [*theirs, whole]:
            raise BadInput(
                f"libloop.so: struct {name}: the fields that layout.c names begin at bytes "
                f"{', '.join(theirs)} of {whole}, which leaves a gap: name every field, in order"
            )
        found[name] = Built
    return found


@functools.cache
def loop_library() -> ctypes.CDLL:
    """The functions of loop.h, traffic.h, records.h and store.h."""
    try:
        return ctypes.CDLL(str(shims_folder() / "libloop.so"))
    except OSError as error:
        raise BadInput(f"{error}: build the shims first, by make setup") from None


@functools.cache
def _structures() -> dict[str, type[ctypes.Structure]]:
    text = ctypes.create_string_buffer(1 << 16)
    loop_library().layout_text(text, ctypes.c_size_t(len(text)))
    lines = text.value.decode().splitlines()
    check_constants(lines)
    return build_structures(lines)


def structure(name: str) -> type[ctypes.Structure]:
    return _structures()[name]


def filled(name: str, cell: object, **values: Any) -> ctypes.Structure:
    """A structure with these values. Every other field that has the name of a factor gets the
    cell's level, so a factor that only C uses needs no line here."""
    kind = structure(name)
    levels = {field[0]: getattr(cell, field[0], None) for field in kind._fields_}
    numbers = {field: level for field, level in levels.items() if isinstance(level, int)}
    return kind(**numbers | values)


def address(array: npt.NDArray[Any]) -> Address:
    """The address of an array's first element. The caller keeps the array alive."""
    return Address(array.ctypes.data)
