"""LMDB's In-Memory Microbenchmark, 2014: where its tables contradict each other or its text."""

from collections.abc import Iterator

from study.sources import published
from study.sources.findings import KI, Found, Range


def runs() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Iterate over the tables: the section, the store, and the figures by quantity."""
    table = published.printed("lmdb-2014")
    for (section, store), group in table.groupby(["section", "store"], sort=False):
        yield str(section), str(store), dict(zip(group.quantity, group.value, strict=True))


def of_runs() -> Iterator[Found]:
    settings = published.printed("lmdb-2014-settings").set_index(["section", "setting"]).value
    readers, writers = int(settings["2", "readers"]), int(settings["2", "writers"])
    record = int(settings["2", "key"]) + int(settings["2", "value"])
    expected = float(settings["2", "size of the database, about"]) * 1e9 / KI
    for section, store, text in runs():
        where = "lmdb-2014", section
        x = {quantity: float(value) for quantity, value in text.items()}
        records = int(settings[section, "records"])
        overhead = (x["load user"] + x["load system"]) / x["load wall"]
        if abs(overhead - x["overhead"]) > 1e-9:
            yield Found(*where, "overhead", store, text["overhead"], f"{overhead:.10f}", "1")
        used = 100 * (x["run user"] + x["run system"])
        wall = x["run wall"]  # from one hour on, printed without fractions of a second
        busy = Range(used / (wall + (1 if wall >= 3600 else 0)), used / wall)
        if not busy.meets(Range(x["cpu"] - 0.5, x["cpu"] + 1)):
            yield Found(*where, "cpu", store, text["cpu"], f"{busy.high:.1f}", "%")
        passes = x["reads"] * wall / records
        stopped = 3600 <= wall < 3630
        if passes > 1.01 * readers or (passes < 0.99 * readers and not stopped):
            yield Found(*where, "readers", store, str(readers), f"{passes:.2f}", "1")
        if x["cpu"] > 100 * (readers + writers):
            threads = f"{x['cpu'] / 100:.1f}"
            yield Found(*where, "threads", store, str(readers + writers), threads, "1")
        least = record * records / KI
        if x["load size"] < least:
            yield Found(
                *where, "less than its data", store, text["load size"], f"{least:.0f}", "KB"
            )
        if section == "2" and not 1 / 1.5 < x["load size"] / expected < 1.5:
            now = f"{x['load size'] * KI / 1e9:.1f}"
            stated = settings["2", "size of the database, about"]
            yield Found(*where, "size of the database", store, stated, now, "GB")
        growth = x["final size"] / x["load size"]
        if not 0.9 < growth < 1.1:
            yield Found(*where, "size kept", store, text["load size"], text["final size"], "KB")


CHECKS = (of_runs,)
