"""SQLite's "35% Faster Than The Filesystem": claims.

The page writes without syncs on either side, SQLite with a write-ahead log: what it wrote survives
the death of the process, which is equal durability, too.
"""

from study.sources.table import Source

SOURCE = Source(__file__, "sqlite-35")
