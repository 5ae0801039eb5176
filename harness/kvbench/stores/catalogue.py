"""All stores that the harness knows: the shims in C, and the bindings in Python."""

import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvbench.cell.bindings import load, settings
from kvbench.cell.contract import Setting
from kvbench.cell.factors import DEFAULT, LEVELS, level
from kvbench.cell.library import shims_folder, structure
from kvbench.cell.store import Store, declared
from kvbench.common.messages import BadInput, one_line
from kvbench.common.processes import die_with_parent, how_it_ended, readable, uninterrupted
from kvbench.stores.about import FAMILIES, described, engine, faults, position
from kvbench.stores.bindings import BINDINGS
from kvbench.stores.known import KnownStore

PROBE_LIMIT = 30  # seconds in which a probed store must answer
MOST_OF_VERSION, MOST_OF_TEXT, MOST_SETTINGS = 200, 1000, 200  # characters, and rows of a table


def build_facts() -> dict[str, str]:
    """The revision and the compiler that built the shims, among other facts."""
    facts: dict[str, str] = json.loads((shims_folder() / "build.json").read_text())
    # A tag may be called release/1.0, but names in tables have no slash.
    return facts | {"revision": re.sub("[^A-Za-z0-9._+-]", "-", facts["revision"])}


def _apart(store: KnownStore, probe: Callable[[str], Store], name: str) -> KnownStore:
    """Probe a store in a separate process, since an engine may crash or hang when it is loaded, or
    write where it must not. Returns the store that the probe finds, or `store` with the reason of
    the failure."""
    parent = os.getpid()
    with os.fdopen(os.memfd_create("answer"), "w+b") as answer:
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                die_with_parent(parent)
                answer.write(json.dumps(dataclasses.asdict(_asked(store, probe, name))).encode())
                answer.flush()
            finally:
                os._exit(0)  # skip the clean-up of the parent
        ended = os.pidfd_open(child)
        late = not readable([ended], PROBE_LIMIT)
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with the processes that it started
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        output = answer.read()
    if late:
        return dataclasses.replace(
            store, reason=f"it did not answer within {PROBE_LIMIT} s of being loaded"
        )
    if not output:
        how = how_it_ended(os.waitstatus_to_exitcode(status))
        return dataclasses.replace(store, reason=f"its process died when it was loaded: {how}")
    try:
        answered = _store_of(json.loads(output))
        if answered.reason:
            return dataclasses.replace(store, reason=one_line(answered.reason)[:MOST_OF_TEXT])
        _refuse_unfit(answered)
        return answered
    except BadInput as error:
        return dataclasses.replace(store, reason=str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return dataclasses.replace(
            store, reason=f"its answer to the probe is not valid: {output[:40]!r}"
        )


def _store_of(values: dict[str, Any]) -> KnownStore:
    """A store from the JSON of dataclasses.asdict."""
    settings = tuple(Setting(**setting) for setting in values["settings"])
    capabilities = tuple(values["capabilities"])
    return KnownStore(**{**values, "settings": settings, "capabilities": capabilities})


def _refuse_unfit(store: Store) -> None:
    """Raise BadInput if a store declares values that the result tables do not allow: a table with
    such a value could not be read, which would hide the results of all other stores."""
    version, settings = store.version, store.settings
    if not 0 < len(version) <= MOST_OF_VERSION or one_line(version) != version:
        allowed = f"1 to {MOST_OF_VERSION} printable characters"
        raise BadInput(f"version: {version!r:.60} is not allowed; allowed: {allowed}")
    if len(settings) > MOST_SETTINGS:
        raise BadInput(f"{len(settings)} settings are not allowed; allowed: {MOST_SETTINGS}")
    if level("durability", store.default_durability) == DEFAULT:
        raise BadInput(f"default_durability: {DEFAULT!r} is not allowed: it stands for a level")
    for setting in settings:
        if not re.fullmatch("[a-z][a-z0-9_]{0,59}", setting.name):
            raise BadInput(f"setting {setting.name!r:.60} is not allowed; allowed: a-z, 0-9 and _")
        if setting.value not in ("", "*"):
            level(setting.name if setting.name in LEVELS else "options", setting.value)
        if len(setting.means + setting.lacks) > MOST_OF_TEXT:
            raise BadInput(f"setting {setting.name}: more than {MOST_OF_TEXT} characters of text")


def _asked(store: Store, probe: Callable[[str], Store], name: str) -> Store:
    try:
        return probe(name)
    except Exception as error:  # any failure concerns this store only
        return dataclasses.replace(store, reason=f"{type(error).__name__}: {error}")


def _probe_shim(name: str) -> Store:
    """Load a shim, and return the store that it declares."""
    try:
        return declared(Store(name).path)
    except OSError as error:
        return Store(name, reason=str(error))


def _probe_binding(name: str) -> Store:
    """Import a binding, and return the store that it declares."""
    entry = BINDINGS[name]
    try:
        binding = load(name)
        version = binding.engine_version()
    except Exception as error:  # a faulty package may raise anything
        package = entry.distribution or name
        advice = entry.advice or f"pip install {package}"
        return Store(entry.store, name, reason=f"{error}; {package}: {advice}")
    return Store(
        entry.store,
        name,
        version=version,
        binding_version=entry.version(),
        capabilities=binding.capabilities.names(),
        max_key=binding.max_key,
        max_value=binding.max_value,
        settings=settings(binding),
        default_durability=binding.default_durability,
    )


def _shims() -> dict[str, str]:
    """The name of each shim, with the reason why it was not built or must not be used, in the order
    of tables. Stores without a file come last. Raises BadInput if there are no shims."""
    folder = shims_folder()
    try:
        report: dict[str, str] = json.loads((folder / "stores.json").read_text())
    except OSError as error:
        raise BadInput(f"{folder}: no shims here: {error.strerror}; build them first") from None
    for path in sorted(folder.glob("*.so")):
        if path.name != "libloop.so":
            report.setdefault(path.stem, _misnamed(path.stem))
    wrong = faults()
    reasons = {name: reason or wrong.get(engine(name), "") for name, reason in report.items()}
    return dict(sorted(reasons.items(), key=lambda item: (position(item[0]), item[0])))


def remarks() -> dict[str, str]:
    """Remarks on stores by name: why set-up could not get a current release, or that the store has
    no file."""
    path = shims_folder() / "older.json"
    older: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    silent = [name for name in _shims() if engine(name) not in {*described(), *faults()}]
    why = "no file {}.toml beside its shim: no facts, no family, the usual colour and estimate"
    return {name: why.format(engine(name)) for name in silent} | older


def compared(name: str) -> bool:
    """Whether a store is measured by default: it is not the floor, not a second build of an engine,
    and its name is allowed."""
    return name != "null" and engine(name) == name and not _misnamed(name)


def _misnamed(name: str) -> str:
    """The reason why the name of a store is not allowed; empty if it is."""
    try:
        level("store", name.partition("/")[0])
    except BadInput as error:
        return str(error)
    return f"store: {name!r} is not allowed: it is the name of a family" if name in FAMILIES else ""


def names() -> list[str]:
    """The names of all stores with a shim, available or not."""
    return list(_shims())


def known() -> dict[str, KnownStore]:
    """All stores by full name, the shims first, then the bindings. Each is probed once per
    process."""
    return dict(_known(shims_folder()))


@functools.cache
def _known(_folder: Path) -> dict[str, KnownStore]:
    structure("kv_driver")  # report a faulty core library before any store
    shims = [
        KnownStore(name, reason=reason) if reason else _apart(KnownStore(name), _probe_shim, name)
        for name, reason in _shims().items()
    ]
    return {store.full_name: store for store in [*shims, *_bindings()]}


@functools.cache
def _bindings() -> list[KnownStore]:
    """The bindings, which do not depend on the folder of shims."""
    bindings = []
    for name, entry in BINDINGS.items():
        with uninterrupted():  # some bindings create a store, and remove it at exit
            bindings.append(_apart(KnownStore(entry.store, name), _probe_binding, name))
    return bindings
