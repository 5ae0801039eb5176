"""LevelDB Benchmarks, 2011: where the figures of the page contradict each other or its text."""

from collections.abc import Iterator
from typing import Any

from study.common.fields import each
from study.sources import published
from study.sources.findings import Found, Range, rounded

VERSIONS = ("leveldb-2011", "leveldb-2011-wal")
WRITES, READS = ("fillseq", "fillrandom"), ("readseq", "readrandom")


Cell = tuple[str, str, str, str]


def rows_by_place() -> dict[Cell, Any]:
    """Return the figures of the page, by version, section, workload and store."""
    rows = each(published.printed("leveldb-2011"))
    return {(row.source, row.section, row.workload, row.store): row for row in rows}


def baseline(rows: dict[Cell, Any], row: Any) -> Any:
    """Return the row of the baseline to which a row states its factor."""
    section = {"readseq": "1.A", "readrandom": "1.B", "fillseq": "1.C", "fillrandom": "1.D"}
    return rows[row.source, section[row.workload], row.workload, row.store]


def of_rows() -> Iterator[Found]:
    """Check each row: its factor, its bar, and the speed that the rotation of the disk allows."""
    rows = rows_by_place()
    settings = published.printed("leveldb-2011-settings").set_index(["source", "setting"]).value
    for row in rows.values():
        where = row.source, row.section
        item = f"{row.workload} {row.store}"
        if row.section != row.printed_section and item == "readseq leveldb":
            yield Found(*where, "section number", "", row.printed_section, row.section, "")
        if row.times_baseline:
            ratio = rounded(row.value) / rounded(baseline(rows, row).value)
            if not ratio.meets(rounded(row.times_baseline)):
                now = f"{float(row.value) / float(baseline(rows, row).value):.2g}"
                yield Found(*where, "times baseline", item, row.times_baseline, now, "times")
        if row.bar_px:
            group = [
                r
                for r in rows.values()
                if (r.source, r.section, r.workload) == (*where, row.workload)
            ]
            most = max((r.value for r in group), key=float)
            px = (rounded(row.value) / rounded(most)).times(350)
            if not px.meets(Range(int(row.bar_px) - 1, int(row.bar_px) + 1)):
                now = f"{350 * float(row.value) / float(most):.0f}"
                yield Found(*where, "bar", item, row.bar_px, now, "px")
        turns = float(settings[row.source, "drive speed"]) / 60
        if row.part == "Synchronous writes" and rounded(row.value).low > turns:
            yield Found(*where, "turns of the disk", item, row.value, f"{turns:.0f}", row.unit)


def of_text() -> Iterator[Found]:
    """Check the statements of the text, and compare the two versions."""
    rows = rows_by_place()
    old, new = VERSIONS
    for (source, section, workload, store), row in rows.items():
        item = f"{workload} {store}"
        if row.part == "Synchronous writes" and rows[source, "ext4", "", store].value:
            drop = rounded(rows[source, "ext4", "", store].value) / rounded(row.value)
            if drop.low > 0.5:
                left = f"{float(rows[source, 'ext4', '', store].value) / float(row.value):.2f}"
                yield Found(source, "ext4", "much slower", item, "much slower", left, "times")
        if (section, store) == ("2.A", "leveldb"):
            other = rows[source, section, workload, "kyoto-tree"]
            if (rounded(row.value) / rounded(other.value)).low > 1:
                now = f"{float(row.value) / float(other.value):.2f}"
                yield Found(source, section, "order of stores", item, "behind", now, "times")
        copied = section in ("2.D", "3.B")
        synchronous = row.part in ("Synchronous writes", "ext4")
        if (source, store) != (old, "sqlite") or copied or synchronous:
            continue
        later = rows[new, section, workload, store].value
        gain = rounded(later) / rounded(row.value)
        percent = f"{100 * (float(later) / float(row.value) - 1):.0f}"
        if workload in WRITES and not gain.meets(Range(1.2, 1.4)):
            yield Found(old, section, "write-ahead log", item, "30", percent, "%")
        if workload in READS and not gain.meets(Range(0.9, 1.1)):
            yield Found(new, section, "read figure changed", item, later, row.value, row.unit)


CHECKS = (of_rows, of_text)
