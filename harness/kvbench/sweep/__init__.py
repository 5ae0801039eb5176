"""Measures the cells of a grid."""

REPEATS = 2  # by default, how often a trial that the host disturbed is measured again at most
