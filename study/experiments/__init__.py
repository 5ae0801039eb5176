"""Each experiment of the project: what its notebook shows."""
