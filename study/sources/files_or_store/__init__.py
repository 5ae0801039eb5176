"""Files or an embedded store, 2023."""
