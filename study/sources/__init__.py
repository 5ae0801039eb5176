"""Published benchmarks: the claims of each source, its re-run, and the audit of its figures."""
