"""SQLite's "35% Faster Than The Filesystem"."""
