"""Intervals, and which stores are good enough."""
