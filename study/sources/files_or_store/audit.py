"""Files or an embedded store, 2023: where the text contradicts itself."""

import re
from collections.abc import Iterator

from study.common.fields import each
from study.sources import published
from study.sources.findings import MI, Found, rounded

CLASSES = {"1 KiB to 10 KiB": 5.5, "10 KiB to 100 KiB": 55, "100 KiB to 1 MiB": 562}  # mean, KiB


def of_text() -> Iterator[Found]:
    table = published.printed("files-or-store")

    def value(section: str, printed: str) -> str:
        (row,) = table[(table.section == section) & (table.printed == printed)].itertuples()
        return str(row.value)

    share, total, longest = (value("5.7", p) for p in ("90% of the time", "776 ms", "707 ms"))
    if not (rounded(longest) / rounded(total)).times(100).meets(rounded(share)):
        now = f"{100 * float(longest) / float(total):.1f}"
        yield Found("hines-2023", "5.7", "share of the sum", "nested", share, now, "%")
    one, other = value("5.1", "up to 156%"), value("5.4", "155 percent")
    if one != other:
        yield Found("hines-2023", "5.1", "two figures for one", "leveldb;rocksdb", one, other, "%")
    limit = float(value("5", "50 GiB"))
    for row in each(table):
        count = re.sub(r"^(from|over|under|up to) ", "", row.records)
        size = row.record_size.replace("up to 100 KiB", "10 KiB to 100 KiB")
        if count.isdigit() and size in CLASSES:
            gib = CLASSES[size] * int(count) / MI
            if gib > limit:
                item = f"{row.operation} {row.store} {row.record_size}"
                now = f"{gib:.1f}"
                yield Found("hines-2023", row.section, "limit", item, f"{limit:.0f}", now, "GiB")
    slow = table[(table.section == "5.7") & (table.unit == "times")]
    most = float(
        table[(table.section == "5.8") & (table.printed == "1-2x")].value.astype(float).max()
    )
    exceptions = sum(float(v) > most for v in slow.value)
    if exceptions != 1:
        yield Found("hines-2023", "5.8", "exceptions", "files", "1", str(exceptions), "1")


CHECKS = (of_text,)
WORDS = (
    Found("hines-2023", "5.2", "wording", "leveldb;rocksdb", "on and off", "default", ""),
    Found("hines-2023", "5.7", "wording", "flat", "folders", "files", ""),
    Found("hines-2023", "5.5", "wording", "remove rocksdb", "degrades", "fastest", ""),
)
