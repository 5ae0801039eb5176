"""The facts about the stores: one for each store that is compared, each with its source."""

import pytest
from kvbench.about import about, everything
from kvbench.stores import compared, known, names

CITED = ("licence", "latest", "maintained_by", "platforms", "processes", "known")
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
