"""The facts about the stores: one for each store that is compared, each with its source."""

import pytest
from kvbench.cell.factors import DEFAULT, DURABILITY
from kvbench.stores.about import about, consequence, everything
from kvbench.stores.bindings import BINDINGS
from kvbench.stores.catalogue import compared, known, names

CITED = ("licence", "latest", "maintained_by", "platforms", "processes", "known", "consequence")
FILES = ("flat", "nested")


@pytest.mark.parametrize("store", [name for name in names() if compared(name)])
def test_every_store_that_is_compared_is_described(store: str) -> None:
    facts = about(store)
    if store == "tokudb":  # no library of it could be found
        assert facts is None
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
        elif amounts in ("none", "process"):
            assert "loss of power" in found, level
        elif amounts == "sync":
            assert bool(found) == store.tears, level


def test_settings_without_any_sync_say_that_the_whole_store_may_be_lost() -> None:
    for store in ("lmdb", "lmdb-debian", "mdbx", "sqlite", "redb", "kyoto-hash", "tkrzw-hash"):
        assert "corrupt the whole store" in consequence(store, "process"), store
    for store in ("leveldb", "rocksdb", "bdb", "wiredtiger-btree", "fjall", "tidesdb"):
        assert consequence(store, "process") == "a loss of power may lose the last writes", store
    assert "synchronous=OFF" in consequence("sqlite/sqlitedict", DEFAULT, "process")
    assert "corrupt" not in consequence("sqlite/sqlite3", DEFAULT, "process")
    assert "corrupt" in consequence("bdb/bsddb3", DEFAULT, "none")
    assert consequence("lmdb/lmdb", DEFAULT, "sync") == ""


def test_a_consequence_is_of_a_level_or_a_binding() -> None:
    for store, facts in everything().items():
        own = {name for name, entry in BINDINGS.items() if entry.store == store}
        assert set(facts.consequence) <= {*DURABILITY, *own}, store
