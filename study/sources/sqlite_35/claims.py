"""SQLite's "35% Faster Than The Filesystem": claims.

The page writes without syncs on either side, SQLite with a write-ahead log: what it wrote survives
the death of the process, which is equal durability, too.
"""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator

from study.sources.verdicts import Claim, Limit, Side, ratio, side


def claims() -> Iterator[Claim]:
    source = "sqlite35"

    def blob(store: str, operation: str) -> Side:
        return side("sqlite-35", store, operation, label="equal settings")

    one = "the page does all of them in one transaction, ours are one each"
    for operation, words in (("readrandom", "reads"), ("overwrite", "writes")):
        yield Claim(
            f"S-{words}", source, "summary", f"SQLite {words} blobs of 10 KB about 35% faster than files: by more than a quarter",
            one, ratio(blob("flat", operation), blob("sqlite", operation)), Limit(">", 1.25), "1.35",
        )
    yield Claim(
        "S-space", source, "summary", "and takes about 20% less space: after the load, before any overwrite",
        ratio(blob("sqlite", "fillseq"), blob("flat", "fillseq"), "disk_bytes", "space"), None,
        Limit("within", 0.8, 1.1), "0.8", "0.83 by the page's own counts of bytes; ours with the store still open",
    )
