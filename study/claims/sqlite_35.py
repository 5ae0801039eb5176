"""SQLite's "35 % Faster Than The Filesystem": claims, as shipped and with equal durability."""

# A claim is a few lines, not one for each of its parts.
# fmt: off

from collections.abc import Iterator

from study.verdicts import Claim, Limit, Side, ratio, side


def claims() -> Iterator[Claim]:
    source = "sqlite35"

    def blob(store: str, operation: str, label: str) -> Side:
        return side("sqlite-35", store, operation, label=label)

    for operation, words in (("readrandom", "reads"), ("overwrite", "writes")):
        shipped, equal = (
            ratio(blob("flat", operation, label), blob("sqlite", operation, label))
            for label in ("as shipped", "equal settings")
        )
        yield Claim(
            f"S-{words}", source, "title", f"SQLite {words} blobs of 10 KB a third faster than files: 1.35 times as fast",
            shipped, equal, Limit(">=", 1.35, theirs=True), "1.35",
        )
    space = [
        ratio(blob("sqlite", "readrandom", label), blob("flat", "readrandom", label), "closed_bytes", "space")
        for label in ("as shipped", "equal settings")
    ]
    yield Claim("S-space", source, "summary", "and takes about 20 % less space", space[0], space[1],
                Limit("within", 0.8, 1.1), "0.8")
