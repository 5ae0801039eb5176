"""Which store to take, and whether a reader's own results agree."""
