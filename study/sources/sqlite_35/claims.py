"""SQLite's "35% Faster Than The Filesystem": claims.

The page writes without syncs on both sides, SQLite with a write-ahead log. Writes therefore survive
a crash of the process on both sides, so durability is equal.
"""

from study.sources.table import Source

SOURCE = Source(__file__, "sqlite-35")
