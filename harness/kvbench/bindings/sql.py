"""The table and the statements of sqlite.c, for the bindings of SQLite."""

MAX_KEY, MAX_VALUE = 1_000_000, 990_000_000  # bytes, as in sqlite.c
BUSY_TIMEOUT = 600  # seconds that a connection waits for another's lock

CREATE = "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
GET = "SELECT value FROM records WHERE key = ?"
INSERT = "INSERT INTO records (key, value) VALUES (?, ?)"
UPDATE = "UPDATE records SET value = ? WHERE key = ?"
REMOVE = "DELETE FROM records WHERE key = ?"
REPLACE = "REPLACE INTO records (key, value) VALUES (?, ?)"
SCAN = "SELECT key, value FROM records WHERE key >= ? ORDER BY key"
PRAGMAS = (
    "journal_mode",
    "synchronous",
    "page_size",
    "cache_size",
    "locking_mode",
    "mmap_size",
)
