"""The binding that does nothing. It measures the floor of the loop in Python, including the check
of the sizes."""

from collections.abc import Sequence
from pathlib import Path

from kvbench.cell.bindings import Binding, level_rows
from kvbench.cell.contract import Capability, TooLarge

LIMIT = 2**31 - 1  # bytes


class Open(Binding):
    capabilities = Capability.FORGETS
    max_key = max_value = LIMIT
    default_durability = "none"
    levels = level_rows(lacks={"*": "it keeps nothing"})

    @classmethod
    def engine_version(cls) -> str:
        return "1"

    def __init__(self, folder: Path, durability: str = "") -> None:
        del folder, durability

    def get(self, key: bytes) -> bytes | None:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        return b""

    def insert(self, key: bytes, value: bytes) -> bool:
        if not 0 < len(key) <= LIMIT or len(value) > LIMIT:
            raise TooLarge
        return True

    update = insert

    def remove(self, key: bytes) -> bool:
        if not 0 < len(key) <= LIMIT:
            raise TooLarge
        return True

    def write_batch(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        pass

    def sync(self) -> None:
        pass

    def effective_options(self) -> dict[str, str]:
        return {"keeps": "nothing"}

    def close(self) -> None:
        pass
