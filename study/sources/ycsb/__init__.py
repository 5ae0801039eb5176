"""YCSB's core workloads."""
