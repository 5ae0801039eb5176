"""Which store to take."""
