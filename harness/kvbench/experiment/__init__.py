"""Grids of cells, what a factor means, which cells are needed, and how long they take."""
