"""The experiments of the project: the tables and figures that the notebook of each shows."""
