"""LevelDB Benchmarks, 2011."""
