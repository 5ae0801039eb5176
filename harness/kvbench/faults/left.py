"""What is left of a store after a fault: a child process opens the store and reads every key."""

import hashlib
import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvbench.cell import bindings
from kvbench.cell.store import Store
from kvbench.faults.apart import LIMIT, LONGEST, apart
from kvbench.stores.opened import OpenStore, open_store

DIGEST = 8  # bytes

Value = bytes | None | str  # the digest of a value; None if the record is missing; or an error


class Left(NamedTuple):
    """What a child found in a store."""

    ended: str = ""  # how the child ended, if not by itself: HANGS, or its signal
    refused: str = ""  # the engine's error, if the store does not open
    found: tuple[Value, ...] = ()  # one for each key; fewer if the child ended while it read
    extra: int = 0  # keys that a scan yields beside the given ones
    after: str = ""  # what is wrong with a scan; else what `then` returned, or its error
    closing: str = ""  # the engine's error when it closed the store
    said: str = ""  # the end of what the engine printed


def digest(value: Any) -> bytes | None:
    """Eight bytes that stand for a value; None for a missing one. From a damaged database a binding
    may return a number or a text."""
    if value is None:
        return None
    data = value if isinstance(value, bytes) else repr(value).encode()
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


class _Seen:
    """What a child has read, in memory that outlives it: a mark for each key, and a digest."""

    UNREAD, MISSING, VALUE, ERROR = range(4)  # new memory is all UNREAD

    def __init__(self, count: int) -> None:
        self._count, self._memory = count, mmap.mmap(-1, max(1, count * (1 + DIGEST)))

    def add(self, place: int, value: Value) -> None:
        begin = place * (1 + DIGEST)
        if isinstance(value, bytes):
            self._memory[begin + 1 : begin + 1 + DIGEST] = value
            self._memory[begin] = self.VALUE
        else:
            self._memory[begin] = self.MISSING if value is None else self.ERROR

    def values(self) -> Iterator[Value]:
        for begin in range(0, self._count * (1 + DIGEST), 1 + DIGEST):
            if (mark := self._memory[begin]) == self.UNREAD:
                return
            value = self._memory[begin + 1 : begin + 1 + DIGEST]
            yield {self.MISSING: None, self.VALUE: value}.get(mark, "an error")


def why(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST]


def _value(opened: OpenStore, key: bytes) -> Value:
    try:
        return digest(opened.get(key))
    except Exception as error:  # a binding raises its engine's own exceptions
        return why(error)


def values(opened: OpenStore, keys: Sequence[bytes]) -> tuple[Value, ...]:
    return tuple(_value(opened, key) for key in keys)


def _scanned(opened: OpenStore, keys: Sequence[bytes], found: Sequence[Value]) -> tuple[int, str]:
    """How many keys a scan yields beside the given ones, and how else it differs from the reads;
    empty if it does not."""
    left = {key: value for key, value in zip(keys, found, strict=True) if value is not None}
    given, extra, unlike = set(keys), 0, 0
    for key, value in opened.scan():
        if key not in given:
            extra += 1
            continue
        read = left.pop(key, None)  # None also the second time
        unlike += not isinstance(read, str) and read != digest(value)
    unlike += sum(not isinstance(value, str) for value in left.values())
    return extra, f"unlike the reads: {unlike} records" if unlike else ""


def load(store: Store) -> None:
    """Load the code of a store, once, so that children need not."""
    if store.binding:
        bindings.load(store.binding)
    else:
        store.driver()


def _look(
    store: Store,
    folder: Path,
    keys: Sequence[bytes],
    options: dict[str, str],
    scan: bool,
    before: Callable[[Path], None] | None,
    then: Callable[[OpenStore], str] | None,
    seen: _Seen,
) -> Left:
    """Run in the child."""
    try:
        if before is not None:
            before(folder)
        opened = open_store(store, folder, **options)
    except Exception as error:
        return Left(refused=why(error) or "refused")
    found: list[Value] = []
    for place, key in enumerate(keys):
        found.append(_value(opened, key))
        seen.add(place, found[-1])
    extra, after, closing = 0, "", ""
    if scan:
        try:
            extra, differs = _scanned(opened, keys, found)
        except Exception as error:
            differs = why(error)
        after = f"scan: {differs}" if differs else ""
    if then is not None:
        try:
            then_said = then(opened)
        except Exception as error:
            then_said = why(error)
        after = after or then_said
    try:
        opened.close()
    except Exception as error:
        closing = why(error)
    return Left("", "", tuple(found), extra, after, closing)


def look(
    store: Store,
    folder: Path,
    keys: Sequence[bytes],
    options: dict[str, str] | None = None,
    *,
    scan: bool = False,
    before: Callable[[Path], None] | None = None,
    then: Callable[[OpenStore], str] | None = None,
    limit: float = LIMIT,
) -> Left:
    """Open a store in a child process, read `keys`, and close it. With `scan`, also count the keys
    that a scan yields beside these, and compare its other records with the reads. `before` is
    called with the folder; its error counts as a refusal to open. `then` is called with the store
    after the reads; its text becomes `after`, unless the scan has failed. This process must not
    have opened a store itself."""
    load(store)
    seen = _Seen(len(keys))
    answer = apart(
        lambda: _look(store, folder, keys, options or {}, scan, before, then, seen), limit
    )
    left: Left = answer.value or Left(ended=answer.ended, found=tuple(seen.values()))
    return left._replace(said=answer.said)
