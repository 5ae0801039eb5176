"""SQLite's "35 % Faster Than The Filesystem": claims, as shipped and with equal durability."""

# fmt: off - a claim is a few lines, not one for each of its parts

from collections.abc import Iterator

from study.verdicts import Claim, Limit, Side, ratio, side


def claims() -> Iterator[Claim]:
    source = "sqlite35"
    workload = "fillseq batch=1000, readrandom, overwrite"

    def blob(store: str, operation: str, durability: str) -> Side:
        return side("sqlite-35", store, operation, workload=workload, durability=durability)

    for operation, words in (("readrandom", "reads"), ("overwrite", "writes")):
        shipped, equal = (
            ratio(blob("flat", operation, level_), blob("sqlite", operation, level_))
            for level_ in ("default", "process")
        )
        yield Claim(
            f"S-{words}",
            source,
            "title",
            f"SQLite {words} blobs of 10 KB a third faster than files: 1.35 times as fast",
            shipped,
            equal,
            Limit(">=", 1.35),
            "1.35",
        )
    space = [
        ratio(
            blob("sqlite", "readrandom", level_),
            blob("flat", "readrandom", level_),
            "closed_bytes",
            "space",
        )
        for level_ in ("default", "process")
    ]
    yield Claim(
        "S-space",
        source,
        "summary",
        "and takes about 20 % less space",
        space[0],
        space[1],
        Limit("within", 0.8, 1.1),
        "0.8",
    )
