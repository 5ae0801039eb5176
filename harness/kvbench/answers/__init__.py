"""Recommends a store, and compares results folders."""
