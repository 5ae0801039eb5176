"""What RocksDB writes down of itself in a store's folder, for bindings that can't ask it."""

from pathlib import Path

WANTED = (
    "write_buffer_size",
    "max_write_buffer_number",
    "max_background_jobs",
    "compression",
    "use_fsync",
)


def read_options(folder: Path) -> dict[str, str]:
    """All settings in the newest OPTIONS file; of column families the first one's."""
    newest = max(folder.glob("OPTIONS-*"))
    settings: dict[str, str] = {}
    for line in newest.read_text().splitlines():
        name, sign, value = line.partition("=")
        if sign:
            settings.setdefault(name.strip(), value.strip())
    return settings


def effective_options(folder: Path) -> dict[str, str]:
    """In the notation of rocksdb.c."""
    settings = read_options(folder)
    found = {name: settings[name] for name in WANTED if name in settings}
    found["compression"] = found["compression"][1:].removesuffix("Compression").lower()
    found["use_fsync"] = str(int(found["use_fsync"] == "true"))
    return found | {"sync": "off"}
