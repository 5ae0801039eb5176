"""What is said of the stores: facts of each store that is compared, each with its source, and what
becomes of a store of which nothing, or nothing that can be read, is said."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.factors import DEFAULT, DURABILITY
from kvbench.cell.store import Store
from kvbench.common.messages import BadInput
from kvbench.stores.about import (
    FAMILIES,
    about,
    consequence,
    described,
    entry,
    everything,
    family,
    faults,
    loses_all,
    position,
)
from kvbench.stores.bindings import BINDINGS
from kvbench.stores.catalogue import compared, known, names
from kvbench.stores.identity import checksum
from kvbench.stores.opened import open_store
from kvbench.stores.page import renewed
from support import ROOT, SHIMS, Run

CITED = ("licence", "latest", "maintained_by", "platforms", "processes", "known", "consequence")
FILES = ("flat", "nested")


@pytest.mark.parametrize("store", [name for name in names() if compared(name)])
def test_every_store_that_is_compared_is_described(store: str) -> None:
    facts = about(store)
    if store not in family("all"):  # it was added here, and is not in the paper
        return
    assert facts is not None
    assert facts.name and facts.what and facts.processes and facts.known
    if store not in FILES:
        assert facts.licence and facts.latest and facts.maintained_by and facts.platforms


def test_sources_are_of_known_facts_and_are_addresses() -> None:
    for store, facts in everything().items():
        assert set(facts.sources) <= set(CITED), store
        assert all(source.startswith(("https://", "http://")) for source in facts.sources.values())
        if store not in FILES:
            assert {"licence", "processes", "known"} <= set(facts.sources), store


@pytest.mark.parametrize("store", [name for name in names() if compared(name)])
def test_a_store_is_ordered_if_it_can_scan(store: str) -> None:
    facts, own = about(store), known()[store]
    if facts is not None and own.available:
        assert facts.ordered == ("scan" in own.capabilities), store


@pytest.mark.parametrize("store", [name for name in names() if compared(name)])
def test_a_closed_store_is_one_file_if_its_facts_say_so(store: str, tmp_path: Path) -> None:
    """A file of locks beside it does not count. A store without the level is as shipped."""
    facts, own = about(store), known()[store]
    if facts is None or not own.available:
        pytest.skip(own.reason or "added here")
    level = {} if own.lacks("durability", "process") else {"durability": "process"}
    (tmp_path / "store").mkdir()
    opened = open_store(own, tmp_path / "store", **level)
    for number in range(200):
        opened.insert(f"key {number:012}".encode(), b"value" * 20)
    opened.close()
    found = [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()]
    kept = [name for name in found if not re.search(r"lock|lck", name, re.IGNORECASE)]
    assert (len(kept) == 1) == facts.one_file, found


@pytest.mark.parametrize("store", FILES)
def test_folders_write_no_records_together(store: str) -> None:
    facts = entry(store)
    assert not facts.transactions and "batch" not in known()[store].capabilities


def test_stores_that_write_together_take_batches() -> None:
    for store, facts in everything().items():
        own = known().get(store)
        if own is not None and own.available and facts.transactions:
            assert "batch" in own.capabilities, store


def test_a_copyleft_licence_is_one_without_a_choice_that_is_none() -> None:
    for store, facts in everything().items():
        choices = re.split(r" OR ", facts.licence)
        asks = all(re.search(r"(?<!L)GPL|Sleepycat", choice) for choice in choices)
        assert facts.copyleft == (asks and bool(facts.licence)), store


def test_another_build_has_its_engine_s_facts() -> None:
    assert about("lmdb-debian") == about("lmdb")


@pytest.mark.parametrize("name", [name for name in known() if compared(name)])
def test_what_a_crash_may_cost_is_known_of_each_level(name: str) -> None:
    """Where a crash costs more than the last writes, the word is `corrupt`, or says what is lost.
    Only a level that survives a loss of power has no consequence, and a file torn by an update."""
    store = known()[name]
    levels = {row.value for row in store.settings if row.name == "durability" and row.means}
    for level in {*levels, DEFAULT} & set(DURABILITY):
        amounts = store.default_durability if level == DEFAULT else level
        found = consequence(name, level, amounts)
        if about(store.name) is None:
            assert found == ""
        elif amounts in ("none", "process", "recoverable"):
            assert "loss of power" in found, level
        elif amounts == "sync":
            assert bool(found) == store.tears, level


def test_settings_without_any_sync_say_that_the_whole_store_may_be_lost() -> None:
    for store in ("lmdb", "lmdb-debian", "mdbx", "sqlite", "redb", "kyoto-hash", "tkrzw-hash"):
        assert "corrupt the whole store" in consequence(store, "process"), store
    for store in ("leveldb", "rocksdb", "bdb", "wiredtiger-btree", "fjall", "tidesdb"):
        assert consequence(store, "process") == "a loss of power may lose the last writes", store
    assert not any(loses_all(store, "recoverable") for store in everything())
    assert "synchronous=OFF" in consequence("sqlite/sqlitedict", DEFAULT, "process")
    assert "corrupt" not in consequence("sqlite/sqlite3", DEFAULT, "process")
    assert "corrupt" in consequence("bdb/bsddb3", DEFAULT, "none")
    assert consequence("lmdb/lmdb", DEFAULT, "sync") == ""
    assert consequence("sqlite/sqlitedict", "sync") == consequence("sqlite", "sync") == ""
    assert consequence("sqlite/diskcache", "process") == consequence("sqlite", "process")


def test_a_consequence_is_of_a_level_or_a_binding() -> None:
    for store, facts in everything().items():
        own = {name for name, entry in BINDINGS.items() if entry.store == store}
        assert set(facts.consequence) <= {*DURABILITY, *own}, store


SOURCES = [*SHIMS.glob("stores/*.c"), *SHIMS.glob("rust/src/*.rs")]


def test_every_store_has_a_file_and_a_place_of_its_own() -> None:
    stores = {path.stem for path in SOURCES} - {"template", "kv", "lib"}
    assert set(described()) == stores
    places = [said.position for said in described().values()]
    assert sorted({*places}) == places
    assert position("lmdb") < position("lmdb-debian") < position("mdbx") < position("unheard-of")


def test_families_are_what_their_meaning_says() -> None:
    """Of those that the stores themselves can confirm."""
    assert {name for said in described().values() for name in said.families} == set(FAMILIES)
    assert family("files") == list(FILES)
    assert set(family("all")) <= set(everything())
    assert not set(family("main")) - set(family("all")) | set(family("main")) & set(FILES)
    for store in family("all"):
        own = known()[store]
        if own.available:
            levels = {row.value for row in own.settings if row.name == "durability" and row.means}
            ordered = entry(store).ordered and "sync" in levels
            assert (store in family("ordered-sync")) == ordered, store
            assert (store in family("compacting")) == ("compact" in own.capabilities), store


def test_the_table_of_stores_is_what_their_files_say() -> None:
    """python -m kvbench.stores.page docs/stores.md writes it."""
    page = (ROOT / "docs/stores.md").read_text(encoding="utf-8")
    assert renewed(page) == page
    assert "| `mdbx` | libmdbx |" in page


WRONG = {
    'name = "Flat"\ncolor = "#000000"\n': "'color' is not a key; allowed: colour",
    "name = 1\n": "Expected `str`, got `int` - at `$.name`",
    'what = "Files."\n': "Object missing required field `name`",
    'name = ""\n': "Expected `str` of length >= 1",
    'name = "Flat"\ncolour = "blue"\n': "colour",
    'name = "Flat"\nfamilies = ["disks"]\n': "families: 'disks' is unknown; allowed: all, files,",
    'name = "Flat"\n[build]\nlibary = "flat"\n': "unknown field `libary` - at `$.build`",
    'name = "Flat"\n[rates.c]\nrecord = "fast"\n': "Expected `float`, got `str`",
    "name = \n": "not a readable TOML file",
    'name = "Mine"\n[consequence]\nproces = "all"\n': "consequence: 'proces' is unknown",
    'name = "Mine"\n[sources]\nlicense = "https://x"\n': "sources: 'license' is unknown",
    'name = "Mine"\n[rates.python]\nrecord = 1.0\n': "rates: 'python' is unknown",
    "\0": "not a readable TOML file",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat.toml").write_text(text)
    monkeypatch.setenv("KVBENCH_SHIMS", str(tmp_path))
    assert described() == {}
    assert list(faults()) == ["flat"]
    assert faults()["flat"].startswith("flat.toml: ")
    assert WRONG[text] in faults()["flat"]
    assert "\n" not in faults()["flat"]
    for use in (lambda: family("main"), lambda: about("flat"), lambda: consequence("flat", "none")):
        with pytest.raises(BadInput, match=r"^flat\.toml: "):  # the store may be of the family
            use()


def test_a_store_whose_file_is_wrong_is_unavailable(
    kvbench: Run, write_grid: Callable[..., Path], own_shims: Path, tmp_path: Path
) -> None:
    (own_shims / "flat.toml").write_text("name = 1\n")
    env = {"KVBENCH_SHIMS": str(own_shims)}
    said = [line for line in kvbench("stores", env=env).stdout.splitlines() if "flat.toml" in line]
    assert said == ["flat: flat.toml: Expected `str`, got `int` - at `$.name`"]
    out = tmp_path / "out"
    done = kvbench("sweep", write_grid(stores=["flat", "null"]), "--out", out, env=env)
    assert (done.returncode, done.stdout) == (0, "1 ok, 1 unavailable\n")
    done = kvbench("sweep", write_grid(stores=["main"]), "--out", tmp_path / "other", env=env)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert said[0].partition(" ")[2] in done.stderr


def test_a_store_of_which_nothing_is_said_works(
    kvbench: Run, write_grid: Callable[..., Path], own_shims: Path, tmp_path: Path
) -> None:
    (own_shims / "flat.so").rename(own_shims / "mine.so")
    (own_shims / "flat.toml").unlink()
    env = {"KVBENCH_SHIMS": str(own_shims)}
    assert "\nmine: no file mine.toml beside its shim: " in kvbench("stores", env=env).stdout
    done = kvbench("sweep", write_grid(stores=["mine"]), "--out", tmp_path / "out", env=env)
    assert (done.returncode, done.stdout) == (0, "1 ok\n")


def test_a_store_must_not_be_called_as_a_family(kvbench: Run, own_shims: Path) -> None:
    (own_shims / "flat.so").rename(own_shims / "main.so")
    said = kvbench("stores", env={"KVBENCH_SHIMS": str(own_shims)}).stdout
    assert "main: store: 'main' is not allowed: it is the name of a family" in said


def test_what_is_said_of_a_store_changes_no_identity(
    own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: checksum(Store(name)) for name in ("flat", "null")}
    path = own_shims / "flat.toml"
    path.write_text(path.read_text().replace("name = ", "name = 'Other' # ", 1))
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
    assert entry("flat").name == "Other"
    assert {name: checksum(Store(name)) for name in before} == before
