"""Measures the cells of a grid."""
