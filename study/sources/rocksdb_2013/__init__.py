"""RocksDB's benchmarks, 2013."""
