"""Results folders and their tables."""
