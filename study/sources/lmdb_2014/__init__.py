"""LMDB's In-Memory Microbenchmark, 2014."""
