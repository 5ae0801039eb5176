"""The stores that the harness knows: the shims in C, and the bindings in Python."""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from kvbench import BadInput, die_with_parent, how_it_ended, one_line, uninterrupted
from kvbench.bindings import BINDINGS, full_name, load, module_name, open_binding
from kvbench.contract import Capability, OpenStore, Setting, StoreError
from kvbench.factors import DEFAULT, FACTORS, LEVELS
from kvbench.library import shims_folder, structure
from kvbench.shim import Driver, OpenShim, load_driver, read_settings

PROBE_LIMIT = 30  # seconds in which a store must describe itself
MOST_OF_VERSION, MOST_OF_TEXT, MOST_SETTINGS = 200, 1000, 200  # characters, and rows of a table
DISTRIBUTED = "-debian"  # of the second build of an engine: the library of the distribution


def build_facts() -> dict[str, str]:
    """From which revision, and by which compiler, the shims were built."""
    facts: dict[str, str] = json.loads((shims_folder() / "build.json").read_text())
    # A tag may be called release/1.0, which no table takes for a name.
    return facts | {"revision": re.sub("[^A-Za-z0-9._+-]", "-", facts["revision"])}


@dataclasses.dataclass(frozen=True)
class Store:
    """A store that the harness knows, available or not."""

    name: str
    binding: str = ""  # empty: the shim in C
    reason: str = ""  # why it is not available
    version: str = ""  # of the engine
    binding_version: str = ""
    capabilities: tuple[str, ...] = ()
    max_key: int = 0  # bytes
    max_value: int = 0  # bytes
    settings: tuple[Setting, ...] = ()
    default_durability: str = ""

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """A store from what dataclasses.asdict made of it, perhaps as JSON."""
        settings = tuple(Setting(**setting) for setting in values["settings"])
        capabilities = tuple(values["capabilities"])
        return cls(**{**values, "settings": settings, "capabilities": capabilities})

    def can(self, capability: str, settings: Mapping[str, str]) -> bool:
        """Whether it has the capability, by itself or, of threads, by a setting of that name."""
        threaded = settings.get("threads") == "on" and capability in ("threads", "writers")
        return capability in self.capabilities or threaded

    def lacks(self, name: str, value: str) -> str:
        """Why it has no such level of a setting; empty when it has."""
        if self.binding:
            return f"{self.binding} is measured as shipped"
        own = [setting for setting in self.settings if setting.name == name]
        for setting in own:
            if setting.covers(value):
                short = not setting.value and int(value) < setting.least
                return setting.lacks or (f"less than its least, {setting.least:,}" if short else "")
        return "has no such setting"

    @property
    def tears(self) -> bool:
        """Whether a crash in an update may leave neither value, at levels other than `atomic`. Its
        shim then names that level, be it as one that it lacks."""
        return any((own.name, own.value) == ("durability", "atomic") for own in self.settings)

    def guarantee(self, durability: str) -> str:
        """The level that a level of durability, perhaps as shipped, amounts to."""
        return self.default_durability if durability == DEFAULT else durability

    @property
    def access(self) -> str:
        return "python" if self.binding else "c"

    @property
    def full_name(self) -> str:
        return full_name(self.name, self.binding)

    @property
    def available(self) -> bool:
        return not self.reason

    @property
    def path(self) -> Path:
        """Of the shim."""
        return shims_folder() / f"{self.name}.so"

    def driver(self) -> Driver:
        """What the shim declared when this process loaded it. A StoreError if that is not what it
        declared when it was asked what it is, if it was."""
        driver = load_driver(self.path)
        if self.version and (changed := _difference(self, _declared(self.path))):
            raise StoreError(f"it declares something else than when it was asked: {changed}")
        return driver

    def open(self, folder: Path, **options: str) -> OpenStore:
        """Open it in an existing folder, which is its own."""
        if self.binding:
            return open_binding(self.binding, folder, **options)
        return OpenShim(self.driver(), folder, **options)


def named(label: str) -> Store:
    """A store by its full name. It has not been asked what it is."""
    name, _, binding = label.partition("/")
    return Store(name, binding)


def _apart(store: Store, probe: Callable[[str], Store], name: str) -> Store:
    """The store that a probe finds, in a process of its own: an engine may crash or hang when it is
    loaded, or write where it must not. Then `store`, with the reason."""
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
                os._exit(0)  # nothing of the parent's is to be tidied here
        ended = os.pidfd_open(child)
        late = not select.select([ended], [], [], PROBE_LIMIT)[0]
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with what it has started
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        said = answer.read()
    if late:
        return dataclasses.replace(
            store, reason=f"it said nothing within {PROBE_LIMIT} s of being loaded"
        )
    if not said:
        how = how_it_ended(os.waitstatus_to_exitcode(status))
        return dataclasses.replace(store, reason=f"its process died when it was loaded: {how}")
    try:
        found = Store.from_values(json.loads(said))
        if found.reason:
            return dataclasses.replace(store, reason=one_line(found.reason)[:MOST_OF_TEXT])
        _refuse_unfit(found)
        return found
    except BadInput as error:
        return dataclasses.replace(store, reason=str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return dataclasses.replace(store, reason=f"asked what it is, it answers {said[:40]!r}")


def _refuse_unfit(store: Store) -> None:
    """Refuse a store of whose own words results take not all, as whoever reads results checks them:
    one that cannot be read would hide those of all other stores. Raises BadInput."""
    version, settings = store.version, store.settings
    if not 0 < len(version) <= MOST_OF_VERSION or one_line(version) != version:
        allowed = f"1 to {MOST_OF_VERSION} printable characters"
        raise BadInput(f"version: {version!r:.60} is not allowed; allowed: {allowed}")
    if len(settings) > MOST_SETTINGS:
        raise BadInput(f"{len(settings)} settings are not allowed; allowed: {MOST_SETTINGS}")
    if FACTORS["durability"].level(store.default_durability) == DEFAULT:
        raise BadInput(f"default_durability: {DEFAULT!r} is not allowed: it stands for a level")
    for own in settings:
        if not re.fullmatch("[a-z][a-z0-9_]{0,59}", own.name):
            raise BadInput(f"setting {own.name!r:.60} is not allowed; allowed: a-z, 0-9 and _")
        if own.value not in ("", "*"):
            factor = FACTORS[own.name if own.name in LEVELS else "options"]
            factor.level(own.value)
        if len(own.means + own.lacks) > MOST_OF_TEXT:
            raise BadInput(f"setting {own.name}: more than {MOST_OF_TEXT} characters of text")


def _asked(store: Store, probe: Callable[[str], Store], name: str) -> Store:
    try:
        return probe(name)
    except Exception as error:  # whatever it is, it is this store's alone
        return dataclasses.replace(store, reason=f"{type(error).__name__}: {error}")


@functools.cache  # a store may be opened a hundred times
def _declared(path: Path) -> Store:
    """What a shim declares. An OSError says why it can't be loaded."""
    driver = load_driver(path)
    return Store(
        path.stem,
        version=driver.version().decode(),
        capabilities=Capability(driver.capabilities).names() + ("compact",) * bool(driver.compact),
        max_key=driver.max_key,
        max_value=driver.max_value,
        settings=read_settings(driver),
        default_durability=driver.default_durability.decode(),
    )


def _difference(asked: Store, found: Store) -> str:
    """The first thing that two declarations say differently; empty if there is none."""
    for field in dataclasses.fields(Store):
        before, now = getattr(asked, field.name), getattr(found, field.name)
        if before != now:
            return f"{field.name} {now!r:.80}, then {before!r:.80}"
    return ""


def _probe_shim(name: str) -> Store:
    """Load the shim and ask it what it is."""
    try:
        return _declared(Store(name).path)
    except OSError as error:
        return Store(name, reason=str(error))


def _probe_binding(name: str) -> Store:
    """Import the binding and ask it what it is."""
    entry = BINDINGS[name]
    try:
        found = load(name)
        version = found.engine_version()
    except Exception as error:  # whatever a package does that is not what it should be
        package = entry.distribution or name
        advice = entry.advice or f"pip install {package}"
        return Store(entry.store, name, reason=f"{error}; {package}: {advice}")
    return Store(
        entry.store,
        name,
        version=version,
        binding_version=entry.version(),
        capabilities=found.capabilities.names(),
        max_key=found.max_key,
        max_value=found.max_value,
        default_durability=found.default_durability,
    )


def _shims() -> dict[str, str]:
    """Each shim's name with the reason why it was not built; those of the build come first, then
    any other in the folder."""
    folder = shims_folder()
    try:
        report: dict[str, str] = json.loads((folder / "stores.json").read_text())
    except OSError as error:
        raise BadInput(f"{folder}: no shims here: {error.strerror}; build them first") from None
    for path in sorted(folder.glob("*.so")):
        if path.name != "libloop.so":
            report.setdefault(path.stem, _misnamed(path.stem))
    return report


def older() -> dict[str, str]:
    """The stores of which set-up got no current release, with the reason."""
    path = shims_folder() / "older.json"
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def compared(name: str) -> bool:
    """Whether a store is measured where none is named: not the floor, no engine twice, and no file
    whose name no grid takes."""
    return name != "null" and not name.endswith(DISTRIBUTED) and not _misnamed(name)


def _misnamed(name: str) -> str:
    """Why no store may be called so; empty if one may."""
    try:
        FACTORS["store"].level(name.partition("/")[0])
    except BadInput as error:
        return str(error)
    return ""


def names() -> list[str]:
    """Of all stores, available or not."""
    return list(_shims())


def known() -> dict[str, Store]:
    """All stores by full name: the shims, then the bindings. They are asked once a process."""
    return dict(_known(shims_folder()))


@functools.cache
def _known(_folder: Path) -> dict[str, Store]:
    structure("kv_driver")  # if the library itself is wrong, that is no store's fault
    found = [
        Store(name, reason=reason) if reason else _apart(Store(name), _probe_shim, name)
        for name, reason in _shims().items()
    ]
    for name, entry in BINDINGS.items():
        with uninterrupted():  # some make a store, which the process removes when it ends
            found.append(_apart(Store(entry.store, name), _probe_binding, name))
    return {store.full_name: store for store in found}


@functools.cache
def _code(binding: str) -> list[Path]:
    """The modules that shape a result: all that a worker imports from this package, and what caps
    its memory from outside."""
    modules = ["kvbench.worker", "kvbench.control_group"]
    modules += [module_name(name) for name in (binding, "null") if binding]
    found: set[Path] = set()
    while modules:
        base = Path(__file__).parents[1] / modules.pop().replace(".", "/")
        for path in {base.with_suffix(".py"), base / "__init__.py"} - found:
            if path.exists():
                found.add(path)
                modules += _imports(path)
    return sorted(found)


def _imports(path: Path) -> Iterator[str]:
    """What a module may import from this package: for `from kvbench import x` also kvbench.x."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvbench"):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))


def libraries(path: Path) -> list[Path]:
    """The libraries beside a shim that it loads, and those that they load: it holds their names."""
    beside = set(path.parent.glob("lib*.so*")) - {path.parent / "libloop.so"}
    found = [path]
    for loading in found:
        code = loading.read_bytes()
        loaded = {library for library in beside if library.name.encode() + b"\0" in code}
        found += sorted(loaded)
        beside -= loaded
    return found[1:]


def checksum(store: Store) -> str:
    """Of the code that shapes a store's results: its shim with the libraries beside it, or its
    binding; the null store that gives the floor, the timed loop, and the Python modules of a
    worker."""
    return _checksum(store, shims_folder())


@functools.cache  # a sweep asks for it once or twice a cell
def _checksum(store: Store, folder: Path) -> str:
    digest = hashlib.sha256()
    shims = [] if store.binding else [store.path, *libraries(store.path), Store("null").path]
    for path in (folder / "libloop.so", *shims, *_code(store.binding)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
