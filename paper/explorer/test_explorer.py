"""The explorer in headless Chromium: what it answers, what it takes, and whom it talks to."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from explorer import ANSWERS, HERE, page
from kvbench.regret import rank
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

ROOT = HERE.parents[1]
DATA = json.loads(ANSWERS.read_text())
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="Chromium is missing: apt-get install chromium chromium-driver",
)
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("explorer")
    (place / "explorer.html").write_text(page(ANSWERS))
    return place


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for option in (*OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: webdriver.Chrome, folder: Path) -> webdriver.Chrome:
    return opened_at(browser, folder, "")


def opened_at(browser: webdriver.Chrome, folder: Path, fragment: str) -> webdriver.Chrome:
    browser.get("about:blank")  # or only the fragment would change
    browser.get((folder / "explorer.html").as_uri() + fragment)
    return browser


def ranking(browser: webdriver.Chrome) -> pd.DataFrame:
    """The page's table, as text."""
    table = browser.find_element(By.ID, "ranking")
    heads = [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "thead th")]
    lines = [
        [cell.text for cell in line.find_elements(By.CSS_SELECTOR, "th, td")]
        for line in table.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]
    return pd.DataFrame(lines, columns=heads).set_index("store")


def expected(
    levels: dict[str, Any], mix: dict[str, float], measure: str = "mean"
) -> dict[str, Any]:
    """The regrets of a field by kvbench.regret, from the page's data."""
    (field,) = (
        field for field in DATA["fields"] if all(field[name] == levels[name] for name in levels)
    )
    sums: dict[str, dict[int, float]] = {}
    overwrites = {"update", "remove"} & set(mix)
    for store, own in field["stores"].items():
        if overwrites and not DATA["stores"][store].get("reuses", True):
            continue
        parts = [np.array(own[measure][name], float) * share for name, share in mix.items()]
        total = np.sum(parts, axis=0) / sum(mix.values())
        sums[store] = {trial: value for trial, value in enumerate(total, 1) if value > 0}
    return rank(sums, range(1, field["trials"] + 1)).regrets


def levels_of(field: dict[str, Any]) -> dict[str, Any]:
    return {
        name: field[name] for name in ("access", "memory", "data", "durability", "size", "records")
    }


def lacks_a_trial(field: dict[str, Any]) -> bool:
    gets = [own["mean"]["get"] for own in field["stores"].values() if "get" in own["mean"]]
    return any(all(own[at] is None for own in gets) for at in range(field["trials"]) if gets)


CASES = [({"get": 100}, "mean"), ({"get": 90, "update": 10}, "mean"), ({"insert": 100}, "p99")]


@pytest.mark.parametrize(("mix", "measure"), CASES)
def test_the_ranking_is_what_the_data_say(
    browser: webdriver.Chrome, folder: Path, mix: dict[str, float], measure: str
) -> None:
    fields = [field for field in DATA["fields"] if len(field["stores"]) > 2]
    holes = [field for field in fields if lacks_a_trial(field)]  # one that no store has
    assert holes
    for field in (fields[0], fields[len(fields) // 2], fields[-1], *holes[:3]):
        levels = levels_of(field)
        shares = "-".join(str(mix.get(name, 0)) for name in ("insert", "get", "update", "remove"))
        given = "&".join(f"{name}={level}" for name, level in levels.items())
        opened_at(browser, folder, f"#{given}&mix={shares}&measure={measure}")
        if not all(set(mix) <= own[measure].keys() for own in field["stores"].values()):
            continue
        shown = ranking(browser)
        for store, own in expected(levels, mix, measure).items():
            line = shown.loc[DATA["stores"][store]["name"]]
            assert line.verdict == own.verdict
            if not np.isnan(own.estimate):
                shown_regret = float(line.regret.replace(",", ""))
                assert shown_regret == pytest.approx(own.estimate, rel=0.006)


def test_an_operation_that_was_not_measured_is_named(
    browser: webdriver.Chrome, folder: Path
) -> None:
    field = next(
        field
        for field in DATA["fields"]
        if not any("get" in own["mean"] for own in field["stores"].values())
    )
    given = "&".join(f"{name}={level}" for name, level in levels_of(field).items())
    opened_at(browser, folder, f"#{given}&mix=50-50-0-0&measure=mean")
    answer = browser.find_element(By.ID, "answer").text
    assert answer == "Not measured for these records: get."
    assert ranking(browser).empty


def test_a_choice_changes_the_answer_and_its_address(opened: webdriver.Chrome) -> None:
    before, address = ranking(opened), opened.current_url
    select = Select(opened.find_element(By.NAME, "size"))
    other = next(o for o in select.options if o.is_enabled() and not o.is_selected())
    wanted = other.get_attribute("value")
    select.select_by_value(wanted)
    assert not ranking(opened).equals(before)
    assert opened.current_url != address
    again = opened.current_url
    opened.get("about:blank")
    opened.get(again)
    kept = Select(opened.find_element(By.NAME, "size")).first_selected_option
    assert kept.get_attribute("value") == wanted


def test_what_was_not_measured_together_is_said_and_kept_in_mind(
    opened: webdriver.Chrome,
) -> None:
    """No package was measured from Python at level process."""
    durability, access = (Select(opened.find_element(By.NAME, n)) for n in ("durability", "access"))
    durability.select_by_value("process")
    said = opened.find_element(By.ID, "moved")
    assert said.text == ""
    access.select_by_value("python")
    assert "Not measured with these choices: writes that survive a crash of the pr" in said.text
    assert durability.first_selected_option.get_attribute("value") == "default"
    access.select_by_value("c")
    assert said.text == ""
    assert durability.first_selected_option.get_attribute("value") == "process"


def test_a_level_is_recommended_with_its_caution(opened: webdriver.Chrome) -> None:
    caution = opened.find_element(By.ID, "caution")
    levels = Select(opened.find_element(By.NAME, "durability"))
    levels.select_by_value("process")
    assert "a loss of power may cost more than the last writes" in caution.text
    levels.select_by_value("sync")
    assert "Files are overwritten in place" in caution.text


def test_stores_that_c_cannot_call_are_left_out_on_demand(
    browser: webdriver.Chrome, folder: Path
) -> None:
    opened_at(browser, folder, "#durability=sync&size=100+KiB&mix=5-90-5-0")
    assert {"redb", "Fjall"} <= set(ranking(browser).index)
    browser.find_element(By.NAME, "c").click()
    assert not {"redb", "Fjall"} & set(ranking(browser).index)
    assert "c=yes" in browser.current_url
    caption = browser.find_element(By.CSS_SELECTOR, "#ranking caption").text
    assert "because C cannot call them" in caption


def test_a_device_that_puts_the_best_store_out_is_listed(
    browser: webdriver.Chrome, folder: Path
) -> None:
    """Even if a store that shares its place remains."""
    levels = {"access": "c", "memory": "default", "data": "incompressible", "records": 10_000}
    opened_at(browser, folder, "#durability=sync&size=10+KiB&records=10000&mix=0-95-5-0")
    first = ranking(browser).index[0]
    (field,) = (
        field
        for field in DATA["fields"]
        if levels.items() <= field.items()
        and (field["size"], field["durability"]) == ("10 KiB", "sync")
    )
    assert field["trials"] >= 5
    opened_at(browser, folder, "#durability=sync&size=10+KiB&records=10000&mix=0-95-5-0&sync=20000")
    there = ranking(browser)
    assert there.verdict[first] == "out"
    opened_at(browser, folder, "#durability=sync&size=10+KiB&records=10000&mix=0-95-5-0")
    assert "a device that syncs in 20 µs" in browser.find_element(By.ID, "flips").text


def test_the_harness_is_no_store_to_choose() -> None:
    assert not [store for store in DATA["stores"] if store.startswith("null")]


def test_syncs_are_those_of_the_mix(browser: webdriver.Chrome, folder: Path) -> None:
    opened_at(browser, folder, "#durability=sync&mix=100-0-0-0")
    inserts = ranking(browser)["syncs a write"].map(float)
    assert (inserts >= 0.9).all()
    opened_at(browser, folder, "#durability=sync&mix=0-100-0-0")
    assert set(ranking(browser)["syncs a write"]) == {""}


def test_a_file_that_only_grows_is_ranked_on_demand(
    browser: webdriver.Chrome, folder: Path
) -> None:
    """Overwritten records must matter to the mix."""
    names = {facts["name"] for facts in DATA["stores"].values() if not facts.get("reuses", True)}
    assert names
    opened_at(browser, folder, "#mix=0-50-50-0")
    assert not names & set(ranking(browser).index)
    caption = browser.find_element(By.CSS_SELECTOR, "#ranking caption").text
    assert any(f"their files only grow with this mix: {name}" in caption for name in names)
    browser.find_element(By.NAME, "grow").click()
    assert names & set(ranking(browser).index)
    assert "grow=yes" in browser.current_url
    opened_at(browser, folder, "#mix=0-100-0-0")
    assert names & set(ranking(browser).index)


def test_what_was_not_measured_is_grey(opened: webdriver.Chrome) -> None:
    choice = {
        name: Select(opened.find_element(By.NAME, name)).first_selected_option.get_attribute(
            "value"
        )
        for name in ("access", "memory", "data", "durability")
    }
    measured = {
        field["size"] for field in DATA["fields"] if all(field[n] == choice[n] for n in choice)
    }
    options = Select(opened.find_element(By.NAME, "size")).options
    assert {o.get_attribute("value") for o in options if o.is_enabled()} == measured


def test_dropped_results_stand_beside_the_reference(opened: webdriver.Chrome) -> None:
    source = ROOT / "data" / "core"
    files = opened.find_element(By.ID, "files")
    files.send_keys("\n".join(str(source / f"{n}.parquet") for n in ("cells", "operations")))
    said = opened.find_element(By.ID, "own")
    webdriver.support.wait.WebDriverWait(opened, 20).until(lambda _: said.text)
    assert "fields of yours" in said.text


def test_a_file_that_is_no_table_is_refused(opened: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    opened.find_element(By.ID, "files").send_keys(str(tmp_path / "mine.csv"))
    said = opened.find_element(By.ID, "own")
    webdriver.support.wait.WebDriverWait(opened, 20).until(lambda _: said.text)
    assert said.text.startswith("Not used: Wanted: operations.parquet and cells.parquet")


def test_it_is_accessible_and_talks_to_nobody(opened: webdriver.Chrome) -> None:
    opened.execute_script((HERE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = opened.execute_async_script("axe.run().then(arguments[0])")
    problems = [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]]
    assert problems == []
    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        and event["params"]["documentURL"].startswith("file:")
    ]
    assert asked
    assert all(url.startswith(("file:", "about:", "data:", "blob:")) for url in asked)


def test_no_part_is_wider_than_a_phone(opened: webdriver.Chrome) -> None:
    opened.set_window_size(500, 900)  # Chromium has no narrower window
    wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
    chart = opened.execute_script(
        "const inside = document.querySelector('#chart').getBoundingClientRect();"
        "return [...document.querySelectorAll('#chart svg text')].map(text =>"
        " text.getBoundingClientRect()).every(box => box.left >= inside.left - 1)"
    )
    opened.set_window_size(1200, 900)
    assert wide <= 0
    assert chart, "a label of the chart is cut"
