"""Reads what a shim declares, and passes options to it. The timed loop is in loop.py."""

import ctypes
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvbench.cell.contract import Setting, StoreError
from kvbench.cell.library import Address, Constant, loop_library, structure

Driver = ctypes.Structure  # struct kv_driver


def option_array(options: Mapping[str, str]) -> Any:
    """Options as the array of struct kv_option that `open` takes."""
    option = structure("kv_option")
    pairs = [option(name.encode(), value.encode()) for name, value in options.items()]
    return (option * len(pairs))(*pairs)


def load_driver(path: Path) -> Driver:
    """Load the driver of a shared object. Raises OSError, which states the reason."""
    error = ctypes.create_string_buffer(Constant.STORE_ERROR)
    load = loop_library().store_load
    load.restype = Address
    found = load(os.fsencode(path), error)
    if not found:
        raise OSError(error.value.decode(errors="replace"))
    return structure("kv_driver").from_address(found)


def read_settings(driver: Driver) -> tuple[Setting, ...]:
    found = []
    rows: Any = ctypes.cast(driver.settings, ctypes.POINTER(structure("kv_setting")))
    for row in itertools.takewhile(lambda row: row.name, rows):
        texts = ((text or b"").decode() for text in (row.name, row.value, row.means, row.lacks))
        name, value, means, lacks = texts
        found.append(Setting(name, value, row.least, means, lacks))
    return tuple(found)


def reason(driver: Driver, status: int) -> str:
    """The meaning of a status other than OK, with the store's own error message if it has one."""
    say, unknown = loop_library().store_reason, ctypes.create_string_buffer(32)
    say.restype = ctypes.c_char_p
    found: bytes = say(ctypes.byref(driver), status, unknown)
    return found.decode(errors="replace")


def read_effective_options(driver: Driver, kv: Any) -> dict[str, str]:
    text = ctypes.create_string_buffer(4096)
    if status := driver.effective_options(kv, text, len(text)):
        raise StoreError(f"effective options: {reason(driver, status)}")
    lines = text.value.decode(errors="replace").splitlines()
    if bad := [line for line in lines if "=" not in line]:
        raise StoreError(f"effective options: {bad[0]!r:.80} is not a line of name=value")
    return dict(line.split("=", 1) for line in lines)
