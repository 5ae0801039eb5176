"""Figures rank only warm stores as warm, tell first cold gets from later ones, draw physical bounds
and show debt where the data have them, and say so where they do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from executed import run
from IPython.core.interactiveshell import InteractiveShell
from kvbench.answers.advise import Query, advise
from kvbench.cell.factors import LEVELS
from kvbench.results.measured import Measured
from kvbench.results.tables import TABLES, read_tables, write_tables
from kvbench.results.warm import SELDOM
from support import ROOT

from study.answers import decision, explorer
from study.common import fields, figures, formats
from study.common.results import Results
from study.experiments import builds, cold, reference

DATA = ROOT / "data"
Frames = dict[str, pd.DataFrame]
Altered = Callable[..., Path]


@pytest.fixture
def altered(tmp_path: Path) -> Altered:
    """Write committed data, changed as newer columns would be, and return the folder."""

    def write(name: str, change: Callable[[Frames], Any]) -> Path:
        frames = {key: table.to_pandas() for key, table in read_tables(DATA / name).items()}
        change(frames)
        tables = {
            key: pa.Table.from_pandas(frame, TABLES[key], preserve_index=False)
            for key, frame in frames.items()
        }
        write_tables(tmp_path, tables)
        return tmp_path

    return write


FIELD = {"record_size": "1 KiB", "records": 10_000, "compressibility": "incompressible"}
BY = ["operation", *FIELD]


def chill(share: float, *stores: str) -> Callable[[Frames], None]:
    """All cells stay warm, except that in one field these stores have a smaller share of their
    files in the page cache at the end, in more trials than a warm store may."""

    def change(frames: Frames) -> None:
        cells = frames["cells"]
        own = cells.store.isin(stores) & (cells[list(FIELD)] == pd.Series(FIELD)).all(axis=1)
        cells["cached_share"] = 1.0
        often = cells.trial <= SELDOM * cells.trial[own].max() + 1
        cells["cached_end"] = np.where(own & often, share, 0.99)

    return change


def forget(frames: Frames) -> None:
    """Remove the columns on the page cache, as in data that lack them."""
    frames["cells"][["cached_share", "cached_end"]] = np.nan


def at_process(folder: Path) -> Results:
    return Results(str(folder), varying=["durability"]).at(durability="process")


def best(folder: Path) -> pd.DataFrame:
    rows = at_process(folder).operations
    found = fields.best_of(fields.where(rows, operation="get"), "mean_ns", BY)
    return fields.where(found, **FIELD)


def test_a_store_that_did_not_stay_warm_is_shown_but_not_ranked(altered: Altered) -> None:
    (before,) = best(DATA / "reference").store
    data = at_process(altered("reference", chill(0.94, before)))
    (row,) = fields.each(best(data.folder))
    assert before not in (row.store, *row.among, *row.undecided) and row.store
    times = fields.over_trials(data.operations, "mean_ns", [*BY, "store"])
    own = fields.where(times, operation="get", store=before, **FIELD)
    assert (own["median"] > 0).all()
    assert own.cooled.all()
    assert times.cooled.sum() == 4 + 1  # operations and the load
    words = f"because less than 95% of their files were in the page cache: {before} 94%"
    assert f"ringed where drawn and not ranked, {words}" in data.conditions(settings=False)


@pytest.mark.check
@pytest.mark.parametrize("share", [0.95, None])
def test_a_share_of_95_percent_or_an_unknown_one_is_warm(
    share: float | None, altered: Altered
) -> None:
    """Data without these columns are ranked as before."""
    (before,) = best(DATA / "reference").store
    folder = altered("reference", chill(share, before) if share else forget)
    assert best(folder).store.tolist() == [before]
    assert "not ranked" not in at_process(folder).conditions()


def test_a_field_without_a_warm_store_is_blank_with_the_reason(altered: Altered) -> None:
    stores = set(read_tables(DATA / "reference")["cells"].column("store").to_pylist())
    data = at_process(altered("reference", chill(0.5, *stores)))
    found = best(data.folder)
    assert found[["store", "reason"]].to_numpy().tolist() == [["", "not warm"]]
    table = fields.best_table({"get: time": (found, str)}, data.sizes())
    assert table.endswith("| incompressible |  | not warm |  |  |")
    drawn = figures.best_figure({"get: time": (found, str)}, data)
    assert "not warm" in [text.get_text() for text in drawn.axes[0].texts]


def test_a_field_is_darker_the_further_behind_the_next_store_is() -> None:
    data = at_process(DATA / "reference")

    def drawn(margin: float, **others: tuple[str, ...]) -> tuple[float, list[str]]:
        row = FIELD | {"store": "lmdb", "value": 1.0, "margin": margin, "reason": ""}
        row |= {"among": (), "undecided": (), "near_floor": False} | others
        figure = figures.best_figure({"get: time": (pd.DataFrame([row]), str)}, data)
        (patch,) = (patch for patch in figure.axes[0].patches)
        texts = [text.get_text() for text in figure.axes[0].texts]
        plt.close(figure)
        return sum(patch.get_facecolor()[:3]), texts

    tones = [drawn(margin)[0] for margin in (float("nan"), 1.05, 1.3, 1.7, 3)]
    assert tones[0] == tones[1]
    assert tones[1:] == sorted(set(tones), reverse=True)
    _, texts = drawn(1.05, among=("mdbx",), undecided=("lmdb", "flat", "bdb"))
    assert {"lmdb", "1.0", "= mdbx  ? flat, bdb"} <= set(texts)
    many = tuple(f"store-{number}" for number in range(20))
    _, texts = drawn(1.05, among=("mdbx",), undecided=many)
    assert "= mdbx  ? 20 others" in texts


@pytest.mark.parametrize("columns", [figures.FEW, 10])
def test_a_text_stays_in_its_field(columns: int) -> None:
    """However many columns there are, and though both signs stand in it."""
    data = at_process(DATA / "reference")
    longest = max(data.stores(), key=len)
    row = FIELD | {"store": longest, "value": 1.0, "margin": 1.1, "reason": "", "near_floor": True}
    row |= {"among": (longest,), "undecided": (longest[1:],)}
    counts = [row["records"], *range(2, columns + 1)]
    figure = figures.best_figure({"get: time": (pd.DataFrame([row]), str)}, data, counts)
    figure.canvas.draw()
    (axis,) = figure.axes
    (patch,) = axis.patches
    field = patch.get_window_extent()
    texts = [text for text in axis.texts if text.get_text().startswith(("=", longest, "1.0"))]
    assert len(texts) == 3
    for text in texts:
        extent = text.get_window_extent()
        assert field.x0 <= extent.x0 and extent.x1 <= field.x1, text.get_text()
    plt.close(figure)


def test_results_at_one_level_state_only_that_one() -> None:
    both = Results(str(DATA / "durability"), varying=["durability"])
    data = both.at(durability="sync")
    assert set(data.cells.durability) == set(data.operations.durability) == {"sync"}
    assert "; durability sync; " in data.conditions()
    assert len(both.level("durability")) > 2


def test_capped_cells_and_cold_ones_are_ranked_whatever_stays_cached() -> None:
    for name, factors in (("memory-budget", ["memory", "memory_max"]), ("cold-cache", ["cache"])):
        rows = Results(str(DATA / name), varying=factors).operations
        assert not rows[(rows.cache == "cold") | (rows.memory_max != "none")].cooled.any()


def mix_gets(frames: Frames) -> None:
    """Put the first operation after each eviction into one row with the later ones, as imports may
    have them."""
    rows = frames["operations"]
    rows = rows[~rows.operation.str.endswith(cold.LATER)]
    frames["operations"] = rows.assign(per_eviction=np.nan)


def table_of(notebook: Path, label: str) -> str:
    cells = nbformat.read(notebook, 4).cells
    cell = next(cell for cell in cells if cell.source.startswith(f"#| label: {label}"))
    return str(cell.outputs[0].data["text/markdown"])


def test_first_cold_gets_are_told_from_later_ones() -> None:
    data = Results(str(DATA / "cold-cache"), varying=["cache"])
    rows = data.operations
    assert cold.times_shown(rows).startswith(
        "Cold: the first of 10 operations after each eviction alone"
    )
    found = fields.where(cold.times(rows, ["get"]), level="cold", store="lmdb")
    own = fields.where(rows, operation="get", cache="cold", store="lmdb")
    assert found["median"].tolist() == [own.p50_ns.median() / 1000]
    executed = ROOT / "notebooks" / "cold-cache.ipynb"  # of these data
    first = table_of(executed, "tbl-cold-first")
    assert first.split("\n")[2].startswith("| flat")
    assert first.split("\n")[2].split("|")[2:4] == [f" {'100':<20} ", f" {'10':<18} "]
    cold_gets = fields.where(rows, operation="get", cache="cold", store="lmdb")
    read = formats.size((cold_gets.device_read_bytes / cold_gets.n).median())
    reads = table_of(executed, "tbl-cold-reads").splitlines()
    assert f" {read} " in next(line for line in reads if line.startswith("| lmdb"))


def test_cold_data_with_one_row_for_all_say_so(altered: Altered) -> None:
    rows = Results(str(altered("cold-cache", mix_gets)), varying=["cache"]).operations
    said = "Cold: mean of the first operation after each eviction and of the later ones."
    assert cold.times_shown(rows) == said
    assert cold.first_gets(rows, ["lmdb"]).empty
    found = fields.where(cold.times(rows, ["get"]), level="warm", store="lmdb")
    own = fields.where(rows, operation="get", cache="warm", store="lmdb")
    assert found["median"].tolist() == [own.mean_ns.median() / 1000]


def know_limits(frames: Frames) -> None:
    frames["machines"]["memory_rate"] = 1e9
    frames["machines"]["sync_p50_us"] = 200.0


def test_physical_bounds_are_those_of_the_machine(altered: Altered) -> None:
    data = Results(str(altered("durability", know_limits)), varying=["durability"])
    assert data.bound("get", "1-3 KiB") == 2048
    assert data.bound("insert", "1 KiB") == 200_000


def test_writes_are_bounded_only_where_they_are_synchronous(altered: Altered) -> None:
    data = at_process(altered("reference", know_limits))
    assert data.bound("insert", "1 KiB") is None


def forget_limits(frames: Frames) -> None:
    frames["machines"]["memory_rate"] = np.nan


def test_a_machine_that_was_not_probed_bounds_nothing(altered: Altered) -> None:
    assert at_process(altered("reference", forget_limits)).bound("get", "1 KiB") is None


def test_the_longest_operation_is_set_against_a_thousand() -> None:
    """The number of operations does not matter; for a single one the share is not known."""
    rows = pd.DataFrame(
        {"max_ns": [500, 500, 9], "sum_ns": [1499, 500 + 1999, 9], "n": [1000, 2000, 1]}
    )
    found = fields.longest_share(rows)
    assert found[:2].tolist() == pytest.approx([500 / 1499] * 2)
    assert found[2:].isna().all()


def owe(frames: Frames) -> None:
    cells = frames["cells"]
    measured = {"debt_s": 1.5, "debt_cpu_s": 0.5, "debt_bytes": 2 << 20}
    spaces = {"ended_disk_bytes": 4 << 20, "debt_disk_bytes": 3 << 20}
    for column, number in (measured | spaces).items():
        cells[column] = np.where(cells.status == "ok", number, np.nan)
    cells["settled"] = np.where(cells.trial == 3, "no", "yes")


def test_debt_is_shown_where_it_was_measured(altered: Altered) -> None:
    data = at_process(altered("reference", owe))
    (row,) = fields.debts(
        data.cells[data.cells.records == 1_000_000], ["leveldb"], ["100 B"]
    ).to_numpy()
    assert row.tolist() == [
        *("leveldb", "100 B", "1.5 s", "500 ms", "2.0 MiB", "4.0 MiB", "3.0 MiB", "7 of 8")
    ]


def forget_debt(frames: Frames) -> None:
    frames["cells"]["debt_s"] = np.nan


def test_older_data_say_that_they_do_not_know_the_debt(
    altered: Altered, shell: InteractiveShell
) -> None:
    data = altered("reference", forget_debt)
    cells = Results(str(data), varying=["durability"]).cells
    assert fields.debts(cells, ["leveldb"], ["100 B"]).empty
    said = run(shell, "space", results=str(data))["tbl-debt"].data
    assert said.startswith("These results do not state what the engines still did")


def test_a_foot_states_the_least_number_of_operations(altered: Altered) -> None:
    def shorten(frames: Frames) -> None:
        rows = frames["operations"]
        own = (rows.operation == "get") & rows.cell.str.contains("_process_")
        rows.loc[rows.index[own][0], "n"] = 17

    assert ", at least 1,000 operations of each" in at_process(DATA / "reference").conditions()
    said = at_process(altered("reference", shorten)).conditions()
    assert ", at least 17 operations of each kind a trial" in said


def test_both_builds_of_an_engine_are_compared_trial_by_trial() -> None:
    data = Results(str(DATA / "builds"))
    assert set(data.cells.store.str.removesuffix("-debian")) == set(builds.costs(data).store)
    second, first = (
        fields.where(data.operations, store=name, operation="get", record_size="10 KiB")
        .set_index("trial")
        .mean_ns
        for name in ("leveldb-debian", "leveldb")
    )
    found = fields.where(builds.costs(data), store="leveldb", operation="get", record_size="10 KiB")
    assert found["median"].item() == (second / first).median()
    assert (found.low < found["median"]).all() and (found["median"] < found.high).all()
    assert len(builds.versions(data.cells)) == 4
    assert builds.panels(data)[1] == "insert, 10 KiB"


def test_what_is_not_ranked_is_ringed_and_what_has_no_value_is_not() -> None:
    rows = pd.DataFrame(
        {
            "store": ["flat", "lmdb"],
            **dict.fromkeys(("median", "low", "high"), 1.0),
            "near_floor": [False, True],
            "cooled": [True, False],
        }
    )
    figure, axis = plt.subplots()
    figures.draw_stores(axis, ["flat", "lmdb", "sqlite"], rows, near=True)
    rings = [line for line in axis.lines if line.get_markersize() == 7]
    hollows = [line for line in axis.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_ydata().tolist() for line in rings] == [[0]]
    assert [y for line in hollows for y in line.get_ydata().tolist()] == [1]
    plt.close(figure)


@pytest.mark.check
def test_a_datum_times_ten_changes_all_that_rests_on_it(altered: Altered) -> None:
    """The field of the figure, the numbers of the text, the decision table, the explorer and the
    advice of the command line."""
    need = decision.Need("reads", sizes=("1 KiB",), counts=(10_000,), mix={"get": 1.0})

    def first(folder: Path) -> str:
        return next(iter(decision.ranking(Results(str(folder), varying=LEVELS), need).regrets))

    def drawn(folder: Path) -> tuple[str, ...]:
        (row,) = fields.each(best(folder))
        return row.store, *row.among, *row.undecided

    fast = first(DATA / "reference")

    def slow(frames: Frames) -> None:
        cells, rows = frames["cells"], frames["operations"]
        own = (cells[list(FIELD)] == pd.Series(FIELD)).all(axis=1)
        own &= (cells.store == fast) & (cells.durability == "process")
        hit = rows.cell.isin(cells.cell[own]) & (rows.operation == "get")
        rows.loc[hit, "sum_ns"] *= 10

    folders = DATA / "reference", altered("reference", slow)
    assert [fast in drawn(folder) for folder in folders] == [True, False]
    assert first(folders[1]) != fast

    both = [Results(str(folder), varying=LEVELS) for folder in folders]
    means = []
    for data in both:
        facts = reference.facts(reference.regrets_of(data), data)
        means.append(float(facts["process"]["stores"][fast]["mean"]))
    assert means[1] > means[0]

    answers = []
    for data in both:
        (found,) = (
            field
            for field in explorer.answers({"reference": data})["fields"]
            if (field["size"], field["records"], field["durability"])
            == ("1 KiB", 10_000, "process")
        )
        answers.append(np.array(found["stores"][fast]["mean"]["get"], dtype=float))
    known = answers[0][~np.isnan(answers[0])]
    assert len(known) and answers[1][~np.isnan(answers[1])] / known == pytest.approx(10, rel=0.001)

    query = Query(1024, 10_000, {"get": 1.0}, "process")
    times = [advise(Measured.of(folder), query).times[fast] for folder in folders]
    assert times[1] / times[0] == pytest.approx(10)


def test_exchanged_stores_exchange_wherever_they_are_named(altered: Altered) -> None:
    """In the figure, the sets of good stores, the regrets, the decision table, the advice and the
    explorer."""
    names = {"lmdb": "sqlite", "sqlite": "lmdb"}

    def exchange(frames: Frames) -> None:
        frames["cells"]["store"] = frames["cells"].store.replace(names)

    def named(store: str) -> str:
        return names.get(store, store)

    panels, tables, needs, advised, explored = [], [], [], [], []
    query = Query(1024, 10_000, {"get": 1.0}, "process")
    for folder in (DATA / "reference", altered("reference", exchange)):
        data = at_process(folder)
        gets = fields.where(data.operations, operation="get")
        found = fields.best_of(gets, "mean_ns", BY)
        panels.append(found)
        drawn = figures.best_figure({"get: time": (found, str)}, data)
        texts = [text.get_text() for text in drawn.axes[0].texts]
        tables.append([text for text in texts if text in data.stores()])
        plt.close(drawn)
        regrets = decision.ranking(data, decision.NEEDS[0]).regrets
        needs.append({store: own.estimate for store, own in regrets.items()})
        told = advise(Measured.of(folder), query)
        advised.append({store: own.estimate for store, own in told.ranking.regrets.items()})
        known = explorer.answers({"reference": Results(str(folder), varying=LEVELS)})["fields"]
        explored.append([field["stores"] for field in known])
    first, second = panels
    assert {"lmdb"} & set(first.store) and first.store.map(named).tolist() == second.store.tolist()
    for column in ("among", "undecided"):
        assert first[column].map(lambda own: sorted(map(named, own))).tolist() == [
            sorted(own) for own in second[column]
        ]
    assert list(map(named, tables[0])) == tables[1] != tables[0]
    for one, other in (needs, advised):
        assert {named(store): regret for store, regret in one.items()} == pytest.approx(other)
    means = [[{s: own["mean"] for s, own in one.items()} for one in found] for found in explored]
    assert [{named(s): own for s, own in one.items()} for one in means[0]] == means[1] != means[0]


def test_fields_that_a_sitting_measured_in_trials_of_their_own_are_compared(
    altered: Altered,
) -> None:
    """A command that measures some fields only gives their trials other numbers, which change no
    answer between fields: neither advice, nor the regrets of a need, nor the explorer's data."""

    def renumber(frames: Frames) -> None:
        cells = frames["cells"]
        cells.loc[cells.records == FIELD["records"], "trial"] += 100

    folders = DATA / "reference", altered("reference", renumber)
    query = Query(3000, 3000, {"get": 0.5, "update": 0.5}, "process")
    found = [advise(Measured.of(folder), query).ranking.regrets for folder in folders]
    assert found[0] == found[1] and next(iter(found[0].values())).sittings > 1

    both = [Results(str(folder), varying=LEVELS) for folder in folders]
    needs = [decision.ranking(data, decision.NEEDS[0]).regrets for data in both]
    assert needs[0] == needs[1]

    fields = [explorer.fields(data, 0, {}) for data in both]
    assert fields[0] == fields[1]
