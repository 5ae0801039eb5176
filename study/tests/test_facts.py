"""Tables of facts about the stores."""

from study.common import facts


def test_needs_are_met_at_all_levels_or_at_those_named() -> None:
    """SQLite comes back from a loss of power but where nothing is synced; Kyoto Cabinet's tree was
    tested in no crash state, and a folder of files has no order."""
    found = facts.met(["sqlite", "kyoto-tree", "flat"]).set_index("store")
    assert found.loc["sqlite", ["comes-back", "ordered"]].tolist() == ["recoverable, sync", "yes"]
    assert found.loc["kyoto-tree", "comes-back"] == "not known"
    assert found.loc["flat", "ordered"] == "no"
