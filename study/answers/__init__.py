"""Which store to choose, and whether a reader's own results agree."""
