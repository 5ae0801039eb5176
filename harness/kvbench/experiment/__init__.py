"""Grids of cells, the meaning of factors, the cells that are needed, and how long they take."""
